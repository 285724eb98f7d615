"""What to say of a density in one number, or a few: mean, mode and quantiles of lines between knots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["POINTS", "mean", "median", "mode", "quantiles"]

Floats = NDArray[np.float64]


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
