"""The tensors of a torch module as plain arrays, and back.

numpy has no word for some of torch's numbers; those are kept as whole numbers of the same bits, complex ones as pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr.persistence.kinds import MalformedError

if TYPE_CHECKING:
    import torch

__all__ = ["FLOATS", "Kept", "is_state", "keep_tensors", "restore_tensor"]

# For each of torch's types, the type that it is kept as.
_KEPT_AS = {
    **{name: name for name in ("float32", "float64", "int8", "int16", "int32", "int64", "bool")},
    **{name: name for name in ("uint8", "uint16", "uint32", "uint64")},
    "float16": "int16",
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "complex64": "float32",
    "complex128": "float64",
}
_PAIRS = ("complex64", "complex128")
_MOST_DIMENSIONS, _LONGEST, _LONGEST_NAME = 32, 2**31, 1000

FLOATS = ("float32", "float64", "float16", "bfloat16")
"""Types that a module may compute in."""


class Kept(NamedTuple):
    """A tensor as a file holds it: its type, its shape, and its numbers in a row."""

    dtype: str
    shape: tuple[int, ...]
    numbers: NDArray[Any]


def keep_tensors(state: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the tensors of a state dict as files hold them."""
    return {str(name): tuple(_keep(str(name), part)) for name, part in state.items()}


def _keep(name: str, part: Any) -> Kept:
    import torch

    if not isinstance(part, torch.Tensor):
        raise MalformedError(f"the module keeps a {type(part).__name__} under {name!r}, and files hold tensors only")
    dtype = str(part.dtype).removeprefix("torch.")
    if part.layout is not torch.strided or part.is_quantized or part.is_meta or dtype not in _KEPT_AS:
        raise MalformedError(
            f"the tensor {name!r} of the module is sparse, quantised or of the type {dtype}, which files do not hold"
        )
    flat = part.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return Kept(dtype, tuple(part.shape), flat.view(getattr(torch, _KEPT_AS[dtype])).numpy())


def is_state(value: Any) -> bool:
    """Whether it is what `keep_tensors` returns: texts, and tensors whose shapes and numbers agree."""
    return isinstance(value, dict) and all(_is_name(name) and _is_kept(part) for name, part in value.items())


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_NAME


def _is_kept(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    dtype, shape, numbers = value
    if not isinstance(dtype, str) or dtype not in _KEPT_AS or not isinstance(shape, tuple):
        return False
    if len(shape) > _MOST_DIMENSIONS or not all(type(length) is int and 0 <= length < _LONGEST for length in shape):
        return False
    right = isinstance(numbers, np.ndarray) and numbers.ndim == 1 and numbers.dtype == np.dtype(_KEPT_AS[dtype])
    return right and numbers.size == math.prod(shape) * (2 if dtype in _PAIRS else 1)


def restore_tensor(kept: Kept) -> torch.Tensor:
    """Return the tensor again, on the memory of its array."""
    import torch

    return torch.from_numpy(kept.numbers).view(getattr(torch, kept.dtype)).reshape(kept.shape)
