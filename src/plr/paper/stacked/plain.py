"""A stack trained by batched tensor operations: runs wherever PyTorch does, and the fused kernel is checked by it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from plr.paper.stacked.fits import IDENTITY, RULES
from plr.paper.stacked.formula import POSTERIOR, MethodCodes, evidence, row_terms
from plr.paper.stacked.packing import Stack, State

__all__ = ["forward", "train_epochs"]

# Decay rates of Adam's moments, and what keeps its division finite.
MOMENTUM, SECOND_MOMENTUM, EPSILON = 0.9, 0.999, 1e-8


def train_epochs(stack: Stack, state: State, orders: Tensor, epoch: int, batch_size: int, degrees: float) -> None:
    """Train for as many epochs as there are ``orders``, from number ``epoch`` on.

    ``degrees`` is what the common label-free score takes for the noise's degrees of freedom.
    """
    for number, order in enumerate(orders):
        _train_epoch(stack, state, order, epoch + number, batch_size)
        _validate(stack, state, epoch + number, degrees)


def forward(stack: Stack, weights: list[Tensor], x: Tensor) -> list[Tensor]:
    """Return the units of every layer, the prediction last; ``x`` is (fits, rows, padded features)."""
    units = [x]
    for place, matrix in enumerate(weights):
        x = x @ matrix
        if place < len(weights) - 1:
            code = stack.column(f"activation{place + 1}")[:, None, None]
            x = torch.where(code == IDENTITY, x, x.clamp_min(0.0))
            # The unit that is always one.
            x[..., stack.layers.hidden[place]] = 1.0
        units.append(x)
    return units


def matrices(stack: Stack, parameters: Tensor) -> list[Tensor]:
    """Return views of flat parameters, of shape (fits, padded parameters), as each layer's matrix."""
    found = []
    at = 0
    for rows, columns in zip(stack.shape, (*stack.shape[1:], 1), strict=True):
        found.append(parameters[:, at : at + rows * columns].view(-1, rows, columns))
        at += rows * columns
    return found


def _train_epoch(stack: Stack, state: State, order: Tensor, epoch: int, batch_size: int) -> None:
    rows = stack.column("rows")
    steps = (rows + batch_size - 1) // batch_size
    method = _method(stack)
    weights = matrices(stack, state.parameters)
    total = torch.zeros(stack.fits, dtype=torch.float64, device=order.device)
    spread = torch.zeros_like(total)
    position = torch.arange(batch_size, device=order.device)
    for step in range(int(steps.max())):
        place = step * batch_size + position
        taken = place < rows[:, None]
        at = order[(stack.column("order")[:, None] + place).where(taken, 0)].where(taken, 0).long()
        values = _labels(stack, "targets", "width", at)
        # A row that is not there costs nothing; a candidate for it keeps the softmax a number.
        values[..., 0] = torch.where(taken, values[..., 0], 0.0)
        units = forward(stack, weights, stack.table[stack.column("features")[:, None] + at])
        terms = row_terms(method, units[-1][..., 0], values, state.scales[:, 0])
        count = taken.sum(dim=1)
        slope = torch.where(taken, terms.slope, 0.0) / count.clamp_min(1)[:, None]
        gradient = _backward(stack, weights, units, slope[..., None])
        _step(stack, state, gradient, epoch * steps + step + 1, count > 0)
        total += torch.where(taken, terms.loss, 0.0).sum(dim=1)
        spread += torch.where(taken, terms.spread, 0.0).sum(dim=1)
    state.loss[:, epoch] = (total / rows).float()
    learned = torch.maximum((spread / rows).sqrt().float(), stack.number("lowest_scale"))
    state.scales[:, 0] = torch.where(stack.column("weighting") == POSTERIOR, learned, state.scales[:, 0])


def _backward(stack: Stack, weights: list[Tensor], units: list[Tensor], delta: Tensor) -> Tensor:
    parts = []
    for place in range(len(weights) - 1, -1, -1):
        parts.append((units[place].mT @ delta).flatten(start_dim=1))
        if place > 0:
            delta = delta @ weights[place].mT
            code = stack.column(f"activation{place}")[:, None, None]
            delta = torch.where((code == IDENTITY) | (units[place] > 0.0), delta, 0.0)
            delta[..., stack.layers.hidden[place - 1]] = 0.0
    return torch.cat(parts[::-1], dim=1)


def _step(stack: Stack, state: State, gradient: Tensor, step: Tensor, active: Tensor) -> None:
    """Take a step of Adam in those fits that had rows."""
    first = MOMENTUM * state.first + (1.0 - MOMENTUM) * gradient
    second = SECOND_MOMENTUM * state.second + (1.0 - SECOND_MOMENTUM) * gradient**2
    count = step.double()
    rate = stack.number("learning_rate") / (1.0 - MOMENTUM**count)
    root = (1.0 - SECOND_MOMENTUM**count).rsqrt()
    change = rate[:, None].float() * first / (second.sqrt() * root[:, None].float() + EPSILON)
    some = active[:, None]
    state.first.copy_(torch.where(some, first, state.first))
    state.second.copy_(torch.where(some, second, state.second))
    state.parameters.sub_(torch.where(some, change, 0.0))


def _validate(stack: Stack, state: State, epoch: int, degrees: float) -> None:
    """Score every network on its validation rows, and remember those that are the best so far."""
    rows = stack.column("validation_rows")
    own, spread, truth = (torch.zeros(stack.fits, dtype=torch.float64, device=rows.device) for _ in range(3))
    method = _method(stack)
    for at, taken, prediction in _validation_blocks(stack, state):
        terms = row_terms(method, prediction, _labels(stack, "own", "own_width", at), state.scales[:, 0])
        _, row_spread = evidence(
            degrees, prediction, _labels(stack, "candidates", "candidates_width", at), state.scales[:, 1]
        )
        missed = prediction - stack.labels[stack.column("truth")[:, None] + at]
        for sums, part in ((own, terms.loss), (spread, row_spread), (truth, missed**2)):
            sums += torch.where(taken, part, 0.0).sum(dim=1)
    # The scale is carried from epoch to epoch: it follows the network without being solved for anew each time.
    state.scales[:, 1] = torch.maximum((spread / rows).sqrt().float(), stack.number("lowest_scale"))
    found = torch.zeros_like(own)
    for at, taken, prediction in _validation_blocks(stack, state):
        part, _ = evidence(
            degrees, prediction, _labels(stack, "candidates", "candidates_width", at), state.scales[:, 1]
        )
        found += torch.where(taken, part, 0.0).sum(dim=1)
    scores = torch.stack([own / rows, -found / rows, truth / rows], dim=1).float()
    state.scores[:, epoch] = scores
    better = scores < state.best_score
    state.best_score.copy_(torch.where(better, scores, state.best_score))
    state.best_epoch.copy_(torch.where(better, epoch, state.best_epoch))
    for rule in range(RULES):
        some = better[:, rule, None]
        state.best[:, rule] = torch.where(some, state.parameters, state.best[:, rule])


def _validation_blocks(stack: Stack, state: State, size: int = 512) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield some validation rows of each fit at a time: their numbers, which are there, and the predictions."""
    rows = stack.column("validation_rows")
    weights = matrices(stack, state.parameters)
    for begin in range(0, int(rows.max()), size):
        place = torch.arange(begin, min(begin + size, int(rows.max())), device=rows.device)
        taken = place < rows[:, None]
        at = place.expand_as(taken).where(taken, 0)
        x = stack.table[stack.column("validation_features")[:, None] + at]
        yield at, taken, forward(stack, weights, x)[-1][..., 0]


def _labels(stack: Stack, name: str, width: str, at: Tensor) -> Tensor:
    """Return some rows' candidates, of shape (fits, rows, candidates)."""
    widths = stack.column(width)[:, None, None]
    number = torch.arange(int(widths.max()), device=at.device)
    there = number < widths
    index = stack.column(name)[:, None, None] + at[..., None] * widths + number
    return torch.where(there, stack.labels[index.where(there, 0)], torch.nan)


def _method(stack: Stack) -> MethodCodes:
    columns = [stack.column(name) for name in ("weighting", "loss")]
    numbers = [stack.number(name) for name in ("first", "second", "delta")]
    return MethodCodes(stack.weightings, stack.losses, *(part[:, None, None] for part in (*columns, *numbers)))
