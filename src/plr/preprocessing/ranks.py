"""Columns by their ranks: what is crowded at one end is spread out evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from plr._fields import require

__all__ = ["NormalScores"]

Floats = NDArray[np.float64]

# Of a column with more different entries so many are kept, their scores evenly spaced, with straight lines between.
_MOST_KNOTS = 200
# Where weights vanish, shares of rows round to none or all.
_LEAST_SHARE, _LEAST_SPREAD = 1e-9, 1e-3


@dataclass(frozen=True)
class NormalScores:
    """Columns as normal quantiles of the shares of rows that are below, of mean 0 and standard deviation 1.

    Distances between entries of a skewed column are mostly those to a few large ones; distances between ranks are not.
    Entries beyond those seen are taken for the first or the last.

    Attributes
    ----------
    columns : tuple of int
        Those with three different entries and more.
    knots, scores : tuple of ndarray
        Some of the entries of each of these, in order, and their scores.

    Examples
    --------
    >>> column = np.array([[1.0], [2.0], [3.0], [100.0]])
    >>> NormalScores.of(column).append(column).round(2)
    array([[  1.  ,  -1.36],
           [  2.  ,  -0.38],
           [  3.  ,   0.38],
           [100.  ,   1.36]])
    """

    columns: tuple[int, ...]
    knots: tuple[Floats, ...]
    scores: tuple[Floats, ...]

    def __post_init__(self) -> None:
        require(len(self.columns) == len(self.knots) == len(self.scores), "columns, knots and scores differ in number")
        for knots, scores in zip(self.knots, self.scores, strict=True):
            require(len(knots) == len(scores) > 0, "knots and scores differ in number")
            require(bool((np.diff(knots) > 0).all()), "knots are not in order")

    @classmethod
    def of(cls, rows: Floats, weight: Floats | None = None) -> NormalScores:
        """Learn the scores from rows, which may have weights; those without weight do not count."""
        counted = np.ones(len(rows)) if weight is None else weight
        rows, counted = rows[counted > 0], counted[counted > 0]
        columns, knots, scores = [], [], []
        for column in range(rows.shape[1]):
            entries, place = np.unique(rows[:, column], return_inverse=True)
            if len(entries) < 3:
                continue
            shares = np.bincount(place, counted) / counted.sum()
            found = ndtri(np.clip(np.cumsum(shares) - shares / 2, _LEAST_SHARE, 1.0 - _LEAST_SHARE))
            found -= shares @ found
            spread = np.sqrt(shares @ found**2)
            if spread < _LEAST_SPREAD:
                # One entry has nearly all the weight.
                continue
            found /= spread
            if len(entries) > _MOST_KNOTS:
                kept = np.searchsorted(np.cumsum(shares), ndtr(np.linspace(-4.0, 4.0, _MOST_KNOTS)))
                kept = np.unique(np.concatenate([[0], np.minimum(kept, len(entries) - 1), [len(entries) - 1]]))
                entries, found = entries[kept], found[kept]
            columns.append(column)
            knots.append(entries)
            scores.append(found)
        return cls(tuple(columns), tuple(knots), tuple(scores))

    def append(self, rows: Floats) -> Floats:
        """Return rows with their scores as further columns."""
        learned = zip(self.columns, self.knots, self.scores, strict=True)
        found = [np.interp(rows[:, column], knots, scores) for column, knots, scores in learned]
        return np.column_stack([rows, *found])
