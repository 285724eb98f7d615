"""Tables written to a file some rows at a time: Parquet, Feather, CSV or JSON Lines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from plr.sources.json_lines import json_lines

__all__ = ["WRITERS", "Writer", "lists_as_cells"]

# A row group is written when it has so many rows, or is as large as this.
_GROUP_ROWS, _GROUP_BYTES = 65_536, 64 << 20


class Writer(Protocol):
    """Writes tables of one schema into a file, one below the other."""

    def write(self, table: pa.Table) -> None:
        """Add some rows."""

    def finish(self, notes: Mapping[str, str]) -> None:
        """Write what is left; Parquet files keep the notes beside the rows."""

    def abandon(self) -> None:
        """Let go of a file that will not be finished."""


class _Parquet:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(file, schema)
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

    def abandon(self) -> None:
        _close(self._writer)

    def _write_group(self) -> None:
        group = pa.concat_tables(self._waiting)
        self._waiting = []
        self._writer.write_table(group, row_group_size=max(group.num_rows, 1))


class _Feather:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        # Batches may come with different dictionaries, and a Feather file has one for each column.
        self._schema = pa.schema([_spelled_out(field) for field in schema], metadata=schema.metadata)
        compression = "lz4" if pa.Codec.is_available("lz4") else None
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._writer = pa.ipc.new_file(file, self._schema, options=options)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table.cast(self._schema))

    def finish(self, notes: Mapping[str, str]) -> None:  # noqa: ARG002
        self._writer.close()

    def abandon(self) -> None:
        _close(self._writer)


class _Csv:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pyarrow.csv.CSVWriter(file, lists_as_cells(schema.empty_table()).schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(lists_as_cells(table))

    def finish(self, notes: Mapping[str, str]) -> None:  # noqa: ARG002
        self._writer.close()

    def abandon(self) -> None:
        _close(self._writer)


class _JsonLines:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:  # noqa: ARG002
        self._file = file

    def write(self, table: pa.Table) -> None:
        self._file.writelines(json_lines(table))

    def finish(self, notes: Mapping[str, str]) -> None:
        pass

    def abandon(self) -> None:
        pass


WRITERS: dict[str, Callable[[BinaryIO, pa.Schema], Writer]] = {
    "parquet": _Parquet,
    "feather": _Feather,
    "csv": _Csv,
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


def _close(writer: Any) -> None:
    # Left open, it would be closed at its end, after the file, and complain.
    with contextlib.suppress(OSError, ValueError, pa.ArrowException):
        writer.close()
