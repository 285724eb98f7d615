"""Scaling of features and labels, learned from training rows and undone in predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr.candidates import CandidateSets
from plr.errors import CandidateError, FeatureError, TargetScaleError

__all__ = [
    "Affine",
    "check_single_precision",
    "label_scale",
    "learn_features",
    "learn_target",
    "rescaled",
]

Floats = NDArray[np.float64]

# Beyond this a float32 network cannot hold a label and still square its error's gradient.
_LARGEST_FLOAT32_LABEL = 1e18


@dataclass(frozen=True)
class Affine:
    """Subtract a centre, divide by a scale."""

    centre: Floats | np.float64
    scale: Floats | np.float64

    def __post_init__(self) -> None:
        require(np.shape(self.centre) == np.shape(self.scale), "centre and scale differ in shape")

    def apply(self, values: Floats) -> Floats:
        """Scale."""
        return (values - self.centre) / self.scale

    def undo(self, values: Floats) -> Floats:
        """Scale back."""
        return values * self.scale + self.centre


def learn_features(X: Floats, sample_weight: Floats | None, active: bool) -> Affine:
    """Learn to give each column mean 0 and standard deviation 1; a constant column becomes 0."""
    columns = X.shape[1]
    if not active:
        return Affine(np.zeros(columns), np.ones(columns))
    centre, scale = _moments(X, sample_weight)
    bad = ~(np.isfinite(centre) & np.isfinite(scale))
    if bad.any():
        column = int(np.flatnonzero(bad)[0])
        raise FeatureError(f"Column {column} of X has a range too large for float64 arithmetic; rescale it.")
    return Affine(centre, scale)


def learn_target(
    S: CandidateSets, sample_weight: Floats | None = None, active: bool = True, single_precision: bool = False
) -> Affine:
    """Learn to give the candidates mean 0 and standard deviation 1, each counted by its prior; 1 where all are equal.

    Where not ``active`` labels are left as they are. Those that float64 cannot add up or tell apart are refused, and
    with ``single_precision`` those that float32 training cannot hold as they are.
    """
    weight = S.prior_or_uniform if sample_weight is None else S.prior_or_uniform * sample_weight[S.row_index]
    (centre,), (scale,) = _moments(S.values[:, None], weight)
    with np.errstate(over="ignore"):
        total = float(np.abs(S.values).max()) * S.values.size
    wrong = ""
    if scale < np.finfo(float).tiny:
        wrong = "; float64 arithmetic has no digits left for such small differences. Multiply them all by 1e20"
    elif not (np.isfinite(centre) and np.isfinite(scale)):
        wrong = ", a span beyond float64 arithmetic; divide them all by 1e20, or leave out what is no label"
    elif not np.isfinite(total):
        wrong = (
            f", and {S.values.size} of them cannot be added up in float64; divide them all by 1e20, or leave out what "
            f"is no label"
        )
    if wrong:
        low, high = int(S.values.argmin()), int(S.values.argmax())
        raise TargetScaleError(
            f"The candidates reach from {S.values[low]:g} in row {int(S.row_index[low])} to {S.values[high]:g} in row "
            f"{int(S.row_index[high])}{wrong}."
        )
    if active:
        return Affine(centre, scale)
    if single_precision:
        check_single_precision(S)
    return Affine(np.float64(0.0), np.float64(1.0))


def check_single_precision(S: CandidateSets) -> None:
    """Refuse labels that float32 training cannot hold as they are."""
    where = int(np.abs(S.values).argmax())
    if abs(S.values[where]) > _LARGEST_FLOAT32_LABEL:
        raise TargetScaleError(
            f"The candidate {S.values[where]:g} in row {int(S.row_index[where])} is too large for float32 training "
            f"on raw labels. Use scale_target=True, or double precision (MLP's dtype, a torch module's own)."
        )


def rescaled(S: CandidateSets, target: Affine) -> CandidateSets:
    """Return the same sets in the units the learner sees."""
    if target.centre == 0.0 and target.scale == 1.0:
        return S
    with np.errstate(over="ignore"):
        values = target.apply(S.values)
    if not np.isfinite(values).all():
        place = int(np.flatnonzero(~np.isfinite(values))[0])
        raise CandidateError(
            f"The candidate {S.values[place]:g} in row {int(S.row_index[place])} is too far from the labels that the "
            f"model was fitted to, which are around {float(target.centre):g} with a standard deviation of "
            f"{float(target.scale):g}; leave it out or correct it."
        )
    return CandidateSets._of_checked(values, S.offsets, S.prior)


def label_scale(S: CandidateSets, sample_weight: Floats | None = None) -> float:
    """Return the candidates' standard deviation, each counted by its prior; 1 where they are all equal."""
    return float(learn_target(S, sample_weight).scale)


def _moments(values: Floats, weight: Floats | None) -> tuple[Floats, Floats]:
    """Return each column's mean and standard deviation, computed around its middle so that offsets cost no digits.

    A standard deviation that is rounding error of the values counts as zero, and zero is given as 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = values.min(axis=0), values.max(axis=0)
        middle = low / 2 + high / 2
        span = np.maximum(high - low, np.finfo(float).tiny)
        unit = (values - middle) / span
        mean = np.average(unit, axis=0, weights=weight)
        deviation = np.sqrt(np.average((unit - mean) ** 2, axis=0, weights=weight))
        noise = 10 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high)) / span
        scale = np.where(deviation > noise, deviation * span, 1.0)
        return middle + mean * span, scale
