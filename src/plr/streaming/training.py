"""A network's training as something that can be carried out here or elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from plr.network._training import BY_LOSS
from plr.network.network import Network, Settings
from plr.noise import fit_noise
from plr.streaming.ahead import ahead
from plr.streaming.network import LaneTraining, Together
from plr.streaming.rounds import Order, rounds_of
from plr.streaming.scratch import Scratch
from plr.streaming.shuffled import Prepared, ShuffledCopy
from plr.weighting import Posterior
from plr.weighting.rule import NOTHING, Rule

if TYPE_CHECKING:
    from plr.learners.module import FittedModule
    from plr.streaming.module import ModuleJob

__all__ = ["SECONDS_BETWEEN_SAVES", "Engine", "Here", "NetworkJob"]

Callback = Callable[[int, int, float], object]
State = dict[str, NDArray[Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")

SECONDS_BETWEEN_SAVES = 30.0
"""How often a training writes down where it stands."""


@dataclass(frozen=True)
class NetworkJob:
    """A network to be trained; all that other processes need to know.

    Attributes
    ----------
    copy : Path
        The folder of the shuffled copy.
    rule : Rule
    settings : Settings
    columns, largest_set : int
    seed : int
    judges : Prepared or None
        Rows to choose the best epoch by.
    """

    copy: Path
    rule: Rule
    settings: Settings
    columns: int
    largest_set: int
    seed: int
    judges: Prepared | None = None

    def order(self, copy: ShuffledCopy) -> Order:
        """Return what is trained on when."""
        return Order(copy.sizes, self.settings.epochs, self.settings.batch_size, self.seed)

    def training(
        self, copy: ShuffledCopy, lanes: tuple[int, int] | None = None, together: Together | None = None
    ) -> LaneTraining:
        """Return the training before its first round, of some lanes or of all."""
        return LaneTraining(
            self.rule,
            self.settings,
            self.order(copy),
            self.columns,
            self.largest_set,
            seed=self.seed,
            lanes=lanes,
            together=together,
            judge=None if self.judges is None else self._score,
        )

    def _score(self, network: Network, state: NDArray[np.float64]) -> float:
        """Judge a network on the rows held out, without a label: smaller is better."""
        assert self.judges is not None
        _, S, weight, log_q, _ = self.judges
        prediction = network.predict(self.judges.features)
        if self.settings.stop_rule == BY_LOSS:
            found = self.rule.evaluate(prediction, S, state, NOTHING if log_q is None else log_q)
            return float(np.average(found.loss, weights=weight))
        family = self.rule.weighting if isinstance(self.rule.weighting, Posterior) else None
        noise = fit_noise(prediction, S, family, weight)
        return -float(np.average(noise.log_likelihood(prediction, S), weights=weight))


class Engine(Protocol):
    """Where work is done."""

    here: bool
    """Whether functions are called in this process."""
    lanes: int
    """Of the shuffled copy that the engine trains from."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """Give the function's results, in order."""
        ...

    def train(self, job: NetworkJob, scratch: Scratch, callback: Callback | None) -> State:
        """Train, from where an earlier attempt has come to, and return where training stands in the end."""
        ...

    def train_module(self, job: ModuleJob, scratch: Scratch, callback: Callback | None) -> FittedModule:
        """Train a torch module, from where an earlier attempt has come to."""
        ...


class Here:
    """All work is done by this process."""

    here = True
    lanes = 4

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Give the function's results, in order."""
        return map(function, items)

    def train(self, job: NetworkJob, scratch: Scratch, callback: Callback | None) -> State:
        """Train, from where an earlier attempt has come to, and return where training stands in the end."""
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
                training.run(ahead(rounds_of(copy, training.order, training.round)), callback=callback, after=after)
        finally:
            copy.close()
        return training.state()

    def train_module(self, job: ModuleJob, scratch: Scratch, callback: Callback | None) -> FittedModule:
        """Train a torch module, from where an earlier attempt has come to."""
        copy = ShuffledCopy(job.copy)
        try:
            return job.run(copy, scratch.path / "module.pt", tell=callback)
        finally:
            copy.close()
