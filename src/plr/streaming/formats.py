"""Tables written to a file some rows at a time: Parquet, Feather, CSV or JSON Lines."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from plr.atomic_file import AtomicFile, write_errors
from plr.sources.json_lines import json_lines

__all__ = ["AS_WRITTEN", "WRITERS", "TableFile", "TableWriter", "lists_as_cells"]

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
            self._writer.finish(notes or {})
            self._file.commit()

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.abandon()
        self._file.discard()

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return write_errors(self.path, also=(pa.ArrowException,))


class TableWriter:
    """Writes tables of one schema into an open file, one below the other."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, table: pa.Table) -> None:
        """Add some rows."""
        self._writer.write_table(table)

    def finish(self, notes: Mapping[str, str]) -> None:  # noqa: ARG002
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

    def finish(self, notes: Mapping[str, str]) -> None:
        if self._waiting:
            self._write_group()
        if notes:
            self._writer.add_key_value_metadata(dict(notes))
        self._writer.close()

    def _write_group(self) -> None:
        group = pa.concat_tables(self._waiting)
        self._waiting = []
        self._writer.write_table(group, row_group_size=max(group.num_rows, 1))


class _Feather(TableWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        # Batches may come with different dictionaries, and a Feather file has one for each column.
        self._schema = pa.schema([_spelled_out(field) for field in schema], metadata=schema.metadata)
        compression = "lz4" if pa.Codec.is_available("lz4") else None
        options = pa.ipc.IpcWriteOptions(compression=compression)
        super().__init__(pa.ipc.new_file(file, self._schema, options=options))

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table.cast(self._schema))


class _Csv(TableWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(pyarrow.csv.CSVWriter(file, lists_as_cells(schema.empty_table()).schema))

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(lists_as_cells(table))


class _CsvAsWritten(TableWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(None)
        self._file = file
        self._write_lines([schema.names])

    def write(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=_ROWS_OF_TEXT):
            columns = [column.cast(pa.string()).to_pylist() for column in batch.columns]
            self._write_lines(zip(*columns, strict=True))

    def finish(self, notes: Mapping[str, str]) -> None:
        pass

    def abandon(self) -> None:
        pass

    def _write_lines(self, lines: Iterable[Sequence[str | None]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(lines)
        self._file.write(text.getvalue().encode())


def _csv(file: BinaryIO, schema: pa.Schema) -> TableWriter:
    return (_CsvAsWritten if AS_WRITTEN in (schema.metadata or {}) else _Csv)(file, schema)


class _JsonLines(TableWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:  # noqa: ARG002
        # Whoever opened the file closes it.
        super().__init__(None)
        self._file = file

    def write(self, table: pa.Table) -> None:
        self._file.writelines(json_lines(table))

    def finish(self, notes: Mapping[str, str]) -> None:
        pass

    def abandon(self) -> None:
        pass


WRITERS: dict[str, Callable[[BinaryIO, pa.Schema], TableWriter]] = {
    "parquet": _Parquet,
    "feather": _Feather,
    "csv": _csv,
    "jsonl": _JsonLines,
}
"""What writes each format."""


def lists_as_cells(table: pa.Table) -> pa.Table:
    """Return a table with each list as one text.

    >>> lists_as_cells(pa.table({"y": [[12.5, 13.1], [7.0]]}))["y"].to_pylist()
    ['12.5|13.1', '7']
    """
    for place, field in enumerate(table.schema):
        kind: Any = field.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            texts = pc.binary_join(table[field.name].combine_chunks().cast(pa.list_(pa.string())), "|")
            table = table.set_column(place, field.name, texts)
    return table


def _spelled_out(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
