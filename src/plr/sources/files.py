"""Read tables of the user's own: CSV, tab-separated text, Parquet, Feather, JSON Lines or Excel workbooks."""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet

from plr.errors import DataError, DataNotFoundError, ParameterError, PlrError
from plr.sources.csv_text import as_utf8, csv_names, parse_csv
from plr.sources.source import (
    DAMAGE,
    MOST_COLUMNS,
    TableSource,
    check_names,
    check_sound,
    first_line,
    in_arrow,
    too_many_columns,
)

__all__ = ["FORMATS", "STANDARD_INPUT", "check_beginning", "column_names", "format_of", "read_file"]

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""File endings that are written and read, and the format each stands for."""

STANDARD_INPUT = "-"
"""What stands for standard input in place of a file."""

_READ = {**FORMATS, ".xlsx": "xlsx"}

# The first line of a CSV file ends within so many bytes, or is read with the rest.
_LOOK = 1 << 16
# A file without a list of its columns is read for them where it is no larger.
_LOOKED_THROUGH = 1 << 18
# How files of other kinds begin, and what they are in words.
_BEGINNINGS = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "a Feather (Arrow) file",
    b"\x1f\x8b": "a gzip archive",
    b"PK\x03\x04": "an Excel workbook or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"%PDF": "a PDF document",
    b"SQLite format 3": "an SQLite database",
}
_OWN_BEGINNINGS = {
    "parquet": (b"PAR1",),
    "feather": (b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"),
    "xlsx": (b"PK\x03\x04",),
    "csv": (),
    "tsv": (),
    "jsonl": (),
}
_KINDS = {
    "parquet": "Parquet",
    "feather": "Feather",
    "xlsx": "Excel",
    "csv": "CSV",
    "tsv": "tab-separated",
    "jsonl": "JSON Lines",
}
_TEXTS = ("csv", "tsv", "jsonl")
_GZIP = b"\x1f\x8b"


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that the ending of a file to be written stands for.

    >>> format_of("meters.parquet")
    'parquet'
    """
    return _format_among(FORMATS, path)


def _format_among(known: dict[str, str], path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise ParameterError(f"Cannot tell the format of {path}; known endings: {', '.join(known)}.")
    return known[suffix]


def read_file(path: str | os.PathLike[str]) -> TableSource:
    """Read a table, its format given by the file's ending; CSV and JSON Lines may be compressed (``.csv.gz``).

    ``-`` is standard input, whose format is told by its beginning. Of an Excel workbook, the first sheet is read. CSV
    files may be separated by commas, or else by semicolons or tabs, and be in UTF-8 or, with its mark, in UTF-16.
    In a file separated by semicolons, decimal commas are understood. Nested columns are left as they are.

    Raises
    ------
    DataNotFoundError
        If there is no such file.
    DataError
        If the file is not what its ending says, is empty, changes while it is read, or names a column twice.
    """
    if str(path) == STANDARD_INPUT:
        data, path = sys.stdin.buffer.read(), Path("standard input")
        if not data:
            raise DataError("Standard input is empty.")
        data = _unpacked(data, path) if data.startswith(_GZIP) else data
        kind = _kind_of(data)
    else:
        path = Path(path).expanduser()
        if path.is_dir():
            raise DataNotFoundError(f"{path} is a folder; name a file.")
        packed = path.suffix.lower() == ".gz"
        kind = _format_among(_READ, path.with_suffix("") if packed else path)
        if packed and kind not in _TEXTS:
            raise ParameterError(f"{path} is compressed, which only CSV and JSON Lines files may be; unpack it first.")
        data = _unpacked(_contents(path), path) if packed else _contents(path)
        check_beginning(data, kind, path)
    try:
        found = _READERS[kind](data, path)
    except pa.ArrowException as error:
        raise DataError(f"{path} cannot be read: {str(error).splitlines()[0].rstrip('.')}.") from error
    check_names(found.schema.names, path)
    if not found.schema.names:
        raise DataError(f"{path} has no columns.")
    if found.rows == 0:
        raise DataError(f"{path} has no rows, only the names of its columns.")
    return found


def _unpacked(data: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is no gzip archive, or is cut short or damaged.") from error


def _kind_of(data: bytes) -> str:
    """Return the format of a table by its beginning."""
    for kind, beginnings in _OWN_BEGINNINGS.items():
        if beginnings and data.startswith(beginnings):
            return kind
    return "jsonl" if data.lstrip().startswith(b"{") else "csv"


def column_names(path: str | os.PathLike[str]) -> list[str] | None:
    """Return the names of a file's columns without reading many rows; None where that takes more than a look.

    Nothing is said about what is wrong with the file: whoever reads it will.
    """
    path = Path(path).expanduser()
    # Of a pipe, what was looked at would be gone, and a look might wait for ever.
    kind = _READ.get(path.suffix.lower()) if path.is_file() else None
    try:
        if kind in ("csv", "tsv"):
            with path.open("rb") as file:
                whole, end, _ = file.read(_LOOK).rpartition(b"\n")
            # A quoted cell that goes on may be one of the first line.
            whole_cells = end and whole.count(b'"') % 2 == 0
            return csv_names(whole, path, "\t" if kind == "tsv" else None) if whole_cells else None
        if kind == "parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        if kind == "feather":
            with pa.ipc.open_file(path) as reader:
                return list(reader.schema.names)
        if kind in ("jsonl", "xlsx") and path.stat().st_size <= _LOOKED_THROUGH:
            return list(read_file(path).schema.names)
    except (*DAMAGE, PlrError, UnicodeError):
        pass
    return None


def _contents(path: Path) -> bytes:
    """Return all of a file as it was at one moment, or complain."""
    if path.is_symlink() and not path.exists():
        raise DataNotFoundError(f"{path} is a link to {os.readlink(path)}, which does not exist.")
    if not path.exists():
        raise DataNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise DataNotFoundError(f"{path} is not a regular file; save the table to a file first.")
    try:
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            data = file.read()
            after = os.fstat(file.fileno())
    except PermissionError as error:
        raise DataError(f"{path} may not be read: permission denied.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(data) != before.st_size:
        raise DataError(f"{path} changed while it was read; wait until it is complete, and try again.")
    if not data:
        raise DataError(f"{path} is empty.")
    return data


def _named(kind: str) -> str:
    return f"{'an' if kind == 'xlsx' else 'a'} {_KINDS[kind]}"


def check_beginning(data: bytes, kind: str, path: Path) -> None:
    """Refuse a file that begins as one of its kind does not, and say what it seems to be."""
    own = _OWN_BEGINNINGS[kind]
    if data.startswith(own or ()):
        return
    for beginning, words in _BEGINNINGS.items():
        if data.startswith(beginning):
            raise DataError(f"{path} is named as {_named(kind)} file but is {words}; give it its right ending.")
    if own:
        text = b"\0" not in data[:1000]
        raise DataError(
            f"{path} is named as {_named(kind)} file but is none"
            + ("; it looks like text, so if it is a table, name it .csv." if text else ".")
        )


def _read_csv(data: bytes, path: Path, separator: str | None = None) -> TableSource:
    data = as_utf8(data, path)
    table, texts = parse_csv(data, path, separator)
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return TableSource(table, path, texts, 2 if lines == table.num_rows + 1 else None)


def _read_parquet(data: bytes, path: Path) -> TableSource:
    if len(data) < 12 or not data.endswith(b"PAR1"):
        raise DataError(f"{path} is cut short or damaged: the end of the Parquet file is missing.")
    source = in_arrow(data)
    try:
        columns = pyarrow.parquet.read_metadata(source).num_columns
        if columns <= MOST_COLUMNS:
            return TableSource(check_sound(pyarrow.parquet.read_table(source)), path)
    except DAMAGE as error:
        raise DataError(f"{path} is damaged: {first_line(error)}.") from error
    raise too_many_columns(path, columns)


def _read_feather(data: bytes, path: Path) -> TableSource:
    try:
        return TableSource(check_sound(pyarrow.feather.read_table(in_arrow(data))), path)
    except DAMAGE as error:
        raise DataError(f"{path} is cut short or damaged: {first_line(error)}.") from error


def _read_json_lines(data: bytes, path: Path) -> TableSource:
    data = as_utf8(data, path)
    if data.lstrip().startswith(b"["):
        raise DataError(f"{path} holds one JSON list; write one object per line, without brackets and commas around.")
    # In one block, rows are counted from the start of the file.
    options = pyarrow.json.ReadOptions(block_size=min(len(data) + 1, 2**30))
    try:
        table = pyarrow.json.read_json(in_arrow(data), read_options=options)
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        return TableSource(table, path, first_line=1 if lines == table.num_rows else None)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} cannot be read: {_json_problem(str(error), data)}.") from error


def _json_problem(message: str, data: bytes) -> str:
    where = "somewhere"
    if found := re.search(r"in row (\d+)", message):
        filled = [number for number, line in enumerate(data.splitlines(), start=1) if line.strip()]
        row = int(found.group(1))
        where = f"line {filled[row] if row < len(filled) else row + 1}"
    if changed := re.search(r"Column\(/?([^/)].*?)\) changed from (\w+) to (\w+)", message):
        kinds = [f"an {kind}" if kind[0] in "aeiou" else f"a {kind}" for kind in changed.groups()[1:]]
        return f"{changed.group(1)!r} was {kinds[0]} before and is {kinds[1]} in {where}"
    if twice := re.search(r"Column\(/?(.*?)\) was specified twice", message):
        return f"{where} names {twice.group(1)!r} twice"
    return f"{where} is no JSON object"


def _read_workbook(data: bytes, path: Path) -> TableSource:
    # Needs a package of its own.
    from plr.sources.workbook import read_workbook

    return read_workbook(data, path)


_READERS: dict[str, Callable[[bytes, Path], TableSource]] = {
    "csv": _read_csv,
    "tsv": partial(_read_csv, separator="\t"),
    "xlsx": _read_workbook,
    "parquet": _read_parquet,
    "feather": _read_feather,
    "jsonl": _read_json_lines,
}
