"""Theorems 1 to 4 on a small version of the experiments."""

import numpy as np
import pytest

from plr.paper.theory import SMALL, check_theory, fit_slope, run_theory

# These compile most kernels; in one process, so that it is done once.
pytestmark = pytest.mark.xdist_group("kernels")


@pytest.fixture(scope="module")
def curves():
    return run_theory(SMALL)


def test_every_prediction_comes_out(curves):
    failed = [check["statement"] for check in check_theory(curves) if not check["holds"]]
    assert failed == []


def test_identification_needs_an_ambiguity_degree_below_one(curves):
    found = {(curve.method, curve.ambiguity): curve for curve in curves if curve.experiment == "ambiguity"}
    for method in ("IDent", "PIDent"):
        assert found[method, 0.9].at_truth[-1] == 1.0
        twins = found[method, 1.0]
        # Nothing in the data tells f from f + c, so the lot decides, and every trial ends at one of the two.
        assert 0.0 < twins.at_truth[-1] < 1.0
        assert twins.at_truth[-1] + twins.at_shifted[-1] == 1.0


def test_slope_is_that_of_a_power_law_with_noise():
    random = np.random.default_rng(0)
    sizes = [2**power for power in range(4, 14)]
    excess = [3.0 * size**-0.7 * np.exp(0.1 * random.normal()) for size in sizes]
    slope, error = fit_slope(sizes, excess)
    assert abs(slope + 0.7) < 3 * error
    assert error < 0.05


def test_slope_ends_where_the_floor_begins():
    assert fit_slope([1, 10, 100, 1000], [1.0, 0.1, 1e-30, 1e-30], floor=0.01)[0] == pytest.approx(-1.0)
    assert fit_slope([1, 10], [1e-30, 1e-30], floor=0.01) == (None, None)
