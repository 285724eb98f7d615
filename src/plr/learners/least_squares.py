"""Least squares whatever the rank: of all solutions that fit equally well, the one with the smallest coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

__all__ = ["LeastSquares", "pseudo_inverse"]

Floats = NDArray[np.float64]

# A direction in which the rows differ by less than this share of what they differ by in the widest is rounding error.
_NARROWEST = 1e-8
# Columns of length 1 whose products have a smaller eigenvalue than this, for each column, are collinear. Sums over many
# rows are exact to 1e-13 or so; eigenvalues that small would be rounding error, and what they say another each time.
_COLLINEAR = 1e-12
# Weights that differ by less than this are the same: sums of shares are 1 only up to rounding.
_SAME = 1e-13


class LeastSquares:
    """Weighted least squares on the same rows again and again, with an intercept and an L2 penalty.

    Coefficients outside the span of the rows change no prediction and are 0 in the smallest solution. So the rows are
    rotated once into as many columns as they span: at most as many as there are rows, or columns, whichever are fewer.
    What is solved for are coefficients of these columns, and the intercept. The solution is kept as a matrix while
    the weights stay the same.

    Parameters
    ----------
    X : ndarray of shape (n, columns)
    alpha : float
        The penalty on the mean of squares. The intercept has none.
    """

    def __init__(self, X: Floats, alpha: float) -> None:
        self._directions = _span(X)
        self._rows = np.column_stack([X @ self._directions, np.ones(len(X))])
        self._penalty = np.full(self._rows.shape[1], alpha)
        self._penalty[-1] = 0.0
        self._weight: Floats = np.empty(0)
        self._inverse: Floats = np.empty((0, 0))

    def solve(self, target: Floats, weight: Floats) -> Floats:
        """Return the solution, in the columns that are solved for."""
        weighted = self._rows * weight[:, None]
        if not _alike(weight, self._weight):
            gram = weighted.T @ self._rows / len(target)
            gram[np.diag_indices(len(gram))] += self._penalty
            self._inverse = pseudo_inverse(gram)
            self._weight = weight
        solution: Floats = self._inverse @ (weighted.T @ target) / len(target)
        return solution

    def predict(self, solution: Floats) -> Floats:
        """Return what a solution predicts for the rows."""
        found: Floats = self._rows @ solution
        return found

    def coefficients(self, solution: Floats) -> Floats:
        """Return a solution's coefficients of the columns of X, and the intercept last."""
        return np.append(self._directions @ solution[:-1], solution[-1])


def pseudo_inverse(gram: Floats) -> Floats:
    """Return the pseudo-inverse of the columns' products, the same up to rounding where its last digits are others.

    Columns are compared at length 1, so that neither their units nor the weights of rows pass for collinearity, and
    what counts as collinear is far above rounding error. The solution is the smallest in the columns' own units.

    Parameters
    ----------
    gram : ndarray of shape (columns, columns)
        Symmetric, without negative eigenvalues but for rounding.

    Examples
    --------
    >>> twins = np.array([[2.0, 2.0], [2.0, 2.0 + 1e-15]])
    >>> pseudo_inverse(twins) @ [8.0, 8.0]
    array([2., 2.])
    """
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))
    there = lengths > _NARROWEST * lengths.max()
    inverse = np.zeros_like(gram)
    if there.any():
        inverse[np.ix_(there, there)] = _inverse(gram[np.ix_(there, there)], lengths[there])
    return inverse


def _alike(weight: Floats, other: Floats) -> bool:
    return weight.shape == other.shape and bool((np.abs(weight - other) <= _SAME * other).all())


def _inverse(gram: Floats, lengths: Floats) -> Floats:
    scaled = gram / np.outer(lengths, lengths)
    # By far the fastest way, where there is nothing to leave out.
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if not failed and _condition(factor, scaled) > 10 * _COLLINEAR * len(scaled):
        triangle, _ = linalg.lapack.dpotri(factor, lower=1)
        triangle = np.tril(triangle)
        return (triangle + np.tril(triangle, -1).T) / np.outer(lengths, lengths)
    values, vectors = linalg.eigh(scaled, check_finite=False)
    vectors /= lengths[:, None]
    kept = values > _COLLINEAR * len(values)
    inverse: Floats = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    if not kept.all():
        idle, _ = linalg.qr(vectors[:, ~kept], mode="economic", check_finite=False)
        inverse -= idle @ (idle.T @ inverse)
        inverse -= (inverse @ idle) @ idle.T
    return inverse


def _condition(factor: Floats, matrix: Floats) -> float:
    """Return one over the condition number, which the smallest eigenvalue is no smaller than at a diagonal of 1."""
    return float(linalg.lapack.dpocon(factor, np.abs(matrix).sum(axis=0).max(), uplo="L")[0])


def _span(X: Floats) -> Floats:
    """Return an orthonormal basis of what the rows span, one column per direction, from the widest on."""
    wide = X.shape[1] > X.shape[0]
    if wide:
        basis, upper = np.linalg.qr(X.T)
        triangle: Floats = upper.T
    else:
        triangle = np.asarray(np.linalg.qr(X, mode="r"))
    _, widths, directions = linalg.svd(triangle, check_finite=False)
    found: Floats = directions[widths > _NARROWEST * widths[0]].T
    return basis @ found if wide else found
