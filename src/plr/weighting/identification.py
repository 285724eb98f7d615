"""The identification method (IDent): the candidate with the least loss takes all."""

from __future__ import annotations

from typing import Any

from plr._codes import Formula
from plr.weighting.base import Weighting, WeightingCode

__all__ = ["Identify"]


class Identify(Weighting, name="identification"):
    """Give all weight to the candidate with the least loss; equals share it by their prior.

        ℓ_min(f(x), S) = min_{y ∈ S} ℓ(f(x), y)

    Consistent where a model without error exists. It believes its own first guess: a start that is far off is
    confirmed, not corrected. A prior of zero excludes a candidate; otherwise the prior decides only between equals.

    References
    ----------
    Cheng, Wang, Feng, Zhang, An. Partial-Label Regression. AAAI 2023, Eq. (4).
    """

    takes_all = True

    def encode(self) -> WeightingCode:
        """Check the parameters and return what the formula has to know."""
        return WeightingCode(by_vectors=True)

    @staticmethod
    def score(prediction: Any, value: Any, loss: Any) -> Any:  # noqa: ARG004
        """Return a candidate's score."""
        return -loss

    torch_score = score

    @staticmethod
    def vector_form(loss: Any, root: Any) -> Any:  # noqa: ARG004
        """Return the score of vectors of residuals."""
        from plr._jit import inlined
        from plr._vectors import splat

        @inlined
        def score(formula: Formula, residual: Any) -> Any:
            return splat(0.0) - loss(formula, residual)

        return score
