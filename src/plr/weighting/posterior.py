"""The posterior weighting: the probability that a candidate is the true one, under a noise model learned on the way."""

from __future__ import annotations

from plr._codes import GAUSSIAN, LAPLACE, POSTERIOR, STUDENT
from plr._parameters import check_choice, check_number
from plr.weighting.base import Weighting, WeightingCode

__all__ = ["NOISES", "Posterior"]

NOISES = ("gaussian", "laplace", "student")


class Posterior(Weighting):
    """Weigh candidates by how probable it is that they are the truth.

    Where true labels scatter around the prediction with density p and false ones come from a density q,

        w(x, y_j) = π_j · p(y_j | f(x), σ) / q(y_j)  /  Σ_k π_k · p(y_k | f(x), σ) / q(y_k)

    with π the prior. The scale σ is learned: it starts as wide as the labels are and narrows as the model improves, so
    that the weights go from even to decided at a pace the data sets. q is taken as uniform.

    Parameters
    ----------
    noise : {"student", "gaussian", "laplace"}, default="student"
        The family of p.
    degrees : float, default=3.0
        Degrees of freedom of Student's t; the others have none. 3 is computed fastest.
    """

    learns_scale = True

    def __init__(self, noise: str = "student", degrees: float = 3.0) -> None:
        self.noise = noise
        self.degrees = degrees

    def encode(self) -> WeightingCode:
        """Return the checked weighting as codes and numbers."""
        codes = {"gaussian": GAUSSIAN, "laplace": LAPLACE, "student": STUDENT}
        family = codes[check_choice("noise", self.noise, NOISES)]
        degrees = check_number("Posterior's degrees", self.degrees, low=0.0, open_low=True)
        return WeightingCode(POSTERIOR, float(family), degrees)
