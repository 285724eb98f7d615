"""Whether features say anything about which candidate is true, by a quick estimate of the density of labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.contracts import Task

__all__ = ["CLEAR", "Signal", "is_plain", "measure_signal"]

Floats = NDArray[np.float64]

# A gain that is this many times its error is no accident.
CLEAR = 3.0
_SURE = 0.8
_LEAST_ROWS = 20
_FOLDS, _PENALTY, _MOST_COLUMNS = 5, 0.1, 500


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

    @property
    def lift(self) -> float:
        """How much of what chance leaves open is expected to be right."""
        return (self.expected_right - self.chance) / max(1.0 - self.chance, 1e-9)


def measure_signal(task: Task) -> Signal | None:
    """Compare densities of labels by features and by other rows' features; None for few rows or one label."""
    S = task.S
    if len(S) < _LEAST_ROWS or np.ptp(S.values) == 0:
        return None
    weights, difference = _compare(task)
    if not is_clear(difference) and np.unique(S.values).size > 2:
        # Where a few candidates lie far out, all others share a few bins; their ranks are spread evenly.
        ranks = np.unique(S.values, return_inverse=True)[1].astype(np.float64)
        by_rank = _compare(replace(task, S=CandidateSets._of_checked(ranks, S.offsets, S.prior)))
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


def is_plain(task: Task) -> bool:
    """Whether a parabola through the features plainly goes with the candidates, which takes milliseconds to see.

    Their means in each row, as ranks, are predicted out of fold. This finds the many features that each say a little,
    as in a straight line of ten of them, which forests of few rows overlook.
    """
    S, random = task.S, np.random.default_rng(task.seed)
    if len(S) < _LEAST_ROWS:
        return False
    X = task.preprocess().features
    X = X[:, random.permutation(X.shape[1])[:_MOST_COLUMNS]]
    # Beyond some deviations a square says that a value is far out, and no more.
    X = np.hstack([X, np.clip(X, -5.0, 5.0) ** 2 - 1.0])
    mean = np.add.reduceat(S.values * S.prior_or_uniform, S.offsets[:-1])
    rank = np.unique(mean, return_inverse=True)[1].astype(np.float64)
    if np.ptp(rank) == 0.0:
        return False
    fold = random.permutation(len(S)) % _FOLDS
    found = np.zeros(len(S))
    for number in range(_FOLDS):
        known, asked = X[fold != number], X[fold == number]
        centre = known.mean(axis=0)
        known, y = known - centre, rank[fold != number]
        products = known.T @ known + _PENALTY * len(known) * np.eye(X.shape[1])
        found[fold == number] = (asked - centre) @ np.linalg.solve(products, known.T @ (y - y.mean()))
    if np.ptp(found) == 0.0:
        return False
    return bool(np.corrcoef(found, rank)[0, 1] * np.sqrt(len(S)) > CLEAR)


def is_clear(difference: Floats) -> bool:
    """Whether a mean difference is no accident."""
    return bool(difference.mean() > CLEAR * difference.std(ddof=1) / np.sqrt(len(difference)))


def _compare(task: Task) -> tuple[Floats, Floats]:
    """Return the candidates' weights by their features, and how much likelier each row is than by another row's."""
    from plr.densities.forest import Forest
    from plr.densities.mixture import estimate

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
    heights = mixture.mix(found.out_of_fold or (), len(S))
    density = mixture.at(heights, S.row_index, mixture.target.apply(S.values))
    return np.log(np.add.reduceat(S.prior_or_uniform * density, S.offsets[:-1]))
