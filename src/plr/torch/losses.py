"""Weightings as losses over padded candidates.

The one formula once more, on tensors: shares are prior · exp(score), normalised over a row's candidates, and a row
costs the weighted sum of its pointwise losses. The shares count as constants; no gradient passes through them. Equal
scores share by their prior, infinite ones too. Results agree with the compiled row function of `plr.weighting`.

Everything is computed in float32 or better, whatever the prediction comes in: in the wider type of prediction and
candidates.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from plr._parameters import check_choice
from plr.errors import EmptySetError, LengthError, ParameterError, PriorError
from plr.torch.pointwise import get_pointwise
from plr.weighting import Progressive

__all__ = [
    "AverageLoss",
    "CandidateLoss",
    "IdentificationLoss",
    "ProgressiveLoss",
    "ScoreLoss",
    "checked_importance",
]

# The compiled formula's limits: a score this far below the best adds nothing, a prior below this counts as zero, and
# powers of a tiny loss are cut where differences still are finite.
_NEGLIGIBLE = -50.0
_NO_BELIEF = 1e-290
_HIGHEST_SCORE = {torch.float64: 1e300}
_HIGHEST_SCORE_ELSEWHERE = 1e37


class CandidateLoss(nn.Module):
    """Base of the losses: weigh a row's candidates around its prediction, then take the weighted loss.

    Parameters
    ----------
    loss : str, plr.losses.Loss or callable, default="squared"
        What missing a candidate costs: ``squared``, ``absolute``, ``huber``, an instance from `plr.losses`, or a torch
        function ``loss(prediction, value)`` that returns one cost per entry (``reduction="none"`` in torch's own).
    reduction : {"mean", "sum", "none"}, default="mean"
        What becomes of the rows' losses. With sample weights, ``mean`` is the weighted mean.
    """

    _hard = False

    def __init__(self, loss: object = "squared", reduction: str = "mean") -> None:
        super().__init__()
        self.loss = get_pointwise(loss)
        self.reduction = check_choice("reduction", reduction, ("mean", "sum", "none"))

    def forward(
        self,
        prediction: Tensor,
        candidates: Tensor,
        mask: Tensor,
        prior: Tensor | None = None,
        sample_weight: Tensor | None = None,
        *,
        log_q: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        prediction : Tensor of shape (n,) or (n, 1)
        candidates : Tensor of shape (n, K)
            Anything may stand where there is no candidate, NaN too.
        mask : bool Tensor of shape (n, K)
            True where there is a candidate.
        prior : Tensor of shape (n, K), optional
            How likely each candidate is beforehand; only ratios within a row matter.
        sample_weight : Tensor of shape (n,), optional
        log_q : Tensor of shape (n, K), optional
            Log density of false labels at each candidate. `PosteriorLoss` alone uses it.
        weights : Tensor of shape (n, K), optional
            Weights to use in place of those that the formula gives, 0 where there is no candidate.
        """
        centre, values = self._prepared(prediction, candidates, mask, prior, log_q, weights)
        own = weights is None
        if weights is None:
            weights = self._shares(centre.detach(), values, mask, prior, log_q)
        weights = weights.to(values.dtype)
        importance = checked_importance(sample_weight, centre)
        if self.training:
            self._learn(centre.detach(), values, weights, importance, own)
        return self._reduced(self._row_losses(centre, values, weights), importance)

    def weights(
        self,
        prediction: Tensor,
        candidates: Tensor,
        mask: Tensor,
        prior: Tensor | None = None,
        *,
        log_q: Tensor | None = None,
    ) -> Tensor:
        """Return each candidate's share, of shape (n, K), without a gradient; 0 where there is no candidate.

        A row's shares sum to one, or, where its truth may be missing, to the probability that it is not.
        """
        centre, values = self._prepared(prediction, candidates, mask, prior, log_q)
        return self._shares(centre.detach(), values, mask, prior, log_q)

    def extra_repr(self) -> str:
        """Say how it was made, for ``repr``."""
        return f"reduction={self.reduction!r}"

    def _scores(self, prediction: Tensor, values: Tensor, log_q: Tensor | None) -> Tensor:
        """Return each candidate's score: the higher, the larger its share."""
        raise NotImplementedError

    def _learn(self, prediction: Tensor, values: Tensor, weights: Tensor, importance: Tensor | None, own: bool) -> None:
        """Learn on the way, in training mode, what the weighting has to learn; weights not its own were given."""

    def _drops_negligible(self, prior: Tensor | None, log_q: Tensor | None) -> bool:  # noqa: ARG002
        # With a prior it may matter after all: the best score may belong to a candidate hardly believed in.
        return prior is None

    def _prepared(
        self, prediction: Tensor, candidates: Tensor, mask: Tensor, *others: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Check shapes and return predictions of shape (n,) and candidates, in the type to compute in."""
        _check_shapes(prediction, candidates, mask, *others)
        prior = others[0]
        if not torch.compiler.is_compiling():
            # Asking about contents would split a compiled graph.
            _check_rows(mask, prior)
        dtype = torch.promote_types(torch.promote_types(prediction.dtype, candidates.dtype), torch.float32)
        return prediction.reshape(-1).to(dtype), candidates.to(dtype)

    def _shares(
        self, prediction: Tensor, values: Tensor, mask: Tensor, prior: Tensor | None, log_q: Tensor | None
    ) -> Tensor:
        scores = self._scores(prediction[:, None], values, log_q)
        believed = mask
        if prior is not None:
            prior = prior.to(values.dtype)
            believed = mask & (prior >= max(_NO_BELIEF, torch.finfo(values.dtype).tiny))
        best = torch.where(believed, scores, -torch.inf).amax(1, keepdim=True)
        distance = scores - best
        share = torch.zeros_like(distance) if self._hard else distance.exp()
        if self._drops_negligible(prior, log_q):
            share = torch.where(distance <= _NEGLIGIBLE, 0.0, share)
        # Asked apart from the distance, because the difference of two infinite scores is no number.
        share = torch.where(scores == best, 1.0, share)
        if prior is not None:
            share = share * prior
        share = torch.where(believed, share, 0.0)
        return (share / share.sum(1, keepdim=True)).detach()

    def _row_losses(self, prediction: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        counts = weights != 0
        # A candidate without weight is judged as the row's heaviest, so that neither its loss nor its derivative has to
        # be a number.
        heaviest = values.gather(1, weights.argmax(1, keepdim=True))
        values = torch.where(counts, values, heaviest)
        cost = self._costs(prediction[:, None], values)
        return (weights * torch.where(counts, cost, 0.0)).sum(1)

    def _costs(self, prediction: Tensor, values: Tensor) -> Tensor:
        costs = self.loss(prediction.expand_as(values), values)
        if costs.shape != values.shape:
            raise LengthError(
                f"The loss gave shape {tuple(costs.shape)} where {tuple(values.shape)} is expected: one cost per "
                f"candidate, not reduced."
            )
        return costs

    def _reduced(self, rows: Tensor, importance: Tensor | None) -> Tensor:
        if importance is not None:
            rows = rows * importance
        if self.reduction == "none":
            return rows
        if self.reduction == "sum":
            return rows.sum()
        return rows.mean() if importance is None else rows.sum() / importance.sum()


class AverageLoss(CandidateLoss):
    """Every candidate counts alike, or as much as its prior: see `plr.weighting.Average`.

    >>> loss = AverageLoss(loss="absolute")
    >>> loss(torch.tensor([1.0]), torch.tensor([[1.5, 3.0]]), torch.tensor([[True, True]]))
    tensor(1.2500)
    """

    def _scores(self, prediction: Tensor, values: Tensor, log_q: Tensor | None) -> Tensor:  # noqa: ARG002
        return torch.zeros_like(values)


class IdentificationLoss(CandidateLoss):
    """The candidate with the least loss takes all; equals share by their prior: see `plr.weighting.Identify`.

    >>> loss = IdentificationLoss(loss="absolute")
    >>> loss(torch.tensor([1.0]), torch.tensor([[1.5, 3.0]]), torch.tensor([[True, True]]))
    tensor(0.5000)
    """

    _hard = True

    def _scores(self, prediction: Tensor, values: Tensor, log_q: Tensor | None) -> Tensor:  # noqa: ARG002
        return -self._costs(prediction, values)


class ProgressiveLoss(CandidateLoss):
    """A softmax of a negative power of the loss: see `plr.weighting.Progressive`.

    Parameters
    ----------
    beta1 : float, default=0.5
    beta2 : float, default=10.0
        The default suits labels of standard deviation 1.
    loss, reduction
        As in `CandidateLoss`.
    """

    def __init__(
        self, beta1: float = 0.5, beta2: float = 10.0, loss: object = "squared", reduction: str = "mean"
    ) -> None:
        super().__init__(loss, reduction)
        _, self.beta1, self.beta2, *_ = Progressive(beta1, beta2).encode()

    def extra_repr(self) -> str:
        """Say how it was made, for ``repr``."""
        return f"beta1={self.beta1:g}, beta2={self.beta2:g}, {super().extra_repr()}"

    def _scores(self, prediction: Tensor, values: Tensor, log_q: Tensor | None) -> Tensor:  # noqa: ARG002
        if self.beta2 == 0.0:
            return torch.zeros_like(values)
        cost = self._costs(prediction, values)
        score = self.beta2 / cost.sqrt() if self.beta1 == 0.5 else self.beta2 * cost ** (-self.beta1)
        return score.clamp(max=_HIGHEST_SCORE.get(values.dtype, _HIGHEST_SCORE_ELSEWHERE))


class ScoreLoss(CandidateLoss):
    """A softmax of a score of one's own.

    Parameters
    ----------
    score : callable
        A torch function ``score(prediction, value, loss)`` of tensors of one shape that returns a score per entry.
    loss, reduction
        As in `CandidateLoss`.

    Examples
    --------
    >>> boltzmann = ScoreLoss(lambda prediction, value, loss: -loss / 0.1)
    """

    def __init__(
        self,
        score: Callable[[Tensor, Tensor, Tensor], Tensor],
        loss: object = "squared",
        reduction: str = "mean",
    ) -> None:
        super().__init__(loss, reduction)
        if not callable(score):
            raise ParameterError(f"score must be a function score(prediction, value, loss) of tensors, got {score!r}.")
        self.score = score

    def _scores(self, prediction: Tensor, values: Tensor, log_q: Tensor | None) -> Tensor:  # noqa: ARG002
        score = self.score(prediction.expand_as(values), values, self._costs(prediction, values))
        if score.shape != values.shape:
            raise LengthError(
                f"The score gave shape {tuple(score.shape)} where {tuple(values.shape)} is expected: one per candidate."
            )
        return score


def _check_shapes(prediction: Tensor, candidates: Tensor, mask: Tensor, *others: Tensor | None) -> None:
    if candidates.ndim != 2:
        raise LengthError(f"candidates must have shape (rows, largest set), found {tuple(candidates.shape)}.")
    rows, width = candidates.shape
    if not (prediction.shape == (rows,) or prediction.shape == (rows, 1)):
        raise LengthError(
            f"prediction must have shape ({rows},) or ({rows}, 1), as there are {rows} rows of candidates; found "
            f"{tuple(prediction.shape)}."
        )
    if width == 0:
        raise EmptySetError("No row has a candidate: candidates has no column.")
    if mask.dtype != torch.bool:
        raise ParameterError(f"mask must be bool, True where there is a candidate, found {mask.dtype}.")
    for name, other in zip(("mask", "prior", "log_q", "weights"), (mask, *others), strict=False):
        if other is not None and other.shape != candidates.shape:
            raise LengthError(
                f"{name} must have the shape of candidates, {tuple(candidates.shape)}; found {tuple(other.shape)}."
            )


def _check_rows(mask: Tensor, prior: Tensor | None) -> None:
    filled = mask.any(1)
    if not filled.all():
        raise EmptySetError(
            f"Row {int((~filled).nonzero()[0])} of the batch has no candidate: mask is False throughout. Leave it out."
        )
    if prior is None:
        return
    possible = (mask & (prior > 0)).any(1)
    if not possible.all():
        raise PriorError(f"Row {int((~possible).nonzero()[0])} of the batch has no candidate with a prior above 0.")


def checked_importance(sample_weight: Tensor | None, prediction: Tensor) -> Tensor | None:
    """Return sample weights in the type to compute in, one per row."""
    if sample_weight is None:
        return None
    if sample_weight.shape != prediction.shape:
        raise LengthError(
            f"sample_weight must have shape {tuple(prediction.shape)}, one per row; found {tuple(sample_weight.shape)}."
        )
    return sample_weight.to(prediction.dtype)
