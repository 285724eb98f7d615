"""Calling a module: what it is given, what it must give back, and where the arithmetic takes place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from plr.errors import DependencyError, ParameterError

__all__ = ["call_module", "find_device", "float_type", "on_device"]


def find_device(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is the first CUDA device where there is one, and else the processor."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ParameterError(f"PyTorch knows no device {name!r}; try 'auto', 'cpu' or 'cuda'.") from error
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise DependencyError(
            f"device={name!r} was asked for, but PyTorch {torch.__version__} finds no CUDA device here; use "
            f"device='auto' or 'cpu', or install a PyTorch built for CUDA and its driver."
        )
    found = torch.cuda.device_count()
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= found:
        raise DependencyError(f"device={name!r} was asked for, but there are {found} CUDA devices, counted from 0.")
    return torch.device("cuda", index)


def float_type(net: nn.Module) -> torch.dtype:
    """Return what floats a module computes in: the type of its first floating parameter."""
    for parameter in net.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return torch.float32


def on_device(part: Any, device: torch.device) -> Any:
    """Return tensors of any structure on a device."""
    if isinstance(part, Tensor):
        return part.to(device, non_blocking=True)
    if isinstance(part, Mapping):
        return {key: on_device(value, device) for key, value in part.items()}
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*(on_device(value, device) for value in part))
    if isinstance(part, tuple | list):
        return type(part)(on_device(value, device) for value in part)
    return part


def call_module(net: Callable[..., Any], features: Any, rows: int, device: torch.device, autocast: bool) -> Tensor:
    """Return a module's predictions for a batch of features, of shape (rows,).

    A mapping is given by keywords, a sequence of tensors one by one, everything else as one argument.
    """
    mixed = torch.autocast(device.type, dtype=torch.bfloat16) if autocast else contextlib.nullcontext()
    try:
        with mixed:
            if isinstance(features, Mapping):
                output = net(**features)
            elif isinstance(features, tuple | list) and all(isinstance(part, Tensor) for part in features):
                output = net(*features)
            else:
                output = net(features)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        hint = ""
        if isinstance(features, Tensor) and not features.is_floating_point():
            hint = " Whole numbers are handed on as they are, for embeddings; give floats where they are measurements."
        error.add_note(f"The module was given {_described(features)}.{hint}")
        raise
    expected = f"expected a tensor of shape ({rows},) or ({rows}, 1), one prediction per row"
    if not isinstance(output, Tensor):
        raise ParameterError(f"The module returned a {type(output).__name__} for {rows} rows; {expected}.")
    # A module that squeezes its output gives no dimension at all for one row.
    if output.shape not in ((rows,), (rows, 1)) and not (rows == 1 and output.ndim == 0):
        raise ParameterError(f"The module returned shape {tuple(output.shape)} for {rows} rows; {expected}.")
    if not output.is_floating_point():
        raise ParameterError(f"The module returned {output.dtype} for {rows} rows; predictions must be floats.")
    return output.reshape(rows)


def _described(features: Any) -> str:
    if isinstance(features, Tensor):
        return f"a tensor of shape {tuple(features.shape)} and type {str(features.dtype).removeprefix('torch.')}"
    if isinstance(features, Mapping):
        return ", ".join(f"{key}={_described(value)}" for key, value in features.items())
    if isinstance(features, tuple | list) and features and isinstance(features[0], Tensor):
        return ", ".join(_described(part) for part in features)
    return f"a {type(features).__name__}" + (f" of {len(features)}" if hasattr(features, "__len__") else "")
