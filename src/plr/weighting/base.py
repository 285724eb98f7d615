"""What a weighting is: an unchanging object with parameters that says what the compiled formula needs to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from plr.candidates import CandidateSets
from plr.weighting.false_labels import FalseLabelDensity

__all__ = ["Weighting", "WeightingCode"]


class WeightingCode(NamedTuple):
    """A weighting as the compiled formula knows it."""

    code: int
    first: float = 0.0
    second: float = 0.0
    score: Callable[..., float] | None = None
    missing: float = 0.0
    """The share of rows whose truth is missing, to begin with."""
    learns_missing: bool = False


class Weighting(BaseEstimator):
    """Base of the weightings."""

    learns_scale = False
    """Whether the fit loop has to learn a noise scale for it."""

    needs_density = False
    """Whether its weights depend on the density of false labels."""

    scale_by_row = False
    """Whether it asks for a noise scale of each row."""

    def density(
        self,
        S: CandidateSets,  # noqa: ARG002
        weights: NDArray[np.float64] | None = None,  # noqa: ARG002
        sample_weight: NDArray[np.float64] | None = None,  # noqa: ARG002
    ) -> FalseLabelDensity | None:
        """Return the density of false labels, None where weights do not depend on it."""
        return None

    def encode(self) -> WeightingCode:
        """Return the checked weighting as codes and numbers."""
        raise NotImplementedError
