"""Features of every kind for scikit-learn regressors, and what is refused."""

from __future__ import annotations

import re
import traceback
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from plr import PartialLabelRegressor, errors, make_candidates
from plr.learners import Refit
from plr.learners.refit.fits import weight_parameter
from support.refit_problem import ROWS, Recorder, problem


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # Threads that wait for each other on a busy machine would be most of the time.
    with threadpool_limits(limits=1):
        yield


class TestFeatures:
    """X of every kind, none of which plr knows anything about."""

    def mixed(self):
        X, y, S, _ = problem()
        kind = np.array(["low", "high"])[(X[:, 0] > 0).astype(int)]
        return {"kind": kind, "first": X[:, 0], "second": X[:, 1], "third": X[:, 2]}, y, S

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
    def test_frames_with_text(self, frame: Any) -> None:
        columns, y, S = self.mixed()
        encoding = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
        model = PartialLabelRegressor(make_pipeline(encoding, Ridge()), random_state=0).fit(frame(columns), S)
        assert model.score(frame(columns), y) > 0.99
        assert model.feature_names_in_.tolist() == ["kind", "first", "second", "third"]
        with pytest.raises(errors.FeatureError, match=r"third\n$"):
            model.predict(frame({name: columns[name] for name in ("kind", "first", "second")}))

    @pytest.mark.parametrize(
        "kind",
        [list, pd.Series, pl.Series, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (np.array, tuple))],
    )
    def test_texts(self, kind: Any) -> None:
        random = np.random.default_rng(0)
        counts = random.integers(0, 4, size=(ROWS, 3))
        texts = [" ".join(np.repeat(["one", "two", "three"], row)) + " end" for row in counts]
        y = counts @ [1.0, 20.0, 3.0]
        S = make_candidates(y, 2, set_size="fixed", random_state=0)
        model = PartialLabelRegressor(make_pipeline(CountVectorizer(), Ridge(0.1)), random_state=0).fit(kind(texts), S)
        assert model.score(kind(texts), y) > 0.98

    @pytest.mark.parametrize(
        "kind", ["csr", "coo", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("csc", "lil"))]
    )
    def test_sparse(self, kind: str) -> None:
        X, _, S, _ = problem()
        dense = PartialLabelRegressor(Ridge(), random_state=0).fit(X, S).predict(X)
        for matrix in (sparse.csr_matrix(X).asformat(kind), sparse.csr_array(X).asformat(kind)):
            assert_allclose(PartialLabelRegressor(Ridge(), random_state=0).fit(matrix, S).predict(matrix), dense)
        with pytest.raises(TypeError, match=r"(?i)sparse"):
            PartialLabelRegressor(GaussianProcessRegressor()).fit(sparse.csr_matrix(X), S)

    def test_lists_and_images(self) -> None:
        X, _, S, _ = problem()
        plain = PartialLabelRegressor(Ridge(), random_state=0).fit(X, S).predict(X)
        assert_array_equal(PartialLabelRegressor(Ridge(), random_state=0).fit(X.tolist(), S).predict(X), plain)
        flatten = FunctionTransformer(lambda images: images.reshape(len(images), -1))
        images = X.reshape(ROWS, 3, 1)
        deep = PartialLabelRegressor(make_pipeline(flatten, Ridge()), random_state=0).fit(images, S)
        assert_array_equal(deep.predict(images), plain)

    def test_missing_values_as_the_regressor_takes_them(self) -> None:
        X, y, S, _ = problem()
        X[::9, 1] = np.nan
        trees = HistGradientBoostingRegressor(max_iter=10, learning_rate=0.3, min_samples_leaf=5)
        search = GridSearchCV(trees, {"max_depth": [4]}, cv=2)
        for regressor in (trees, make_pipeline(FunctionTransformer(np.nan_to_num), Ridge()), search):
            model = PartialLabelRegressor(Refit(regressor, cv=2, max_rounds=3), random_state=0).fit(X, S)
            assert model.score(X, y) > 0.5
            assert model.__sklearn_tags__().input_tags.allow_nan
        with pytest.raises(errors.FeatureError, match=r"NaN.*\n.*row 0, column 1"):
            PartialLabelRegressor(Ridge()).fit(X, S)

    def test_similarities_instead_of_features(self) -> None:
        """Rows that are left out of a matrix of similarities are left out of its columns too."""
        X, _, S, _ = problem()
        new = problem(20, seed=1)[0]
        weight = np.arange(ROWS) % 4.0
        for weighting, loss in (("posterior", "squared"), ("posterior", "absolute"), ("average", "squared")):
            learned = PartialLabelRegressor(KernelRidge(0.1, kernel="rbf", gamma=0.1), weighting, loss, random_state=0)
            given = PartialLabelRegressor(KernelRidge(0.1, kernel="precomputed"), weighting, loss, random_state=0)
            learned.fit(X, S, sample_weight=weight)
            given.fit(rbf_kernel(X, gamma=0.1), S, sample_weight=weight)
            assert_allclose(given.predict(rbf_kernel(new, X, gamma=0.1)), learned.predict(new), rtol=1e-6)
            assert_allclose(given.identify().probability, learned.identify().probability, rtol=1e-6)

    def test_searches_reach_the_regressor(self) -> None:
        X, _, S, _ = problem()
        for learner, name in ((Refit(Ridge(), max_rounds=3), "learner__regressor__alpha"), (Ridge(), "learner__alpha")):
            search = GridSearchCV(PartialLabelRegressor(learner, random_state=0), {name: [1e-3, 1e5]}, cv=2).fit(X, S)
            assert search.best_params_[name] == 1e-3


class Wide(Recorder):
    def predict(self, X):
        return np.zeros((len(X), 2))


class Wordy(Recorder):
    def predict(self, X):
        return ["many"] * len(X)


class Lost(Recorder):
    def predict(self, X):
        return np.where(np.arange(len(X)) == 3, np.nan, self.mean_)


class Column(Recorder):
    def predict(self, X):
        return super().predict(X)[:, None]


class Bare:
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


class TestBadInput:
    CASES: ClassVar[dict[str, tuple[Any, dict[str, Any], type[Exception], str]]] = {
        "no parameters": (Bare(), {}, errors.ParameterError, "Bare has no get_params, set_params.*BaseEstimator"),
        "a classifier": (LogisticRegression(), {}, errors.ParameterError, "LogisticRegression is a classifier"),
        "a clusterer": (KMeans(2), {}, errors.ParameterError, "KMeans is a clusterer"),
        "a class": (Ridge, {}, errors.ParameterError, r"the class Ridge; give an instance, Ridge\(\)"),
        "no predict": (StandardScaler(), {}, errors.ParameterError, "StandardScaler has no predict"),
        "nothing": (None, {}, errors.ParameterError, "NoneType has no fit"),
        "two outputs": (Wide(), {}, errors.ParameterError, r"Wide predicted.*\(30, 2\) for 30 rows.*\(30,\)"),
        "words": (Wordy(), {}, errors.ParameterError, "Wordy predicted something that is no number.*'many'"),
        "no number": (Lost(), {}, errors.DivergenceError, r"Lost predicted nan for row \d+ in round 1"),
        "one fold": (Ridge(), {"cv": 1}, errors.ParameterError, "cv must be at least 2"),
        "folds as text": (Ridge(), {"cv": "five"}, errors.ParameterError, "cv must be.*'five'"),
        "no rounds": (Ridge(), {"max_rounds": 0}, errors.ParameterError, "max_rounds must be at least 1"),
        "negative tol": (Ridge(), {"tol": -1.0}, errors.ParameterError, "tol must be at least 0"),
        "misspelt": (Ridge(), {"without_weights": "resampl"}, errors.ParameterError, "did you mean 'resample'"),
    }

    @pytest.mark.parametrize(("regressor", "changed", "error", "message"), CASES.values(), ids=CASES.keys())
    def test_is_refused(self, regressor: Any, changed: dict[str, Any], error: type[Exception], message: str) -> None:
        X, _, S, _ = problem()
        with pytest.raises(error, match=message):
            PartialLabelRegressor(Refit(regressor, **changed), random_state=0).fit(X, S)

    def test_validation_rows(self) -> None:
        X, y, S, _ = problem()
        with pytest.raises(errors.ParameterError, match="no use for validation"):
            PartialLabelRegressor(Ridge()).fit(X, S, validation=(X, y))

    def test_what_the_regressor_raises_comes_through_with_its_place(self) -> None:
        X, y, S, _ = problem()
        with pytest.raises(ValueError, match="n_neighbors") as caught:
            PartialLabelRegressor(Refit(KNeighborsRegressor(130)), n_jobs=2).fit(X, S)
        told = "".join(traceback.format_exception(caught.value))
        assert re.search(r"fitting KNeighborsRegressor in round 1, without fold \d of 5", told)
        with pytest.raises(ValueError, match="alpha") as caught:
            PartialLabelRegressor(Ridge(-1.0)).fit(X, y)
        assert "fitting Ridge to all rows" in "".join(traceback.format_exception(caught.value))

    def test_a_column_of_predictions_will_do(self) -> None:
        X, _, S, _ = problem()
        flat, column = (
            PartialLabelRegressor(kind(), random_state=0).fit(X, S).predict(X) for kind in (Recorder, Column)
        )
        assert_array_equal(flat, column)

    @pytest.mark.parametrize(
        ("X", "error", "message"),
        [
            (None, errors.FeatureTypeError, "must have rows.*NoneType"),
            (3.0, errors.FeatureTypeError, "must have rows.*float"),
            ([], errors.FeatureError, "Expected 2D array"),
            ([1.0, 2.0], errors.FeatureError, "Expected 2D array"),
            (np.array([[1.0], [np.inf]]), errors.FeatureError, "row 1, column 0"),
            (np.array([[1j], [2.0]]), errors.FeatureError, "(?i)complex"),
            (np.empty((2, 0)), errors.FeatureError, "0 feature"),
            ([[1.0], [2.0, 3.0]], ValueError, "(?s)."),
            (["a", "b"], ValueError, "(?s)."),
        ],
        ids=["none", "number", "empty", "flat", "infinite", "complex", "no columns", "ragged", "texts"],
    )
    def test_features(self, X: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            PartialLabelRegressor(Ridge()).fit(X, [[1.0, 2.0], [3.0]])

    def test_a_failed_fit_changes_nothing(self) -> None:
        X, _, S, _ = problem()
        model = PartialLabelRegressor(Refit(Ridge()), random_state=0).fit(X, S)
        before = model.predict(X)
        with pytest.raises(ValueError, match="alpha"):
            model.set_params(learner__regressor__alpha=-1.0).fit(X[:, :2], S)
        assert_array_equal(model.predict(X), before)


def test_splitters_inside_are_seeded():
    X, _, S, _ = problem(60)
    search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1.0, 30.0, 100.0]}, cv=KFold(2, shuffle=True))
    model = PartialLabelRegressor(Refit(search, cv=2, max_rounds=3), random_state=0)
    assert_array_equal(model.fit(X, S).predict(X), model.fit(X, S).predict(X))
    assert search.cv.random_state is None


def test_ensembles_of_pipelines_hand_on_no_weights():
    assert weight_parameter(VotingRegressor([("a", make_pipeline(Ridge())), ("b", make_pipeline(Ridge()))])) is None
    assert weight_parameter(VotingRegressor([("a", Ridge()), ("b", Ridge())])) == "sample_weight"


def test_sequences_may_differ_in_length():
    class Mean(RegressorMixin, BaseEstimator):
        def fit(self, X, y):
            self.shift_ = np.mean(y) - np.mean([np.mean(row) for row in X])
            return self

        def predict(self, X):
            return np.array([np.mean(row) for row in X]) + self.shift_

    random = np.random.default_rng(0)
    X = [random.normal(size=size).tolist() for size in random.integers(2, 6, 40)]
    S = [[np.mean(row), 5.0] for row in X]
    model = PartialLabelRegressor(Mean(), random_state=0).fit(X, S)
    assert np.isfinite(model.predict([*X[:1], [1.0] * 9])).all()
    signals = random.normal(size=(40, 5, 2))
    model = PartialLabelRegressor(Mean(), random_state=0).fit(signals, S)
    assert np.isfinite(model.predict(random.normal(size=(3, 7, 2)))).all()
