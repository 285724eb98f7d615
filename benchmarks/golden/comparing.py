"""Two records, compared: what differs, and what only reads differently."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

__all__ = ["Finding", "compare", "is_wording"]

Finding = tuple[str, str, str]
"""Where, what it was, and what it is."""

_WORDS = ("words", "words_stderr", "reason", "advice", "note", "notes", "message")


def compare(before: Any, after: Any, tolerance: float, where: str = "") -> Iterator[Finding]:
    """Yield every place in which two answers differ; numbers count as equal within the tolerance of their list."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            place = f"{where} › {key}" if where else str(key)
            if key not in after:
                yield place, _short(before[key]), "nothing"
            elif key not in before:
                yield f"{place} (new)", "nothing", _short(after[key])
            else:
                yield from compare(before[key], after[key], tolerance, place)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield where, f"{len(before)} entries", f"{len(after)} entries"
            return
        scale = max((abs(one) for one in before if _is_number(one) and math.isfinite(one)), default=0.0)
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            if _is_number(old) and _is_number(new):
                if not _close(old, new, tolerance, scale):
                    yield f"{where} [{place}]", _short(old), _short(new)
            else:
                yield from compare(old, new, tolerance, f"{where} [{place}]")
    elif _is_number(before) and _is_number(after):
        if not _close(before, after, tolerance, abs(before)):
            yield where, _short(before), _short(after)
    elif before != after:
        yield where, _short(before), _short(after)


def is_wording(finding: Finding) -> bool:
    """Whether it is something that only reads differently, or that is told in addition."""
    where = finding[0]
    return where.endswith("(new)") or any(part.split(" [")[0] in _WORDS for part in where.split(" › "))


def _is_number(found: Any) -> bool:
    return isinstance(found, (int, float)) and not isinstance(found, bool)


def _close(old: float, new: float, tolerance: float, scale: float) -> bool:
    if math.isnan(old) or math.isnan(new):
        return math.isnan(old) and math.isnan(new)
    return old == new or abs(old - new) <= tolerance * max(scale, abs(old))


def _short(found: Any) -> str:
    text = str(found)
    return text if len(text) <= 300 else text[:297] + "..."
