"""Candidate sets of some rows of a folder; what is wrong is told with the file and the row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from plr.candidates import CandidateSets
from plr.columns.candidates import read_candidates
from plr.errors import CandidateError, PriorError

__all__ = ["read_sets_at"]

# Messages about one row that was looked at alone, and how they read where it has been named already.
_ALONE = (
    (re.compile(r"A candidate that is (\w+) inside row 0 \([^)]*\)"), r"a candidate is \1"),
    (re.compile(r"Null inside the list of row 0"), "a candidate is null"),
    (re.compile(r"1 of 1 rows have (.*): row 0\b"), r"it has \1"),
    (re.compile(r",? row 0\b"), ""),
)


def read_sets_at(
    table: pa.Table,
    columns: Sequence[str],
    source: Path,
    place: Callable[[int], str],
    prior: Sequence[str] = (),
) -> CandidateSets:
    """Return the candidate sets of some rows; those without a candidate are left out, as ``kept`` then says.

    Parameters
    ----------
    table : pyarrow.Table
    columns, prior : sequence of str
        As of `plr.columns.candidates.read_candidates`.
    source : Path
        What the rows were read from.
    place : callable
        Says where a row is.
    """
    try:
        return read_candidates(table, columns, prior=prior, empty="drop")
    except (CandidateError, PriorError) as error:
        row = _first_wrong(table, columns, prior)
        if row is None:
            raise type(error)(f"{source}, in the rows from {place(0)} on: {error}") from error
        text = str(_problem(table.slice(row, 1), columns, prior) or error)
        for pattern, words in _ALONE:
            text = pattern.sub(words, text)
        raise type(error)(f"{source}, {place(row)}: {text}") from error


def _first_wrong(table: pa.Table, columns: Sequence[str], prior: Sequence[str]) -> int | None:
    """Return the first row that cannot be read alone; None where each can."""
    low, high = 0, table.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        if _problem(table.slice(low, middle - low), columns, prior) is not None:
            high = middle
        else:
            low = middle
    return low if _problem(table.slice(low, 1), columns, prior) is not None else None


def _problem(table: pa.Table, columns: Sequence[str], prior: Sequence[str]) -> Exception | None:
    try:
        read_candidates(table, columns, prior=prior, empty="drop")
    except (CandidateError, PriorError) as error:
        return error
    return None
