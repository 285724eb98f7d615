"""The order of a training: epochs, and in each a round for every chunk; and the rows of a round as arrays.

All of it follows from the seed and the sizes of the lanes alone, so that several processes agree on it without sending
it, and a training that is resumed goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.streaming.shuffled import ShuffledCopy

__all__ = ["RoundRows", "TrainingOrder", "TrainingRound", "read_rounds", "round_rows"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class TrainingRound(NamedTuple):
    """Training on the rows of one chunk."""

    number: int
    epoch: int
    chunk: int
    ends_epoch: bool


class RoundRows(NamedTuple):
    """The rows of some lanes in a round; what is empty is uniform or not given."""

    features: NDArray[Any]
    values: Floats
    offsets: Integers
    prior: Floats
    log_q: Floats
    start: Floats
    weight: Floats
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
        found: Integers = np.maximum((self.sizes.max(axis=1) + self.share // 2) // self.share, 1)
        return found

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
        for epoch in range(first // chunks, self.epochs):
            random = np.random.default_rng(np.random.SeedSequence([self.seed, 0xE90C, epoch]))
            order = random.permutation(chunks)
            for place in range(first - epoch * chunks if epoch == first // chunks else 0, chunks):
                yield TrainingRound(epoch * chunks + place, epoch, int(order[place]), place == chunks - 1)

    def rows_in_order(self, turn: TrainingRound, lane: int) -> Integers:
        """Return the order in which a lane's rows are taken in a round."""
        random = np.random.default_rng(np.random.SeedSequence([self.seed, 0x1A4E, turn.epoch, turn.chunk, lane]))
        return random.permutation(int(self.sizes[turn.chunk, lane]))


def read_rounds(
    copy: ShuffledCopy,
    order: TrainingOrder,
    first: int = 0,
    last: int | None = None,
    lanes: tuple[int, int] | None = None,
) -> Iterator[tuple[TrainingRound, RoundRows]]:
    """Read the rounds of a training from number ``first`` to before ``last``; all lanes, or some."""
    begin, end = (0, order.lanes) if lanes is None else lanes
    for turn in order.turns(first):
        if turn.number == last:
            return
        yield turn, round_rows(copy.read(turn.chunk, begin, end), order, turn, begin, end)


def round_rows(table: pa.Table, order: TrainingOrder, turn: TrainingRound, first: int, last: int) -> RoundRows:
    """Return the rows of some lanes, from ``first`` to before ``last``, as arrays in the order of the round."""
    starts = np.concatenate([[0], np.cumsum(order.sizes[turn.chunk, first:last])])
    if table.num_rows != starts[-1]:
        raise RuntimeError(f"Round {turn.number} has {table.num_rows} rows in place of {starts[-1]}.")
    taken = [at + order.rows_in_order(turn, lane) for lane, at in zip(range(first, last), starts[:-1], strict=True)]
    nothing: Floats = np.empty(0)
    prior, log_q, start = (
        _flat(table[name]) if name in table.column_names else nothing for name in ("prior", "log_q", "start")
    )
    return RoundRows(
        _flat(table["x"]).reshape(table.num_rows, table["x"].type.list_size),
        _flat(table["y"]),
        _offsets(table["y"]),
        prior,
        log_q,
        start,
        table["weight"].to_numpy() if "weight" in table.column_names else nothing,
        np.concatenate(taken),
        starts.astype(np.int64),
    )


def _flat(column: pa.ChunkedArray) -> NDArray[Any]:
    parts = [chunk.flatten().to_numpy() for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0)


def _offsets(column: pa.ChunkedArray) -> Integers:
    sizes = [np.diff(chunk.offsets.to_numpy()) for chunk in column.chunks]
    return np.concatenate([[0], np.cumsum(np.concatenate([*sizes, np.empty(0, dtype=np.int32)]))]).astype(np.int64)
