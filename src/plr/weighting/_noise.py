"""Noise around predictions: densities, the evidence of a row's candidates, and the learned scale.

The noise family and the degrees of freedom of Student's t are a posterior formula's ``noise`` and ``degrees``; the
scale is in the learned state, and so is the share of rows whose truth is missing. A family that is not known has no
density: everything that is computed from it is NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._codes import GAUSSIAN, LAPLACE, LOWEST, MISSING, MOST_MISSING, SCALE, STUDENT, Formula
from plr._jit import inlined, jit
from plr._vectors import DOUBLES, first_lanes, lane, load_some, magnitude, splat, store_some, total

__all__ = [
    "UNDERFLOWN",
    "evidence",
    "log_constant",
    "log_densities",
    "log_density",
    "next_missing",
    "next_scale",
    "row_evidence",
    "row_spread",
    "row_total",
    "spread",
    "student_density",
    "student_shares",
]

Floats = NDArray[np.float64]

# Where a row's densities sum to less than this, some may have underflowed that matter; logarithms then take over.
UNDERFLOWN = 1e-250


@inlined
def log_density(family: int, degrees: float, scale: float, residual: float) -> float:
    """Return the log density of a residual under the noise family, its normalising constant left out.

    The constant depends on the scale alone, so weights do not need it; `log_constant` has it.
    """
    ratio = residual / scale
    if family == GAUSSIAN:
        return -0.5 * ratio * ratio
    if family == LAPLACE:
        return -abs(ratio)
    if family == STUDENT:
        return -0.5 * (degrees + 1.0) * math.log1p(ratio * ratio / degrees)
    return np.nan


@jit
def log_constant(family: int, degrees: float, scale: float) -> float:
    """Return the normalising constant that `log_density` leaves out."""
    if family == GAUSSIAN:
        return -math.log(scale) - 0.5 * math.log(2.0 * math.pi)
    if family == LAPLACE:
        return -math.log(2.0 * scale)
    if family == STUDENT:
        half = 0.5 * degrees
        return math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(degrees * math.pi) - math.log(scale)
    return np.nan


@inlined
def log_densities(formula: Formula, residual: Any, state: Floats) -> Any:
    """Return `log_density` of a vector of residuals, under any family but Student's t."""
    ratio = residual / splat(state[SCALE])
    if formula.noise == GAUSSIAN:
        return splat(-0.5) * ratio * ratio
    if formula.noise == LAPLACE:
        return splat(0.0) - magnitude(ratio)
    return splat(np.nan)


@inlined
def student_density(formula: Formula, residual: Any, state: Floats) -> Any:
    """Return Student's density of a vector of residuals at three degrees of freedom, constants left out."""
    ratio = residual * splat(1.0 / (state[SCALE] * math.sqrt(formula.degrees)))
    base = splat(1.0) + ratio * ratio
    return splat(1.0) / (base * base)


@inlined
def student_shares(
    formula: Formula,
    prediction: float,
    values: Floats,
    prior: Floats,
    start: int,
    stop: int,
    state: Floats,
    weights: Floats,
    at: int,
) -> float:
    """Write prior · density under Student's t, constants left out, and return the sum.

    The density is a power, so it needs neither logarithm nor exponential. It is only 0 where the residual overflows.
    """
    size = stop - start
    zero = splat(0.0)
    sums = zero
    if formula.degrees != 3.0:
        power = -0.5 * (formula.degrees + 1.0)
        narrow = splat(1.0 / (state[SCALE] * math.sqrt(formula.degrees)))
        for j in range(size):
            # Vectors, though each holds one number: plain sums may be taken in another order where arrays happen to
            # lie close together, and the last bits would depend on it.
            ratio = (splat(prediction) - splat(values[start + j])) * narrow
            weights[at + j] = lane(splat(1.0) + ratio * ratio) ** power
    for j in range(0, size, DOUBLES):
        if formula.degrees == 3.0:
            residual = splat(prediction) - load_some(values, start + j, stop, 0.0)
            share = student_density(formula, residual, state)
        else:
            share = load_some(weights, at + j, at + size, 0.0)
        if prior.size > 0:
            share = share * load_some(prior, start + j, stop, 0.0)
        share = first_lanes(size - j, share, zero)
        store_some(weights, at + j, at + size, share)
        sums += share
    return total(sums)


@inlined
def row_spread(
    formula: Formula,
    prediction: float,
    values: Floats,
    start: int,
    stop: int,
    state: Floats,
    weights: Floats,
    at: int,
) -> float:
    """Return the row's part in the posterior's next scale: the mean over rows is the new scale or its square."""
    sums = splat(0.0)
    degrees, one = splat(formula.degrees), splat(1.0)
    narrow = splat(1.0 / state[SCALE])
    for j in range(0, stop - start, DOUBLES):
        weight = load_some(weights, at + j, at + stop - start, 0.0)
        residual = splat(prediction) - load_some(values, start + j, stop, 0.0)
        part = magnitude(residual) if formula.noise == LAPLACE else residual * residual
        if formula.noise == STUDENT:
            ratio = residual * narrow
            part = part * ((degrees + one) / (degrees + ratio * ratio))
        sums += weight * part
    return total(sums)


@jit
def next_scale(formula: Formula, mean_spread: float, state: Floats) -> float:
    """Turn the mean of `row_spread` into the scale of the next round."""
    if formula.noise == LAPLACE:
        return max(mean_spread, state[LOWEST])
    return max(math.sqrt(mean_spread), state[LOWEST])


@inlined
def row_total(weights: Floats, at: int, size: int) -> float:
    """Return the sum of a row's weights: how probable it is that the truth is among its candidates."""
    sums = splat(0.0)
    for j in range(0, size, DOUBLES):
        sums += load_some(weights, at + j, at + size, 0.0)
    return total(sums)


@jit
def next_missing(mean_total: float) -> float:
    """Turn the mean of `row_total` into the next round's share of rows whose truth is missing."""
    return min(max(1.0 - mean_total, 0.0), MOST_MISSING)


@inlined
def row_evidence(
    formula: Formula,
    prediction: float,
    values: Floats,
    prior: Floats,
    log_q: Floats,
    start: int,
    stop: int,
    state: Floats,
    weights: Floats,
    at: int,
) -> float:
    """Return log Σ_j prior_j · p(y_j | prediction) / q(y_j), the constant of p left out; ``weights`` is scratch."""
    has_prior = prior.size > 0
    has_density = log_q.size > 0
    if formula.noise == STUDENT and not has_density:
        shares = student_shares(formula, prediction, values, prior, start, stop, state, weights, at)
        if shares > UNDERFLOWN:
            return math.log(shares) if has_prior else math.log(shares / (stop - start))
    best = -np.inf
    shares = 0.0
    for j in range(start, stop):
        if has_prior and prior[j] == 0.0:
            continue
        score = log_density(formula.noise, formula.degrees, state[SCALE], prediction - values[j])
        if has_density:
            score -= log_q[j]
        if has_prior:
            score += math.log(prior[j])
        if score == -np.inf:
            continue
        if score <= best:
            shares += math.exp(score - best)
        else:
            shares = shares * math.exp(best - score) + 1.0
            best = score
    if not has_prior:
        best -= math.log(stop - start)
    return best + math.log(shares)


@jit
def evidence(
    formula: Formula,
    predictions: Floats,
    values: Floats,
    offsets: NDArray[np.int64],
    prior: Floats,
    log_q: Floats,
    state: Floats,
    weights: Floats,
    out: Floats,
) -> None:
    """Apply `row_evidence` to every row, the constant included; the flat ``weights`` are scratch.

    Where a share ε of the rows may lack their truth, a row's evidence is (1 - ε) · Σ_j prior_j · p / q + ε.
    """
    constant = log_constant(formula.noise, formula.degrees, state[SCALE])
    missing = state[MISSING]
    for i in range(predictions.size):
        start = offsets[i]
        stop = offsets[i + 1]
        out[i] = constant + row_evidence(
            formula, predictions[i], values, prior, log_q, start, stop, state, weights, start
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
    predictions: Floats,
    values: Floats,
    offsets: NDArray[np.int64],
    state: Floats,
    weights: Floats,
    out: Floats,
) -> None:
    """Apply `row_spread` to every row, with the flat ``weights`` that `evaluate` left."""
    for i in range(predictions.size):
        start = offsets[i]
        stop = offsets[i + 1]
        out[i] = row_spread(formula, predictions[i], values, start, stop, state, weights, start)
