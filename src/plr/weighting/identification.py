"""The identification method (IDent): the candidate with the least loss takes all."""

from __future__ import annotations

from plr._codes import IDENTIFICATION
from plr.weighting.base import Weighting, WeightingCode

__all__ = ["Identify"]


class Identify(Weighting):
    """Give all weight to the candidate with the least loss; equals share it by their prior.

        ℓ_min(f(x), S) = min_{y ∈ S} ℓ(f(x), y)

    Consistent where a model without error exists. It believes its own first guess: a start that is far off is
    confirmed, not corrected. A prior of zero excludes a candidate; otherwise the prior decides only between equals.

    References
    ----------
    Cheng, Wang, Feng, Zhang, An. Partial-Label Regression. AAAI 2023, Eq. (4).
    """

    def encode(self) -> WeightingCode:
        """Return the checked weighting as codes and numbers."""
        return WeightingCode(IDENTIFICATION)
