"""Where the work of a fit is done: in this process, or on a cluster (`plr.cluster.ray_engine`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from plr.contracts import Fitted
from plr.streaming.network_training import NetworkJob

if TYPE_CHECKING:
    from plr.streaming.module_training import ModuleJob

__all__ = ["Count", "Engine", "LocalEngine", "Progress"]

Progress = Callable[[int, int, float], object]
"""Called with how much is done, how much there is in all, and the loss."""
Count = Callable[[int], object]
"""Called with how many rows more are done."""
Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Where the work of a fit is done."""

    lanes: int
    """Of the shuffled copy that the engine trains from."""

    def map(self, function: Callable[[Item, Count], Result], items: Sequence[Item], count: Count) -> Iterable[Result]:
        """Give the function's results, in order; it counts the rows that it has done."""
        ...

    def train(self, job: NetworkJob | ModuleJob, folder: Path, tell: Progress | None) -> Fitted:
        """Train, from the last checkpoint in a folder if there is one."""
        ...


class LocalEngine:
    """Does all work in this process.

    Parameters
    ----------
    save_every : float
        Seconds between two checkpoints.
    """

    lanes = 4

    def __init__(self, save_every: float = 30.0) -> None:
        self.save_every = save_every

    def map(self, function: Callable[[Item, Count], Result], items: Sequence[Item], count: Count) -> Iterator[Result]:
        """Give the function's results, in order."""
        return (function(item, count) for item in items)

    def train(self, job: NetworkJob | ModuleJob, folder: Path, tell: Progress | None) -> Fitted:
        """Train, from the last checkpoint in a folder if there is one."""
        return job.run(folder, tell=tell, save_every=self.save_every)
