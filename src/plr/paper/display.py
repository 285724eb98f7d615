"""How far a run is, on the screen: a live bar on a terminal, a line now and then elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from plr.paper.runner import RunProgress
from plr.progress import describe_seconds

__all__ = ["show_progress"]

_SECONDS_BETWEEN_LINES = 10.0
# The first fits to end say little about the others: many are under way, and the longest were begun first.
_SECONDS_BEFORE_ESTIMATE = 5.0
_SHARE_BEFORE_ESTIMATE = 0.03
_SECONDS_ENOUGH = 60.0

_COMPILING = "Compiling kernels, once per installation …"


@contextmanager
def show_progress(title: str) -> Iterator[Callable[[RunProgress], None]]:
    """Give a callback for `plr.paper.run_benchmark` that shows its progress while the block lasts.

    Parameters
    ----------
    title : str
        What is going on.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[cells]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Bar(*columns, console=console) as bar:
            task = bar.add_task(title, total=1.0, cells="", left="")

            def move(progress: RunProgress) -> None:
                if progress.compiling:
                    bar.console.print(_COMPILING)
                whole = progress.work + progress.remaining_work
                share = progress.work / whole if whole > 0 else 1.0
                bar.update(task, completed=share, cells=_count(progress), left=_time_left(progress))

            yield move
    else:
        last: float | None = None

        def write(progress: RunProgress) -> None:
            nonlocal last
            now = time.monotonic()
            if progress.compiling:
                print(_COMPILING, file=sys.stderr, flush=True)
            elif (
                last is None
                or now - last >= _SECONDS_BETWEEN_LINES
                or progress.done + progress.failed == progress.total
            ):
                last = now
                elapsed = describe_seconds(progress.seconds) if progress.work else ""
                parts = [f"{title}: {_count(progress)}", elapsed, _time_left(progress)]
                print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

        yield write


def _count(progress: RunProgress) -> str:
    failed = f", {progress.failed} failed" if progress.failed else ""
    return f"{progress.done} of {progress.total} cells{failed}"


def _time_left(progress: RunProgress) -> str:
    share = progress.work / max(progress.work + progress.remaining_work, 1e-9)
    early = share < _SHARE_BEFORE_ESTIMATE and progress.seconds < _SECONDS_ENOUGH
    if early or progress.seconds < _SECONDS_BEFORE_ESTIMATE or progress.work <= 0 or progress.remaining_work <= 0:
        return ""
    return f"about {describe_seconds(progress.seconds * progress.remaining_work / progress.work)} left"
