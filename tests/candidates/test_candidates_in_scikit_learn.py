import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_consistent_length, indexable

from plr.candidates import CandidateSets
from support.three_rows import LISTS


class NearestMean(RegressorMixin, BaseEstimator):
    """Predicts one number; fits and scores on candidate sets and on nothing else."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, S):
        assert isinstance(S, CandidateSets)
        assert len(S) == len(X)
        # Each row's features hold its own first candidate: splits must keep the two together.
        np.testing.assert_array_equal(np.asarray(X)[:, 0], S.values[S.offsets[:-1]])
        self.mean_ = S.mean().mean() + self.shift
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)

    def score(self, X, S):
        assert isinstance(S, CandidateSets)
        return -np.abs(S.values - self.predict(X)[S.row_index]).mean()


class TestScikitLearn:
    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(0)
        sizes = rng.integers(1, 5, size=60)
        S = CandidateSets.from_lists([rng.normal(size=size) for size in sizes])
        return S.values[S.offsets[:-1]][:, np.newaxis], S

    def test_safe_indexing(self, S):
        assert _safe_indexing(S, [2, 0]).to_lists() == [LISTS[2], LISTS[0]]
        assert _safe_indexing(S, np.array([True, False, True])).to_lists() == [LISTS[0], LISTS[2]]
        assert _safe_indexing(S, [True, False, True]).to_lists() == [LISTS[0], LISTS[2]]
        assert _safe_indexing(S, slice(0, 2)).to_lists() == LISTS[:2]
        assert _safe_indexing(S, (0, 2)).to_lists() == [LISTS[0], LISTS[2]]
        assert _safe_indexing(S, 1).tolist() == LISTS[1]

    def test_lengths_and_indexable(self, S):
        check_consistent_length(np.ones(3), S)
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[2, 3\]"):
            check_consistent_length(np.ones(2), S)
        assert indexable(np.ones(3), S)[1] is S

    def test_train_test_split(self, data):
        X, S = data
        *_, first, second = train_test_split(X, S, random_state=0)
        assert isinstance(first, CandidateSets)
        assert (len(first), len(second)) == (45, 15)

    @pytest.mark.parametrize("frame", [np.asarray, pd.DataFrame, lambda X: pl.DataFrame(X, schema=["x"])])
    @pytest.mark.parametrize("cv", [None, 3, KFold(4, shuffle=True, random_state=0), ShuffleSplit(2, random_state=0)])
    def test_cross_validation(self, data, frame, cv):
        X, S = data
        scores = cross_val_score(NearestMean(), frame(X), S, cv=cv, error_score="raise")
        assert np.all(scores < 0)

    def test_cross_val_predict_pipeline_and_learning_curve(self, data):
        X, S = data
        assert cross_val_predict(NearestMean(), X, S, cv=3).shape == (60,)
        identity = StandardScaler(with_mean=False, with_std=False)
        assert cross_val_score(make_pipeline(identity, NearestMean()), X, S, error_score="raise").shape == (5,)
        learning_curve(NearestMean(), X, S, error_score="raise")

    def test_grid_search(self, data):
        X, S = data
        search = GridSearchCV(NearestMean(), {"shift": [0.0, 5.0]}, cv=3, error_score="raise").fit(X, S)
        assert search.best_params_ == {"shift": 0.0}
        assert search.score(X, S) < 0
