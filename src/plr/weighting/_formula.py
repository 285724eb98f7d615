"""The formula: what share each candidate of a row gets, and what the row then costs.

One compiled row function serves every learner. It takes a prediction and a row's candidates, scores them, turns the
scores into weights by a softmax times the prior, and returns the weighted loss with its first derivative and its
curvature with respect to the prediction. The weights count as constants: no derivative passes through them. They sum to
one, except where the truth may be missing from a row: then to the probability that it is not.

Arrays that are empty stand for "uniform": no prior, no density of false labels. Everything here is float64, whatever
the network computes in.

A row is given as the places ``start`` to ``stop`` of arrays with all candidates, and its shares are written from place
``at`` of ``weights`` on; multiplied by the scale that comes back they are its weights. Candidates are taken a vector at
a time. The last vector of a row is written in full wherever ``weights`` goes on behind it, so rows that share the array
must be done in order. What has no vector form, a user's own function or a power, is called for each candidate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from plr._codes import (
    AVERAGE,
    CUSTOM,
    MISSING,
    POSTERIOR,
    PROGRESSIVE,
    SCALE,
    STUDENT,
    Formula,
)
from plr._jit import inlined, jit
from plr._vectors import (
    DOUBLES,
    choose_above,
    choose_equal,
    first_lanes,
    highest,
    load_some,
    splat,
    store_some,
    total,
)
from plr.weighting._losses import curvature_of, loss_of, slope_of
from plr.weighting._noise import FAINT, log_constant, student_density, student_shares
from plr.weighting._scores import NO_BELIEF, fill_scores, has_vector_score, score_of, share_of

__all__ = ["evaluate", "may_miss", "row"]

Floats = NDArray[np.float64]


@inlined
def _fill_and_find_best(
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
    """Write the scores of a row's candidates into ``weights`` and return the highest of those that may be true."""
    plain = has_vector_score(formula)
    if not plain:
        fill_scores(formula, prediction, values, start, stop, state, weights, at)
    size = stop - start
    nothing = splat(-np.inf)
    best = nothing
    for j in range(0, size, DOUBLES):
        if plain:
            residual = splat(prediction) - load_some(values, start + j, stop, 0.0)
            score = score_of(formula, residual, state)
        else:
            score = load_some(weights, at + j, at + size, 0.0)
        if formula.weighting == POSTERIOR and log_q.size > 0:
            score = score - load_some(log_q, start + j, stop, 0.0)
        store_some(weights, at + j, at + size, score)
        if prior.size > 0:
            believed = load_some(prior, start + j, stop, 0.0)
            score = choose_above(splat(NO_BELIEF), believed, nothing, score)
        score = first_lanes(size - j, score, nothing)
        best = choose_above(best, score, best, score)
    return highest(best)


@inlined
def _softmax_shares(
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
    """Write prior · exp(score), or all for the highest score, and return the sum."""
    size = stop - start
    has_prior = prior.size > 0
    zero, believed = splat(0.0), splat(1.0)
    best = splat(_fill_and_find_best(formula, prediction, values, prior, log_q, start, stop, state, weights, at))
    sums = zero
    for j in range(0, size, DOUBLES):
        score = load_some(weights, at + j, at + size, -np.inf)
        if has_prior:
            believed = load_some(prior, start + j, stop, 0.0)
        share = first_lanes(size - j, share_of(formula, score, best, has_prior, believed), zero)
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
            share = choose_above(splat(NO_BELIEF), share, zero, share)
        share = first_lanes(size - j, share, zero)
        store_some(weights, at + j, at + size, share)
        sums += share
    return total(sums)


@inlined
def _reduce(
    formula: Formula,
    prediction: float,
    values: Floats,
    start: int,
    stop: int,
    weights: Floats,
    at: int,
    shares: float,
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
                cost += weight * formula.value(prediction, values[start + j])
                slope += weight * formula.derivative(prediction, values[start + j])
                bend += weight * formula.curvature(prediction, values[start + j])
        return cost, slope, bend, scale
    zero = splat(0.0)
    value, gradient, hessian = zero, zero, zero
    for j in range(0, stop - start, DOUBLES):
        share = load_some(weights, at + j, at + stop - start, 0.0)
        residual = splat(prediction) - load_some(values, start + j, stop, 0.0)
        residual = choose_equal(share, zero, zero, residual)
        value += share * loss_of(formula, residual)
        gradient += share * slope_of(formula, residual)
        hessian += share * curvature_of(formula, residual)
    return scale * total(value), scale * total(gradient), scale * total(hessian), scale


@inlined
def may_miss(formula: Formula, state: Floats) -> bool:
    """Return whether the truth may be missing from a row. To be asked once, not for every row."""
    return formula.weighting == POSTERIOR and state[MISSING] > 0.0


@jit
def _shares_if_there(
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
    """Write the shares of candidates where the truth may be missing, parts of their sum with its absence; return 1."""
    size = stop - start
    has_prior = prior.size > 0
    best = _fill_and_find_best(formula, prediction, values, prior, log_q, start, stop, state, weights, at)
    # Here constants count: what the candidates' densities add up to is held against a number.
    missing = state[MISSING]
    constant = log_constant(formula.first, formula.second, state[SCALE])
    shares = missing / (1.0 - missing) * math.exp(-best - constant)
    for j in range(size):
        believed = prior[start + j] if has_prior else 1.0 / size
        if believed < NO_BELIEF or weights[at + j] == -np.inf:
            share = 0.0
        elif weights[at + j] == best:
            share = believed
        else:
            share = believed * math.exp(weights[at + j] - best)
        weights[at + j] = share
        shares += share
    # Divided here, not by the caller: beside an infinite sum a share is nothing, however large its loss.
    for j in range(size):
        weights[at + j] /= shares
    return 1.0


@inlined
def _fill_shares(
    formula: Formula,
    incomplete: bool,
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
    """Write the candidates' shares and return what they have to be divided by."""
    code = formula.weighting
    if incomplete:
        return _shares_if_there(formula, prediction, values, prior, log_q, start, stop, state, weights, at)
    if stop - start == 1:
        return _given_shares(prior[:0], start, stop, weights, at)
    if _is_even(formula):
        return _given_shares(prior, start, stop, weights, at)
    if code == POSTERIOR and formula.first == STUDENT and log_q.size == 0:
        shares = student_shares(formula, prediction, values, prior, start, stop, state, weights, at)
        if shares > FAINT:
            return shares
    return _softmax_shares(formula, prediction, values, prior, log_q, start, stop, state, weights, at)


@inlined
def _is_even(formula: Formula) -> bool:
    """Return whether shares are the prior's."""
    return formula.weighting == AVERAGE or (formula.weighting == PROGRESSIVE and formula.second == 0.0)


@inlined
def _short_row(
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
) -> tuple[float, float, float, float]:
    """Do the work of `row` for no more candidates than a vector holds, without a way through memory.

    The result is the same to the bit. A scale of 0 says that the row has to go the long way; nothing is written then.
    """
    size = stop - start
    has_prior = prior.size > 0
    zero, one, nothing = splat(0.0), splat(1.0), splat(-np.inf)
    believed = one
    if has_prior:
        believed = load_some(prior, start, stop, 0.0)
    residual = splat(prediction) - load_some(values, start, stop, 0.0)
    if size == 1:
        share = one
    elif _is_even(formula):
        share = choose_above(splat(NO_BELIEF), believed, zero, believed)
    elif formula.weighting == POSTERIOR and formula.first == STUDENT and log_q.size == 0 and formula.second == 3.0:
        share = believed * student_density(formula, residual, state)
    elif has_vector_score(formula):
        score = score_of(formula, residual, state)
        if formula.weighting == POSTERIOR and log_q.size > 0:
            score = score - load_some(log_q, start, stop, 0.0)
        possible = first_lanes(size, score, nothing)
        if has_prior:
            possible = choose_above(splat(NO_BELIEF), believed, nothing, possible)
        share = share_of(formula, score, splat(highest(possible)), has_prior, believed)
    else:
        return 0.0, 0.0, 0.0, 0.0
    share = first_lanes(size, share, zero)
    shares = total(share)
    if shares <= FAINT:
        return 0.0, 0.0, 0.0, 0.0
    scale = 1.0 / shares
    store_some(weights, at, at + size, share * splat(scale))
    residual = choose_equal(share, zero, zero, residual)
    value = scale * total(share * loss_of(formula, residual))
    gradient = scale * total(share * slope_of(formula, residual))
    return value, gradient, scale * total(share * curvature_of(formula, residual)), 1.0


@inlined
def row(
    formula: Formula,
    incomplete: bool,
    prediction: float,
    values: Floats,
    prior: Floats,
    log_q: Floats,
    fixed: Floats,
    start: int,
    stop: int,
    state: Floats,
    weights: Floats,
    at: int,
) -> tuple[float, float, float, float]:
    """Weigh a row's candidates and return the row's loss, derivative and curvature, and the scale of ``weights``.

    Where ``fixed`` is not empty, the weights are those: a start's. Rows may be ``incomplete`` if `may_miss` says so.
    """
    if stop - start <= DOUBLES and fixed.size == 0 and not incomplete and formula.loss != CUSTOM:
        value, gradient, hessian, scale = _short_row(
            formula, prediction, values, prior, log_q, start, stop, state, weights, at
        )
        if not scale <= 0.0:
            return value, gradient, hessian, scale
    if fixed.size > 0:
        _given_shares(fixed, start, stop, weights, at)
        shares = 1.0
    else:
        shares = _fill_shares(formula, incomplete, prediction, values, prior, log_q, start, stop, state, weights, at)
    return _reduce(formula, prediction, values, start, stop, weights, at, shares)


@jit
def evaluate(
    formula: Formula,
    predictions: Floats,
    values: Floats,
    offsets: NDArray[np.int64],
    prior: Floats,
    log_q: Floats,
    state: Floats,
    weights: Floats,
    losses: Floats,
    gradients: Floats,
    hessians: Floats,
) -> None:
    """Apply `row` to every row; ``weights`` is flat, the other outputs have one entry per row."""
    incomplete = may_miss(formula, state)
    # Behind the last row others may be at work.
    own = weights[: offsets[predictions.size]]
    for i in range(predictions.size):
        start = offsets[i]
        stop = offsets[i + 1]
        losses[i], gradients[i], hessians[i], scale = row(
            formula, incomplete, predictions[i], values, prior, log_q, prior[:0], start, stop, state, own, start
        )
        for j in range(start, stop if scale != 1.0 else start, DOUBLES):
            store_some(own, j, stop, load_some(own, j, stop, 0.0) * splat(scale))
