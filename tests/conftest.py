"""Settings that hold for all tests."""

from hypothesis import HealthCheck, settings

# The same examples everywhere, and nothing that depends on how fast or busy the machine is.
settings.register_profile("plr", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
# For kernels under a width of vectors that is not the machine's own.
settings.register_profile("few", settings.get_profile("plr"), max_examples=10)
settings.load_profile("plr")
