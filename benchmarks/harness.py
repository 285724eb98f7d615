"""What the harnesses share: measuring in several processes, keeping what was measured, and options of their commands.

A *job* is something to be measured, with a key that says all that decides its result. A *line* is what was measured of
it, or how it failed. Lines are kept in SQLite files as `plr.paper` makes them: whole, and safe from being killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from benchmarks.identification import ONE_THREAD

if TYPE_CHECKING:
    from benchmarks.identification.sheets import Sheet

__all__ = [
    "append",
    "finished",
    "harness_parser",
    "job_key",
    "keep_to_one_thread",
    "names",
    "numbers",
    "read_lines",
    "run_jobs",
    "shard_of",
    "write_sheets",
]

Line = dict[str, Any]

_TABLE = "CREATE TABLE IF NOT EXISTS lines (key TEXT NOT NULL, content TEXT NOT NULL);\n"
_SECONDS_BETWEEN_REPORTS = 60.0


class Job(Protocol):
    """Something to be measured."""

    @property
    def key(self) -> str:
        """Hash of all that decides the result."""


AnyJob = TypeVar("AnyJob", bound=Job)


def job_key(*decisive: object) -> str:
    """Return a hash of all that decides the result of a job."""
    return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:24]


def keep_to_one_thread() -> None:
    """Keep processes to one thread each; called before anything numerical is loaded."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")


def write_sheets(out: Path, sheets: Mapping[str, tuple[Sheet, str]], pictures: Mapping[str, bytes]) -> None:
    """Write tables, each with the words that say how it was made, and pictures; print bars and paths."""
    from plr.atomic_file import write_files

    files = dict(pictures)
    for name, (sheet, made) in sheets.items():
        files |= {f"{name}.md": sheet.to_markdown(made), f"{name}.csv": sheet.to_csv(made)}
        for bar in sheet.bars:
            print(f"{name}: {str(bar)[2:]}")
    for path in write_files(out, files):
        print(path)


def append(path: Path, line: Line) -> None:
    """Add a line to a file, which is made if needed; several processes may do so at once."""
    from plr.paper.database import connect, create_tables, explained, leave_one_file, transaction

    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(line, sort_keys=True, ensure_ascii=False)
    with closing(connect(path, writing=True)) as connection:
        with explained(path), transaction(connection):
            create_tables(connection, _TABLE)
            connection.execute("INSERT INTO lines VALUES (?, ?)", (line["key"], content))
        leave_one_file(connection)


def read_lines(store: Path) -> list[Line]:
    """Return all lines of a folder's files, failures too."""
    from plr.paper.database import connect, explained

    found = []
    for path in sorted(store.glob("*.sqlite")):
        with closing(connect(path, writing=False)) as connection, explained(path):
            found += [json.loads(content) for (content,) in connection.execute("SELECT content FROM lines")]
    return found


def finished(lines: Iterable[Line]) -> set[str]:
    """Return the keys of what has been measured; what failed has not."""
    return {line["key"] for line in lines if "error" not in line}


def run_jobs(
    jobs: Iterable[AnyJob],
    measure: Callable[[AnyJob], Line],
    store: Path,
    *,
    workers: int = 1,
    shard: tuple[int, int] = (1, 1),
    group: Callable[[list[AnyJob]], list[list[AnyJob]]] = lambda jobs: [[job] for job in jobs],
    limit: float | None = None,
    tell: bool = True,
) -> list[Line]:
    """Measure what is not measured yet; return the lines that failed.

    Parameters
    ----------
    jobs : iterable of Job
    measure : callable
        Measures a job; a failure is a line as well.
    store : Path
        Folder of the lines.
    workers : int
        Processes at the same time.
    shard : tuple of int
        Measure one part of the jobs, i of n counted from 1. Two commands at the same time on one folder measure some
        jobs twice unless they have different shards.
    group : callable
        Puts jobs together that one process should measure, in that order.
    limit : float, optional
        Start nothing more after so many seconds; what has begun is ended and kept.
    tell : bool
        Whether to write progress to stderr.
    """
    number, count = shard
    wanted = {job.key: job for job in jobs if int(job.key, 16) % count == number - 1}
    done = finished(read_lines(store))
    waiting = [job for key, job in wanted.items() if key not in done]
    path = store / (f"lines-{number}-of-{count}.sqlite" if count > 1 else "lines.sqlite")
    if tell:
        sys.stderr.write(f"{len(wanted)} to measure, {len(wanted) - len(waiting)} of them done before\n")
    failed = []
    begun, told, ended = time.monotonic(), 0.0, 0
    # By the clock on the wall, which all processes share.
    until = math.inf if limit is None else time.time() + limit
    for ended, line in enumerate(_measured(waiting, measure, workers, path, group, until), 1):
        if "error" in line:
            failed.append(line)
        spent = time.monotonic() - begun
        if tell and (spent > told + _SECONDS_BETWEEN_REPORTS or ended == len(waiting)):
            told = spent
            rest = spent / ended * (len(waiting) - ended)
            sys.stderr.write(f"{ended} of {len(waiting)}, {len(failed)} failed, {spent:.0f} s, {rest:.0f} s to go\n")
    if tell and ended < len(waiting):
        sys.stderr.write(f"Stopped after {limit:g} s; {len(waiting) - ended} are left for the next time\n")
    return failed


def _measured(
    jobs: list[AnyJob],
    measure: Callable[[AnyJob], Line],
    workers: int,
    path: Path,
    group: Callable[[list[AnyJob]], list[list[AnyJob]]],
    until: float,
) -> Iterator[Line]:
    """Measure jobs, and write down each line as soon as it is known."""
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            if time.time() > until:
                return
            line = measure(job)
            with _turn:
                append(path, line)
            yield line
        return
    for name in ONE_THREAD:
        os.environ[name] = "1"
    # Forked processes would share locks of libraries that are loaded already.
    context = multiprocessing.get_context("spawn")
    # Writers wait for each other here: SQLite lets them try again and again, and some then wait for minutes.
    turn = context.Lock()
    with ProcessPoolExecutor(min(workers, len(jobs)), context, _take_turns, (turn,)) as pool:
        futures = [pool.submit(_measure_all, together, measure, path, until) for together in group(jobs)]
        try:
            for future in as_completed(futures):
                yield from future.result()
        finally:
            for future in futures:
                future.cancel()


_turn: AbstractContextManager[Any] = nullcontext()


def _take_turns(turn: AbstractContextManager[Any]) -> None:
    global _turn
    _turn = turn


def _measure_all(jobs: list[AnyJob], measure: Callable[[AnyJob], Line], path: Path, until: float) -> list[Line]:
    return list(_measured(jobs, measure, 1, path, lambda jobs: [jobs], until))


def harness_parser(
    module: str, description: str | None, store: Path, results: Path
) -> tuple[argparse.ArgumentParser, Any, Sequence[argparse.ArgumentParser]]:
    """Return the parser of a harness, its verbs, and the parsers of the verbs ``run`` and ``tables``."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="measure what has not been measured")
    tables = verbs.add_parser("tables", help="make tables and pictures from what was measured")
    for verb in (run, tables):
        verb.add_argument("--store", type=Path, default=store, help="folder of the lines")
    run.add_argument("--jobs", type=int, default=1, help="processes at the same time, one thread each")
    tables.add_argument("--out", type=Path, default=results, help="folder to write into")
    return parser, verbs, (run, tables)


def names(text: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    return tuple(part for part in text.split(",") if part)


def numbers(text: str) -> tuple[int, ...]:
    """Read whole numbers separated by commas."""
    return tuple(int(part) for part in names(text))


def shard_of(text: str) -> tuple[int, int]:
    """Read a shard, written I/N."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(number), int(count)
