"""Features of candidates as numbers: the user's columns, and what every set has by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr.candidates import CandidateSets
from plr.errors import FeatureError
from plr.priors.logit import Alternatives

__all__ = ["CandidateColumns"]

Floats = NDArray[np.float64]

_BUILT_IN = ("rank of the value", "distance from the middle", "absolute distance from the middle", "values nearby")
_MOST_LEVELS = 30
# Values are near each other within this share of the spread of their row.
_NEARBY = 0.05
_LEAST_PRIOR = 1e-12
# The least value that a log is taken of, in units of the median of those above 0.
_FLOOR = 0.01
_NOTHING_NEW = 1e-3


@dataclass(frozen=True)
class CandidateColumns:
    """How features of candidates become numbers, each scaled by how much it differs within rows.

    Attributes
    ----------
    numbers : dict of str to (float, float)
        Columns of numbers, each with a low and a high value that are typical of it. Each gives its value, whether it is
        the highest of its row and whether the second.
    logs : dict of str to (float, float)
        Which of these were never negative in training, each with the least value that its log is taken of, and how much
        more the value differs within rows than its log. What the log says beyond the value is a column of its own, so
        that ratios can count rather than differences.
    gaps : tuple of str
        Which of these had gaps in training; each gets a column that says where.
    levels : dict of str to tuple of str
        Columns of categories and their levels, the most frequent ones; other levels count as none of these.
    with_values : bool
        Whether the place of a value among those of its row counts.
    with_prior : bool
        Whether the log of the given prior is a column.
    scales : ndarray
        What each column is divided by.
    """

    numbers: dict[str, tuple[float, float]]
    logs: dict[str, tuple[float, float]]
    gaps: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    with_values: bool
    with_prior: bool
    scales: Floats

    def __post_init__(self) -> None:
        require(len(self.scales) == len(self.groups), "columns and scales differ in number")
        require(bool((self.scales > 0).all()), "scales must be positive")

    @classmethod
    def learn(cls, S: CandidateSets, with_values: bool) -> CandidateColumns:
        """Look at the features of training rows."""
        numbers = {name: column for name, column in S.features.items() if column.dtype.kind == "f"}
        levels = {name: _frequent(column) for name, column in S.features.items() if name not in numbers}
        sets, ranges, logs, gaps = Alternatives(S.offsets), {}, {}, []
        for name, column in numbers.items():
            present = column[~np.isnan(column)]
            low, high = np.quantile(present, [0.1, 0.9]).tolist() if len(present) else (0.0, 1.0)
            ranges[name] = (low, high)
            if len(positive := present[present > 0.0]) and present.min() >= 0.0:
                floor, filled = _FLOOR * float(np.median(positive)), _filled(sets, column)
                log = np.log(np.maximum(filled, floor))
                spread, of_log = _spread_within(sets, np.column_stack([filled, log]))
                # Where there are two values only, or none differ, the log says nothing new.
                if of_log > 0.0 and _spread_within(sets, spread / of_log * log - filled) > _NOTHING_NEW * spread:
                    logs[name] = floor, float(spread / of_log)
            if len(present) < len(column):
                gaps.append(name)
        own = 3 * len(numbers) + len(gaps) + len(logs) + sum(map(len, levels.values()))
        width = own + len(_BUILT_IN) * with_values + (S.prior is not None)
        plain = cls(ranges, logs, tuple(gaps), levels, with_values, S.prior is not None, np.ones(width))
        spread = _spread_within(sets, plain.matrix(S))
        # The log prior keeps its meaning: with coefficient 1 it is the given prior.
        kept = (spread == 0) | np.array([group == "prior" for group in plain.groups], dtype=bool)
        return replace(plain, scales=np.where(kept, 1.0, spread))

    @property
    def names(self) -> tuple[str, ...]:
        """What each column of the matrix is."""
        found: list[str] = []
        for name in self.numbers:
            found += [name, f"{name}: highest of the row", f"{name}: second of the row"]
        found += [f"{name}: missing" for name in self.gaps] + [f"{name}: log" for name in self.logs]
        found += [f"{name} = {level}" for name, levels in self.levels.items() for level in levels]
        return (*found, *(_BUILT_IN if self.with_values else ()), *(("log prior",) if self.with_prior else ()))

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of each column of the matrix: columns of a group are shrunk by a common penalty."""
        own = ["own", "order", "order"] * len(self.numbers) + ["own"] * len(self.gaps)
        own += ["log"] * len(self.logs) + ["own"] * sum(map(len, self.levels.values()))
        return (*own, *["built_in"] * len(_BUILT_IN) * self.with_values, *["prior"] * self.with_prior)

    def matrix(self, S: CandidateSets) -> Floats:
        """Return the columns for some rows, one line per candidate."""
        sets, values = Alternatives(S.offsets), S.values
        rows, columns = sets.rows, []
        for name in self.numbers:
            column = self._column(S, name, "f")
            order = _order(sets, column)
            columns += [_filled(sets, column), order == 0, order == 1]
        columns += [np.isnan(self._column(S, name, "f")) for name in self.gaps]
        columns += [self.bend(name, _filled(sets, self._column(S, name, "f"))) for name in self.logs]
        for name, levels in self.levels.items():
            column = self._column(S, name, "U")
            columns += [column == level for level in levels]
        if self.with_values:
            away = values - (sets.sum(values) / sets.sizes)[rows]
            spread = np.sqrt(sets.sum(away**2) / sets.sizes)[rows]
            standard = np.divide(away, spread, out=np.zeros_like(away), where=spread > 0)
            several = np.maximum(sets.sizes[rows] - 1, 1)
            columns += [_order(sets, -values) / several, standard, np.abs(standard), _nearby(sets, values, spread)]
        if self.with_prior:
            columns.append(np.log(np.maximum(S.prior_or_uniform, _LEAST_PRIOR)))
        return np.column_stack(columns).astype(float) / self.scales if columns else np.empty((len(values), 0))

    def bend(self, name: str, column: Floats) -> Floats:
        """Return what the log of a column says beyond the value itself."""
        floor, factor = self.logs[name]
        return factor * np.log(np.maximum(column, floor)) - column

    def _column(self, S: CandidateSets, name: str, kind: str) -> NDArray[Any]:
        if name not in S.features:
            raise FeatureError(
                f"The candidates have no feature {name!r}, which the model was fitted with; give it for these "
                f"candidates too.",
                column=name,
            )
        column = S.features[name]
        if column.dtype.kind != kind:
            held = ("numbers", "texts") if kind == "f" else ("texts", "numbers")
            raise FeatureError(
                f"The candidate feature {name!r} held {held[0]} in training and holds {held[1]} now; give it in the "
                f"same form.",
                column=name,
            )
        return column


def _filled(sets: Alternatives, column: Floats) -> Floats:
    """Return a column with the mean of the row where there is a gap."""
    present = ~np.isnan(column)
    mean = sets.sum(np.where(present, column, 0.0)) / np.maximum(sets.sum(present.astype(float)), 1.0)
    return np.where(present, column, mean[sets.rows])


def _spread_within(sets: Alternatives, columns: Floats) -> Floats:
    """Return the standard deviation of each column around the means of rows."""
    away = columns - (sets.sum(columns).T / sets.sizes).T[sets.rows]
    # In units of the largest, whose square is a number.
    largest = np.maximum(np.abs(away).max(axis=0, initial=0.0), np.finfo(float).tiny)
    return np.asarray(largest * np.sqrt(((away / largest) ** 2).mean(axis=0)))


def _frequent(column: NDArray[Any]) -> tuple[str, ...]:
    found, counts = np.unique(column, return_counts=True)
    return tuple(str(level) for level in found[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]])


def _order(sets: Alternatives, column: Floats) -> Floats:
    """Return how many candidates of its row are higher than each; missing ones come last."""
    filled = np.nan_to_num(column, nan=-np.inf)
    order = np.lexsort((-filled, sets.rows))
    line, rows = filled[order], sets.rows[order]
    begins = np.append(True, (line[1:] != line[:-1]) | (rows[1:] != rows[:-1]))
    # Equal ones share the place of the first of them.
    first = np.maximum.accumulate(np.where(begins, np.arange(len(line)), 0))
    place = np.empty(len(column))
    place[order] = first - sets.offsets[:-1][rows]
    return place


def _nearby(sets: Alternatives, values: Floats, spread: Floats) -> Floats:
    """Return how many other values of the row lie within a twentieth of its spread, per other candidate."""
    order = np.lexsort((values, sets.rows))
    # Sorted within rows, and rows far apart, so that one search finds the neighbours of all.
    whole = float(np.ptp(values)) or 1.0
    placed = (values - values.min()) / whole + 4.0 * sets.rows
    reach, line = _NEARBY * spread / whole, placed[order]
    count = np.searchsorted(line, placed + reach, "right") - np.searchsorted(line, placed - reach, "left") - 1.0
    return np.asarray(count / np.maximum(sets.sizes[sets.rows] - 1, 1))
