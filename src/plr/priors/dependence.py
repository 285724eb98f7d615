"""Whether false candidates depend on the features, found without labels.

Where false labels have nothing to do with their row, candidates of one row are no more alike than those of two. Where
they are alike (records that look alike have prices that are alike; guesses lie near the truth), a false candidate near
the prediction is as likely as a true one, and agreement with the model proves little. The exception: candidates
that are alike as a set, but far apart next to what the model knows (doubtful digits). So two questions are asked. How
alike are the candidates of a row? And, if they are: do those near the prediction, out of fold, stand out among all that
is found around predictions?

Where enough rows have a single candidate, predictions are also begun with these alone, in which no false label counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from plr._fields import require
from plr.candidates import CandidateSets
from plr.preprocessing.scaling import Affine, rescaled
from plr.priors.logit import Alternatives
from plr.priors.smoothing import KernelSmoother
from plr.threads import one_blas_thread

__all__ = ["FREEDOM", "Dependence", "explain", "intraclass_correlation", "student_scale", "weigh_by_agreement"]

Floats = NDArray[np.float64]

FREEDOM = 4.0
"""Degrees of freedom of the Student's t by which labels scatter around predictions."""

# Found over seven data sets and seven mechanisms; what lies between is decided by `weigh_by_agreement`.
_ALIKE = 0.35
_EXPLAINED = 0.65
_ROUNDS = 40
# So many rows with a single candidate are enough to predict from.
_ENOUGH_SINGLE = 20
# The least scale of labels around predictions, where labels have a standard deviation of about 1.
_LEAST_SCALE = 1e-6
# Rows that predictions are compared with candidates on.
_MOST_ROWS = 20_000


@dataclass(frozen=True)
class Dependence:
    """What was found.

    Attributes
    ----------
    correlation : float
        Intraclass correlation of the candidates of a row, of their ranks: 0 where they are unrelated, 1 where equal.
    explained : float or None
        How much of the spread within rows disappears when candidates are weighed by how well they agree with
        out-of-fold predictions; None where it was not needed.
    """

    correlation: float
    explained: float | None = None

    def __post_init__(self) -> None:
        require(self.correlation <= 1.0, "correlation out of range")
        require(self.explained is None or self.explained <= 1.0, "share of the spread out of range")

    @property
    def found(self) -> bool:
        """Whether false candidates depend on the features in a way that the data cannot tell from the truth."""
        return self.correlation > _ALIKE and self.explained is not None and self.explained < _EXPLAINED

    @property
    def needs_predictions(self) -> bool:
        """Whether candidates are alike, so that predictions have to be asked."""
        return self.correlation > _ALIKE


def intraclass_correlation(sets: Alternatives, values: Floats, weights: Floats) -> float:
    """Return how alike the candidates of a row are: the correlation of two candidates of one row, by their ranks.

    Parameters
    ----------
    sets, values : the candidates
    weights : ndarray of shape (n_rows,)
        How much each row counts.
    """
    counted = (sets.sizes > 1) & (weights > 0)
    if not counted.any():
        return 0.0
    part, chosen = sets.take(counted)
    of_row = weights[counted]
    ranks, each = _ranks(values[chosen], of_row[part.rows]), of_row[part.rows]
    away = ranks - (part.sum(ranks) / part.sizes)[part.rows]
    within = float(np.average(part.sum(away**2) / (part.sizes - 1), weights=of_row))
    total = float(np.average((ranks - np.average(ranks, weights=each)) ** 2, weights=each))
    return 0.0 if total == 0.0 else 1.0 - within / total


def _ranks(values: Floats, weights: Floats) -> Floats:
    """Return the rank of each value, in the middle of its equals, where each counts as often as it weighs."""
    places = np.unique(values, return_inverse=True)[1]
    total = np.bincount(places, weights)
    return np.asarray((np.cumsum(total) - total / 2)[places])


@one_blas_thread()
def explain(
    dependence: Dependence,
    S: CandidateSets,
    settled: CandidateSets,
    target: Affine,
    first: Floats,
    smoother: KernelSmoother,
    weights: Floats,
) -> Dependence:
    """Return the dependence with the share of the spread within rows that agreement with predictions explains.

    Parameters
    ----------
    dependence : Dependence
        How alike candidates are.
    S, settled : CandidateSets
        The candidates; and the same with known labels in place of those of checked rows.
    target : Affine
        How labels are scaled.
    first : ndarray, one entry per candidate
        The weights of a start, from which the first predictions are made.
    smoother : KernelSmoother
        Of the encoded rows.
    weights : ndarray of shape (n,)
        How much each row counts.
    """
    sets, values = Alternatives(S.offsets), rescaled(S, target).values
    known = rescaled(settled, target).values
    labels = sets.sum(first * known)
    explained, _ = weigh_by_agreement(sets, values, smoother.out_of_fold(labels), first, weights)
    single = (sets.sizes == 1) & (weights > 0)
    if single.sum() >= _ENOUGH_SINGLE:
        # Then all rows, with what these said of the others.
        prediction = smoother.from_rows(single).out_of_fold_with_trees(labels)
        _, belief = weigh_by_agreement(sets, values, prediction, first, weights)
        prediction = smoother.out_of_fold_with_trees(sets.sum(belief * known))
        explained = max(explained, weigh_by_agreement(sets, values, prediction, belief, weights)[0])
    return replace(dependence, explained=explained)


def weigh_by_agreement(
    sets: Alternatives, values: Floats, prediction: Floats, first: Floats, weights: Floats
) -> tuple[float, Floats]:
    """Return the share of the spread within rows that disappears when candidates near the prediction are believed.

    And how much each candidate is believed.

    The truth scatters around the prediction by a Student's t; the other candidates by a density that is estimated: one
    of values, as if unrelated to the row, mixed with one of distances from the prediction. Candidates are weighed by
    the ratio of the two; each half of the rows by densities that the other half gave.

    Parameters
    ----------
    sets, values : the candidates
        Values are scaled, to a standard deviation of about 1.
    prediction : ndarray of shape (n_rows,)
        Out of fold.
    first : ndarray of shape (n_candidates,)
        Weights to begin with.
    weights : ndarray of shape (n_rows,)
        How much each row counts.
    """
    counted, chosen, whole = np.flatnonzero(weights), np.ones(len(values), dtype=bool), first.copy()
    if len(counted) > _MOST_ROWS:
        counted = counted[np.linspace(0, len(counted) - 1, _MOST_ROWS).astype(np.int64)]
    if len(counted) < len(weights):
        rows_taken = np.zeros(len(weights), dtype=bool)
        rows_taken[counted] = True
        sets, chosen = sets.take(rows_taken)
        values, first, prediction, weights = values[chosen], first[chosen], prediction[counted], weights[counted]
    rows = sets.rows
    each, distance = weights[rows], values - prediction[rows]
    even = (np.arange(len(prediction)) % 2 == 0)[rows]
    bins = int(np.clip(np.sqrt(len(values)), 10, 60))
    by_value, by_distance = _Bins(values, bins), _Bins(distance, bins)
    belief_of_others = np.empty(len(values))
    for half in (even, ~even):
        share, unrelated, belief = 0.5, np.full(len(values), 0.5), first
        counts = np.where(half, each, 0.0)
        scale = student_scale(distance[half], (each * belief)[half])
        anywhere = by_value.density(counts, smoothing=1.0)
        for _ in range(_ROUNDS):
            false = counts * (1.0 - belief)
            around = by_distance.density(false * (1.0 - unrelated), smoothing=0.5)
            density = share * anywhere + (1.0 - share) * around
            unrelated = share * anywhere / density
            share = float(np.clip(false @ unrelated / max(false.sum(), 1e-12), 1e-3, 1.0 - 1e-3))
            belief = sets.softmax(t.logpdf(distance, FREEDOM, scale=scale) - np.log(density))
            scale = student_scale(distance[half], (each * belief)[half])
        belief_of_others[~half] = belief[~half]
    whole[chosen] = belief_of_others
    before = _spread(sets, values, np.repeat(1.0 / sets.sizes, sets.sizes), weights)
    return (0.0 if before == 0.0 else 1.0 - _spread(sets, values, belief_of_others, weights) / before), whole


def student_scale(distance: Floats, weights: Floats) -> float:
    """Return the likeliest scale of a Student's t around 0; at least a millionth, as labels are scaled."""
    shares, squares, least = weights + 1e-12, distance**2, _LEAST_SCALE**2
    shares = shares / shares.sum()
    squared = float(shares @ squares)
    for _ in range(50):
        if squared <= least:
            return _LEAST_SCALE
        squared = float(shares @ (squares * (FREEDOM + 1) / (FREEDOM + squares / squared)))
    return float(np.sqrt(max(squared, least)))


def _spread(sets: Alternatives, values: Floats, shares: Floats, weights: Floats) -> float:
    """Return the mean variance within rows of several candidates."""
    several = sets.sizes > 1
    if not several.any():
        return 0.0
    away = values - sets.sum(shares * values)[sets.rows]
    return float(np.average(sets.sum(shares * away**2)[several], weights=weights[several]))


class _Bins:
    """Values in bins that hold about as many each."""

    def __init__(self, values: Floats, count: int) -> None:
        edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, count + 1)))
        margin = 0.05 * (edges[-1] - edges[0]) + 1e-9
        self._widths = np.diff(np.concatenate([[edges[0] - margin], edges[1:-1], [edges[-1] + margin]]))
        self._place = np.searchsorted(edges[1:-1], values, side="left")

    def density(self, weights: Floats, smoothing: float) -> Floats:
        """Return the density at each value, where each counts as often as it weighs."""
        counts = np.bincount(self._place, weights, len(self._widths)) + smoothing
        return np.asarray((counts / counts.sum() / self._widths)[self._place])
