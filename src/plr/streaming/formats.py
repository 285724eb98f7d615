"""Tables written to a file some rows at a time: Parquet, Feather, CSV, tab-separated text or JSON Lines."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from plr.atomic_file import AtomicFile, write_errors

__all__ = ["AS_WRITTEN", "WRITERS", "TableFile", "TableWriter", "json_lines", "lists_as_cells"]

AS_WRITTEN = b"plr as written"
"""In the metadata of a schema: texts are cells of a CSV file, quoted only where they would be misread otherwise."""

_ROWS_OF_TEXT = 10_000

# A row group is written when it has so many rows, or is as large as this.
_GROUP_ROWS, _GROUP_BYTES = 65_536, 64 << 20


class TableFile:
    """A file of rows in the making: complete, or not there.

    Parameters
    ----------
    path : Path
        Replaced by `finish` if it exists.
    kind : str
        Its format.
    schema : pyarrow.Schema
        Of all tables that will be written.
    """

    def __init__(self, path: Path, kind: str, schema: pa.Schema) -> None:
        self.path = path
        with self._errors():
            self._file = AtomicFile(path)
            try:
                self._writer = WRITERS[kind](self._file.file, schema)
            except BaseException:
                self._file.discard()
                raise

    def write(self, table: pa.Table) -> None:
        """Add some rows."""
        with self._errors():
            self._writer.write(table)

    def finish(self, notes: Mapping[str, str] | None = None) -> None:
        """Put the file in its place; a Parquet file keeps the notes in its metadata."""
        with self._errors():
            self._writer.finish(notes)
            self._file.commit()

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.abandon()
        self._file.discard()

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return write_errors(self.path, also=(pa.ArrowException,))


class TableWriter:
    """Writes tables of one schema into an open file, one below the other.

    Parameters
    ----------
    writer : a writer of Arrow's
    convert : callable, optional
        Makes a table into what the writer takes.
    """

    def __init__(self, writer: Any, convert: Callable[[pa.Table], pa.Table] | None = None) -> None:
        self._writer, self._convert = writer, convert

    def write(self, table: pa.Table) -> None:
        """Add some rows."""
        self._writer.write_table(table if self._convert is None else self._convert(table))

    def finish(self, notes: Mapping[str, str] | None = None) -> None:  # noqa: ARG002
        """Write what is left; Parquet files keep the notes beside the rows."""
        self._writer.close()

    def abandon(self) -> None:
        """Let go of a file that will not be finished."""
        # Left open, the writer would be closed when it is collected, after the file, and complain.
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            self._writer.close()


class _Parquet(TableWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(pyarrow.parquet.ParquetWriter(file, schema))
        self._waiting: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        rows = sum(part.num_rows for part in self._waiting)
        if rows >= _GROUP_ROWS or sum(part.nbytes for part in self._waiting) >= _GROUP_BYTES:
            self._write_group()

    def finish(self, notes: Mapping[str, str] | None = None) -> None:
        if self._waiting:
            self._write_group()
        if notes:
            self._writer.add_key_value_metadata(dict(notes))
        self._writer.close()

    def _write_group(self) -> None:
        group = pa.concat_tables(self._waiting)
        self._waiting = []
        self._writer.write_table(group, row_group_size=max(group.num_rows, 1))


class _Lines(TableWriter):
    """Writes lines of text, into a file that whoever opened it closes."""

    def __init__(self, file: BinaryIO, lines: Callable[[pa.Table], Iterable[bytes]]) -> None:
        super().__init__(None)
        self._file, self._lines = file, lines

    def write(self, table: pa.Table) -> None:
        self._file.writelines(self._lines(table))

    def finish(self, notes: Mapping[str, str] | None = None) -> None:
        pass

    def abandon(self) -> None:
        pass


def _feather(file: BinaryIO, schema: pa.Schema) -> TableWriter:
    # Batches may come with different dictionaries, and a Feather file has one for each column.
    plain = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    schema = pa.schema(plain, metadata=schema.metadata)
    options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
    return TableWriter(pa.ipc.new_file(file, schema, options=options), lambda table: table.cast(schema))


def _csv(file: BinaryIO, schema: pa.Schema, separator: str = ",") -> TableWriter:
    if AS_WRITTEN in (schema.metadata or {}):
        file.write(_csv_text([schema.names], separator))
        return _Lines(file, lambda table: _cells_as_written(table, separator))
    options = pyarrow.csv.WriteOptions(delimiter=separator)
    cells = lists_as_cells(schema.empty_table()).schema
    return TableWriter(pyarrow.csv.CSVWriter(file, cells, write_options=options), lists_as_cells)


WRITERS: dict[str, Callable[[BinaryIO, pa.Schema], TableWriter]] = {
    "parquet": _Parquet,
    "feather": _feather,
    "csv": _csv,
    "tsv": partial(_csv, separator="\t"),
    "jsonl": lambda file, _: _Lines(file, json_lines),
}
"""What writes each format."""


def _cells_as_written(table: pa.Table, separator: str) -> Iterator[bytes]:
    for batch in table.to_batches(max_chunksize=_ROWS_OF_TEXT):
        columns = [column.cast(pa.string()).to_pylist() for column in batch.columns]
        yield _csv_text(zip(*columns, strict=True), separator)


def _csv_text(rows: Iterable[Sequence[str | None]], separator: str) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def json_lines(table: pa.Table) -> Iterator[bytes]:
    """Yield a table as JSON Lines, one object per row, some thousand rows at a time.

    Numbers that are not finite become null: JSON has no others. What JSON has no type for, such as dates, becomes text.

    >>> print(b"".join(json_lines(pa.table({"x": [0.5, None], "y": [[1.5, 2.0], [3.0]]}))).decode(), end="")
    {"x":0.5,"y":[1.5,2.0]}
    {"x":null,"y":[3.0]}
    """
    import orjson

    names = table.column_names
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATETIME
    for batch in table.to_batches(max_chunksize=_ROWS_OF_TEXT):
        columns = [
            # By way of their shortest text: the nearest double has more digits.
            (column.cast(pa.string()).cast(pa.float64()) if pa.types.is_float32(column.type) else column).to_pylist()
            for column in batch.columns
        ]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        yield b"".join(orjson.dumps(row, default=str, option=options) for row in rows)


def lists_as_cells(table: pa.Table) -> pa.Table:
    """Return a table with each list as one text.

    >>> lists_as_cells(pa.table({"y": [[12.5, 13.1], [7.0]]}))["y"].to_pylist()
    ['12.5|13.1', '7']
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
            texts = pc.binary_join(table[field.name].combine_chunks().cast(pa.list_(pa.string())), "|")
            table = table.set_column(place, field.name, texts)
    return table
