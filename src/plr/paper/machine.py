"""What a result was computed with and on, and which process is computing: no host name, no path."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import plr

__all__ = ["Owner", "describe_machine", "is_dead", "package_versions", "revision", "this_process"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "pyarrow")


class Owner(NamedTuple):
    """A process: the machine's present boot and process namespace, the process number, and when it started.

    Process numbers come round again, and every container has its own; together the three are unique. Empty where the
    system does not tell.
    """

    place: str
    pid: int
    started: str


def this_process() -> Owner:
    """Return who is asking."""
    return Owner(_place(), os.getpid(), _start_of(os.getpid()) or "")


def is_dead(owner: Owner) -> bool:
    """Return whether a process is known to have ended; False where it cannot be known from here."""
    if not owner.place or not owner.started or owner.place != _place():
        return False
    return _start_of(owner.pid) != owner.started


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """Return when a running process started, in the kernel's ticks; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The process's name comes second, in brackets, and may itself contain brackets and blanks.
    fields = text.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return None if state in "ZX" else started


def describe_machine() -> dict[str, object]:
    """Return what the machine is, in words."""
    cpu, system = platform.processor() or platform.machine(), platform.system()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    with suppress(OSError, KeyError):
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    return {"cpu": cpu, "cores": os.cpu_count(), "os": system, "architecture": platform.machine()}


def package_versions() -> dict[str, str]:
    """Return the versions of everything that computes."""
    versions = {"plr": plr.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def revision() -> str | None:
    """Return the git revision plr is run from, marked where files have changed; None outside a checkout of plr.

    The variable PLR_REVISION stands in for it where plr is a copy without its repository.
    """
    given = os.environ.get("PLR_REVISION")
    if given:
        return given
    home = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=home, capture_output=True, text=True, timeout=10, check=True, encoding="utf-8"
        )
        return done.stdout.strip()

    try:
        # Installed inside somebody else's checkout, plr must not report their revision.
        if not git("ls-files", str(home.parent / "__init__.py")):
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", str(home.parent))
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
