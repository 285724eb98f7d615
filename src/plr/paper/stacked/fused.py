"""A stack trained by the fused kernel: what it is launched with. See `plr.paper.stacked.kernel` for what it does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from plr.errors import ParameterError
from plr.paper.stack_methods import FUSED_LOSSES, FUSED_WEIGHTINGS
from plr.paper.stacked.formula import STUDENT
from plr.paper.stacked.kernel import train
from plr.paper.stacked.packing import Stack, State
from plr.paper.stacked.plain import MOMENTUM, SECOND_MOMENTUM

__all__ = ["check_supported", "train_epochs"]

_LAYERS = 3
_WIDEST = 64
# Rows that a program computes at a time, and its groups of 32 threads. With more than 8 of these, two threads would
# hold the same weight, and one might read a moment that the other has just written.
_BLOCK, _WARPS = 64, 4


def check_supported(stack: Stack) -> None:
    """Refuse a stack that the kernel cannot train, and say why."""
    if len(stack.layers.hidden) != _LAYERS or max(stack.shape) > _WIDEST:
        raise ParameterError(
            "The fused engine trains networks of three hidden layers, none of them and no table wider than 63; use "
            "engine='auto'."
        )
    for kind, found, known in (
        ("weighting", stack.weightings, len(FUSED_WEIGHTINGS)),
        ("loss", stack.losses, len(FUSED_LOSSES)),
    ):
        names = [type(part).__name__ for code, part in found.items() if code >= known]
        if names:
            raise ParameterError(f"The fused engine does not know the {kind} {names[0]}; use engine='auto'.")


def train_epochs(
    stack: Stack,
    state: State,
    orders: Tensor,
    epoch: int,
    batch_size: int,
    degrees: float,
    *,
    precision: str = "tf32x3",
) -> None:
    """Train for as many epochs as there are ``orders``, from number ``epoch`` on.

    Parameters
    ----------
    stack, state : Stack, State
    orders : Tensor of shape (epochs, rows of all streams), int32
    epoch, batch_size : int
    degrees : float
        What the common label-free score takes for the noise's degrees of freedom.
    precision : {"tf32x3", "ieee", "tf32"}
        How matrices are multiplied; see `triton.language.dot`. The first two are as good as float32.
    """
    rows = int(stack.column("rows").max())
    steps = (epoch + len(orders)) * -(-rows // batch_size)
    count = torch.arange(1, steps + 1, dtype=torch.float64, device=orders.device)
    corrections = torch.stack([1.0 / (1.0 - MOMENTUM**count), (1.0 - SECOND_MOMENTUM**count).rsqrt()]).float()
    predictions = torch.empty(
        (stack.fits, int(stack.column("validation_rows").max())), dtype=torch.float32, device=orders.device
    )
    kernel: Any = train
    kernel[(stack.fits,)](
        stack.table,
        stack.labels,
        stack.integers,
        stack.floats,
        orders,
        orders.shape[1],
        corrections,
        steps,
        state.parameters,
        state.first,
        state.second,
        state.scales,
        state.best,
        state.best_score,
        state.best_epoch,
        state.loss,
        state.scores,
        predictions,
        predictions.shape[1],
        epoch,
        len(orders),
        state.loss.shape[1],
        batch_size,
        *stack.layers.hidden,
        degrees,
        STUDENT.log_constant(degrees),
        N0=stack.shape[0],
        N1=stack.shape[1],
        N2=stack.shape[2],
        N3=stack.shape[3],
        BLOCK=_BLOCK,
        PRECISION=precision,
        num_warps=_WARPS,
        num_stages=1,
    )
