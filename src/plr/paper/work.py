"""The cells of a run that are still to do, shared by its threads: taking them, doing them, counting them."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from plr.paper.execution import Fit, run_cell, warm_up
from plr.paper.grid import Cell, expand
from plr.paper.methods import get_method
from plr.paper.problems import Workbench
from plr.paper.protocol import Protocol
from plr.paper.store import Store

__all__ = ["SECONDS_BETWEEN_LOOKS", "Item", "RunProgress", "RunSummary", "StopError", "Work", "describe"]

Item = tuple[str, Cell]
"""A cell with its key."""

SECONDS_BETWEEN_LOOKS = 0.5
"""How often to look whether another runner has finished, or abandoned, what it had claimed."""

# Loading kernels compiled before takes less.
_SECONDS_BEFORE_NOTICE = 1.0


@dataclass(frozen=True)
class RunProgress:
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


@dataclass(frozen=True)
class RunSummary:
    """The result of a run: cells that it finished, that were finished before, and that failed; seconds it took."""

    finished: int
    found: int
    failed: int
    seconds: float


class StopError(Exception):
    """Raised inside a fit when the run is to end."""


class Work:
    """The cells still to do, shared by the worker threads.

    A cell is claimed, done, and then finished, failed or put back.
    """

    def __init__(
        self, protocol: Protocol, store: Store, workbench: Workbench, callback: Callable[[RunProgress], None] | None
    ) -> None:
        self.stop = threading.Event()
        self.store = store
        self.workbench = workbench
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
        self._taken: deque[Item] = deque()
        self._found = self._total - len(left)
        self._ended = Counter(finished=0, elsewhere=0, failed=0)
        self._remaining = sum(self._cost.values())
        self._worked = 0.0

    def is_over(self) -> bool:
        """Return whether no cell is waiting."""
        return not self._waiting

    def is_settled(self) -> bool:
        """Return whether no cell is waiting, here or with other runners."""
        with self._lock:
            return not self._waiting and not self._taken

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """End the block when the run is to end; an error in it, such as a store that is full, stops all workers."""
        try:
            yield
        except StopError:
            return
        except BaseException:
            self.stop.set()
            raise

    def loop(self) -> None:
        """Do cell after cell until none is left; wait while all that is left is claimed by other runners."""
        with self.stopping():
            while not self.stop.is_set():
                claimed = self.claim(1)
                if claimed:
                    self._do(*claimed[0])
                elif self.is_settled():
                    return
                else:
                    self.stop.wait(SECONDS_BETWEEN_LOOKS)
                    self.look_again()

    def compile(
        self, warm: Callable[[list[Cell]], None] | None = None, patience: float = _SECONDS_BEFORE_NOTICE
    ) -> None:
        """Compile or load what the cells need; the callback is called if that takes long. Seconds count from there."""
        warm = warm or partial(warm_up, protocol=self.workbench.protocol)
        alarm = threading.Timer(patience, self.report, kwargs={"compiling": True})
        alarm.daemon = True
        alarm.start()
        try:
            warm([cell for _, cell in self._waiting])
        finally:
            alarm.cancel()
            alarm.join()
        self.start_clock()
        self.report()

    def report(self, compiling: bool = False) -> None:
        """Call the callback with the progress of the run."""
        if self._callback is None:
            return
        with self._lock:
            done, failed = self._found + self._ended["finished"] + self._ended["elsewhere"], self._ended["failed"]
            seconds = time.perf_counter() - self._began
            self._callback(RunProgress(done, failed, self._total, self._worked, self._remaining, seconds, compiling))

    def summary(self) -> RunSummary:
        """Return the result of the run."""
        ended, seconds = self._ended, time.perf_counter() - self._began
        return RunSummary(ended["finished"], self._found + ended["elsewhere"], ended["failed"], seconds)

    def claim(self, most: int) -> list[Item]:
        """Claim the next cells that no runner has, without waiting; fewer than asked for where there are no more."""
        claimed: list[Item] = []
        while len(claimed) < most and self._waiting and not self.stop.is_set():
            with self._lock:
                items = [self._waiting.popleft() for _ in range(min(most - len(claimed), len(self._waiting)))]
            free = set(self.store.claim(*(key for key, _ in items)))
            for item in items:
                if item[0] in free:
                    claimed.append(item)
                elif self.store.is_done(item[0]):
                    self.count(skipped=self.cost([item]), elsewhere=1)
                else:
                    with self._lock:
                        self._taken.append(item)
        return claimed

    def claim_among(self, items: Sequence[Item]) -> list[Item]:
        """Claim those of some cells that no runner has; the others are waited for in the end, or taken over."""
        free = set(self.store.claim(*(key for key, _ in items)))
        with self._lock:
            self._waiting.extend(item for item in items if item[0] not in free)
        return [item for item in items if item[0] in free]

    def look_again(self) -> None:
        """Put what others had claimed back on the list."""
        with self._lock:
            self._waiting.extend(self._taken)
            self._taken.clear()

    def take(self, wanted: Callable[[Cell], bool]) -> list[Item]:
        """Take all waiting cells of some kind off the list."""
        with self._lock:
            taken = [item for item in self._waiting if wanted(item[1])]
            self._waiting = deque(item for item in self._waiting if not wanted(item[1]))
        return taken

    def cost(self, items: Iterable[Item]) -> float:
        """Return the estimated work of some cells, in training steps."""
        return sum(self._cost[key] for key, _ in items)

    def count(self, work: float = 0.0, *, skipped: float = 0.0, **ended: int) -> None:
        """Count work that is done or need not be done, and cells that are finished, elsewhere or failed."""
        with self._lock:
            self._worked += work
            self._remaining -= work + skipped
            self._ended.update(ended)
        self.report()

    def finish(self, items: Sequence[Item], results: Sequence[Iterable[Fit]], seconds: float) -> None:
        """Record the results of claimed cells, and how long they took together."""
        cost = self.cost(items)
        finished = self.store.finish(
            *((item[0], fits, seconds * self.cost([item]) / cost) for item, fits in zip(items, results, strict=True))
        )
        self.count(finished=finished, elsewhere=len(items) - finished)

    def fail(self, items: list[Item], error: str) -> list[list[Item]]:
        """Record that a cell could not be done, and why; of several, return the halves, to find the one that fails."""
        if len(items) == 1:
            self.store.fail(items[0][0], error)
            self.count(self.cost(items), failed=1)
            return []
        self.store.release(*(key for key, _ in items))
        half = len(items) // 2
        return [items[:half], items[half:]]

    def start_clock(self) -> None:
        """Count seconds from now on, unless cells have been done already."""
        if not self._worked:
            self._began = time.perf_counter()

    def check(self) -> None:
        """Raise `StopError` if the run is to end."""
        if self.stop.is_set():
            raise StopError

    def _do(self, key: str, cell: Cell) -> None:
        began = time.perf_counter()
        share = self._cost[key] / len(cell.settings(self.workbench.protocol))
        try:
            fits = run_cell(cell, self.workbench, check=self.check, fitted=lambda: self.count(share))
        except StopError:
            self.store.release(key)
            raise
        except Exception as error:
            self.store.fail(key, describe(error))
            self.count(failed=1)
        else:
            self.finish([(key, cell)], [fits], time.perf_counter() - began)

    def _estimate(self, cell: Cell) -> float:
        protocol = self.workbench.protocol
        steps = -(-self.workbench.training_rows(cell) // protocol.batch_size)
        return get_method(cell.method).cost * len(cell.settings(protocol)) * protocol.epochs * steps


def describe(error: Exception) -> str:
    """Return an error in words, with the place in the code but no path."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    file = where.filename.replace("\\", "/").rpartition("/")[2]
    return f"{type(error).__name__}: {error} (in {where.name}, {file}:{where.lineno})"
