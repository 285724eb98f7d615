"""scikit-learn's own checks, unchanged, for every learner."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from plr import PartialLabelRegressor
from plr.learners import LEARNERS


@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
@parametrize_with_checks([PartialLabelRegressor(learner=name) for name in (*LEARNERS, "auto")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
