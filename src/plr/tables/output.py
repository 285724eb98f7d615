"""Columns that are added to the rows of a source, and where the rows go: a file, a folder of as many files, stdout."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from plr.atomic_file import check_writable
from plr.errors import ParameterError
from plr.front_end import PYTHON, FrontEnd
from plr.memory import peak_memory
from plr.sources.files import format_of
from plr.sources.source import Batch, File, Source, TableSource
from plr.streaming.formats import AS_WRITTEN, TableFile
from plr.streaming.outputs import Piece, is_folder_output, made_of, open_output, sum_counts, write_pieces
from plr.tables.row_reader import batches_of

__all__ = ["Done", "NewColumns", "TableOutput", "check_output", "what_is_read", "write_table"]

# More rows than this are written, and not collected in memory.
_MOST_COLLECTED = 1_000_000

NewColumns = Callable[[Batch], tuple[Mapping[str, Any], Mapping[str, float]]]
"""Makes the new columns of a batch, and numbers that are added up over all."""


@dataclass(frozen=True)
class Done:
    """What was written.

    Attributes
    ----------
    source : Source
        What was read.
    out : Path or None
        Where it went; None for stdout, or nowhere.
    rows : int
    columns : list of str
        The columns that were added.
    files, files_skipped : int
        Files that were read, and how many of them had been finished by an earlier run.
    counts : dict
        What was counted on the way.
    cells : dict of str to list, optional
        The columns that were added, where they were not written.
    """

    source: Source
    out: Path | None
    rows: int
    columns: list[str] = field(default_factory=list)
    files: int = 1
    files_skipped: int = 0
    counts: dict[str, float] = field(default_factory=dict)
    cells: dict[str, list[Any]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        summary: dict[str, Any] = {"out": None if self.out is None else str(self.out), "rows": self.rows}
        if self.source.in_batches:
            summary |= {"files": self.files, "files_skipped": self.files_skipped, "peak_memory": peak_memory()}
        return {**summary, **({"columns": self.columns} if self.columns else {}), **self.cells}


def check_output(path: Path) -> None:
    """Refuse an output file that could not be written, before any work is done for it."""
    format_of(path)
    check_writable(path)


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table, all of it or nothing.

    Parameters
    ----------
    table : pyarrow.Table
        May have list columns of numbers.
    path : path
        Replaced if it exists; its ending says the format.
    """
    path = Path(path)
    check_output(path)
    file = TableFile(path, format_of(path), table.schema)
    try:
        file.write(table)
        file.finish()
    except BaseException:
        file.abandon()
        raise


class TableOutput:
    """Rows of a source with new columns, and where they go; refuses what cannot be written before any work is done.

    Parameters
    ----------
    source : Source
    out : path or None
        A file whose ending says its format; for a source in batches also a folder; None for stdout.
    fields : sequence of pyarrow.Field
        Columns that are added.
    made : mapping
        What makes them, as plain values: a folder that something else has made is not gone on with.
    written : bool, default=True
        Whether rows are written at all.
    front : FrontEnd

    Attributes
    ----------
    is_folder : bool
        Whether there are to be as many files as were read.
    schema : pyarrow.Schema
        Of what is written.
    """

    def __init__(
        self,
        source: Source,
        out: str | os.PathLike[str] | None,
        fields: Sequence[pa.Field],
        made: Mapping[str, Any],
        *,
        written: bool = True,
        front: FrontEnd = PYTHON,
    ) -> None:
        self.source, self.fields, self.made, self.front = source, list(fields), made, front
        self.out = None if out is None else Path(out).expanduser()
        for added in fields:
            if added.name in source.schema.names:
                raise ParameterError(
                    f"{source} has a column {added.name!r} already; name the new ones otherwise: "
                    f"{front.option('prefix', 'plr_')}."
                )
        self.is_folder = self.out is not None and source.in_batches and is_folder_output(self.out)
        if self.out is not None and not self.is_folder:
            check_output(self.out)
        as_csv = self.out is None or (not self.is_folder and format_of(self.out) in ("csv", "tsv"))
        if written and as_csv:
            _check_flat(source.schema)
        # The cells of a CSV file are written as they were.
        self._texts = source.texts if isinstance(source, TableSource) and as_csv else None
        schema = source.schema if self._texts is None else self._texts.schema.with_metadata({AS_WRITTEN: b""})
        # What pandas wrote down about its frame would not fit the columns that are added.
        metadata = {key: value for key, value in (schema.metadata or {}).items() if key != b"pandas" or not fields}
        self.schema = pa.schema([*schema, *fields], metadata=metadata)

    def with_columns(self, batch: Batch, new: Mapping[str, Any]) -> pa.Table:
        """Return the rows of a batch as they are written: those of a CSV file as they were, with the new columns."""
        table = batch.table if self._texts is None else self._texts
        for added in self.fields:
            table = table.append_column(added, [pa.array(new[added.name], added.type)])
        return table.replace_schema_metadata(self.schema.metadata)

    def map(self, what: str, columns: NewColumns) -> Done:
        """Make the new columns of all batches, with what is counted on the way, and write them."""

        def make(batch: Batch) -> Piece:
            new, counts = columns(batch)
            return Piece(self.with_columns(batch, new), counts)

        return self.write(what, made_of(self.source, make))

    def collect(self, what: str, columns: NewColumns, keys: Sequence[str] = ()) -> Done:
        """Make the new columns of all batches, and return their cells, after those of columns that name the rows."""
        rows, names = self.source.rows, [added.name for added in self.fields]
        if rows > _MOST_COLLECTED:
            raise ParameterError(
                f"{self.source} has {rows:,} rows, too many for one JSON object; name an output with {{parameter}}, "
                "and JSON tells what was done.",
                parameter="out",
            )
        tables: list[pa.Table] = []
        counts = self.scan(what, columns, lambda table: tables.append(table.select([*keys, *names])))
        cells = pa.concat_tables(tables).to_pydict()
        return Done(self.source, None, rows, names, len(self.source.files), counts=counts, cells=cells)

    def scan(self, what: str, columns: NewColumns, keep: Callable[[pa.Table], None]) -> dict[str, float]:
        """Hand the rows of all batches, with their new columns, to ``keep``; return what was counted."""
        counts: dict[str, float] = {}
        for batch in batches_of(self.source, what, self.front):
            new, counted = columns(batch)
            keep(self.with_columns(batch, new))
            counts = sum_counts([counts, counted])
        return counts

    def write(self, what: str, pieces: Callable[[Sequence[File]], Generator[Piece]]) -> Done:
        """Write what is made of the files' rows."""
        output = open_output(self.out, self.source, self.made, sys.stdout.buffer)
        sys.stdout.flush()
        with self.front.working(what) as tell:
            skipped, counts = write_pieces(self.source, pieces, self.schema, output, tell)
        names = [added.name for added in self.fields]
        return Done(self.source, self.out, self.source.rows, names, len(self.source.files), skipped, counts)

    def write_one(self, table: pa.Table) -> None:
        """Write one table in place of all rows."""
        whole = TableSource(table, self.source.path)
        output = open_output(self.out, whole, {}, sys.stdout.buffer)
        sys.stdout.flush()
        write_pieces(whole, made_of(whole, lambda batch: Piece(batch.table, {})), self.schema, output)


def what_is_read(source: Source, *, whole: bool = False) -> str:
    """Return a digest of the columns of a source and, where each row of the result depends on all, of all files."""
    depends = [str(source.schema.remove_metadata())]
    if whole and source.in_batches:
        depends += [file.identity() for file in source.files]
    return hashlib.sha256(repr(depends).encode()).hexdigest()


def _check_flat(schema: pa.Schema) -> None:
    """Refuse to write nested columns as CSV."""
    for column in schema:
        inner = column.type
        while pa.types.is_list(inner) or pa.types.is_large_list(inner):
            inner = inner.value_type
        if pa.types.is_struct(inner) or pa.types.is_map(inner):
            raise ParameterError(
                f"The column {column.name!r} holds nested objects, which a CSV file cannot; write with {{parameter}} "
                "to a .parquet or .jsonl file.",
                parameter="out",
            )
