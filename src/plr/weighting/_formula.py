"""The formula: what share each candidate of a row gets, and what the row then costs.

One compiled row function serves every learner. It takes a prediction and a row's candidates, scores them, turns the
scores into weights by a softmax times the prior, and returns the weighted loss with its first derivative and its
curvature with respect to the prediction. The weights count as constants: no derivative passes through them.

Arrays that are empty stand for "uniform": no prior, no density of false labels. Everything here is float64, whatever
the network computes in.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._jit import inlined, jit

__all__ = [
    "ABSOLUTE",
    "AVERAGE",
    "CUSTOM",
    "GAUSSIAN",
    "HUBER",
    "IDENTIFICATION",
    "LAPLACE",
    "POSTERIOR",
    "PROGRESSIVE",
    "SCALE",
    "SQUARED",
    "STATE_SIZE",
    "STUDENT",
    "Formula",
    "evaluate",
    "evidence",
    "log_constant",
    "log_density",
    "next_scale",
    "row",
    "row_evidence",
    "row_spread",
    "spread",
]

CUSTOM = 0
AVERAGE, IDENTIFICATION, PROGRESSIVE, POSTERIOR = 1, 2, 3, 4  # weightings
SQUARED, ABSOLUTE, HUBER = 1, 2, 3  # losses
GAUSSIAN, LAPLACE, STUDENT = 1, 2, 3  # noise families of the posterior

SCALE = 0  # where the learned state keeps the noise scale
STATE_SIZE = 2  # the second place is for the share of rows whose truth is missing

# A score this far below the row's best adds nothing to a float64 sum.
_NEGLIGIBLE = -50.0
# A prior below this counts as zero: its reciprocal, which a lone candidate's share is multiplied by, would overflow.
_NO_BELIEF = 1e-290
# Where a row's densities sum to less than this, some may have underflowed that matter; logarithms then take over.
_FAINT = 1e-250
# The absolute loss has unbounded curvature at zero; a residual below this counts as this.
_KINK = 1e-8
# Powers of a tiny loss overflow; a score is cut here, where differences still are finite.
_HIGHEST_SCORE = 1e300


class Formula(NamedTuple):
    """A weighting and a loss in the form the kernels take: codes, numbers and, for a user's own, function pointers."""

    weighting: int
    first: float
    """Progressive: beta1. Posterior: the noise family."""
    second: float
    """Progressive: beta2. Posterior: the degrees of freedom of Student's t."""
    loss: int
    delta: float
    score: Any
    """``score(prediction, value, loss)``, called where ``weighting`` is CUSTOM."""
    value: Any
    """``value(prediction, value)``, called where ``loss`` is CUSTOM, as are the two below."""
    derivative: Any
    curvature: Any


@inlined
def _fill_losses(formula: Formula, prediction: float, values: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Write what missing each candidate costs into ``out``."""
    size = values.size
    code = formula.loss
    if code == SQUARED:
        for j in range(size):
            residual = prediction - values[j]
            out[j] = residual * residual
    elif code == ABSOLUTE:
        for j in range(size):
            out[j] = abs(prediction - values[j])
    elif code == HUBER:
        delta = formula.delta
        for j in range(size):
            length = abs(prediction - values[j])
            out[j] = 0.5 * length * length if length <= delta else delta * (length - 0.5 * delta)
    else:
        for j in range(size):
            out[j] = formula.value(prediction, values[j])


@inlined
def _reduce(
    formula: Formula, prediction: float, values: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the weighted loss, its derivative and the curvature of its tightest quadratic bound, in the prediction.

    A candidate without weight is passed over, so that its loss may be infinite; a weight that is no number is not, so
    that a network which has left the numbers is seen to have.
    """
    size = values.size
    code = formula.loss
    value = 0.0
    gradient = 0.0
    hessian = 0.0
    if code == SQUARED:
        for j in range(size):
            weight = weights[j]
            if weight != 0.0:
                residual = prediction - values[j]
                value += weight * residual * residual
                gradient += 2.0 * weight * residual
        hessian = 2.0
    elif code == ABSOLUTE:
        for j in range(size):
            weight = weights[j]
            if weight != 0.0:
                residual = prediction - values[j]
                length = abs(residual)
                value += weight * length
                gradient += 0.0 if residual == 0.0 else math.copysign(weight, residual)
                hessian += weight / max(length, _KINK)
    elif code == HUBER:
        delta = formula.delta
        for j in range(size):
            weight = weights[j]
            if weight != 0.0:
                residual = prediction - values[j]
                length = abs(residual)
                if length <= delta:
                    value += weight * 0.5 * residual * residual
                    gradient += weight * residual
                    hessian += weight
                else:
                    value += weight * delta * (length - 0.5 * delta)
                    gradient += math.copysign(weight * delta, residual)
                    hessian += weight * delta / length
    else:
        for j in range(size):
            weight = weights[j]
            if weight != 0.0:
                value += weight * formula.value(prediction, values[j])
                gradient += weight * formula.derivative(prediction, values[j])
                hessian += weight * formula.curvature(prediction, values[j])
    return value, gradient, hessian


@inlined
def log_density(family: float, degrees: float, scale: float, residual: float) -> float:
    """Return the log density of a residual under the noise family, its normalising constant left out.

    The constant depends on the scale alone, so weights do not need it; `log_constant` has it.
    """
    ratio = residual / scale
    if family == GAUSSIAN:
        return -0.5 * ratio * ratio
    if family == LAPLACE:
        return -abs(ratio)
    return -0.5 * (degrees + 1.0) * math.log1p(ratio * ratio / degrees)


@jit
def log_constant(family: float, degrees: float, scale: float) -> float:
    """Return the normalising constant that `log_density` leaves out."""
    if family == GAUSSIAN:
        return -math.log(scale) - 0.5 * math.log(2.0 * math.pi)
    if family == LAPLACE:
        return -math.log(2.0 * scale)
    half = 0.5 * degrees
    return math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(degrees * math.pi) - math.log(scale)


@inlined
def _fill_scores(
    formula: Formula,
    prediction: float,
    values: NDArray[np.float64],
    log_q: NDArray[np.float64],
    state: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write each candidate's score into ``out``: the higher, the larger its share."""
    size = values.size
    code = formula.weighting
    if code == POSTERIOR:
        family = formula.first
        degrees = formula.second
        scale = state[SCALE]
        for j in range(size):
            out[j] = log_density(family, degrees, scale, prediction - values[j])
        if log_q.size > 0:
            for j in range(size):
                out[j] -= log_q[j]
        return
    if code == AVERAGE or (code == PROGRESSIVE and formula.second == 0.0):
        for j in range(size):
            out[j] = 0.0
        return
    _fill_losses(formula, prediction, values, out)
    if code == PROGRESSIVE:
        beta2 = formula.second
        if formula.first == 0.5:
            for j in range(size):
                out[j] = min(beta2 / math.sqrt(out[j]), _HIGHEST_SCORE)
        else:
            for j in range(size):
                out[j] = min(beta2 * out[j] ** (-formula.first), _HIGHEST_SCORE)
    elif code == IDENTIFICATION:
        for j in range(size):
            out[j] = -out[j]
    else:
        for j in range(size):
            out[j] = formula.score(prediction, values[j], out[j])


@inlined
def _scores_to_weights(hard: bool, prior: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
    """Replace scores by shares that sum to one: a softmax times the prior, or all to the highest where ``hard``."""
    size = weights.size
    has_prior = prior.size > 0
    best = -np.inf
    for j in range(size):
        if weights[j] > best and not (has_prior and prior[j] < _NO_BELIEF):
            best = weights[j]
    total = 0.0
    for j in range(size):
        believed = prior[j] if has_prior else 1.0
        distance = weights[j] - best
        if believed < _NO_BELIEF:
            share = 0.0
        elif weights[j] == best:
            # Asked before the distance, because the difference of two infinite scores is no number.
            share = believed
        elif hard or (distance <= _NEGLIGIBLE and not has_prior):
            # With a prior it may matter after all: the best score may belong to a candidate hardly believed in.
            share = 0.0
        else:
            share = believed * math.exp(distance)
        weights[j] = share
        total += share
    scale = 1.0 / total
    for j in range(size):
        weights[j] *= scale


@inlined
def _student_shares(
    formula: Formula,
    prediction: float,
    values: NDArray[np.float64],
    prior: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """Write prior · density under Student's t, constants left out, and return the sum.

    The density is a power, so it needs neither logarithm nor exponential. It is only 0 where the residual overflows.
    """
    narrow = 1.0 / (state[SCALE] * math.sqrt(formula.second))
    power = -0.5 * (formula.second + 1.0)
    total = 0.0
    for j in range(values.size):
        ratio = (prediction - values[j]) * narrow
        base = 1.0 + ratio * ratio
        weights[j] = 1.0 / (base * base) if power == -2.0 else base**power
    if prior.size > 0:
        for j in range(values.size):
            weights[j] *= prior[j]
    for j in range(values.size):
        total += weights[j]
    return total


@inlined
def _weigh(
    formula: Formula,
    prediction: float,
    values: NDArray[np.float64],
    prior: NDArray[np.float64],
    log_q: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> None:
    total = 0.0
    if formula.weighting == POSTERIOR and formula.first == STUDENT and log_q.size == 0:
        total = _student_shares(formula, prediction, values, prior, state, weights)
        for j in range(values.size):
            weights[j] /= total
    if not total > _FAINT:
        _fill_scores(formula, prediction, values, log_q, state, weights)
        _scores_to_weights(formula.weighting == IDENTIFICATION, prior, weights)


@inlined
def row(
    formula: Formula,
    prediction: float,
    values: NDArray[np.float64],
    prior: NDArray[np.float64],
    log_q: NDArray[np.float64],
    fixed: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Weigh a row's candidates into ``weights`` and return the row's loss, derivative and curvature.

    Where ``fixed`` is not empty, the weights are those: a start's.
    """
    if fixed.size > 0:
        for j in range(values.size):
            weights[j] = fixed[j]
    elif values.size == 1:
        weights[0] = 1.0
    else:
        _weigh(formula, prediction, values, prior, log_q, state, weights)
    return _reduce(formula, prediction, values, weights)


@inlined
def row_spread(
    formula: Formula,
    prediction: float,
    values: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """Return the row's part in the posterior's next scale: the mean over rows is the new scale or its square."""
    total = 0.0
    scale = state[SCALE]
    for j in range(values.size):
        residual = prediction - values[j]
        if formula.first == LAPLACE:
            total += weights[j] * abs(residual)
        elif formula.first == GAUSSIAN:
            total += weights[j] * residual * residual
        else:
            ratio = residual / scale
            total += weights[j] * (formula.second + 1.0) * residual * residual / (formula.second + ratio * ratio)
    return total


@jit
def next_scale(formula: Formula, mean_spread: float, lowest: float) -> float:
    """Turn the mean of `row_spread` into the scale of the next round."""
    if formula.first == LAPLACE:
        return max(mean_spread, lowest)
    return max(math.sqrt(mean_spread), lowest)


@inlined
def row_evidence(
    formula: Formula,
    prediction: float,
    values: NDArray[np.float64],
    prior: NDArray[np.float64],
    log_q: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """Return log Σ_j prior_j · p(y_j | prediction) / q(y_j), the constant of p left out; ``weights`` is scratch."""
    has_prior = prior.size > 0
    has_density = log_q.size > 0
    if formula.first == STUDENT and not has_density:
        total = _student_shares(formula, prediction, values, prior, state, weights)
        if total > _FAINT:
            return math.log(total) if has_prior else math.log(total / values.size)
    best = -np.inf
    total = 0.0
    for j in range(values.size):
        if has_prior and prior[j] == 0.0:
            continue
        score = log_density(formula.first, formula.second, state[SCALE], prediction - values[j])
        if has_density:
            score -= log_q[j]
        if has_prior:
            score += math.log(prior[j])
        if score == -np.inf:
            continue
        if score <= best:
            total += math.exp(score - best)
        else:
            total = total * math.exp(best - score) + 1.0
            best = score
    if not has_prior:
        best -= math.log(values.size)
    return best + math.log(total)


@jit
def evaluate(
    formula: Formula,
    predictions: NDArray[np.float64],
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    prior: NDArray[np.float64],
    log_q: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
    losses: NDArray[np.float64],
    gradients: NDArray[np.float64],
    hessians: NDArray[np.float64],
) -> None:
    """Apply `row` to every row; ``weights`` is flat, the other outputs have one entry per row."""
    for i in range(predictions.size):
        start = offsets[i]
        stop = offsets[i + 1]
        value, gradient, hessian = row(
            formula,
            predictions[i],
            values[start:stop],
            prior[start:stop],
            log_q[start:stop],
            prior[:0],
            state,
            weights[start:stop],
        )
        losses[i] = value
        gradients[i] = gradient
        hessians[i] = hessian


@jit
def evidence(
    formula: Formula,
    predictions: NDArray[np.float64],
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    prior: NDArray[np.float64],
    log_q: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Apply `row_evidence` to every row, the constant included; the flat ``weights`` are scratch."""
    constant = log_constant(formula.first, formula.second, state[SCALE])
    for i in range(predictions.size):
        start = offsets[i]
        stop = offsets[i + 1]
        out[i] = constant + row_evidence(
            formula,
            predictions[i],
            values[start:stop],
            prior[start:stop],
            log_q[start:stop],
            state,
            weights[start:stop],
        )


@jit
def spread(
    formula: Formula,
    predictions: NDArray[np.float64],
    values: NDArray[np.float64],
    offsets: NDArray[np.int64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Apply `row_spread` to every row, with the flat ``weights`` that `evaluate` left."""
    for i in range(predictions.size):
        start = offsets[i]
        stop = offsets[i + 1]
        out[i] = row_spread(formula, predictions[i], values[start:stop], state, weights[start:stop])
