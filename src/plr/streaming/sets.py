"""Candidate sets of some rows of a folder; what is wrong is told with the file and the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from plr.candidates import CandidateSets
from plr.columns.candidates import read_candidates
from plr.errors import CandidateError, PriorError

__all__ = ["read_sets_at"]


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
        if error.row is None:
            text = f"{source}, in the rows from {place(0)} on: {error}"
        else:
            text = f"{source}, {place(error.row)}: {error.problem or error}"
        raise type(error)(text, row=error.row, column=error.column, value=error.value, source=source) from error
