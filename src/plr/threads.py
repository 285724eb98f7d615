"""One thread for linear algebra, for as long as anybody needs it.

The last bits of a product depend on how many threads compute it. That number belongs to the whole process: where
several threads set and restored it each for itself, the first to leave would take the limit away from the others.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]

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
            _limit = _libraries().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


@functools.cache
def _libraries() -> ThreadpoolController:
    # Looking for them takes milliseconds. Both of these bring one of their own, which must be there to be found.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
