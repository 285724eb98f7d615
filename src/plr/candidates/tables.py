"""Reading tables: several columns with one candidate each, or long tables with one line per candidate.

A table is a pandas or Polars frame, an Arrow table or a dict of arrays. pandas and Polars are recognised by what their
objects can do, so neither is ever imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from plr.candidates.arrays import (
    Flat,
    Floats,
    Integers,
    as_floats,
    check_readable,
    name_rows,
    read_padded,
    unshared,
)
from plr.candidates.arrow import as_arrow, check_buffers, is_frame
from plr.errors import CandidateError, LengthError, ParameterError, PlrError, PriorError, unknown_name

__all__ = ["column_of", "columns_of", "read_columns", "read_long"]


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


def column_of(columns: list[tuple[Any, Any]], name: Any) -> Any:
    """Content of the one column of this name."""
    found = [column for label, column in columns if label == name]
    if not found:
        raise unknown_name("column", name, (str(label) for label, _ in columns))
    if len(found) > 1:
        raise CandidateError(
            f"The table has {len(found)} columns named {name!r}; give them names of their own.", column=name
        )
    return found[0]


def _numbers(columns: list[tuple[Any, Any]], name: Any, what: str, error: type[PlrError] = CandidateError) -> Floats:
    try:
        return as_floats(column_of(columns, name), f"{what} {name!r}", error)
    except error as problem:
        problem.column = name
        raise


def read_columns(table: Any, columns: Sequence[Any], prior: Sequence[Any] | None = None) -> Flat:
    """Read one candidate per named column; the prior is one column or one number for each."""
    if isinstance(columns, str) or not len(columns):
        raise ParameterError(
            f"{{parameter}} must be a list of one column name or more, not {columns!r}.",
            parameter="columns",
            value=columns,
        )
    if len(set(columns)) < len(columns):
        raise ParameterError(
            f"{{parameter}} names a column twice: {list(columns)!r}.", parameter="columns", value=columns
        )
    content = list(columns_of(table))
    candidates = [(name, _numbers(content, name, "Column")) for name in columns]
    padded = _stack(candidates)
    if prior is None:
        return read_padded(padded)
    if isinstance(prior, str) or len(prior) != len(columns):
        raise LengthError(
            f"{{parameter}} must give one column name or number for each of {list(columns)!r}, not {prior!r}.",
            parameter="prior",
            value=prior,
        )
    if all(isinstance(entry, str) for entry in prior):
        shares = [(name, _numbers(content, name, "Prior column", PriorError)) for name in prior]
        return read_padded(padded, _stack([candidates[0], *shares])[:, 1:])
    return read_padded(padded, as_floats(list(prior), "The prior", PriorError))


def _stack(columns: Sequence[tuple[Any, Floats]]) -> Floats:
    for name, column in columns:
        if column.ndim != 1:
            raise CandidateError(
                f"Column {name!r} has {column.ndim} dimensions; a column of numbers has one.", column=name
            )
    if len({len(column) for _, column in columns}) > 1:
        lengths = ", ".join(f"{name!r} {len(column)}" for name, column in columns)
        raise LengthError(f"The columns differ in length: {lengths}.")
    return np.stack([column for _, column in columns], axis=1)


def read_long(table: Any, row: Any, value: Any, prior: Any = None, rows: Any = None) -> Flat:
    """Read one candidate per line of a table that says which row each line belongs to."""
    content = list(columns_of(table))
    ids = _row_ids(column_of(content, row), f"column {row!r}")
    values = _numbers(content, value, "Column")
    shares = None if prior is None else _numbers(content, prior, "Column", PriorError)
    for name, column in ((value, values), (prior, shares)):
        if column is not None and column.shape != (len(ids),):
            raise LengthError(
                f"Column {name!r} has shape {column.shape}; column {row!r} has {len(ids)} entries.", column=name
            )
    codes, names = _codes(ids, rows)
    sizes, order = np.bincount(codes, minlength=len(names)).astype(np.int64), None
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        values, shares = values[order], None if shares is None else shares[order]
    keys = _as_given(names, column_of(content, row) if rows is None else rows)
    return Flat(
        unshared(values, np.float64), sizes, shares, names=lambda number: names[number].as_py(), order=order, keys=keys
    )


def _row_ids(column: Any, what: str) -> Any:
    import pyarrow as pa

    try:
        # Arrow reads a range number by number.
        ids = as_arrow(np.asarray(column) if isinstance(column, range) else column)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise CandidateError(f"The row ids in {what} are not of one plain type: {error}") from None
    if ids.null_count:
        lines = np.flatnonzero(np.asarray(ids.is_null()))
        raise CandidateError(
            f"There is no row id in {what}, {name_rows(lines)} of the table; fill or drop those lines.",
            row=int(lines[0]),
        )
    kinds = pa.types
    if kinds.is_integer(ids.type):
        return ids.cast(pa.int64())
    if kinds.is_floating(ids.type):
        return ids.cast(pa.float64())
    return ids.cast(pa.large_string()) if kinds.is_string(ids.type) or kinds.is_string_view(ids.type) else ids


def _as_given(names: Any, column: Any) -> Any:
    """Return row ids in the type that they came in, whatever they were compared as."""
    import pyarrow as pa

    kind = as_arrow(np.asarray(column) if isinstance(column, range) else column).type
    # Arrow cannot take from the string views that Polars hands out.
    return names if not len(names) or pa.types.is_string_view(kind) else names.cast(kind)


def _codes(ids: Any, rows: Any) -> tuple[Integers, Any]:
    """Row number of every line, and the row ids in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if rows is None:
        encoded = ids.dictionary_encode()
        return np.asarray(encoded.indices).astype(np.int64), encoded.dictionary
    names = _row_ids(rows, "rows")
    if {names.type, ids.type} == {pa.int64(), pa.float64()}:
        names, ids = names.cast(pa.float64()), ids.cast(pa.float64())
    if not len(names):
        names = names.cast(ids.type)
    if names.type != ids.type:
        raise ParameterError(
            f"The table's row ids are of type {ids.type} but those in {{parameter}} of type {names.type}.",
            parameter="rows",
        )
    if len(names.unique()) < len(names):
        raise ParameterError("{parameter} names a row id twice; each row has one place.", parameter="rows")
    codes = pc.index_in(ids, value_set=names)
    if codes.null_count:
        unknown = ids.filter(codes.is_null()).unique().to_pylist()
        raise CandidateError(
            f"The table has lines for {name_rows(range(len(unknown)), unknown.__getitem__)}, not among the "
            f"{len(names)} row ids in rows; add the ids or drop those lines.",
            row=unknown[0],
        )
    return cast(Integers, np.asarray(codes).astype(np.int64)), names
