"""Features of candidates as numbers: the user's columns, and what every set has by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr.errors import FeatureError
from plr.priors.logit import Alternatives

__all__ = ["BUILT_IN", "GROUPS", "CandidateColumns"]

Floats = NDArray[np.float64]

GROUPS = ("own", "order", "built_in", "prior")
"""Which penalties a column's coefficient may have: see `plr.priors.learned`."""

BUILT_IN = ("rank of the value", "distance from the middle", "absolute distance from the middle", "values nearby")

_MOST_LEVELS = 30
_NEARBY = 0.05


@dataclass(frozen=True)
class CandidateColumns:
    """How features of candidates become numbers, each standardised within rows.

    Attributes
    ----------
    numbers : tuple of str
        Columns of numbers; each gives its value, whether it is the highest of its row and whether the second, and,
        where training rows had gaps, whether it is missing.
    gaps : tuple of str
        Which of these had gaps.
    levels : dict of str to tuple of str
        Columns of categories and their levels, the most frequent ones; others count as one more.
    with_prior : bool
        Whether the log of the given prior is a column.
    scales : ndarray
        What each column is divided by: its spread within rows.
    """

    numbers: tuple[str, ...]
    gaps: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    with_prior: bool
    scales: Floats

    @classmethod
    def of(
        cls, sets: Alternatives, values: Floats, features: Mapping[str, NDArray[np.generic]], prior: Floats | None
    ) -> CandidateColumns:
        """Look at the features of training rows."""
        numbers = tuple(name for name, column in features.items() if column.dtype.kind == "f")
        gaps = tuple(name for name in numbers if np.isnan(features[name]).any())
        levels = {}
        for name, column in features.items():
            if name not in numbers:
                found, counts = np.unique(column, return_counts=True)
                levels[name] = tuple(str(level) for level in found[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]])
        plain = cls(numbers, gaps, levels, prior is not None, np.empty(0))
        raw = plain._raw(sets, values, features, prior)
        away = raw - (sets.sum(raw) / sets.sizes[:, None])[sets.rows]
        spread = np.sqrt((away**2).mean(axis=0))
        scales = np.where(spread > 0, spread, 1.0)
        # The log prior keeps its meaning: with coefficient 1 it is the given prior.
        scales[[group == "prior" for group in plain.groups]] = 1.0
        return cls(numbers, gaps, levels, prior is not None, scales)

    @property
    def names(self) -> tuple[str, ...]:
        """What each column of the matrix is."""
        found: list[str] = []
        for name in self.numbers:
            found += [name, f"{name}: highest of the row", f"{name}: second of the row"]
        found += [f"{name}: missing" for name in self.gaps]
        found += [f"{name} = {level}" for name, levels in self.levels.items() for level in levels]
        return (*found, *BUILT_IN, *(("log of the given prior",) if self.with_prior else ()))

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of each column of the matrix."""
        own = ["own", "order", "order"] * len(self.numbers) + ["own"] * len(self.gaps)
        own += ["own"] * sum(map(len, self.levels.values()))
        return (*own, *["built_in"] * len(BUILT_IN), *(["prior"] if self.with_prior else []))

    def matrix(
        self, sets: Alternatives, values: Floats, features: Mapping[str, NDArray[np.generic]], prior: Floats | None
    ) -> Floats:
        """Return the columns for some rows."""
        for name in (*self.numbers, *self.levels):
            if name not in features:
                raise FeatureError(
                    f"The candidates have no feature {name!r}, which the model was fitted with; give it for these "
                    f"candidates too.",
                    column=name,
                )
        return self._raw(sets, values, features, prior) / self.scales

    def _raw(
        self, sets: Alternatives, values: Floats, features: Mapping[str, NDArray[np.generic]], prior: Floats | None
    ) -> Floats:
        rows, columns = sets.rows, []
        for name in self.numbers:
            column = np.asarray(features[name], float)
            order = _order(sets, column)
            middle = np.nan_to_num(_nan_mean(sets, column))[rows]
            columns += [np.where(np.isnan(column), middle, column), order == 0, order == 1]
        columns += [np.isnan(np.asarray(features[name], float)) for name in self.gaps]
        columns += [features[name].astype(str) == level for name, levels in self.levels.items() for level in levels]
        sizes = sets.sizes[rows]
        away = values - (sets.sum(values) / sets.sizes)[rows]
        spread = np.sqrt(sets.sum(away**2) / sets.sizes)[rows]
        standard = np.divide(away, spread, out=np.zeros_like(away), where=spread > 0)
        rank = np.divide(_order(sets, -values), sizes - 1, out=np.full(len(values), 0.5), where=sizes > 1)
        columns += [rank, standard, np.abs(standard), _nearby(sets, values, spread)]
        if self.with_prior:
            share = np.repeat(1.0 / sets.sizes, sets.sizes) if prior is None else prior
            columns.append(np.log(np.maximum(share, 1e-12)))
        return np.column_stack(columns).astype(float)


def _order(sets: Alternatives, column: Floats) -> Floats:
    """Return each candidate's place in its row, 0 for the highest; missing ones come last."""
    order = np.lexsort((-np.nan_to_num(column, nan=-np.inf), sets.rows))
    place = np.empty(len(column))
    place[order] = np.arange(len(column)) - sets.offsets[:-1][sets.rows]
    return place


def _nan_mean(sets: Alternatives, column: Floats) -> Floats:
    present = ~np.isnan(column)
    count = sets.sum(present.astype(float))
    return np.divide(sets.sum(np.where(present, column, 0.0)), count, out=np.full(len(count), np.nan), where=count > 0)


def _nearby(sets: Alternatives, values: Floats, spread: Floats) -> Floats:
    """Return how many other values of the row lie within a twentieth of its spread, per candidate of the row."""
    order = np.lexsort((values, sets.rows))
    # Sorted within rows, and rows far apart, so that one search finds the neighbours of all.
    ranges = np.maximum(spread, np.finfo(float).tiny)
    placed = (values - values.min()) / (np.ptp(values) or 1.0) + 4.0 * sets.rows
    reach = _NEARBY * ranges / (np.ptp(values) or 1.0)
    line = placed[order]
    count = np.searchsorted(line, placed + reach, "right") - np.searchsorted(line, placed - reach, "left") - 1.0
    return np.asarray(count / np.maximum(sets.sizes[sets.rows] - 1, 1))
