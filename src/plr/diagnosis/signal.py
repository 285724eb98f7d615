"""Whether features say anything about which candidate is true, by a quick estimate of the density of labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.diagnosis.relations import Relation
from plr.learners.base import Task
from plr.learners.encoding import learn_encoding

__all__ = ["CLEAR", "Signal", "follows_one_of_two", "measure_signal"]

Floats = NDArray[np.float64]

# A gain that is this many times its error is no accident.
CLEAR = 3.0
_SURE = 0.8
_LEAST_ROWS = 20


@dataclass(frozen=True)
class Signal:
    """What features say about the candidates, on rows that the estimate has not seen.

    Attributes
    ----------
    rows : int
        Rows that were looked at.
    gain : float
        How much likelier candidates are by the features of their row than by those of another row, drawn at random: the
        mean difference of log likelihoods.
    gain_error : float
        Its standard error.
    expected_right : float
        In what share of the rows with several candidates the likeliest one is the true one, by this estimate; a fitted
        model does better.
    chance : float
        The same without any features, by the priors.
    sure : float
        The share of these rows in which one candidate has a probability of 0.8 and more.
    """

    rows: int
    gain: float
    gain_error: float
    expected_right: float
    chance: float
    sure: float


def measure_signal(task: Task) -> Signal | None:
    """Compare densities of labels by features and by other rows' features; None for few rows or one label."""
    S = task.S
    if len(S) < _LEAST_ROWS or np.ptp(S.values) == 0:
        return None
    weights, difference = _compare(task)
    if not is_clear(difference) and np.unique(S.values).size > 2:
        # Where a few candidates lie far out, all others share a few bins; their ranks are spread evenly.
        ranks = np.unique(S.values, return_inverse=True)[1].astype(np.float64)
        by_rank = _compare(replace(task, S=CandidateSets(ranks, S.offsets, S.prior)))
        if is_clear(by_rank[1]):
            weights, difference = by_rank
    several = S.sizes > 1
    best = np.maximum.reduceat(weights, S.offsets[:-1])[several]
    chance = np.maximum.reduceat(S.prior_or_uniform, S.offsets[:-1])[several]
    return Signal(
        rows=len(S),
        gain=float(difference.mean()),
        gain_error=float(difference.std(ddof=1) / np.sqrt(len(S))),
        expected_right=float(best.mean()) if several.any() else 1.0,
        chance=float(chance.mean()) if several.any() else 1.0,
        sure=float((best >= _SURE).mean()) if several.any() else 1.0,
    )


def is_clear(difference: Floats) -> bool:
    """Whether a mean difference is no accident."""
    return bool(difference.mean() > CLEAR * difference.std(ddof=1) / np.sqrt(len(difference)))


def _compare(task: Task) -> tuple[Floats, Floats]:
    """Return the candidates' weights by their features, and how much likelier each row is than by another row's."""
    from plr.start.forest import Forest
    from plr.start.mixture import estimate

    if len(task.S) < 2000:
        models = [Forest(rows_per_leaf=5, trees=50), Forest(rows_per_leaf=30, trees=50)]
    else:
        models = [Forest(rows_per_leaf=20, trees=40, most_rows=3_000)]
    informed = estimate(task, 5, models)
    mixed_up = np.random.default_rng(task.seed).permutation(len(task.S))
    blind = estimate(replace(task, X=task.X[mixed_up]), 5, models)
    return informed.weights, _log_likelihood(informed, task.S) - _log_likelihood(blind, task.S)


def _log_likelihood(found: Any, S: CandidateSets) -> Floats:
    """Return each row's log Σ prior · p at its scaled candidates, by models that have not seen it."""
    mixture = found.mixture
    heights = mixture.mix(found.unseen or (), len(S))
    density = mixture.at(heights, S.row_index, mixture.target.apply(S.values))
    return np.log(np.add.reduceat(S.prior_or_uniform * density, S.offsets[:-1]))


def follows_one_of_two(task: Task, relation: Relation) -> bool:
    """Whether features predict the smaller of two related candidates so well that it is a function of them.

    Then the larger one is a function too, and fits as well: nothing in the data says which of the two is true. Where
    the truth is sometimes the smaller and sometimes the larger one, neither is.
    """
    from sklearn.ensemble import ExtraTreesRegressor

    y, step = _smaller(task.S, relation)
    X = learn_encoding(task.X, task.categorical).apply(task.X)
    forest = ExtraTreesRegressor(100, min_samples_leaf=3, bootstrap=True, oob_score=True, random_state=task.seed)
    forest.fit(X, y)
    off = y - forest.oob_prediction_
    # The median, since a few rows far off say nothing of the others.
    return bool(np.median(np.abs(off)) < 0.2 * abs(step))


def _smaller(S: CandidateSets, relation: Relation) -> tuple[Floats, float]:
    """Return the smallest candidate of each row, on a scale on which related candidates are one step apart."""
    low = np.minimum.reduceat(S.values, S.offsets[:-1])
    if relation.kind == "ratio":
        smallest = np.minimum.reduceat(np.abs(S.values), S.offsets[:-1])
        return np.log(np.maximum(smallest, np.finfo(float).tiny)), float(np.log(relation.value))
    if relation.kind == "difference":
        return low, relation.value
    return low, float(np.median(np.abs((relation.value - 1.0) * low + relation.offset)))
