"""How much memory this process has used, and how much there is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory", "peak_memory", "readable"]

# Control groups without a limit say so by a number near the largest there is.
_NO_LIMIT = 1 << 60
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def peak_memory() -> int | None:
    """Return the most memory this process has had at once, in bytes; None where the system does not tell."""
    return _kilobytes(Path("/proc/self/status"), "VmHWM:")


def available_memory() -> int | None:
    """Return how many bytes can be taken before memory runs out; None where the system does not tell.

    The least of what the machine has left, and of what each control group leaves that this process is in. Files that
    are kept in memory only because they were read count as left: they make way.
    """
    machine = _kilobytes(Path("/proc/meminfo"), "MemAvailable:")
    return min((left for left in (machine, *_left_by_groups()) if left is not None), default=None)


def readable(size: int) -> str:
    """Return a number of bytes as people read it.

    >>> readable(512), readable(3 << 29)
    ('512 B', '1.5 GiB')
    """
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit < 3 else f"{amount:.1f} {_UNITS[unit]}"


def _kilobytes(path: Path, name: str) -> int | None:
    for line in _text(path).splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return None


def _left_by_groups(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """Give what each group leaves, those around it as well; the second version of groups, or the first."""
    for line in _text(groups).splitlines():
        _, kinds, inside = line.split(":", 2)
        if kinds == "":
            yield from _left(root, inside, "memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _left(root / "memory", inside, *names)


def _left(root: Path, inside: str, limit: str, used: str, reclaimed: str) -> Iterator[int]:
    group = root / inside.strip("/")
    # In a container, a group is often seen under another path than the one listed there.
    for place in dict.fromkeys((group, *group.parents)):
        if root not in (place, *place.parents):
            return
        most, now = _text(place / limit).strip(), _text(place / used).strip()
        if not most.isdigit() or not now.isdigit() or int(most) >= _NO_LIMIT:
            continue
        stat = dict(line.split(" ", 1) for line in _text(place / "memory.stat").splitlines() if " " in line)
        cached = stat.get(reclaimed, "0")
        yield max(int(most) - int(now) + (int(cached) if cached.isdigit() else 0), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
