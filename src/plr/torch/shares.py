"""Scores of padded candidates as shares: the formula on tensors, for the losses here and for stacks of networks."""

from __future__ import annotations

import torch
from torch import Tensor

from plr._codes import SMALLEST_PRIOR

__all__ = ["raw_shares"]


def raw_shares(
    scores: Tensor,
    mask: Tensor,
    prior: Tensor | None = None,
    *,
    takes_all: bool | Tensor = False,
) -> tuple[Tensor, Tensor]:
    """Return prior · exp(score - best) of candidates along the last dimension, and the best score.

    Equal scores share by their prior, infinite ones too. A candidate that is not there has no share.

    Parameters
    ----------
    scores : Tensor
    mask : bool Tensor
        True where there is a candidate.
    prior : Tensor, optional
    takes_all : bool or Tensor
        Whether the best score takes all.
    """
    possible = mask
    if prior is not None:
        possible = mask & (prior >= max(SMALLEST_PRIOR, torch.finfo(scores.dtype).tiny))
    best = torch.where(possible, scores, -torch.inf).amax(-1, keepdim=True)
    share = (scores - best).exp()
    if isinstance(takes_all, Tensor) or takes_all:
        share = share * ~takes_all if isinstance(takes_all, Tensor) else torch.zeros_like(share)
    # Asked apart from the distance, because the difference of two infinite scores is no number.
    share = torch.where(scores == best, 1.0, share)
    if prior is not None:
        share = share * prior
    return torch.where(possible, share, 0.0), best
