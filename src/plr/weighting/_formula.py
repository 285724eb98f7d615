"""The formula: what share each candidate of a row gets, and what the row then costs.

One compiled row function serves every learner. It takes a prediction and a row's candidates, scores them, turns the
scores into weights by a softmax times the prior, and returns the weighted loss with its first derivative and its
curvature with respect to the prediction. The weights count as constants: no derivative passes through them. They sum to
one, except where the truth may be missing from a row: then to the probability that it is not.

Arrays that are empty stand for "uniform": no prior, no density of false labels. Everything here is float64, whatever
the network computes in.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from plr._codes import (
    ABSOLUTE,
    AVERAGE,
    HUBER,
    IDENTIFICATION,
    MISSING,
    POSTERIOR,
    PROGRESSIVE,
    SCALE,
    SQUARED,
    STUDENT,
    Formula,
)
from plr._jit import inlined, jit
from plr.weighting._noise import FAINT, log_constant, log_density, row_total, student_shares

__all__ = ["evaluate", "may_miss", "row"]

# A score this far below the row's best adds nothing to a float64 sum.
_NEGLIGIBLE = -50.0
# A prior below this counts as zero: its reciprocal, which a lone candidate's share is multiplied by, would overflow.
_NO_BELIEF = 1e-290
# The absolute loss has unbounded curvature at zero; a residual below this counts as this.
_KINK = 1e-8
# Powers of a tiny loss overflow; a score is cut here, where differences still are finite.
_HIGHEST_SCORE = 1e300


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
        total = student_shares(formula, prediction, values, prior, state, weights)
        for j in range(values.size):
            weights[j] /= total
    if not total > FAINT:
        _fill_scores(formula, prediction, values, log_q, state, weights)
        _scores_to_weights(formula.weighting == IDENTIFICATION, prior, weights)


@inlined
def may_miss(formula: Formula, state: NDArray[np.float64]) -> bool:
    """Return whether the truth may be missing from a row. To be asked once, not for every row."""
    return formula.weighting == POSTERIOR and state[MISSING] > 0.0


@jit
def _row_that_may_miss(
    formula: Formula,
    prediction: float,
    values: NDArray[np.float64],
    prior: NDArray[np.float64],
    log_q: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Do the work of `row` where the truth may be missing: weights sum to the probability that it is there."""
    size = values.size
    has_prior = prior.size > 0
    _fill_scores(formula, prediction, values, log_q, state, weights)
    best = -np.inf
    for j in range(size):
        if weights[j] > best and not (has_prior and prior[j] < _NO_BELIEF):
            best = weights[j]
    # Here constants count: what the candidates' densities add up to is held against a number.
    missing = state[MISSING]
    constant = log_constant(formula.first, formula.second, state[SCALE])
    total = missing / (1.0 - missing) * math.exp(-best - constant)
    for j in range(size):
        believed = prior[j] if has_prior else 1.0 / size
        if believed < _NO_BELIEF or weights[j] == -np.inf:
            share = 0.0
        elif weights[j] == best:
            share = believed
        else:
            share = believed * math.exp(weights[j] - best)
        weights[j] = share
        total += share
    for j in range(size):
        weights[j] /= total
    value, gradient, hessian = _reduce(formula, prediction, values, weights)
    if formula.loss == SQUARED:
        hessian = 2.0 * row_total(weights)
    return value, gradient, hessian


@inlined
def row(
    formula: Formula,
    incomplete: bool,
    prediction: float,
    values: NDArray[np.float64],
    prior: NDArray[np.float64],
    log_q: NDArray[np.float64],
    fixed: NDArray[np.float64],
    state: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Weigh a row's candidates into ``weights`` and return the row's loss, derivative and curvature.

    Where ``fixed`` is not empty, the weights are those: a start's. Rows may be ``incomplete`` if `may_miss` says so.
    """
    if fixed.size > 0:
        for j in range(values.size):
            weights[j] = fixed[j]
    elif incomplete:
        return _row_that_may_miss(formula, prediction, values, prior, log_q, state, weights)
    elif values.size == 1:
        weights[0] = 1.0
    else:
        _weigh(formula, prediction, values, prior, log_q, state, weights)
    return _reduce(formula, prediction, values, weights)


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
    if may_miss(formula, state):
        for i in range(predictions.size):
            start = offsets[i]
            stop = offsets[i + 1]
            losses[i], gradients[i], hessians[i] = _row_that_may_miss(
                formula,
                predictions[i],
                values[start:stop],
                prior[start:stop],
                log_q[start:stop],
                state,
                weights[start:stop],
            )
        return
    for i in range(predictions.size):
        start = offsets[i]
        stop = offsets[i + 1]
        value, gradient, hessian = row(
            formula,
            False,
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
