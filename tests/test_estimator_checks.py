"""scikit-learn's own checks, unchanged, for every learner."""

from __future__ import annotations

import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from plr import PartialLabelRegressor
from plr.learners import LEARNERS, Density, Refit

WRAPPED = (Refit(Ridge()), Refit(DecisionTreeRegressor()))
# Density takes long, and "auto" is the committee: both for the full run.
QUICK = (*(name for name in LEARNERS if name != "density"), *WRAPPED)
SLOW = ("density", Density(models="trees"), "auto")
_COUNTS_ROWS = "Leaves, bins and the committee have at least so many rows; one that weighs two counts as one there."
_LEARNS_NOISE = (
    "Two rows of one label tell how noisy rows are; one that weighs two has half the noise and tells nothing."
)


def expected_failures(estimator):
    """Return what cannot hold, with the reason, by learner."""
    if estimator.learner in ("auto", "boosting", "committee", "density") or isinstance(estimator.learner, Density):
        return {"check_sample_weight_equivalence_on_dense_data": _COUNTS_ROWS}
    if estimator.learner == "gaussian_process":
        return {"check_sample_weight_equivalence_on_dense_data": _LEARNS_NOISE}
    return {}


def every_check(learners):
    return parametrize_with_checks(
        [PartialLabelRegressor(learner=learner) for learner in learners], expected_failed_checks=expected_failures
    )


@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
@every_check(QUICK)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
@every_check(SLOW)
def test_scikit_learn_checks_that_take_longer(estimator, check):
    check(estimator)
