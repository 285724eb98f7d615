"""True labels out of a table, and in words where they cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.columns.matrix import numbers
from plr.errors import DataError, FeatureError

__all__ = ["place_of_row", "read_target"]


def read_target(
    table: pa.Table,
    name: str,
    source: str | os.PathLike[str],
    place: Callable[[int], str] | None = None,
    parameter: str | None = None,
) -> NDArray[np.float64]:
    """Return a column as true labels, one finite number per row.

    Parameters
    ----------
    table : pyarrow.Table
    name : str
        The column.
    source : path
        What the table was read from, for messages; of a CSV file they name the line.
    place : callable, optional
        Says where a row is, for messages; for a table that is a part of what was read.
    parameter : str, optional
        The parameter that named the column, for messages; None is the target.

    Raises
    ------
    DataError
        Where the column is not numbers, or has cells that are empty or not finite.
    """
    if place is None:

        def place(row: int) -> str:
            return place_of_row(row, table, source)

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


def place_of_row(row: int, table: pa.Table, source: str | os.PathLike[str]) -> str:
    """Return where a row is; the line only where each row has one line of its own."""
    path = Path(source).expanduser()
    if path.suffix.lower() == ".csv" and path.is_file():
        with path.open("rb") as file:
            lines = sum(1 for _ in file)
        if lines == table.num_rows + 1:
            return f"data row {row} counted from 0 (line {row + 2} of the file)"
    return f"data row {row} counted from 0"
