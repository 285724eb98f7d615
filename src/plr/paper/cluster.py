"""The cells of a benchmark as Ray tasks; the store, and all that is claimed and counted, stays with this process."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from plr.cluster.session import cluster_size, import_ray
from plr.errors import ClusterError, ParameterError, PlrError
from plr.paper.execution import Fit, run_cell, warm_up
from plr.paper.grid import Cell
from plr.paper.methods import METHODS, MODELS, get_method
from plr.paper.problems import Workbench
from plr.paper.stacking import check_device, is_stackable, run_stack, stacks
from plr.paper.work import SECONDS_BETWEEN_LOOKS, Item, Work, describe

__all__ = ["GridLoop", "Outcome", "check_cluster", "check_device_name", "describe_cluster", "do_cell", "do_stack"]

# Of a task whose process or node has died; an error in a cell is its result and is not tried again.
_RETRIES = 3

_SECONDS_BETWEEN_WAITS = 0.2

# The cluster may grow and shrink. It is lost when it has not answered for so long; after a minute without an answer Ray
# ends this process, before anything can be said.
_SECONDS_BETWEEN_QUESTIONS = 5.0
_SECONDS_WITHOUT_ANSWER = 25.0

Parcel = tuple[str, Any]
"""A name of its own for a run, and where its data and methods lie in the cluster. Inside a tuple, the reference is
handed over as it is: a worker fetches what it stands for once, not with every cell."""

# On a worker: of the run that this process last worked for.
_KEPT: dict[str, Workbench] = {}


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
        self._ray = ray = import_ray()
        # Cells that this run has claimed and Ray is doing, and whether as a stack.
        self._running: dict[Any, tuple[list[Item], bool]] = {}
        self._stacks: deque[list[Item]] = deque()
        self._looked = 0.0
        self._ended = threading.Event()
        self._lost: Exception | None = None
        if device != "cpu":
            self._stacks.extend(stacks(work.take(is_stackable), work.workbench))
        protocol = work.workbench.protocol
        # What this process may have added to plr's own lists.
        methods = {name: get_method(name) for name in protocol.methods}
        models = {name: MODELS[name] for name in protocol.models}
        try:
            self._parcel: Parcel = (uuid.uuid4().hex, ray.put((work.workbench, methods, models)))
        except ray.exceptions.RayError as error:
            raise _unable(error) from error
        except Exception as error:
            raise ParameterError(
                f"The methods {', '.join(protocol.methods)} cannot be sent to a cluster: {error}"
            ) from error
        # A GPU has nothing to do while its stack waits for one of the CPUs that cells are busy on.
        needs = {"num_cpus": 0, "num_gpus": 1} if device == "cuda" else {"num_cpus": 1, "num_gpus": 0}
        self._do_cell = ray.remote(do_cell).options(max_retries=_RETRIES, num_cpus=1, num_gpus=0)
        self._do_stack = ray.remote(do_stack).options(max_retries=_RETRIES, **needs)
        # Errors that say that a process was lost, again and again; the fault may be the cell's.
        errors = ray.exceptions
        self._deaths = (errors.OutOfMemoryError, errors.WorkerCrashedError, errors.NodeDiedError)

    def warm(self, cells: list[Cell]) -> None:
        """Compile what some cells need, once on every node that has CPUs."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = self._ray
        kinds = list({(cell.model, cell.method): cell for cell in cells}.values())
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        compiling = [
            ray.remote(warm)
            # Of no CPU, because other programs may be using all of them for hours.
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True))
            .remote(self._parcel, kinds)
            for node in (nodes if kinds else [])
        ]
        for reference in compiling:
            try:
                ray.get(reference)
            except self._deaths:
                # Its cells compile for themselves, and if they die too, that is recorded.
                continue
            except ray.exceptions.RayError as error:
                raise _unable(error) from error

    def run(self) -> None:
        """Submit tasks and record their results until no cell is left."""
        work = self._work
        self._size, self._heard = cluster_size(), time.monotonic()
        threading.Thread(target=self._watch, name="plr-cluster-size", daemon=True).start()
        try:
            with work.stopping():
                while self._stacks or self._running or not work.is_settled():
                    work.check()
                    self._submit()
                    if self._running:
                        self._collect()
                    else:
                        work.stop.wait(_SECONDS_BETWEEN_WAITS)
        finally:
            self._ended.set()
            self._cancel()

    def _watch(self) -> None:
        """Ask the cluster for its size now and then; where the cluster is lost, the question never returns."""
        while not self._ended.wait(_SECONDS_BETWEEN_QUESTIONS):
            try:
                self._size, self._heard = cluster_size(), time.monotonic()
            except Exception as error:
                self._lost = error
                return

    def _submit(self) -> None:
        if self._lost is not None or time.monotonic() - self._heard > _SECONDS_WITHOUT_ANSWER:
            raise ClusterError(
                "The Ray cluster is lost: it no longer answers. Finished cells are in the store; run the same "
                "command again to resume."
            ) from self._lost
        work = self._work
        while self._stacks and self._room(stacked=True) > 0:
            items = work.claim_among(self._stacks.popleft())
            if items:
                reference = self._do_stack.remote(self._parcel, [cell for _, cell in items], self._device)
                self._running[reference] = (items, True)
        room = self._room(stacked=False)
        if room > 0 and work.is_over() and time.monotonic() - self._looked > SECONDS_BETWEEN_LOOKS:
            work.look_again()
            self._looked = time.monotonic()
        for item in work.claim(room):
            self._running[self._do_cell.remote(self._parcel, item[1])] = ([item], False)

    def _room(self, *, stacked: bool) -> int:
        """Return how many more tasks may be given to Ray: what is claimed and not done, other runners wait for."""
        same = sum(as_stack == stacked for _, as_stack in self._running.values())
        there = self._size.gpus if stacked and self._device == "cuda" else self._size.cpus
        # A cluster that starts nodes on demand begins with none. Stacks are long, and hold many cells each.
        room = max(1, there) * (1 if stacked else 2) - same
        return room if self._most is None else min(room, self._most - len(self._running))

    def _collect(self) -> None:
        """Record what has ended, waiting for a moment."""
        work, ray = self._work, self._ray
        references = list(self._running)
        ended, _ = ray.wait(references, timeout=_SECONDS_BETWEEN_WAITS)
        if ended:
            ended, _ = ray.wait(references, num_returns=len(references), timeout=0)
        for reference in ended:
            outcome = self._outcome(reference)
            if outcome.unfit:
                raise ClusterError(f"A worker of the cluster cannot do stacks: {outcome.error}")
            items, _ = self._running[reference]
            if outcome.error is None:
                work.count(work.cost(items))
                work.finish(items, outcome.fits, outcome.seconds)
            else:
                self._stacks.extendleft(reversed(work.fail(items, outcome.error)))
            # Not before: what is still listed here when anything fails is released.
            del self._running[reference]

    def _outcome(self, reference: Any) -> Outcome:
        try:
            return self._ray.get(reference)
        except self._deaths as error:
            short = isinstance(error, self._ray.exceptions.OutOfMemoryError)
            why = "Ray ended it, because its node ran out of memory" if short else "killed, or out of memory"
            return Outcome([], error=f"Its process ended {_RETRIES + 1} times without a result: {why}.")
        except self._ray.exceptions.RayError as error:
            raise _unable(error) from error

    def _cancel(self) -> None:
        """Give back what is not done."""
        keys = [key for items, _ in self._running.values() for key, _ in items]
        for reference in self._running:
            # Where the cluster is lost, there is nothing to cancel.
            with suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._running.clear()
        if keys:
            self._work.store.release(*keys)


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


@dataclass(frozen=True)
class Outcome:
    """What became of some cells on a worker: the fits of each, or in words why there are none.

    ``unfit`` says that the worker can do no such cell at all.
    """

    fits: list[list[Fit]]
    seconds: float = 0.0
    error: str | None = None
    unfit: bool = False


def do_cell(parcel: Parcel, cell: Cell) -> Outcome:
    """Do one cell on a CPU."""
    workbench = _unpack(parcel)
    return _timed(lambda: [run_cell(cell, workbench)])


def do_stack(parcel: Parcel, cells: Sequence[Cell], device: str) -> Outcome:
    """Do some cells of one data set and architecture at once, on the GPU that Ray has set aside or on the CPU."""
    workbench = _unpack(parcel)
    try:
        name = check_device(device)
    except PlrError as error:
        return Outcome([], error=str(error), unfit=True)
    return _timed(lambda: run_stack(cells, workbench, name))


def warm(parcel: Parcel, cells: Sequence[Cell]) -> None:
    """Compile what some cells need, for all later processes of this node."""
    warm_up(cells, _unpack(parcel).protocol)


def _timed(work: Callable[[], list[list[Fit]]]) -> Outcome:
    began = time.perf_counter()
    try:
        return Outcome(work(), time.perf_counter() - began)
    except Exception as error:
        # As words, because an error may not survive the way to another process, and its place in the code does not.
        return Outcome([], time.perf_counter() - began, describe(error))


def _unpack(parcel: Parcel) -> Workbench:
    name, reference = parcel
    if name not in _KEPT:
        import ray

        workbench, methods, models = ray.get(reference)
        METHODS.update(methods)
        MODELS.update(models)
        _KEPT.clear()
        _KEPT[name] = workbench
    return _KEPT[name]
