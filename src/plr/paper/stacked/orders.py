"""The order in which each epoch takes the rows: decided by a fit's seed and the epoch, not by its neighbours."""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor

__all__ = ["draw_orders"]

# The constants of splitmix64, as the signed numbers that tensors hold.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_MIX = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)


def draw_orders(rows: list[int], seeds: list[int], first_epoch: int, epochs: int, device: str | torch.device) -> Tensor:
    """Return a random order of the rows of each stream, for each of some epochs.

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
    orders = torch.empty((epochs, sum(rows)), dtype=torch.int32, device=device)
    alike: dict[int, list[tuple[int, int]]] = defaultdict(list)
    start = 0
    for count, seed in zip(rows, seeds, strict=True):
        alike[count].append((start, seed))
        start += count
    numbers = torch.arange(first_epoch, first_epoch + epochs, device=device)
    for count, streams in alike.items():
        seed = torch.tensor([_signed(seed) for _, seed in streams], device=device)
        counter = numbers[None, :, None] * count + torch.arange(count, device=device)
        # Rows sorted by numbers drawn for them; two equal ones among 2^64 are not to be expected.
        order = _mix(_mix(seed)[:, None, None] + counter * _STEP).argsort(dim=-1)
        for place, (begin, _) in enumerate(streams):
            orders[:, begin : begin + count] = order[place]
    return orders


def _mix(counter: Tensor) -> Tensor:
    """Return the random numbers of splitmix64 for some counters."""
    z = counter
    for bits, factor in ((30, _MIX[0]), (27, _MIX[1])):
        z = (z ^ _shifted(z, bits)) * factor
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, bits: int) -> Tensor:
    # The sign must not be drawn along.
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    number %= 2**64
    return number - 2**64 if number >= 2**63 else number
