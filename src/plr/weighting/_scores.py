"""Scores of candidates: the weightings joined into one compiled choice by their codes, and how scores become shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._codes import CUSTOM, HIGHEST, NO_NOISE, SCALE, SMALLEST_PRIOR, Formula
from plr._jit import inlined, with_arguments
from plr._vector_math import exponential
from plr._vectors import choose_above, choose_equal, lane, splat
from plr.weighting._losses import loss_of, root_of
from plr.weighting._noise import log_densities, log_density
from plr.weighting.base import WEIGHTINGS, Weighting

__all__ = ["fill_scores", "score_code", "score_of", "share_of"]

Floats = NDArray[np.float64]

# Of a compiled score: prediction, value, loss and two numbers.
_ARGUMENTS = 5

_COMPILED = [
    weighting
    for weighting in WEIGHTINGS.values()
    if weighting.vector_form and weighting.score and weighting.__module__.startswith("plr.")
]


def _functions(weighting: type[Weighting]) -> tuple[Any, ...]:
    return weighting.vector_form, weighting.score


_CODES = {_functions(weighting): code for code, weighting in enumerate(_COMPILED, start=1)}


def score_code(weighting: Weighting) -> int:
    """Return the code of a weighting's score; CUSTOM where it is not compiled here."""
    return _CODES.get(_functions(type(weighting)), CUSTOM)


@inlined
def _unknown_vectors(_formula: Formula, _residual: Any) -> Any:
    return splat(np.nan)


@inlined
def _pointer(formula: Formula, prediction: float, value: float, loss: float) -> float:
    if formula.weighting == CUSTOM:
        return formula.score(prediction, value, loss, formula.first, formula.second)
    return np.nan


def _either_vectors(code: int, this: Any, otherwise: Any) -> Any:
    @inlined
    def choose(formula: Formula, residual: Any) -> Any:
        if formula.weighting == code:
            return this(formula, residual)
        return otherwise(formula, residual)

    return choose


def _either(code: int, this: Any, otherwise: Any) -> Any:
    @inlined
    def choose(formula: Formula, prediction: float, value: float, loss: float) -> float:
        if formula.weighting == code:
            return this(prediction, value, loss, formula.first, formula.second)
        return otherwise(formula, prediction, value, loss)

    return choose


_vector_score, _scalar_score = _unknown_vectors, _pointer
for _code, _weighting in reversed(list(enumerate(_COMPILED, start=1))):
    _vector_score = _either_vectors(_code, _weighting.vector_form(loss_of, root_of), _vector_score)
    _scalar_score = _either(_code, inlined(with_arguments(_weighting.score, _ARGUMENTS, inlined)), _scalar_score)


@inlined
def score_of(formula: Formula, residual: Any, state: Floats) -> Any:
    """Return the scores of candidates at ``residual``, for a formula ``by_vectors``."""
    if formula.noise != NO_NOISE:
        return log_densities(formula, residual, state)
    return _vector_score(formula, residual)


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
    if formula.noise != NO_NOISE:
        scale = state[SCALE]
        for j in range(stop - start):
            weights[at + j] = log_density(formula.noise, formula.degrees, scale, prediction - values[start + j])
        return
    for j in range(stop - start):
        value = values[start + j]
        if formula.loss == CUSTOM:
            cost = formula.value(prediction, value, formula.number)
        else:
            cost = lane(loss_of(formula, splat(prediction - value)))
        weights[at + j] = _scalar_score(formula, prediction, value, cost)


@inlined
def share_of(formula: Formula, score: Any, best: Any, lowest: float, has_prior: bool, prior: Any) -> Any:
    """Return prior · exp(score - best), or all for the best score, of candidates; nothing below ``lowest``."""
    zero, one = splat(0.0), splat(1.0)
    share = zero
    if formula.shares != HIGHEST:
        share = exponential(score - best, lowest)
    # Asked for the score and not the distance, because the difference of two infinite scores is no number.
    share = choose_equal(score, best, one, share)
    if has_prior:
        share = choose_above(splat(SMALLEST_PRIOR), prior, zero, share * prior)
    return share
