"""Train a stack: go through the epochs in short turns, and take every fit's result back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from plr._parameters import check_choice, check_integer
from plr.errors import DependencyError, ParameterError
from plr.paper.stacked import plain
from plr.paper.stacked.fits import Layers, StackedFit, StackedResult
from plr.paper.stacked.orders import draw_orders
from plr.paper.stacked.packing import Stack, State, pack, unpack_parameters

__all__ = ["train_stack"]

# The caller hears of progress, and may stop, about this often.
_SECONDS_BETWEEN_LOOKS = 0.5
_MOST_EPOCHS_A_TURN = 100


def train_stack(
    fits: Sequence[StackedFit],
    layers: Layers,
    *,
    epochs: int,
    batch_size: int = 256,
    device: str = "cpu",
    engine: str = "auto",
    degrees: float = 3.0,
    callback: Callable[[int], object] | None = None,
) -> list[StackedResult]:
    """Train all fits of a stack.

    Parameters
    ----------
    fits : sequence of StackedFit
    layers : Layers
        The architecture they share.
    epochs, batch_size : int
    device : str
        As PyTorch names it: ``cpu``, ``cuda``, ``cuda:1``.
    engine : {"auto", "fused", "plain"}
        ``fused`` is the Triton kernel; ``auto`` takes it on a GPU where it can train the architecture.
    degrees : float
        Degrees of freedom of the noise that the common label-free score assumes.
    callback : callable, optional
        Told the number of epochs done, about twice a second; stops training by raising.

    Returns
    -------
    list of StackedResult, one for each fit
    """
    check_integer("epochs", epochs, low=1)
    check_integer("batch_size", batch_size, low=1)
    check_choice("engine", engine, ("auto", "fused", "plain"))
    stack, state = pack(fits, layers, epochs, device)
    train = _engine(engine, stack, device)
    done, turn = 0, 1
    while done < epochs:
        began = time.perf_counter()
        turn = min(turn, epochs - done)
        orders = draw_orders(stack.order_rows, stack.order_seeds, done, turn, device)
        train(stack, state, orders, done, batch_size, degrees)
        _wait(device)
        done += turn
        seconds = time.perf_counter() - began
        # The first turn contains the compilation and says nothing about the next.
        if done > 1:
            turn = max(1, min(int(turn * _SECONDS_BETWEEN_LOOKS / seconds), 4 * turn, _MOST_EPOCHS_A_TURN))
        if callback is not None:
            callback(done)
    return _collect(stack, state)


def _engine(name: str, stack: Stack, device: str) -> Callable[..., None]:
    if name == "plain" or (name == "auto" and not device.startswith("cuda")):
        return plain.train_epochs
    try:
        from plr.paper.stacked import fused
    except ImportError as error:
        if name == "fused":
            raise DependencyError("The fused engine needs Triton, which comes with PyTorch for GPUs.") from error
        return plain.train_epochs
    try:
        fused.check_supported(stack)
    except ParameterError:
        if name == "fused":
            raise
        return plain.train_epochs
    return fused.train_epochs


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def _collect(stack: Stack, state: State) -> list[StackedResult]:
    arrays: list[Any] = [
        unpack_parameters(state.parameters.cpu().numpy(), stack),
        unpack_parameters(state.best.cpu().numpy(), stack),
        state.best_epoch.cpu().numpy().astype(np.int64),
        state.loss.cpu().numpy(),
        state.scores.cpu().numpy(),
    ]
    return [StackedResult(*(array[number] for array in arrays)) for number in range(stack.fits)]
