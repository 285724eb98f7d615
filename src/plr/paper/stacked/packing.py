"""A stack on the device: all fits' data in a few flat arrays, networks padded to shapes that tensor hardware likes.

Each layer has one more unit than the network says, which is always one: its outgoing weights are the next layer's
biases. Everything else that is padded is zero and stays zero, because its gradient is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plr._codes import NARROWEST
from plr.errors import ParameterError
from plr.losses import Loss
from plr.paper.stacked.fits import (
    ACTIVATIONS,
    FUSED_LOSSES,
    FUSED_WEIGHTINGS,
    RULES,
    Layers,
    StackedFit,
    why_unstackable,
)
from plr.weighting import Posterior, Weighting

__all__ = ["FLOATS", "INTEGERS", "Stack", "State", "pack"]

# Columns of Stack.integers and Stack.floats.
INTEGERS = (
    "features",
    "rows",
    "targets",
    "width",
    "validation_features",
    "validation_rows",
    "own",
    "own_width",
    "candidates",
    "candidates_width",
    "truth",
    "order",
    "weighting",
    "loss",
    "activation1",
    "activation2",
    "activation3",
)
FLOATS = ("learning_rate", "first", "second", "delta", "lowest_scale")

# Hidden layers that a stack's networks may have.
_MOST_LAYERS = 3


@dataclass(frozen=True, eq=False)
class Stack:
    """What does not change while a stack is trained.

    Attributes
    ----------
    layers : Layers
    shape : tuple of int
        Units of each layer but the last as padded.
    table : Tensor of shape (all rows, padded features)
        The rows of every table, the unit that is always one included; tables lie one after another.
    labels : Tensor, flat
        Candidates and true labels, row by row, NaN where absent.
    integers, floats : Tensor of shape (fits, ...)
        What each fit uses of that, and its hyper-parameters; see `INTEGERS` and `FLOATS`. Features count in rows of
        ``table``, labels in entries of ``labels``, orders in entries of what `draw_orders` returns per epoch.
    weightings, losses : dict
        One of each kind that occurs, by the code it has in ``integers``.
    positions : ndarray of int
        Where the parameters of a `StackedFit` lie among the padded ones.
    order_rows, order_seeds : list of int
        For each stream of row orders that the fits share, its rows and its seed.
    """

    layers: Layers
    shape: tuple[int, ...]
    table: Tensor
    labels: Tensor
    integers: Tensor
    floats: Tensor
    weightings: dict[int, Weighting]
    losses: dict[int, Loss]
    positions: NDArray[np.int64]
    order_rows: list[int]
    order_seeds: list[int]

    def column(self, name: str) -> Tensor:
        """Return one integer of every fit."""
        return self.integers[:, INTEGERS.index(name)]

    def number(self, name: str) -> Tensor:
        """Return one hyper-parameter of every fit."""
        return self.floats[:, FLOATS.index(name)]


@dataclass(frozen=True, eq=False)
class State:
    """What changes while a stack is trained; all tensors are changed in place.

    Attributes
    ----------
    parameters, first, second : Tensor of shape (fits, padded parameters)
        The networks and Adam's moments.
    scales : Tensor of shape (fits, 2)
        The method's own noise scale, and that of the common score.
    best : Tensor of shape (fits, 3, padded parameters)
    best_score, best_epoch : Tensor of shape (fits, 3)
    loss : Tensor of shape (fits, epochs)
    scores : Tensor of shape (fits, epochs, 3)
    """

    parameters: Tensor
    first: Tensor
    second: Tensor
    scales: Tensor
    best: Tensor
    best_score: Tensor
    best_epoch: Tensor
    loss: Tensor
    scores: Tensor


class _Pool:
    """Arrays laid one after another, each only once."""

    def __init__(self, convert: Callable[[NDArray[Any]], NDArray[np.float32]]) -> None:
        self._convert = convert
        self._parts: list[NDArray[np.float32]] = []
        self._length = 0
        # By address, which means the same array only as long as the array is kept.
        self._places: dict[int, tuple[int, NDArray[Any]]] = {}

    def place(self, array: NDArray[Any]) -> int:
        """Return where the array lies, after adding it if it is new."""
        if id(array) not in self._places:
            self._places[id(array)] = (self._length, array)
            self._parts.append(self._convert(array))
            self._length += len(self._parts[-1])
        return self._places[id(array)][0]

    def whole(self) -> NDArray[np.float32]:
        return np.concatenate(self._parts)


def pack(fits: Sequence[StackedFit], layers: Layers, epochs: int, device: str | torch.device) -> tuple[Stack, State]:
    """Put fits on a device."""
    _check(fits, layers)
    # The next power of two, 16 at least: what matrix instructions take.
    shape = tuple(max(16, 1 << size.bit_length()) for size in layers.sizes[:-1])

    def with_one(array: NDArray[Any]) -> NDArray[np.float32]:
        wide = np.zeros((len(array), shape[0]), np.float32)
        wide[:, : array.shape[1]] = array
        wide[:, array.shape[1]] = 1.0
        return wide

    tables, labels = _Pool(with_one), _Pool(lambda array: np.asarray(array, np.float32).ravel())
    streams: dict[tuple[int, int], int] = {}
    weightings, weighting_codes = _kinds(FUSED_WEIGHTINGS, [fit.weighting for fit in fits])
    losses, loss_codes = _kinds(FUSED_LOSSES, [fit.loss for fit in fits])
    integers = np.zeros((len(fits), len(INTEGERS)), np.int64)
    floats = np.zeros((len(fits), len(FLOATS)), np.float32)
    for number, fit in enumerate(fits):
        check = fit.validation
        rows = len(fit.features)
        if (fit.seed, rows) not in streams:
            streams[fit.seed, rows] = sum(length for _, length in streams)
        integers[number] = (
            tables.place(fit.features),
            rows,
            labels.place(fit.targets),
            fit.targets.shape[1],
            tables.place(check.features),
            len(check.features),
            labels.place(check.own),
            check.own.shape[1],
            labels.place(check.candidates),
            check.candidates.shape[1],
            labels.place(check.truth),
            streams[fit.seed, rows],
            weighting_codes[number],
            loss_codes[number],
            *(*fit.activations, 0, 0, 0)[:_MOST_LAYERS],
        )
        found = fit.weighting.encode()
        numbers = (found.degrees,) if isinstance(fit.weighting, Posterior) else found.numbers
        delta = (*fit.loss.encode(), 0.0)[0]
        floats[number] = (fit.learning_rate, *(*numbers, 0.0, 0.0)[:2], delta, NARROWEST * fit.scale)

    def send(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    stack = Stack(
        layers=layers,
        shape=shape,
        table=send(tables.whole()),
        labels=send(labels.whole()),
        integers=send(integers),
        floats=send(floats),
        weightings=weightings,
        losses=losses,
        positions=_positions(layers.sizes, shape),
        order_rows=[rows for _, rows in streams],
        order_seeds=[seed for seed, _ in streams],
    )
    padded = np.zeros((len(fits), np.dot(shape, (*shape[1:], 1))), np.float32)
    padded[:, stack.positions] = [fit.parameters for fit in fits]
    parameters = send(padded)

    def full(*size: int, value: float = 0.0) -> Tensor:
        return torch.full((len(fits), *size), value, dtype=torch.float32, device=device)

    state = State(
        parameters=parameters,
        first=torch.zeros_like(parameters),
        second=torch.zeros_like(parameters),
        scales=send(np.array([[fit.scale, fit.scale] for fit in fits], np.float32)),
        best=full(RULES, parameters.shape[1]),
        best_score=full(RULES, value=float("inf")),
        best_epoch=torch.full((len(fits), RULES), -1, dtype=torch.int64, device=device),
        loss=full(epochs, value=float("nan")),
        scores=full(epochs, RULES, value=float("nan")),
    )
    return stack, state


def _check(fits: Sequence[StackedFit], layers: Layers) -> None:
    """Refuse what would be trained as something else."""
    if not fits:
        raise ParameterError("A stack needs at least one fit.")
    if not 1 <= len(layers.hidden) <= _MOST_LAYERS:
        raise ParameterError(f"Networks of a stack have 1 to {_MOST_LAYERS} hidden layers, got {len(layers.hidden)}.")
    known = set(ACTIVATIONS.values())
    for number, fit in enumerate(fits):
        problem = why_unstackable(fit.weighting, fit.loss)
        if problem is not None:
            raise ParameterError(problem)
        rows, check = len(fit.features), fit.validation
        wrong = {
            "activations": len(fit.activations) != len(layers.hidden) or not set(fit.activations) <= known,
            "features": rows == 0 or fit.features.shape[1] != layers.features,
            "targets": fit.targets.ndim != 2 or len(fit.targets) != rows,
            "parameters": fit.parameters.shape != (layers.parameters,),
            "validation": len(check.features) == 0
            or check.features.shape[1] != layers.features
            or {len(check.own), len(check.candidates), len(check.truth)} != {len(check.features)},
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise ParameterError(f"Fit {number} of the stack has {name} that no stack of this shape can train.")


def _kinds(known: tuple[type[Any], ...], given: list[Any]) -> tuple[dict[int, Any], list[int]]:
    """Return one of each kind that is given, by its code, and the codes of all; the known kinds come first."""
    kinds = list(dict.fromkeys([*known, *(type(part) for part in given)]))
    codes = [kinds.index(type(part)) for part in given]
    return dict(zip(codes, given, strict=True)), codes


def _positions(sizes: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return where the parameters of a network, laid out as they come, lie among the padded ones."""
    found = []
    at = 0
    for n_in, n_out, rows, columns in zip(sizes[:-1], sizes[1:], shape, (*shape[1:], 1), strict=True):
        matrix = at + np.arange(rows * columns).reshape(rows, columns)
        found += [matrix[:n_in, :n_out].T.ravel(), matrix[n_in, :n_out]]
        at += rows * columns
    return np.concatenate(found)
