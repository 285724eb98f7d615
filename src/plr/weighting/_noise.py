"""Noise around predictions: densities, the evidence of a row's candidates, and the learned scale.

A posterior formula's ``first`` is the noise family, its ``second`` the degrees of freedom of Student's t; the scale is
in the learned state, and so is the share of rows whose truth is missing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from plr._codes import GAUSSIAN, LAPLACE, MISSING, SCALE, STUDENT, Formula
from plr._jit import inlined, jit

__all__ = [
    "FAINT",
    "evidence",
    "log_constant",
    "log_density",
    "next_missing",
    "next_scale",
    "row_evidence",
    "row_spread",
    "row_total",
    "spread",
    "student_shares",
]

# Where a row's densities sum to less than this, some may have underflowed that matter; logarithms then take over.
FAINT = 1e-250
# A learned share of rows without their truth goes no higher: beyond it the model explains too little to be believed.
_MOST_MISSING = 0.5


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
def student_shares(
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
def row_total(weights: NDArray[np.float64]) -> float:
    """Return the sum of a row's weights: how probable it is that the truth is among its candidates."""
    total = 0.0
    for j in range(weights.size):
        total += weights[j]
    return total


@jit
def next_missing(mean_total: float) -> float:
    """Turn the mean of `row_total` into the next round's share of rows whose truth is missing."""
    return min(max(1.0 - mean_total, 0.0), _MOST_MISSING)


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
        total = student_shares(formula, prediction, values, prior, state, weights)
        if total > FAINT:
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
    """Apply `row_evidence` to every row, the constant included; the flat ``weights`` are scratch.

    Where a share ε of the rows may lack their truth, a row's evidence is (1 - ε) · Σ_j prior_j · p / q + ε.
    """
    constant = log_constant(formula.first, formula.second, state[SCALE])
    missing = state[MISSING]
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
        if missing > 0.0:
            there = out[i] + math.log1p(-missing)
            absent = math.log(missing)
            if there > absent:
                out[i] = there + math.log1p(math.exp(absent - there))
            else:
                out[i] = absent + math.log1p(math.exp(there - absent))


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
