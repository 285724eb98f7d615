"""What each worker of a training on a cluster does: train its lanes with the others, and save checkpoints."""

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
from plr.streaming.ahead import ahead
from plr.streaming.lane_training import LaneTraining, NetworkJob
from plr.streaming.scratch import read_state, write_state
from plr.streaming.shuffled import ShuffledCopy
from plr.streaming.training_rounds import read_rounds

if TYPE_CHECKING:
    from plr.streaming.module_training import ModuleJob

__all__ = ["ERROR", "SECONDS_BETWEEN_LOOKS", "STATE", "WEIGHTS", "WorkerGroup", "train_worker"]

STATE, WEIGHTS, ERROR = "progress.npz", "weights.pt", "error.json"
"""Files: the state of a training, a module's weights, and an error that ended it."""

SECONDS_BETWEEN_LOOKS = 0.5
"""How often progress is written and read."""

_MODULE = "module.pt"


class WorkerGroup:
    """The workers of a Ray Train group."""

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
    """Train a network or a torch module as one worker of a group."""
    with _own_errors(config["progress"]) as failed:
        if not failed:
            (_train_network if isinstance(config["job"], NetworkJob) else _train_module)(config)


@contextmanager
def _own_errors(progress: Path) -> Iterator[bool]:
    """Write down an error of the training itself, which would only come again; give whether there was one before.

    Ray starts a group again whatever has ended it, which is right where a process has died.
    """
    place = progress.with_name(ERROR)
    failed = place.exists()
    try:
        yield failed
    except (_LostError, ConnectionError, import_ray().exceptions.RayError):
        raise
    except Exception as error:
        where = traceback.format_exception_only(error)[-1].strip()
        unexpected = ["ClusterError", f"Training on the cluster failed: {where}"]
        write_json(place, [type(error).__name__, str(error)] if isinstance(error, PlrError) else unexpected)
        raise


def _train_network(config: dict[str, Any]) -> None:
    import ray.train

    job: NetworkJob = config["job"]
    copy = ShuffledCopy(job.copy)
    group, lanes = _own_part(copy)
    training = job.training(copy, lanes, group)
    found = ray.train.get_checkpoint()
    if found is not None:
        with found.as_directory() as folder:
            state = read_state(Path(folder) / STATE)
        assert state is not None
        training.restore(state)
    checkpoints = _Checkpoints(training, config["progress"], config["save_every"], group)
    if not training.is_over:
        rounds = read_rounds(copy, training.order, training.round, lanes=lanes)
        training.run(ahead(rounds), callback=checkpoints.tell if group.number == 0 else None, after=checkpoints.after)
    checkpoints.report()


def _train_module(config: dict[str, Any]) -> None:
    import ray.train
    import torch

    job: ModuleJob = config["job"]
    copy = ShuffledCopy(job.copy)
    group, lanes = _own_part(copy)
    progress = _ProgressFile(config["progress"])
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        found = ray.train.get_checkpoint()
        if found is not None:
            with found.as_directory() as folder:
                shutil.copy(Path(folder) / _MODULE, place / _MODULE)

        def after(epoch: int, epochs: int, loss: float) -> None:
            if epoch < epochs:
                _report({"epoch": epoch, "loss": loss}, place, group)

        fitted = job.run(
            copy,
            place / _MODULE,
            lanes=lanes,
            group=group,
            callback=after,
            tell=progress.tell if group.number == 0 else None,
        )
        if group.number == 0:
            torch.save(fitted.module.state_dict(), place / WEIGHTS)
            write_state(place / STATE, job.report_arrays(fitted))
        _report({"epoch": fitted.report.rounds}, place, group)


def _own_part(copy: ShuffledCopy) -> tuple[WorkerGroup, tuple[int, int]]:
    """Return the group that this worker is part of, and its lanes."""
    import ray.train

    context = ray.train.get_context()
    number, workers, lanes = context.get_world_rank(), context.get_world_size(), copy.shape.lanes
    return WorkerGroup(number, workers), (number * lanes // workers, (number + 1) * lanes // workers)


def _report(metrics: dict[str, Any], folder: Path, group: WorkerGroup) -> None:
    """Report to Ray Train, as all workers have to; the first brings the checkpoint."""
    import ray.train

    if group.number == 0:
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(str(folder)))
    else:
        ray.train.report(metrics)


class _ProgressFile:
    """A file in which the driver of the training finds its progress."""

    def __init__(self, path: Path) -> None:
        self._path, self._written = path, time.monotonic()

    def tell(self, done: int, total: int, loss: float) -> None:
        """Write the progress, but not too often."""
        if time.monotonic() - self._written > SECONDS_BETWEEN_LOOKS:
            self._written = time.monotonic()
            with suppress(DataError):
                write_json(self._path, [done, total, loss])


class _Checkpoints(_ProgressFile):
    """Decides, for all workers alike, when a checkpoint is due."""

    def __init__(self, training: LaneTraining, progress: Path, every: float, group: WorkerGroup) -> None:
        super().__init__(progress)
        self._training, self._every, self._group = training, every, group
        # The first round is worth keeping: starting workers takes longer.
        self._saved = -math.inf

    def after(self, _: LaneTraining) -> None:
        """Report after a round, if it is time by the first worker's clock."""
        due = np.zeros(1)
        if self._group.number == 0:
            due[0] = time.monotonic() - self._saved > self._every
        self._group.add(due)
        if due[0] > 0:
            self.report()

    def report(self) -> None:
        """Report the state of the training; all workers have to."""
        self._saved = time.monotonic()
        metrics = {"round": self._training.round, "steps": self._training.steps}
        with tempfile.TemporaryDirectory() as folder:
            write_state(Path(folder) / STATE, self._training.state())
            _report(metrics, Path(folder), self._group)
