"""A label axis cut into bins, and densities on it: straight lines from one bin centre to the next.

`mean`, `mode` and `quantiles` are what to say of densities between any knots in one number, or a few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr.candidates import CandidateSets

__all__ = ["POINTS", "Bins", "mean", "median", "mode", "quantiles"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Bins:
    """Bin centres ``width`` apart from ``low`` on.

    A density is given by its heights at the centres. Beyond the outermost centres there are no heights; labels out
    there count as standing on the outermost centre.
    """

    low: float
    width: float
    count: int

    def __post_init__(self) -> None:
        require(self.width > 0 and self.count >= 2, "bins need a width and two centres")

    @classmethod
    def over(cls, S: CandidateSets, count: int, weight: Floats | None = None) -> Bins:
        """Return bins from the smallest candidate to the largest, of rows that have weight.

        A few that lie as far from the others as these lie from each other are no labels, and do not count.
        """
        values = S.values if weight is None else S.values[weight[S.row_index] > 0]
        first, last = (float(end) for end in np.quantile(values, [0.01, 0.99]))
        low = max(float(values.min()), first - (last - first))
        high = min(float(values.max()), last + (last - first))
        return cls(low, (high - low) / (count - 1) if high > low else 1.0, count)

    @property
    def centres(self) -> Floats:
        """The labels that the heights are for."""
        return self.low + self.width * np.arange(self.count, dtype=np.float64)

    @property
    def areas(self) -> Floats:
        """What a height of one at each centre adds to the integral: the outermost bins are halves."""
        areas = np.full(self.count, self.width)
        areas[[0, -1]] /= 2
        return areas

    def place(self, values: Floats) -> tuple[Integers, Floats]:
        """Return the centre at or below each label and the way to the next one, from 0 to 1."""
        at = np.clip((values - self.low) / self.width, 0.0, self.count - 1.0)
        left = np.minimum(at.astype(np.int64), self.count - 2)
        return left, at - left

    def spread(self, S: CandidateSets, shares: Floats) -> Floats:
        """Return per row what each centre gets when candidates leave their shares to the two centres beside them."""
        left, fraction = self.place(S.values)
        flat = S.row_index * self.count + left
        size = len(S) * self.count
        lower, upper = np.bincount(flat, shares * (1 - fraction), size), np.bincount(flat + 1, shares * fraction, size)
        return np.asarray(lower + upper, dtype=np.float64).reshape(len(S), self.count)

    def nearest_density(self, heights: Floats) -> Floats:
        """Return the densities nearest to heights of area one, some of which may be negative, in squared distance.

        All heights are lowered by the same amount and cut off at zero, so that the area is one again. Cutting alone
        would leave the positive half of the noise everywhere.
        """
        order = np.argsort(-heights, axis=1, kind="stable")
        falling, areas = np.take_along_axis(heights, order, axis=1), self.areas[order]
        lowered = (np.cumsum(falling * areas, axis=1) - 1.0) / np.cumsum(areas, axis=1)
        kept = np.maximum((falling > lowered).sum(axis=1), 1)
        density = np.maximum(heights - lowered[np.arange(len(heights)), kept - 1, None], 0.0)
        # Rounding may have taken all where one height is huge.
        return density / np.maximum(density @ self.areas, np.finfo(float).tiny)[:, None]

    def at(self, heights: Floats, rows: Integers | slice, values: Floats) -> Floats:
        """Return the density of row ``rows[j]`` at the label ``values[j]``, or of a slice of rows at all labels."""
        left, fraction = self.place(values)
        return (1 - fraction) * heights[rows, left] + fraction * heights[rows, left + 1]


def mean(knots: Floats, heights: Floats) -> Floats:
    """Return each row's mean."""
    if len(knots) == 1:
        return np.full(len(heights), knots[0])
    width, left, right = np.diff(knots), heights[:, :-1], heights[:, 1:]
    area = (left + right) / 2 * width
    first = area * knots[:-1] + (left + 2 * right) / 6 * width**2
    out: Floats = first.sum(axis=1) / area.sum(axis=1)
    return out


def mode(knots: Floats, heights: Floats) -> Floats:
    """Return the label where each row's density is highest; it is highest at a knot."""
    return knots[heights.argmax(axis=1)]


def median(knots: Floats, heights: Floats) -> Floats:
    """Return each row's median."""
    return quantiles(knots, heights, np.array([0.5]))[:, 0]


def quantiles(knots: Floats, heights: Floats, levels: Floats) -> Floats:
    """Return each row's quantiles, one column per level."""
    if len(knots) == 1:
        return np.full((len(heights), len(levels)), knots[0])
    width = np.diff(knots)
    areas = (heights[:, :-1] + heights[:, 1:]) / 2 * width
    reached = np.concatenate([np.zeros((len(heights), 1)), np.cumsum(areas, axis=1)], axis=1)
    out = np.empty((len(heights), len(levels)))
    rows = np.arange(len(heights))
    for column, level in enumerate(levels):
        aim = level * reached[:, -1]
        # The last knot at which less has been reached: there the density rises above zero.
        place = np.clip((reached < aim[:, None]).sum(axis=1) - 1, 0, len(width) - 1)
        rest = aim - reached[rows, place]
        left, slope = heights[rows, place], (heights[rows, place + 1] - heights[rows, place]) / width[place]
        # The area under a line up to a step of s is left * s + slope * s² / 2.
        root = left + np.sqrt(np.maximum(left**2 + 2 * slope * rest, 0.0))
        step = np.divide(2 * rest, root, out=np.zeros(len(rows)), where=root > 0)
        out[:, column] = knots[place] + np.clip(step, 0.0, width[place])
    return out


POINTS = {"mean": mean, "median": median, "mode": mode}
"""Single numbers that a density can be summed up in."""
