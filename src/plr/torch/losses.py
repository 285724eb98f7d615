"""Weightings as losses over padded candidates.

The one formula once more, on tensors: shares are prior · exp(score), normalised over a row's candidates, and a row
costs the weighted sum of its pointwise losses. The shares count as constants; no gradient passes through them. Scores
and pointwise losses are those of `plr.weighting` and `plr.losses`, and results agree with the compiled row function.

Everything is computed in float32 or better, whatever the prediction comes in: in the wider type of prediction and
candidates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from plr._parameters import check_choice
from plr.errors import EmptySetError, LengthError, ParameterError, PriorError
from plr.losses import Loss, get_loss
from plr.torch.shares import raw_shares
from plr.weighting import Average, Custom, Identify, Progressive, get_weighting

__all__ = [
    "AverageLoss",
    "CandidateLoss",
    "IdentificationLoss",
    "ProgressiveLoss",
    "ScoreLoss",
    "checked_importance",
    "get_pointwise",
]

PointwiseFunction = Callable[..., Tensor]


def get_pointwise(loss: object) -> PointwiseFunction:
    """Turn a name, a `plr.losses` instance or a torch function into a function of tensors.

    >>> get_pointwise("absolute")(torch.tensor([1.0]), torch.tensor([3.0]))
    tensor([2.])
    """
    if callable(loss) and not isinstance(loss, Loss | type):
        return loss
    found = get_loss(loss)
    if found.torch_value is None:
        raise ParameterError(
            f"{type(found).__name__} is compiled for numbers and cannot take tensors; give a torch function of "
            f"(prediction, value) that returns one cost per candidate: here, or to the learner as Module(loss=...)."
        )
    return functools.partial(_pointwise, found.torch_value, found.encode())


def _pointwise(function: PointwiseFunction, numbers: tuple[float, ...], prediction: Tensor, value: Tensor) -> Tensor:
    return function(prediction, value, *numbers)


class CandidateLoss(nn.Module):
    """Weigh a row's candidates around its prediction, then take the weighted loss.

    Parameters
    ----------
    weighting : str or plr.weighting.Weighting
        Any that has a ``torch_score``. The posterior, whose noise scale is learned on the way, is `PosteriorLoss`.
    loss : str, plr.losses.Loss or callable, default="squared"
        What missing a candidate costs: ``squared``, ``absolute``, ``huber``, an instance from `plr.losses`, or a torch
        function ``loss(prediction, value)`` that returns one cost per entry (``reduction="none"`` in torch's own).
    reduction : {"mean", "sum", "none"}, default="mean"
        What becomes of the rows' losses. With sample weights, ``mean`` is the weighted mean.
    """

    def __init__(self, weighting: object, loss: object = "squared", reduction: str = "mean") -> None:
        super().__init__()
        self.weighting = get_weighting(weighting)
        self._code = self.weighting.encode()
        self._check_weighting()
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
        given = self.weighting.get_params(deep=False)
        return ", ".join([*(f"{name}={value!r}" for name, value in given.items()), f"reduction={self.reduction!r}"])

    def _check_weighting(self) -> None:
        if self.weighting.torch_score is None:
            raise ParameterError(
                f"The weighting {self.weighting!r} is compiled for numbers and cannot take tensors: it has no "
                f"torch_score. Give a torch function of (prediction, value, loss) instead, which returns one score per "
                f"entry: ScoreLoss(score), or Module(score=...)."
            )

    def _scores(self, prediction: Tensor, values: Tensor, log_q: Tensor | None) -> Tensor:  # noqa: ARG002
        """Return each candidate's score: the higher, the larger its share."""
        if self._code.even:
            return torch.zeros_like(values)
        costs = self._costs(prediction, values)
        score: Tensor = self.weighting.torch_score(prediction.expand_as(values), values, costs, *self._code.numbers)
        if score.shape != values.shape:
            raise LengthError(
                f"The score gave shape {tuple(score.shape)} where {tuple(values.shape)} is expected: one per candidate."
            )
        return score

    def _learn(self, prediction: Tensor, values: Tensor, weights: Tensor, importance: Tensor | None, own: bool) -> None:
        """Learn on the way, in training mode, what the weighting has to learn; weights not its own were given."""

    def _prepared(
        self, prediction: Tensor, candidates: Tensor, mask: Tensor, *others: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Check shapes and return predictions of shape (n,) and candidates, in the type to compute in."""
        shape = tuple(candidates.shape)
        if len(shape) != 2:
            raise LengthError(f"candidates must have shape (rows, largest set), found {shape}.")
        rows, width = shape
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
            if other is not None and other.shape != shape:
                raise LengthError(f"{name} must have the shape of candidates, {shape}; found {tuple(other.shape)}.")
        if not torch.compiler.is_compiling():
            # Asking about contents would split a compiled graph.
            filled, prior = mask.any(1), others[0]
            if not filled.all():
                raise EmptySetError(
                    f"Row {int((~filled).nonzero()[0])} of the batch has no candidate: mask is False throughout. "
                    f"Leave it out."
                )
            possible = filled if prior is None else (mask & (prior > 0)).any(1)
            if not possible.all():
                raise PriorError(
                    f"Row {int((~possible).nonzero()[0])} of the batch has no candidate with a prior above 0."
                )
        dtype = torch.promote_types(torch.promote_types(prediction.dtype, candidates.dtype), torch.float32)
        return prediction.reshape(-1).to(dtype), candidates.to(dtype)

    def _shares(
        self, prediction: Tensor, values: Tensor, mask: Tensor, prior: Tensor | None, log_q: Tensor | None
    ) -> Tensor:
        share, _ = raw_shares(
            self._scores(prediction[:, None], values, log_q),
            mask,
            None if prior is None else prior.to(values.dtype),
            takes_all=self.weighting.takes_all,
        )
        return (share / share.sum(1, keepdim=True)).detach()

    def _row_losses(self, prediction: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        counts = weights != 0
        # A candidate without weight is taken as the row's heaviest, so that neither its loss nor its derivative has to
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

    def __init__(self, loss: object = "squared", reduction: str = "mean") -> None:
        super().__init__(Average(), loss, reduction)


class IdentificationLoss(CandidateLoss):
    """The candidate with the least loss takes all; equals share by their prior: see `plr.weighting.Identify`.

    >>> loss = IdentificationLoss(loss="absolute")
    >>> loss(torch.tensor([1.0]), torch.tensor([[1.5, 3.0]]), torch.tensor([[True, True]]))
    tensor(0.5000)
    """

    def __init__(self, loss: object = "squared", reduction: str = "mean") -> None:
        super().__init__(Identify(), loss, reduction)


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
        super().__init__(Progressive(beta1, beta2), loss, reduction)


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
        if not callable(score):
            raise ParameterError(f"score must be a function score(prediction, value, loss) of tensors, got {score!r}.")
        weighting = Custom(score)
        weighting.torch_score = score
        super().__init__(weighting, loss, reduction)


def checked_importance(sample_weight: Tensor | None, prediction: Tensor) -> Tensor | None:
    """Return sample weights in the type to compute in, one per row."""
    if sample_weight is None:
        return None
    if sample_weight.shape != prediction.shape:
        raise LengthError(
            f"sample_weight must have shape {tuple(prediction.shape)}, one per row; found {tuple(sample_weight.shape)}."
        )
    return sample_weight.to(prediction.dtype)
