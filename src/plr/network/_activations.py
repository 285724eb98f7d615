"""Activations between layers, applied in place to a block, with their derivatives from what the forward pass left."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from plr._jit import jit
from plr.network._blocks import BLOCK, STRIDE

__all__ = ["ACTIVATIONS", "apply_activation", "apply_derivative"]

IDENTITY, RELU, TANH, SILU = 0, 1, 2, 3
ACTIVATIONS = {"identity": IDENTITY, "relu": RELU, "silu": SILU, "tanh": TANH}

Array = NDArray[Any]


@jit
def apply_activation(code: int, values: Array, inputs: Array, first: int, count: int, rows: int) -> None:
    """Replace the units' values by their activation; what went in is kept in ``inputs`` if the derivative needs it."""
    if code == IDENTITY:
        return
    for u in range(first, first + count):
        y = values[u * STRIDE : (u + 1) * STRIDE]
        if code == RELU:
            zero = values.dtype.type(0)
            for r in range(min(rows, BLOCK)):
                y[r] = max(y[r], zero)
        elif code == TANH:
            for r in range(min(rows, BLOCK)):
                y[r] = math.tanh(y[r])
        else:
            x = inputs[u * STRIDE : (u + 1) * STRIDE]
            one = values.dtype.type(1)
            for r in range(min(rows, BLOCK)):
                x[r] = y[r]
                y[r] = y[r] / (one + math.exp(-y[r]))


@jit
def apply_derivative(code: int, values: Array, inputs: Array, deltas: Array, first: int, count: int, rows: int) -> None:
    """Multiply the units' deltas by the derivative of their activation."""
    if code == IDENTITY:
        return
    zero = values.dtype.type(0)
    one = values.dtype.type(1)
    for u in range(first, first + count):
        y = values[u * STRIDE : (u + 1) * STRIDE]
        d = deltas[u * STRIDE : (u + 1) * STRIDE]
        if code == RELU:
            for r in range(min(rows, BLOCK)):
                d[r] = d[r] if y[r] > zero else zero
        elif code == TANH:
            for r in range(min(rows, BLOCK)):
                d[r] *= one - y[r] * y[r]
        else:
            x = inputs[u * STRIDE : (u + 1) * STRIDE]
            for r in range(min(rows, BLOCK)):
                gate = one / (one + math.exp(-x[r]))
                d[r] *= gate * (one + x[r] * (one - gate))
