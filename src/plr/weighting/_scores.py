"""Scores of candidates: what tells the weightings apart, and how scores become shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._codes import CUSTOM, IDENTIFICATION, POSTERIOR, PROGRESSIVE, SCALE, SQUARED, STUDENT, Formula
from plr._jit import inlined
from plr._vector_math import exponential
from plr._vectors import choose_above, choose_equal, lane, magnitude, root, splat
from plr.weighting._losses import loss_of
from plr.weighting._noise import log_densities, log_density

__all__ = ["NO_BELIEF", "fill_scores", "has_vector_score", "score_of", "share_of"]

Floats = NDArray[np.float64]

# A score this far below the row's best adds nothing to a float64 sum.
_NEGLIGIBLE = -50.0
# The same where there is a prior: the best score may belong to a candidate hardly believed in.
_NEGLIGIBLE_WITH_PRIOR = -708.0
# A prior below this counts as zero: its reciprocal, which a lone candidate's share is multiplied by, would overflow.
NO_BELIEF = 1e-290
# Powers of a tiny loss overflow; a score is cut here, where differences still are finite.
_HIGHEST_SCORE = 1e300


@inlined
def score_of(formula: Formula, residual: Any, state: Floats) -> Any:
    """Return the scores of candidates at ``residual``, where `has_vector_score`: the higher, the larger the share."""
    if formula.weighting == POSTERIOR:
        return log_densities(formula, residual, state)
    if formula.weighting == IDENTIFICATION:
        return splat(0.0) - loss_of(formula, residual)
    # The root of a square is at hand without either.
    length = magnitude(residual) if formula.loss == SQUARED else root(loss_of(formula, residual))
    score = splat(formula.second) / length
    return choose_above(score, splat(_HIGHEST_SCORE), splat(_HIGHEST_SCORE), score)


@inlined
def has_vector_score(formula: Formula) -> bool:
    """Return whether `score_of` knows the scores, or they must be made one by one."""
    code = formula.weighting
    if code == CUSTOM or formula.loss == CUSTOM:
        return False
    return not ((code == PROGRESSIVE and formula.first != 0.5) or (code == POSTERIOR and formula.first == STUDENT))


@inlined
def fill_scores(
    formula: Formula,
    prediction: float,
    values: Floats,
    start: int,
    stop: int,
    state: Floats,
    weights: Floats,
    at: int,
) -> None:
    """Write the scores of a row's candidates into ``weights``, one after the other."""
    code = formula.weighting
    if code == POSTERIOR:
        scale = state[SCALE]
        for j in range(stop - start):
            weights[at + j] = log_density(formula.first, formula.second, scale, prediction - values[start + j])
        return
    for j in range(stop - start):
        value = values[start + j]
        if formula.loss == CUSTOM:
            cost = formula.value(prediction, value)
        else:
            cost = lane(loss_of(formula, splat(prediction - value)))
        if code == IDENTIFICATION:
            score = -cost
        elif code == PROGRESSIVE:
            score = min(formula.second * cost ** (-formula.first), _HIGHEST_SCORE)
        else:
            score = formula.score(prediction, value, cost)
        weights[at + j] = score


@inlined
def share_of(formula: Formula, score: Any, best: Any, has_prior: bool, prior: Any) -> Any:
    """Return prior · exp(score - best), or all for the best score, of candidates."""
    zero, one = splat(0.0), splat(1.0)
    share = zero
    if formula.weighting != IDENTIFICATION:
        share = exponential(score - best, _NEGLIGIBLE_WITH_PRIOR if has_prior else _NEGLIGIBLE)
    # Asked for the score and not the distance, because the difference of two infinite scores is no number.
    share = choose_equal(score, best, one, share)
    if has_prior:
        share = choose_above(splat(NO_BELIEF), prior, zero, share * prior)
    return share
