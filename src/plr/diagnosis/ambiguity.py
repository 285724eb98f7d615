"""How ambiguous candidate sets are, by looking at the candidates alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets

__all__ = ["OutlyingValue", "ValuePair", "labelled_rows", "outlying_values", "values_together"]

Floats = NDArray[np.float64]

# Values that come in fewer rows say nothing about what always comes with them.
_LEAST_ROWS = 20
_MOST_VALUES = 300
# Candidates closer together than this share of the spread of all labels are as good as one.
_AS_GOOD_AS_ONE = 0.01


@dataclass(frozen=True)
class ValuePair:
    """Two values, in how many rows they come together, and in what share of the rows that have the commoner one."""

    value: float
    other: float
    rows: int
    share: float


@dataclass(frozen=True)
class OutlyingValue:
    """A value that lies far from all others, and how many rows have it."""

    value: float
    rows: int


def labelled_rows(S: CandidateSets, spread: float) -> NDArray[np.bool_]:
    """Return which rows are as good as labelled: their candidates are one, or as good as one."""
    starts = S.offsets[:-1]
    width = np.maximum.reduceat(S.values, starts) - np.minimum.reduceat(S.values, starts)
    return width <= _AS_GOOD_AS_ONE * spread


def values_together(S: CandidateSets) -> tuple[list[ValuePair], int]:
    """Return the pairs of values that come together most, and how many values come in enough rows to tell.

    Each of the most frequent values with the one that it comes with most; those with the largest share first.
    """
    values, places = np.unique(S.values, return_inverse=True)
    counts = np.bincount(places)
    enough = np.flatnonzero(counts >= _LEAST_ROWS)
    frequent = enough[np.argsort(-counts[enough], kind="stable")[:_MOST_VALUES]]
    if len(frequent) == 0 or (S.sizes == 1).all():
        return [], len(enough)
    number = np.full(len(values), -1)
    number[frequent] = np.arange(len(frequent))
    kept = number[places] >= 0
    present = np.zeros((len(S), len(frequent)), dtype=np.float32)
    present[S.row_index[kept], number[places][kept]] = 1.0
    both = (present.T @ present).astype(np.float64)
    total = np.diag(both).copy()
    # Of two values that can be told apart, one sometimes comes without the other.
    mutual = both / np.maximum(total[:, None], total[None, :])
    np.fill_diagonal(mutual, 0.0)
    partner = mutual.argmax(axis=1)
    share = mutual[np.arange(len(frequent)), partner]
    found: dict[tuple[float, float], ValuePair] = {}
    for first in np.argsort(-share, kind="stable"):
        low, high = sorted((float(values[frequent[first]]), float(values[frequent[partner[first]]])))
        if share[first] > 0:
            found.setdefault((low, high), ValuePair(low, high, int(both[first, partner[first]]), float(share[first])))
    return list(found.values()), len(enough)


def outlying_values(S: CandidateSets, low: float, high: float) -> list[OutlyingValue]:
    """Return values that come again and again and lie far from all others: words for "missing" written as numbers.

    Most values are between ``low`` and ``high``.
    """
    width = high - low
    values, counts = np.unique(S.values, return_counts=True)
    found = ((values < low - width) | (values > high + width)) & (counts >= max(5, 0.002 * len(S))) & (width > 0)
    return [OutlyingValue(float(value), int(count)) for value, count in zip(values[found], counts[found], strict=True)]
