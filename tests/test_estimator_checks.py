"""scikit-learn's own checks, unchanged, for every learner."""

from __future__ import annotations

import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from plr import PartialLabelRegressor
from plr.learners import LEARNERS, Refit

WRAPPED = (Refit(Ridge()), Refit(DecisionTreeRegressor()))
_COUNTS_ROWS = "Leaves, bins and the committee have at least so many rows; one that weighs two counts as one there."
_LEARNS_NOISE = (
    "Two rows of one label tell how noisy rows are; one that weighs two has half the noise and tells nothing."
)


def expected_failures(estimator):
    """Return what cannot hold, with the reason, by learner."""
    if estimator.learner in ("auto", "boosting", "committee", "density"):
        return {"check_sample_weight_equivalence_on_dense_data": _COUNTS_ROWS}
    if estimator.learner == "gaussian_process":
        return {"check_sample_weight_equivalence_on_dense_data": _LEARNS_NOISE}
    return {}


@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
@parametrize_with_checks(
    [PartialLabelRegressor(learner=name) for name in (*LEARNERS, *WRAPPED, "auto")],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
