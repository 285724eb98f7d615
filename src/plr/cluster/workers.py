"""What the workers of a training do: train some lanes together with the others, and report where they stand."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plr.atomic_file import write_json
from plr.cluster.session import import_ray
from plr.errors import DataError, PlrError
from plr.streaming.network import LaneTraining
from plr.streaming.scratch import read_state, write_state
from plr.streaming.shuffled import ShuffledCopy
from plr.streaming.training import NetworkJob

if TYPE_CHECKING:
    from plr.streaming.module import ModuleJob

__all__ = ["ERROR", "SECONDS_BETWEEN_LOOKS", "STATE", "WEIGHTS", "Group", "train_module_worker", "train_worker"]

STATE, WEIGHTS, ERROR = "progress.npz", "weights.pt", "error.json"
"""Files: where training stands, a module's weights, and word of an error."""

SECONDS_BETWEEN_LOOKS = 0.5
"""How often word is left of how far it is."""

_MODULE = "module.pt"


class Group:
    """What the workers of a Ray Train group have in common."""

    def __init__(self, number: int, processes: int) -> None:
        self.number, self.processes = number, processes

    def add(self, part: Any) -> None:
        """Replace an array or tensor by the sum of all workers' own."""
        import torch
        import torch.distributed

        try:
            torch.distributed.all_reduce(torch.from_numpy(part) if isinstance(part, np.ndarray) else part)
        except RuntimeError as error:
            raise _LostError from error


class _LostError(Exception):
    """Another worker of the group is gone."""


def train_worker(config: dict[str, Any]) -> None:
    """Train as one worker of a group."""
    with _own_errors(config["told"]) as hopeless:
        if not hopeless:
            _train_network(config)


def train_module_worker(config: dict[str, Any]) -> None:
    """Train a torch module as one worker of a group."""
    with _own_errors(config["told"]) as hopeless:
        if not hopeless:
            _train_module(config)


@contextmanager
def _own_errors(told: Path) -> Iterator[bool]:
    """Leave word of an error of the training itself, which would only come again; give whether there is one.

    Ray starts a group again whatever has ended it, which is right where a process has died.
    """
    place = told.with_name(ERROR)
    if place.exists():
        yield True
        return
    try:
        yield False
    except (_LostError, ConnectionError, import_ray().exceptions.RayError):
        raise
    except Exception as error:
        if isinstance(error, PlrError):
            write_json(place, [type(error).__name__, str(error)])
        else:
            where = traceback.format_exception_only(error)[-1].strip()
            write_json(place, ["ClusterError", f"Training on the cluster failed: {where}"])
        raise


def _train_network(config: dict[str, Any]) -> None:
    import ray.train

    from plr.cluster.rounds import rounds_from_ray

    job: NetworkJob = config["job"]
    copy = ShuffledCopy(job.copy)
    together, lanes = _own_part(copy)
    training = job.training(copy, lanes, together)
    found = ray.train.get_checkpoint()
    if found is not None:
        with found.as_directory() as folder:
            state = read_state(Path(folder) / STATE)
        assert state is not None
        training.restore(state)
    clock = _Clock(training, config["told"], config["save_every"], together)
    if not training.is_over:
        rounds = rounds_from_ray(copy, training.order, lanes, training.round)
        training.run(rounds, callback=clock.tell if together.number == 0 else None, after=clock.after)
    clock.report()


def _train_module(config: dict[str, Any]) -> None:
    import ray.train
    import torch

    from plr.cluster.rounds import rounds_from_ray

    job: ModuleJob = config["job"]
    copy = ShuffledCopy(job.copy)
    together, lanes = _own_part(copy)
    teller = _Teller(config["told"])
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        found = ray.train.get_checkpoint()
        if found is not None:
            with found.as_directory() as folder:
                shutil.copy(Path(folder) / _MODULE, place / _MODULE)

        def after(epoch: int, epochs: int, loss: float) -> None:
            if epoch < epochs:
                _report({"epoch": epoch, "loss": loss}, place, together)

        fitted = job.run(
            copy,
            place / _MODULE,
            lanes=lanes,
            together=together,
            rounds=lambda copy, order, first: rounds_from_ray(copy, order, lanes, first, first + len(order.sizes)),
            callback=after,
            tell=teller.tell if together.number == 0 else None,
        )
        if together.number == 0:
            torch.save(fitted.module.state_dict(), place / WEIGHTS)
            write_state(place / STATE, job.told(fitted))
        _report({"epoch": fitted.report.rounds}, place, together)


def _own_part(copy: ShuffledCopy) -> tuple[Group, tuple[int, int]]:
    """Return the group that this worker is part of, and its lanes."""
    import ray.train

    context = ray.train.get_context()
    number, workers, lanes = context.get_world_rank(), context.get_world_size(), copy.shape.lanes
    return Group(number, workers), (number * lanes // workers, (number + 1) * lanes // workers)


def _report(metrics: dict[str, Any], folder: Path, together: Group) -> None:
    """Report to Ray Train, as all workers have to; the first brings the checkpoint."""
    import ray.train

    if together.number == 0:
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(str(folder)))
    else:
        ray.train.report(metrics)


class _Teller:
    """Leaves word of how far it is where the driver looks."""

    def __init__(self, told: Path) -> None:
        self._told, self._spoken = told, time.monotonic()

    def tell(self, done: int, total: int, loss: float) -> None:
        """Say so, but not too often."""
        if time.monotonic() - self._spoken > SECONDS_BETWEEN_LOOKS:
            self._spoken = time.monotonic()
            with suppress(DataError):
                write_json(self._told, [done, total, loss])


class _Clock(_Teller):
    """Decides, for all workers alike, when a checkpoint is due."""

    def __init__(self, training: LaneTraining, told: Path, every: float, together: Group) -> None:
        super().__init__(told)
        self._training, self._every, self._together = training, every, together
        # The first round is worth keeping: starting workers takes longer.
        self._saved = -math.inf

    def after(self, _: LaneTraining) -> None:
        """Report after a round, if it is time by the first worker's clock."""
        due = np.zeros(1)
        if self._together.number == 0:
            due[0] = time.monotonic() - self._saved > self._every
        self._together.add(due)
        if due[0] > 0:
            self.report()

    def report(self) -> None:
        """Report where training stands; all workers have to."""
        self._saved = time.monotonic()
        metrics = {"round": self._training.round, "steps": self._training.steps}
        with tempfile.TemporaryDirectory() as folder:
            write_state(Path(folder) / STATE, self._training.state())
            _report(metrics, Path(folder), self._together)
