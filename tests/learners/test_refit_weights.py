"""How weights of rows and candidates reach a scikit-learn regressor, or are drawn by where it takes none."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from plr import CandidateSets, PartialLabelRegressor, errors
from plr.learners import Refit
from plr.learners.refit.fits import weight_parameter
from support.refit_problem import ROWS, Recorder, Unweighted, problem


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # Threads that wait for each other on a busy machine would be most of the time.
    with threadpool_limits(limits=1):
        yield


@pytest.fixture
def recorded():
    Recorder.fits.clear()
    Recorder.seen.clear()
    return Recorder


class TestSampleWeight:
    COMPOSED: ClassVar[dict[str, tuple[Any, str | None]]] = {
        "pipeline": (make_pipeline(StandardScaler(), Ridge()), "ridge__sample_weight"),
        "pipeline in pipeline": (
            make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), Ridge())),
            "pipeline__ridge__sample_weight",
        ),
        "search": (GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2), "sample_weight"),
        "search over pipeline": (
            GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=2),
            "ridge__sample_weight",
        ),
        "stacking": (StackingRegressor([("a", Ridge()), ("b", DecisionTreeRegressor())], cv=2), "sample_weight"),
        "voting": (VotingRegressor([("a", Ridge()), ("b", "drop"), ("c", SVR(C=100.0))]), "sample_weight"),
        "transformed target": (TransformedTargetRegressor(Ridge(), transformer=StandardScaler()), "sample_weight"),
    }

    @pytest.mark.parametrize(("regressor", "parameter"), COMPOSED.values(), ids=COMPOSED.keys())
    def test_reaches_the_regressor_inside(self, regressor: Any, parameter: str) -> None:
        X, y, S, _ = problem()
        assert weight_parameter(regressor) == parameter
        spoiled = CandidateSets(np.where(S.row_index % 3 == 0, 100 - S.values, S.values), S.offsets)
        weight = np.where(np.arange(ROWS) % 3 == 0, 1e-6, 1.0)
        model = PartialLabelRegressor(Refit(regressor, max_rounds=4), "posterior", "huber", random_state=0)
        assert model.fit(X, spoiled, sample_weight=weight).score(X, y) > 0.9

    def test_metadata_routing(self) -> None:
        X, y, S, _ = problem()
        with config_context(enable_metadata_routing=True):
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            ridge = Ridge().set_fit_request(sample_weight=True)
            model = PartialLabelRegressor(make_pipeline(scaler, ridge), loss="huber", random_state=0).fit(X, S)
        assert model.score(X, y) > 0.99

    @pytest.mark.parametrize(
        "regressor",
        [
            KNeighborsRegressor(),
            make_pipeline(StandardScaler(), KNeighborsRegressor()),
            GridSearchCV(KNeighborsRegressor(), {"n_neighbors": [3, 5]}),
            VotingRegressor([("a", Ridge()), ("b", KNeighborsRegressor())]),
        ],
        ids=["plain", "pipeline", "search", "voting"],
    )
    def test_refused_where_there_is_no_way(self, regressor: Any) -> None:
        X, _, S, _ = problem()
        name = type(regressor).__name__
        with pytest.raises(errors.ParameterError, match=rf'{name} takes no sample_weight.*Absolute.*"resample"'):
            PartialLabelRegressor(regressor, loss="absolute").fit(X, S)
        with pytest.raises(
            errors.ParameterError, match=rf'{name} takes no sample_weight.*rows of different.*"resample"'
        ):
            PartialLabelRegressor(regressor).fit(X, S, sample_weight=np.arange(ROWS))

    def test_weights_that_say_nothing_need_no_way(self, recorded) -> None:
        X, _, S, _ = problem()
        PartialLabelRegressor(Unweighted(), "average").fit(X, S, sample_weight=(np.arange(ROWS) % 2) * 3.0)
        assert_array_equal(recorded.fits[0][0], X[1::2])

    def test_resampled_candidates(self, recorded) -> None:
        X, _, _, _ = problem()
        S = CandidateSets.from_lists([[0.0, 1.0, 2.0]] * ROWS, prior=[[0.6, 0.0, 0.4]] * ROWS)
        learner = Refit(Unweighted(), without_weights="resample")
        PartialLabelRegressor(learner, "average", "absolute", random_state=0).fit(X, S)
        features, labels, *_ = recorded.fits[0]
        assert_array_equal(features, X)
        assert set(labels) == {0.0, 2.0}
        assert np.mean(labels == 2.0) == pytest.approx(0.4, abs=0.12)

    def test_resampled_rows(self, recorded) -> None:
        X, y, _, _ = problem()
        weight = np.where(np.arange(ROWS) < 50, 0.0, np.where(np.arange(ROWS) < 100, 3.0, 1.0))
        learner = Refit(Unweighted(), without_weights="resample")
        PartialLabelRegressor(learner, random_state=0).fit(X, y, sample_weight=weight)
        features, labels, *_ = recorded.fits[0]
        rows = [int(np.flatnonzero(y == label)[0]) for label in labels]
        assert_array_equal(features, X[rows])
        assert min(rows) >= 50
        assert np.mean(np.array(rows) < 100) == pytest.approx(0.75, abs=0.12)

    def test_resampling_learns(self) -> None:
        X, y, S, _ = problem(400)
        learner = Refit(KNeighborsRegressor(10), max_rounds=10, without_weights="resample")
        weight = 1.0 + np.arange(400) % 2
        model = PartialLabelRegressor(learner, loss="absolute", random_state=0).fit(X, S, sample_weight=weight)
        assert model.score(X, y) > 0.8
