"""Checkpoints: everything a training stands on after an epoch, in a file that is replaced as a whole.

A file is only taken up by the training that wrote it: it carries what that training was given, its settings in
words, its functions, modules and data as digests, and any difference is refused by name. It holds tensors, numbers and
texts, so that loading it cannot run code.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import fields
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import nn

from plr.atomic_file import atomic_file, write_errors
from plr.errors import DataError
from plr.learners.module.settings import ModuleSettings

__all__ = ["describe", "digest_arrays", "digest_module", "name_of", "read_checkpoint", "write_checkpoint"]

_FORMAT = 1
_PARTS = {"module", "criterion", "optimizer", "scheduler", "progress"}
# Of a large array, so many rows at equal distances are looked at.
_DIGESTED_ROWS = 10_000
# What may differ between the training that wrote a checkpoint and the one that takes it up.
_IRRELEVANT = ("checkpoint", "device", "loader", "threads")


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
        found = None
    if isinstance(found, dict) and found.get("format", _FORMAT) != _FORMAT:
        raise DataError(f"{path} is a checkpoint of another version of plr; delete it or name another.")
    whole = isinstance(found, dict) and "format" in found and isinstance(found.get("identity"), dict)
    if not whole or not isinstance(found.get("state"), dict) or not found["state"].keys() >= _PARTS:
        raise DataError(f"{path} is no checkpoint, or is damaged; delete it or name another.")
    before, differing = found["identity"], []
    for name in {**before, **identity}:
        old, new = before.get(name, "not there"), identity.get(name, "not there")
        if old != new:
            differing.append(f"{name} was {_short(old)} and is {_short(new)}")
    if differing:
        raise DataError(
            f"The checkpoint {path} is of another training: {'; '.join(differing)}. Delete it, or give another path."
        )
    state: dict[str, Any] = found["state"]
    return state


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


def describe(settings: ModuleSettings, **more: Any) -> dict[str, str]:
    """Return the settings and what else makes a training what it is, in words."""
    parts = {part.name: getattr(settings, part.name) for part in fields(settings) if part.name not in _IRRELEVANT}
    return {name: name_of(value) for name, value in {**parts, **more}.items()}


def digest_arrays(parts: Iterable[Any]) -> str:
    """Return a digest of arrays; None counts as well."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"none" if part is None else _bytes_of(part))
    return digest.hexdigest()[:16]


def name_of(value: Any, outer: tuple[int, ...] = ()) -> str:
    """Return a text that is the same for the same value in every process, and another for another.

    ``outer`` are the values it was found in, which it may refer back to.
    A function goes by its name and a digest of its code, defaults, closure and the plain numbers and texts among its
    globals; a module by its type and `digest_module`; another object by its type and its public attributes, unless it
    has a text of its own.

    >>> name_of(lambda r: r**2).split()[0] == name_of(lambda r: r**3).split()[0], name_of({"b": 1, "a": "x"})
    (True, "{'a': 'x', 'b': '1'}")
    """
    if isinstance(value, str):
        return value
    if id(value) in outer:
        return "itself"
    inner = (*outer, id(value))
    if isinstance(value, functools.partial):
        parts = [name_of(part, inner) for part in (value.func, *value.args)]
        parts += [f"{name}={name_of(part, inner)}" for name, part in value.keywords.items()]
        return f"partial({', '.join(parts)})"
    if isinstance(value, MethodType):
        return f"{name_of(value.__func__, inner)} of {name_of(value.__self__, inner)}"
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__} {_digest_function(value, inner)}"
    if isinstance(value, nn.Module):
        return f"{type(value).__name__} {digest_module(value, outer)}"
    if isinstance(value, torch.Tensor) or (isinstance(value, np.ndarray) and not value.dtype.hasobject):
        return f"{type(value).__name__} {digest_arrays([value])}"
    if isinstance(value, Mapping):
        named = ((str(key), name_of(part, inner)) for key, part in value.items())
        return str(dict(sorted(named)))
    if isinstance(value, list | tuple):
        return str([name_of(part, inner) for part in value])
    if isinstance(value, Set):
        return str(sorted(name_of(part, inner) for part in value))
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    text = repr(value)
    # Where an object lies in memory is no part of what it is.
    plain = re.sub(r" at 0x[0-9a-f]+", "", text)
    if isinstance(value, BaseEstimator) or plain == text or not hasattr(value, "__dict__"):
        return plain
    return f"{plain} {_public(value, inner)}"


def _digest_function(function: FunctionType, outer: tuple[int, ...]) -> str:
    code = function.__code__
    globals_ = {name: function.__globals__.get(name) for name in code.co_names}
    parts = (
        *_code_parts(code, outer),
        name_of(function.__defaults__, outer),
        name_of(function.__kwdefaults__, outer),
        name_of([_content(cell) for cell in function.__closure__ or ()], outer),
        name_of({name: part for name, part in globals_.items() if isinstance(part, bool | int | float | str)}, outer),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _code_parts(code: CodeType, outer: tuple[int, ...]) -> Iterable[str]:
    yield code.co_code.hex()
    yield str(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant, outer)
        else:
            yield f"{type(constant).__name__} {name_of(constant, outer)}"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def digest_module(net: nn.Module, outer: tuple[int, ...] = ()) -> str:
    """Return a digest of a module's structure, of its attributes, and of the weights it starts from."""
    digest = hashlib.sha256(repr(net).encode())
    inside = tuple(id(part) for part in net.modules())
    for name, part in net.named_modules():
        digest.update(f"{name} {_public(part, (*outer, *inside))}".encode())
    for name, tensor in net.state_dict().items():
        if not isinstance(tensor, torch.Tensor):
            digest.update(f"{name} {name_of(tensor, outer)}".encode())
            continue
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _public(value: Any, outer: tuple[int, ...]) -> str:
    # Whether a module is in training mode says where it has been, not what it is.
    parts = {name: part for name, part in vars(value).items() if not name.startswith("_") and name != "training"}
    return name_of(parts, outer)


def _bytes_of(part: Any) -> bytes:
    if isinstance(part, torch.Tensor):
        part = part.detach().cpu()
        part = part.numpy() if part.dtype != torch.bfloat16 else part.float().numpy()
    if not hasattr(part, "shape"):
        # Items of a dataset may cost anything to read; how many there are has to do.
        return f"{type(part).__name__} of {len(part)}".encode()
    rows = part.shape[0] if part.ndim else 1
    chosen = part[:: max(1, rows // _DIGESTED_ROWS)] if part.ndim > 1 else part
    chosen = np.ascontiguousarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen)
    return f"{part.shape} {part.dtype}".encode() + chosen.tobytes()
