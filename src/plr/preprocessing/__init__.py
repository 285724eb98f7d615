"""Features and labels as models see them: categories and gaps as numbers, everything scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.preprocessing.features import Encoding, learn_encoding
from plr.preprocessing.ranks import NormalScores
from plr.preprocessing.scaling import Affine, learn_target, rescaled

__all__ = ["Preprocessing"]

Floats = NDArray[np.float64]

# A standard deviation so many times what the middle of the labels suggests comes from outliers that are no labels.
_OUTLIERS = 20.0


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """Features encoded and labels scaled, by what some rows say; each part is computed once, when it is asked for.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Numbers and codes of categories, NaN where missing.
    S : CandidateSets of n rows
    categorical : tuple of int
        Which columns are categories.
    sample_weight : ndarray of shape (n,) or None
    scale_features, scale_target : bool
        Whether to bring features and labels to mean 0 and standard deviation 1.
    """

    X: Any
    S: CandidateSets
    categorical: tuple[int, ...] = ()
    sample_weight: Floats | None = None
    scale_features: bool = True
    scale_target: bool = True

    @cached_property
    def encoding(self) -> Encoding:
        """How features are encoded and scaled."""
        return learn_encoding(self.X, self.categorical, self.sample_weight, self.scale_features)

    @cached_property
    def features(self) -> Floats:
        """The rows' features, encoded."""
        return self.encoding.apply(self.X)

    @cached_property
    def ranked(self) -> tuple[Encoding, Floats]:
        """How features are encoded where ranks are among them, and the rows' features by it."""
        encoding = replace(self.encoding, ranks=NormalScores.of(self.features, self.sample_weight))
        return encoding, encoding.apply(self.X)

    @cached_property
    def target(self) -> Affine:
        """How labels are brought to mean 0 and standard deviation 1, each candidate counted by its prior."""
        return learn_target(self.S, self.sample_weight, self.scale_target)

    @cached_property
    def sets(self) -> CandidateSets:
        """The scaled candidate sets."""
        return rescaled(self.S, self.target) if self.scale_target else self.S

    @cached_property
    def robust(self) -> tuple[Affine, CandidateSets]:
        """Scaling and scaled sets, by the middle nine tenths of the candidates where a few of them are outliers.

        A sentinel such as 999999 in one row would otherwise leave all labels at the same place.
        """
        values = self.S.values
        if self.sample_weight is not None:
            values = values[self.sample_weight[self.S.row_index] > 0]
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        # As wide as this, a normal distribution has its middle nine tenths between these two.
        spread = (high - low) / 3.29
        if spread == 0.0 or float(self.target.scale) <= _OUTLIERS * spread:
            return self.target, self.sets
        target = Affine(np.float64(middle), np.float64(spread))
        return target, rescaled(self.S, target)
