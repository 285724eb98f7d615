"""The formula on stacks: a weighting and a loss of its own for each fit, on tensors of shape (fits, rows, candidates).

What `plr.weighting._formula` computes for one row, with equal priors and Student's t as the posterior's noise, but in
float32: with a large beta2 the shares of candidates that are nearly equally far are off by some percent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from plr._codes import ABSOLUTE, IDENTIFICATION, POSTERIOR, PROGRESSIVE, SQUARED

__all__ = ["Method", "Terms", "evidence", "row_terms"]

# Below this a loss counts as this, and above that a score as that: differences must stay finite.
SMALLEST_LOSS = 1e-30
HIGHEST_SCORE = 1e37


class Method(NamedTuple):
    """Codes and numbers of the fits, each of shape (fits, 1, 1)."""

    weighting: Tensor
    loss: Tensor
    first: Tensor
    second: Tensor
    delta: Tensor


class Terms(NamedTuple):
    """A row's loss, its derivative by the prediction, and its part in the posterior's next noise scale."""

    loss: Tensor
    slope: Tensor
    spread: Tensor


def row_terms(method: Method, prediction: Tensor, values: Tensor, scale: Tensor) -> Terms:
    """Weigh every row's candidates and return what the row costs.

    Parameters
    ----------
    method : Method
    prediction : Tensor of shape (fits, rows)
    values : Tensor of shape (fits, rows, candidates), NaN where absent
    scale : Tensor of shape (fits,)
        Noise scale of the posterior.
    """
    present = ~torch.isnan(values)
    residual = torch.where(present, prediction[..., None] - values, 0.0)
    loss, slope = _pointwise(method, residual)
    stretched = _student(method.second, residual, scale)
    power = torch.where(method.first == 0.5, loss.clamp_min(SMALLEST_LOSS).rsqrt(), _power(loss, method.first))
    score = torch.where(method.weighting == PROGRESSIVE, (method.second * power).clamp_max(HIGHEST_SCORE), 0.0)
    score = torch.where(method.weighting == POSTERIOR, stretched, score)
    score = torch.where(method.weighting == IDENTIFICATION, -loss, score)
    score = torch.where(present, score, -torch.inf)
    best = score.amax(dim=-1, keepdim=True)
    soft = torch.exp(score - best)
    share = torch.where(method.weighting == IDENTIFICATION, (score == best).to(soft.dtype), soft)
    share = torch.where(present, share, 0.0)
    share = share / share.sum(dim=-1, keepdim=True)
    return Terms(
        (share * loss).sum(dim=-1),
        (share * slope).sum(dim=-1),
        (share * _spread(method.second, residual, scale)).sum(dim=-1),
    )


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
    freedom = torch.full((1, 1, 1), degrees, device=values.device)
    score = torch.where(present, _student(freedom, residual, scale), -torch.inf)
    total = torch.logsumexp(score, dim=-1)
    share = torch.where(present, torch.exp(score - total[..., None]), 0.0)
    spread = (share * _spread(freedom, residual, scale)).sum(dim=-1)
    constant = log_constant(degrees) - torch.log(scale)[:, None]
    return total - torch.log(present.sum(dim=-1)) + constant, spread


def log_constant(degrees: float) -> float:
    """Return the log of the normalising constant of Student's t at scale one."""
    half = 0.5 * degrees
    return math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(degrees * math.pi)


def _pointwise(method: Method, residual: Tensor) -> tuple[Tensor, Tensor]:
    length = residual.abs()
    near = length <= method.delta
    huber = torch.where(near, 0.5 * residual**2, method.delta * (length - 0.5 * method.delta))
    loss = torch.where(method.loss == SQUARED, residual**2, torch.where(method.loss == ABSOLUTE, length, huber))
    pull = torch.where(near, residual, method.delta * residual.sign())
    slope = torch.where(
        method.loss == SQUARED, 2.0 * residual, torch.where(method.loss == ABSOLUTE, residual.sign(), pull)
    )
    return loss, slope


def _power(loss: Tensor, exponent: Tensor) -> Tensor:
    return torch.exp(-exponent * torch.log(loss.clamp_min(SMALLEST_LOSS)))


def _student(degrees: Tensor, residual: Tensor, scale: Tensor) -> Tensor:
    ratio = residual / scale[:, None, None]
    return -0.5 * (degrees + 1.0) * torch.log1p(ratio * ratio / degrees.clamp_min(SMALLEST_LOSS))


def _spread(degrees: Tensor, residual: Tensor, scale: Tensor) -> Tensor:
    ratio = residual / scale[:, None, None]
    return (degrees + 1.0) * residual**2 / (degrees + ratio * ratio).clamp_min(SMALLEST_LOSS)
