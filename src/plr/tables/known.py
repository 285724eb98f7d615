"""Labels of checked rows: from a column of the table, or from a file that names rows and what they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.candidates.known import CANNOT_TELL, CheckedRows, read_answers, read_known
from plr.columns.kinds import plain
from plr.errors import CandidateError, DataError, ParameterError
from plr.front_end import FrontEnd, warn
from plr.sources.folder import open_source
from plr.sources.named import is_known_column
from plr.sources.source import Source, TableSource
from plr.tables.long_table import LongTable, name_rows, row_keys
from plr.tables.row_reader import read_some_truths

__all__ = [
    "check_known",
    "check_known_column",
    "describe_checked",
    "is_column",
    "known_labels",
    "located",
    "names_of_known",
    "with_checked",
]

Floats = NDArray[np.float64]

# Which row a line is about: its number, the first being 0, or in a table that has row ids its id.
_ROW = "row"
# From so many known labels on, it is remarkable if most are none of the candidates.
_MANY = 5


def is_column(known: Any, source: Source) -> bool:
    """Whether known labels are a column of the table itself; where they are neither that nor a file, complain."""
    return is_known_column(known, source.schema.names, source)


def names_of_known(known: Any, source: Source) -> list[str]:
    """Return where known labels are, in words: a column of the table, or names of files without their folders.

    >>> from plr.sources.source import TableSource
    >>> table = TableSource.of_frame({"y": [1.0], "truth": [1.0]})
    >>> names_of_known("truth", table), names_of_known(None, table)
    (['truth'], [])
    """
    if known is None:
        return []
    if is_column(known, source):
        return [str(known)]
    given = known if isinstance(known, list | tuple) else [known]
    return [Path(one).name for one in given if isinstance(one, str | os.PathLike)]


def check_known_column(known: Any, source: Source, front: FrontEnd) -> None:
    """Refuse known labels that are no column of the table, where rows are read in batches."""
    if not is_column(known, source):
        raise ParameterError(
            "{parameter} must be a column of the table where rows are read in batches; join the known labels to the "
            f"table, or read the rows as one table with {front.option('in_batches', False)}.",
            parameter="known",
        )


def known_labels(
    known: Any,
    source: Source,
    table: pa.Table,
    kept: NDArray[np.int64] | None,
    front: FrontEnd,
    numbers: NDArray[np.int64] | int = 0,
) -> pa.Table:
    """Return what is known of the rows that have candidates, as `PartialLabelRegressor.fit` takes it.

    Parameters
    ----------
    known : str, path, frame, or list of paths or frames
        A column of the table; or a table with the row id (under its own name, or as ``row``; where there are no ids,
        ``row`` is the number from 0), ``value`` or ``record``, and perhaps ``answer`` and ``probability``. Of several
        tables, the last that says something of a row counts.
    source : Source
    table : pyarrow.Table
        All rows of the source; or some, where known labels are a column.
    kept : ndarray of int, optional
        The rows that have candidates, where not all have.
    front : FrontEnd
    numbers : ndarray of int, or int
        The number of each row of the table in the source, or that of the first, for messages.
    """
    if isinstance(known, list | tuple):
        return _combined([known_labels(one, source, table, kept, front) for one in known])
    rows = np.arange(table.num_rows) if kept is None else kept
    if is_column(known, source):
        value = read_some_truths(table, known, source, numbers, "known")
        lost = int((~np.isnan(value)).sum() - (~np.isnan(value[rows])).sum())
        if lost:
            front.note(f"Left out: {lost} known labels in {known!r}, of rows without a candidate.")
        return pa.table({"value": value[rows]})
    given = open_source(known)
    if not isinstance(given, TableSource):
        raise ParameterError("{parameter} is a single table, not a folder.", parameter="known")
    where = _rows_of(given, source, table.num_rows)
    bare = np.setdiff1d(where, rows)
    if bare.size:
        line = int(np.flatnonzero(np.isin(where, bare))[0])
        raise DataError(
            f"{given}, {given.place(line)}: {source.place(int(where[line]))}, has no candidate in {source}, so nothing "
            "can be learned from its label; remove the line.",
            row=line,
            source=given.path,
        )
    to = np.searchsorted(rows, where)
    columns: dict[str, Any] = {"value": np.full(len(rows), np.nan)}
    for name in ("value", "probability"):
        if name in given.schema.names:
            columns[name] = np.full(len(rows), np.nan)
            columns[name][to] = read_some_truths(given.table, name, given, parameter="known")
    for name in ("record", "answer"):
        if name in given.schema.names:
            texts = np.full(len(rows), "", dtype=object)
            texts[to] = _read_texts(given, name)
            columns[name] = texts.tolist()
    return pa.table(columns)


def _read_texts(given: TableSource, name: str) -> list[str]:
    """Return the records or answers of a file of known labels, without blanks around them."""
    cells = plain(given.table[name]).to_pylist()
    try:
        return read_answers(cells).tolist() if name == "answer" else row_keys(cells)
    except CandidateError as error:
        where = "" if error.row is None else f", {given.place(error.row)}"
        raise DataError(
            f"{given}{where}: {error.problem or error}",
            row=error.row,
            column=name,
            value=error.value,
            source=given.path,
        ) from error


def _rows_of(given: TableSource, source: Source, count: int) -> NDArray[np.int64]:
    """Return which row of the source each line of a file of known labels is about."""
    names, long = given.schema.names, isinstance(source, LongTable)
    key = source.row if isinstance(source, LongTable) and (source.row in names or _ROW not in names) else _ROW
    needed = key if key not in names else None if {"value", "record"} & set(names) else "value"
    if needed is not None:
        what = "the row id" if long else "the number of the row, the first being 0"
        raise DataError(
            f"{given} lacks the column {needed!r}; known labels have {key!r}, {what}, and 'value', the true label, or "
            "'record', which candidate it is.",
            column=needed,
            source=given.path,
        )
    places = {str(name): place for place, name in enumerate(name_rows(source, np.arange(count)))}
    seen: dict[str, int] = {}
    found = np.empty(given.rows, dtype=np.int64)
    keys = row_keys(plain(given.table[key]).to_pylist())
    # An id such as 007 is a number where all are, and as it is written where the table has it as a text.
    written = keys if given.texts is None else row_keys(given.texts[key].to_pylist())
    for line, name in enumerate(keys):
        if name not in places:
            name = written[line]
        if name not in places:
            known = f"{source} has no such row" if long else f"rows are numbered from 0 to {count - 1}"
            problem = f"{key} {name!r} is unknown: {known}; correct it, or remove the line."
            if not name:
                problem = f"the column {key!r} is empty; say which row it is."
        elif name in seen:
            problem = f"{key} {name} was given before, in {given.place(seen[name])}; give each row once."
        else:
            seen[name], found[line] = line, places[name]
            continue
        raise DataError(f"{given}, {given.place(line)}: {problem}", row=line, column=key, value=name, source=given.path)
    return found


def with_checked(labels: pa.Table | None, checked: NDArray[np.bool_]) -> pa.Table:
    """Return what is known of some rows, with more rows that somebody looked at, whatever was found."""
    more = pa.table({"value": np.full(len(checked), np.nan), "answer": np.where(checked, CANNOT_TELL, "")})
    return more if labels is None else _combined([more, labels])


def _combined(several: list[pa.Table]) -> pa.Table:
    """Return what several tables say about the same rows; the last that says something of a row counts."""
    count = several[0].num_rows
    empty: dict[str, Any] = {name: np.full(count, np.nan) for name in ("value", "probability")}
    empty |= {name: np.full(count, "", dtype=object) for name in ("record", "answer")}
    merged = empty
    for table in several:
        given = {name: np.array(table[name].to_pylist(), empty[name].dtype) for name in table.column_names}
        columns = {**empty, **given}
        said = ~np.isnan(columns["value"]) | (columns["record"] != "") | (columns["answer"] != "")
        merged = {name: np.where(said, columns[name], merged[name]) for name in empty}
    return pa.table(merged)


def check_known(labels: pa.Table, sets: CandidateSets) -> CheckedRows | None:
    """Read known labels; None where there are none."""
    checked = read_known(labels, sets)
    if checked is None:
        warn("The known labels are all empty, so nothing is known of any row that has candidates.")
        return None
    labelled = int(checked.labelled.sum())
    lacking = labelled - int((checked.labelled & checked.found(sets)).sum())
    if lacking >= _MANY and 2 * lacking > labelled:
        warn(
            f"{lacking} of {labelled} known labels are none of their row's candidates, which says that the truth was "
            "missing there. If that is not so, look whether the labels belong to these rows, and are in the same unit."
        )
    return checked


@contextmanager
def located(source: Source, place: Callable[[int], str]) -> Iterator[None]:
    """Let an error about a row's candidates say where that row is."""
    try:
        yield
    except CandidateError as error:
        if not isinstance(error.row, int):
            raise
        raise CandidateError(
            f"{source}, {place(error.row)}: {error}", row=error.row, value=error.value, source=source.path
        ) from error


def describe_checked(checked: CheckedRows | None, sets: CandidateSets) -> dict[str, Any] | None:
    """Return how many rows were checked and what was found, as plain values; None where none was."""
    if checked is None:
        return None
    found = checked.found(sets)
    looked_at = found | checked.missing | checked.undecided
    return {
        "rows": int(looked_at.sum()),
        "found": int(found.sum()),
        "found_among_several": int((found & (sets.sizes > 1)).sum()),
        "missing": int(checked.missing.sum()),
        "cannot_tell": int(checked.undecided.sum()),
        "sampled": "random" if np.isnan(checked.probability[looked_at]).all() else "with known probabilities",
    }
