"""Settings that hold for all tests."""

from hypothesis import HealthCheck, settings

# The same examples everywhere, and nothing that depends on how fast or busy the machine is.
settings.register_profile("plr", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("plr")
