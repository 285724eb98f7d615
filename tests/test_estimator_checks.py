"""scikit-learn's own checks, unchanged, for every learner."""

from __future__ import annotations

import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from plr import PartialLabelRegressor
from plr.learners import LEARNERS, MLP, Boosting, Committee, Density, GaussianProcess, Refit

pytestmark = pytest.mark.usefixtures("small_forests")
# Each kind of learner, with as few fits as it can do with; with its defaults, what takes long is for the full run.
QUICK = (
    "linear",
    MLP(hidden=(20,), epochs=80),
    Boosting(trees=40),
    Committee(effort="low", cv=2),
    GaussianProcess(chains=1, rounds=4),
    Refit(Ridge()),
)
SLOW = (
    "auto",
    "mlp",
    "boosting",
    "committee",
    "gaussian_process",
    "density",
    Density(models="trees"),
    Refit(DecisionTreeRegressor()),
)
_COUNTS_ROWS = "Leaves, bins and the committee have at least so many rows; one that weighs two counts as one there."
_LEARNS_NOISE = (
    "Two rows of one label tell how noisy rows are; one that weighs two has half the noise and tells nothing."
)


def expected_failures(estimator):
    """Return what cannot hold, with the reason, by learner."""
    learner = LEARNERS.get(estimator.learner, Committee) if isinstance(estimator.learner, str) else estimator.learner
    kind = learner if isinstance(learner, type) else type(learner)
    if issubclass(kind, Boosting | Committee | Density):
        return {"check_sample_weight_equivalence_on_dense_data": _COUNTS_ROWS}
    if issubclass(kind, GaussianProcess):
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


def test_every_learner_is_checked():
    assert {*LEARNERS, "auto"} <= {learner for learner in (*QUICK, *SLOW) if isinstance(learner, str)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
@every_check(SLOW)
def test_scikit_learn_checks_that_take_longer(estimator, check):
    check(estimator)
