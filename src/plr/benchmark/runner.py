"""Do all cells of a protocol on all cores; may be stopped at any moment and shares a store with other runners."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from plr._parameters import check_integer
from plr.benchmark.execution import run_cell, warm_up
from plr.benchmark.grid import Cell, expand
from plr.benchmark.methods import get_method
from plr.benchmark.problems import Workbench
from plr.benchmark.protocol import Protocol
from plr.benchmark.store import Store
from plr.errors import StoreError

__all__ = ["Progress", "RunSummary", "default_workers", "run_benchmark", "run_cells"]

_SECONDS_BETWEEN_BEATS = 5.0
# How often to look whether another runner has finished, or abandoned, what it had claimed.
_SECONDS_BETWEEN_LOOKS = 0.5
# Loading kernels compiled before takes less.
_SECONDS_BEFORE_NOTICE = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    done, failed, total : int
        Cells; done includes those that were there before, or that another runner did.
    work, remaining_work : float
        Estimated work this run has done and that is left, in training steps.
    seconds : float
        Since the first cell began.
    compiling : bool
        Whether kernels are being compiled, which is done before the first cell and once per installation.
    """

    done: int
    failed: int
    total: int
    work: float
    remaining_work: float
    seconds: float
    compiling: bool = False

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end; None while there is nothing to judge by."""
        return self.seconds * self.remaining_work / self.work if self.work > 0 else None


@dataclass(frozen=True)
class RunSummary:
    """What a run came to: cells finished by it, there before, and failed, with the seconds it took."""

    finished: int
    found: int
    failed: int
    seconds: float


def default_workers() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_benchmark(
    protocol: Protocol,
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    data_home: str | os.PathLike[str] | None = None,
    command: str | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> RunSummary:
    """Do what is left of a protocol and keep the results in the folder ``out``.

    Parameters
    ----------
    protocol : Protocol
    out : path
        Folder of the store; made if needed, gone on with if it holds results of the same protocol.
    workers : int, optional
        Threads; all cores by default. Results do not depend on it.
    data_home : path, optional
        Folder to look for data sets in first.
    command : str, optional
        What was typed, for the record.
    callback : callable, optional
        Told the `Progress` now and then, from one thread at a time.

    Returns
    -------
    RunSummary
    """
    # Mistakes and missing data sets are found out before a folder is made.
    number = _check_workers(workers)
    workbench = Workbench(protocol, data_home)
    with Store.create(out, protocol) as store:
        return run_cells(protocol, store, number, workbench=workbench, command=command, callback=callback)


def run_cells(
    protocol: Protocol,
    store: Store,
    workers: int | None = None,
    *,
    workbench: Workbench | None = None,
    command: str | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> RunSummary:
    """Do the cells of a protocol that the store does not have yet; see `run_benchmark`."""
    number = _check_workers(workers)
    work = _Work(protocol, store, workbench or Workbench(protocol), callback)
    if work.is_over():
        work.report()
        return work.summary()
    work.report()
    work.compile()
    store.begin(command)
    with _heart(store), ThreadPoolExecutor(number, thread_name_prefix="plr-benchmark") as pool:
        futures = [pool.submit(work.loop) for _ in range(number)]
        try:
            # Waiting in short steps keeps the main thread ready to hear Ctrl-C.
            while not all(future.done() for future in futures):
                time.sleep(0.05)
        finally:
            work.stop.set()
    for future in futures:
        future.result()
    return work.summary()


def _check_workers(workers: int | None) -> int:
    return default_workers() if workers is None else check_integer("workers", workers, low=1)


class _StopError(Exception):
    """Raised inside a fit when the run is to end."""


class _Work:
    """The cells still to do, shared by the worker threads."""

    def __init__(
        self, protocol: Protocol, store: Store, workbench: Workbench, callback: Callable[[Progress], None] | None
    ) -> None:
        self.stop = threading.Event()
        self._store = store
        self._workbench = workbench
        self._callback = callback
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        states = store.states()
        keyed = [(cell.key(protocol), cell) for cell in expand(protocol)]
        self._total = len(keyed)
        left = [(key, cell) for key, cell in keyed if states.get(key) != "done"]
        self._cost = {key: self._estimate(cell) for key, cell in left}
        # Long cells first, so that no core ends up waiting for a long one begun last.
        self._waiting = deque(sorted(left, key=lambda item: -self._cost[item[0]]))
        self._taken: deque[tuple[str, Cell]] = deque()
        self._found = self._total - len(left)
        self._finished = self._elsewhere = self._failed = 0
        self._remaining = sum(self._cost.values())
        self._worked = 0.0

    def is_over(self) -> bool:
        """Return whether nothing is left to do."""
        return not self._waiting

    def loop(self) -> None:
        """Do cell after cell until none is left."""
        try:
            while not self.stop.is_set():
                item = self._next()
                if item is None:
                    return
                self._do(*item)
        except _StopError:
            return
        except BaseException:
            # A store that cannot be written to concerns all workers.
            self.stop.set()
            raise

    def compile(self) -> None:
        """Compile what the cells need, or load it; the callback is told if that takes long. The clock starts after."""
        waiting = [cell for _, cell in self._waiting]
        alarm = threading.Timer(_SECONDS_BEFORE_NOTICE, self.report, kwargs={"compiling": True})
        alarm.daemon = True
        alarm.start()
        try:
            warm_up(waiting, self._workbench.protocol)
        finally:
            alarm.cancel()
            alarm.join()
        self._began = time.perf_counter()
        self.report()

    def report(self, compiling: bool = False) -> None:
        """Tell the callback how far the run is."""
        if self._callback is None:
            return
        with self._lock:
            done = self._found + self._finished + self._elsewhere
            seconds = time.perf_counter() - self._began
            progress = Progress(done, self._failed, self._total, self._worked, self._remaining, seconds, compiling)
            self._callback(progress)

    def summary(self) -> RunSummary:
        """Return what the run came to."""
        seconds = time.perf_counter() - self._began
        return RunSummary(self._finished, self._found + self._elsewhere, self._failed, seconds)

    def _next(self) -> tuple[str, Cell] | None:
        """Claim the next cell; wait while all that is left is claimed by other runners; None when all is done."""
        while not self.stop.is_set():
            with self._lock:
                item = self._waiting.popleft() if self._waiting else None
                if item is None and not self._taken:
                    return None
            if item is None:
                self.stop.wait(_SECONDS_BETWEEN_LOOKS)
                with self._lock:
                    self._waiting.extend(self._taken)
                    self._taken.clear()
            elif self._store.claim(item[0]):
                return item
            elif self._store.is_done(item[0]):
                with self._lock:
                    self._elsewhere += 1
                    self._remaining -= self._cost[item[0]]
                self.report()
            else:
                with self._lock:
                    self._taken.append(item)
        return None

    def _do(self, key: str, cell: Cell) -> None:
        began = time.perf_counter()
        share = self._cost[key] / len(cell.settings(self._workbench.protocol))
        try:
            fits = run_cell(cell, self._workbench, check=self._check, fitted=lambda: self._count(share))
        except _StopError:
            self._store.release(key)
            raise
        except Exception as error:
            self._store.fail(key, _describe(error))
            with self._lock:
                self._failed += 1
        else:
            finished = self._store.finish(key, fits, time.perf_counter() - began)
            with self._lock:
                self._finished += finished
                self._elsewhere += not finished
        self.report()

    def _check(self) -> None:
        if self.stop.is_set():
            raise _StopError

    def _count(self, cost: float) -> None:
        with self._lock:
            self._worked += cost
            self._remaining -= cost
        self.report()

    def _estimate(self, cell: Cell) -> float:
        protocol = self._workbench.protocol
        steps = -(-self._workbench.training_rows(cell) // protocol.batch_size)
        return get_method(cell.method).cost * len(cell.settings(protocol)) * protocol.epochs * steps


@contextmanager
def _heart(store: Store) -> Iterator[None]:
    """Beat for as long as the block lasts."""
    end = threading.Event()

    def beat() -> None:
        while not end.wait(_SECONDS_BETWEEN_BEATS):
            try:
                store.beat()
            except StoreError:
                # The worker that next writes meets the same error and reports it.
                continue

    thread = threading.Thread(target=beat, name="plr-benchmark-heart", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _describe(error: Exception) -> str:
    """Return an error in words, with the place in the code but no path."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    file = where.filename.replace("\\", "/").rpartition("/")[2]
    return f"{type(error).__name__}: {error} (in {where.name}, {file}:{where.lineno})"
