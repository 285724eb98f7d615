"""Run a command as a user would, and see how long it takes and how much memory it has at its peak."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Run", "imported_memory", "plr_command", "run_watched"]

_SECONDS_BETWEEN_LOOKS = 0.02

# Runs a command, and leaves the names of all modules that it has imported.
_NAMING = """
import atexit, json, sys
out = sys.argv.pop(1)
atexit.register(lambda: open(out, "w").write(json.dumps(list(sys.modules))))
from plr.cli import command
command()
"""
# Imports modules, and does nothing else.
_IMPORTING = """
import contextlib, importlib, json, sys
for name in json.load(open(sys.argv[1])):
    with contextlib.suppress(Exception):
        importlib.import_module(name)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


class Run(NamedTuple):
    """How a command went."""

    seconds: float
    cpu_seconds: float
    """How long it was really running."""
    peak: int
    """Most resident memory at once, in bytes; that of processes it has started is added."""
    processes: int
    """How many it was, with those it has started."""
    answer: dict[str, Any]
    """What it printed, as JSON."""


def plr_command() -> str:
    """Return the installed command that belongs to this Python."""
    found = Path(sys.executable).with_name("plr")
    if not found.exists():
        raise SystemExit("There is no command plr beside this Python; install plr there first.")
    return str(found)


def run_watched(command: Sequence[str], folder: Path) -> Run:
    """Run a command that prints JSON, in a folder, and look at its memory until it ends; stop where it fails."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        began, used = time.perf_counter(), _used()
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=said)
        most: dict[int, int] = {}
        try:
            while process.poll() is None:
                for one in _family(process.pid):
                    most[one] = max(most.get(one, 0), _peak(one))
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        taken, cpu = time.perf_counter() - began, _used() - used
        for stream in (printed, said):
            stream.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command[1:])} ended with {process.returncode}: {said.read().strip()}")
        answer = json.loads(printed.read().splitlines()[-1])
    # The last look may have come before the peak, which plr itself tells in the end.
    most[process.pid] = max(most.get(process.pid, 0), answer.get("peak_memory") or 0)
    return Run(taken, cpu, sum(most.values()), len(most), answer)


def imported_memory(arguments: Sequence[str], folder: Path) -> int:
    """Return the peak memory of a process that imports what a plr command imports, and stops.

    The command itself runs first, in a folder where it has little to do; so it also compiles what is not yet compiled.
    """
    with tempfile.TemporaryDirectory() as place:
        names = str(Path(place) / "names.json")
        done = subprocess.run(
            [sys.executable, "-c", _NAMING, names, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"plr {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        told = subprocess.run(
            [sys.executable, "-c", _IMPORTING, names], cwd=folder, capture_output=True, text=True, check=True
        )
    return int(told.stdout.split()[-1]) * 1024


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        with suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _peak(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
