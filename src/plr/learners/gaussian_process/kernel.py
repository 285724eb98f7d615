"""The covariance of a Gaussian process, and how its parameters are learned from labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from plr.errors import DivergenceError

__all__ = ["Kernel", "cholesky"]

Floats = NDArray[np.float64]

# A constant's variance: labels have mean 0, so hardly any is needed.
_CONSTANT = 0.1
# Bounds of the logarithms of the lengths, of the Matérn and the linear part's variances and of the noise.
_LENGTHS, _MATERN, _LINEAR, _NOISE = (-3.0, 5.0), (-6.0, 3.0), (-8.0, 3.0), (-9.0, 1.0)
# How far these logarithms usually are from where they begin; the noise may be anything.
_SPREAD, _NOISE_SPREAD = 1.0, 2.0
# What is added to a diagonal, in shares of its mean, where rounding has left a matrix with eigenvalues below 0.
_MORE_JITTER = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True)
class Kernel:
    """A Matérn 3/2 part with a length for each column, a linear part, a constant, and noise.

    ``parameters`` are the logarithms of the lengths, of the two parts' variances and of the noise variance, for columns
    and labels of mean 0 and standard deviation 1.
    """

    parameters: Floats

    @classmethod
    def prior(cls, columns: int) -> Kernel:
        """Return what is assumed before any label is seen: smooth, half of it linear."""
        lengths = np.full(columns, np.log(1.5 * np.sqrt(max(columns, 1))))
        return cls(np.concatenate([lengths, np.log([0.5, 0.5, 0.3])]))

    @property
    def noise(self) -> float:
        """The noise variance."""
        return float(np.exp(self.parameters[-1]))

    def covariance(self, A: Floats, B: Floats) -> Floats:
        """Return the covariance of the function between rows of A and rows of B."""
        columns = A.shape[1]
        curved, straight = np.exp(self.parameters[columns : columns + 2])
        total: Floats = curved * _matern(A, B, self.parameters[:columns])[0]
        total += straight / max(columns, 1) * (A @ B.T)
        total += _CONSTANT
        return total

    def learned(self, X: Floats, Y: Floats, weight: Floats, iterations: int) -> Kernel:
        """Return the parameters under which the labels are likelier, a few steps from these on.

        ``Y`` has a column for each draw of the labels; their log likelihoods are averaged. A row's noise variance is
        divided by its weight. The prior of the parameters keeps few rows from saying too much.
        """
        columns, (rows, draws) = X.shape[1], Y.shape
        linear = X @ X.T / max(columns, 1)
        squares = X * X
        centre = Kernel.prior(columns).parameters
        spread = np.append(np.full(columns + 2, _SPREAD), _NOISE_SPREAD)
        diagonal = np.diag_indices(rows)

        def cost(parameters: Floats) -> tuple[float, Floats]:
            curved, straight, noise = np.exp(parameters[columns:])
            matern, slope = _matern(X, X, parameters[:columns])
            total = curved * matern + straight * linear + _CONSTANT
            total[diagonal] += noise / weight
            factor = cholesky(total)
            solved = linalg.cho_solve((factor, True), Y, check_finite=False)
            value = 0.5 * np.vdot(Y, solved) / draws + np.log(np.diag(factor)).sum()
            inverse, _ = linalg.lapack.dpotri(factor, lower=1)
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
            pull = inverse - solved @ solved.T / draws
            gradient = np.empty_like(parameters)
            # The sum over pairs of pull · slope · (difference of a column)², without an array per column.
            product = pull * slope
            product *= curved
            by_column = product.sum(axis=0) @ squares - (X * (product @ X)).sum(axis=0)
            gradient[:columns] = by_column * np.exp(-2.0 * parameters[:columns])
            gradient[columns] = 0.5 * curved * np.vdot(pull, matern)
            gradient[columns + 1] = 0.5 * straight * np.vdot(pull, linear)
            gradient[columns + 2] = 0.5 * noise * (np.diag(pull) / weight).sum()
            away = (parameters - centre) / spread
            return float(value + 0.5 * away @ away), gradient + away / spread

        # As arrays: with thousands of columns, looking at pairs one by one takes longer than the linear algebra.
        bounds = optimize.Bounds(*np.array([_LENGTHS] * columns + [_MATERN, _LINEAR, _NOISE]).T)
        found = optimize.minimize(
            cost, self.parameters, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations}
        )
        return Kernel(np.asarray(found.x, dtype=np.float64))


def cholesky(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor of a covariance or a precision.

    Rounding may have left it with eigenvalues slightly below 0. Then as little is added to its diagonal as it takes.

    Raises
    ------
    DivergenceError
        If the matrix is not finite, or no rounding of a positive one.
    """
    unit = np.diag(np.full(len(matrix), np.trace(matrix) / len(matrix)))
    for share in (0.0, *_MORE_JITTER):
        try:
            factor: Floats = linalg.cholesky(matrix + share * unit, lower=True)
            return factor
        except linalg.LinAlgError:
            continue
        except ValueError:
            # Not finite.
            break
    raise DivergenceError(
        f"A covariance of the Gaussian process, of {len(matrix)} rows, is not positive definite, even with "
        f"{_MORE_JITTER[-1]:g} of its mean variance added as noise; look for extreme entries in X and in sample_weight."
    )


def _matern(A: Floats, B: Floats, logarithms: Floats) -> tuple[Floats, Floats]:
    """Return the Matérn 3/2 correlations, and what their derivatives in the log lengths are multiples of."""
    scale = np.exp(-logarithms)
    left, right = A * scale, B * scale
    squared = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)[None, :]
    squared -= 2.0 * (left @ right.T)
    np.maximum(squared, 0.0, out=squared)
    distance = np.sqrt(3.0 * squared, out=squared)
    decay = np.exp(-distance)
    return (1.0 + distance) * decay, 3.0 * decay
