"""Read tables of the user's own: CSV, Parquet, Feather or JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet

from plr.errors import DataError, DataNotFoundError, ParameterError

__all__ = ["FORMATS", "format_of", "read_table"]

FORMATS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""File endings that are understood, and the format each stands for."""


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format a file's ending stands for.

    >>> format_of("meters.parquet")
    'parquet'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ParameterError(f"Cannot tell the format of {path}; known endings: {', '.join(FORMATS)}.")
    return FORMATS[suffix]


def _read_csv(path: Path) -> pa.Table:
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True))


_READERS: dict[str, Callable[[Path], pa.Table]] = {
    "csv": _read_csv,
    "parquet": pyarrow.parquet.read_table,
    "feather": pyarrow.feather.read_table,
    "jsonl": pyarrow.json.read_json,
}


def read_table(path: str | os.PathLike[str]) -> pa.Table:
    """Read a table, its format told by the file's ending.

    Raises
    ------
    DataNotFoundError
        If there is no such file.
    DataError
        If the file is not what its ending says, is empty, or names a column twice.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise DataNotFoundError(f"{path} is a folder; name a file.")
    reader = _READERS[format_of(path)]
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    try:
        table = reader(path)
    except PermissionError as error:
        raise DataError(f"{path} may not be read: permission denied.") from error
    except (pa.ArrowException, OSError) as error:
        reason = _separator(path) or str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read: {reason}") from error
    if table.num_columns == 1 and (reason := _separator(path)):
        raise DataError(f"{path} cannot be read: {reason}")
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise DataError(f"{path} has more than one column named {twice[0]!r}.")
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows.")
    return table


def _separator(path: Path) -> str:
    """Return what to do about a CSV file whose header is separated by something else than commas; else nothing."""
    if format_of(path) != "csv" or not os.access(path, os.R_OK):
        return ""
    with path.open("rb") as file:
        header = file.readline()
    for sign, name in ((b";", "semicolons"), (b"\t", "tabs")):
        if header.count(sign) > header.count(b","):
            return f"its columns seem to be separated by {name}; save it with commas, and points in decimal numbers."
    return ""
