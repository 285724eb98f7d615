"""Quick functions of the features, with predictions that were made without each row's fold.

Kernel ridge regression on a few hundred landmark rows, and boosted trees where a better prediction is worth it. What
depends on the features alone is computed once, so that labels can be replaced several times at little cost. Width and
ridge are chosen on some thousand rows, and everything else is computed in blocks, so that a million rows need a matrix
of a million by fifty and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plr._fields import MATRIX, require
from plr.preprocessing.scaling import Affine
from plr.threads import LIGHTGBM, one_blas_thread

if TYPE_CHECKING:
    import lightgbm

__all__ = ["KernelSmoother", "SmoothFunction"]

Floats = NDArray[np.float64]

_LANDMARKS, _FEWEST_LANDMARKS = 500, 50
# Entries of a matrix of rows by landmarks; with many rows there are fewer landmarks.
_MOST_ENTRIES = 20_000_000
# Rows that width and ridge are chosen on.
_MOST_ROWS = 10_000
# Entries of a matrix of distances that are computed at a time.
_BLOCK = 2_000_000
# In units of the inverse of twice the number of features.
_WIDTHS = (0.25, 1.0, 4.0)
_RIDGES = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
_TREES = 60
_TREE_PARAMETERS = {
    "objective": "regression",
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 10,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "deterministic": True,
    "force_col_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
# Rows that trees are fitted to, for each fold; fewer cannot be split.
_FEWEST_ROWS_OF_TREES, _MOST_ROWS_OF_TREES = 20, 20_000


@dataclass(frozen=True)
class SmoothFunction:
    """A weighted sum of kernels around landmark rows.

    Attributes
    ----------
    landmarks : ndarray of shape (m, d)
        Encoded rows.
    width : float
        What squared distances are multiplied by.
    coefficients : ndarray of shape (m,)
    constant : float
    """

    landmarks: Floats = field(metadata=MATRIX)
    width: float
    coefficients: Floats
    constant: float

    def __post_init__(self) -> None:
        require(self.landmarks.ndim == 2 and self.width > 0.0, "landmarks or width out of range")
        require(self.coefficients.shape == (len(self.landmarks),), "landmarks and coefficients differ in number")

    def predict(self, X: Floats) -> Floats:
        """Return one value per encoded row."""
        return _by_blocks(X, self.landmarks, self.width, self.coefficients) + self.constant

    def rescaled(self, target: Affine) -> SmoothFunction:
        """Return the same function of labels in their own units, where it is one of scaled labels."""
        constant = float(target.undo(np.array(self.constant)))
        return replace(self, coefficients=self.coefficients * float(target.scale), constant=constant)


class KernelSmoother:
    """Kernel ridge regression of any labels on the same features.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Encoded rows.
    folds : sequence of index arrays
        The rows of each fold.
    seed : int
        Which rows are landmarks.
    weights : ndarray of shape (n,), optional
        How much each row counts, 1 on average; rows that count for nothing are only predicted.
    """

    @one_blas_thread()
    def __init__(
        self, X: Floats, folds: Sequence[NDArray[np.int64]], seed: int = 0, weights: Floats | None = None
    ) -> None:
        self._X, self._folds, self._seed = X, folds, seed
        self._weights = np.ones(len(X)) if weights is None else weights
        counted = np.random.default_rng(seed).permutation(np.flatnonzero(self._weights))
        count = int(np.clip(_MOST_ENTRIES // max(len(counted), 1), _FEWEST_LANDMARKS, _LANDMARKS))
        landmarks = X[np.sort(counted[:count])]
        self._looked_at = np.sort(counted[:_MOST_ROWS])
        some, counts = X[self._looked_at], self._weights[self._looked_at]
        widths = [width / (2 * max(X.shape[1], 1)) for width in _WIDTHS]
        self._choices = [_Choice(_FeatureMap(landmarks, width), some, counts) for width in widths]
        self._points: tuple[_FeatureMap, Floats, Floats] | None = None

    def from_rows(self, chosen: NDArray[np.bool_]) -> KernelSmoother:
        """Return a smoother of the same rows that is fitted to some of them alone."""
        weights = np.where(chosen, self._weights, 0.0)
        return KernelSmoother(self._X, self._folds, self._seed, weights / weights.mean())

    def out_of_fold(self, labels: Floats) -> Floats:
        """Return the prediction of each row by a function fitted without the row's fold."""
        chosen, ridge, mean = self._choose(labels)
        points, gram = self._placed(chosen)
        weights, predicted = self._weights, np.full(len(labels), mean)
        away = weights * (labels - mean)
        moment = points.T @ away
        for fold in self._folds:
            part = points[fold]
            left = gram - part.T @ (weights[fold, None] * part)
            left[np.diag_indices_from(left)] += ridge
            predicted[fold] = part @ np.linalg.solve(left, moment - part.T @ away[fold]) + mean
        return predicted

    def out_of_fold_with_trees(self, labels: Floats) -> Floats:
        """Return the same, mixed with what boosted trees predict, in the proportion that comes nearest to the labels.

        Trees find the few features that matter, and jumps.
        """
        smooth = self.out_of_fold(labels)
        trees = smooth.copy()
        with LIGHTGBM.work(1):
            for fold in self._folds:
                rows = self._rows_without(fold)
                if len(rows) >= _FEWEST_ROWS_OF_TREES and self._X.shape[1]:
                    trees[fold] = self._fit_trees(labels, rows).predict(self._X[fold], num_threads=1)
        away, weights = trees - smooth, self._weights
        size = float(weights @ away**2)
        share = float(weights @ (away * (labels - smooth))) / size if size > 0.0 else 0.0
        return smooth + min(max(share, 0.0), 1.0) * away

    def _rows_without(self, fold: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that trees are fitted to: those of other folds, or some of them."""
        others = self._weights.copy()
        others[fold] = 0.0
        rows = np.flatnonzero(others)
        if len(rows) <= _MOST_ROWS_OF_TREES:
            return rows
        return np.sort(np.random.default_rng(self._seed).permutation(rows)[:_MOST_ROWS_OF_TREES])

    def _fit_trees(self, labels: Floats, rows: NDArray[np.int64]) -> lightgbm.Booster:
        import lightgbm

        data = lightgbm.Dataset(self._X[rows], labels[rows], weight=self._weights[rows])
        return lightgbm.train({**_TREE_PARAMETERS, "seed": self._seed % 2**31}, data, _TREES)

    def fit(self, labels: Floats) -> SmoothFunction:
        """Return the function fitted to all rows."""
        chosen, ridge, mean = self._choose(labels)
        points, gram = self._placed(chosen)
        solution = np.linalg.solve(gram + ridge * np.eye(len(gram)), points.T @ (self._weights * (labels - mean)))
        return SmoothFunction(chosen.landmarks, chosen.width, chosen.projection @ solution, mean)

    def _choose(self, labels: Floats) -> tuple[_FeatureMap, float, float]:
        """Return the kernel and the ridge with the smallest leave-one-out error, and the mean label."""
        mean = float(np.average(labels, weights=self._weights))
        errors = np.array([choice.errors(labels[self._looked_at] - mean) for choice in self._choices])
        width, ridge = np.unravel_index(int(errors.argmin()), errors.shape)
        return self._choices[int(width)].kernel, float(_RIDGES[ridge]), mean

    def _placed(self, kernel: _FeatureMap) -> tuple[Floats, Floats]:
        """Return all rows as points of a kernel, and their second moments; those that were asked for last are kept."""
        if self._points is None or self._points[0] is not kernel:
            points = kernel.place(self._X)
            self._points = kernel, points, points.T @ (self._weights[:, None] * points)
        return self._points[1:]


class _FeatureMap:
    """A kernel that places rows so that their inner products are the kernel's values at the landmarks."""

    def __init__(self, landmarks: Floats, width: float) -> None:
        values, vectors = np.linalg.eigh(np.exp(-width * _squared_distances(landmarks, landmarks)))
        kept = values > 1e-8 * values[-1]
        self.landmarks, self.width = landmarks, width
        self.projection: Floats = vectors[:, kept] / np.sqrt(values[kept])

    def place(self, X: Floats) -> Floats:
        """Return the rows as points."""
        return _by_blocks(X, self.landmarks, self.width, self.projection)


class _Choice:
    """What it takes to try every ridge of one kernel on some rows: each is a division in the right directions."""

    def __init__(self, kernel: _FeatureMap, X: Floats, weights: Floats) -> None:
        self.kernel = kernel
        self._root = np.sqrt(weights)
        points = self._root[:, None] * kernel.place(X)
        eigenvalues, vectors = np.linalg.eigh(points.T @ points)
        self._turned: Floats = points @ vectors
        self._shrunk: Floats = 1.0 / (np.maximum(eigenvalues, 0.0)[:, None] + _RIDGES)
        self._left: Floats = 1.0 - np.minimum(self._turned**2 @ self._shrunk, 1.0 - 1e-3)

    def errors(self, away: Floats) -> Floats:
        """Return the mean squared leave-one-out error for each ridge."""
        target = self._root * away
        fitted = self._turned @ (self._shrunk * (self._turned.T @ target)[:, None])
        return np.asarray((((target[:, None] - fitted) / self._left) ** 2).mean(axis=0))


def _by_blocks(X: Floats, landmarks: Floats, width: float, factor: Floats) -> Floats:
    """Return the kernel's values at the landmarks times a matrix or vector, for some rows at a time."""
    found = np.empty((len(X), *factor.shape[1:]))
    step = max(_BLOCK // max(len(landmarks), 1), 1)
    for first in range(0, len(X), step):
        part = slice(first, first + step)
        found[part] = np.exp(-width * _squared_distances(X[part], landmarks)) @ factor
    return found


def _squared_distances(rows: Floats, others: Floats) -> Floats:
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * rows @ others.T
    return np.maximum(squares, 0.0)
