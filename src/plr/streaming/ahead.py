"""Reading ahead: while some rows are worked on, the next are read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Empty, Full, Queue
from typing import TypeVar

__all__ = ["ahead"]

Item = TypeVar("Item")

_SECONDS_BETWEEN_LOOKS = 0.1


def ahead(items: Iterable[Item], depth: int = 1) -> Iterator[Item]:
    """Give the same items, of which up to ``depth`` are made beforehand, in a thread of their own.

    An error among them is raised here, in its place. Whoever stops early stops the thread as well.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    queue: Queue[tuple[bool, object]] = Queue(maxsize=depth)
    stop = threading.Event()

    def put(entry: tuple[bool, object]) -> None:
        while not stop.is_set():
            try:
                queue.put(entry, timeout=_SECONDS_BETWEEN_LOOKS)
                return
            except Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((True, item))
                if stop.is_set():
                    return
            put((False, None))
        except BaseException as error:
            put((False, error))

    thread = threading.Thread(target=work, name="plr-reading-ahead", daemon=True)
    thread.start()
    try:
        while True:
            try:
                there, item = queue.get(timeout=_SECONDS_BETWEEN_LOOKS)
            except Empty:
                continue
            if not there:
                if item is not None:
                    assert isinstance(item, BaseException)
                    raise item
                return
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()
