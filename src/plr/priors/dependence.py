"""Whether false candidates depend on the features, found without labels.

Where false labels have nothing to do with their row, candidates of one row are no more alike than those of two. Where
they are alike (records that look alike have prices that are alike; guesses lie near the truth), a false candidate near
the prediction is as likely as a true one, and a model may take its own echo for evidence. The exception: candidates
that are alike as a set, but far apart next to what the model knows (doubtful digits). So two questions are asked. How
alike are the candidates of a row? And, if they are: do those near the prediction, out of fold, stand out among all that
is found around predictions?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, t

from plr.priors.logit import Alternatives

__all__ = ["Dependence", "intraclass_correlation", "student_scale", "variance_explained"]

Floats = NDArray[np.float64]

FREEDOM = 4.0
# Found over seven data sets and seven mechanisms; what lies between is decided by `variance_explained`.
_ALIKE = 0.35
_EXPLAINED = 0.65
_ROUNDS = 40


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

    @property
    def found(self) -> bool:
        """Whether false candidates depend on the features in a way that the data cannot tell from the truth."""
        return self.correlation > _ALIKE and self.explained is not None and self.explained < _EXPLAINED

    @property
    def needs_predictions(self) -> bool:
        """Whether candidates are alike, so that predictions have to be asked."""
        return self.correlation > _ALIKE


def intraclass_correlation(sets: Alternatives, values: Floats) -> float:
    """Return how alike the candidates of a row are: the correlation of two candidates of one row, by their ranks."""
    several = sets.sizes > 1
    if not several.any():
        return 0.0
    part, chosen = sets.take(several)
    ranks = rankdata(values[chosen])
    sizes = part.sizes
    away = ranks - (part.sum(ranks) / sizes)[part.rows]
    within = np.mean(part.sum(away**2) / (sizes - 1))
    total = ranks.var()
    return 0.0 if total == 0.0 else float(1.0 - within / total)


def variance_explained(sets: Alternatives, values: Floats, prediction: Floats, first: Floats) -> float:
    """Return the share of the spread within rows that disappears when candidates near the prediction are believed.

    The truth scatters around the prediction by a Student's t; the other candidates by a density that is estimated: one
    of values, as if unrelated to the row, mixed with one of distances from the prediction. Candidates are weighed by
    the ratio of the two; each half of the rows by densities that the other half gave.

    Parameters
    ----------
    sets, values : the candidates
    prediction : ndarray of shape (n_rows,)
        Out of fold.
    first : ndarray of shape (n_candidates,)
        Weights to begin with.
    """
    rows = sets.rows
    distance = values - prediction[rows]
    even = (np.arange(len(prediction)) % 2 == 0)[rows]
    bins = int(np.clip(np.sqrt(len(values)), 10, 60))
    by_value, by_distance = _Bins(values, bins), _Bins(distance, bins)
    weights = np.empty(len(values))
    smallest = 1e-4 * float(values.std()) + np.finfo(float).tiny
    for half in (even, ~even):
        share, unrelated, belief = 0.5, np.full(len(values), 0.5), first
        scale = max(student_scale(distance[half], belief[half]), smallest)
        anywhere = by_value.density(np.ones(len(values)), half, smoothing=1.0)
        for _ in range(_ROUNDS):
            false = np.where(half, 1.0 - belief, 0.0)
            around = by_distance.density(false * (1.0 - unrelated), half, smoothing=0.5)
            density = share * anywhere + (1.0 - share) * around
            unrelated = share * anywhere / density
            share = float(np.clip(false @ unrelated / max(false.sum(), 1e-12), 1e-3, 1.0 - 1e-3))
            belief = sets.softmax(t.logpdf(distance, FREEDOM, scale=scale) - np.log(density))
            scale = max(student_scale(distance[half], belief[half]), smallest)
        weights[~half] = belief[~half]
    before = _spread(sets, values, np.repeat(1.0 / sets.sizes, sets.sizes))
    return 0.0 if before == 0.0 else 1.0 - _spread(sets, values, weights) / before


def student_scale(distance: Floats, weights: Floats) -> float:
    """Return the likeliest scale of a Student's t around 0."""
    counts = weights + 1e-12
    squared = float(np.average(distance**2, weights=counts))
    for _ in range(50):
        if squared == 0.0:
            return 0.0
        squared = float(np.average(distance**2 * (FREEDOM + 1) / (FREEDOM + distance**2 / squared), weights=counts))
    return float(np.sqrt(squared))


def _spread(sets: Alternatives, values: Floats, weights: Floats) -> float:
    """Return the mean variance within rows of several candidates."""
    away = values - sets.sum(weights * values)[sets.rows]
    return float(np.mean(sets.sum(weights * away**2)[sets.sizes > 1]))


class _Bins:
    """Values in bins that hold about as many each."""

    def __init__(self, values: Floats, count: int) -> None:
        edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, count + 1)))
        margin = 0.05 * (edges[-1] - edges[0]) + 1e-9
        self._widths = np.diff(np.concatenate([[edges[0] - margin], edges[1:-1], [edges[-1] + margin]]))
        self._place = np.searchsorted(edges[1:-1], values, side="left")

    def density(self, weights: Floats, half: NDArray[np.bool_], smoothing: float) -> Floats:
        """Return the density at each value, estimated from one half."""
        counts = np.bincount(self._place[half], weights[half], len(self._widths)) + smoothing
        return np.asarray((counts / counts.sum() / self._widths)[self._place])
