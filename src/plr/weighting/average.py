"""The average method: every candidate counts alike, or as much as its prior."""

from __future__ import annotations

from typing import Any

from plr.weighting.base import Weighting, WeightingCode

__all__ = ["Average"]


class Average(Weighting, name="average"):
    """Weigh all candidates of a row alike, or by their prior.

    With the squared loss this is the paper's AVGL-MSE, with ``absolute`` AVGL-MAE, with ``huber`` AVGL-Huber:

        ℓ_avg(f(x), S) = 1/|S| · Σ_{y ∈ S} ℓ(f(x), y)

    A baseline. It is biased towards the middle of the candidates, the more so the more candidates there are; with the
    absolute loss much less than with the squared one.

    References
    ----------
    Cheng, Wang, Feng, Zhang, An. Partial-Label Regression. AAAI 2023, Eq. (3).
    """

    def encode(self) -> WeightingCode:
        """Check the parameters and return what the formula has to know."""
        return WeightingCode(even=True)

    @staticmethod
    def torch_score(prediction: Any, value: Any, loss: Any) -> Any:  # noqa: ARG004
        """Return the same score for all."""
        return value.new_zeros(value.shape)
