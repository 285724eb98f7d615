"""Measure jobs, several at the same time, and keep each line as it comes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.identification import ONE_THREAD
from benchmarks.identification.cases import SET_SIZES
from benchmarks.identification.measuring import Job, measure
from benchmarks.identification.store import append, finished, read_lines

__all__ = ["in_shard", "run_jobs"]


def in_shard(job: Job, shard: tuple[int, int]) -> bool:
    """Return whether a job belongs to a shard (i of n, counted from 1), whatever other jobs there are."""
    number, count = shard
    return int(job.key, 16) % count == number - 1


def run_jobs(
    jobs: Iterable[Job], store: Path, *, workers: int = 1, shard: tuple[int, int] = (1, 1), tell: bool = True
) -> list[dict[str, Any]]:
    """Measure what is not measured yet; return the lines that failed.

    Two commands at the same time on one folder measure some jobs twice unless they have different shards.
    """
    done = finished(read_lines(store))
    open_jobs = {job.key: job for job in jobs if in_shard(job, shard)}
    waiting = [job for key, job in open_jobs.items() if key not in done]
    path = store / (f"lines-{shard[0]}-of-{shard[1]}.jsonl" if shard[1] > 1 else "lines.jsonl")
    if tell:
        sys.stderr.write(f"{len(open_jobs)} to measure, {len(open_jobs) - len(waiting)} of them done before\n")
    failed = []
    begun, told = time.monotonic(), 0.0
    for number, line in enumerate(_measured(waiting, workers, path), 1):
        if "error" in line:
            failed.append(line)
        spent = time.monotonic() - begun
        # A log wants a line a minute, not one for each line measured.
        if tell and (spent > told + 60 or number == len(waiting)):
            told = spent
            rest = spent / number * (len(waiting) - number)
            sys.stderr.write(f"{number} of {len(waiting)}, {len(failed)} failed, {spent:.0f} s, {rest:.0f} s to go\n")
    return failed


def _groups(jobs: list[Job]) -> list[list[Job]]:
    """Put jobs on the same rows together: what one method fits, others may need.

    A start needs the default's Gaussian process, the oracle the default's fit to true labels.
    """
    groups: dict[object, list[Job]] = {}
    for job in jobs:
        case = job.case
        groups.setdefault((case.dataset, case.trial, case.set_size or SET_SIZES[0]), []).append(job)

    def order(job: Job) -> tuple[int, bool]:
        return job.case.false_labels or 0, job.method == "posterior+start"

    return [sorted(group, key=order) for group in groups.values()]


def _measure_all(jobs: list[Job], path: Path) -> list[dict[str, Any]]:
    return list(_measured(jobs, 1, path))


def _measured(jobs: list[Job], workers: int, path: Path) -> Iterator[dict[str, Any]]:
    """Measure jobs, and write down each line as soon as it is known."""
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            line = measure(job)
            append(path, line)
            yield line
        return
    for name in ONE_THREAD:
        os.environ[name] = "1"
    # Forked processes would share locks of libraries that are loaded already.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        futures = [pool.submit(_measure_all, group, path) for group in _groups(jobs)]
        try:
            for future in as_completed(futures):
                yield from future.result()
        finally:
            for future in futures:
                future.cancel()
