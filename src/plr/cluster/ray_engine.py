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
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plr.cluster.session import cluster_size, import_ray
from plr.cluster.workers import ERROR, SECONDS_BETWEEN_LOOKS, STATE, WEIGHTS, train_worker
from plr.errors import ClusterError, PlrError
from plr.streaming.engine import Callback, State
from plr.streaming.lane_training import NetworkJob
from plr.streaming.scratch import Scratch, read_state

if TYPE_CHECKING:
    from plr.learners import Module
    from plr.learners.module import FittedModule
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
    """The engine for `plr.streaming.fit_folder` on a cluster that the process is connected to.

    Parameters
    ----------
    workers : int
        Processes that train; as many CPUs are asked for.
    save_every : float
        Seconds between two checkpoints.
    """

    local = False

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
        """Train, from the last checkpoint if there is one, and return the final state."""
        with self._trained(job, scratch, callback, gpu=False) as folder:
            state = read_state(folder / STATE)
        assert state is not None
        return state

    def train_module(self, job: ModuleJob, scratch: Scratch, callback: Callback | None) -> FittedModule:
        """Train a torch module, from the last checkpoint if there is one."""
        import torch

        gpu = job.learner.device in ("auto", "cuda") and cluster_size().gpus >= self.workers
        with _sent_by_value(job.learner), self._trained(job, scratch, callback, gpu=gpu) as folder:
            weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
            report = read_state(folder / STATE)
        assert report is not None
        return job.fitted(weights, report)

    @contextmanager
    def _trained(
        self, job: NetworkJob | ModuleJob, scratch: Scratch, callback: Callback | None, *, gpu: bool
    ) -> Iterator[Path]:
        """Let a group of workers train, and give the folder of the last checkpoint."""
        self._check_cpus()
        from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        progress = scratch.path / _PROGRESS
        trainer = TorchTrainer(
            train_worker,
            train_loop_config={"job": job, "progress": progress, "save_every": self.save_every},
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
        progress.with_name(ERROR).unlink(missing_ok=True)
        end = threading.Event()
        watcher = threading.Thread(target=_watch, args=(progress, callback, end), daemon=True)
        watcher.start()
        handler = signal.getsignal(signal.SIGINT)
        try:
            result = trainer.fit()
        except SystemExit:
            # Ray answers Ctrl-C by ending the process.
            raise KeyboardInterrupt from None
        except Exception as error:
            unexpected = ClusterError(f"Training on the cluster failed: {_last_line(error)}")
            raise _worker_error(progress) or unexpected from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, handler)
            end.set()
            watcher.join()
        failed = _worker_error(progress)
        if failed is not None:
            raise failed
        with result.checkpoint.as_directory() as folder:
            yield Path(folder)

    def _check_cpus(self) -> None:
        size = cluster_size()
        if size.cpus < self.workers:
            raise ClusterError(
                f"{self.workers} workers need {self.workers} CPUs, and the cluster has {size}; ask for fewer with "
                "{parameter}.",
                parameter="workers",
                value=self.workers,
            )


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


def _watch(progress: Path, callback: Callback | None, end: threading.Event) -> None:
    while not end.wait(SECONDS_BETWEEN_LOOKS):
        if callback is not None:
            with suppress(OSError, ValueError):
                done, total, loss = json.loads(progress.read_text())
                callback(done, total, loss)


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def _worker_error(progress: Path) -> Exception | None:
    """Return the error that a worker has written down, and remove it; None where there is none."""
    import plr.errors

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
