"""The linear learner: weights and least squares in turn, until neither moves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr._parameters import check_integer, check_number
from plr.candidates import CandidateSets
from plr.contracts import Fitted, Learner, Report, Task
from plr.errors import ConvergenceWarning, DivergenceError, ParameterError
from plr.learners.least_squares import LeastSquares
from plr.preprocessing.features import Encoding, by_blocks
from plr.preprocessing.scaling import Affine, label_scale
from plr.threads import one_blas_thread
from plr.weighting.rule import row_sums

__all__ = ["FittedLinear", "Linear", "solve"]

Floats = NDArray[np.float64]

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
        return by_blocks(X, lambda rows: self.features.expand(rows) @ self.coefficients + self.intercept)


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
    solution = squares.solve(_first_target(S, task.start), weight)
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
        if task.callback is not None:
            task.callback(done, most, losses[-1])
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
        settled = change <= tolerance * spread or _loss_settled(losses)
        if settled and _scale_settled(scales, tolerance):
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


def _first_target(S: CandidateSets, start: Floats | None) -> Floats:
    return S.mean() if start is None else np.add.reduceat(S.values * start, S.offsets[:-1])


def _loss_settled(losses: list[float]) -> bool:
    if len(losses) <= _SETTLED_ROUNDS:
        return False
    return abs(losses[-1 - _SETTLED_ROUNDS] - losses[-1]) <= _SETTLED * losses[-1]


def _scale_settled(scales: list[float], tolerance: float) -> bool:
    return len(scales) < 2 or abs(scales[-1] - scales[-2]) <= max(tolerance, 1e-4) * scales[-2]
