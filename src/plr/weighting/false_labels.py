"""The density of false labels, q: uniform, given, or estimated from the candidates.

A row's candidates are as likely as Σ_j prior_j · p(y_j | prediction) / q(y_j): where false labels are common, a
candidate that is met says less. Densities are per unit of the label; one that is estimated or given is kept from zero,
so that a candidate at a label that q hardly knows does not decide its row whatever the prediction is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr._parameters import check_choice
from plr.candidates import CandidateSets
from plr.errors import ParameterError

if TYPE_CHECKING:
    from plr.preprocessing.scaling import Affine

__all__ = [
    "FalseLabelDensity",
    "GivenDensity",
    "SmoothDensity",
    "check_false_labels",
    "fit_false_labels",
    "smooth_density",
]

Floats = NDArray[np.float64]

# The share of an estimate that is uniform: no ratio p/q exceeds that of a uniform q by more than one over this.
_FLOOR = 0.1
_SHARP_FLOOR = 0.001
# A given density is taken at its word further down, to this share of the uniform one.
_GIVEN_FLOOR = 1e-6
# An estimate is a sum of so many equal bumps, at quantiles of the labels.
_BUMPS = 400
# Where the density is computed, in widths of a bump around each; straight lines of its logarithm in between.
_PLACES = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
# A bump is no narrower than this share of the range that most labels are in.
_NARROWEST = 1e-3
# Beyond the labels the density falls off within the distance that so many of them have from one to the next.
_FALL = 5.0


@dataclass(frozen=True)
class FalseLabelDensity:
    """A density of false labels, the same everywhere; its kin below differ from place to place.

    Attributes
    ----------
    low, high : float
        The range of the candidates it was made for.
    """

    low: float
    high: float

    def log(self, values: Floats) -> Floats:
        """Return the log density at some labels."""
        return np.full(len(values), self._log_uniform(self.high - self.low))

    def log_scaled(self, values: Floats, target: Affine) -> Floats:
        """Return the log density at some labels, given in their own units, per unit of scaled labels."""
        return self.log(values) + np.log(float(target.scale))

    def log_uniform(self, target: Affine) -> float:
        """Return the log of the uniform density, per unit of scaled labels."""
        low, high = target.apply(np.array([self.low, self.high]))
        return self._log_uniform(float(high - low))

    @staticmethod
    def _log_uniform(span: float) -> float:
        # Where all candidates are equal there is no range; any number will do.
        return -float(np.log(span)) if span > 0 else 0.0


@dataclass(frozen=True)
class SmoothDensity(FalseLabelDensity):
    """A density estimated from labels: known at ``knots``, its logarithm straight between them and level beyond."""

    knots: Floats = field(repr=False)
    heights: Floats = field(repr=False)

    def __post_init__(self) -> None:
        require(len(self.knots) == len(self.heights) > 0, "knots and heights differ in number")

    def log(self, values: Floats) -> Floats:
        """Return the log density at some labels."""
        return np.interp(values, self.knots, self.heights)


@dataclass(frozen=True)
class GivenDensity(FalseLabelDensity):
    """A density of the user's: a function that gives densities, or an object with ``logpdf``."""

    given: Any

    def log(self, values: Floats) -> Floats:
        """Return the log density at some labels."""
        by_log = hasattr(self.given, "logpdf")
        name = f"{type(self.given).__name__}.logpdf" if by_log else getattr(self.given, "__name__", repr(self.given))
        try:
            found = np.asarray(self.given.logpdf(values) if by_log else self.given(values), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"{name}, given as false_labels, failed on an array of labels: {error}.") from error
        if found.shape != np.shape(values):
            raise ParameterError(
                f"{name}, given as false_labels, returned shape {found.shape} for {len(values)} labels; expected one "
                f"density for each."
            )
        bad = np.isnan(found) | (found == np.inf) if by_log else ~np.isfinite(found) | (found < 0)
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            raise ParameterError(
                f"{name}, given as false_labels, returned {found[place]} for the label {values[place]:g}; expected "
                f"{'the logarithm of a density' if by_log else 'a density, finite and at least 0'}."
            )
        lowest = self._log_uniform(self.high - self.low) + np.log(_GIVEN_FLOOR)
        if not by_log:
            with np.errstate(divide="ignore"):
                found = np.log(found)
        return np.maximum(found, lowest)


def check_false_labels(given: object) -> Floats | None:
    """Refuse what cannot be a density of false labels; return the examples, where it is some."""
    if isinstance(given, str):
        check_choice("false_labels", given, ("estimated", "uniform"))
        return None
    if isinstance(given, type):
        raise ParameterError(f"false_labels got the class {given.__name__}; give an instance, or a function.")
    if hasattr(given, "logpdf") or callable(given):
        return None
    try:
        labels = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        labels = np.empty(0)
    if labels.ndim != 1 or labels.size == 0:
        raise ParameterError(
            f"false_labels must be 'uniform', 'estimated', a function that returns a density for each label of an "
            f"array, an object with logpdf, or an array of example false labels of one dimension, got {given!r}."
        )
    if not np.isfinite(labels).all():
        place = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ParameterError(f"false_labels is {labels[place]} in place {place}; examples must be finite.")
    return labels


def fit_false_labels(
    given: object,
    S: CandidateSets,
    weights: Floats | None = None,
    sample_weight: Floats | None = None,
    sharp: bool = False,
) -> FalseLabelDensity:
    """Make the density that a `Posterior` weighting asks for.

    Parameters
    ----------
    given : "uniform", "estimated", callable, object with ``logpdf``, or array of example false labels
    S : CandidateSets
    weights : ndarray, one entry per candidate, optional
        How probable each candidate is to be the true one: a start's weights; the priors where there are none.
    sample_weight : ndarray of shape (n,), optional
    sharp : bool
        Whether an estimate from the candidates is to be as near to them as can be: without the caution that training
        needs, and without being wider than they are.
    """
    examples = check_false_labels(given)
    counted = S.values if sample_weight is None else S.values[sample_weight[S.row_index] > 0]
    low, high = float(counted.min()), float(counted.max())
    if examples is not None:
        return smooth_density(examples, np.ones(len(examples)), low, high)
    if not isinstance(given, str):
        return GivenDensity(low, high, given)
    if given == "uniform":
        return FalseLabelDensity(low, high)
    falsehood = np.clip(1.0 - (S.prior_or_uniform if weights is None else weights), 0.0, 1.0)
    if sample_weight is not None:
        falsehood = falsehood * sample_weight[S.row_index]
    # The candidate of a row with no other says where true labels are, if anything.
    falsehood = np.where(S.sizes[S.row_index] > 1, falsehood, 0.0)
    return smooth_density(S.values, falsehood, low, high, sharp)


def smooth_density(labels: Floats, weights: Floats, low: float, high: float, sharp: bool = False) -> FalseLabelDensity:
    """Estimate a density from weighted labels, with a floor over the range of labels from ``low`` to ``high``.

    A sum of equal Gaussian bumps at quantiles of the labels, as wide as Silverman's rule says, mirrored at both ends of
    the labels: a uniform density would otherwise fall to half its height there. Beyond the ends it falls off soon.
    """
    counts = weights > 0
    labels, weights = labels[counts], weights[counts]
    span = max(high, labels.max(initial=low)) - min(low, labels.min(initial=high))
    if len(labels) == 0 or not span > 0:
        return FalseLabelDensity(low, high)
    order = np.argsort(labels, kind="stable")
    labels, weights = labels[order], weights[order] / weights.sum()
    until = np.cumsum(weights)

    def quantiles(levels: Floats) -> Floats:
        return labels[np.minimum(np.searchsorted(until, levels), len(labels) - 1)]

    bumps = quantiles((np.arange(_BUMPS) + 0.5) / _BUMPS)
    quarters = quantiles(np.array([0.25, 0.75]))
    deviation = float(np.sqrt(np.average((labels - np.average(labels, weights=weights)) ** 2, weights=weights)))
    middle = float(quarters[1] - quarters[0]) / 1.34
    effective = 1.0 / float(weights @ weights)
    width = 0.9 * (min(deviation, middle) if middle > 0 else deviation) * effective**-0.2
    within = quantiles(np.array([0.05, 0.95]))
    width = max(width, _NARROWEST * (float(within[1] - within[0]) or span))

    floor = _FLOOR
    if sharp:
        floor = _SHARP_FLOOR
        centre = float(weights @ labels)
        bumps = centre + (bumps - centre) * np.sqrt(max(0.0, 1.0 - (width / deviation) ** 2))
    first, last = labels[0], labels[-1]
    fall = min(width, _FALL * (last - first) / effective) or width
    around = np.clip((bumps[:, None] + width * _PLACES).ravel(), first, last)
    knots = np.unique(np.concatenate([around, [low, high], first + fall * _PLACES, last + fall * _PLACES]))
    inside = np.clip(knots, first, last)
    height = np.zeros(len(knots))
    for centres in (bumps, 2 * first - bumps, 2 * last - bumps):
        height += np.exp(-0.5 * ((inside[:, None] - centres) / width) ** 2).mean(axis=1)
    height *= np.exp(-0.5 * ((knots - inside) / fall) ** 2)
    height /= float(np.trapezoid(height, knots))
    return SmoothDensity(low, high, knots, np.log((1.0 - floor) * height + floor / span))
