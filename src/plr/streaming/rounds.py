"""The order of a training: epochs, and in each a round for every chunk; and the rows of a round as arrays.

All of it follows from the seed and the sizes of the lanes alone. So every process knows it without being told, and a
training that is taken up in the middle goes on as it would have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.streaming.shuffled import ShuffledCopy

__all__ = ["Order", "Round", "RoundRows", "round_rows", "rounds_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Round(NamedTuple):
    """One chunk's turn."""

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
class Order:
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

    def together(self, chunk: int) -> Integers:
        """Return how many rows, of all lanes, each step of a chunk has."""
        steps = int(self._steps_by_chunk()[chunk])
        return np.diff(self.bounds(chunk, steps), axis=1).sum(axis=0)

    def bounds(self, chunk: int, steps: int | None = None) -> Integers:
        """Return where each step of a chunk begins in each lane, and where the last ends: a row for each lane."""
        steps = int(self._steps_by_chunk()[chunk]) if steps is None else steps
        sizes = self.sizes[chunk][:, None]
        return np.concatenate([np.minimum(np.arange(steps) * self.share, sizes), sizes], axis=1)

    def turns(self, first: int = 0) -> Iterator[Round]:
        """Give the rounds from number ``first`` on."""
        chunks = len(self.sizes)
        for epoch in range(first // chunks, self.epochs):
            random = np.random.default_rng(np.random.SeedSequence([self.seed, 0xE90C, epoch]))
            order = random.permutation(chunks)
            for place in range(first - epoch * chunks if epoch == first // chunks else 0, chunks):
                yield Round(epoch * chunks + place, epoch, int(order[place]), place == chunks - 1)

    def rows_in_order(self, turn: Round, lane: int) -> Integers:
        """Return the order in which a lane's rows are taken in a round."""
        random = np.random.default_rng(np.random.SeedSequence([self.seed, 0x1A4E, turn.epoch, turn.chunk, lane]))
        return random.permutation(int(self.sizes[turn.chunk, lane]))


def rounds_of(copy: ShuffledCopy, order: Order, first: int = 0) -> Iterator[tuple[Round, RoundRows]]:
    """Read the rounds of a training, all lanes, from number ``first`` on."""
    for turn in order.turns(first):
        yield turn, round_rows(copy.read(turn.chunk, 0, order.lanes), order, turn, 0)


def round_rows(table: pa.Table, order: Order, turn: Round, first: int, last: int | None = None) -> RoundRows:
    """Return the rows of some lanes, from ``first`` to before ``last``, as arrays in the order of the round."""
    lanes = range(first, order.lanes if last is None else last)
    sizes = order.sizes[turn.chunk, lanes.start : lanes.stop]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    if table.num_rows != starts[-1]:
        raise RuntimeError(f"Round {turn.number} has {table.num_rows} rows in place of {starts[-1]}.")
    taken = [at + order.rows_in_order(turn, lane) for lane, at in zip(lanes, starts[:-1], strict=True)]
    features = _flat(table["x"])
    lists = {name: _values(table[name]) if name in table.column_names else _NOTHING for name in _LISTS}
    return RoundRows(
        features.reshape(table.num_rows, -1),
        lists["y"],
        _offsets(table["y"]),
        lists["prior"],
        lists["log_q"],
        lists["start"],
        _column(table["weight"]) if "weight" in table.column_names else _NOTHING,
        np.concatenate(taken) if taken else np.empty(0, dtype=np.int64),
        starts.astype(np.int64),
    )


_LISTS = ("y", "prior", "log_q", "start")
_NOTHING: Floats = np.empty(0)


def _flat(column: pa.ChunkedArray) -> NDArray[Any]:
    parts = [chunk.flatten().to_numpy() for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0)


def _values(column: pa.ChunkedArray) -> Floats:
    return _flat(column).astype(np.float64, copy=False)


def _offsets(column: pa.ChunkedArray) -> Integers:
    sizes = [np.diff(chunk.offsets.to_numpy()) for chunk in column.chunks]
    return np.concatenate([[0], np.cumsum(np.concatenate([*sizes, np.empty(0, dtype=np.int32)]))]).astype(np.int64)


def _column(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.to_numpy(), dtype=np.float64)
