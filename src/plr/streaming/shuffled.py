"""A copy of all rows on the disk, encoded and shuffled, that training reads again and again.

Rows come from a folder in their own order, which may be an order by date or by label, and have to be decoded and
encoded each time. So they are written once as a network sees them, into *chunks*: every row goes to a random one, and a
chunk is as good as a random sample of the whole. A chunk is divided into *lanes*, of which a batch takes equal shares:
several processes can have some lanes each and still train on the same batches as one process does.

Rows are dealt to chunks run by run: as many as are held in memory at a time are put in order and written to one file of
Arrow's, in which each lane of each chunk has a record batch of its own.

A training has epochs, and in each a *round* for every chunk. Their order follows from the seed and the sizes of the
lanes alone, so that several processes agree on it without sending it, and a training that is resumed goes on as it
would have.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from numpy.typing import NDArray

from plr.atomic_file import atomic_file, write_json
from plr.candidates import CandidateSets
from plr.errors import DataError

__all__ = [
    "CopyShape",
    "EncodedRows",
    "RoundRows",
    "ShuffledCopy",
    "TrainingOrder",
    "TrainingRound",
    "plan_shape",
    "read_rounds",
    "space_for",
    "write_part",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Bytes of rows that are put in order at a time, and that a chunk has.
_RUN_BYTES, _CHUNK_BYTES = 96 << 20, 16 << 20
_FEWEST_IN_RUN, _FEWEST_IN_CHUNK, _MOST_IN_CHUNK = 4_096, 8_192, 131_072
# More runs than this are made larger instead: a chunk is read from all of them.
_MOST_RUNS = 600


class EncodedRows(NamedTuple):
    """Some rows as a learner sees them; what is None is uniform or not given."""

    features: NDArray[Any]
    S: CandidateSets
    weight: Floats | None = None
    log_q: Floats | None = None
    start: Floats | None = None

    def take(self, places: Integers) -> EncodedRows:
        """Return some of them."""
        S = self.S
        sizes = S.sizes[places]
        flat = np.repeat(S.offsets[places] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        return EncodedRows(
            self.features[places],
            S[places],
            None if self.weight is None else self.weight[places],
            None if self.log_q is None else self.log_q[flat],
            None if self.start is None else self.start[flat],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[EncodedRows]) -> EncodedRows:
        """Return the rows of all parts, which must be some."""
        features, sets, *others = zip(*parts, strict=True)
        flat = [None if column[0] is None else np.concatenate(column) for column in others]
        return cls(np.concatenate(features), CandidateSets.concatenate(sets), *flat)


@dataclass(frozen=True)
class CopyShape:
    """How rows are laid out on the disk.

    Attributes
    ----------
    width : int
        Columns of the features.
    dtype : str
        Their type.
    chunks, lanes : int
    run_rows : int
        Rows that are put in order at a time.
    seed : int
    weighted : bool
        Whether rows have weights.
    lists : tuple of str
        What candidates have besides their value: ``prior``, ``log_q``, ``start``.
    """

    width: int
    dtype: str
    chunks: int
    lanes: int
    run_rows: int
    seed: int
    weighted: bool = False
    lists: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the files."""
        number = pa.from_numpy_dtype(np.dtype(self.dtype))
        fields = [pa.field("x", pa.list_(number, self.width)), pa.field("y", pa.list_(pa.float64()))]
        fields += [pa.field(name, pa.list_(pa.float64())) for name in self.lists]
        fields += [pa.field("weight", pa.float64())] if self.weighted else []
        return pa.schema(fields)


def plan_shape(
    rows: int,
    width: int,
    dtype: str,
    candidates_per_row: float,
    *,
    lanes: int,
    seed: int,
    weighted: bool = False,
    lists: tuple[str, ...] = (),
) -> tuple[CopyShape, int]:
    """Decide how so many rows are laid out; return that, and about how many bytes they take on the disk."""
    size = width * np.dtype(dtype).itemsize + 8 * candidates_per_row * (1 + len(lists)) + 4 * (1 + len(lists)) + 8
    chunk_rows = int(np.clip(_CHUNK_BYTES / size, _FEWEST_IN_CHUNK, _MOST_IN_CHUNK))
    run_rows = int(max(_RUN_BYTES / size, _FEWEST_IN_RUN, rows / _MOST_RUNS))
    chunks = max(1, -(-rows // chunk_rows))
    return CopyShape(width, dtype, chunks, lanes, run_rows, seed, weighted, lists), int(rows * size)


def write_part(folder: Path, part: int, shape: CopyShape, rows: Iterable[EncodedRows]) -> list[dict[str, Any]]:
    """Write one part of the copy, as one run or several; return what there is to know of them.

    A part that is there already, whole, is left as it is.
    """
    done = folder / f"part-{part:05d}.json"
    if done.exists():
        found: list[dict[str, Any]] = json.loads(done.read_text())
        return found
    runs = []
    for number, run in enumerate(_gathered(rows, shape.run_rows)):
        runs.append(_write_run(folder, f"run-{part:05d}-{number:03d}.arrow", run, shape, [part, number]))
    write_json(done, runs)
    return runs


class ShuffledCopy:
    """A copy that is complete.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        description = json.loads((folder / "copy.json").read_text())
        self.folder = folder
        self.shape = CopyShape(**{**description["shape"], "lists": tuple(description["shape"]["lists"])})
        self._runs: list[dict[str, Any]] = description["runs"]
        self._readers: list[Any] = []
        cells = self.shape.chunks * self.shape.lanes
        counts = np.zeros(cells, dtype=np.int64)
        for run in self._runs:
            counts += _dealt(run["rows"], run["offset"], cells)
        self.sizes = counts.reshape(self.shape.chunks, self.shape.lanes)
        """Rows of each lane of each chunk."""

    @classmethod
    def complete(cls, folder: Path, shape: CopyShape, runs: list[dict[str, Any]]) -> ShuffledCopy:
        """Say that all parts of a copy are there."""
        write_json(folder / "copy.json", {"shape": asdict(shape), "runs": runs})
        return cls(folder)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Return whether there is a complete copy."""
        return (folder / "copy.json").exists()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.sizes.sum())

    def read(self, chunk: int, first: int, last: int) -> EncodedRows:
        """Return the rows of some lanes of a chunk, lane after lane: from ``first`` to before ``last``."""
        if not self._readers:
            self._readers = [pa.ipc.open_file(pa.OSFile(str(self.folder / run["name"]))) for run in self._runs]
        batches = [
            reader.get_batch(chunk * self.shape.lanes + lane) for lane in range(first, last) for reader in self._readers
        ]
        table = pa.Table.from_batches(batches, self.shape.schema)
        # In an array of its own, which kernels take as it is.
        features = np.concatenate([part.flatten().to_numpy() for part in table["x"].chunks])
        y = table["y"].combine_chunks()
        lists = {name: table[name].combine_chunks().flatten().to_numpy() for name in self.shape.lists}
        return EncodedRows(
            features.reshape(len(y), self.shape.width),
            CandidateSets._of_checked(
                y.flatten().to_numpy(), y.offsets.to_numpy().astype(np.int64), lists.get("prior")
            ),
            table["weight"].to_numpy() if self.shape.weighted else None,
            lists.get("log_q"),
            lists.get("start"),
        )


class TrainingRound(NamedTuple):
    """Training on the rows of one chunk."""

    number: int
    epoch: int
    chunk: int
    ends_epoch: bool


class RoundRows(NamedTuple):
    """The rows of some lanes in a round."""

    rows: EncodedRows
    order: Integers
    """Rows in the order they are taken, lane after lane."""
    starts: Integers
    """Where each lane begins in it, and where the last ends."""


@dataclass(frozen=True)
class TrainingOrder:
    """What is trained on when.

    Attributes
    ----------
    sizes : ndarray of shape (chunks, lanes)
        Rows of each lane of each chunk.
    epochs : int
    batch_size : int
        Rows of all lanes in a step. Each lane gives as many; so it is rounded up to a multiple of their number.
    seed : int
    """

    sizes: Integers
    epochs: int
    batch_size: int
    seed: int

    @property
    def lanes(self) -> int:
        """How many lanes there are."""
        return self.sizes.shape[1]

    @property
    def share(self) -> int:
        """Rows of a lane in a step; the last step of a round takes what is left, up to half as many more."""
        return -(-self.batch_size // self.lanes)

    @property
    def rounds(self) -> int:
        """How many rounds there are in all epochs."""
        return self.epochs * len(self.sizes)

    @property
    def steps(self) -> int:
        """How many steps there are in all epochs."""
        return self.epochs * int(self._steps_by_chunk().sum())

    def _steps_by_chunk(self) -> Integers:
        # A step on a handful of rows would be as large as one on a whole batch, and say little.
        return np.maximum((self.sizes.max(axis=1) + self.share // 2) // self.share, 1)

    def lanes_of(self, number: int, processes: int) -> tuple[int, int]:
        """Return the lanes of one of several processes: from the first to before the second."""
        return number * self.lanes // processes, (number + 1) * self.lanes // processes

    def step_rows(self, chunk: int) -> Integers:
        """Return how many rows, of all lanes, each step of a chunk has."""
        return np.diff(self.bounds(chunk), axis=1).sum(axis=0)

    def bounds(self, chunk: int) -> Integers:
        """Return where each step of a chunk begins in each lane, and where the last ends: a row for each lane."""
        steps, sizes = int(self._steps_by_chunk()[chunk]), self.sizes[chunk][:, None]
        return np.concatenate([np.minimum(np.arange(steps) * self.share, sizes), sizes], axis=1)

    def turns(self, first: int = 0) -> Iterator[TrainingRound]:
        """Give the rounds from number ``first`` on."""
        chunks = len(self.sizes)
        for number in range(first, self.rounds):
            epoch, place = divmod(number, chunks)
            if place == 0 or number == first:
                random = np.random.default_rng(np.random.SeedSequence([self.seed, 0xE90C, epoch]))
                order = random.permutation(chunks)
            yield TrainingRound(number, epoch, int(order[place]), place == chunks - 1)


def read_rounds(
    copy: ShuffledCopy,
    order: TrainingOrder,
    first: int = 0,
    last: int | None = None,
    lanes: tuple[int, int] | None = None,
) -> Iterator[tuple[TrainingRound, RoundRows]]:
    """Read the rounds of a training from number ``first`` to before ``last``; all lanes, or some."""
    begin, end = lanes or (0, order.lanes)
    for turn in order.turns(first):
        if turn.number == last:
            return
        starts = np.concatenate([[0], np.cumsum(order.sizes[turn.chunk, begin:end])]).astype(np.int64)
        taken = []
        for lane, at in zip(range(begin, end), starts, strict=False):
            seed = np.random.SeedSequence([order.seed, 0x1A4E, turn.epoch, turn.chunk, lane])
            taken.append(at + np.random.default_rng(seed).permutation(int(order.sizes[turn.chunk, lane])))
        yield turn, RoundRows(copy.read(turn.chunk, begin, end), np.concatenate(taken), starts)


def space_for(folder: Path, needed: int) -> None:
    """Refuse to begin a copy that the disk has no room for."""
    free = shutil.disk_usage(folder).free
    if needed > 0.95 * free:
        raise DataError(
            f"Training needs about {needed / 2**30:.1f} GiB of disk for a shuffled copy of the rows, and {folder} has "
            f"{free / 2**30:.1f} GiB free; make room, or name a folder on another disk with {{parameter}}.",
            parameter="scratch",
            source=folder,
        )


def _gathered(rows: Iterable[EncodedRows], most: int) -> Iterator[EncodedRows]:
    """Give rows in runs of at most so many."""
    waiting: list[EncodedRows] = []
    held = 0
    for part in rows:
        waiting.append(part)
        held += len(part.S)
        while held >= most:
            whole = EncodedRows.concatenate(waiting)
            yield whole.take(np.arange(most))
            waiting = [whole.take(np.arange(most, held))]
            held -= most
    if held:
        yield EncodedRows.concatenate(waiting)


def _dealt(rows: int, offset: int, cells: int) -> Integers:
    """Return how many rows of a run each cell gets: they are dealt one by one, from cell ``offset`` on."""
    whole, rest = divmod(rows, cells)
    return whole + ((np.arange(cells) - offset) % cells < rest).astype(np.int64)


def _write_run(folder: Path, name: str, rows: EncodedRows, shape: CopyShape, number: list[int]) -> dict[str, Any]:
    random = np.random.default_rng(np.random.SeedSequence([shape.seed, 0x5F1E, *number]))
    cells = shape.chunks * shape.lanes
    count = len(rows.S)
    offset = int(random.integers(cells))
    drawn = random.permutation(count)
    rows = rows.take(drawn[np.argsort((np.arange(count) + offset) % cells, kind="stable")])
    ends = np.cumsum(_dealt(count, offset, cells))
    with (
        atomic_file(folder / name, "The shuffled copy of the rows") as file,
        pa.ipc.new_file(file, shape.schema) as writer,
    ):
        for first, last in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            writer.write_batch(_record_batch(rows, first, last, shape))
    return {"name": name, "rows": count, "offset": offset}


def _record_batch(rows: EncodedRows, first: int, last: int, shape: CopyShape) -> pa.RecordBatch:
    S = rows.S
    begin, end = int(S.offsets[first]), int(S.offsets[last])
    offsets = pa.array((S.offsets[first : last + 1] - begin).astype(np.int32))
    flat = np.ascontiguousarray(rows.features[first:last]).reshape(-1)
    arrays = [
        pa.FixedSizeListArray.from_arrays(pa.array(flat), shape.width),
        pa.ListArray.from_arrays(offsets, pa.array(S.values[begin:end])),
    ]
    for name in shape.lists:
        values = S.prior_or_uniform if name == "prior" else getattr(rows, name)
        arrays.append(pa.ListArray.from_arrays(offsets, pa.array(values[begin:end])))
    if shape.weighted:
        assert rows.weight is not None
        arrays.append(pa.array(rows.weight[first:last]))
    return pa.RecordBatch.from_arrays(arrays, schema=shape.schema)
