"""The formula: what share each candidate of a row gets, and what the row then costs.

One compiled row function serves every learner. It takes a prediction and a row's candidates, scores them, turns the
scores into weights by a softmax times the prior, and returns the weighted loss with its first derivative and its
curvature with respect to the prediction. The weights count as constants: no derivative passes through them. They sum to
one, except where the truth may be missing from a row: then to the probability that it is not.

Everything here is float64, whatever the network computes in. A row is given as the places ``start`` to ``stop`` of
arrays with all candidates, and its shares are written from place ``at`` of ``weights`` on; multiplied by the scale that
comes back they are its weights. Candidates are taken a vector at a time. The last vector of a row is written in full
wherever ``weights`` goes on behind it, so rows that share the array must be done in order. What has no vector form, a
user's own function or a power, is called for each candidate.

The weightings and losses that have a vector form are joined into one compiled choice by their codes. A code that is not
known, of a weighting, a loss or a noise family, has no score, loss or density: everything computed from it is NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._codes import (
    CUSTOM,
    EVEN,
    GAUSSIAN,
    HIGHEST,
    LAPLACE,
    LOWEST,
    MISSING,
    MOST_MISSING,
    NO_NOISE,
    SCALE,
    SMALLEST_PRIOR,
    STUDENT,
    Formula,
    Sets,
)
from plr._jit import inlined, jit
from plr._vectors import (
    DOUBLES,
    choose_above,
    choose_equal,
    exponential,
    first_lanes,
    highest,
    lane,
    load_some,
    magnitude,
    root,
    splat,
    store_some,
    total,
)
from plr.losses import LOSSES, Loss
from plr.weighting.base import WEIGHTINGS, Weighting

__all__ = [
    "code_of",
    "evaluate",
    "evidence",
    "may_miss",
    "next_missing",
    "next_scale",
    "row",
    "row_spread",
    "row_total",
    "spread",
]

Floats = NDArray[np.float64]

# Where a row's densities sum to less than this, some may have underflowed that matter; logarithms then take over.
_UNDERFLOWN = 1e-250


def _functions(part: type[Weighting] | type[Loss]) -> tuple[Any, ...]:
    return tuple(getattr(part, name, None) for name in ("vector_form", "score", "value", "derivative", "curvature"))


_LOSSES, _WEIGHTINGS = (
    [part for part in registry.values() if part.vector_form and part.__module__.startswith("plr.")]
    for registry in (LOSSES, WEIGHTINGS)
)
_CODES = {_functions(part): code for parts in (_LOSSES, _WEIGHTINGS) for code, part in enumerate(parts, start=1)}


def code_of(part: Weighting | Loss) -> int:
    """Return the code of a weighting or loss; CUSTOM where its functions, or some of them, are not compiled here."""
    return _CODES.get(_functions(type(part)), CUSTOM)


@inlined
def _unknown(_formula: Formula, _residual: Any) -> Any:
    return splat(np.nan)


def _either(of_loss: bool, code: int, this: Any, otherwise: Any) -> Any:
    @inlined
    def choose(formula: Formula, residual: Any) -> Any:
        if (formula.loss if of_loss else formula.weighting) == code:
            return this(formula, residual)
        return otherwise(formula, residual)

    return choose


def _root_of(value: Any) -> Any:
    @inlined
    def root_of_value(formula: Formula, residual: Any) -> Any:
        return root(value(formula, residual))

    return root_of_value


# Compiled functions of (formula, residual): the loss, its derivative, its curvature and its root, and the score.
_loss = _slope = _curvature = _root = _vector_score = _unknown
for _code, _part in enumerate(_LOSSES, start=1):
    _form = _part.vector_form()
    _loss = _either(True, _code, _form.value, _loss)
    _slope = _either(True, _code, _form.derivative, _slope)
    _curvature = _either(True, _code, _form.curvature, _curvature)
    _root = _either(True, _code, _form.root or _root_of(_form.value), _root)
for _code, _part in enumerate(_WEIGHTINGS, start=1):
    _vector_score = _either(False, _code, _part.vector_form(_loss, _root), _vector_score)


@inlined
def _has_vector_score(formula: Formula) -> bool:
    return formula.noise != STUDENT if formula.noise != NO_NOISE else formula.weighting != CUSTOM


@inlined
def _score(formula: Formula, residual: Any, state: Floats) -> Any:
    """Return the scores of candidates that have a vector score."""
    if formula.noise == NO_NOISE:
        return _vector_score(formula, residual)
    # Log densities of the noise without their constant, which weights do not need: it depends on the scale alone.
    ratio = residual / splat(state[SCALE])
    if formula.noise == GAUSSIAN:
        return splat(-0.5) * ratio * ratio
    if formula.noise == LAPLACE:
        return splat(0.0) - magnitude(ratio)
    return splat(np.nan)


@inlined
def _fill_scores(
    formula: Formula, prediction: float, sets: Sets, start: int, stop: int, state: Floats, weights: Floats, at: int
) -> None:
    """Write the scores of a row's candidates that have no vector score, one after the other."""
    for j in range(stop - start):
        value = sets.values[start + j]
        if formula.noise == STUDENT:
            # By vectors, though each holds one number: plain numbers may be rounded otherwise where arrays happen to
            # lie close together.
            ratio = splat(prediction - value) / splat(state[SCALE])
            base = lane(splat(1.0) + ratio * ratio / splat(formula.degrees))
            weights[at + j] = -0.5 * (formula.degrees + 1.0) * math.log(base)
        else:
            if formula.loss == CUSTOM:
                cost = formula.value(prediction, value, formula.number)
            else:
                cost = lane(_loss(formula, splat(prediction - value)))
            weights[at + j] = formula.score(prediction, value, cost, formula.first, formula.second)


@inlined
def _student_density(formula: Formula, residual: Any, state: Floats) -> Any:
    """Return Student's density of residuals at three degrees of freedom, constants left out.

    It is a power, so it needs neither logarithm nor exponential, and is only 0 where the residual overflows.
    """
    ratio = residual * splat(1.0 / (state[SCALE] * math.sqrt(formula.degrees)))
    base = splat(1.0) + ratio * ratio
    return splat(1.0) / (base * base)


@inlined
def _share(formula: Formula, score: Any, best: float, has_prior: bool, prior: Any) -> Any:
    """Return prior · exp(score - best), or all for the best score, of candidates."""
    zero, one = splat(0.0), splat(1.0)
    share = zero
    if formula.shares != HIGHEST:
        share = exponential(score - splat(best))
    # Asked for the score and not the distance, because the difference of two infinite scores is no number.
    share = choose_equal(score, splat(best), one, share)
    if has_prior:
        share = choose_above(splat(SMALLEST_PRIOR), prior, zero, share * prior)
    return share


@inlined
def _softmax_shares(
    formula: Formula, prediction: float, sets: Sets, start: int, stop: int, state: Floats, weights: Floats, at: int
) -> tuple[float, float]:
    """Write prior · exp(score - best), or all for the highest score, and return the sum and the best score."""
    size, has_prior, by_vectors = stop - start, sets.prior.size > 0, _has_vector_score(formula)
    zero, nothing, believed = splat(0.0), splat(-np.inf), splat(1.0)
    if not by_vectors:
        _fill_scores(formula, prediction, sets, start, stop, state, weights, at)
    highest_yet = nothing
    for j in range(0, size, DOUBLES):
        if by_vectors:
            residual = splat(prediction) - load_some(sets.values, start + j, stop, 0.0)
            score = _score(formula, residual, state)
        else:
            score = load_some(weights, at + j, at + size, 0.0)
        if formula.noise != NO_NOISE and sets.log_q.size > 0:
            score = score - load_some(sets.log_q, start + j, stop, 0.0)
        store_some(weights, at + j, at + size, score)
        if has_prior:
            believed = load_some(sets.prior, start + j, stop, 0.0)
            score = choose_above(splat(SMALLEST_PRIOR), believed, nothing, score)
        score = first_lanes(size - j, score, nothing)
        highest_yet = choose_above(highest_yet, score, highest_yet, score)
    best = highest(highest_yet)
    sums = zero
    for j in range(0, size, DOUBLES):
        score = load_some(weights, at + j, at + size, -np.inf)
        if has_prior:
            believed = load_some(sets.prior, start + j, stop, 0.0)
        share = first_lanes(size - j, _share(formula, score, best, has_prior, believed), zero)
        store_some(weights, at + j, at + size, share)
        sums += share
    return total(sums), best


@inlined
def _is_power(formula: Formula, sets: Sets) -> bool:
    """Return whether shares are a power of the residual and the prior: Student's t, uniform false labels."""
    return formula.noise == STUDENT and formula.degrees == 3.0 and sets.log_q.size == 0


@inlined
def _power_shares(
    formula: Formula, prediction: float, sets: Sets, start: int, stop: int, state: Floats, weights: Floats, at: int
) -> float:
    """Write prior · density under Student's t, constants left out, and return the sum."""
    size = stop - start
    sums = splat(0.0)
    for j in range(0, size, DOUBLES):
        residual = splat(prediction) - load_some(sets.values, start + j, stop, 0.0)
        share = _student_density(formula, residual, state)
        if sets.prior.size > 0:
            share = share * load_some(sets.prior, start + j, stop, 0.0)
        share = first_lanes(size - j, share, splat(0.0))
        store_some(weights, at + j, at + size, share)
        sums += share
    return total(sums)


@inlined
def _given_shares(given: Floats, start: int, stop: int, weights: Floats, at: int) -> float:
    """Write the shares that are given, even ones if there are none, and return the sum."""
    size = stop - start
    zero, one = splat(0.0), splat(1.0)
    sums = zero
    for j in range(0, size, DOUBLES):
        share = one
        if given.size > 0:
            share = load_some(given, start + j, stop, 0.0)
            share = choose_above(splat(SMALLEST_PRIOR), share, zero, share)
        share = first_lanes(size - j, share, zero)
        store_some(weights, at + j, at + size, share)
        sums += share
    return total(sums)


@jit
def _shares_with_missing_truth(
    formula: Formula, prediction: float, sets: Sets, start: int, stop: int, state: Floats, weights: Floats, at: int
) -> float:
    """Write the shares of candidates where the truth may be missing, parts of their sum with its absence; return 1."""
    size = stop - start
    shares, best = _softmax_shares(formula, prediction, sets, start, stop, state, weights, at)
    # Here constants count: what the candidates' densities add up to is held against a number.
    missing = state[MISSING] / (1.0 - state[MISSING]) * (1.0 if sets.prior.size > 0 else size)
    shares += missing * math.exp(-best - formula.constant) * state[SCALE]
    # Divided here, not by the caller: beside an infinite sum a share is nothing, however large its loss.
    for j in range(size):
        weights[at + j] /= shares
    return 1.0


@inlined
def _reduce(
    formula: Formula, prediction: float, sets: Sets, start: int, stop: int, weights: Floats, at: int, shares: float
) -> tuple[float, float, float, float]:
    """Return a row's loss, derivative, curvature and scale from shares that sum to ``shares``.

    A candidate without a share is passed over, so that its loss may be infinite; a share that is NaN is not, so
    that the loss of a network that has diverged is NaN too.
    """
    scale = 1.0 / shares
    if formula.loss == CUSTOM:
        cost, slope, bend = 0.0, 0.0, 0.0
        for j in range(stop - start):
            weight = weights[at + j] * scale
            if weight != 0.0:
                cost += weight * formula.value(prediction, sets.values[start + j], formula.number)
                slope += weight * formula.derivative(prediction, sets.values[start + j], formula.number)
                bend += weight * formula.curvature(prediction, sets.values[start + j], formula.number)
        return cost, slope, bend, scale
    zero = splat(0.0)
    value, gradient, hessian = zero, zero, zero
    for j in range(0, stop - start, DOUBLES):
        share = load_some(weights, at + j, at + stop - start, 0.0)
        residual = splat(prediction) - load_some(sets.values, start + j, stop, 0.0)
        residual = choose_equal(share, zero, zero, residual)
        value += share * _loss(formula, residual)
        gradient += share * _slope(formula, residual)
        hessian += share * _curvature(formula, residual)
    return scale * total(value), scale * total(gradient), scale * total(hessian), scale


@inlined
def may_miss(formula: Formula, state: Floats) -> bool:
    """Return whether the truth may be missing from a row. To be asked once, not for every row."""
    return formula.noise != NO_NOISE and state[MISSING] > 0.0


@inlined
def _short_row(
    formula: Formula, prediction: float, sets: Sets, start: int, stop: int, state: Floats, weights: Floats, at: int
) -> tuple[float, float, float, float]:
    """Do the work of `row` for no more candidates than a vector holds, without a way through memory.

    The result is the same to the bit. A scale of 0 says that the row has to go the long way; nothing is written then.
    """
    size, has_prior = stop - start, sets.prior.size > 0
    zero, one, nothing = splat(0.0), splat(1.0), splat(-np.inf)
    believed = one
    if has_prior:
        believed = load_some(sets.prior, start, stop, 0.0)
    residual = splat(prediction) - load_some(sets.values, start, stop, 0.0)
    if size == 1:
        share = one
    elif formula.shares == EVEN:
        share = choose_above(splat(SMALLEST_PRIOR), believed, zero, believed)
    elif _is_power(formula, sets):
        share = believed * _student_density(formula, residual, state)
    elif _has_vector_score(formula):
        score = _score(formula, residual, state)
        if formula.noise != NO_NOISE and sets.log_q.size > 0:
            score = score - load_some(sets.log_q, start, stop, 0.0)
        possible = first_lanes(size, score, nothing)
        if has_prior:
            possible = choose_above(splat(SMALLEST_PRIOR), believed, nothing, possible)
        share = _share(formula, score, highest(possible), has_prior, believed)
    else:
        return 0.0, 0.0, 0.0, 0.0
    share = first_lanes(size, share, zero)
    shares = total(share)
    if shares <= _UNDERFLOWN:
        return 0.0, 0.0, 0.0, 0.0
    scale = 1.0 / shares
    store_some(weights, at, at + size, share * splat(scale))
    residual = choose_equal(share, zero, zero, residual)
    value = scale * total(share * _loss(formula, residual))
    gradient = scale * total(share * _slope(formula, residual))
    return value, gradient, scale * total(share * _curvature(formula, residual)), 1.0


@inlined
def row(
    formula: Formula,
    incomplete: bool,
    use_fixed: bool,
    prediction: float,
    sets: Sets,
    start: int,
    stop: int,
    state: Floats,
    weights: Floats,
    at: int,
) -> tuple[float, float, float, float]:
    """Weigh a row's candidates and return the row's loss, derivative and curvature, and the scale of ``weights``.

    With ``use_fixed`` the weights are ``sets.fixed``, a start's. Rows may be ``incomplete`` if `may_miss` says so.
    """
    if stop - start <= DOUBLES and not use_fixed and not incomplete and formula.loss != CUSTOM:
        value, gradient, hessian, scale = _short_row(formula, prediction, sets, start, stop, state, weights, at)
        if not scale <= 0.0:
            return value, gradient, hessian, scale
    shares = 0.0
    if use_fixed:
        _given_shares(sets.fixed, start, stop, weights, at)
        shares = 1.0
    elif incomplete:
        shares = _shares_with_missing_truth(formula, prediction, sets, start, stop, state, weights, at)
    elif stop - start == 1:
        shares = weights[at] = 1.0
    elif formula.shares == EVEN:
        shares = _given_shares(sets.prior, start, stop, weights, at)
    else:
        if _is_power(formula, sets):
            shares = _power_shares(formula, prediction, sets, start, stop, state, weights, at)
        if shares <= _UNDERFLOWN:
            shares, _ = _softmax_shares(formula, prediction, sets, start, stop, state, weights, at)
    return _reduce(formula, prediction, sets, start, stop, weights, at, shares)


@jit
def evaluate(
    formula: Formula,
    predictions: Floats,
    sets: Sets,
    state: Floats,
    weights: Floats,
    losses: Floats,
    gradients: Floats,
    hessians: Floats,
) -> None:
    """Apply `row` to every row; ``weights`` is flat, the other outputs have one entry per row."""
    incomplete = may_miss(formula, state)
    # Behind the last row others may be at work.
    own = weights[: sets.offsets[predictions.size]]
    for i in range(predictions.size):
        start, stop = sets.offsets[i], sets.offsets[i + 1]
        losses[i], gradients[i], hessians[i], scale = row(
            formula, incomplete, False, predictions[i], sets, start, stop, state, own, start
        )
        for j in range(start, stop if scale != 1.0 else start, DOUBLES):
            store_some(own, j, stop, load_some(own, j, stop, 0.0) * splat(scale))


@inlined
def row_spread(
    formula: Formula, prediction: float, sets: Sets, start: int, stop: int, state: Floats, weights: Floats, at: int
) -> float:
    """Return the row's part in the posterior's next scale: the mean over rows is the new scale or its square."""
    sums = splat(0.0)
    degrees, one = splat(formula.degrees), splat(1.0)
    narrow = splat(1.0 / state[SCALE])
    for j in range(0, stop - start, DOUBLES):
        weight = load_some(weights, at + j, at + stop - start, 0.0)
        residual = splat(prediction) - load_some(sets.values, start + j, stop, 0.0)
        part = magnitude(residual) if formula.noise == LAPLACE else residual * residual
        if formula.noise == STUDENT:
            ratio = residual * narrow
            part = part * ((degrees + one) / (degrees + ratio * ratio))
        sums += weight * part
    return total(sums)


@jit
def spread(formula: Formula, predictions: Floats, sets: Sets, state: Floats, weights: Floats, out: Floats) -> None:
    """Apply `row_spread` to every row, with the flat ``weights`` that `evaluate` left."""
    for i in range(predictions.size):
        start = sets.offsets[i]
        out[i] = row_spread(formula, predictions[i], sets, start, sets.offsets[i + 1], state, weights, start)


@jit
def next_scale(formula: Formula, mean_spread: float, state: Floats) -> float:
    """Turn the mean of `row_spread` into the scale of the next round."""
    return max(mean_spread if formula.noise == LAPLACE else math.sqrt(mean_spread), state[LOWEST])


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


@jit
def evidence(formula: Formula, predictions: Floats, sets: Sets, state: Floats, weights: Floats, out: Floats) -> None:
    """Write each row's log Σ_j prior_j · p(y_j | prediction) / q(y_j); the flat ``weights`` are scratch.

    Where a share ε of the rows may lack their truth, a row's evidence is (1 - ε) · Σ_j prior_j · p / q + ε.
    """
    constant = formula.constant - math.log(state[SCALE])
    missing = state[MISSING]
    for i in range(predictions.size):
        start, stop = sets.offsets[i], sets.offsets[i + 1]
        shares, best = 0.0, 0.0
        if _is_power(formula, sets):
            shares = _power_shares(formula, predictions[i], sets, start, stop, state, weights, start)
        if shares <= _UNDERFLOWN:
            shares, best = _softmax_shares(formula, predictions[i], sets, start, stop, state, weights, start)
        out[i] = constant + best + math.log(shares if sets.prior.size > 0 else shares / (stop - start))
        if missing > 0.0:
            there = out[i] + math.log1p(-missing)
            absent = math.log(missing)
            out[i] = max(there, absent) + math.log1p(math.exp(-abs(there - absent)))
