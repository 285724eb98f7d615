"""Tables in and out of files, for every verb: CSV, Parquet, Feather and JSON Lines, told by the file's ending.

A column of candidates is a list column where the format has one; in CSV a cell reads ``12.5|13.1`` or ``[12.5, 13.1]``.
A file is written under another name first and then renamed, so that nobody ever finds half of one.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from plr.atomic_file import atomic_file
from plr.columns.candidates import read_candidates
from plr.errors import DataError, DataNotFoundError, ParameterError, unknown_name
from plr.sources.files import format_of, read_table, read_table_and_texts
from plr.sources.json_lines import json_lines
from plr.streaming.formats import lists_as_cells

__all__ = [
    "carries_recipe",
    "check_columns",
    "check_output",
    "keep_texts",
    "read_candidates",
    "read_recipe",
    "read_table",
    "read_table_and_texts",
    "split_columns",
    "with_recipe",
    "write_csv",
    "write_table",
]

_RECIPE = b"plr"
_CARRIERS = ("parquet", "feather")
_NAMED = 30
_AS_WRITTEN = b"plr as written"
_BATCH = 10_000


def check_columns(table: pa.Table, columns: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Refuse columns the table does not have, naming the nearest spelling."""
    for column in columns:
        if column in table.column_names:
            continue
        names = table.column_names
        error = unknown_name(f"column of {path}", column, names)
        if len(names) > _NAMED:
            short = f"It has {len(names):,} columns: {', '.join(names[:_NAMED])}, ..."
            error = ParameterError(f"{str(error).partition(' Known: ')[0]} {short}")
        raise error


def split_columns(text: str | None, table: pa.Table, path: str | os.PathLike[str]) -> list[str]:
    """Return the columns that an option names, separated by commas; a column whose name has a comma is itself.

    >>> split_columns("a, b", pa.table({"a": [1], "b": [2]}), "t.csv")
    ['a', 'b']
    """
    if text is None:
        return []
    if text in table.column_names:
        return [text]
    columns = [name.strip() for name in text.split(",") if name.strip()]
    if not columns:
        raise ParameterError("A column name is needed where an empty one was given.")
    check_columns(table, columns, path)
    return columns


def read_recipe(table: pa.Table, source: str | os.PathLike[str] = "The table") -> dict[str, Any] | None:
    """Return what ``plr generate`` wrote down about how a table was made, or None; ``source`` is for messages.

    >>> read_recipe(pa.table({"y": [1.0]})) is None
    True
    """
    written = (table.schema.metadata or {}).get(_RECIPE)
    try:
        recipe = None if written is None else json.loads(written)
    except ValueError:
        recipe = ""
    if recipe is not None and not isinstance(recipe, dict):
        # Without it, a column of true labels would be taken for a feature.
        raise DataError(f"{source} is damaged: what it says about how its table was made cannot be read.")
    return recipe


def with_recipe(schema: pa.Schema, recipe: Mapping[str, Any]) -> pa.Schema:
    """Return a schema that says how its table was made, for `read_recipe`."""
    return schema.with_metadata({**(schema.metadata or {}), _RECIPE: json.dumps(recipe).encode()})


def carries_recipe(path: str | os.PathLike[str]) -> bool:
    """Whether the file's format has a place for the recipe.

    >>> carries_recipe("a.parquet"), carries_recipe("a.csv")
    (True, False)
    """
    return format_of(path) in _CARRIERS


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
        Replaced if it exists.
    recipe : mapping, optional
        What made the table; kept in the metadata of Parquet and Feather files.
    """
    check_output(path)
    path = Path(path)
    if recipe is not None:
        table = table.replace_schema_metadata(with_recipe(table.schema, recipe).metadata)
    writer = _WRITERS[format_of(path)]
    with atomic_file(path, also=(pa.ArrowException,)) as file:
        writer(table, file)


def write_csv(table: pa.Table, file: BinaryIO) -> None:
    """Write a table as CSV, lists as ``12.5|13.1``."""
    if _AS_WRITTEN in (table.schema.metadata or {}):
        _write_texts(table, file)
        return
    pyarrow.csv.write_csv(lists_as_cells(table), file)


def keep_texts(table: pa.Table) -> pa.Table:
    """Return a table whose texts `write_csv` puts into quotation marks only where they would be misread without."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _AS_WRITTEN: b""})


def _write_texts(table: pa.Table, file: BinaryIO) -> None:
    header = io.StringIO(newline="")
    csv.writer(header, lineterminator="\n").writerow(table.column_names)
    file.write(header.getvalue().encode())
    for batch in table.to_batches(max_chunksize=_BATCH):
        lines = io.StringIO(newline="")
        columns = [column.cast(pa.string()).to_pylist() for column in batch.columns]
        csv.writer(lines, lineterminator="\n").writerows(zip(*columns, strict=True))
        file.write(lines.getvalue().encode())


def _write_parquet(table: pa.Table, file: BinaryIO) -> None:
    pyarrow.parquet.write_table(table, file)


def _write_feather(table: pa.Table, file: BinaryIO) -> None:
    pyarrow.feather.write_feather(table, file)


def _write_json_lines(table: pa.Table, file: BinaryIO) -> None:
    file.writelines(json_lines(table))


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    "csv": write_csv,
    "parquet": _write_parquet,
    "feather": _write_feather,
    "jsonl": _write_json_lines,
}
