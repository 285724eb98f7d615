"""Reading long tables: one line per candidate, which says the row it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from plr.candidates.arrow import as_arrow
from plr.candidates.checks import name_rows
from plr.candidates.flat import Flat, Integers, own
from plr.candidates.floats import as_floats, as_shares
from plr.candidates.tables import column_named, columns_of
from plr.errors import CandidateError, LengthError, ParameterError

__all__ = ["read_long"]


def read_long(table: Any, row: Any, value: Any, prior: Any = None, rows: Any = None) -> Flat:
    """Read one candidate per line of a table that says which row each line belongs to."""
    content = list(columns_of(table))
    ids = _row_ids(column_named(content, row), f"column {row!r}")
    values = as_floats(column_named(content, value), f"Column {value!r}")
    shares = None if prior is None else as_shares(column_named(content, prior), f"Column {prior!r}")
    for name, column in ((value, values), (prior, shares)):
        if column is not None and column.shape != (len(ids),):
            raise LengthError(f"Column {name!r} has shape {column.shape}; column {row!r} has {len(ids)} entries.")
    codes, names = _codes(ids, rows)
    sizes = np.bincount(codes, minlength=len(names)).astype(np.int64)
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        values, shares = values[order], None if shares is None else shares[order]
    return Flat(own(values, np.float64), sizes, shares, names=_Ids(names))


class _Ids(Sequence[Any]):
    """Row ids for error messages, turned into Python objects only where one is named."""

    def __init__(self, names: Any) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: Any) -> Any:
        return self._names[index].as_py()


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
            f"There is no row id in {what}, {name_rows(lines)} of the table; fill or drop those lines."
        )
    kinds = pa.types
    if kinds.is_integer(ids.type):
        return ids.cast(pa.int64())
    if kinds.is_floating(ids.type):
        return ids.cast(pa.float64())
    return ids.cast(pa.large_string()) if kinds.is_string(ids.type) or kinds.is_string_view(ids.type) else ids


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
        raise ParameterError(f"The table's row ids are of type {ids.type} but those in rows of type {names.type}.")
    if len(names.unique()) < len(names):
        raise ParameterError("rows names a row id twice; each row has one place.")
    codes = pc.index_in(ids, value_set=names)
    if codes.null_count:
        unknown = ids.filter(codes.is_null()).unique()
        raise CandidateError(
            f"The table has lines for {name_rows(range(len(unknown)), _Ids(unknown))}, not among the {len(names)} "
            "row ids in rows; add the ids or drop those lines."
        )
    return cast(Integers, np.asarray(codes).astype(np.int64)), names
