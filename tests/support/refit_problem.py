"""What the tests of the refit learner share: a problem, and a regressor that writes down what happens to it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from plr import make_candidates

__all__ = ["ROWS", "Recorder", "Unweighted", "problem"]

ROWS = 150


def problem(rows=ROWS, false_labels=2, set_size="fixed", seed=0, noise=0.1):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    y = 50.0 + 10 * (X @ [3.0, -2.0, 1.0]) + 10 * noise * random.normal(size=rows)
    S, truth = make_candidates(y, false_labels, set_size=set_size, random_state=seed, return_index=True)
    return X, y, S, truth


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts the mean label and writes down what it was fitted to."""

    fits: ClassVar[list[Any]] = []
    seen: ClassVar[list[Any]] = []

    def __init__(self, random_state=None, inner=None):
        self.random_state = random_state
        self.inner = inner

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.average(y, weights=sample_weight)
        self.X_ = X
        Recorder.fits.append((X, y, sample_weight, self.random_state, getattr(self.inner, "random_state", None)))
        return self

    def predict(self, X):
        Recorder.seen.append((self.X_, X))
        return np.full(len(X), self.mean_)


class Unweighted(Recorder):
    def fit(self, X, y):
        return super().fit(X, y)
