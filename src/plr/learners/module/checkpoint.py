"""Checkpoints: everything a training stands on after an epoch, in a file that is replaced as a whole.

A file is only taken up by the training that wrote it: it carries what that training was told and given, in words and
digests, and any difference is refused by name. It holds tensors, numbers and texts, so that loading it cannot run code.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from plr.errors import DataError
from plr.learners.module.settings import Settings

__all__ = ["describe", "digest_arrays", "digest_module", "read_checkpoint", "told_apart", "write_checkpoint"]

_FORMAT = 1
# Of a large array, so many rows at equal distances are looked at.
_DIGESTED_ROWS = 10_000
# What may differ between the training that wrote a checkpoint and the one that takes it up.
_IRRELEVANT = ("checkpoint", "device", "loader", "threads")


def write_checkpoint(path: Path, identity: Mapping[str, str], state: Mapping[str, Any]) -> None:
    """Write a checkpoint under a temporary name, and give it its own when it is on the disk."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            torch.save({"format": _FORMAT, "identity": dict(identity), "state": _plain(state)}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        raise DataError(f"The checkpoint {path} cannot be written: {error.strerror}.") from error
    finally:
        if temporary:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)


def read_checkpoint(path: Path, identity: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what a checkpoint holds, None where there is none; refuse one of another training."""
    if not path.exists():
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"{path} cannot be read as a checkpoint: {reason} Delete it, or give another path.") from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise DataError(f"{path} is not a checkpoint of this version of plr; delete it, or give another path.")
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


def describe(settings: Settings, **more: Any) -> dict[str, str]:
    """Return the settings and what else makes a training what it is, in words."""
    parts = {part.name: getattr(settings, part.name) for part in fields(settings) if part.name not in _IRRELEVANT}
    return {name: _named(value) for name, value in {**parts, **more}.items()}


def digest_arrays(parts: Iterable[Any]) -> str:
    """Return a digest of arrays; None counts as well."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"none" if part is None else _bytes_of(part))
    return digest.hexdigest()[:16]


def digest_module(net: nn.Module) -> str:
    """Return a digest of a module's structure and of the weights it starts from."""
    digest = hashlib.sha256(repr(net).encode())
    for name, tensor in net.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _bytes_of(part: Any) -> bytes:
    if isinstance(part, torch.Tensor):
        part = part.detach().cpu()
        part = part.numpy() if part.dtype != torch.bfloat16 else part.float().numpy()
    if not hasattr(part, "shape"):
        # Items of a dataset may cost anything to read; how many there are has to do.
        return f"{type(part).__name__} of {len(part)}".encode()
    rows = part.shape[0]
    chosen = part[:: max(1, rows // _DIGESTED_ROWS)] if part.ndim > 1 else part
    chosen = np.ascontiguousarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen)
    return f"{part.shape} {part.dtype}".encode() + chosen.tobytes()


def _plain(part: Any) -> Any:
    """Return numbers of numpy as Python's own, which need no code to be loaded."""
    if isinstance(part, np.generic):
        return part.item()
    if type(part) is dict:
        return {key: _plain(value) for key, value in part.items()}
    if type(part) in (list, tuple):
        return type(part)(_plain(value) for value in part)
    return part


def _named(value: Any) -> str:
    if isinstance(value, functools.partial):
        inner = [_named(value.func), *map(_named, value.args)]
        inner += [f"{name}={_named(part)}" for name, part in value.keywords.items()]
        return f"partial({', '.join(inner)})"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping):
        return str({name: _named(part) for name, part in sorted(value.items())})
    # Where an object lies in memory is no part of what it is.
    return value if isinstance(value, str) else re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
