"""Where the rows of a folder go when something was computed for them: a file, a folder like it, or stdout."""

from __future__ import annotations

import contextlib
import glob
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

import plr
from plr.atomic_file import is_unfinished, remove_unfinished
from plr.errors import DataError, DataNotFoundError, ParameterError
from plr.sources.files import FORMATS, format_of
from plr.sources.source import File, Source
from plr.streaming.formats import WRITERS, TableFile, TableWriter

__all__ = ["Counts", "Mirror", "OneFile", "Output", "Stdout", "check_apart", "is_folder_output", "open_output"]

Counts = Mapping[str, float]

_MADE, _COUNTS = "plr made", "plr counts"
# Endings of files that are no tables we write; whoever names one means no folder.
_NO_FOLDERS = (".avro", ".gz", ".htm", ".html", ".json", ".orc", ".plr", ".tsv", ".txt", ".xls", ".xlsx", ".zip")
_WHAT = {
    "verb": "by another command",
    "model": "by another model",
    "input": "from other rows",
    "options": "with other options",
    "plr": "by another version of plr",
}


class Output(ABC):
    """Where rows go; `open` it, write file after file, and `close` it, or `abandon` it where something went wrong.

    Attributes
    ----------
    finished : dict
        Names of input files whose rows are there already, and what was counted for them.
    """

    def __init__(self) -> None:
        self.finished: dict[str, Counts] = {}

    @abstractmethod
    def open(self, schema: pa.Schema) -> None:
        """Begin; all tables will have this schema."""

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Write some rows of the input file that was begun last."""

    def begin(self, file: File) -> None:  # noqa: B027
        """Begin with the rows of an input file."""

    def end(self, counts: Counts) -> None:  # noqa: B027
        """Be done with it."""

    def close(self) -> None:  # noqa: B027
        """Put everything in its place."""

    def abandon(self) -> None:  # noqa: B027
        """Leave nothing half-written behind."""


class OneFile(Output):
    """All rows in one file; its ending says the format."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self._kind = path, format_of(path)
        self._open_file: TableFile | None = None

    def open(self, schema: pa.Schema) -> None:
        """Begin the file."""
        remove_unfinished(self.path.parent.glob(f".{glob.escape(self.path.name)}.*.part"))
        self._open_file = TableFile(self.path, self._kind, schema)

    def write(self, table: pa.Table) -> None:
        """Write some rows."""
        assert self._open_file is not None
        self._open_file.write(table)

    def close(self) -> None:
        """Put the file in its place."""
        assert self._open_file is not None
        self._open_file.finish()

    def abandon(self) -> None:
        """Remove it."""
        if self._open_file is not None:
            self._open_file.abandon()


class Stdout(Output):
    """All rows as CSV, to a stream that is open."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self._writer: TableWriter | None = None

    def open(self, schema: pa.Schema) -> None:
        """Wait for the first rows: until then nothing is written, not even the names of the columns."""
        self._schema = schema

    def write(self, table: pa.Table) -> None:
        """Write some rows."""
        self._writer = self._writer or WRITERS["csv"](self._stream, self._schema)
        self._writer.write(table)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.finish({})
        self._stream.flush()


class Mirror(Output):
    """A folder with one Parquet file for each file of the input, of the same name.

    Each file says in its metadata what made it, so that the same command, run again, goes on where it was stopped, and
    another one is refused.

    Parameters
    ----------
    path : Path
        Made if it is not there; else it must be empty, or hold nothing but files that the same command made.
    folder : Source
        The input.
    made : mapping
        What makes the files: ``verb``, ``model``, ``options``, as plain values.
    """

    def __init__(self, path: Path, folder: Source, made: Mapping[str, Any]) -> None:
        super().__init__()
        self.path = path
        self._files = folder.files
        self._made = {"plr": plr.__version__, **made}
        self._open_file: TableFile | None = None
        self._folders: list[Path] = []
        if path.is_dir():
            self._look()
        elif path.exists() or path.is_symlink():
            raise ParameterError(f"{path} is a file; name a folder, or a file that ends in {', '.join(FORMATS)}.")
        elif not path.parent.is_dir():
            raise DataNotFoundError(f"There is no folder {path.parent} to make {path.name} in.")

    def open(self, schema: pa.Schema) -> None:
        """Remove what a run that was killed left behind."""
        self._schema = schema
        if self.path.is_dir() and remove_unfinished(self.path.rglob(".*.part")) is not None:
            raise ParameterError(f"Another process is writing into {self.path} at this moment; wait for it.")

    def begin(self, file: File) -> None:
        """Begin the file of the same name; columns that folders' names give are not repeated in it."""
        path = self.path / file.name
        self._make(path.parent)
        self._file, self._keys = file, {name for name, _ in file.keys}
        kept = pa.schema([field for field in self._schema if field.name not in self._keys], self._schema.metadata)
        self._open_file = TableFile(path, "parquet", kept)

    def write(self, table: pa.Table) -> None:
        """Write some of its rows."""
        assert self._open_file is not None
        self._open_file.write(table.drop_columns(sorted(self._keys)) if self._keys else table)

    def end(self, counts: Counts) -> None:
        """Put the file in its place."""
        assert self._open_file is not None
        self._open_file.finish({_MADE: json.dumps(self._stamp(self._file)), _COUNTS: json.dumps(dict(counts))})
        self._open_file = None

    def abandon(self) -> None:
        """Remove what is not finished; finished files stay, and the next run goes on after them."""
        if self._open_file is not None:
            self._open_file.abandon()
        for folder in reversed(self._folders):
            # One that holds a finished file stays.
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _stamp(self, file: File) -> dict[str, Any]:
        return {**self._made, "input": file.identity()}

    def _look(self) -> None:
        """Find out which files are finished, and refuse a folder that holds others."""
        expected = {file.name: file for file in self._files}
        if not os.access(self.path, os.W_OK):
            raise DataError(f"Nothing may be written into the folder {self.path}: permission denied.")
        for found in sorted(path for path in self.path.rglob("*") if not path.is_dir() and not is_unfinished(path)):
            name = found.relative_to(self.path).as_posix()
            stamp, counts = _read_stamp(found)
            if name not in expected or stamp is None:
                what = "which this command did not make" if stamp is None else "for which the input has no file now"
                raise ParameterError(f"{self.path} is not empty: it holds {name}, {what}; name another folder.")
            own = json.loads(json.dumps(self._stamp(expected[name])))
            differs = [words for key, words in _WHAT.items() if stamp.get(key) != own.get(key)]
            if differs or stamp != own:
                how = differs[0] if differs else "otherwise"
                raise ParameterError(f"{found} was made {how}; name another folder, or remove this one.")
            self.finished[name] = counts

    def _make(self, folder: Path) -> None:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            try:
                path.mkdir()
            except FileExistsError:
                continue
            except OSError as error:
                raise DataError(f"The folder {path} cannot be made: {error.strerror}.") from error
            self._folders.append(path)


def open_output(out: Path | None, source: Source, made: Mapping[str, Any], stdout: BinaryIO) -> Output:
    """Return where the rows of a source go, or refuse.

    Parameters
    ----------
    out : Path or None
        A file with an ending that says its format, else a folder; None for stdout.
    source : Source
        The input; nothing may be written into a folder that is read.
    made : mapping
        What makes the rows; see `Mirror`.
    stdout : binary stream
    """
    if out is None:
        return Stdout(stdout)
    out = out.expanduser()
    check_apart(out, source.path)
    return Mirror(out, source, made) if is_folder_output(out) else OneFile(out)


def is_folder_output(out: Path) -> bool:
    """Return whether an output is to be a folder: one that is there, or a name without an ending that is known.

    >>> is_folder_output(Path("answers")), is_folder_output(Path("answers.parquet"))
    (True, False)
    """
    suffix = out.suffix.lower()
    if out.is_dir():
        return True
    if suffix in _NO_FOLDERS:
        raise ParameterError(
            f"Cannot write {suffix} files; name one that ends in {', '.join(FORMATS)}, or a folder, without an ending."
        )
    return suffix not in FORMATS


def check_apart(out: Path, source: Path) -> None:
    """Refuse an output in the folder that the rows are read from: it would be read as well the next time."""
    resolved, given = out.resolve(), source.resolve()
    if given.is_dir() and (resolved == given or given in resolved.parents):
        raise ParameterError(f"{out} is in the folder that is read, {source}; write somewhere else.")


def _read_stamp(path: Path) -> tuple[dict[str, Any] | None, Counts]:
    try:
        metadata = pyarrow.parquet.read_metadata(path).metadata or {}
        made = json.loads(metadata[_MADE.encode()])
        counts = json.loads(metadata[_COUNTS.encode()])
    except (KeyError, ValueError, OSError, pa.ArrowException):
        return None, {}
    if not isinstance(made, dict) or not isinstance(counts, dict):
        return None, {}
    return made, counts
