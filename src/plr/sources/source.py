"""What a table is read from, whatever it is: rows in batches, and where each row is."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.errors import DataError, ParameterError, PlrError

__all__ = [
    "DAMAGE",
    "MOST_COLUMNS",
    "Batch",
    "File",
    "Source",
    "TableSource",
    "changed_file",
    "check_names",
    "check_names_are_texts",
    "check_sound",
    "first_line",
    "in_arrow",
    "too_many_columns",
]

T = TypeVar("T", pa.Table, pa.RecordBatch)

DAMAGE = (pa.ArrowException, OSError, ValueError)
"""What Arrow raises where a file is damaged; names that are no texts are a ValueError."""

MOST_COLUMNS = 100_000
"""A table with more columns than this is a mistake, not a table."""

# At the end of a Parquet file: how long its description is, and a mark.
_TAIL = 8


class Batch(NamedTuple):
    """Some rows in their own order, and how many come before them in the source."""

    first: int
    table: pa.Table


@dataclass(frozen=True)
class File:
    """One file of a source.

    Attributes
    ----------
    path : Path
    name : str
        Its path below the folder.
    groups : tuple of int
        Rows of each of its row groups.
    first : int
        Rows of all files before it.
    size : int
        Bytes of the file.
    keys : tuple of (str, scalar)
        Columns that its folders' names give it, as in ``year=2024/part-0.parquet``.
    """

    path: Path
    name: str
    groups: tuple[int, ...]
    first: int = 0
    size: int = 0
    keys: tuple[tuple[str, object], ...] = ()

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(self.groups)

    def identity(self) -> str:
        """Return a text that tells its contents from others, whatever its name.

        The file's size and its own description of itself, which has the place, the size and mostly the least and the
        largest value of each column in each row group. The rows themselves are not looked at.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(-_TAIL, os.SEEK_END)
                length = int.from_bytes(file.read(4), "little")
                file.seek(-min(length + _TAIL, self.size), os.SEEK_END)
                return hashlib.sha256(self.size.to_bytes(8, "little") + file.read()).hexdigest()
        except OSError as error:
            raise changed_file(self.path) from error


class Source(ABC):
    """A table to read; in messages it goes by its name.

    Attributes
    ----------
    path : Path
        What it was read from; for a frame a name.
    files : tuple of File
    schema : pyarrow.Schema
    in_batches : bool
        Whether the rows come in several batches, and are never all in memory; otherwise all are one batch.
    """

    path: Path
    files: tuple[File, ...]
    schema: pa.Schema
    in_batches: bool

    def __str__(self) -> str:
        return str(self.path)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.files[-1].first + self.files[-1].rows

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None, files: Sequence[File] | None = None) -> Iterator[Batch]:
        """Give all rows in order, or those of some files, a batch at a time."""

    @abstractmethod
    def sample(self, rows: int, seed: int, columns: Sequence[str] | None = None) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return about so many rows from all over the source, and their numbers; all rows where they are in memory."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Say in words where a row is."""

    @abstractmethod
    def fingerprint(self) -> str | None:
        """Return a text that tells the files from others without reading their rows; None where there are none."""


class TableSource(Source):
    """A table in memory, as one batch.

    Parameters
    ----------
    table : pyarrow.Table
    path : path
        What it was read from.
    texts : pyarrow.Table, optional
        The cells as they are written in a CSV file.
    first_line : int, optional
        The line of the first row, counted from 1, where each row has one line of its own in that file.
    line_of : str, default="line {} of the file"
        What such a line is called.
    """

    in_batches = False

    def __init__(
        self,
        table: pa.Table,
        path: str | os.PathLike[str] = "The table",
        texts: pa.Table | None = None,
        first_line: int | None = None,
        line_of: str = "line {} of the file",
    ) -> None:
        table = _without_views(table)
        self.table, self.texts = table, texts
        self.path = Path(path)
        self.schema = table.schema
        self.files = (File(self.path, self.path.name, (table.num_rows,)),)
        self._first_line, self._line_of = first_line, line_of

    @classmethod
    def of_frame(cls, frame: Any) -> TableSource:
        """Take a frame of pandas or Polars, a table of Arrow's, a dictionary of columns, or what has Arrow's protocol.

        >>> TableSource.of_frame({"x": [1.0, 2.0], "y": [[3.0], [4.0, 5.0]]}).rows
        2
        """
        try:
            table = check_sound(_to_arrow(frame))
        except PlrError:
            raise
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise DataError(f"The frame cannot be read as a table: {first_line(error)}.") from error
        if table.num_rows == 0:
            raise DataError("The frame has no rows.")
        check_names(table.column_names, "The frame")
        return cls(table)

    def batches(self, columns: Sequence[str] | None = None, files: Sequence[File] | None = None) -> Iterator[Batch]:
        """Give all rows as one batch."""
        if files is None or len(files):
            yield Batch(0, self.table if columns is None else self.table.select(list(columns)))

    def sample(self, rows: int, seed: int, columns: Sequence[str] | None = None) -> tuple[pa.Table, NDArray[np.int64]]:  # noqa: ARG002
        """Return all rows."""
        return next(self.batches(columns)).table, np.arange(self.rows)

    def place(self, row: int) -> str:
        """Say in words where a row is; the line only where each row has one line of its own."""
        line = "" if self._first_line is None else f" ({self._line_of.format(row + self._first_line)})"
        return f"data row {row} counted from 0{line}"

    def fingerprint(self) -> None:
        """Return nothing: the rows themselves are compared."""


def changed_file(path: Path) -> DataError:
    """Make the error for a file that is not what it was when it was first looked at."""
    return DataError(f"{path} changed since it was first looked at; wait until it is complete, and try again.")


def check_sound(table: T) -> T:
    """Return a table, or a batch, if all that is in it can be looked at: Arrow follows offsets and indices blindly."""
    table.validate(full=True)
    check_names_are_texts(table.schema)
    return table


def check_names_are_texts(fields: Iterable[pa.Field]) -> None:
    """Raise a ValueError where the name of a column, or of one inside it, is no text: Arrow looks when it is asked."""
    for field in fields:
        _ = field.name
        check_names_are_texts(field.type.field(place) for place in range(field.type.num_fields))


def check_names(names: list[str], source: object) -> None:
    """Refuse too many columns, and columns without a name of their own."""
    if len(names) > MOST_COLUMNS:
        raise too_many_columns(source, len(names))
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1 and not name.strip():
        raise DataError(f"{source} has {times} columns without a name; name them in the first line.")
    if times > 1:
        raise DataError(f"{source} has {times} columns named {name!r}; give each a name of its own.")


def too_many_columns(source: object, columns: int) -> DataError:
    """Make the error for a table with more than `MOST_COLUMNS`."""
    return DataError(f"{source} has {columns:,} columns; at most {MOST_COLUMNS:,} can be read.")


def first_line(error: Exception) -> str:
    """Return the beginning of a message of another library's, to go on in a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].partition(". ")[0].rstrip(".")


def in_arrow(data: bytes) -> pa.BufferReader:
    """Return data for Arrow to read, in memory of its own.

    Arrow's threads may end after the read does. One that then has to give memory back to Python, while Python itself is
    ending, would abort the process.
    """
    copy = pa.allocate_buffer(len(data))
    with pa.FixedSizeBufferWriter(copy) as writer:
        writer.write(data)
    return pa.BufferReader(copy)


def _without_views(table: pa.Table) -> pa.Table:
    """Return a table whose texts are plain strings: Arrow cannot yet take, filter or write string views."""
    for place, field in enumerate(table.schema):
        column, kind = table.column(place), field.type
        if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.large_string()))
                for chunk in column.chunks
            ]
            column = pa.chunked_array(chunks, pa.dictionary(kind.index_type, pa.large_string()))
        elif pa.types.is_string_view(kind):
            column = column.cast(pa.large_string())
        elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_string_view(kind.value_type):
            column = column.cast(pa.large_list(pa.large_string()))
        else:
            continue
        table = table.set_column(place, field.name, column)
    return table


def _to_arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns"):
        # Names that are numbers, as those of a frame that was made of an array, are names as well.
        return pa.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
    if isinstance(frame, dict):
        # NaN is a missing cell, among texts too.
        arrow = (pa.Array, pa.ChunkedArray)
        return pa.table(
            {
                str(name): cells if isinstance(cells, arrow) else pa.array(cells, from_pandas=True)
                for name, cells in frame.items()
            }
        )
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise ParameterError(
        f"A table is a path, or a frame whose columns have names (pandas, Polars, Arrow), not {type(frame).__name__}; "
        + ("collect() it first." if hasattr(frame, "collect") else "for arrays there is PartialLabelRegressor.")
    )
