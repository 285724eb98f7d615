"""Do the cells of a run in stacks, one stack after another, on one device."""

from __future__ import annotations

import time
from collections.abc import Sequence

from plr.paper.stacking import is_stackable, run_stack, stacks
from plr.paper.work import Item, StopError, Work, describe

__all__ = ["StackLoop"]


class StackLoop:
    """Does all cells of a run that can be stacked, and leaves the others to the threads.

    Parameters
    ----------
    work : Work
    device : str
        As PyTorch names it.
    """

    def __init__(self, work: Work, device: str) -> None:
        self._work = work
        self._device = device
        self._compiled = False

    def run(self) -> None:
        """Do stack after stack."""
        work = self._work
        try:
            waiting = stacks(work.take(is_stackable), work.workbench)
            work.start_clock()
            while waiting:
                work.check()
                waiting = self._do(waiting[0]) + waiting[1:]
        except StopError:
            return
        except BaseException:
            work.stop.set()
            raise

    def _do(self, items: Sequence[Item]) -> list[list[Item]]:
        """Do a stack; return what is left of it, in halves, where it could not be done, until the culprit is alone."""
        work = self._work
        mine = work.claim_among(items)
        if not mine:
            return []
        began = time.perf_counter()
        cost, epochs = work.cost(mine), work.workbench.protocol.epochs
        counted = 0.0

        def progress(done: int) -> None:
            nonlocal counted
            self._compiled = True
            work.check()
            work.count(cost * done / epochs - counted)
            counted = cost * done / epochs

        if not self._compiled:
            work.report(compiling=True)
        try:
            results = run_stack([cell for _, cell in mine], work.workbench, self._device, callback=progress)
        except BaseException as error:
            work.count(-counted)
            if isinstance(error, Exception) and not isinstance(error, StopError) and len(mine) == 1:
                work.count(cost)
                work.fail(mine[0][0], describe(error))
                return []
            work.store.release(*(key for key, _ in mine))
            if isinstance(error, StopError) or not isinstance(error, Exception):
                raise
            half = len(mine) // 2
            return [mine[:half], mine[half:]]
        work.finish(mine, results, time.perf_counter() - began)
        return []
