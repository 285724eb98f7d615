"""What the verbs share that work on folders of Parquet files, some rows at a time."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.streaming.folder import Batch, File, Folder
    from plr.streaming.mapping import Made, Piece, Written
    from plr.streaming.writing import Output

__all__ = ["Stream", "refuse_folder", "tell_written"]


@dataclass(frozen=True)
class Stream:
    """A folder that is read, and where what is made of it goes.

    Attributes
    ----------
    folder : Folder
    output : Output
    schema : pyarrow.Schema
        Of what is written.
    out : Path or None
        None for stdout.
    """

    folder: Folder
    output: Output
    schema: pa.Schema
    out: Path | None

    @classmethod
    def open(
        cls,
        data: Path,
        out: Path | None,
        verb: str,
        fields: Sequence[pa.Field],
        options: Mapping[str, Any],
        *,
        folder: Folder | None = None,
        model: Path | None = None,
        one_table: bool = False,
        whole: bool = False,
    ) -> Stream:
        """Look at the input and the output, and refuse what will not do before any work is done.

        Parameters
        ----------
        data : Path
        out : Path or None
        verb : str
        fields : sequence of pyarrow.Field
            Columns that are added.
        options : mapping
            What else the result depends on, as plain values.
        folder : Folder, optional
            The input, where it has been opened already.
        model : Path, optional
        one_table : bool, default=False
            Whether what is written is one table, and not as many files as were read.
        whole : bool, default=False
            Whether each row of the result depends on all files.
        """
        from plr.cli.answers import check_fits_format
        from plr.cli.common import check_new_names
        from plr.cli.tables import check_output
        from plr.errors import ParameterError
        from plr.streaming.folder import Folder
        from plr.streaming.writing import is_folder_output, open_output

        folder = folder or Folder.open(data)
        empty = folder.schema.empty_table()
        check_new_names(empty, [field.name for field in fields], data)
        if out is None or not is_folder_output(out.expanduser()):
            check_fits_format(empty, out)
            if out is not None:
                check_output(out)
        elif one_table:
            raise ParameterError(f"--doubtful writes one table; let -o name a file, such as {out}.parquet.")
        depends = [str(folder.schema.remove_metadata()), *((file.identity() for file in folder.files) if whole else ())]
        read = hashlib.sha256(repr(depends).encode()).hexdigest()
        made = {
            "verb": verb,
            "model": None if model is None else _digest(model),
            "options": {**options, "read": read},
        }
        output = open_output(out, folder, made, sys.stdout.buffer)
        return cls(folder, output, added(folder.schema, fields), out)

    def refuse_rows(self, rows: bool) -> None:
        """Refuse to print all rows as JSON."""
        from plr.errors import ParameterError

        if rows and self.out is None:
            raise ParameterError(
                f"{self.folder.path} has {self.folder.rows:,} rows, too many for one JSON object; name an output with "
                "-o, and --json tells what was done."
            )

    def place(self, batch: Batch) -> Callable[[int], str]:
        """Return what says where a row of a batch is."""
        return lambda row: self.folder.place(batch.first + row)

    def run(self, what: str, make: Callable[[Batch], Made]) -> dict[str, Any]:
        """Make something of all batches, write it, and return what was done."""
        from plr.streaming.mapping import made_of

        return self.write(what, made_of(self.folder, make))

    def write(self, what: str, pieces: Callable[[Sequence[File]], Generator[Piece]]) -> dict[str, Any]:
        """Write what is made of the files' rows, and return what was done."""
        from plr.cli.common import working
        from plr.streaming.mapping import write_pieces

        sys.stdout.flush()
        with working(what) as tell:
            try:
                written = write_pieces(self.folder, pieces, self.schema, self.output, tell)
            except BrokenPipeError:
                if self.out is not None:
                    raise
                # Whoever reads has seen enough, as head has; Python must not try to flush the rest at its end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(0) from None
        return self.done(written)

    def scan(self, what: str, make: Callable[[Batch], Made], keep: Callable[[pa.Table], None]) -> dict[str, Any]:
        """Make something of all batches and hand it to ``keep``; return what was done."""
        from plr.cli.common import working
        from plr.streaming.ahead import ahead
        from plr.streaming.mapping import Written, sum_counts

        counts: dict[str, float] = {}
        with working(what) as tell:
            for batch in ahead(self.folder.batches(rows=self.folder.batch_rows)):
                made = make(batch)
                keep(made.table)
                counts = sum_counts([counts, made.counts])
                tell(batch.first + batch.table.num_rows, self.folder.rows, 0.0)
        return self.done(Written(self.folder.rows, len(self.folder.files), 0, counts))

    def done(self, written: Written) -> dict[str, Any]:
        """Return what was done, as plain values."""
        from plr.streaming.memory import peak_memory

        return {
            "out": None if self.out is None else str(self.out),
            "rows": written.rows,
            "files": written.files,
            "files_there_already": written.skipped,
            "counts": written.counts,
            "peak_memory": peak_memory(),
        }

    def tell(self, notes: Sequence[str]) -> None:
        """Say what was ignored or mended, unless nothing was read."""
        from plr.cli.common import note

        if len(self.output.finished) < len(self.folder.files):
            for text in notes:
                note(text)


def added(schema: pa.Schema, fields: Sequence[pa.Field]) -> pa.Schema:
    """Return the schema of a table with more columns; what pandas wrote down about its frame would not fit them."""
    for field in fields:
        schema = schema.append(field)
    return schema.with_metadata({key: value for key, value in (schema.metadata or {}).items() if key != b"pandas"})


def tell_written(done: Mapping[str, Any], what: str, more: str = "") -> None:
    """Say what was written, unless it went to stdout, and how much memory that took."""
    from plr.streaming.memory import readable

    if done["out"] is None:
        return
    files, there = done["files"], done["files_there_already"]
    read = f" of {files:,} files" if files > 1 else ""
    kept = f", {there:,} of which were there already" if there else ""
    typer.echo(f"Wrote {done['out']}: {what}{read}{kept}{more}.")
    if done["peak_memory"] is not None:
        typer.echo(f"Peak memory: {readable(done['peak_memory'])}.", err=True)


def refuse_folder(path: Path | None, verb: str, instead: str) -> None:
    """Refuse a folder where only one table will do."""
    from plr.errors import ParameterError

    if path is not None and path.expanduser().is_dir():
        raise ParameterError(f"{path} is a folder, and {verb} is about one table; {instead}.")


def _digest(path: Path) -> str:
    with path.expanduser().open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
