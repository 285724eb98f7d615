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

__all__ = ["CandidateColumns", "log_prior"]

Floats = NDArray[np.float64]

_BUILT_IN = ("rank of the value", "distance from the middle", "absolute distance from the middle", "values nearby")
_MOST_LEVELS = 30
# Values are near each other within this share of the spread of their row.
_NEARBY = 0.05
_LEAST_PRIOR = 1e-12
# A column that differs by less within rows counts as constant.
_LEAST_SCALE = 1e-300


@dataclass(frozen=True)
class CandidateColumns:
    """How features of candidates become numbers, each scaled by how much it differs within rows.

    Attributes
    ----------
    numbers : dict of str to (float, float)
        Columns of numbers, each with a low and a high value that are typical of it. Each gives its value, whether it is
        the highest of its row, and whether one other is higher.
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
    gaps: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    with_values: bool
    with_prior: bool
    scales: Floats

    def __post_init__(self) -> None:
        require(all(len(pair) == 2 for pair in self.numbers.values()), "a range needs a low and a high value")
        require({*self.gaps} <= self.numbers.keys() and not self.numbers.keys() & self.levels.keys(), "unknown columns")
        require(len(self.scales) == len(self.groups), "columns and scales differ in number")
        require(bool((self.scales >= _LEAST_SCALE).all()), "scales must be positive")

    @classmethod
    def learn(cls, S: CandidateSets, weights: Floats, with_values: bool) -> CandidateColumns:
        """Look at the features of training rows, each of which counts as often as it weighs."""
        if not weights.all():
            S, weights = S[weights > 0], weights[weights > 0]
        numbers = {name: column for name, column in S.features.items() if column.dtype.kind == "f"}
        levels = {name: _frequent(column) for name, column in S.features.items() if name not in numbers}
        ranges, gaps = {}, []
        for name, column in numbers.items():
            present = column[~np.isnan(column)]
            low, high = np.quantile(present, [0.1, 0.9]).tolist() if len(present) else (0.0, 1.0)
            ranges[name] = (low, high)
            if len(present) < len(column):
                gaps.append(name)
        own = 3 * len(numbers) + len(gaps) + sum(map(len, levels.values()))
        width = own + len(_BUILT_IN) * with_values + (S.prior is not None)
        plain = cls(ranges, tuple(gaps), levels, with_values, S.prior is not None, np.ones(width))
        raw, sets = plain.matrix(S), Alternatives(S.offsets)
        # In units of the largest, whose square is a number.
        unit = _largest(raw)
        away = raw / unit - (sets.sum(raw / unit) / sets.sizes[:, None])[sets.rows]
        spread = unit * np.sqrt(np.average(away**2, axis=0, weights=weights[sets.rows]))
        # The log prior keeps its meaning: with coefficient 1 it is the given prior.
        kept = (spread < _LEAST_SCALE) | np.array([group == "prior" for group in plain.groups], dtype=bool)
        return replace(plain, scales=np.where(kept, 1.0, spread))

    @property
    def names(self) -> tuple[str, ...]:
        """What each column of the matrix is."""
        found: list[str] = []
        for name in self.numbers:
            found += [name, f"{name}: highest of the row", f"{name}: second of the row"]
        found += [f"{name}: missing" for name in self.gaps]
        found += [f"{name} = {level}" for name, levels in self.levels.items() for level in levels]
        return (*found, *(_BUILT_IN if self.with_values else ()), *(("log prior",) if self.with_prior else ()))

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of each column of the matrix: columns of a group are shrunk by a common penalty."""
        own = ["own", "order", "order"] * len(self.numbers) + ["own"] * len(self.gaps)
        own += ["own"] * sum(map(len, self.levels.values()))
        return (*own, *["built_in"] * len(_BUILT_IN) * self.with_values, *["prior"] * self.with_prior)

    def matrix(self, S: CandidateSets) -> Floats:
        """Return the columns for some rows, one line per candidate."""
        sets = Alternatives(S.offsets)
        rows, columns = sets.rows, []
        for name in self.numbers:
            column = self._column(S, name, "f")
            higher, present = _higher(sets, column), ~np.isnan(column)
            unit = _largest(column)
            count = sets.sum(present.astype(float))
            mean = sets.sum(np.where(present, column / unit, 0.0)) / np.maximum(count, 1.0) * unit
            columns += [np.where(present, column, mean[rows]), present & (higher == 0), present & (higher == 1)]
        columns += [np.isnan(self._column(S, name, "f")) for name in self.gaps]
        for name, levels in self.levels.items():
            column = self._column(S, name, "U")
            columns += [column == level for level in levels]
        if self.with_values:
            standard, several = _standardised(sets, S.values), np.maximum(sets.sizes[rows] - 1, 1)
            # Equal values have the same place: the middle of theirs.
            lower = (_higher(sets, -S.values) + several - _higher(sets, S.values)) / 2
            columns += [lower / several, standard, np.abs(standard), _nearby(sets, standard)]
        if self.with_prior:
            columns.append(log_prior(S))
        return np.column_stack(columns).astype(float) / self.scales if columns else np.empty((len(S.values), 0))

    def _column(self, S: CandidateSets, name: str, kind: str) -> NDArray[Any]:
        if name not in S.features:
            raise FeatureError(
                f"The candidates have no feature {name!r}, which the model was fitted with; give it for these "
                f"candidates too.",
                column=name,
            )
        column = S.features[name]
        if kind == "U" and column.dtype.kind == "f" and np.isnan(column).all():
            # What is missing everywhere says nothing about its kind.
            return np.full(len(column), "")
        if column.dtype.kind != kind:
            held = ("numbers", "texts") if kind == "f" else ("texts", "numbers")
            raise FeatureError(
                f"The candidate feature {name!r} held {held[0]} in training and holds {held[1]} now; give it in the "
                f"same form.",
                column=name,
            )
        return column


def log_prior(S: CandidateSets) -> Floats:
    """Return the log of the given prior, which is a number where the prior is 0 as well."""
    return np.log(np.maximum(S.prior_or_uniform, _LEAST_PRIOR))


def _frequent(column: NDArray[Any]) -> tuple[str, ...]:
    found, counts = np.unique(column, return_counts=True)
    return tuple(str(level) for level in found[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]])


def _largest(columns: Floats) -> Floats:
    """Return the largest absolute value of each column, 1 where all are 0 or missing."""
    largest = np.nanmax(np.abs(columns), axis=0, initial=0.0)
    return np.asarray(np.where(largest > 0.0, largest, 1.0))


def _higher(sets: Alternatives, column: Floats) -> Floats:
    """Return how many candidates of its row are higher than each; missing ones are lower than all others."""
    filled = np.nan_to_num(column, nan=-np.inf)
    order = np.lexsort((-filled, sets.rows))
    line, rows = filled[order], sets.rows[order]
    begins = np.append(True, (line[1:] != line[:-1]) | (rows[1:] != rows[:-1]))
    first = np.maximum.accumulate(np.where(begins, np.arange(len(line)), 0))
    higher = np.empty(len(column))
    higher[order] = first - sets.offsets[:-1][rows]
    return higher


def _standardised(sets: Alternatives, values: Floats) -> Floats:
    """Return how far each value is from the mean of its row, in standard deviations of the row; 0 where it has none."""
    # In units of each row's largest, whose square is a number.
    unit = sets.max(np.abs(values))[sets.rows]
    scaled = np.divide(values, unit, out=np.zeros_like(values), where=unit > 0)
    away = scaled - (sets.sum(scaled) / sets.sizes)[sets.rows]
    spread = np.sqrt(sets.sum(away**2) / sets.sizes)[sets.rows]
    # Below this, differences are rounding errors of equal values.
    return np.divide(away, spread, out=np.zeros_like(away), where=spread > 1e-14)


def _nearby(sets: Alternatives, standard: Floats) -> Floats:
    """Return how many other values of the row lie within a twentieth of its spread, per other candidate."""
    # Sorted within rows, and rows far apart, so that one search finds the neighbours of all.
    placed = standard + 4.0 * np.sqrt(sets.sizes.max(initial=1)) * sets.rows
    line = np.sort(placed)
    count = np.searchsorted(line, placed + _NEARBY, "right") - np.searchsorted(line, placed - _NEARBY, "left") - 1.0
    return np.asarray(count / np.maximum(sets.sizes[sets.rows] - 1, 1))
