"""Train a stack: go through the epochs in short turns, and take every fit's result back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plr._parameters import check_choice, check_integer
from plr.errors import DependencyError, ParameterError
from plr.paper.stacked import plain
from plr.paper.stacked.fits import IDENTITY, Layers, StackedFit, StackedResult
from plr.paper.stacked.packing import Stack, pack

__all__ = ["draw_orders", "predict_stack", "train_stack"]

# The caller hears of progress, and may stop, about this often.
_SECONDS_BETWEEN_LOOKS = 0.5
_MOST_EPOCHS_A_TURN = 100

# Units of one layer held at a time, over all networks and rows, while predicting.
_MOST_UNITS = 1 << 25

# The constants of splitmix64, as the signed numbers that tensors hold.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64), (31, 1))


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
        Called with the number of epochs done, about twice a second; stops training by raising.

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
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        done += turn
        seconds = time.perf_counter() - began
        # The first turn contains the compilation and says nothing about the next.
        if done > 1:
            turn = max(1, min(int(turn * _SECONDS_BETWEEN_LOOKS / seconds), 4 * turn, _MOST_EPOCHS_A_TURN))
        if callback is not None:
            callback(done)
    arrays: list[Any] = [
        *(part.cpu().numpy()[..., stack.positions] for part in (state.parameters, state.best)),
        *(part.cpu().numpy() for part in (state.best_epoch, state.loss, state.scores)),
    ]
    return [StackedResult(*of_fit) for of_fit in zip(*arrays, strict=True)]


def _engine(name: str, stack: Stack, device: str) -> Callable[..., None]:
    if name == "plain" or (name == "auto" and not device.startswith("cuda")):
        return plain.train_epochs
    try:
        from plr.paper.stacked import fused

        fused.check_supported(stack)
    except (ImportError, ParameterError) as error:
        if name == "auto":
            return plain.train_epochs
        if isinstance(error, ParameterError):
            raise
        raise DependencyError("The fused engine needs Triton, which comes with PyTorch for GPUs.") from error
    return fused.train_epochs


def draw_orders(rows: list[int], seeds: list[int], first_epoch: int, epochs: int, device: str | torch.device) -> Tensor:
    """Return a random order of the rows of each stream, for each of some epochs.

    It is decided by the seed and the epoch alone, not by the other streams.

    Parameters
    ----------
    rows, seeds : list of int
        One entry for each stream.
    first_epoch, epochs : int
    device : device

    Returns
    -------
    Tensor of shape (epochs, sum of rows), int32
        In each row the orders of the streams, one after another.

    Examples
    --------
    >>> draw_orders([4, 3], [7, 8], 0, 2, "cpu").sort(dim=1).values[:, -2:].tolist()
    [[2, 3], [2, 3]]
    """
    numbers = torch.arange(first_epoch, first_epoch + epochs, device=device)
    orders = []
    for count, seed in zip(rows, seeds, strict=True):
        start = torch.from_numpy(np.array([seed % 2**64], np.uint64).view(np.int64)).to(device)
        counter = numbers[:, None] * count + torch.arange(count, device=device)
        # Rows sorted by numbers drawn for them; two equal ones among 2^64 are not to be expected.
        orders.append(_mix(_mix(start) + counter * _STEP).argsort(dim=-1))
    return torch.cat(orders, dim=1).int()


def _mix(z: Tensor) -> Tensor:
    """Return the random numbers of splitmix64 for some counters."""
    for bits, factor in _MIX:
        # Masked: the sign must not be drawn along.
        z = (z ^ ((z >> bits) & ((1 << (64 - bits)) - 1))) * factor
    return z


def predict_stack(
    layers: Layers,
    parameters: NDArray[Any],
    activations: NDArray[Any],
    features: NDArray[Any],
    device: str | torch.device = "cpu",
) -> NDArray[np.float32]:
    """Return the predictions of each network for each row.

    Parameters
    ----------
    layers : Layers
    parameters : ndarray of shape (networks, parameters)
        As `StackedFit` lays them out.
    activations : ndarray of shape (networks, hidden layers)
        Codes of `plr.paper.stacked.fits.ACTIVATIONS`.
    features : ndarray of shape (n, d)
    device : device

    Returns
    -------
    ndarray of shape (networks, n)
    """
    rows = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)).to(device)
    many = max(1, _MOST_UNITS // (max(layers.sizes) * max(len(rows), 1)))
    found = [np.empty((0, len(rows)), np.float32)]
    for begin in range(0, len(parameters), many):
        flat = torch.from_numpy(np.ascontiguousarray(parameters[begin : begin + many], dtype=np.float32)).to(device)
        codes = torch.from_numpy(np.ascontiguousarray(activations[begin : begin + many])).to(device)
        units, at = rows, 0
        for place, (n_in, n_out) in enumerate(pairwise(layers.sizes)):
            weights = flat[:, at : at + n_in * n_out].view(-1, n_out, n_in)
            at += n_in * n_out
            units = units @ weights.mT + flat[:, None, at : at + n_out]
            at += n_out
            if place < len(layers.hidden):
                units = torch.where(codes[:, place, None, None] == IDENTITY, units, units.clamp_min(0.0))
        found.append(units[..., 0].cpu().numpy())
    return np.concatenate(found)
