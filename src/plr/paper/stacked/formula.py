"""The formula on stacks: a weighting and a loss of its own for each fit, on tensors of shape (fits, rows, candidates).

What `plr.weighting.formula` computes for one row, with equal priors and Student's t as the posterior's noise, but in
float32: with a large beta2 the shares of candidates that are nearly equally far are off by some percent. Scores and
losses are the ``torch_score`` and ``torch_value`` of the weightings and losses themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plr.losses import Loss
from plr.paper.stack_methods import FUSED_WEIGHTINGS
from plr.torch.shares import raw_shares
from plr.weighting import Posterior, Weighting
from plr.weighting.families import NOISES

__all__ = ["POSTERIOR", "STUDENT", "MethodCodes", "Terms", "evidence", "row_terms"]

STUDENT = NOISES["student"]
POSTERIOR = FUSED_WEIGHTINGS.index(Posterior)


class MethodCodes(NamedTuple):
    """What the fits are trained by; tensors are of shape (fits, 1, 1)."""

    weightings: Mapping[int, Weighting]
    """By code, one of each kind that occurs."""
    losses: Mapping[int, Loss]
    weighting: Tensor
    loss: Tensor
    first: Tensor
    second: Tensor
    number: Tensor


class Terms(NamedTuple):
    """A row's loss, its derivative by the prediction, and its part in the posterior's next noise scale."""

    loss: Tensor
    slope: Tensor
    spread: Tensor


def row_terms(method: MethodCodes, prediction: Tensor, values: Tensor, scale: Tensor) -> Terms:
    """Weigh every row's candidates and return what the row costs.

    Parameters
    ----------
    method : MethodCodes
    prediction : Tensor of shape (fits, rows)
    values : Tensor of shape (fits, rows, candidates), NaN where absent
    scale : Tensor of shape (fits,)
        Noise scale of the posterior.
    """
    present = ~torch.isnan(values)
    with torch.enable_grad():
        centre = prediction.detach().requires_grad_()
        near = centre[..., None].expand_as(values)
        values = torch.where(present, values, near.detach())
        costs = _costs(method, near, values)
    scale = scale[:, None, None]
    takes_all = torch.zeros_like(method.weighting, dtype=torch.bool)
    scores = torch.zeros_like(values)
    for code, weighting in method.weightings.items():
        if code == POSTERIOR:
            found = STUDENT.torch_log_density((near.detach() - values) / scale, method.first)
        else:
            numbers = (method.first, method.second)[: len(weighting.encode().numbers)]
            found = weighting.torch_score(near.detach(), values, costs.detach(), *numbers)
        scores = torch.where(method.weighting == code, found, scores)
        takes_all |= (method.weighting == code) & weighting.takes_all
    share, _ = raw_shares(scores, present, takes_all=takes_all)
    share = share / share.sum(dim=-1, keepdim=True)
    with torch.enable_grad():
        loss = (share * costs).sum(dim=-1)
        (slope,) = torch.autograd.grad(loss.sum(), centre)
    spread = torch.zeros_like(slope)
    if POSTERIOR in method.weightings:
        spread = _spread(share, near.detach() - values, scale, method.first)
    return Terms(loss.detach(), slope, spread)


def _costs(method: MethodCodes, prediction: Tensor, values: Tensor) -> Tensor:
    costs = torch.zeros_like(values)
    for code, loss in method.losses.items():
        found = loss.torch_value(prediction, values, *(method.number,)[: len(loss.encode())])
        costs = torch.where(method.loss == code, found, costs)
    return costs


def _spread(share: Tensor, residual: Tensor, scale: Tensor, degrees: Any) -> Tensor:
    return (share * STUDENT.torch_spread(residual, scale, degrees)).sum(dim=-1)


def evidence(degrees: float, prediction: Tensor, values: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
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
    constant = STUDENT.log_constant(degrees) - torch.log(scale)[:, None]
    spread = _spread(share, residual, scale[:, None, None], degrees)
    return total - torch.log(present.sum(dim=-1)) + constant, spread
