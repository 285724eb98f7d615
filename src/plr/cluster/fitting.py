"""Training on a Ray cluster: Ray Train's workers have some lanes each, and add up their gradients in every step.

The workers train on the batches that one process would, in the same order; so their number makes no difference to the
network but for rounding. Where training stands is reported to Ray Train as a checkpoint now and then. Workers that die
are started again from the last one, as is a training whose driver has died.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from plr.cluster.session import cluster_size, import_ray
from plr.errors import ClusterError, PlrError
from plr.streaming.network import LaneTraining
from plr.streaming.scratch import Scratch, read_state, write_state
from plr.streaming.shuffled import ShuffledCopy, write_text
from plr.streaming.training import Callback, NetworkJob, State

if TYPE_CHECKING:
    from plr.learners import Module
    from plr.learners.module import FittedModule
    from plr.streaming.module import ModuleJob

__all__ = ["OnRay", "local_cpus"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_FEWEST_LANES = 4
_STATE, _PROGRESS = "progress.npz", "progress.json"
_ERROR = "error.json"
_MODULE, _WEIGHTS = "module.pt", "weights.pt"
# Deaths of workers that a training survives.
_MOST_FAILURES = 5
_SECONDS_BETWEEN_SAVES, _SECONDS_BETWEEN_LOOKS = 10.0, 0.5


class OnRay:
    """The engine for `plr.streaming.fit_folder` on a cluster that the process is connected to.

    Parameters
    ----------
    workers : int
        Processes that train; as many CPUs are asked for.
    save_every : float
        Seconds between two checkpoints.
    """

    here = False

    def __init__(self, workers: int, save_every: float = _SECONDS_BETWEEN_SAVES) -> None:
        self.workers = workers
        self.save_every = save_every
        self.lanes = _FEWEST_LANES
        while self.lanes < workers:
            self.lanes *= 2

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Give the function's results, in order; each item is a task."""
        ray = import_ray()
        given = ray.put(function)
        task = ray.remote(num_cpus=1, max_retries=3)(_call)
        waiting = [task.remote(given, item) for item in items]
        for reference in waiting:
            try:
                yield ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error from None
            except ray.exceptions.RayError as error:
                raise ClusterError(f"The cluster has lost a task for good: {_last_line(error)}") from error

    def train(self, job: NetworkJob, scratch: Scratch, callback: Callback | None) -> State:
        """Train, from where an earlier attempt has come to, and return where training stands in the end."""
        with self._trained(train_worker, job, scratch, callback, gpu=False) as folder:
            state = read_state(folder / _STATE)
        assert state is not None
        return state

    def train_module(self, job: ModuleJob, scratch: Scratch, callback: Callback | None) -> FittedModule:
        """Train a torch module, from where an earlier attempt has come to."""
        import torch

        gpu = job.learner.device in ("auto", "cuda") and cluster_size().gpus >= self.workers
        with _sent_by_value(job.learner), self._trained(train_module_worker, job, scratch, callback, gpu=gpu) as folder:
            weights = torch.load(folder / _WEIGHTS, map_location="cpu", weights_only=True)
            told = read_state(folder / _STATE)
        assert told is not None
        return job.fitted(weights, told)

    @contextmanager
    def _trained(
        self,
        work: Callable[[dict[str, Any]], None],
        job: object,
        scratch: Scratch,
        callback: Callback | None,
        *,
        gpu: bool,
    ) -> Iterator[Path]:
        """Let a group of workers train, and give the folder of the last checkpoint."""
        self._check_room()
        from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        told = scratch.path / _PROGRESS
        trainer = TorchTrainer(
            work,
            train_loop_config={"job": job, "told": told, "save_every": self.save_every},
            torch_config=TorchConfig(backend="nccl" if gpu else "gloo"),
            scaling_config=ScalingConfig(
                num_workers=self.workers, use_gpu=gpu, resources_per_worker={"CPU": 1, **({"GPU": 1} if gpu else {})}
            ),
            run_config=RunConfig(
                name="ray",
                storage_path=str(scratch.path.resolve()),
                failure_config=FailureConfig(max_failures=_MOST_FAILURES),
                checkpoint_config=CheckpointConfig(num_to_keep=2),
            ),
        )
        end = threading.Event()
        watcher = threading.Thread(target=_watch, args=(told, callback, end), daemon=True)
        watcher.start()
        try:
            result = trainer.fit()
        except Exception as error:
            raise _told_error(told) or ClusterError(f"Training on the cluster failed: {_last_line(error)}") from error
        finally:
            end.set()
            watcher.join()
        wrong = _told_error(told)
        if wrong is not None:
            raise wrong
        with result.checkpoint.as_directory() as folder:
            yield Path(folder)

    def _check_room(self) -> None:
        size = cluster_size()
        if size.cpus < self.workers + 1:
            raise ClusterError(
                f"{self.workers} workers need {self.workers + 1} CPUs, one of them for reading, and the cluster has "
                f"{size}; ask for fewer with --workers."
            )


def local_cpus(workers: int) -> int:
    """Return how many CPUs a cluster of this machine's own should count: the workers', and some to read with."""
    from plr.benchmark.runner import default_workers

    return max(default_workers(), workers + 2)


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
    place = told.with_name(_ERROR)
    if place.exists():
        yield True
        return
    try:
        yield False
    except (_LostError, ConnectionError):
        raise
    except Exception as error:
        if isinstance(error, PlrError):
            write_text(place, json.dumps([type(error).__name__, str(error)]))
        else:
            where = traceback.format_exception_only(error)[-1].strip()
            write_text(place, json.dumps(["ClusterError", f"Training on the cluster failed: {where}"]))
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
            state = read_state(Path(folder) / _STATE)
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
            rounds=lambda copy, order, first: rounds_from_ray(copy, order, lanes, first),
            callback=after,
            tell=teller.tell if together.number == 0 else None,
        )
        if together.number == 0:
            torch.save(fitted.module.state_dict(), place / _WEIGHTS)
            write_state(place / _STATE, job.told(fitted))
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
        if time.monotonic() - self._spoken > _SECONDS_BETWEEN_LOOKS:
            self._spoken = time.monotonic()
            with suppress(OSError):
                write_text(self._told, json.dumps([done, total, loss]))


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
            write_state(Path(folder) / _STATE, self._training.state())
            _report(metrics, Path(folder), self._together)


@contextmanager
def _sent_by_value(learner: Module) -> Iterator[None]:
    """Send code that only the driver can import along with the module; the installed packages workers have."""
    import sys

    cloudpickle = import_ray().cloudpickle
    name = getattr(learner.module, "__module__", None) or type(learner.module).__module__
    code = sys.modules.get(name)
    own = code is not None and not name.startswith(("torch", "plr."))
    if own:
        cloudpickle.register_pickle_by_value(code)
    try:
        yield
    finally:
        if own:
            cloudpickle.unregister_pickle_by_value(code)


def _watch(told: Path, callback: Callback | None, end: threading.Event) -> None:
    while not end.wait(_SECONDS_BETWEEN_LOOKS):
        if callback is not None:
            with suppress(OSError, ValueError):
                done, total, loss = json.loads(told.read_text())
                callback(done, total, loss)


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def _told_error(told: Path) -> Exception | None:
    """Return the error that a worker has left word of, once; None where there is none."""
    import plr.errors

    place = told.with_name(_ERROR)
    if not place.exists():
        return None
    kind, text = json.loads(place.read_text())
    place.unlink()
    found = getattr(plr.errors, kind, ClusterError)
    return found(text) if issubclass(found, PlrError) else ClusterError(text)


def _last_line(error: BaseException) -> str:
    """Return what Ray says in the end, after the places in the code."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
