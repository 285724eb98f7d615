"""The rounds of a training as a dataset of Ray's: one block for each round, with the lanes of one worker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from plr.streaming.rounds import Order, Round, RoundRows, round_rows
from plr.streaming.shuffled import ShuffledCopy

__all__ = ["rounds_from_ray"]

# Blocks that are read before they are wanted.
_AHEAD = 2


class _RoundsSource(Datasource):
    """Reads some lanes of the shuffled copy, round by round."""

    def __init__(self, copy: ShuffledCopy, turns: list[Round], lanes: tuple[int, int]) -> None:
        super().__init__()
        told = (copy.folder / "copy.json").stat()
        # Processes keep files open; another copy in the same place is another.
        self._key = (str(copy.folder), told.st_mtime_ns, told.st_ino)
        self._lanes, self._turns = lanes, turns
        self._rows = [int(copy.sizes[turn.chunk, lanes[0] : lanes[1]].sum()) for turn in turns]
        self._size = sum(_row_bytes(copy) * rows for rows in self._rows)

    def get_name(self) -> str:
        """Return what Ray calls it."""
        return "ShuffledCopy"

    def estimate_inmemory_data_size(self) -> int:
        """Return about how many bytes there are."""
        return self._size

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:  # noqa: ARG002
        """Return one task for each round."""
        tasks = []
        for turn, rows in zip(self._turns, self._rows, strict=True):
            metadata = BlockMetadata(
                num_rows=rows,
                size_bytes=self._size * rows // max(sum(self._rows), 1),
                input_files=None,
                exec_stats=None,
            )
            tasks.append(ReadTask(partial(_read, self._key, turn, self._lanes), metadata))
        return tasks


def rounds_from_ray(
    copy: ShuffledCopy, order: Order, lanes: tuple[int, int], first: int, last: int | None = None
) -> Iterator[tuple[Round, RoundRows]]:
    """Give the rounds from number ``first`` to before ``last``, some lanes of each; tasks of the cluster read ahead."""
    turns = [turn for turn in order.turns(first) if last is None or turn.number < last]
    # Ray has no blocks without rows.
    filled = [turn for turn in turns if copy.sizes[turn.chunk, lanes[0] : lanes[1]].any()]
    blocks: Iterator[pa.Table] = iter(())
    if filled:
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        source = _RoundsSource(copy, filled, lanes)
        dataset = ray.data.read_datasource(source, override_num_blocks=len(filled), concurrency=_AHEAD)
        blocks = iter(dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=_AHEAD))
    there = {turn.number for turn in filled}
    waiting: list[pa.Table] = []
    for turn in turns:
        wanted = int(copy.sizes[turn.chunk, lanes[0] : lanes[1]].sum())
        while turn.number in there and sum(part.num_rows for part in waiting) < wanted:
            waiting.append(next(blocks))
        table = pa.concat_tables(waiting) if waiting else copy.shape.schema.empty_table()
        waiting = [table.slice(wanted)] if table.num_rows > wanted else []
        yield turn, round_rows(table.slice(0, wanted), order, turn, *lanes)


def _row_bytes(copy: ShuffledCopy) -> int:
    """Return about how many bytes a row has."""
    return 4 * copy.shape.width + 64


def _read(key: tuple[str, int, int], turn: Round, lanes: tuple[int, int]) -> list[pa.Table]:
    return [_opened(key).read(turn.chunk, *lanes)]


@lru_cache(maxsize=2)
def _opened(key: tuple[str, int, int]) -> ShuffledCopy:
    return ShuffledCopy(Path(key[0]))
