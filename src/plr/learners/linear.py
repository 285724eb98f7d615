"""The linear learner: weights and least squares in turn, until neither moves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from plr._fields import require
from plr._parameters import check_integer, check_number
from plr.candidates import CandidateSets
from plr.contracts import Fitted, Learner, Report, Task
from plr.errors import ConvergenceWarning, DivergenceError, ParameterError
from plr.preprocessing.features import Encoding, by_blocks
from plr.preprocessing.scaling import Affine, label_scale
from plr.threads import one_blas_thread
from plr.weighting.rule import row_sums

__all__ = ["FittedLinear", "LeastSquares", "Linear", "pseudo_inverse", "solve"]

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
        if len(self._weight) == 0 or (np.abs(weight - self._weight) > _SAME * self._weight).any():
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


def _inverse(gram: Floats, lengths: Floats) -> Floats:
    scaled = gram / np.outer(lengths, lengths)
    # By far the fastest way, where there is nothing to leave out.
    factor, failed = linalg.lapack.dpotrf(scaled, lower=1)
    if not failed:
        # One over the condition number, which the smallest eigenvalue is no smaller than at a diagonal of 1.
        condition, _ = linalg.lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
        if condition > 10 * _COLLINEAR * len(scaled):
            triangle = np.tril(linalg.lapack.dpotri(factor, lower=1)[0])
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


# From this round on a step that raised the loss halves those to come: weights that chase each other then meet.
_DAMPED_FROM = 50
_SMALLEST_STEP = 1 / 16
# A loss that falls by less than this share in so many rounds has settled, though predictions may creep along a kink.
_SETTLED, _SETTLED_ROUNDS = 1e-7, 10


@dataclass(frozen=True)
class FittedLinear(Fitted):
    """Coefficients in the units of the data, one for each column of the encoded features."""

    coefficients: Floats
    intercept: float
    report: Report
    features: Encoding

    def __post_init__(self) -> None:
        require(self.coefficients.shape == (self.features.width,), "coefficients and columns differ in number")

    @classmethod
    def unscaled(cls, solution: Floats, report: Report, features: Encoding, target: Affine) -> FittedLinear:
        """Return the model in the units of the data, from coefficients of scaled features, the intercept last."""
        unit = float(target.scale)
        coefficients = unit * solution[:-1] / features.scaling.scale
        intercept = unit * float(solution[-1]) + float(target.centre) - float(coefficients @ features.scaling.centre)
        return cls(coefficients, intercept, Report(report.rounds, report.loss, report.noise_scale * unit), features)

    @one_blas_thread()
    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row."""
        if not self.features.marked and not self.features.categories and self.coefficients.all():
            found: Floats = X @ self.coefficients + self.intercept
            # A gap anywhere in a row shows here, without a look at all of X; with a coefficient of 0 it might not.
            if not np.isnan(found).any():
                return found
        # Row by row: on some processors the last bits of a product depend on how many rows it has.
        return by_blocks(X, lambda rows: np.einsum("ij,j->i", self.features.expand(rows), self.coefficients)) + (
            self.intercept
        )


class Linear(Learner):
    """A linear model, solved rather than trained.

    Each round weighs the candidates around the current predictions and takes one exact step: least squares on the
    weighted candidates where the loss is squared, and otherwise on the parabolas that bound the loss (iteratively
    reweighted least squares). It starts from the candidates' prior means, or from the start's weights.

    Columns of categories become one column for each of their hundred most frequent categories. A missing number is
    replaced by the column's mean, and a further column says where.

    Parameters
    ----------
    alpha : float, default=0.0
        Strength of an L2 penalty on the coefficients of scaled features: alpha times the sum of their squares is added
        to the mean loss. With 0, collinear features share.
    max_rounds : int, default=500
    tol : float, default=1e-6
        Stop when no prediction moves by more than this, in standard deviations of the labels.
    scale_features, scale_target : bool, default=True
        Whether to bring features and labels to mean 0 and standard deviation 1 inside. It matters for ``alpha``, and
        for weightings and losses whose parameters have units.
    """

    takes = "table"
    takes_missing = True

    def __init__(
        self,
        alpha: float = 0.0,
        max_rounds: int = 500,
        tol: float = 1e-6,
        scale_features: bool = True,
        scale_target: bool = True,
    ) -> None:
        self.alpha = alpha
        self.max_rounds = max_rounds
        self.tol = tol
        self.scale_features = scale_features
        self.scale_target = scale_target

    def fit(self, task: Task) -> FittedLinear:
        """Fit coefficients to the task."""
        self.check_weighting(task.rule.weighting)
        alpha = check_number("alpha", self.alpha, low=0.0)
        most = check_integer("max_rounds", self.max_rounds, low=1)
        tolerance = check_number("tol", self.tol, low=0.0, open_low=True)
        if task.validation is not None:
            raise ParameterError("The linear learner is solved to the end and has no use for validation rows.")
        prepared = task.preprocess(self.scale_features, self.scale_target)
        features, target = prepared.encoding, prepared.target
        # Sums come out the same whatever number of threads the linear algebra would otherwise use.
        with one_blas_thread():
            log_q = task.scaled_log_q(target)
            solution, report = solve(prepared.features, prepared.sets, task, log_q, alpha, most, tolerance)
        return FittedLinear.unscaled(solution, report, features, target)


def solve(
    X: Floats, S: CandidateSets, task: Task, log_q: Floats, alpha: float, most: int, tolerance: float
) -> tuple[Floats, Report]:
    """Return coefficients of the columns, the intercept last, and how it went."""
    rule, importance = task.rule, task.sample_weight
    weight = np.ones(len(S)) if importance is None else importance / importance.mean()
    spread = label_scale(S, importance)
    state = rule.initial_state(spread)
    squares = LeastSquares(X, alpha)
    solution = squares.solve(S.mean() if task.start is None else row_sums(S.values * task.start, S), weight)
    prediction = squares.predict(solution)
    if task.start is not None and rule.learns_scale:
        # A wide scale would forget the start before the first round.
        state = rule.update_scale(prediction, S, state, np.array(task.start), weight, own=False)
    losses: list[float] = []
    scales: list[float] = []
    step = 1.0
    for done in range(1, most + 1):
        found = rule.evaluate(prediction, S, state, log_q)
        losses.append(float(np.average(found.loss, weights=weight)))
        if rule.learns_scale:
            state = rule.update_scale(prediction, S, state, found.weights, weight)
            scales.append(float(state[0]))
        task.tell(done, most, losses[-1])
        if done >= _DAMPED_FROM and losses[-1] > losses[-2]:
            step = max(step / 2, _SMALLEST_STEP)
        with np.errstate(divide="ignore", invalid="ignore"):
            aim = prediction - found.gradient / found.hessian
        if rule.may_miss:
            # A row that surely lacks its truth has no weight, and no aim.
            aim = np.where(row_sums(found.weights, S) > 0, aim, prediction)
        if not np.isfinite(aim).all():
            raise DivergenceError(
                f"In round {done} the loss's derivative or curvature is not finite, or the curvature is 0; a loss of "
                f"your own must have a curvature above 0."
            )
        solution = solution + step * (squares.solve(aim, weight * found.hessian / 2) - solution)
        moved = squares.predict(solution)
        change = float(np.abs(moved - prediction).max())
        prediction = moved
        fell = losses[-1 - _SETTLED_ROUNDS] - losses[-1] if done > _SETTLED_ROUNDS else np.inf
        settled = change <= tolerance * spread or abs(fell) <= _SETTLED * losses[-1]
        if settled and (len(scales) < 2 or abs(scales[-1] - scales[-2]) <= max(tolerance, 1e-4) * scales[-2]):
            break
    else:
        if not settled:
            warnings.warn(
                f"The linear model still moved by {change / spread:.1g} standard deviations after {most} rounds; raise "
                f"max_rounds, or tol (now {tolerance:g}).",
                ConvergenceWarning,
                stacklevel=4,
            )
    return squares.coefficients(solution), Report(done, np.array(losses), np.array(scales))
