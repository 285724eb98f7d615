"""Reading ahead: while some rows are worked on, the next are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["ahead"]

Item = TypeVar("Item")


def ahead(items: Iterable[Item], depth: int = 2) -> Iterator[Item]:
    """Give the same items, of which up to ``depth`` are made beforehand, in a thread of their own.

    An error among them is raised here, in its place. Whoever stops early stops the thread as well.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    iterator, end = iter(items), object()
    pool = ThreadPoolExecutor(1, "plr-reading-ahead")

    def submit() -> Future[Any]:
        return pool.submit(next, iterator, end)

    try:
        waiting = deque(submit() for _ in range(depth))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(submit())
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
