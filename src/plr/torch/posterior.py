"""The posterior weighting as a loss, with a noise scale that it learns on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plr._codes import MOST_MISSING, NARROWEST
from plr._parameters import check_number
from plr.errors import ParameterError
from plr.torch.losses import CandidateLoss, checked_importance
from plr.torch.shares import raw_shares
from plr.weighting import Posterior, get_weighting
from plr.weighting.families import NOISES, NoiseFamily

__all__ = ["PosteriorLoss", "make_loss"]


class PosteriorLoss(CandidateLoss):
    """Weigh candidates by how probable it is that they are the truth: see `plr.weighting.Posterior`.

    The scale of the noise is the buffer ``scale``, of one entry. In training mode each call moves it towards the scale
    that fits the batch best, by expectation-maximisation; in evaluation mode it stays. It is part of the state dict.

    Parameters
    ----------
    noise : {"student", "gaussian", "laplace"}, default="student"
    degrees : float, default=3.0
        Degrees of freedom of Student's t.
    initial_scale : float, default=1.0
        Where the scale begins: the standard deviation of the candidates, so that weights begin nearly even.
    momentum : float, default=0.05
        How much a batch moves the scale: 0 not at all, 1 all the way.
    loss, reduction
        As in `CandidateLoss`.
    missing_truth : float or "learned", default=0.0
        The share of rows whose truth is missing from their candidates; the weights of a row then sum to less than one.
        It needs ``log_q`` in every call: for uniform false labels, minus the log of the labels' range. Learned, it is
        the buffer ``missing`` and moves as the scale does; otherwise it stays there.
    device, dtype : optional
        Of the buffers, as in torch's own modules.

    Examples
    --------
    >>> loss = PosteriorLoss(initial_scale=2.0, momentum=1.0)
    >>> row = torch.tensor([0.0]), torch.tensor([[1.0, 9.0]]), torch.tensor([[True, True]])
    >>> loss.weights(*row)
    tensor([[0.9808, 0.0192]])
    >>> _ = loss(*row)
    >>> loss.scale
    tensor([1.2142])
    """

    scale: Tensor
    missing: Tensor
    add_up: Callable[[Tensor], None] | None = None
    """Adds a tensor up over the processes that train together, in place; the noise is then learned from all their
    rows."""

    def __init__(
        self,
        noise: str = "student",
        degrees: float = 3.0,
        initial_scale: float = 1.0,
        momentum: float = 0.05,
        loss: object = "squared",
        reduction: str = "mean",
        *,
        missing_truth: float | str = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(Posterior(noise, degrees, missing_truth=missing_truth), loss, reduction)
        code = self._code
        self.noise, self.degrees, self.missing_truth = noise, code.degrees, missing_truth
        self._may_miss, self._learns_missing = code.missing > 0.0, code.learns_missing
        self.initial_scale = check_number("initial_scale", initial_scale, low=0.0, open_low=True)
        self.momentum = check_number("momentum", momentum, low=0.0, high=1.0)
        # Of shape (1,): what a compiled graph writes to a float64 tensor without dimensions is lost.
        self.register_buffer("scale", torch.tensor([self.initial_scale], device=device, dtype=dtype))
        if self._may_miss:
            self.register_buffer("missing", torch.tensor([code.missing], device=device, dtype=dtype))

    def next_scale(
        self,
        prediction: Tensor,
        candidates: Tensor,
        mask: Tensor,
        prior: Tensor | None = None,
        sample_weight: Tensor | None = None,
        *,
        log_q: Tensor | None = None,
    ) -> Tensor:
        """Return the scale after a whole round of expectation-maximisation on these rows; nothing changes."""
        centre, values = self._prepared(prediction, candidates, mask, prior, log_q)
        weights = self._shares(centre.detach(), values, mask, prior, log_q)
        importance = checked_importance(sample_weight, centre)
        return self._scale_of(self._mean_spread(centre.detach(), values, weights, importance))

    def extra_repr(self) -> str:
        """Say how it was made, for ``repr``."""
        missing = f"missing_truth={self.missing_truth!r}, " if self._may_miss else ""
        return f"noise={self.noise!r}, degrees={self.degrees:g}, {missing}reduction={self.reduction!r}"

    def _scores(self, prediction: Tensor, values: Tensor, log_q: Tensor | None) -> Tensor:
        score = self._family.torch_log_density((prediction - values) / self.scale.to(values.dtype), self.degrees)
        return score if log_q is None else score - log_q.to(values.dtype)

    @property
    def _family(self) -> NoiseFamily:
        return NOISES[self.noise]

    def _check_weighting(self) -> None:
        """Take the posterior, whose score is here and not its own, because it needs the learned scale."""

    def _shares(
        self, prediction: Tensor, values: Tensor, mask: Tensor, prior: Tensor | None, log_q: Tensor | None
    ) -> Tensor:
        if not self._may_miss:
            return super()._shares(prediction, values, mask, prior, log_q)
        if log_q is None:
            raise ParameterError(
                "With missing_truth the density of false labels counts: give log_q. Where false labels are uniform, it "
                "is minus the logarithm of the range of the labels, for every candidate."
            )
        belief = mask.to(values.dtype) if prior is None else torch.where(mask, prior.to(values.dtype), 0.0)
        belief = belief / belief.sum(1, keepdim=True)
        share, best = raw_shares(self._scores(prediction[:, None], values, log_q), mask, belief)
        missing, scale = self.missing.to(values.dtype), self.scale.to(values.dtype)
        absent = missing / (1.0 - missing) * (-best - self._code.constant).exp() * scale
        return (share / (share.sum(1, keepdim=True) + absent)).detach()

    def _row_losses(self, prediction: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        if self._may_miss:
            # A row without weight has no candidate to be weighed by; one step away, losses and derivatives are numbers.
            empty = ~(weights != 0).any(1, keepdim=True)
            values = torch.where(empty, prediction.detach()[:, None] + 1.0, values)
        return super()._row_losses(prediction, values, weights)

    def _learn(self, prediction: Tensor, values: Tensor, weights: Tensor, importance: Tensor | None, own: bool) -> None:
        if self.momentum == 0.0:
            return
        found = self._mean_spread(prediction, values, weights, importance)
        scale = self.scale.to(values.dtype)
        before = scale * scale if self._family.squared else scale
        # A batch without weight, or one whose predictions have diverged (NaN or infinity), changes nothing.
        found = torch.where(torch.isfinite(found), found, before)
        if self._learns_missing and own:
            # Given weights sum to one, and say nothing about it.
            missing = self.missing.to(values.dtype)
            share = (1.0 - self._mean(weights.sum(1), importance)).clamp(0.0, MOST_MISSING)
            share = torch.where(torch.isfinite(share), share, missing)
            self.missing.copy_(missing + self.momentum * (share - missing))
        self.scale.copy_(self._scale_of(before + self.momentum * (found - before)))

    def _mean_spread(self, prediction: Tensor, values: Tensor, weights: Tensor, importance: Tensor | None) -> Tensor:
        """Return the weighted mean of the rows' part in the next scale, or in its square."""
        residual = torch.where(weights != 0, prediction[:, None] - values, 0.0)
        parts = self._family.torch_spread(residual, self.scale.to(values.dtype), self.degrees)
        spread = self._mean((weights * parts).sum(1), importance)
        return spread / self._mean(weights.sum(1), importance) if self._may_miss else spread

    def _mean(self, rows: Tensor, importance: Tensor | None) -> Tensor:
        weight = torch.ones_like(rows) if importance is None else importance.to(rows.dtype)
        sums = torch.stack([(rows * weight).sum(), weight.sum()])
        if self.add_up is not None:
            self.add_up(sums)
        return sums[0] / sums[1]

    def _scale_of(self, spread: Tensor) -> Tensor:
        scale = spread.sqrt() if self._family.squared else spread
        return scale.clamp(min=max(NARROWEST * self.initial_scale, torch.finfo(self.scale.dtype).tiny))


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
