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

from plr.errors import DataError, DataNotFoundError, ParameterError
from plr.memory import peak_memory
from plr.sources.files import format_of
from plr.sources.recipe import with_recipe
from plr.sources.source import Batch, File, Source, TableSource
from plr.streaming.ahead import ahead
from plr.streaming.formats import AS_WRITTEN, TableFile
from plr.streaming.outputs import Piece, is_folder_output, made_of, open_output, sum_counts, write_pieces
from plr.tables.front_end import PYTHON, FrontEnd

__all__ = ["Done", "NewColumns", "TableOutput", "check_output", "digest_of", "what_is_read", "write_table"]

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

    def told(self) -> dict[str, Any]:
        """Return it as plain values."""
        told: dict[str, Any] = {"out": None if self.out is None else str(self.out), "rows": self.rows}
        if self.source.in_batches:
            told |= {"files": self.files, "files_skipped": self.files_skipped, "peak_memory": peak_memory()}
        return {**told, **({"columns": self.columns} if self.columns else {}), **self.cells}


def check_output(path: str | os.PathLike[str]) -> None:
    """Refuse an output file that could not be written, before any work is done for it."""
    path = Path(path)
    format_of(path)
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; name a file.")
    if not os.access(path.parent, os.W_OK) and path.parent.is_dir():
        raise DataError(f"Nothing may be written into the folder {path.parent}: permission denied.")
    if not path.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} into.")


def write_table(table: pa.Table, path: str | os.PathLike[str], recipe: Mapping[str, Any] | None = None) -> None:
    """Write a table, all of it or nothing.

    Parameters
    ----------
    table : pyarrow.Table
        May have list columns of numbers.
    path : path
        Replaced if it exists; its ending says the format.
    recipe : mapping, optional
        What made the table; kept in the metadata of Parquet and Feather files.
    """
    check_output(path)
    if recipe is not None:
        table = table.replace_schema_metadata(with_recipe(table.schema, recipe).metadata)
    file = TableFile(Path(path), format_of(path), table.schema)
    try:
        file.write(table)
        file.finish()
    except BaseException:
        file.abandon()
        raise


@dataclass(frozen=True)
class TableOutput:
    """Rows of a source with new columns, and where they go.

    Attributes
    ----------
    source : Source
    out : Path or None
        A file whose ending says its format; for a source in batches also a folder; None for stdout.
    fields : list of pyarrow.Field
        Columns that are added.
    made : mapping
        What makes them, as plain values: a folder that something else has made is not gone on with.
    schema : pyarrow.Schema
        Of what is written.
    front : FrontEnd
    """

    source: Source
    out: Path | None
    fields: list[pa.Field]
    made: Mapping[str, Any]
    schema: pa.Schema
    front: FrontEnd

    @classmethod
    def open(
        cls,
        source: Source,
        out: str | os.PathLike[str] | None,
        fields: Sequence[pa.Field],
        made: Mapping[str, Any],
        *,
        written: bool = True,
        front: FrontEnd = PYTHON,
    ) -> TableOutput:
        """Look at the input and the output, and refuse what will not do before any work is done.

        Parameters
        ----------
        source, out, fields, made, front
            As the attributes.
        written : bool, default=True
            Whether rows are written at all.
        """
        out = None if out is None else Path(out).expanduser()
        for added in fields:
            if added.name in source.schema.names:
                raise ParameterError(
                    f"{source} has a column {added.name!r} already; name the new ones otherwise: "
                    f"{front.option('prefix', 'plr_')}."
                )
        to_folder = out is not None and source.in_batches and is_folder_output(out)
        if out is not None and not to_folder:
            check_output(out)
        if written and not to_folder:
            _check_fits_format(source.schema, out)
        schema = source.schema
        if _keeps_texts(source, out):
            assert isinstance(source, TableSource)
            assert source.texts is not None
            schema = source.texts.schema.with_metadata({AS_WRITTEN: b""})
        for added in fields:
            schema = schema.append(added)
        # What pandas wrote down about its frame would not fit the columns that are added.
        metadata = {key: value for key, value in (schema.metadata or {}).items() if key != b"pandas" or not fields}
        return cls(source, out, list(fields), made, schema.with_metadata(metadata), front)

    @property
    def is_folder(self) -> bool:
        """Whether there are to be as many files as were read."""
        return self.out is not None and self.source.in_batches and is_folder_output(self.out)

    def with_columns(self, batch: Batch, new: Mapping[str, Any]) -> pa.Table:
        """Return the rows of a batch as they are written: those of a CSV file as they were, with the new columns."""
        table = batch.table
        if AS_WRITTEN in (self.schema.metadata or {}):
            assert isinstance(self.source, TableSource)
            table = self.source.texts
        for added in self.fields:
            table = table.append_column(added, [pa.array(new[added.name], added.type)])
        return table.replace_schema_metadata(self.schema.metadata)

    def map(self, what: str, columns: NewColumns) -> Done:
        """Make the new columns of all batches, with what is counted on the way, and write them."""

        def make(batch: Batch) -> Piece:
            new, counts = columns(batch)
            return Piece(self.with_columns(batch, new), counts)

        return self.write(what, made_of(self.source, make))

    def collect(self, what: str, columns: NewColumns) -> Done:
        """Make the new columns of all batches, and return their cells."""
        if self.source.in_batches:
            raise ParameterError(
                f"{self.source} has {self.source.rows:,} rows, too many for one JSON object; name an output with "
                f"{self.front.option('out')}, and JSON tells what was done."
            )
        with self.front.working(what):
            new, counts = columns(next(self.source.batches()))
        cells = {name: pa.array(values).to_pylist() for name, values in new.items()}
        return Done(self.source, None, self.source.rows, list(new), counts=dict(counts), cells=cells)

    def scan(
        self,
        what: str,
        columns: NewColumns,
        keep: Callable[[pa.Table], None],
    ) -> dict[str, float]:
        """Hand the rows of all batches, with their new columns, to ``keep``; return what was counted."""
        counts: dict[str, float] = {}
        with self.front.working(what) as tell:
            for batch in ahead(self.source.batches()):
                new, counted = columns(batch)
                keep(self.with_columns(batch, new))
                counts = sum_counts([counts, counted])
                tell(batch.first + batch.table.num_rows, self.source.rows, 0.0)
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


def digest_of(path: Path) -> str:
    """Return a digest of a file."""
    with path.expanduser().open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def what_is_read(source: Source, *, whole: bool = False) -> str:
    """Return a digest of the columns of a source and, where each row of the result depends on all, of all files."""
    depends = [str(source.schema.remove_metadata())]
    if whole and source.in_batches:
        depends += [file.identity() for file in source.files]
    return hashlib.sha256(repr(depends).encode()).hexdigest()


def _keeps_texts(source: Source, out: Path | None) -> bool:
    return isinstance(source, TableSource) and source.texts is not None and (out is None or format_of(out) == "csv")


def _check_fits_format(schema: pa.Schema, out: Path | None) -> None:
    """Refuse to write nested columns as CSV before any work is done."""
    if out is not None and format_of(out) != "csv":
        return
    for column in schema:
        inner = column.type
        while pa.types.is_list(inner) or pa.types.is_large_list(inner):
            inner = inner.value_type
        if pa.types.is_struct(inner) or pa.types.is_map(inner):
            raise ParameterError(
                f"The column {column.name!r} holds nested objects, which a CSV file cannot; write with -o to a "
                ".parquet or .jsonl file."
            )
