"""Lines on disk: one JSON object each, appended whole, read from all files of a folder in any order."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["STORE", "append", "finished", "read_lines"]

STORE = Path("runs/identification")


def append(path: Path, line: dict[str, Any]) -> None:
    """Append a line so that whoever reads, or is stopped, never finds half of it between two others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(line, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        end = os.fstat(handle).st_size
        # What a killed process left unfinished becomes a line of its own, which readers pass over.
        if end and os.pread(handle, 1, end - 1) != b"\n":
            text = b"\n" + text
        done = 0
        while done < len(text):
            done += os.write(handle, text[done:])
        os.fsync(handle)
    finally:
        os.close(handle)


def read_lines(store: Path = STORE) -> list[dict[str, Any]]:
    """Return all lines of a folder's files, failures too; what is not a whole line is passed over and told."""
    found = []
    for path in sorted(store.glob("*.jsonl")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not text:
                continue
            try:
                found.append(json.loads(text))
            except json.JSONDecodeError:
                sys.stderr.write(f"{path.name}, line {number} is not whole; passed over.\n")
    return found


def finished(lines: Iterable[dict[str, Any]]) -> set[str]:
    """Return the keys of what has been measured; what failed has not."""
    return {line["key"] for line in lines if "error" not in line}
