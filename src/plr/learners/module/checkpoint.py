"""Checkpoints: everything a training stands on after an epoch, in a file that is replaced as a whole.

A file is only taken up by the training that wrote it: it carries what that training was told and given, in words and
digests, and any difference is refused by name. It holds tensors, numbers and texts, so that loading it cannot run code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plr.atomic_file import atomic_file, write_errors
from plr.errors import DataError

__all__ = ["read_checkpoint", "told_apart", "write_checkpoint"]

_FORMAT = 1
_PARTS = {"module", "criterion", "optimizer", "scheduler", "progress"}


def write_checkpoint(path: Path, identity: Mapping[str, str], state: Mapping[str, Any]) -> None:
    """Write a checkpoint in place of an earlier one."""
    with write_errors(path, "The checkpoint"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path, "The checkpoint") as file:
        torch.save({"format": _FORMAT, "identity": dict(identity), "state": _plain(state)}, file)


def read_checkpoint(path: Path, identity: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what a checkpoint holds, None where there is none; refuse one of another training."""
    if not path.exists():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"The checkpoint {path} cannot be read: {error.strerror}.") from error
    except Exception:
        # Bytes of any kind raise errors of any kind. No cause is shown, as torch's message advises to load such a file
        # in a way that may run code.
        raise _no_checkpoint(path) from None
    if isinstance(found, dict) and found.get("format", _FORMAT) != _FORMAT:
        raise DataError(f"{path} is a checkpoint of another version of plr; delete it or name another.")
    if not _is_whole(found):
        raise _no_checkpoint(path)
    differing = told_apart(found["identity"], identity)
    if differing:
        raise DataError(
            f"The checkpoint {path} is of another training: {'; '.join(differing)}. Delete it, or give another path."
        )
    state: dict[str, Any] = found["state"]
    return state


def told_apart(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Say in which parts two identities differ."""
    told = []
    for name in {**before, **now}:
        old, new = before.get(name, "not there"), now.get(name, "not there")
        if old != new:
            told.append(f"{name} was {_short(old)} and is {_short(new)}")
    return told


def _is_whole(found: Any) -> bool:
    if not isinstance(found, dict) or "format" not in found:
        return False
    identity, state = found.get("identity"), found.get("state")
    return isinstance(identity, dict) and isinstance(state, dict) and state.keys() >= _PARTS


def _no_checkpoint(path: Path) -> DataError:
    return DataError(f"{path} is no checkpoint, or is damaged; delete it or name another.")


def _plain(part: Any) -> Any:
    """Return numbers of numpy as Python's own, which need no code to be loaded."""
    if isinstance(part, np.generic):
        return part.item()
    if type(part) is dict:
        return {key: _plain(value) for key, value in part.items()}
    if type(part) in (list, tuple):
        return type(part)(_plain(value) for value in part)
    return part


def _short(text: str) -> str:
    line = " ".join(text.split())
    # The digest of a function comes last, and may be all that differs.
    return line if len(line) <= 60 else f"{line[:37]}...{line[-20:]}"
