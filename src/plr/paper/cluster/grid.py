"""The cells of a benchmark as Ray tasks; the store, and all that is claimed and counted, stays with this process."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from plr.cluster.session import Size, cluster_size, import_ray
from plr.errors import ClusterError, ParameterError
from plr.paper.cluster.tasks import Outcome, Parcel, do_cell, do_stack, pack, warm
from plr.paper.grid import Cell
from plr.paper.problems import Workbench
from plr.paper.protocol import Protocol
from plr.paper.stacking import is_stackable, stacks
from plr.paper.work import SECONDS_BETWEEN_LOOKS, Item, StopError, Work

__all__ = ["GridLoop", "check_cluster", "check_device_name", "describe_cluster", "needs"]

# Of a task whose process or node has died; an error in a cell is its result and is not tried again.
_RETRIES = 3

_SECONDS_BETWEEN_WAITS = 0.2

# The cluster may grow and shrink. It is lost when it has not answered for so long; after a minute without an answer Ray
# ends this process, before anything can be said.
_SECONDS_BETWEEN_QUESTIONS = 5.0
_SECONDS_WITHOUT_ANSWER = 25.0


def needs(device: str | None = None) -> dict[str, float]:
    """Return what a task asks the cluster for: a cell for a CPU, a stack for a GPU, or for a CPU where it runs on one.

    >>> needs(), needs("torch"), needs("cuda")
    ({'num_cpus': 1, 'num_gpus': 0}, {'num_cpus': 1, 'num_gpus': 0}, {'num_cpus': 0, 'num_gpus': 1})
    """
    # A GPU has nothing to do while its stack waits for one of the CPUs that cells are busy on.
    return {"num_cpus": 0, "num_gpus": 1} if device == "cuda" else {"num_cpus": 1, "num_gpus": 0}


def check_device_name(device: str) -> None:
    """Make sure that a device can be asked for on a cluster."""
    if device.startswith("cuda:"):
        raise ParameterError(f"--device {device}: on a cluster Ray chooses the GPU; use --device cuda.")
    if device not in ("cpu", "cuda", "torch"):
        raise ParameterError(f"Unknown device {device!r}; on a cluster choose cpu, cuda or torch.")


def check_cluster(device: str) -> None:
    """Make sure that the cluster connected to has the device."""
    size = cluster_size()
    if device == "cuda" and not size.gpus:
        raise ClusterError(f"--device cuda: the Ray cluster has no GPU ({size}). Without a GPU use --device cpu.")


def describe_cluster(device: str) -> str:
    """Return what the cluster connected to is, for the record of a run."""
    stacked = "" if device == "cpu" else f"; stacks on {device}, other cells on cpu"
    return f"ray: {cluster_size()}{stacked}"


@dataclass(frozen=True)
class _Task:
    """Cells that this run has claimed and Ray is doing."""

    items: list[Item]
    stacked: bool


class GridLoop:
    """Does the cells of a run on the cluster connected to.

    Parameters
    ----------
    work : Work
    device : {"cpu", "cuda", "torch"}
        Where cells that can be stacked are done; the others are done on CPUs.
    most : int, optional
        The largest number of tasks at a time; by default as many as the cluster can do, with as many again waiting, so
        that no worker does.
    """

    def __init__(self, work: Work, device: str = "cpu", most: int | None = None) -> None:
        self._work = work
        self._device = device
        self._most = most
        self._ray = import_ray()
        self._running: dict[Any, _Task] = {}
        self._stacks: deque[list[Item]] = deque()
        self._looked = 0.0
        if device != "cpu":
            self._stacks.extend(stacks(work.take(is_stackable), work.workbench))
        self._parcel = _send(self._ray, work.workbench)
        self._do_cell = self._remote(do_cell, None)
        self._do_stack = self._remote(do_stack, device)

    def warm(self, cells: list[Cell], protocol: Protocol) -> None:
        """Compile what some cells need, once on every node that has CPUs."""
        del protocol
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = self._ray
        kinds = list({(cell.model, cell.method): cell for cell in cells}.values())
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        if not kinds or not nodes:
            return
        compiling = [
            ray.remote(warm)
            # Of no CPU, because other programs may be using all of them for hours.
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True))
            .remote(self._parcel, kinds)
            for node in nodes
        ]
        for reference in compiling:
            try:
                ray.get(reference)
            except _deaths(ray):
                # Its cells compile for themselves, and if they die too, that is recorded.
                continue
            except ray.exceptions.RayError as error:
                raise _unable(error) from error

    def run(self) -> None:
        """Submit tasks and record their results until no cell is left."""
        work = self._work
        try:
            with _questions() as answers:
                while self._stacks or self._running or not work.is_settled():
                    work.check()
                    self._submit(answers.size())
                    if self._running:
                        self._collect()
                    else:
                        work.stop.wait(_SECONDS_BETWEEN_WAITS)
        except StopError:
            return
        except BaseException:
            work.stop.set()
            raise
        finally:
            self._cancel()

    def _remote(self, function: Any, device: str | None) -> Any:
        return self._ray.remote(function).options(max_retries=_RETRIES, **needs(device))

    def _submit(self, size: Size) -> None:
        work = self._work
        while self._stacks and self._room(size, stacked=True) > 0:
            items = work.claim_among(self._stacks.popleft())
            if items:
                reference = self._do_stack.remote(self._parcel, [cell for _, cell in items], self._device)
                self._running[reference] = _Task(items, stacked=True)
        room = self._room(size, stacked=False)
        if room > 0 and work.is_over() and time.monotonic() - self._looked > SECONDS_BETWEEN_LOOKS:
            work.look_again()
            self._looked = time.monotonic()
        for item in work.claim(room):
            self._running[self._do_cell.remote(self._parcel, item[1])] = _Task([item], stacked=False)

    def _room(self, size: Size, *, stacked: bool) -> int:
        """Return how many more tasks may be given to Ray: what is claimed and not done, other runners wait for."""
        same = sum(task.stacked == stacked for task in self._running.values())
        there = size.gpus if stacked and self._device == "cuda" else size.cpus
        # A cluster that starts nodes on demand begins with none. Stacks are long, and hold many cells each.
        room = max(1, there) * (1 if stacked else 2) - same
        return room if self._most is None else min(room, self._most - len(self._running))

    def _collect(self) -> None:
        """Record what has ended, waiting for a moment."""
        ray = self._ray
        references = list(self._running)
        ended, _ = ray.wait(references, timeout=_SECONDS_BETWEEN_WAITS)
        if ended:
            ended, _ = ray.wait(references, num_returns=len(references), timeout=0)
        for reference in ended:
            outcome = self._outcome(reference)
            if outcome.unfit:
                raise ClusterError(f"A worker of the cluster cannot do stacks: {outcome.error}")
            self._record(self._running[reference], outcome)
            # Not before: what is still listed here when anything fails is released.
            del self._running[reference]

    def _outcome(self, reference: Any) -> Outcome:
        try:
            return self._ray.get(reference)
        except _deaths(self._ray) as error:
            short = isinstance(error, self._ray.exceptions.OutOfMemoryError)
            why = "Ray ended it, because its node ran out of memory" if short else "killed, or out of memory"
            return Outcome([], error=f"Its process ended {_RETRIES + 1} times without a result: {why}.")
        except self._ray.exceptions.RayError as error:
            raise _unable(error) from error

    def _record(self, task: _Task, outcome: Outcome) -> None:
        work, items = self._work, task.items
        if outcome.error is None:
            work.count(work.cost(items))
            work.finish(items, outcome.fits, outcome.seconds)
        elif len(items) == 1:
            work.count(work.cost(items))
            work.fail(items[0][0], outcome.error)
        else:
            # Halved until the cell that fails is alone, as on one machine.
            work.store.release(*(key for key, _ in items))
            half = len(items) // 2
            self._stacks.extendleft([items[half:], items[:half]])

    def _cancel(self) -> None:
        """Give back what is not done."""
        keys = [key for task in self._running.values() for key, _ in task.items]
        for reference in self._running:
            # Where the cluster is lost, there is nothing to cancel.
            with suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._running.clear()
        if keys:
            self._work.store.release(*keys)


@dataclass
class _Answers:
    """The latest size of the cluster, or what went wrong when asking for it."""

    latest: Size
    heard: float = field(default_factory=time.monotonic)
    error: Exception | None = None

    def size(self) -> Size:
        silent = time.monotonic() - self.heard
        if self.error is not None or silent > _SECONDS_WITHOUT_ANSWER:
            raise ClusterError(
                "The Ray cluster is lost: it no longer answers. Finished cells are in the store; run the same "
                "command again to resume."
            ) from self.error
        return self.latest


@contextmanager
def _questions() -> Iterator[_Answers]:
    """Ask the cluster for its size now and then, in a thread: where the cluster is lost, the question never returns."""
    answers = _Answers(cluster_size())
    end = threading.Event()

    def ask() -> None:
        while not end.wait(_SECONDS_BETWEEN_QUESTIONS):
            try:
                answers.latest = cluster_size()
            except Exception as error:
                answers.error = error
                return
            answers.heard = time.monotonic()

    threading.Thread(target=ask, name="plr-cluster-size", daemon=True).start()
    try:
        yield answers
    finally:
        end.set()


def _send(ray: Any, workbench: Workbench) -> Parcel:
    try:
        return Parcel(uuid.uuid4().hex, ray.put(pack(workbench)))
    except ray.exceptions.RayError as error:
        raise _unable(error) from error
    except Exception as error:
        raise ParameterError(
            f"The methods {', '.join(workbench.protocol.methods)} cannot be sent to a cluster: {error}"
        ) from error


def _unable(error: Exception) -> ClusterError:
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [""]
    # Ray's own errors put what counts first; one that came from a worker as text has it last.
    text = (lines[-1] if lines[0].startswith("Traceback") else lines[0]).strip()
    return ClusterError(
        f"The Ray cluster cannot do cells ({type(cause).__name__}: {text}). Every node needs the same plr, Ray and "
        f"Python as here. Finished cells are in the store; run the same command again to "
        f"resume."
    )


def _deaths(ray: Any) -> tuple[type[Exception], ...]:
    """Return the errors that say that a process was lost, again and again; the fault may be the cell's."""
    errors = ray.exceptions
    return errors.OutOfMemoryError, errors.WorkerCrashedError, errors.NodeDiedError
