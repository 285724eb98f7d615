"""True labels out of a table, and in words where they cannot be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.columns.dataset import numbers
from plr.columns.kinds import plain
from plr.columns.texts import is_text, texts_to_numbers
from plr.errors import DataError, FeatureError
from plr.sources.source import Source

__all__ = ["read_some_targets", "read_target", "row_places"]


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


def read_some_targets(
    table: pa.Table, name: str, source: object, place: Callable[[int], str], parameter: str
) -> NDArray[np.float64]:
    """Return a column as true labels, NaN in rows where it is empty; the parameters are those of `read_target`."""
    there = table[name].is_valid()
    if pa.types.is_floating(table[name].type):
        there = pc.and_(there, pc.invert(pc.fill_null(pc.is_nan(table[name]), True)))
    rows, found = np.flatnonzero(there), np.full(table.num_rows, np.nan)
    if rows.size:
        part = table.take(pa.array(rows))
        found[rows] = read_target(part, name, source, lambda row: place(int(rows[row])), parameter)
    return found


def _first_text(table: pa.Table, name: str, place: Callable[[int], str]) -> str:
    cells = plain(table[name])
    if is_text(cells.type):
        wrong = np.flatnonzero(pc.and_(cells.is_valid(), pc.is_null(texts_to_numbers(cells, "plain"))))
        if wrong.size:
            return f"{place(int(wrong[0]))} has {cells[int(wrong[0])].as_py()!r}"
    return f"it has the type {table[name].type}, not numbers"


def row_places(source: object) -> Callable[[int], str]:
    """Return what says where a row is, if the table is all that was read from its source.

    >>> row_places("t.csv")(3)
    'data row 3 counted from 0'
    """
    return source.place if isinstance(source, Source) else "data row {} counted from 0".format
