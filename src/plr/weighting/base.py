"""What a weighting is: an unchanging object with parameters that owns its score in all forms that plr computes in."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from plr._codes import NO_NOISE
from plr._parameters import register
from plr.candidates import CandidateSets
from plr.weighting.false_labels import FalseLabelDensity

__all__ = ["WEIGHTINGS", "Weighting", "WeightingCode"]

WEIGHTINGS: dict[str, type[Weighting]] = {}
"""Weightings that go by a name."""


class WeightingCode(NamedTuple):
    """A weighting's checked parameters as the formula takes them.

    Attributes
    ----------
    numbers : tuple of float
        What the score takes beside prediction, value and loss; two at most.
    even : bool
        Whether shares are the prior's, whatever the prediction.
    by_vectors : bool
        Whether ``vector_form`` holds for these parameters.
    noise : int
        The posterior's noise family, whose log density is the score.
    degrees : float
        Degrees of freedom of the noise.
    constant : float
        Log of the noise density's normalising constant at scale 1.
    missing : float
        The share of rows whose truth is missing, to begin with.
    learns_missing : bool
    """

    numbers: tuple[float, ...] = ()
    even: bool = False
    by_vectors: bool = False
    noise: int = NO_NOISE
    degrees: float = 0.0
    constant: float = 0.0
    missing: float = 0.0
    learns_missing: bool = False


class Weighting(BaseEstimator):
    """Base of the weightings.

    A weighting is a class with a name, ``class Boltzmann(Weighting, name="boltzmann")``, and these functions, as static
    methods. ``numbers`` are those that `encode` returns, two at most; the weights are prior · exp(score), normalised.

    - ``score(prediction, value, loss, *numbers)``: a function of floats that Numba can compile. Kernels call it through
      a pointer, which takes about 10 ns a candidate.
    - ``torch_score(prediction, value, loss, *numbers)``, the same of tensors; ``torch_score = score`` where the score
      uses nothing but arithmetic. Without it `plr.torch`, the module learner and the GPU stack refuse the weighting.
    - ``vector_form(loss, root)``, for plr's own alone: a compiled function of (formula, residual), vectors of
      residuals, in place of the pointer; ``loss`` and ``root`` are functions of the same arguments that return the
      loss and its square root.

    The name is registered when the class is defined. The constructor's parameters are what a model file stores.

    Attributes
    ----------
    takes_all : bool
        Whether the candidate with the highest score gets all weight, in place of a softmax.
    learns_scale : bool
        Whether the fit loop has to learn a noise scale for it.
    needs_density : bool
        Whether its weights depend on the density of false labels.
    scale_by_row : bool
        Whether it asks for a noise scale of each row.
    """

    name: ClassVar[str] = ""
    score: Any = None
    torch_score: Any = None
    vector_form: Any = None
    takes_all: ClassVar[bool] = False
    learns_scale = False
    needs_density = False
    scale_by_row = False

    def __init_subclass__(cls, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.name = name
        if name:
            register(WEIGHTINGS, name, cls)

    def density(
        self,
        S: CandidateSets,  # noqa: ARG002
        weights: NDArray[np.float64] | None = None,  # noqa: ARG002
        sample_weight: NDArray[np.float64] | None = None,  # noqa: ARG002
    ) -> FalseLabelDensity | None:
        """Return the density of false labels, None where weights do not depend on it."""
        return None

    def encode(self) -> WeightingCode:
        """Check the parameters and return what the formula has to know."""
        return WeightingCode()
