"""What a stack is made of, and what comes out of it: one `StackedFit` in, one `StackedResult` out. Needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.losses import Absolute, Huber, Loss, Squared
from plr.weighting import Average, Identify, Posterior, Progressive, Weighting

__all__ = [
    "ACTIVATIONS",
    "FUSED_LOSSES",
    "FUSED_WEIGHTINGS",
    "IDENTITY",
    "RULES",
    "Layers",
    "StackedFit",
    "StackedResult",
    "ValidationRows",
    "why_unstackable",
]

IDENTITY = 0
ACTIVATIONS = {"identity": IDENTITY, "relu": 1}
"""Activations that the networks of a stack may have, and their codes."""

FUSED_WEIGHTINGS: tuple[type[Weighting], ...] = (Average, Identify, Progressive, Posterior)
FUSED_LOSSES: tuple[type[Loss], ...] = (Squared, Absolute, Huber)
"""What the fused kernel has code for; on the device, each goes by its place here."""

RULES = 3
"""By what the best epoch is chosen on validation rows: own loss, evidence, truth, in this order."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Layers:
    """The architecture all fits of a stack share: features and units of each hidden layer; one output."""

    features: int
    hidden: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units per layer from input to output."""
        return (self.features, *self.hidden, 1)

    @property
    def parameters(self) -> int:
        """How many parameters a network has.

        >>> Layers(10, (20, 30, 10)).parameters
        1171
        """
        return sum((n_in + 1) * n_out for n_in, n_out in pairwise(self.sizes))


@dataclass(frozen=True, eq=False)
class ValidationRows:
    """Validation rows.

    Attributes
    ----------
    features : ndarray of shape (n, d)
    own : ndarray of shape (n, K), NaN where absent
        What the method's own loss is taken on.
    candidates : ndarray of shape (n, K), NaN where absent
        What the common label-free score is taken on.
    truth : ndarray of shape (n,)
        True labels; what is chosen by them is marked as such.
    """

    features: NDArray[Any]
    own: NDArray[Any]
    candidates: NDArray[Any]
    truth: NDArray[Any]


@dataclass(frozen=True, eq=False)
class StackedFit:
    """One network to train. Arrays that fits share should be the same objects: they are sent to the device once.

    Attributes
    ----------
    features : ndarray of shape (n, d)
    targets : ndarray of shape (n, K), NaN where absent
        Candidates of each row, with equal priors.
    validation : ValidationRows
    parameters : ndarray
        Initial parameters, flat: for each layer the weights, one row per output, then the biases.
    activations : tuple of int
        Codes of `ACTIVATIONS`, one for each hidden layer.
    learning_rate : float
        Of Adam.
    seed : int
        Decides the order of the rows. Fits with the same seed and number of rows see the same batches.
    weighting : Weighting
        The posterior with Student's noise, or any with a ``torch_score``.
    loss : Loss
        Any with a ``torch_value``.
    scale : float
        Noise scale to begin with.
    """

    features: NDArray[Any]
    targets: NDArray[Any]
    validation: ValidationRows
    parameters: NDArray[Any]
    activations: tuple[int, ...]
    learning_rate: float
    seed: int
    weighting: Weighting = Average()  # noqa: RUF009 -- weightings and losses never change
    loss: Loss = Squared()  # noqa: RUF009
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class StackedResult:
    """What one fit came to.

    Attributes
    ----------
    last : ndarray
        Parameters after the last epoch, laid out as they came.
    best : ndarray of shape (3, parameters)
        Parameters after the best epoch by each rule: own loss, evidence, truth.
    best_epoch : ndarray of shape (3,)
        Those epochs, from 0; -1 where no epoch had a finite score.
    loss : ndarray of shape (epochs,)
        Mean training loss of each epoch.
    scores : ndarray of shape (epochs, 3)
        Score of each epoch by each rule; smaller is better.
    """

    last: Floats
    best: Floats
    best_epoch: NDArray[np.int64]
    loss: Floats
    scores: Floats


def why_unstackable(weighting: Weighting, loss: Loss) -> str | None:
    """Say why a stack cannot train by a weighting or a loss; None where it can."""
    if isinstance(weighting, Posterior):
        if weighting.noise != "student" or weighting.needs_density or weighting.scale_by_row:
            return (
                f"A stack knows the posterior with Student's noise, uniform false labels and one noise scale alone, "
                f"not {weighting!r}; train it on the CPU."
            )
    elif weighting.torch_score is None:
        return (
            f"A stack does not know the weighting {type(weighting).__name__}, which has no torch_score; train it on "
            f"the CPU."
        )
    if loss.torch_value is None:
        return f"A stack does not know the loss {type(loss).__name__}, which has no torch_value; train it on the CPU."
    return None
