"""Threads of libraries: one for linear algebra for as long as anybody needs it, and turns with LightGBM.

The last bits of a product depend on how many threads compute it. That number belongs to the whole process: where
several threads set and restored it each for itself, the first to leave would take the limit away from the others.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl

__all__ = ["LIGHTGBM", "Turns", "default_workers", "one_blas_thread"]

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let products of numpy and scipy use one thread, in the whole process, until the last such block is left.

    The first block that is entered sets the limit and the last one restores what was there before, whatever threads
    they run in. Blocks may be nested.
    """
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _let_any_thread_set_it()
            _limit = _libraries().limit(limits=1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _let_any_thread_set_it()
                _limit.restore_original_limits()
                _let_any_thread_set_it()


def _let_any_thread_set_it() -> None:
    # Since threadpoolctl 3.8 the first thread that sets OpenBLAS's number is the only one that may, and others are
    # ignored without a word; here the thread that leaves last may not be the one that came first.
    openblas: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@functools.cache
def _libraries() -> Any:
    # Looking for them takes milliseconds. scipy has one of its own, besides numpy's, which must be there to be found.
    import scipy.linalg  # noqa: F401

    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def default_workers() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Turns:
    """Whose turn it is to use LightGBM: its number of threads belongs to the process, and must not change during a fit.

    Those that use one thread may all work at the same time. Whoever uses more, or an unknown number, works alone.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()
        self._alone = False

    @contextmanager
    def work(self, threads: int | None) -> Iterator[None]:
        """Wait for one's turn to use so many threads, or an unknown number, and keep it while LightGBM works.

        Whoever uses none (0) need not wait.
        """
        if threads == 0:
            yield
            return
        me = threading.get_ident()
        with self._changed:
            if not self._inside[me]:
                while self._inside and (self._alone or threads != 1):
                    self._changed.wait()
                self._alone = threads != 1
            self._inside[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[me] -= 1
                if not self._inside[me]:
                    del self._inside[me]
                    self._changed.notify_all()

    @property
    def mine(self) -> bool:
        """Whether it is this thread's turn."""
        return threading.get_ident() in self._inside


LIGHTGBM = Turns()
"""Held wherever LightGBM fits or predicts."""
