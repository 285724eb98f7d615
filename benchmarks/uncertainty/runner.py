"""Fit models, several at the same time, and keep each line as it comes."""

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
from benchmarks.identification.store import append, finished, read_lines
from benchmarks.uncertainty.measuring import Fit, measure

__all__ = ["STORE", "run_fits"]

STORE = Path("runs/uncertainty")


def run_fits(fits: Iterable[Fit], store: Path = STORE, *, workers: int = 1, tell: bool = True) -> list[dict[str, Any]]:
    """Measure what is not measured yet; return the lines that failed."""
    wanted = {fit.key: fit for fit in fits}
    done = finished(read_lines(store))
    waiting = [fit for key, fit in wanted.items() if key not in done]
    if tell:
        sys.stderr.write(f"{len(wanted)} to measure, {len(wanted) - len(waiting)} of them done before\n")
    failed, begun = [], time.monotonic()
    for number, line in enumerate(_measured(waiting, workers), 1):
        append(store / "lines.jsonl", line)
        if "error" in line:
            failed.append(line)
        if tell:
            spent = time.monotonic() - begun
            rest = spent / number * (len(waiting) - number)
            sys.stderr.write(f"{number} of {len(waiting)}, {len(failed)} failed, {spent:.0f} s, {rest:.0f} s to go\n")
    return failed


def _measured(fits: list[Fit], workers: int) -> Iterator[dict[str, Any]]:
    if workers == 1 or len(fits) < 2:
        yield from map(measure, fits)
        return
    for name in ONE_THREAD:
        os.environ[name] = "1"
    # Forked processes would share locks of libraries that are loaded already.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(fits)), mp_context=context) as pool:
        futures = [pool.submit(measure, fit) for fit in fits]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
