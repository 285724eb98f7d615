"""Candidate sets out of the columns of a table, however they are written there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.candidates.arrow import parse_cells, read_texts
from plr.columns.kinds import plain
from plr.columns.texts import is_text, texts_to_numbers
from plr.errors import CandidateError, LengthError, ParameterError, PriorError
from plr.front_end import warn
from plr.sources.csv_text import MISSING_WORDS
from plr.sources.source import Source

__all__ = ["SetColumns", "read_candidates", "read_sets"]

# Priors that stood in the texts of candidates, as a column of their own.
_PRIOR = "prior of each candidate"


@dataclass(frozen=True)
class SetColumns:
    """The columns of a table that hold candidate sets.

    Attributes
    ----------
    target : tuple of str
        The column of candidates, or the columns that hold one candidate each.
    prior : tuple of str
        As many columns that say how likely each candidate is.
    features : tuple of str
        Columns that describe each candidate, in the form of the target.
    record : str or None
        The column that says which record each candidate is, in the form of the target.
    row : str or None
        Where the table has one line per candidate, the column that says which row each line belongs to.
    prior_is : str
        What the numbers of the prior are, as of `plr.CandidateSets`.
    """

    target: tuple[str, ...]
    prior: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    record: str | None = None
    row: str | None = None
    prior_is: str = "share"

    @property
    def of_candidates(self) -> list[str]:
        """The columns with one entry per candidate."""
        return [*self.target, *self.prior, *self.features, *([] if self.record is None else [self.record])]

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.of_candidates, *([] if self.row is None else [self.row])]

    def read(self, table: pa.Table, source: Source, numbers: NDArray[np.int64] | int = 0) -> CandidateSets:
        """Return the candidate sets of some rows of a source, as `read_sets` does."""
        return read_sets(
            table,
            self.target,
            source,
            numbers,
            self.prior,
            features=self.features,
            record=self.record,
            prior_is=self.prior_is,
        )


def read_sets(
    table: pa.Table,
    columns: Sequence[str],
    source: Source,
    numbers: NDArray[np.int64] | int = 0,
    prior: Sequence[str] = (),
    *,
    features: Sequence[str] = (),
    record: str | None = None,
    prior_is: str = "share",
) -> CandidateSets:
    """Return the candidate sets of some rows of a source; rows without a candidate are left out, as ``kept`` says.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    columns, prior, features, record, prior_is
        As of `read_candidates`.
    source : Source
        What the rows were read from.
    numbers : ndarray of int, or int
        The number of each row in the source, or that of the first, for messages.

    Raises
    ------
    CandidateError, PriorError, LengthError
        With the row's number and place in the source, and the column.
    """
    try:
        return read_candidates(
            table, columns, prior=prior, empty="drop", features=features, record=record, prior_is=prior_is
        )
    except (CandidateError, PriorError, LengthError) as error:
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
    table: pa.Table,
    columns: Sequence[str],
    *,
    prior: Sequence[str] = (),
    empty: str = "raise",
    features: Sequence[str] = (),
    record: str | None = None,
    prior_is: str = "share",
) -> CandidateSets:
    """Return the candidate sets of a table: one column of lists, texts or numbers, or several columns of numbers.

    Parameters
    ----------
    table : pyarrow.Table
    columns : sequence of str
        The column of candidates, or the columns that hold one candidate each.
    prior : sequence of str
        As many columns, of the same form, that say how likely each candidate is. Without them, texts may say it
        themselves: ``12.5:0.7|13.1:0.3``.
    empty : {"raise", "drop"}, default="raise"
        What to do about rows without a candidate.
    features : sequence of str
        Columns that describe each candidate, such as a match score: lists, or texts like ``0.9|0.5`` or ``[0.9, 0.5]``,
        where entries such as ``n/a`` are empty. Entries that are not all numbers are categories.
    record : str, optional
        The column that says which record each candidate is, in the same form.
    prior_is : str, default="share"
        As of `plr.CandidateSets`.

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
    described = [*features, *([] if record is None else [record])]
    if described and len(columns) > 1:
        raise ParameterError(
            f"{described[0]!r} describes single candidates, which needs one column of candidate sets, not "
            f"{len(columns)} columns; or a table with one line per candidate."
        )
    more: dict[str, Any] = {"empty": empty}
    if prior_is != "share":
        more["prior_is"] = prior_is
    if len(columns) > 1:
        table = _codes_as_numbers(table, [*columns, *prior])
    elif not prior and (split := _split_priors(table, columns[0], prior_is)) is not None:
        table, prior = split, [_PRIOR]
    if len(columns) == 1 and (lists := _lists(table, columns[0])) is not None:
        if features:
            more["features"] = {name: _entries(table, name, lists) for name in features}
        if record is not None:
            more["record"] = _entries(table, record, lists, as_text=True)
        return CandidateSets.from_arrow(lists, prior=_lists(table, prior[0]) if prior else None, **more)
    if features:
        for name in features:
            _warn_if_numbers(plain(table[name]), name)
        more["features"] = {name: [name] for name in features}
    if record is not None:
        more["record"] = [record]
    return CandidateSets.from_columns(table, list(columns), prior=list(prior) or None, **more)


def _split_priors(table: pa.Table, name: str, prior_is: str) -> pa.Table | None:
    """Return a table with candidates and priors of texts such as ``12.5:0.7|13.1:0.3`` as lists; None without them."""
    cells = plain(table[name])
    if not is_text(cells.type) or not pc.any(pc.match_substring(cells, ":")).as_py():
        return None
    flat = read_texts(cells, "|", prior_is == "share")
    if flat.prior is None:
        return None
    offsets = pa.array(np.concatenate([[0], np.cumsum(flat.sizes)]), pa.int64())
    values, prior = (pa.LargeListArray.from_arrays(offsets, pa.array(part)) for part in (flat.values, flat.prior))
    return table.set_column(table.column_names.index(name), name, values).append_column(_PRIOR, prior)


def _entries(table: pa.Table, name: str, candidates: pa.Array, *, as_text: bool = False) -> pa.Array:
    """Return a column with one entry per candidate as lists: of numbers where all entries are, or else of texts."""
    column = plain(table[name]).combine_chunks()
    if is_text(column.type):
        column = _split(column, name, candidates)
        trimmed = pc.utf8_trim_whitespace(column.flatten())
        entries = pc.if_else(pc.is_in(trimmed, MISSING_WORDS), pa.scalar(None, trimmed.type), trimmed)
        if not as_text:
            with suppress(pa.ArrowInvalid):
                entries = entries.cast(pa.float64())
    elif _is_list(column.type):
        entries = column.flatten()
    else:
        raise CandidateError(
            f"Column {name!r} has one entry in each row, and the candidates are lists; give a list of as many entries.",
            column=name,
        )
    if pa.types.is_decimal(entries.type):
        entries = entries.cast(pa.float64())
    if not as_text:
        _warn_if_numbers(entries, name)
    sizes = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
    return pa.LargeListArray.from_arrays(offsets, entries)


def _split(cells: pa.Array, name: str, candidates: pa.Array) -> pa.Array:
    """Return texts such as ``0.9|0.5`` or ``[0.9, 0.5]`` as lists; an empty one is the entry of one candidate."""
    cells = pc.utf8_trim_whitespace(cells)
    one = pc.fill_null(pc.greater(pc.list_value_length(candidates), 0), False)
    empty = pc.fill_null(pc.equal(cells, ""), True)
    cells = pc.if_else(empty, pc.if_else(one, "", pa.scalar(None, cells.type)), cells)
    parts = pc.split_pattern(cells, "|")
    if pc.any(pc.match_substring(cells, ";")).as_py() and not pc.any(pc.match_substring(cells, "|")).as_py():
        # A text may have a semicolon of its own: it separates where that gives each candidate one.
        again = pc.split_pattern(cells, ";")
        if pc.all(pc.equal(pc.list_value_length(again), pc.list_value_length(candidates))).as_py():
            parts = again
    listed = pc.and_(pc.starts_with(cells, "["), pc.ends_with(cells, "]"))
    if not pc.any(listed).as_py():
        return parts
    rows = parts.to_pylist()
    for row in np.flatnonzero(pc.fill_null(listed, False)).tolist():
        cell = cells[row].as_py()
        try:
            rows[row] = _read_list(cell)
        except (ValueError, RecursionError):
            # Texts in brackets, such as [a]|[b], are a list of texts all the same.
            if len(rows[row]) > 1:
                continue
            problem = f'{cell[:80]!r} is not a list; write 0.9|0.5 or [0.9, 0.5], and texts as a|b or ["a", "b"].'
            raise CandidateError(
                f"Column {name!r}, row {row}: {problem}",
                row=row,
                column=name,
                value=cell,
                problem=f"column {name!r}: {problem}",
            ) from None
    return pa.array(rows, pa.list_(pa.string()))


def _read_list(cell: str) -> list[str | None]:
    """Return the entries of a JSON list as texts; numbers as they are written."""
    entries = json.loads(cell, parse_int=str, parse_float=str, parse_constant=str)
    if not all(entry is None or isinstance(entry, str | bool) for entry in entries):
        raise ValueError("the list holds other lists or objects")
    texts = [str(int(entry)) if isinstance(entry, bool) else entry for entry in entries]
    # Texts that cannot be encoded raise a ValueError.
    "".join(text or "" for text in texts).encode()
    return texts


def _warn_if_numbers(entries: pa.Array | pa.ChunkedArray, name: str) -> None:
    """Warn where entries are texts, and so categories, though more than half of them are numbers."""
    if not is_text(entries.type):
        return
    there = entries.drop_null()
    numbers = texts_to_numbers(there, "plain")
    if 2 * numbers.null_count < len(there):
        other = there.filter(numbers.is_null())
        such = f"; {other[0].as_py()!r} is none" if len(other) else ""
        warn(
            f"The candidate feature {name!r} is taken as categories since it holds texts, but more than half of its "
            f"entries are numbers{such}. If it is a number, give it as numbers, and leave other entries empty."
        )


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
    return column if _is_list(column.type) else None


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
