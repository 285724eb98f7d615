"""Parquet files that need not fit in memory: what they hold, some of their rows, and all of them in batches."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from numpy.typing import NDArray

from plr.errors import DataError, DataNotFoundError, ParameterError
from plr.memory import available_memory
from plr.sources.files import check_beginning, read_file
from plr.sources.source import (
    DAMAGE,
    MOST_COLUMNS,
    Batch,
    File,
    Source,
    TableSource,
    changed_file,
    check_names,
    check_names_are_texts,
    check_sound,
    first_line,
    too_many_columns,
)

__all__ = ["BATCH_ROWS", "Folder", "open_source"]

BATCH_ROWS = 16_384
"""Rows that are read at a time."""

_ENDINGS = (".parquet", ".pq")
# Read from the disk at a time, for each column that is read.
_BUFFER = 1 << 18
# A batch has fewer rows where they are so wide that it would be larger than this.
_BATCH_BYTES = 32 << 20
# A file is read in batches if its rows take more than this share of the memory that is left.
_SHARE = 0.25
# A look takes rows from so many places, at most.
_PLACES = 64


@dataclass(frozen=True)
class Folder(Source):
    """All Parquet files below a folder, as one table whose rows are never all in memory.

    Attributes
    ----------
    path : Path
        The folder, or the one file.
    files : tuple of File
        In the order of their names.
    schema : pyarrow.Schema
        Names in the order of the first file. Where files have different types of numbers, the wider; the metadata of
        the first file.
    uncompressed : int
        Bytes of all rows before compression.
    """

    path: Path
    files: tuple[File, ...]
    schema: pa.Schema
    uncompressed: int
    in_batches = True

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Folder:
        """Look at every file's description of itself, and at no row.

        Raises
        ------
        DataNotFoundError
            Where there is no such folder, or no Parquet file in it.
        DataError
            Where a file is damaged, or has other columns than the first.
        """
        path = Path(path).expanduser()
        names = _parquet_files(path)
        keys = _partition_keys(path, names)
        files: list[File] = []
        schema: pa.Schema | None = None
        first = uncompressed = 0
        for name in names:
            where = path / name if path.is_dir() else path
            found, groups, size = _describe(where)
            for key, value in keys[name]:
                if key not in found.names:
                    found = found.append(pa.field(key, pa.scalar(value).type))
            schema = found if schema is None else _merged(schema, found, files[0].name, where)
            place = Path(os.path.abspath(where))
            files.append(File(place, name, groups, first, where.stat().st_size, keys[name]))
            first += sum(groups)
            uncompressed += size
        assert schema is not None
        check_names(schema.names, files[0].path)
        if first == 0:
            raise DataError(f"{path} has no rows, only the names of its columns.")
        return cls(path, tuple(files), schema, uncompressed)

    @property
    def batch_rows(self) -> int:
        """How many rows to read at a time: `BATCH_ROWS`, or fewer where they are wide."""
        width = max(8 * len(self.schema), self.uncompressed // self.rows)
        return max(min(BATCH_ROWS, _BATCH_BYTES // width), 64)

    def place(self, row: int) -> str:
        """Say in words where a row is."""
        file = next(file for file in reversed(self.files) if file.first <= row)
        return f"data row {row - file.first} of {file.name}, counted from 0"

    def fingerprint(self) -> str:
        """Return a text that tells these files from others: their names, and what each says of itself."""
        described = repr([(file.name, file.identity()) for file in self.files])
        return hashlib.sha256(described.encode()).hexdigest()

    def batches(self, columns: Sequence[str] | None = None, files: Sequence[File] | None = None) -> Iterator[Batch]:
        """Give all rows in order, some at a time; a little of a file is in memory, never a row group."""
        rows = self.batch_rows
        for file in self.files if files is None else files:
            first = file.first
            for table in self._read(file, None, columns, rows):
                yield Batch(first, table)
                first += table.num_rows
            if first != file.first + file.rows:
                raise changed_file(file.path)

    def read(self) -> TableSource:
        """Read all rows into memory."""
        return TableSource(pa.concat_tables(batch.table for batch in self.batches()), self.path)

    def sample(self, rows: int, seed: int, columns: Sequence[str] | None = None) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return some rows, and their numbers: the first ones of row groups taken at random, in order; all if few."""
        if self.rows <= rows:
            return pa.concat_tables(batch.table for batch in self.batches(columns)), np.arange(self.rows)
        every = [(file, group) for file in self.files for group in range(len(file.groups)) if file.groups[group]]
        random = np.random.default_rng(np.random.SeedSequence([seed, 0x100C]))
        order = random.permutation(len(every))
        # As evenly as the row groups' sizes allow.
        taken = np.zeros(len(every), dtype=np.int64)
        sizes = np.array([file.groups[group] for file, group in every])
        left, places = rows, min(_PLACES, len(every))
        for done, number in enumerate(order):
            share = -(-left // max(places - done, 1))
            taken[number] = min(share, sizes[number], left)
            left -= taken[number]
            if left == 0:
                break
        parts, numbers = [], []
        for number in np.flatnonzero(taken):
            file, group = every[number]
            wanted = int(taken[number])
            first = file.first + sum(file.groups[:group])
            numbers.append(np.arange(first, first + wanted))
            for table in self._read(file, [group], columns, min(wanted, BATCH_ROWS)):
                parts.append(table.slice(0, wanted))
                wanted -= parts[-1].num_rows
                if wanted == 0:
                    break
        return pa.concat_tables(parts), np.concatenate(numbers)

    def _read(
        self, file: File, groups: list[int] | None, columns: Sequence[str] | None, rows: int
    ) -> Iterator[pa.Table]:
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        schema = schema.with_metadata(self.schema.metadata)
        keys = dict(file.keys)
        stored = [name for name in schema.names if name not in keys]
        try:
            with pyarrow.parquet.ParquetFile(file.path, pre_buffer=False, buffer_size=_BUFFER) as source:
                if source.metadata.num_rows != file.rows:
                    raise changed_file(file.path)
                for batch in source.iter_batches(rows, row_groups=groups, columns=stored, use_threads=False):
                    yield _as_schema(check_sound(batch), schema, keys)
        except DataError:
            raise
        except FileNotFoundError as error:
            raise changed_file(file.path) from error
        except DAMAGE as error:
            raise DataError(f"{file.path} is damaged: {first_line(error)}.") from error


def open_source(data: Any) -> Source:
    """Return where a table is read from.

    Parameters
    ----------
    data : path, frame or Source
        A file (CSV, TSV, Parquet, Feather, JSON Lines, XLSX), ``-`` for standard input, a folder of Parquet files, a
        frame of pandas or Polars, an Arrow table, or a dictionary of columns. A folder, and a Parquet file that is
        large for the memory that is left, is read in batches.
    """
    if isinstance(data, Source):
        return data
    if not isinstance(data, str | os.PathLike):
        return TableSource.of_frame(data)
    path = Path(data).expanduser()
    return Folder.open(path) if path.is_dir() or _is_large(path) else read_file(path)


def _is_large(path: Path) -> bool:
    if path.suffix.lower() not in _ENDINGS or not path.is_file():
        return False
    left = available_memory()
    try:
        return left is not None and _describe(path)[2] > _SHARE * left
    except DataError:
        # Whoever reads it will say what is wrong with it.
        return False


def _parquet_files(path: Path) -> list[str]:
    if not path.exists():
        raise DataNotFoundError(f"There is no file or folder {path}.")
    if path.is_file():
        if path.suffix.lower() not in _ENDINGS:
            raise ParameterError(f"{path} is no Parquet file; only those, and folders of them, are read in batches.")
        return [path.name]
    every = []
    for place, below, found in os.walk(path, followlinks=True):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        every += [Path(place, name).relative_to(path) for name in found if not name.startswith((".", "_"))]
    names = sorted(name.as_posix() for name in every if name.suffix.lower() in _ENDINGS)
    if not names:
        others = sorted({name.suffix for name in every if name.suffix})
        seen = f" (there are {', '.join(others[:5])} files)" if others else ""
        raise DataNotFoundError(
            f"The folder {path} has no Parquet files{seen}; give one with .parquet files, or a single table."
        )
    return names


def _partition_keys(path: Path, names: list[str]) -> dict[str, tuple[tuple[str, object], ...]]:
    """Return the columns that folders' names give each file, their types inferred from all of them."""
    if not any("=" in name for name in names):
        return dict.fromkeys(names, ())
    dataset = pyarrow.dataset.dataset(
        [str(path / name) for name in names], format="parquet", partitioning="hive", partition_base_dir=str(path)
    )
    found = {}
    for fragment in dataset.get_fragments():
        given = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
        name = os.path.relpath(os.path.abspath(fragment.path), os.path.abspath(path))
        found[Path(name).as_posix()] = given
    return {name: tuple(sorted(found.get(name, {}).items())) for name in names}


def _describe(path: Path) -> tuple[pa.Schema, tuple[int, ...], int]:
    """Return a file's schema, the rows of its row groups, and its bytes before compression."""
    try:
        metadata = pyarrow.parquet.read_metadata(path)
        if metadata.num_columns > MOST_COLUMNS:
            raise too_many_columns(path, metadata.num_columns)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        sizes = tuple(group.num_rows for group in groups)
        schema = metadata.schema.to_arrow_schema()
        check_names_are_texts(schema)
        # Columns with few different values are small in the file and of full size in memory.
        widths = [max(kind.bit_width // 8, 1) if pa.types.is_primitive(kind) else 8 for kind in schema.types]
        plain = sum(sizes) * sum(widths)
        return schema, sizes, max(plain, sum(group.total_byte_size for group in groups))
    except PermissionError as error:
        raise DataError(f"{path} may not be read: permission denied.") from error
    except DataError:
        raise
    except DAMAGE as error:
        with path.open("rb") as file:
            check_beginning(file.read(1000), "parquet", path)
        raise DataError(f"{path} is damaged, or cut short: {first_line(error)}.") from error


def _merged(schema: pa.Schema, other: pa.Schema, first: str, path: Path) -> pa.Schema:
    """Return a schema that holds the rows of both, or complain."""
    if schema.equals(other):
        return schema
    for name in [*schema.names, *other.names]:
        if name not in other.names or name not in schema.names:
            has, lacks = (first, path) if name in schema.names else (path, first)
            raise DataError(
                f"{lacks} lacks the column {name!r}, which {has} has; all files of a folder must have the same columns."
            )
    fields = []
    for field in schema:
        found = other.field(field.name)
        if field.type.equals(found.type):
            fields.append(field)
            continue
        try:
            fields.append(
                pa.unify_schemas([pa.schema([field]), pa.schema([found])], promote_options="permissive").field(0)
            )
        except pa.ArrowException as error:
            raise DataError(
                f"The column {field.name!r} has the type {found.type} in {path} and {field.type} in {first}; make them "
                "the same."
            ) from error
    return pa.schema(fields, metadata=schema.metadata)


def _as_schema(batch: pa.RecordBatch, schema: pa.Schema, keys: dict[str, object]) -> pa.Table:
    table = pa.Table.from_batches([batch])
    for name in keys.keys() & set(schema.names):
        column = pa.repeat(pa.scalar(keys[name], schema.field(name).type), batch.num_rows)
        table = table.append_column(name, column)
    return table.select(schema.names).cast(schema)
