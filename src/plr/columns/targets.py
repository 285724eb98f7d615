"""True labels out of a table, and in words where they cannot be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.columns.matrix import numbers
from plr.errors import DataError, FeatureError
from plr.sources.source import Source

__all__ = ["read_target", "row_places"]


def read_target(
    table: pa.Table,
    name: str,
    source: object,
    place: Callable[[int], str] | None = None,
    parameter: str | None = None,
) -> NDArray[np.float64]:
    """Return a column as true labels, one finite number per row.

    Parameters
    ----------
    table : pyarrow.Table
    name : str
        The column.
    source : Source or path
        What the table was read from, for messages; of a CSV file that is a `plr.sources.Source` they name the line.
    place : callable, optional
        Says where a row is, for messages; for a table that is a part of what was read.
    parameter : str, optional
        The parameter that named the column, for messages; None is the target.

    Raises
    ------
    DataError
        Where the column is not numbers, or has cells that are empty or not finite.
    """
    place = place or row_places(source)
    what = f"{'the target' if parameter is None else '{parameter}'} {name!r}"
    try:
        values = numbers(table[name], name)
    except FeatureError:
        raise DataError(
            f"{source}: {what} must be numbers; {_first_text(table, name, place)}.",
            parameter=parameter,
            column=name,
            source=source,
        ) from None
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        many = f", and in {wrong.size - 1} more of {len(values)} rows" if wrong.size > 1 else ""
        raise DataError(
            f"{source}: {what} is empty or not finite in {place(int(wrong[0]))}{many}; "
            f"fill in {'the true labels' if parameter is None else 'numbers'}, or remove these rows.",
            parameter=parameter,
            row=int(wrong[0]),
            column=name,
            source=source,
        )
    return values


def _first_text(table: pa.Table, name: str, place: Callable[[int], str]) -> str:
    column = table[name]
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_string(plain.type) or pa.types.is_large_string(plain.type):
        for row, value in enumerate(plain.to_pylist()):
            if value is not None and not _is_number(value):
                return f"{place(row)} has {value!r}"
    return f"it has the type {column.type}, not numbers"


def _is_number(text: str) -> bool:
    try:
        return pa.scalar(text).cast(pa.float64()) is not None
    except pa.ArrowInvalid:
        return False


def row_places(source: object) -> Callable[[int], str]:
    """Return what says where a row is, if the table is all that was read from its source.

    >>> row_places("t.csv")(3)
    'data row 3 counted from 0'
    """
    return source.place if isinstance(source, Source) else "data row {} counted from 0".format
