"""Settings that hold for all tests."""

import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The same examples everywhere, and nothing that depends on how fast or busy the machine is.
settings.register_profile("plr", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
# For kernels under a width of vectors that is not the machine's own.
settings.register_profile("few", settings.get_profile("plr"), max_examples=10)
settings.load_profile("plr")


@pytest.fixture(autouse=True)
def same_random_numbers():
    """Let what draws from the process's own random numbers, as new torch modules do, draw the same in every run."""
    np.random.seed(0)  # noqa: NPY002
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def small_forests(monkeypatch):
    """Let density estimates have few trees, in tests that do not ask how good these are."""
    from plr.densities import MODELS
    from plr.densities.forest import Forest

    few = [Forest(rows_per_leaf=rows, trees=25) for rows in (5, 30)]
    monkeypatch.setitem(MODELS, "trees", lambda _: few)
