"""Something computed for all rows of a source, some at a time, and written to a file, a folder like it, or stdout."""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet

import plr
from plr.atomic_file import is_unfinished, remove_unfinished
from plr.errors import DataError, DataNotFoundError, ParameterError
from plr.sources.files import FORMATS, format_of
from plr.sources.source import Batch, File, Source
from plr.streaming.ahead import ahead
from plr.streaming.formats import WRITERS, TableFile, TableWriter

__all__ = [
    "Counts",
    "Mirror",
    "Output",
    "Piece",
    "is_folder_output",
    "made_of",
    "open_output",
    "sum_counts",
    "write_pieces",
]

Counts = Mapping[str, float]

_MADE, _COUNTS = "plr made", "plr counts"
# Endings of files that are no tables we write; whoever names one means no folder.
_NO_FOLDERS = (".avro", ".gz", ".htm", ".html", ".json", ".orc", ".plr", ".txt", ".xls", ".xlsx", ".zip")
_WHAT = {
    "verb": "by another command",
    "model": "by another model",
    "input": "from other rows",
    "options": "with other options",
    "plr": "by another version of plr",
}


class Piece(NamedTuple):
    """Some rows of one file as they are to be written, and numbers that are to be added up."""

    table: pa.Table
    counts: Counts


class Output:
    """Where all rows go; write file after file, and `close` it, or `abandon` it where something went wrong.

    Parameters
    ----------
    make : callable
        Given the schema, makes what writes the rows. Until the first ones come nothing is written, not even the names
        of the columns.
    stream : binary stream, optional
        What is to be flushed in the end.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of all tables that will be written.
    finished : dict
        Names of input files whose rows are there already, and what was counted for them.
    """

    schema: pa.Schema

    def __init__(self, make: Callable[[pa.Schema], TableFile | TableWriter], stream: BinaryIO | None = None) -> None:
        self.finished: dict[str, Counts] = {}
        self._make, self._stream = make, stream
        self._writer: TableFile | TableWriter | None = None

    def begin(self, file: File) -> None:
        """Begin with the rows of an input file."""

    def write(self, table: pa.Table) -> None:
        """Write some rows of the input file that was begun last."""
        self._writer = self._writer or self._make(self.schema)
        self._writer.write(table)

    def end(self, counts: Counts) -> None:
        """Be done with it."""

    def close(self) -> None:
        """Put everything in its place."""
        if self._writer is not None:
            self._writer.finish()
        if self._stream is not None:
            self._stream.flush()

    def abandon(self) -> None:
        """Leave nothing half-written behind."""
        if self._writer is not None:
            self._writer.abandon()


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
        super().__init__(self._file_of)
        self.path = path
        self._files = folder.files
        self._made = {"plr": plr.__version__, **made}
        self._folders: list[Path] = []
        if path.is_dir():
            self._look()
            if remove_unfinished(path.rglob(".*.part")) is not None:
                raise ParameterError(f"Another process is writing into {path} at this moment; wait for it.")
        elif path.exists() or path.is_symlink():
            raise ParameterError(f"{path} is a file; name a folder, or a file that ends in {', '.join(FORMATS)}.")
        elif not path.parent.is_dir():
            raise DataNotFoundError(f"There is no folder {path.parent} to make {path.name} in.")

    def begin(self, file: File) -> None:
        """Begin the file of the same name; columns that folders' names give are not repeated in it."""
        self._file, self._keys = file, [name for name, _ in file.keys]
        self._writer = self._file_of(self.schema)

    def write(self, table: pa.Table) -> None:
        """Write some of its rows."""
        super().write(table.drop_columns(self._keys))

    def end(self, counts: Counts) -> None:
        """Put the file in its place."""
        assert self._writer is not None
        self._writer.finish({_MADE: json.dumps(self._stamp(self._file)), _COUNTS: json.dumps(dict(counts))})
        self._writer = None

    def abandon(self) -> None:
        """Remove what is not finished; finished files stay, and the next run goes on after them."""
        super().abandon()
        for folder in reversed(self._folders):
            # One that holds a finished file stays.
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _file_of(self, schema: pa.Schema) -> TableFile:
        """Begin the output file of the input file, in folders that are made if needed."""
        path = self.path / self._file.name
        for folder in reversed([above for above in path.parents if not above.exists()]):
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise DataError(f"The folder {folder} cannot be made: {error.strerror}.") from error
            self._folders.append(folder)
        kept = pa.schema([field for field in schema if field.name not in self._keys], schema.metadata)
        return TableFile(path, "parquet", kept)

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
        return Output(partial(WRITERS["csv"], stdout), stdout)
    out, given = out.expanduser(), source.path.resolve()
    if given.is_dir() and given in (out.resolve(), *out.resolve().parents):
        # It would be read as well the next time.
        raise ParameterError(f"{out} is in the folder that is read, {source}; write somewhere else.")
    if is_folder_output(out):
        return Mirror(out, source, made)
    remove_unfinished(out.parent.glob(f".{glob.escape(out.name)}.*.part"))
    return Output(partial(TableFile, out, format_of(out)))


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


def made_of(source: Source, make: Callable[[Batch], Piece]) -> Callable[[Sequence[File]], Generator[Piece]]:
    """Return what gives, for `write_pieces`, what is made of each batch; other rows are read meanwhile."""
    return lambda files: (make(batch) for batch in ahead(source.batches(None, files)))


def write_pieces(
    source: Source,
    pieces: Callable[[Sequence[File]], Generator[Piece]],
    schema: pa.Schema,
    output: Output,
    tell: Callable[[int, int, float], object] | None = None,
) -> tuple[int, dict[str, float]]:
    """Write the rows of all files that are not there already, file after file; all is well, or nothing half-written.

    Return how many files were there already, and what was counted on the way, added up over all files.

    Parameters
    ----------
    source : Source
    pieces : callable
        Given the files whose rows are to be made, gives them in order; a piece is of one file.
    schema : pyarrow.Schema
        Of what is written.
    output : Output
        Files that are there already are not made again.
    tell : callable, optional
        Called with the rows done, all rows and 0.
    """
    todo = [file for file in source.files if file.name not in output.finished]
    written: list[Counts] = list(output.finished.values())
    done = source.rows - sum(file.rows for file in todo)
    output.schema = schema
    try:
        with contextlib.closing(pieces(todo)) as stream:
            for file in todo:
                output.begin(file)
                counts: list[Counts] = []
                left = file.rows
                # The next file's rows are asked for when this one is in its place, not before: they may be damaged.
                while left > 0:
                    table, counted = next(stream)
                    if not table.schema.equals(schema, check_metadata=True):
                        table = table.select(schema.names).cast(schema)
                    output.write(table)
                    counts.append(counted)
                    left -= table.num_rows
                    done += table.num_rows
                    if tell is not None:
                        tell(done, source.rows, 0.0)
                written.append(sum_counts(counts))
                output.end(written[-1])
        output.close()
    except BaseException:
        output.abandon()
        raise
    return len(source.files) - len(todo), sum_counts(written)


def sum_counts(parts: Iterable[Counts]) -> dict[str, float]:
    """Add up what was counted.

    >>> sum_counts([{"rows": 2}, {"rows": 3, "doubtful": 1}])
    {'rows': 5, 'doubtful': 1}
    """
    total: dict[str, float] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total
