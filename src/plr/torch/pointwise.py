"""Pointwise losses on tensors: what missing each candidate costs, by the names and objects of `plr.losses`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

from plr._codes import ABSOLUTE, HUBER, SQUARED
from plr.errors import ParameterError
from plr.losses import Loss, get_loss

__all__ = ["PointwiseFunction", "get_pointwise"]

PointwiseFunction = Callable[[Tensor, Tensor], Tensor]


def squared(prediction: Tensor, value: Tensor) -> Tensor:
    """Return r²."""
    residual = prediction - value
    return residual * residual


def absolute(prediction: Tensor, value: Tensor) -> Tensor:
    """Return the absolute residual; its derivative at 0 is 0."""
    return (prediction - value).abs()


def huber(prediction: Tensor, value: Tensor, delta: float) -> Tensor:
    """Return r²/2 up to ``delta``, then a straight line."""
    return functional.huber_loss(prediction, value, reduction="none", delta=delta)


def get_pointwise(loss: object) -> PointwiseFunction:
    """Turn a name, a `plr.losses` instance or a torch function into a function of tensors.

    >>> get_pointwise("absolute").__name__
    'absolute'
    """
    if callable(loss) and not isinstance(loss, Loss | type):
        return loss
    found = get_loss(loss).encode()
    if found.code == SQUARED:
        return squared
    if found.code == ABSOLUTE:
        return absolute
    if found.code == HUBER:
        return functools.partial(huber, delta=found.delta)
    raise ParameterError(
        f"{type(loss).__name__} is compiled for numbers and cannot take tensors; give a torch function "
        f"loss(prediction, value) that returns one cost per candidate."
    )
