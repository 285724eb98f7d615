"""A quick smooth function of the features, with predictions that were made without each row's fold.

Kernel ridge regression on a few hundred landmark rows. What depends on the features alone is computed once, so that
labels can be replaced several times at little cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["KernelSmoother", "SmoothFunction"]

Floats = NDArray[np.float64]

_LANDMARKS = 500
# In units of the inverse of twice the number of features, which are standardised.
_WIDTHS = (0.25, 1.0, 4.0)
_RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class SmoothFunction:
    """A weighted sum of kernels around landmark rows.

    Attributes
    ----------
    centre, spread : ndarray of shape (d,)
        How features are standardised.
    landmarks : ndarray of shape (m, d)
        Standardised rows.
    width : float
        What squared distances are multiplied by.
    coefficients : ndarray of shape (m,)
    constant : float
    """

    centre: Floats
    spread: Floats
    landmarks: Floats
    width: float
    coefficients: Floats
    constant: float

    def predict(self, X: Floats) -> Floats:
        """Return one value per row of a matrix without gaps."""
        distances = _squared_distances((X - self.centre) / self.spread, self.landmarks)
        return np.exp(-self.width * distances) @ self.coefficients + self.constant


class KernelSmoother:
    """Kernel ridge regression of any labels on the same features.

    Parameters
    ----------
    X : ndarray of shape (n, d), without gaps
    folds : sequence of index arrays
        The rows of each fold.
    seed : int
        Which rows are landmarks.
    """

    def __init__(self, X: Floats, folds: Sequence[NDArray[np.int64]], seed: int = 0) -> None:
        self._folds = folds
        spread = X.std(axis=0)
        self._centre, self._spread = X.mean(axis=0), np.where(spread > 0, spread, 1.0)
        Z = (X - self._centre) / self._spread
        self._landmarks = Z[np.random.default_rng(seed).permutation(len(Z))[:_LANDMARKS]]
        between = _squared_distances(self._landmarks, self._landmarks)
        distances = _squared_distances(Z, self._landmarks)
        self._maps = [_FeatureMap(distances, between, width / (2 * max(X.shape[1], 1))) for width in _WIDTHS]

    def out_of_fold(self, labels: Floats, weights: Floats | None = None) -> Floats:
        """Return the prediction of each row by a function fitted without the row's fold."""
        chosen, ridge, counts, mean = self._choose(labels, weights)
        away, predicted = counts * (labels - mean), np.empty(len(labels))
        gram, moment = chosen.gram(counts), chosen.rows.T @ away
        for fold in self._folds:
            part = chosen.rows[fold]
            left = gram - part.T @ (counts[fold, None] * part)
            left[np.diag_indices_from(left)] += ridge
            predicted[fold] = part @ np.linalg.solve(left, moment - part.T @ away[fold]) + mean
        return predicted

    def fit(self, labels: Floats, weights: Floats | None = None) -> SmoothFunction:
        """Return the function fitted to all rows."""
        chosen, ridge, counts, mean = self._choose(labels, weights)
        gram = chosen.gram(counts)
        gram[np.diag_indices_from(gram)] += ridge
        solution = np.linalg.solve(gram, chosen.rows.T @ (counts * (labels - mean)))
        return SmoothFunction(
            self._centre, self._spread, self._landmarks, chosen.width, chosen.projection @ solution, float(mean)
        )

    def _choose(self, labels: Floats, weights: Floats | None) -> tuple[_FeatureMap, float, Floats, float]:
        """Return the width and the ridge with the smallest leave-one-out error, counts and the mean label."""
        counts = np.ones(len(labels)) if weights is None else weights / weights.mean()
        mean = float(np.average(labels, weights=counts))
        best, root = None, np.sqrt(counts)
        for candidate in self._maps:
            values, vectors = np.linalg.eigh(candidate.gram(counts)) if weights is not None else candidate.plain
            rows = root[:, None] * (candidate.rows @ vectors)
            target = root * (labels - mean)
            moment, squares = rows.T @ target, rows**2
            for ridge in _RIDGES:
                shrunk = 1.0 / (values + ridge)
                residual = (target - rows @ (shrunk * moment)) / np.maximum(1.0 - squares @ shrunk, 1e-3)
                error = float(np.mean(residual**2))
                if best is None or error < best[0]:
                    best = error, candidate, ridge
        assert best is not None
        return best[1], best[2], counts, mean


class _FeatureMap:
    """The rows as points whose inner products are the kernel's values at the landmarks."""

    def __init__(self, distances: Floats, between: Floats, width: float) -> None:
        values, vectors = np.linalg.eigh(np.exp(-width * between))
        kept = values > 1e-8 * values[-1]
        self.width = width
        self.projection: Floats = vectors[:, kept] / np.sqrt(values[kept])
        self.rows: Floats = np.exp(-width * distances) @ self.projection
        self.plain = np.linalg.eigh(self.rows.T @ self.rows)

    def gram(self, counts: Floats) -> Floats:
        return np.asarray(self.rows.T @ (counts[:, None] * self.rows))


def _squared_distances(rows: Floats, others: Floats) -> Floats:
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * rows @ others.T
    return np.maximum(squares, 0.0)
