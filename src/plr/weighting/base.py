"""What a weighting is: an unchanging object with parameters that says what the compiled formula needs to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sklearn.base import BaseEstimator

__all__ = ["Weighting", "WeightingCode"]


class WeightingCode(NamedTuple):
    """A weighting as the compiled formula knows it."""

    code: int
    first: float = 0.0
    second: float = 0.0
    score: Callable[..., float] | None = None


class Weighting(BaseEstimator):
    """Base of the weightings."""

    learns_scale = False
    """Whether the fit loop has to learn a noise scale for it."""

    def encode(self) -> WeightingCode:
        """Return the checked weighting as codes and numbers."""
        raise NotImplementedError
