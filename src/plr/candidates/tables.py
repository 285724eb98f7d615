"""Reading several columns of a table, one candidate each: pandas, Polars, Arrow, or a dict of arrays.

pandas and Polars are recognised by what their objects can do, so neither is ever imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from plr.candidates.flat import Flat, Floats
from plr.candidates.floats import as_floats, as_shares, check_readable
from plr.candidates.readers import read_padded
from plr.errors import CandidateError, LengthError, ParameterError, PlrError, unknown_name

__all__ = ["check_buffers", "column_named", "columns_of", "is_frame", "read_columns"]


def is_frame(data: Any) -> bool:
    """Whether this is a pandas or Polars frame or an Arrow table."""
    return hasattr(data, "columns") and hasattr(data, "shape") and hasattr(data, "__getitem__")


def check_buffers(data: Any, error: type[PlrError] = CandidateError, what: str = "The column") -> None:
    """Refuse an Arrow array or table whose offsets or indices point outside: Arrow itself follows them blindly."""
    import pyarrow as pa

    try:
        data.validate(full=True)
    except pa.ArrowException as problem:
        raise error(
            f"{what} is damaged: {str(problem).splitlines()[0].rstrip('.')}; read or make it anew."
        ) from problem


def columns_of(table: Any) -> Iterator[tuple[Any, Any]]:
    """Name and content of every column of a frame, an Arrow table or a dict of arrays."""
    check_readable(table, CandidateError, "The table")
    if isinstance(table, Mapping) or hasattr(table, "iloc"):
        return iter(table.items())
    if hasattr(table, "column_names"):
        check_buffers(table, what="The table")
        return zip(table.column_names, table.columns, strict=True)
    if is_frame(table):
        return zip(table.columns, table.iter_columns(), strict=True)
    raise CandidateError(
        f"A {type(table).__name__} has no named columns; give a pandas or Polars frame, an Arrow table "
        "or a dict of arrays."
    )


def column_named(columns: list[tuple[Any, Any]], name: Any) -> Any:
    """Content of the one column of this name."""
    found = [column for label, column in columns if label == name]
    if not found:
        raise unknown_name("column", name, (str(label) for label, _ in columns))
    if len(found) > 1:
        raise CandidateError(f"The table has {len(found)} columns named {name!r}; give them names of their own.")
    return found[0]


def read_columns(table: Any, columns: Sequence[Any], prior: Sequence[Any] | None = None) -> Flat:
    """Read one candidate per named column; the prior is one column or one number for each."""
    if isinstance(columns, str) or not len(columns):
        raise ParameterError(f"columns must be a list of one column name or more, not {columns!r}.")
    if len(set(columns)) < len(columns):
        raise ParameterError(f"columns names a column twice: {list(columns)!r}.")
    content = list(columns_of(table))
    candidates = [(name, as_floats(column_named(content, name), f"Column {name!r}")) for name in columns]
    padded = _stack(candidates)
    if prior is None:
        return read_padded(padded)
    if isinstance(prior, str) or len(prior) != len(columns):
        raise LengthError(f"prior must give one column name or number for each of {list(columns)!r}, not {prior!r}.")
    if all(isinstance(entry, str) for entry in prior):
        shares = [(name, as_shares(column_named(content, name), f"Prior column {name!r}")) for name in prior]
        return read_padded(padded, _stack([candidates[0], *shares])[:, 1:])
    return read_padded(padded, as_shares(list(prior), "The prior"))


def _stack(columns: Sequence[tuple[Any, Floats]]) -> Floats:
    for name, column in columns:
        if column.ndim != 1:
            raise CandidateError(f"Column {name!r} has {column.ndim} dimensions; a column of numbers has one.")
    if len({len(column) for _, column in columns}) > 1:
        lengths = ", ".join(f"{name!r} {len(column)}" for name, column in columns)
        raise LengthError(f"The columns differ in length: {lengths}.")
    return np.stack([column for _, column in columns], axis=1)
