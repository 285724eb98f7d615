"""Ragged rows as flat arrays: the candidates of all rows one after the other, and how many each row has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flat", "Floats", "Integers", "Parts", "frozen", "offsets_of", "own", "positions", "rows_of", "tidy_slots"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Flat(NamedTuple):
    """Candidates of all rows one after the other; the prior as given, not yet checked or normalised."""

    values: Floats
    sizes: Integers
    prior: Floats | None = None
    slots: NDArray[np.int32] | None = None
    names: Sequence[Any] | None = None


class Parts(NamedTuple):
    """What candidate sets are made of, checked: see the properties of the same names."""

    values: Floats
    offsets: Integers
    prior: Floats | None = None
    slots: NDArray[np.int32] | None = None
    kept: Integers | None = None


def offsets_of(sizes: Integers) -> Integers:
    """Where each row starts in the flat array, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def positions(offsets: Integers) -> Integers:
    """Position of every candidate within its own row."""
    return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def rows_of(flat: Integers, sizes: Integers) -> Integers:
    """Rows that own these places of the flat array, each named once."""
    return np.unique(np.searchsorted(offsets_of(sizes), flat, side="right") - 1)


def own(data: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Convert to a contiguous array nobody else can write to: shared where read-only already, copied otherwise."""
    array = np.ascontiguousarray(data, dtype=dtype)
    shared = array is data or array.base is not None
    return array.copy() if shared and array.flags.writeable else array


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Look at the same memory without the right to change it."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def tidy_slots(slots: Integers | NDArray[np.int32] | None, offsets: Integers) -> NDArray[np.int32] | None:
    """Drop slots that say no more than the positions do."""
    if slots is None or np.array_equal(slots, positions(offsets)):
        return None
    return slots.astype(np.int32, copy=False)
