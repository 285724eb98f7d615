"""From any weighting to the loss that stands for it."""

from __future__ import annotations

from plr.torch.losses import CandidateLoss
from plr.torch.posterior import PosteriorLoss
from plr.weighting import Posterior, get_weighting

__all__ = ["make_loss"]


def make_loss(
    weighting: object,
    loss: object = "squared",
    reduction: str = "mean",
    *,
    initial_scale: float = 1.0,
    momentum: float = 0.05,
) -> CandidateLoss:
    """Return the loss for a weighting, chosen as `plr.PartialLabelRegressor` chooses it: by name or as an instance.

    Parameters
    ----------
    weighting : str or plr.weighting.Weighting
    loss, reduction
        As in `CandidateLoss`.
    initial_scale, momentum : float
        As in `PosteriorLoss`; other weightings learn no noise scale.

    Examples
    --------
    >>> make_loss("progressive")
    CandidateLoss(beta1=0.5, beta2=10.0, reduction='mean')
    """
    found = get_weighting(weighting)
    if not isinstance(found, Posterior):
        return CandidateLoss(found, loss, reduction)
    return PosteriorLoss(
        found.noise, found.degrees, initial_scale, momentum, loss, reduction, missing_truth=found.missing_truth
    )
