"""What is known of single candidates beside their value: features such as a match score, and which record each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates.arrays import Flat, Floats, Integers, as_floats, is_missing, is_number, is_row, name_rows, rows_of
from plr.candidates.arrow import as_arrow, is_list_column
from plr.errors import CandidateError, LengthError, ParameterError

__all__ = [
    "Column",
    "Flatten",
    "as_array",
    "as_column",
    "check_records",
    "flatten_columns",
    "flatten_lines",
    "flatten_lists",
    "flatten_padded",
    "join_columns",
    "read_features",
    "record_name",
    "record_names",
]

Column = NDArray[Any]
"""One entry per candidate: float64 with NaN where missing, or texts, empty where missing."""

Flatten = Callable[[Any, str], NDArray[Any]]
"""Makes an array with one entry per candidate of what was given; the text names it in messages."""

# NumPy gives every text of an array the room of the longest.
_LONGEST_TEXT = 1000


def read_features(
    features: Mapping[str, Any] | None, record: Any, flatten: Flatten, flat: Flat
) -> tuple[dict[str, Column], Column | None]:
    """Read columns of any shape that ``flatten`` knows, one entry per candidate each."""
    found, count = {}, len(flat.values)
    if features is not None and not isinstance(features, Mapping):
        raise ParameterError(
            "{parameter} must be a dict from the name of each candidate feature to its entries, not "
            f"{features!r:.80}.",
            parameter="features",
            value=features,
        )
    for name, given in (features or {}).items():
        if not isinstance(name, str) or not name:
            raise ParameterError(
                f"The name of a candidate feature must be a text, got {name!r}.", parameter="features", value=name
            )
        what = f"The candidate feature {name!r}"
        found[name] = column = as_column(_one_each(flatten(given, what), count, what), what)
        if column.dtype.kind == "f" and np.isinf(column).any():
            rows = rows_of(np.flatnonzero(np.isinf(column)), flat.sizes)
            raise CandidateError(
                f"{what} is infinite in {name_rows(rows, flat.names)}; correct it, or leave it empty (NaN).",
                row=int(rows[0]) if flat.names is None else flat.names(int(rows[0])),
                column=name,
                value=np.inf,
            )
    if record is None:
        return found, None
    return found, record_names(_one_each(flatten(record, "The record"), count, "The record"))


def _one_each(entries: NDArray[Any], count: int, what: str) -> NDArray[Any]:
    if entries.shape != (count,):
        raise LengthError(f"{what} has shape {entries.shape}, and there are {count} candidates; give one entry each.")
    return entries


def record_names(entries: Any) -> Column:
    """Return the names of records, as `record_name` gives each."""
    array = as_array(entries)
    if array.dtype.kind == "U":
        return np.strings.strip(array)
    if array.dtype.kind in "iu":
        return array.astype(str)
    return _texts(array.tolist(), "The record", record_name)


def record_name(record: Any) -> str:
    """Return a record's name as a text without blanks around it: empty where it has none, the same for 7 and 7.0.

    >>> record_name(7.0), record_name("B00 "), record_name(None)
    ('7', 'B00', '')
    """
    if is_missing(record):
        return ""
    if isinstance(record, (float, np.floating)) and record.is_integer():
        return str(int(record))
    return _text(record).strip()


def as_column(entries: Any, what: str = "The candidate feature") -> Column:
    """Return numbers as float64, NaN where missing; dates and spans of time in days; all else as texts, bytes as UTF-8.

    >>> as_column([1, None, 2.5])
    array([1. , nan, 2.5])
    >>> as_column([date(1970, 1, 2), None])
    array([ 1., nan])
    >>> as_column(["shop", None]).tolist()
    ['shop', '']
    """
    array = as_array(entries)
    kind = array.dtype.kind
    if kind in "fiub":
        return array.astype(np.float64)
    if kind in "mM":
        return _days(array)
    if kind == "U":
        return array.copy()
    items = [None if is_missing(item) else item for item in array.tolist()]
    # Types are few, items many.
    kinds = set(map(type, items)) - {type(None)}
    if all(map(is_number, kinds)):
        return as_floats(items, what)
    if all(issubclass(kind, (date, np.datetime64)) for kind in kinds):
        return _days(np.array([_without_zone(item) for item in items], dtype="datetime64[us]"))
    if all(issubclass(kind, (timedelta, np.timedelta64)) for kind in kinds):
        return _days(np.array(items, dtype="timedelta64[us]"))
    return _texts(items, what, lambda item: "" if item is None else _text(item))


def _text(item: Any) -> str:
    if not isinstance(item, bytes):
        return str(item)
    try:
        return item.decode()
    except UnicodeDecodeError:
        raise CandidateError(
            f"The bytes {item[:40]!r} are no text in UTF-8; decode what describes candidates first.", value=item
        ) from None


def _texts(items: list[Any], what: str, name: Callable[[Any], str]) -> Column:
    texts = list(map(name, items))
    longest = max(map(len, texts), default=0)
    if longest > _LONGEST_TEXT:
        raise CandidateError(
            f"{what} has a text of {longest:,} characters; at most {_LONGEST_TEXT:,} are allowed. Give a category or a "
            f"key, or leave it out.",
            value=next(text for text in texts if len(text) == longest)[:40],
        )
    return np.array(texts, dtype=str)


def _days(times: NDArray[Any]) -> Floats:
    days = times.astype(f"{times.dtype.kind}8[us]").astype(np.float64) / 86_400e6
    return np.where(np.isnat(times), np.nan, days)


def _without_zone(time: Any) -> Any:
    zoned = isinstance(time, datetime) and time.tzinfo is not None
    return time.astimezone(UTC).replace(tzinfo=None) if zoned else time


def as_array(column: Any) -> NDArray[Any]:
    """Return the entries of a column or table of any kind as an array; objects where it is a plain list."""
    if isinstance(column, np.ma.MaskedArray):
        entries: NDArray[Any] = column.data.astype(object)
        entries[np.ma.getmaskarray(column)] = None
        return entries
    if hasattr(column, "__array__"):
        array = np.asarray(column)
        # In other units, times would become whole numbers beside objects.
        return array.astype(f"{array.dtype.kind}8[us]") if array.dtype.kind in "mM" else array
    return np.array(list(column), dtype=object)


def join_columns(parts: Sequence[Column], what: str) -> Column:
    """Put columns one after the other; numbers that are all missing are missing texts beside texts.

    >>> join_columns([np.array(["shop"]), np.array([np.nan])], "The candidate feature 'source'").tolist()
    ['shop', '']
    """
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) > 1:
        parts = [np.full(len(part), "") if part.dtype.kind == "f" and np.isnan(part).all() else part for part in parts]
        if {part.dtype.kind for part in parts} != {"U"}:
            raise CandidateError(f"{what} holds numbers in some of the candidate sets, texts in others; give one kind.")
    return np.concatenate(parts)


def flatten_lists(sizes: Integers) -> Flatten:
    """Return what reads one sequence per row, of as many entries as the row has candidates."""

    def flatten(column: Any, what: str) -> NDArray[Any]:
        if is_list_column(column):
            given, entries = _arrow_lists(column)
        else:
            rows = [() if is_missing(row) else row for row in column]
            wrong = next((row for row, entry in enumerate(rows) if not is_row(type(entry))), None)
            if wrong is not None:
                raise CandidateError(
                    f"{what} must have one list per row; row {wrong} has {rows[wrong]!r}.", row=wrong, value=rows[wrong]
                )
            given = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
            entries = np.array(list(chain.from_iterable(rows)), dtype=object)
        if len(given) != len(sizes):
            raise LengthError(f"{what} has {len(given)} rows, and the candidates {len(sizes)}.")
        others = np.flatnonzero(given != sizes)
        if len(others):
            row = int(others[0])
            raise LengthError(
                f"{what} has {given[row]} entries in row {row}, which has {sizes[row]} candidates; give one each "
                f"({len(others)} such {'row' if len(others) == 1 else 'rows'}).",
                row=row,
            )
        return entries

    return flatten


def _arrow_lists(column: Any) -> tuple[Integers, NDArray[Any]]:
    import pyarrow.compute as pc

    lists = as_arrow(column)
    sizes = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    return sizes, as_array(as_arrow(lists.flatten()))


def flatten_padded(present: NDArray[np.bool_]) -> Flatten:
    """Return what reads an array of the shape of the padded candidates; entries without a candidate are ignored."""

    def flatten(column: Any, what: str) -> NDArray[Any]:
        array, shape = as_array(column), present.shape
        if array.shape not in (shape, shape[1:]):
            per_column = f" or {shape[1:]} (one per column)" if shape[1:] else ""
            raise LengthError(f"{what} has shape {array.shape}; give {shape} (one per candidate){per_column}.")
        return np.broadcast_to(array, shape)[present]

    return flatten


def flatten_columns(column_of: Callable[[Any], Any], columns: Sequence[Any]) -> Flatten:
    """Return what reads one column for each of those that the candidates are in, by their names."""
    present = ~np.isnan(np.column_stack([as_floats(column_of(name)) for name in columns]))

    def flatten(names: Any, what: str) -> NDArray[Any]:
        if isinstance(names, str) or len(names) != len(columns):
            raise ParameterError(f"{what} must name one column for each of {list(columns)!r}, not {names!r}.")
        table = np.empty(present.shape, dtype=object)
        for place, name in enumerate(names):
            entries = as_array(column_of(name))
            if entries.shape != (len(table),):
                raise LengthError(f"Column {name!r} has shape {entries.shape}, and there are {len(table)} rows.")
            table[:, place] = entries
        return table[present]

    return flatten


def flatten_lines(column_of: Callable[[Any], Any], count: int, order: Integers | None) -> Flatten:
    """Return what reads a column of a table with one line per candidate, by its name; ``order`` sorts the lines."""

    def flatten(name: Any, what: str) -> NDArray[Any]:
        lines = _one_each(as_array(column_of(name)), count, what)
        return lines if order is None else lines[order]

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
            f"Row {rows[place]} has the record {str(record[place])!r} twice; under one_to_one a record can be a "
            f"candidate of a row only once. Keep one of the two.",
            row=int(rows[place]),
            value=str(record[place]),
        )
    return codes
