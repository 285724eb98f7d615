"""What each worker of a training on a cluster does: train its lanes with the others, and save checkpoints."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from plr.streaming.module_training import ModuleJob
    from plr.streaming.network_training import NetworkJob

__all__ = ["ERROR", "SECONDS_BETWEEN_LOOKS", "WorkerGroup", "train_worker"]

ERROR = "error.json"
"""The file of an error that ended a training."""

SECONDS_BETWEEN_LOOKS = 0.5
"""How often progress is written and read."""


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
    import ray.train

    job: NetworkJob | ModuleJob = config["job"]
    context = ray.train.get_context()
    group = WorkerGroup(context.get_world_rank(), context.get_world_size())
    with _own_errors(config["progress"]) as failed, tempfile.TemporaryDirectory() as folder:
        if failed:
            return
        before = ray.train.get_checkpoint()
        if before is not None:
            with before.as_directory() as place:
                shutil.copytree(place, folder, dirs_exist_ok=True)

        def report(*_: object) -> None:
            # All workers have to; the first brings the checkpoint.
            first = group.number == 0
            ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(folder) if first else None)

        written = time.monotonic()

        def tell(*progress: float) -> None:
            nonlocal written
            if group.number == 0 and time.monotonic() - written > SECONDS_BETWEEN_LOOKS:
                written = time.monotonic()
                with suppress(DataError):
                    write_json(config["progress"], progress)

        job.run(Path(folder), group, tell=tell, saved=report, save_every=config["save_every"])
        report()


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
