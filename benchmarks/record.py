"""What the scripts share: clocks, and the record of what was measured where."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from plr.atomic_file import write_files
from plr.paper.machine import describe_machine, package_versions, revision

__all__ = ["circumstances", "quick_ratio", "seconds", "write_record"]


def seconds(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long one call takes."""
    began = clock()
    run()
    return clock() - began


def quick_ratio(
    ours: Callable[[], object],
    plain: Callable[[], object],
    turns: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Let two take turns, and return the median time of each and the median of the turns' ratios.

    A first turn that loads and compiles what they need does not count.
    """
    ours()
    plain()
    times = [(seconds(ours, clock), seconds(plain, clock)) for _ in range(turns)]
    return {
        "ours_s": statistics.median(mine for mine, _ in times),
        "plain_s": statistics.median(other for _, other in times),
        "ratio": statistics.median(mine / other for mine, other in times),
    }


def circumstances(packages: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the command that was typed, the revision, the machine and the versions of everything that computes."""
    # A module that was run by -m has the path of its file there, which is one machine's.
    script = Path(sys.argv[0])
    typed = ["-m", f"benchmarks.{script.parent.name}"] if script.name == "__main__.py" else [sys.argv[0]]
    return {
        "command": shlex.join(["python", *typed, *sys.argv[1:]]),
        "revision": revision(),
        "machine": describe_machine(),
        "versions": package_versions() | {package: metadata.version(package) for package in packages},
    }


def write_record(
    folder: Path,
    name: str,
    found: Mapping[str, Any],
    *,
    packages: tuple[str, ...] = (),
    files: Mapping[str, bytes] | None = None,
) -> list[Path]:
    """Write what a benchmark found as ``<name>.json``, with the command that was typed, the revision and the machine.

    ``packages`` are named with their versions beside those that every record has; ``files`` are written with it.
    What ``found`` itself says of command, revision or machine counts. Returns the paths.
    """
    content = json.dumps({**circumstances(packages), **found}, indent=1).encode() + b"\n"
    return write_files(folder, {f"{name}.json": content, **(files or {})})
