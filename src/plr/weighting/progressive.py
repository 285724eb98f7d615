"""The progressive identification method (PIDent): the smaller the loss, the larger the share."""

from __future__ import annotations

from plr._codes import PROGRESSIVE
from plr._parameters import check_number
from plr.weighting.base import Weighting, WeightingCode

__all__ = ["Progressive"]


class Progressive(Weighting):
    """Weigh candidates by a softmax of a negative power of their loss.

        w(x, y) = exp(β₂ · ℓ(f(x), y)^(−β₁)) / Σ_{y' ∈ S} exp(β₂ · ℓ(f(x), y')^(−β₁))

    Small ``beta2`` comes near `Average`, large ``beta2`` near `Identify`. A loss of zero takes all.

    Parameters
    ----------
    beta1 : float, default=0.5
        β₁, how fast the score falls with the loss.
    beta2 : float, default=10.0
        β₂, how much the score counts. It acts on the labels as the learner sees them. The default suits labels scaled
        to standard deviation 1; the paper's grid, 10 to 10000, is for raw labels (``scale_target=False``).

    References
    ----------
    Cheng, Wang, Feng, Zhang, An. Partial-Label Regression. AAAI 2023, Eq. (8).
    """

    def __init__(self, beta1: float = 0.5, beta2: float = 10.0) -> None:
        self.beta1 = beta1
        self.beta2 = beta2

    def encode(self) -> WeightingCode:
        """Return the checked weighting as codes and numbers."""
        beta1 = check_number("Progressive's beta1", self.beta1, low=0.0, open_low=True)
        beta2 = check_number("Progressive's beta2", self.beta2, low=0.0, high=1e100)
        return WeightingCode(PROGRESSIVE, beta1, beta2)
