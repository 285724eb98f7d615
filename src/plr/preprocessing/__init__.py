"""Features and labels as models see them: categories and gaps as numbers, everything scaled."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.preprocessing.features import Encoding, learn_encoding
from plr.preprocessing.scaling import Affine, learn_target, rescaled, robust_target

__all__ = ["Preprocessing"]

Floats = NDArray[np.float64]


class Preprocessing:
    """Features encoded and labels scaled, by what some rows say; each part is computed once, when it is asked for.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Numbers and codes of categories, NaN where missing.
    S : CandidateSets of n rows
    categorical : tuple of int
        Which columns are categories.
    sample_weight : ndarray of shape (n,), optional
    scale_features, scale_target : bool, default=True
        Whether to bring features and labels to mean 0 and standard deviation 1.
    """

    def __init__(
        self,
        X: Any,
        S: CandidateSets,
        categorical: tuple[int, ...] = (),
        sample_weight: Floats | None = None,
        scale_features: bool = True,
        scale_target: bool = True,
    ) -> None:
        self.X, self.S = X, S
        self._categorical, self._sample_weight = categorical, sample_weight
        self._scale_features, self._scale_target = scale_features, scale_target

    def with_sets(self, S: CandidateSets) -> Preprocessing:
        """Return the same for other candidate sets of the same rows; features are not encoded again."""
        if S is self.S:
            return self
        other = copy(self)
        other.S = S
        for name in ("target", "sets", "robust_target", "robust_sets"):
            vars(other).pop(name, None)
        return other

    @cached_property
    def encoding(self) -> Encoding:
        """How features are encoded and scaled."""
        return learn_encoding(self.X, self._categorical, self._sample_weight, self._scale_features)

    @cached_property
    def features(self) -> Floats:
        """The rows' features, encoded."""
        return self.encoding.apply(self.X)

    @cached_property
    def target(self) -> Affine:
        """How labels are brought to mean 0 and standard deviation 1, each candidate counted by its prior."""
        return learn_target(self.S, self._sample_weight, self._scale_target, single_precision=False)

    @cached_property
    def sets(self) -> CandidateSets:
        """The scaled candidate sets."""
        return rescaled(self.S, self.target)

    @cached_property
    def robust_target(self) -> Affine:
        """The same scaling, or one by the middle of the labels where outliers make up most of the deviation."""
        return robust_target(self.target, self.S, self._sample_weight)

    @cached_property
    def robust_sets(self) -> CandidateSets:
        """The candidate sets so scaled."""
        return self.sets if self.robust_target is self.target else rescaled(self.S, self.robust_target)
