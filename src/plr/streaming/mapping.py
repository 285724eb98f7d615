"""Something computed for all rows of a source, some at a time, and written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from plr.sources.source import Batch, File, Source
from plr.streaming.ahead import ahead
from plr.streaming.writing import Counts, Output

__all__ = ["Made", "Piece", "Written", "made_of", "sum_counts", "write_pieces"]

Tell = Callable[[int, int, float], None]


class Made(NamedTuple):
    """What was made of a batch: its rows as they are to be written, and numbers that are to be added up."""

    table: pa.Table
    counts: Counts


class Piece(NamedTuple):
    """Some rows of one file as they are to be written, and how many rows come before them in all files."""

    first: int
    table: pa.Table
    counts: Counts


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes
    ----------
    rows : int
        Rows of all files, those among them that were there already.
    files, skipped : int
        Input files, and how many of them were there already.
    counts : dict
        What was counted on the way, added up over all files.
    """

    rows: int
    files: int
    skipped: int
    counts: dict[str, float]


def made_of(source: Source, make: Callable[[Batch], Made]) -> Callable[[Sequence[File]], Generator[Piece]]:
    """Return what gives, for `write_pieces`, what is made of each batch; other rows are read meanwhile."""

    def pieces(files: Sequence[File]) -> Generator[Piece]:
        for batch in ahead(source.batches(None, files)):
            yield Piece(batch.first, *make(batch))

    return pieces


def write_pieces(
    source: Source,
    pieces: Callable[[Sequence[File]], Generator[Piece]],
    schema: pa.Schema,
    output: Output,
    tell: Tell | None = None,
) -> Written:
    """Write the rows of all files that are not there already, file after file; all is well, or nothing half-written.

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
    try:
        output.open(schema)
        with closing(pieces(todo)) as stream:
            for file in todo:
                output.begin(file)
                counts: list[Counts] = []
                left = file.rows
                # The next file's rows are asked for when this one is in its place, not before: they may be damaged.
                while left > 0:
                    piece = next(stream)
                    output.write(_fitting(piece.table, schema))
                    counts.append(piece.counts)
                    left -= piece.table.num_rows
                    done += piece.table.num_rows
                    if tell is not None:
                        tell(done, source.rows, 0.0)
                written.append(sum_counts(counts))
                output.end(written[-1])
        output.close()
    except BaseException:
        output.abandon()
        raise
    return Written(source.rows, len(source.files), len(source.files) - len(todo), sum_counts(written))


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


def _fitting(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table if table.schema.equals(schema, check_metadata=True) else table.select(schema.names).cast(schema)
