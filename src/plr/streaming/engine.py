"""Where the work of a fit is done: in this process, or on a cluster (`plr.cluster.ray_engine`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numpy.typing import NDArray

from plr.streaming.ahead import ahead
from plr.streaming.lane_training import LaneTraining, NetworkJob
from plr.streaming.scratch import Scratch
from plr.streaming.shuffled import ShuffledCopy
from plr.streaming.training_rounds import read_rounds

if TYPE_CHECKING:
    from plr.learners.module import FittedModule
    from plr.streaming.module_training import ModuleJob

__all__ = ["SECONDS_BETWEEN_SAVES", "Engine", "LocalEngine"]

Callback = Callable[[int, int, float], object]
State = dict[str, NDArray[Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")

SECONDS_BETWEEN_SAVES = 30.0
"""How often a training saves its progress."""


class Engine(Protocol):
    """Where the work of a fit is done."""

    local: bool
    """Whether functions are called in this process."""
    lanes: int
    """Of the shuffled copy that the engine trains from."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """Give the function's results, in order."""
        ...

    def train(self, job: NetworkJob, scratch: Scratch, callback: Callback | None) -> State:
        """Train, from the last checkpoint if there is one, and return the final state."""
        ...

    def train_module(self, job: ModuleJob, scratch: Scratch, callback: Callback | None) -> FittedModule:
        """Train a torch module, from the last checkpoint if there is one."""
        ...


class LocalEngine:
    """Does all work in this process."""

    local = True
    lanes = 4

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Give the function's results, in order."""
        return map(function, items)

    def train(self, job: NetworkJob, scratch: Scratch, callback: Callback | None) -> State:
        """Train, from the last checkpoint if there is one, and return the final state."""
        copy = ShuffledCopy(job.copy)
        training = job.training(copy)
        before = scratch.load()
        if before is not None:
            training.restore(before)
        saved = time.monotonic()

        def after(now: LaneTraining) -> None:
            nonlocal saved
            if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                scratch.save(now.state())
                saved = time.monotonic()

        try:
            if not training.is_over:
                training.run(ahead(read_rounds(copy, training.order, training.round)), callback=callback, after=after)
        finally:
            copy.close()
        return training.state()

    def train_module(self, job: ModuleJob, scratch: Scratch, callback: Callback | None) -> FittedModule:
        """Train a torch module, from the last checkpoint if there is one."""
        copy = ShuffledCopy(job.copy)
        try:
            return job.run(copy, scratch.path / "module.pt", tell=callback)
        finally:
            copy.close()
