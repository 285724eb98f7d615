"""What is known of single candidates beside their value: features such as a match score, and which record each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates.arrays import Integers, as_floats, is_missing
from plr.errors import CandidateError, LengthError, ParameterError

__all__ = [
    "Column",
    "as_column",
    "check_records",
    "entries_of",
    "flatten_lists",
    "flatten_padded",
    "read_features",
    "record_name",
]

Column = NDArray[Any]
"""One entry per candidate: float64 with NaN where missing, or texts, empty where missing."""


def read_features(
    features: Mapping[str, Any] | None, record: Any, flatten: Callable[[Any, str], Any], count: int
) -> tuple[dict[str, Column], Column | None]:
    """Read columns of any shape that ``flatten`` knows, one entry per candidate each."""
    found = {}
    for name, column in (features or {}).items():
        if not isinstance(name, str) or not name:
            raise ParameterError("The name of a candidate feature must be a text.", parameter="features", value=name)
        found[name] = as_column(flatten(column, f"The feature {name!r}"), f"The feature {name!r}", count)
    if record is None:
        return found, None
    names = [record_name(item) for item in flatten(record, "The record")]
    if len(names) != count:
        raise LengthError(f"The record has {len(names)} entries for {count} candidates; give one each.")
    return found, np.array(names, dtype=str)


def record_name(record: Any) -> str:
    """Return a record's name as a text: empty where it has none, and the same for 7 and 7.0.

    >>> record_name(7.0), record_name("B00"), record_name(None)
    ('7', 'B00', '')
    """
    if is_missing(record):
        return ""
    return str(int(record)) if isinstance(record, float) and record.is_integer() else str(record)


def as_column(items: Any, what: str, count: int) -> Column:
    """Return numbers as float64, NaN where missing, and anything else as texts, empty where missing.

    >>> as_column([1, None, 2.5], "The feature", 3)
    array([1. , nan, 2.5])
    >>> as_column(["shop", None], "The feature", 2)
    array(['shop', ''], dtype='<U4')
    """
    entries = items if isinstance(items, np.ndarray) else list(items)
    if len(entries) != count:
        raise LengthError(f"{what} has {len(entries)} entries for {count} candidates; give one each.")
    if isinstance(entries, np.ndarray) and entries.dtype.kind in "fiub":
        numbers = entries.astype(np.float64)
    else:
        present = [item for item in entries if not is_missing(item)]
        if not all(isinstance(item, (int, float, np.number)) for item in present):
            return np.array(["" if is_missing(item) else str(item) for item in entries], dtype=str)
        numbers = as_floats([None if is_missing(item) else item for item in entries], what)
    if np.isinf(numbers).any():
        place = int(np.flatnonzero(np.isinf(numbers))[0])
        raise CandidateError(f"{what} is infinite for candidate {place}; leave it out or correct it.", value=np.inf)
    return numbers


def entries_of(column: Any) -> list[Any]:
    """Return the entries of a column of any kind as plain values."""
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def flatten_lists(sizes: Integers) -> Callable[[Any, str], Any]:
    """Return what reads one sequence per row, of as many entries as the row has candidates."""

    def flatten(column: Any, what: str) -> Any:
        rows = [[] if is_missing(row) else list(row) for row in entries_of(column)]
        given = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        if len(given) != len(sizes):
            raise LengthError(f"{what} has {len(given)} rows, and the candidates {len(sizes)}.")
        wrong = np.flatnonzero(given != sizes)
        if len(wrong):
            row = int(wrong[0])
            raise LengthError(
                f"{what} has {given[row]} entries in row {row}, which has {sizes[row]} candidates; give one each "
                f"({len(wrong)} such rows).",
                row=row,
            )
        return list(chain.from_iterable(rows))

    return flatten


def flatten_padded(present: NDArray[np.bool_]) -> Callable[[Any, str], Any]:
    """Return what reads an array of the shape of the padded candidates; entries without a candidate are ignored."""

    def flatten(column: Any, what: str) -> Any:
        array = np.asarray(column)
        if array.shape not in (present.shape, present.shape[1:]):
            raise LengthError(
                f"{what} has shape {array.shape}; give {present.shape} (one per candidate) or {present.shape[1:]} (one "
                f"per column)."
            )
        return np.broadcast_to(array, present.shape)[present]

    return flatten


def check_records(record: Column, offsets: Integers) -> Integers:
    """Return the records as whole numbers from 0 on, -1 where there is none; a record twice in a row is an error."""
    codes = np.unique(record, return_inverse=True)[1].astype(np.int64)
    codes[record == ""] = -1
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((codes, rows))
    twice = np.flatnonzero(
        (codes[order][1:] == codes[order][:-1]) & (rows[order][1:] == rows[order][:-1]) & (codes[order][1:] >= 0)
    )
    if len(twice):
        place = int(order[twice[0]])
        raise CandidateError(
            f"Row {rows[place]} has the record {str(record[place])!r} twice; a record can be a candidate only once.",
            row=int(rows[place]),
            value=record[place],
        )
    return codes
