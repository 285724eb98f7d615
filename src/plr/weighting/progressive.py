"""The progressive identification method (PIDent): the smaller the loss, the larger the share."""

from __future__ import annotations

from typing import Any

from plr._codes import Formula
from plr._parameters import check_number
from plr.weighting.base import Weighting, WeightingCode

__all__ = ["Progressive"]

# Powers of a tiny loss overflow; a score is cut here, where differences still are finite.
_HIGHEST_SCORE = 1e300
_HIGHEST_SINGLE = 1e37


class Progressive(Weighting, name="progressive"):
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
        """Check the parameters and return what the formula has to know."""
        beta1 = check_number("beta1", self.beta1, low=0.0, open_low=True)
        beta2 = check_number("beta2", self.beta2, low=0.0, high=1e100)
        return WeightingCode((beta1, beta2), even=beta2 == 0.0, by_vectors=beta1 == 0.5)

    @staticmethod
    def score(prediction: float, value: float, loss: float, beta1: float, beta2: float) -> float:  # noqa: ARG004
        """Return a candidate's score."""
        return min(beta2 * loss ** (-beta1), _HIGHEST_SCORE)

    @staticmethod
    def torch_score(prediction: Any, value: Any, loss: Any, beta1: Any, beta2: Any) -> Any:  # noqa: ARG004
        """Return candidates' scores; β₁ and β₂ are numbers or tensors."""
        highest = _HIGHEST_SCORE if loss.element_size() == 8 else _HIGHEST_SINGLE
        # The root is exact to the last bit but one; logarithm and exponential are not, and β₂ may be large.
        if isinstance(beta1, float):
            power = loss.rsqrt() if beta1 == 0.5 else loss ** (-beta1)
        else:
            power = loss.rsqrt().where(beta1 == 0.5, loss ** (-beta1))
        return (beta2 * power.clamp(max=highest)).clamp(max=highest)

    @staticmethod
    def vector_form(loss: Any, root: Any) -> Any:  # noqa: ARG004
        """Return the score of vectors of residuals, for β₁ = 1/2."""
        from plr._jit import inlined
        from plr._vectors import choose_above, splat

        @inlined
        def score(formula: Formula, residual: Any) -> Any:
            found, highest = splat(formula.second) / root(formula, residual), splat(_HIGHEST_SCORE)
            return choose_above(found, highest, highest, found)

        return score
