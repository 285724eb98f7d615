"""A quick smooth function of the features, with predictions that were made without each row's fold.

Kernel ridge regression on a few hundred landmark rows. What depends on the features alone is computed once, so that
labels can be replaced several times at little cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr._fields import require

__all__ = ["KernelSmoother", "SmoothFunction"]

Floats = NDArray[np.float64]

_LANDMARKS = 500
# Entries of a matrix of rows by landmarks; with many rows there are fewer landmarks.
_MOST_ENTRIES = 20_000_000
_FEWEST_LANDMARKS = 100
# In units of the inverse of twice the number of features.
_WIDTHS = (0.25, 1.0, 4.0)
_RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


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

    landmarks: Floats
    width: float
    coefficients: Floats
    constant: float

    def __post_init__(self) -> None:
        require(self.landmarks.ndim == 2 and self.width > 0.0, "landmarks or width out of range")
        require(self.coefficients.shape == (len(self.landmarks),), "landmarks and coefficients differ in number")

    def predict(self, X: Floats) -> Floats:
        """Return one value per encoded row."""
        kernel = np.exp(-self.width * _squared_distances(X, self.landmarks))
        return np.asarray(kernel @ self.coefficients + self.constant)


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
    sample_weight : ndarray of shape (n,), optional
    """

    def __init__(
        self, X: Floats, folds: Sequence[NDArray[np.int64]], seed: int = 0, sample_weight: Floats | None = None
    ) -> None:
        self._folds = folds
        self._counts = np.ones(len(X)) if sample_weight is None else sample_weight / sample_weight.mean()
        heavy = np.random.default_rng(seed).permutation(np.flatnonzero(self._counts))
        count = min(_LANDMARKS, max(_FEWEST_LANDMARKS, _MOST_ENTRIES // len(X)))
        self._landmarks = X[np.sort(heavy[:count])]
        between, distances = (
            _squared_distances(self._landmarks, self._landmarks),
            _squared_distances(X, self._landmarks),
        )
        widths = [width / (2 * max(X.shape[1], 1)) for width in _WIDTHS]
        self._maps = [_FeatureMap(distances, between, width, self._counts) for width in widths]

    def out_of_fold(self, labels: Floats) -> Floats:
        """Return the prediction of each row by a function fitted without the row's fold."""
        chosen, ridge, mean = self._choose(labels)
        counts, predicted = self._counts, np.full(len(labels), mean)
        away = counts * (labels - mean)
        moment = chosen.rows.T @ away
        for fold in self._folds:
            part = chosen.rows[fold]
            left = chosen.gram - part.T @ (counts[fold, None] * part)
            left[np.diag_indices_from(left)] += ridge
            predicted[fold] = part @ np.linalg.solve(left, moment - part.T @ away[fold]) + mean
        return predicted

    def fit(self, labels: Floats) -> SmoothFunction:
        """Return the function fitted to all rows."""
        chosen, ridge, mean = self._choose(labels)
        gram = chosen.gram + ridge * np.eye(len(chosen.gram))
        solution = np.linalg.solve(gram, chosen.rows.T @ (self._counts * (labels - mean)))
        return SmoothFunction(self._landmarks, chosen.width, chosen.projection @ solution, mean)

    def _choose(self, labels: Floats) -> tuple[_FeatureMap, float, float]:
        """Return the width and the ridge with the smallest leave-one-out error, and the mean label."""
        mean = float(np.average(labels, weights=self._counts))
        target = np.sqrt(self._counts) * (labels - mean)
        best = None
        for candidate in self._maps:
            moment = candidate.turned.T @ target
            for ridge in _RIDGES:
                shrunk = 1.0 / (candidate.eigenvalues + ridge)
                leverage = np.minimum(candidate.squares @ shrunk, 1.0 - 1e-3)
                error = float(np.mean(((target - candidate.turned @ (shrunk * moment)) / (1.0 - leverage)) ** 2))
                if best is None or error < best[0]:
                    best = error, candidate, ridge
        assert best is not None
        return best[1], best[2], mean


class _FeatureMap:
    """The rows as points whose inner products are the kernel's values at the landmarks."""

    def __init__(self, distances: Floats, between: Floats, width: float, counts: Floats) -> None:
        values, vectors = np.linalg.eigh(np.exp(-width * between))
        kept = values > 1e-8 * values[-1]
        self.width = width
        self.projection: Floats = vectors[:, kept] / np.sqrt(values[kept])
        self.rows: Floats = np.exp(-width * distances) @ self.projection
        self.gram: Floats = self.rows.T @ (counts[:, None] * self.rows)
        self.eigenvalues, turned = np.linalg.eigh(self.gram)
        # Each row in the directions of the eigenvectors, by which any ridge is a division.
        self.turned: Floats = np.sqrt(counts)[:, None] * (self.rows @ turned)
        self.squares: Floats = self.turned**2


def _squared_distances(rows: Floats, others: Floats) -> Floats:
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * rows @ others.T
    return np.maximum(squares, 0.0)
