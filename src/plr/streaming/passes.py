"""The two passes over a folder that come before training: looking at every row, and writing the shuffled copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np

import plr
from plr.learners import Module
from plr.regressor import PartialLabelRegressor
from plr.streaming.preparation import Choice, Preparation, copy_rows, file_parts, look_through
from plr.streaming.rows import Reading
from plr.streaming.scratch import Scratch
from plr.streaming.shuffled import ShuffledCopy, plan_shape, space_for
from plr.streaming.survey import Survey
from plr.streaming.training import Engine

__all__ = ["Working", "copy_all", "identity", "look_through_all", "silent"]

Working = Callable[[str], AbstractContextManager[Callable[[int, int, float], object]]]
"""Given the name of a stage, gives what is told ``(done, in all, loss)``."""


@contextmanager
def silent(_: str) -> Iterator[Callable[[int, int, float], object]]:
    """Tell nobody."""
    yield lambda *_: None


def identity(regressor: PartialLabelRegressor, reading: Reading, lanes: int, seed: int) -> dict[str, Any]:
    """Return what tells a training from others: the files, what is made of them, and the model, in words."""
    return {
        "plr": plr.__version__,
        "folder": reading.folder.fingerprint(),
        "columns": reading.features.to_dict(),
        "target": reading.target,
        "prior": reading.prior,
        "weights": reading.weights,
        "drop_empty": reading.drop_empty,
        "model": _model_in_words(regressor),
        "lanes": lanes,
        "seed": seed,
    }


def _model_in_words(regressor: PartialLabelRegressor) -> dict[str, str]:
    given = {name: part for name, part in regressor.get_params().items() if name not in ("n_jobs", "verbose")}
    if not isinstance(regressor.learner, Module):
        return {name: repr(part) for name, part in given.items()}
    from plr.learners.module.identity import name_of

    # Code goes by what it says: its place in memory is another in every process.
    return {name: name_of(part) for name, part in given.items() if name != "learner"}


class _Count:
    """Counts rows, and tells."""

    def __init__(self, tell: Callable[[int, int, float], object], every: int) -> None:
        self._tell, self._every, self._seen = tell, every, 0

    def __call__(self, rows: int) -> None:
        self._seen += rows
        self._tell(self._seen, self._every, np.nan)


def look_through_all(reading: Reading, choice: Choice, engine: Engine, working: Working) -> Survey:
    """Look at every row once."""
    found = Survey()
    with working("Looking through all rows") as tell:
        count = _Count(tell, reading.folder.rows)
        look = partial(look_through, reading, choice, tell=count if engine.here else None)
        for part in engine.map(look, file_parts(reading.folder)):
            found.add(part)
            if not engine.here:
                count(part.rows + part.left_out)
    return found


def copy_all(
    ready: Preparation,
    reading: Reading,
    found: Survey,
    place: Scratch,
    engine: Engine,
    seed: int,
    working: Working,
) -> tuple[ShuffledCopy, int]:
    """Write the shuffled copy, unless it is there; return it, and about how many bytes it takes."""
    lists = tuple(
        name
        for name, there in (
            ("prior", found.has_prior),
            ("log_q", ready.density is not None),
            ("start", ready.start is not None),
        )
        if there
    )
    width = len(np.atleast_1d(ready.encoding.scaling.scale))
    shape, size = plan_shape(
        found.rows,
        width,
        ready.dtype,
        found.candidates / found.rows,
        lanes=engine.lanes,
        seed=seed,
        weighted=reading.weights is not None,
        lists=lists,
    )
    if ShuffledCopy.exists(place.path):
        return ShuffledCopy(place.path), size
    space_for(place.path, size)
    with working("Writing a shuffled copy") as tell:
        count = _Count(tell, reading.folder.rows)
        write = partial(copy_rows, reading, ready, shape, place.path, tell=count if engine.here else None)
        runs = []
        for part in engine.map(write, list(enumerate(file_parts(reading.folder)))):
            runs += part
            if not engine.here:
                count(sum(run["rows"] for run in part))
        return ShuffledCopy.complete(place.path, shape, runs), size
