"""Candidate sets out of the columns of a table, however they are written there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.candidates.arrow import parse_cells
from plr.errors import CandidateError, ParameterError, PriorError
from plr.sources.source import Source

__all__ = ["read_candidates", "read_sets"]


def read_sets(
    table: pa.Table,
    columns: Sequence[str],
    source: Source,
    numbers: NDArray[np.int64] | int = 0,
    prior: Sequence[str] = (),
) -> CandidateSets:
    """Return the candidate sets of some rows of a source; rows without a candidate are left out, as ``kept`` says.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    columns, prior : sequence of str
        As of `read_candidates`.
    source : Source
        What the rows were read from.
    numbers : ndarray of int, or int
        The number of each row in the source, or that of the first, for messages.

    Raises
    ------
    CandidateError, PriorError
        With the row's number and place in the source, and the column.
    """
    try:
        return read_candidates(table, columns, prior=prior, empty="drop")
    except (CandidateError, PriorError) as error:
        names = prior if isinstance(error, PriorError) else columns
        row = error.row
        if row is not None:
            row = numbers + int(row) if isinstance(numbers, int) else int(numbers[row])
            text = f"{source}, {source.place(row)}: {error.problem or error}"
        else:
            text = f"{source}: {error}"
        column = error.column or (names[0] if len(names) == 1 else None)
        raise type(error)(text, row=row, column=column, value=error.value, source=source.path) from error


def read_candidates(
    table: pa.Table, columns: Sequence[str], *, prior: Sequence[str] = (), empty: str = "raise"
) -> CandidateSets:
    """Return the candidate sets of a table: one column of lists, texts or numbers, or several columns of numbers.

    Parameters
    ----------
    table : pyarrow.Table
    columns : sequence of str
        The column of candidates, or the columns that hold one candidate each.
    prior : sequence of str
        As many columns, of the same form, that say how likely each candidate is.
    empty : {"raise", "drop"}, default="raise"
        What to do about rows without a candidate.

    Examples
    --------
    >>> read_candidates(pa.table({"y": ["12.5|13.1", "[7, 8, 9]", "4"]}), ["y"]).to_lists()
    [[12.5, 13.1], [7.0, 8.0, 9.0], [4.0]]
    """
    if prior and len(prior) != len(columns):
        raise ParameterError(
            f"{{parameter}} names {len(prior)} column(s), but there are {len(columns)} of candidates; name one of "
            "priors for each.",
            parameter="prior",
            value=list(prior),
        )
    if len(columns) > 1:
        table = _codes_as_numbers(table, [*columns, *prior])
    elif (lists := _lists(table, columns[0])) is not None:
        return CandidateSets.from_arrow(lists, prior=_lists(table, prior[0]) if prior else None, empty=empty)
    return CandidateSets.from_columns(table, list(columns), prior=list(prior) or None, empty=empty)


def _codes_as_numbers(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return a table with numbers that were kept as texts, for their leading zeros or their length, as numbers."""
    for name in columns:
        if pa.types.is_string(table[name].type):
            cells = pc.utf8_trim_whitespace(table[name])
            if pc.all(pc.match_substring_regex(cells, r"^[+-]?\d+$")).as_py():
                table = table.set_column(table.column_names.index(name), name, cells.cast(pa.float64()))
    return table


def _lists(table: pa.Table, name: str) -> pa.Array | None:
    """Return a column of lists, or of texts that hold lists, as lists; None where it is neither."""
    column = table[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = parse_cells(column, name)
    kinds = pa.types
    if kinds.is_struct(column.type) or kinds.is_map(column.type):
        raise CandidateError(f"Column {name!r} holds nested objects; candidates are a list of numbers in each row.")
    listed = kinds.is_list(column.type) or kinds.is_large_list(column.type) or kinds.is_fixed_size_list(column.type)
    return column if listed else None
