"""The posterior weighting: the probability that a candidate is the true one, under a noise model learned on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_choice, check_number
from plr.candidates import CandidateSets
from plr.errors import ParameterError
from plr.weighting.base import Weighting, WeightingCode
from plr.weighting.false_labels import FalseLabelDensity, check_false_labels, fit_false_labels
from plr.weighting.families import NOISES

__all__ = ["Posterior"]

# Where a learned share of rows without their truth begins.
_FIRST_MISSING = 0.05


class Posterior(Weighting, name="posterior"):
    """Weigh candidates by how probable it is that they are the truth.

    Where true labels scatter around the prediction with density p and false ones come from a density q,

        w(x, y_j) = π_j · p(y_j | f(x), σ) / q(y_j)  /  Σ_k π_k · p(y_k | f(x), σ) / q(y_k)

    with π the prior. The scale σ is learned: it starts as wide as the labels are and narrows as the model improves, so
    that the weights go from even to decided at a pace the data sets.

    In a share ε of the rows the truth may be missing from the candidates. Then

        w(x, y_j) = (1 - ε) · π_j · p(y_j) / q(y_j)  /  ((1 - ε) · Σ_k π_k · p(y_k) / q(y_k) + ε)

    and the weights of a row sum to the probability that it has its truth: a row that no candidate explains counts less.
    A row with a single candidate is weighed as well.

    Parameters
    ----------
    noise : {"student", "gaussian", "laplace"}, default="student"
        The family of p.
    degrees : float, default=3.0
        Degrees of freedom of Student's t; the others have none. 3 is computed fastest.
    false_labels : "uniform", "estimated", callable, object with ``logpdf``, or array, default="uniform"
        The density q of false labels. ``"uniform"``: the same over the range of the candidates. ``"estimated"``: a
        smooth estimate from the candidates of rows with more than one, each counted by how probable it is to be false:
        by the start's weights, or by the priors where there is no start. Wanted where false labels are themselves
        distributed like labels, as other rows' labels are after a wrong join: a candidate at a common value is then
        more often false than one at a rare value. A function returns a density for each label of an array; an object
        with ``logpdf``, such as a frozen distribution of scipy.stats, its logarithm; both in the units of the labels.
        From an array of example false labels a smooth estimate is made.
    missing_truth : float or "learned", default=0.0
        ε, the share of rows whose truth is missing. ``"learned"``: it starts at 0.05, moves with the noise scale, and
        stays below 0.5 in training; probabilities go by a share of up to 0.9. Where the prior of candidate sets says
        how probable that is for each row (``prior_is`` of `CandidateSets`), rows are identified by that instead.
    scale : {"common", "row"}, default="common"
        One noise scale for all rows, or one for each, as far as the features tell how noisy a row is. `Refit` alone can
        give the latter: see there.

    Notes
    -----
    Without a start an estimate is that of all candidates, true ones included. That is right where false labels are
    distributed like true ones. Where they are not, true labels pile up in it and are mistrusted for it: with false
    labels spread evenly and true ones crowded in a corner of their range, the model may go astray altogether. A start
    (``start="density"``) tells them apart, and the estimate then is safe in both cases.

    An estimate or a given density is kept from vanishing: the estimate is a tenth uniform, and a given density counts
    as at least a millionth of the uniform one.

    With ``missing_truth``, validation rows are better scored by ``monitor="evidence"``: the weighted loss of a row is
    small, too, where the row is held to lack its truth.

    Examples
    --------
    >>> from scipy import stats
    >>> from plr.weighting import Posterior, weigh
    >>> weigh([1.0], [[0.0, 2.0]], Posterior(false_labels=stats.norm(0, 1)), scale=0.5).round(2)
    array([0.12, 0.88])
    >>> weigh([1.0, 1.0], [[1.1, 3.0], [9.0]], Posterior(missing_truth=0.1), scale=0.1).round(2)
    array([0.99, 0.  , 0.  ])
    """

    learns_scale = True

    def __init__(
        self,
        noise: str = "student",
        degrees: float = 3.0,
        false_labels: Any = "uniform",
        missing_truth: float | str = 0.0,
        scale: str = "common",
    ) -> None:
        self.noise = noise
        self.degrees = degrees
        self.false_labels = false_labels
        self.missing_truth = missing_truth
        self.scale = scale

    @property
    def needs_density(self) -> bool:  # type: ignore[override]
        """Whether the weights depend on the density of false labels."""
        uniform = isinstance(self.false_labels, str) and self.false_labels == "uniform"
        return not uniform or self.missing_truth != 0.0

    @property
    def scale_by_row(self) -> bool:  # type: ignore[override]
        """Whether each row is to have a noise scale of its own."""
        return self.scale == "row"

    def density(
        self,
        S: CandidateSets,
        weights: NDArray[np.float64] | None = None,
        sample_weight: NDArray[np.float64] | None = None,
    ) -> FalseLabelDensity | None:
        """Return the density of false labels, None where weights do not depend on it."""
        return fit_false_labels(self.false_labels, S, weights, sample_weight) if self.needs_density else None

    def encode(self) -> WeightingCode:
        """Check the parameters and return what the formula has to know."""
        family = NOISES[check_choice("noise", self.noise, NOISES)]
        degrees = check_number("degrees", self.degrees, low=0.0, open_low=True)
        check_false_labels(self.false_labels)
        check_choice("scale", self.scale, ("common", "row"))
        learned = isinstance(self.missing_truth, str)
        if learned and self.missing_truth != "learned":
            raise ParameterError(f"missing_truth must be a share of the rows or 'learned', got {self.missing_truth!r}.")
        missing = _FIRST_MISSING if learned else check_number("missing_truth", self.missing_truth, low=0.0, below=1.0)
        return WeightingCode(
            noise=family.code,
            degrees=degrees,
            constant=family.log_constant(degrees),
            missing=missing,
            learns_missing=learned,
        )
