"""A stack trained by batched tensor operations: runs wherever PyTorch does, and the fused kernel is checked by it.

The formula, for tensors of shape (fits, rows, candidates) with a weighting and a loss of its own for each fit, is what
`plr.weighting.formula` computes for one row, with equal priors and Student's t as the posterior's noise, but in
float32: with a large beta2 the shares of candidates that are nearly equally far are off by some percent. Scores and
losses are the ``torch_score`` and ``torch_value`` of the weightings and losses themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from plr.paper.stacked.fits import FUSED_WEIGHTINGS, IDENTITY, RULES
from plr.paper.stacked.packing import Stack, State
from plr.torch.shares import raw_shares
from plr.weighting import Posterior
from plr.weighting.families import NOISES

__all__ = ["EPSILON", "MOMENTUM", "SECOND_MOMENTUM", "STUDENT", "train_epochs"]

STUDENT = NOISES["student"]

# Decay rates of Adam's moments, and what keeps its division finite.
MOMENTUM, SECOND_MOMENTUM, EPSILON = 0.9, 0.999, 1e-8

_POSTERIOR = FUSED_WEIGHTINGS.index(Posterior)


def train_epochs(stack: Stack, state: State, orders: Tensor, epoch: int, batch_size: int, degrees: float) -> None:
    """Train for as many epochs as there are ``orders``, from number ``epoch`` on.

    ``degrees`` is what the common label-free score takes for the noise's degrees of freedom.
    """
    for number, order in enumerate(orders):
        _train_epoch(stack, state, order, epoch + number, batch_size)
        _validate(stack, state, epoch + number, degrees)


def _train_epoch(stack: Stack, state: State, order: Tensor, epoch: int, batch_size: int) -> None:
    rows = stack.column("rows")
    steps = (rows + batch_size - 1) // batch_size
    total = torch.zeros_like(rows, dtype=torch.float64)
    spread = torch.zeros_like(total)
    position = torch.arange(batch_size, device=order.device)
    for step in range(int(steps.max())):
        place = step * batch_size + position
        taken = place < rows[:, None]
        at = order[(stack.column("order")[:, None] + place).where(taken, 0)].where(taken, 0).long()
        values = _labels(stack, "targets", "width", at)
        # A row that is not there costs nothing; a candidate for it keeps the softmax a number.
        values[..., 0] = torch.where(taken, values[..., 0], 0.0)
        count = taken.sum(dim=1)
        parameters = state.parameters.detach().requires_grad_()
        prediction = _predict(stack, parameters, stack.table[stack.column("features")[:, None] + at])
        row_loss, row_spread = _row_terms(stack, prediction, values, state.scales[:, 0])
        loss = torch.where(taken, row_loss, 0.0).sum(dim=1)
        (gradient,) = torch.autograd.grad((loss / count.clamp_min(1)).sum(), parameters)
        _step(stack, state, gradient, epoch * steps + step + 1, count > 0)
        total += loss.detach()
        spread += torch.where(taken, row_spread, 0.0).sum(dim=1)
    state.loss[:, epoch] = (total / rows).float()
    learned = torch.maximum((spread / rows).sqrt().float(), stack.number("lowest_scale"))
    state.scales[:, 0] = torch.where(stack.column("weighting") == _POSTERIOR, learned, state.scales[:, 0])


def _predict(stack: Stack, parameters: Tensor, x: Tensor) -> Tensor:
    """Return what each network predicts for rows of its own; ``x`` is (fits, rows, padded features)."""
    at = 0
    for place, (rows, columns) in enumerate(zip(stack.shape, (*stack.shape[1:], 1), strict=True)):
        x = x @ parameters[:, at : at + rows * columns].unflatten(1, (rows, columns))
        at += rows * columns
        if place < len(stack.layers.hidden):
            code = stack.column(f"activation{place + 1}")[:, None, None]
            x = torch.where(code == IDENTITY, x, x.relu())
            # The unit that is always one.
            x[..., stack.layers.hidden[place]] = 1.0
    return x[..., 0]


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
    own, spread, truth, found = (torch.zeros_like(rows, dtype=torch.float64) for _ in range(4))
    for at, taken, prediction in _validation_blocks(stack, state):
        row_loss, _ = _row_terms(stack, prediction, _labels(stack, "own", "own_width", at), state.scales[:, 0])
        candidates = _labels(stack, "candidates", "candidates_width", at)
        _, row_spread = _evidence(degrees, prediction, candidates, state.scales[:, 1])
        missed = prediction - stack.labels[stack.column("truth")[:, None] + at]
        for sums, part in ((own, row_loss), (spread, row_spread), (truth, missed**2)):
            sums += torch.where(taken, part, 0.0).sum(dim=1)
    # The scale is carried from epoch to epoch: it follows the network without being solved for anew each time.
    state.scales[:, 1] = torch.maximum((spread / rows).sqrt().float(), stack.number("lowest_scale"))
    for at, taken, prediction in _validation_blocks(stack, state):
        candidates = _labels(stack, "candidates", "candidates_width", at)
        evidence, _ = _evidence(degrees, prediction, candidates, state.scales[:, 1])
        found += torch.where(taken, evidence, 0.0).sum(dim=1)
    scores = torch.stack([own / rows, -found / rows, truth / rows], dim=1).float()
    state.scores[:, epoch] = scores
    better = scores < state.best_score
    state.best_score.copy_(torch.where(better, scores, state.best_score))
    state.best_epoch.copy_(torch.where(better, epoch, state.best_epoch))
    for rule in range(RULES):
        state.best[:, rule] = torch.where(better[:, rule, None], state.parameters, state.best[:, rule])


def _validation_blocks(stack: Stack, state: State, size: int = 512) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield some validation rows of each fit at a time: their numbers, which are there, and the predictions."""
    rows = stack.column("validation_rows")
    for place in torch.arange(int(rows.max()), device=rows.device).split(size):
        taken = place < rows[:, None]
        at = place.expand_as(taken).where(taken, 0)
        x = stack.table[stack.column("validation_features")[:, None] + at]
        yield at, taken, _predict(stack, state.parameters, x)


def _labels(stack: Stack, name: str, width: str, at: Tensor) -> Tensor:
    """Return some rows' candidates, of shape (fits, rows, candidates)."""
    widths = stack.column(width)[:, None, None]
    number = torch.arange(int(widths.max()), device=at.device)
    there = number < widths
    index = stack.column(name)[:, None, None] + at[..., None] * widths + number
    return torch.where(there, stack.labels[index.where(there, 0)], torch.nan)


def _row_terms(stack: Stack, prediction: Tensor, values: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Weigh every row's candidates; return the row's loss, and its part in the posterior's next noise scale.

    Parameters
    ----------
    stack : Stack
    prediction : Tensor of shape (fits, rows)
    values : Tensor of shape (fits, rows, candidates), NaN where absent
    scale : Tensor of shape (fits,)
        Noise scale of the posterior.
    """
    first, second, delta = (stack.number(name)[:, None, None] for name in ("first", "second", "delta"))
    loss_codes, codes = (stack.column(name)[:, None, None] for name in ("loss", "weighting"))
    present = ~torch.isnan(values)
    near, scale = prediction[..., None].expand_as(values), scale[:, None, None]
    values = torch.where(present, values, near.detach())
    costs = torch.zeros_like(values)
    for code, loss in stack.losses.items():
        found = loss.torch_value(near, values, *(delta,)[: len(loss.encode())])
        costs = torch.where(loss_codes == code, found, costs)
    # No gradient passes through the weights.
    near = near.detach()
    takes_all = torch.zeros_like(codes, dtype=torch.bool)
    scores = torch.zeros_like(values)
    for code, weighting in stack.weightings.items():
        if code == _POSTERIOR:
            found = STUDENT.torch_log_density((near - values) / scale, first)
        else:
            numbers = (first, second)[: len(weighting.encode().numbers)]
            found = weighting.torch_score(near, values, costs.detach(), *numbers)
        scores = torch.where(codes == code, found, scores)
        takes_all |= (codes == code) & weighting.takes_all
    share, _ = raw_shares(scores, present, takes_all=takes_all)
    share = share / share.sum(dim=-1, keepdim=True)
    spread = torch.zeros_like(near[..., 0])
    if _POSTERIOR in stack.weightings:
        spread = (share * STUDENT.torch_spread(near - values, scale, first)).sum(dim=-1)
    return (share * costs).sum(dim=-1), spread


def _evidence(degrees: float, prediction: Tensor, values: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's log evidence under Student's t and its part in the next scale.

    Parameters
    ----------
    degrees : float
    prediction : Tensor of shape (fits, rows)
    values : Tensor of shape (fits, rows, candidates), NaN where absent
    scale : Tensor of shape (fits,)
    """
    present = ~torch.isnan(values)
    residual = torch.where(present, prediction[..., None] - values, 0.0)
    scores = STUDENT.torch_log_density(residual / scale[:, None, None], degrees)
    scores = torch.where(present, scores, -torch.inf)
    total = torch.logsumexp(scores, dim=-1)
    share = torch.where(present, torch.exp(scores - total[..., None]), 0.0)
    spread = (share * STUDENT.torch_spread(residual, scale[:, None, None], degrees)).sum(dim=-1)
    constant = STUDENT.log_constant(degrees) - torch.log(scale)[:, None]
    return total - torch.log(present.sum(dim=-1)) + constant, spread
