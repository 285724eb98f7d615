"""A stack on the device: all fits' data in a few flat arrays, networks padded to shapes that tensor hardware likes.

Each layer has one more unit than the network says, which is always one: its outgoing weights are the next layer's
biases. Everything else that is padded is zero and stays zero, because its gradient is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plr._codes import NARROWEST
from plr.errors import ParameterError
from plr.losses import Loss
from plr.paper.stack_methods import FUSED_LOSSES, FUSED_WEIGHTINGS, check_method
from plr.paper.stacked.fits import IDENTITY, RELU, RULES, Layers, StackedFit
from plr.weighting import Posterior, Weighting

__all__ = ["FLOATS", "INTEGERS", "MOST_LAYERS", "Stack", "State", "pack", "unpack_parameters"]

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

MOST_LAYERS = 3
"""Hidden layers that a stack's networks may have."""


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
    order_rows: list[int]
    order_seeds: list[int]

    @property
    def fits(self) -> int:
        """How many fits there are."""
        return len(self.integers)

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

    def __init__(self) -> None:
        self.parts: list[NDArray[np.float32]] = []
        self.length = 0
        self._places: dict[int, int] = {}
        self._alive: list[object] = []

    def add(self, array: NDArray[Any], part: NDArray[np.float32]) -> int:
        """Return where the array lies, after adding its converted ``part`` if it is new."""
        key = id(array)
        if key not in self._places:
            self._places[key] = self.length
            # An address means the same array only as long as the array is kept.
            self._alive.append(array)
            self.parts.append(part)
            self.length += len(part)
        return self._places[key]

    def has(self, array: NDArray[Any]) -> bool:
        return id(array) in self._places


def pack(fits: Sequence[StackedFit], layers: Layers, epochs: int, device: str | torch.device) -> tuple[Stack, State]:
    """Put fits on a device."""
    _check(fits, layers)
    shape = tuple(_padded(size + 1) for size in layers.sizes[:-1])
    tables, labels = _Pool(), _Pool()
    streams: dict[tuple[int, int], int] = {}
    weightings, weighting_codes = _kinds(FUSED_WEIGHTINGS, [fit.weighting for fit in fits])
    losses, loss_codes = _kinds(FUSED_LOSSES, [fit.loss for fit in fits])
    integers = np.zeros((len(fits), len(INTEGERS)), np.int64)
    floats = np.zeros((len(fits), len(FLOATS)), np.float32)
    scales = np.zeros((len(fits), 2), np.float32)

    def place_table(array: NDArray[Any]) -> int:
        return tables.add(array, array if tables.has(array) else _with_one(array, shape[0]))

    def place_labels(array: NDArray[Any]) -> int:
        return labels.add(array, array if labels.has(array) else np.asarray(array, np.float32).ravel())

    ordered = 0
    for number, fit in enumerate(fits):
        check = fit.validation
        rows = len(fit.features)
        if (fit.seed, rows) not in streams:
            streams[fit.seed, rows] = ordered
            ordered += rows
        integers[number] = (
            place_table(fit.features),
            rows,
            place_labels(fit.targets),
            fit.targets.shape[1],
            place_table(check.features),
            len(check.features),
            place_labels(check.own),
            check.own.shape[1],
            place_labels(check.candidates),
            check.candidates.shape[1],
            place_labels(check.truth),
            streams[fit.seed, rows],
            weighting_codes[number],
            loss_codes[number],
            *(*fit.activations, 0, 0, 0)[:MOST_LAYERS],
        )
        floats[number] = (fit.learning_rate, *_numbers(fit), NARROWEST * fit.scale)
        scales[number] = fit.scale
    parameters = np.stack([_pad_parameters(fit.parameters, layers, shape) for fit in fits])

    def send(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    stack = Stack(
        layers=layers,
        shape=shape,
        table=send(np.concatenate(tables.parts)),
        labels=send(np.concatenate(labels.parts)),
        integers=send(integers),
        floats=send(floats),
        weightings=weightings,
        losses=losses,
        order_rows=[rows for _, rows in streams],
        order_seeds=[seed for seed, _ in streams],
    )
    count = parameters.shape[1]

    def full(*size: int, value: float = 0.0) -> Tensor:
        return torch.full(size, value, dtype=torch.float32, device=device)

    state = State(
        parameters=send(parameters),
        first=full(len(fits), count),
        second=full(len(fits), count),
        scales=send(scales),
        best=full(len(fits), RULES, count),
        best_score=full(len(fits), RULES, value=float("inf")),
        best_epoch=torch.full((len(fits), RULES), -1, dtype=torch.int64, device=device),
        loss=full(len(fits), epochs, value=float("nan")),
        scores=full(len(fits), epochs, RULES, value=float("nan")),
    )
    return stack, state


def _check(fits: Sequence[StackedFit], layers: Layers) -> None:
    """Refuse what would be trained as something else."""
    if not fits:
        raise ParameterError("A stack needs at least one fit.")
    if not 1 <= len(layers.hidden) <= MOST_LAYERS:
        raise ParameterError(f"Networks of a stack have 1 to {MOST_LAYERS} hidden layers, got {len(layers.hidden)}.")
    for number, fit in enumerate(fits):
        check_method(fit.weighting, fit.loss)
        rows, check = len(fit.features), fit.validation
        wrong = {
            "activations": len(fit.activations) != len(layers.hidden) or not set(fit.activations) <= {IDENTITY, RELU},
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


def _numbers(fit: StackedFit) -> tuple[float, float, float]:
    """Return what score and loss take: two numbers, and one."""
    found = fit.weighting.encode()
    numbers = (found.degrees,) if isinstance(fit.weighting, Posterior) else found.numbers
    first, second = (*numbers, 0.0, 0.0)[:2]
    return first, second, (*fit.loss.encode(), 0.0)[0]


def unpack_parameters(padded: NDArray[np.float32], stack: Stack) -> NDArray[np.float32]:
    """Return parameters, of shape (..., padded parameters), as they came."""
    parts = []
    at = 0
    for n_in, n_out, rows, columns in _sides(stack.layers, stack.shape):
        matrix = padded[..., at : at + rows * columns].reshape(*padded.shape[:-1], rows, columns)
        weights = np.swapaxes(matrix[..., :n_in, :n_out], -1, -2)
        parts += [weights.reshape(*padded.shape[:-1], -1), matrix[..., n_in, :n_out]]
        at += rows * columns
    return np.concatenate(parts, axis=-1)


def _pad_parameters(parameters: NDArray[Any], layers: Layers, shape: tuple[int, ...]) -> NDArray[np.float32]:
    parts = []
    at = 0
    for n_in, n_out, rows, columns in _sides(layers, shape):
        matrix = np.zeros((rows, columns), np.float32)
        matrix[:n_in, :n_out] = parameters[at : at + n_in * n_out].reshape(n_out, n_in).T
        at += n_in * n_out
        matrix[n_in, :n_out] = parameters[at : at + n_out]
        at += n_out
        parts.append(matrix.ravel())
    return np.concatenate(parts)


def _sides(layers: Layers, shape: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Return for each layer its inputs and outputs, and the rows and columns of its matrix as padded."""
    sizes = layers.sizes
    columns = (*shape[1:], 1)
    return list(zip(sizes[:-1], sizes[1:], shape, columns, strict=True))


def _padded(size: int) -> int:
    """Return the next power of two, 16 at least: what matrix instructions take."""
    return max(16, 1 << (size - 1).bit_length())


def _with_one(array: NDArray[Any], columns: int) -> NDArray[np.float32]:
    wide = np.zeros((len(array), columns), np.float32)
    wide[:, : array.shape[1]] = array
    wide[:, array.shape[1]] = 1.0
    return wide
