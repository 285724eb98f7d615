"""Training on a Ray cluster: Ray Train's workers have some lanes each, and add up their gradients in every step.

Up to four workers train on the batches that one process would, in the same order; so their number makes no difference
to the network but for rounding. More of them divide the rows into batches otherwise. Each worker reads its lanes of the
shuffled copy from the disk, which all machines of the cluster must share. Workers report checkpoints to Ray Train;
those that die are started again from the last one, as is a training whose driver has died.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import plr.errors
from plr.cluster.session import cluster_size, import_ray
from plr.cluster.workers import ERROR, SECONDS_BETWEEN_LOOKS, train_worker
from plr.contracts import Fitted
from plr.errors import ClusterError, PlrError
from plr.streaming.engine import Count, Progress
from plr.streaming.network_training import NetworkJob

if TYPE_CHECKING:
    from plr.learners import Module
    from plr.streaming.module_training import ModuleJob

__all__ = ["RayEngine", "local_cpus"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_FEWEST_LANES = 4
_PROGRESS = "progress.json"
# Code that workers have as well.
_EVERYWHERE = ("torch", "plr.", "builtins", "functools", "numpy", "sklearn")
# Deaths of workers that a training survives.
_MOST_FAILURES = 5
_SECONDS_BETWEEN_SAVES = 10.0


class RayEngine:
    """The engine for `plr.streaming.folder_fit.fit_folder` on a cluster that the process is connected to.

    Parameters
    ----------
    workers : int
        Processes that train; as many CPUs are asked for.
    save_every : float
        Seconds between two checkpoints.
    """

    def __init__(self, workers: int, save_every: float = _SECONDS_BETWEEN_SAVES) -> None:
        self.workers = workers
        self.save_every = save_every
        self.lanes = _FEWEST_LANES
        while self.lanes < workers:
            self.lanes *= 2

    def map(self, function: Callable[[Item, Count], Result], items: Sequence[Item], count: Count) -> Iterator[Result]:
        """Give the function's results, in order; each item is a task."""
        ray = import_ray()
        given = ray.put(function)
        task = ray.remote(num_cpus=1, max_retries=3)(_call)
        for reference in [task.remote(given, item) for item in items]:
            try:
                result, rows = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error from None
            except ray.exceptions.RayError as error:
                raise ClusterError(f"The cluster has lost a task for good: {_last_line(error)}") from error
            yield result
            count(rows)

    def train(self, job: NetworkJob | ModuleJob, folder: Path, tell: Progress | None) -> Fitted:
        """Let a group of workers train, from the last checkpoint if there is one."""
        size = cluster_size()
        if size.cpus < self.workers:
            raise ClusterError(
                f"{self.workers} workers need {self.workers} CPUs, and the cluster has {size}; ask for fewer with "
                "{parameter}.",
                parameter="workers",
                value=self.workers,
            )
        from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        module = None if isinstance(job, NetworkJob) else job.learner
        gpu = module is not None and module.device in ("auto", "cuda") and size.gpus >= self.workers
        progress = folder / _PROGRESS
        trainer = TorchTrainer(
            train_worker,
            train_loop_config={"job": job, "progress": progress, "save_every": self.save_every},
            torch_config=TorchConfig(backend="nccl" if gpu else "gloo"),
            scaling_config=ScalingConfig(
                num_workers=self.workers, use_gpu=gpu, resources_per_worker={"CPU": 1, **({"GPU": 1} if gpu else {})}
            ),
            run_config=RunConfig(
                name="ray",
                storage_path=str(folder.resolve()),
                failure_config=FailureConfig(max_failures=_MOST_FAILURES),
                checkpoint_config=CheckpointConfig(num_to_keep=2),
            ),
        )
        progress.with_name(ERROR).unlink(missing_ok=True)
        with _watching(progress, tell), nullcontext() if module is None else _sent_by_value(module):
            try:
                result = trainer.fit()
            except SystemExit:
                # Ray answers Ctrl-C by ending the process.
                raise KeyboardInterrupt from None
            except Exception as error:
                unexpected = ClusterError(f"Training on the cluster failed: {_last_line(error)}")
                raise _worker_error(progress) or unexpected from error
        failed = _worker_error(progress)
        if failed is not None:
            raise failed
        # From the last checkpoint on there is nothing left to train.
        with result.checkpoint.as_directory() as last:
            return job.run(Path(last))


def local_cpus(workers: int) -> int:
    """Return how many CPUs a cluster on this machine should count: at least one for each worker."""
    from plr.threads import default_workers

    return max(default_workers(), workers)


@contextmanager
def _sent_by_value(learner: Module) -> Iterator[None]:
    """Send code that only the driver can import along with the module; the installed packages workers have."""
    cloudpickle = import_ray().cloudpickle
    # What the user has registered stays registered.
    known = cloudpickle.cloudpickle.list_registry_pickle_by_value()
    homes = [name for name in _homes(learner.module) if not name.startswith(_EVERYWHERE) and name not in known]
    own = [sys.modules[name] for name in homes]
    for code in own:
        cloudpickle.register_pickle_by_value(code)
    try:
        yield
    finally:
        for code in own:
            cloudpickle.unregister_pickle_by_value(code)


def _homes(module: Any) -> set[str]:
    """Return the names of the modules that the code of a torch module, or of what makes one, is in."""
    if isinstance(module, partial):
        return _homes(module.func)
    parts = [module, *(module.modules() if hasattr(module, "modules") and not isinstance(module, type) else ())]
    names = {getattr(part, "__module__", None) or type(part).__module__ for part in parts}
    return {name for name in names if name in sys.modules}


@contextmanager
def _watching(progress: Path, tell: Progress | None) -> Iterator[None]:
    """Hand on the progress that workers write down, while a block lasts; Ctrl-C is then as it was before."""
    end = threading.Event()

    def watch() -> None:
        while not end.wait(SECONDS_BETWEEN_LOOKS):
            if tell is not None:
                with suppress(OSError, ValueError):
                    tell(*json.loads(progress.read_text()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
        end.set()
        watcher.join()


def _call(function: Callable[[Any, Count], Any], item: Any) -> tuple[Any, int]:
    """Return a function's result, and how many rows it has counted."""
    counted: list[int] = []
    return function(item, counted.append), sum(counted)


def _worker_error(progress: Path) -> Exception | None:
    """Return the error that a worker has written down, and remove it; None where there is none."""
    place = progress.with_name(ERROR)
    if not place.exists():
        return None
    kind, text = json.loads(place.read_text())
    place.unlink()
    found = getattr(plr.errors, kind, ClusterError)
    return found(text) if issubclass(found, PlrError) else ClusterError(text)


def _last_line(error: BaseException) -> str:
    """Return the last line of an error of Ray's, after its traceback."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
