"""One step of each optimiser, on the flat vector of all parameters, as PyTorch defines them."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from plr._jit import jit

__all__ = ["OPTIMIZERS", "update"]

ADAM, ADAMW, SGD = 0, 1, 2
OPTIMIZERS = {"adam": ADAM, "adamw": ADAMW, "sgd": SGD}

_EPSILON = 1e-8

Array = NDArray[Any]


@jit
def update(
    code: int,
    parameters: Array,
    gradient: Array,
    first: Array,
    second: Array,
    step: int,
    rate: float,
    weight_decay: float,
    momentum: float,
    second_momentum: float,
) -> None:
    """Take step number ``step`` (from 1); ``first`` and ``second`` are the running moments.

    Weight decay adds to the gradient in Adam and SGD and acts directly in AdamW.
    """
    cast = parameters.dtype.type
    one = cast(1)
    decay = cast(weight_decay)
    b1 = cast(momentum)
    if code == SGD:
        lr = cast(rate)
        for k in range(parameters.size):
            slope = gradient[k] + decay * parameters[k]
            first[k] = slope if step == 1 else b1 * first[k] + slope
            parameters[k] -= lr * first[k]
        return
    shrink = one
    if code == ADAMW:
        shrink = one - cast(rate * weight_decay)
        decay = cast(0)
    b2 = cast(second_momentum)
    lr = cast(rate / (1.0 - momentum**step))
    root = cast(1.0 / math.sqrt(1.0 - second_momentum**step))
    epsilon = cast(_EPSILON)
    for k in range(parameters.size):
        slope = gradient[k] + decay * parameters[k]
        first[k] = b1 * first[k] + (one - b1) * slope
        second[k] = b2 * second[k] + (one - b2) * slope * slope
        parameters[k] = shrink * parameters[k] - lr * first[k] / (math.sqrt(second[k]) * root + epsilon)
