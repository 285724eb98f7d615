"""A label axis cut into bins, and densities on it: straight lines from one bin centre to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr.candidates import CandidateSets

__all__ = ["Bins"]

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
