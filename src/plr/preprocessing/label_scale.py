"""Scales of labels: on a logarithm or a power of labels, what is crowded at one end of their range lies apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import clone
from sklearn.preprocessing import PowerTransformer

from plr._fields import require
from plr._parameters import check_choice
from plr.candidates import CandidateSets
from plr.errors import CandidateError, ParameterError
from plr.preprocessing.scaling import Affine, learn_target
from plr.weighting.false_labels import FalseLabelDensity

__all__ = [
    "TRANSFORMS",
    "LabelScale",
    "Power",
    "TransformedDensity",
    "check_transform",
    "get_transform",
    "likely_powers",
]

Floats = NDArray[np.float64]

# Of the distribution of true labels, from all candidates of all rows: bins, and rounds of expectation-maximisation.
_BINS, _ROUNDS = 60, 200
# Powers above one would set labels apart that crowd at the upper end. The one development table that asked for such
# a power, Cpu-act, was learned worse on it: rare low labels, which squares of errors are about, lay close together.
_POWERS = np.linspace(-1.5, 1.5, 31)
_POWERS = _POWERS[_POWERS < 1.0]
# A power so near to one, or labels that are likelier by less than this per row, make no difference.
_PLAIN, _GAIN = 0.3, 0.02
# Labels that a transformer is fitted to, the step of its slopes in shares of their range, and the least width of the
# noise of a row, relative to others.
_SHOWN, _STEP, _LEAST_SPREAD = 1000, 1e-4, 1e-3
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(15)
_SHARES = _SHARES / _SHARES.sum()


@dataclass(frozen=True)
class Power:
    """A power or logarithm of labels, counted from ``low`` in a unit: ((1 + (y - low) / unit) ** power - 1) / power.

    Its slope is one at ``low``, below which it goes on as a straight line.
    """

    low: float
    unit: float
    power: float

    def __post_init__(self) -> None:
        require(self.unit > 0, "the unit of a power must be positive")

    def apply(self, labels: Floats) -> Floats:
        """Transform labels."""
        far = (labels - self.low) / self.unit
        above = np.log1p(np.maximum(far, 0.0))
        found: Floats = np.where(far < 0, far, above if self.power == 0 else np.expm1(self.power * above) / self.power)
        return found

    def undo(self, values: Floats) -> Floats:
        """Return the labels that have been transformed."""
        above = np.maximum(values, 0.0)
        if self.power == 0:
            far = np.expm1(above)
        else:
            far = np.expm1(np.log1p(np.maximum(self.power * above, -1.0 + 1e-12)) / self.power)
        return np.where(values < 0, values, far) * self.unit + self.low

    def log_slope(self, labels: Floats) -> Floats:
        """Return the logarithm of the slope at some labels."""
        above = np.log1p(np.maximum((labels - self.low) / self.unit, 0.0))
        return (self.power - 1.0) * above - np.log(self.unit)


@dataclass(frozen=True)
class YeoJohnson:
    """The transformation of Yeo and Johnson (2000) of labels in a unit: a power of 1 + y above 0, of 1 - y below."""

    unit: float
    power: float

    def __post_init__(self) -> None:
        require(self.unit > 0, "the unit of a power must be positive")

    def apply(self, labels: Floats) -> Floats:
        """Transform labels."""
        place = labels / self.unit
        away = special.boxcox1p(np.abs(place), np.where(place < 0, 2.0 - self.power, self.power))
        found: Floats = np.where(place < 0, -away, away)
        return found

    def undo(self, values: Floats) -> Floats:
        """Return the labels that have been transformed."""
        away = special.inv_boxcox1p(np.abs(values), np.where(values < 0, 2.0 - self.power, self.power))
        found: Floats = np.where(values < 0, -away, away) * self.unit
        return found

    def log_slope(self, labels: Floats) -> Floats:
        """Return the logarithm of the slope at some labels."""
        place = labels / self.unit
        power = np.where(place < 0, 1.0 - self.power, self.power - 1.0)
        found: Floats = power * np.log1p(np.abs(place)) - np.log(self.unit)
        return found


@dataclass(frozen=True)
class Transformer:
    """What a transformer of scikit-learn makes of labels, within the range of the labels that it was fitted to.

    Attributes
    ----------
    transformer : object
    low, high : float
        Their range.
    """

    transformer: Any
    low: float
    high: float

    def apply(self, labels: Floats) -> Floats:
        """Transform labels; those of rows without weight, which may lie outside the range, as its ends."""
        inside = np.clip(labels, self.low, self.high)
        return np.asarray(self.transformer.transform(inside[:, None]), dtype=np.float64).ravel()

    def undo(self, values: Floats) -> Floats:
        """Return the labels that have been transformed."""
        return np.asarray(self.transformer.inverse_transform(values[:, None]), dtype=np.float64).ravel()

    def log_slope(self, labels: Floats) -> Floats:
        """Return the logarithm of the slope at some labels, from differences."""
        step = _STEP * (self.high - self.low)
        labels = np.clip(labels, self.low, self.high)
        up, down = np.minimum(labels + step, self.high), np.maximum(labels - step, self.low)
        rise = np.maximum(self.apply(up) - self.apply(down), np.finfo(np.float64).tiny)
        return np.asarray(np.log(rise) - np.log(up - down))


TRANSFORMS = ("log", "yeo-johnson")
"""The transformations that go by names."""


def check_transform(transform: object) -> None:
    """Raise unless something is the name of a transformation, or can be one."""
    if isinstance(transform, str):
        check_choice("target_transform", transform, ("auto", *TRANSFORMS))
        return
    able = all(hasattr(transform, name) for name in ("fit", "transform", "inverse_transform"))
    if transform is not None and (isinstance(transform, type) or not able):
        raise ParameterError(
            "{parameter} must be 'auto', None, "
            f"{', '.join(map(repr, TRANSFORMS))} or a transformer of scikit-learn with inverse_transform, "
            f"such as PowerTransformer(); got {transform!r}.",
            parameter="target_transform",
            value=transform,
        )


def get_transform(transform: Any, S: CandidateSets, weight: Floats | None) -> Power | YeoJohnson | Transformer:
    """Return a transformation, fitted to where true labels are likely to lie; rows without weight do not count."""
    weight = np.ones(len(S)) if weight is None else weight
    rows = np.flatnonzero(weight)
    counted = S[rows]
    low, high = float(counted.values.min()), float(counted.values.max())
    if not high > low:
        return Power(low, 1.0, 1.0)
    if isinstance(transform, str) and transform == "log":
        if not low > 0:
            row = int(S.row_index[int(np.flatnonzero(S.values == low)[0])])
            raise CandidateError(
                f"The candidate {low:g} in row {row} has no logarithm, which {{parameter}} needs; leave it out or "
                "correct it, or use target_transform='yeo-johnson' in Python, which takes any number.",
                parameter="target_transform",
                row=row,
                value=low,
            )
        return Power(low, low, 0.0)
    # Transformers take no weights: they see labels as often as these are likely.
    shares = _marginal_weights(counted, weight[rows])
    order = np.argsort(counted.values)
    until = np.cumsum(shares[order])
    places = np.searchsorted(until, (np.arange(_SHOWN) + 0.5) / _SHOWN * until[-1])
    shown = counted.values[order][np.minimum(places, len(order) - 1)]
    if isinstance(transform, str):
        # In a unit of their spread, on which the power depends.
        unit = float(np.std(shown / (high - low))) * (high - low)
        if not unit > 0:
            # All labels but a few in thousands are the same.
            return Power(low, 1.0, 1.0)
        fitted = PowerTransformer(standardize=False).fit((shown / unit)[:, None])
        return YeoJohnson(unit, float(fitted.lambdas_[0]))
    found = Transformer(clone(transform).fit(np.concatenate([shown, [low, high]])[:, None]), low, high)
    tried = found.apply(np.linspace(low, high, _SHOWN))
    if not (np.isfinite(tried).all() and (np.diff(tried) > 0).all()):
        raise ParameterError(
            "{parameter} must be strictly increasing over all candidates, which "
            f"{transform!r} is not between {low:g} and {high:g}.",
            parameter="target_transform",
            value=transform,
        )
    return found


@dataclass(frozen=True)
class TransformedDensity(FalseLabelDensity):
    """The density of false labels on another scale."""

    of_labels: FalseLabelDensity
    power: Power | YeoJohnson | Transformer

    def log(self, values: Floats) -> Floats:
        """Return the log density at some transformed labels."""
        labels = self.power.undo(values)
        return self.of_labels.log(labels) - self.power.log_slope(labels)


@dataclass(frozen=True)
class LabelScale:
    """How labels are seen: transformed, perhaps, and brought to mean 0 and standard deviation 1.

    Attributes
    ----------
    power : Power, YeoJohnson, Transformer or None
    target : Affine
    low, high : float
        The range of the candidates, as scaled.
    """

    power: Power | YeoJohnson | Transformer | None
    target: Affine
    low: float
    high: float

    @classmethod
    def of(
        cls,
        power: Power | YeoJohnson | Transformer | None,
        S: CandidateSets,
        weight: Floats | None = None,
        target: Affine | None = None,
    ) -> LabelScale:
        """Learn the scaling of candidate sets after a transformation; rows without weight do not count."""
        values = S.values if power is None else power.apply(S.values)
        if target is None:
            target = learn_target(CandidateSets._of_checked(values, S.offsets, S.prior), weight)
        scaled = target.apply(values if weight is None else values[weight[S.row_index] > 0])
        return cls(power, target, float(scaled.min()), float(scaled.max()))

    def apply(self, labels: Floats) -> Floats:
        """Scale labels."""
        return self.target.apply(labels if self.power is None else self.power.apply(labels))

    def undo(self, scaled: Floats) -> Floats:
        """Return the labels that were scaled."""
        found = self.target.undo(scaled)
        return found if self.power is None else self.power.undo(found)

    def mean(self, scaled: Floats, noise: float) -> Floats:
        """Return the mean label where scaled labels scatter around predictions, within the range of candidates.

        The label at the mean of a transformed label is not the mean of labels.
        """
        if self.power is None:
            return self.undo(scaled)
        total = np.zeros(len(scaled))
        for node, share in zip(_NODES, _SHARES, strict=True):
            total += share * self.undo(np.clip(scaled + noise * node, self.low, self.high))
        return total

    @property
    def width(self) -> float:
        """How far scaled candidates are apart."""
        return self.high - self.low

    def spread(self, scaled: Floats, noise: float) -> Floats:
        """Return half the distance between the labels a noise below scaled labels and a noise above."""
        # Where a prediction is beyond all candidates, labels are at the end of their range.
        scaled = np.clip(scaled, self.low, self.high)
        up, down = (np.clip(scaled + sign * noise, self.low, self.high) for sign in (1.0, -1.0))
        # Less than the whole of it lies within the range of candidates, at its ends.
        found = (self.undo(up) - self.undo(down)) * (noise / np.maximum(up - down, np.finfo(np.float64).tiny))
        least = _LEAST_SPREAD * float(np.mean(found)) if found.size else 0.0
        return np.maximum(found, max(least, np.finfo(np.float64).tiny))


def likely_powers(S: CandidateSets, weight: Floats) -> list[Power]:
    """Return the scales on which true labels look more like a bell than as they are, none where they do already.

    Where true labels lie is estimated from all candidates of all rows, false ones taken for uniform over their range.
    """
    S, weight = S[np.flatnonzero(weight)], weight[weight > 0]
    low, high = float(S.values.min()), float(S.values.max())
    span = high - low
    if not span > 0:
        return []
    shares = _marginal_weights(S, weight)
    # Within their range, so that labels of any unit can be squared.
    place = (S.values - low) / span
    centre = float(shares @ place)
    spread = span * float(np.sqrt(shares @ (place - centre) ** 2))
    units = [spread] if not low > 0 else [spread, low]
    found = []
    for unit in units if spread > 0 else []:
        above = np.log1p((S.values - low) / unit)
        slopes = float(shares @ above)

        def log_likelihood(power: float, above: Floats = above, slopes: float = slopes) -> float:
            values = above if abs(power) < 1e-9 else np.expm1(power * above) / power
            middle = float(shares @ values)
            return -0.5 * float(np.log(shares @ (values - middle) ** 2)) + (power - 1.0) * slopes

        powers = _POWERS if unit == spread else np.zeros(1)
        scores = np.array([log_likelihood(float(power)) for power in powers])
        best = int(scores.argmax())
        plain = log_likelihood(1.0)
        if abs(powers[best] - 1.0) > _PLAIN and scores[best] > plain + _GAIN:
            found.append(Power(low, unit, float(np.round(powers[best], 6))))
    return found


def _marginal_weights(S: CandidateSets, weight: Floats) -> Floats:
    """Return each candidate's share in the distribution of all true labels, as the candidates of all rows tell it."""
    prior = S.prior_or_uniform
    # In a unit near their range, so that shares can be divided by widths; a power of two, which rounds nothing.
    _, exponent = np.frexp(float(np.ptp(S.values)))
    values = np.ldexp(S.values, -exponent)
    edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, _BINS + 1)))
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    width = np.diff(edges)
    density = np.ones(len(width))
    by_row = weight[S.row_index] / weight.sum()
    for _ in range(_ROUNDS):
        shares = prior * density[place]
        total = np.add.reduceat(shares, S.offsets[:-1])[S.row_index]
        shares *= np.divide(by_row, total, out=np.zeros_like(total), where=total > 0)
        density = np.bincount(place, shares, len(width)) / width
    return shares
