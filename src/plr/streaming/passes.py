"""The two passes over a folder that come before training: a survey of all rows, and the shuffled copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.sources.folder import Folder
from plr.sources.source import File
from plr.streaming.ahead import ahead
from plr.streaming.engine import Count, Engine, Progress
from plr.streaming.folder_rows import FolderRows, Reading
from plr.streaming.preparation import Preparation
from plr.streaming.shuffled import CopyShape, ShuffledCopy, plan_shape, space_for, write_part
from plr.streaming.survey import Survey, survey

__all__ = ["Working", "copy_folder", "silent", "survey_folder"]

Working = Callable[[str], AbstractContextManager[Progress]]
"""Given the name of a stage, a context manager that gives what is called with ``(done, in all, loss)``."""

# Files are worked on together until they have so many rows, or so large a share of all.
_ROWS_TOGETHER, _MOST_PARTS = 1_000_000, 256


@contextmanager
def silent(_: str) -> Iterator[Progress]:
    """Report no progress."""
    yield lambda *_: None


def survey_folder(reading: Reading, choose: NDArray[np.int64], engine: Engine, working: Working) -> Survey:
    """Look at every row once, and keep those that are chosen by their numbers."""
    found = Survey()
    with working("Looking through all rows") as tell:
        look = partial(_survey_files, reading, choose)
        for part in engine.map(look, _file_parts(reading.folder), _counter(tell, reading.folder.rows)):
            found.add(part)
    return found


def copy_folder(
    ready: Preparation,
    reading: Reading,
    found: Survey,
    folder: Path,
    engine: Engine,
    seed: int,
    working: Working,
) -> tuple[ShuffledCopy, int]:
    """Write the shuffled copy into a folder, unless it is there; return it, and about how many bytes it takes."""
    present = {"prior": found.has_prior, "log_q": ready.density is not None, "start": ready.mixture is not None}
    shape, size = plan_shape(
        found.rows,
        ready.encoding.width,
        ready.dtype,
        found.candidates / found.rows,
        lanes=engine.lanes,
        seed=seed,
        weighted=reading.weights is not None,
        lists=tuple(name for name, there in present.items() if there),
    )
    if ShuffledCopy.exists(folder):
        return ShuffledCopy(folder), size
    space_for(folder, size)
    with working("Writing a shuffled copy") as tell:
        write = partial(_copy_files, reading, ready, shape, folder)
        parts = list(enumerate(_file_parts(reading.folder)))
        runs = [run for part in engine.map(write, parts, _counter(tell, reading.folder.rows)) for run in part]
        return ShuffledCopy.complete(folder, shape, runs), size


def _counter(tell: Progress, total: int) -> Count:
    seen = 0

    def count(rows: int) -> None:
        nonlocal seen
        seen += rows
        tell(seen, total, np.nan)

    return count


def _file_parts(folder: Folder) -> list[list[File]]:
    """Divide files into parts that can be worked on apart: neighbours, with enough rows to be worth it."""
    parts: list[list[File]] = [[]]
    enough, rows = max(_ROWS_TOGETHER, folder.rows // _MOST_PARTS), 0
    for file in folder.files:
        if rows >= enough:
            parts.append([])
            rows = 0
        parts[-1].append(file)
        rows += file.rows
    return parts


def _survey_files(reading: Reading, choose: NDArray[np.int64], files: Sequence[File], count: Count) -> Survey:
    return survey(_counted(reading.rows(files), count), choose)


def _copy_files(
    reading: Reading,
    ready: Preparation,
    shape: CopyShape,
    folder: Path,
    part: tuple[int, Sequence[File]],
    count: Count,
) -> list[dict[str, Any]]:
    number, files = part
    rows = (ready.training(batch) for batch in _counted(ahead(reading.rows(files)), count) if len(batch.index))
    return write_part(folder, number, shape, rows)


def _counted(rows: Iterator[FolderRows], count: Count) -> Iterator[FolderRows]:
    for part in rows:
        yield part
        count(len(part.index) + part.left_out)
