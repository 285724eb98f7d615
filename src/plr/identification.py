"""Which candidate of each row is the true one, as `PartialLabelRegressor.identify` answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plr._fields import WITH_GAPS
from plr.candidates import CandidateSets
from plr.diagnosis.twins import share_alike
from plr.weighting.rule import row_sums

if TYPE_CHECKING:
    from plr.diagnosis import Diagnosis
    from plr.noise import NoiseModel

__all__ = ["DOUBTFUL", "SETTLED", "Identification", "choose", "identification", "shared"]

Floats = NDArray[np.float64]

SETTLED, DOUBTFUL = 0.95, 0.8
"""From the first probability on a row is settled, and below the second it is in doubt."""

# Shares that are equal but for rounding are equal.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """Which candidate is the true one, row by row.

    Attributes
    ----------
    index : ndarray of shape (n,)
        Position of the most probable candidate in its row.
    value : ndarray of shape (n,)
        That candidate.
    probability : ndarray of shape (n,)
        How probable it is that it is the true one.
    probabilities : ndarray, one entry per candidate
        The same for every candidate, flat, aligned with ``S.offsets``.
    missing : ndarray of shape (n,)
        How probable it is that none of the row's candidates is true; zeros unless the weighting allows for it
        (``missing_truth`` of `plr.weighting.Posterior`), the prior says it (``prior_is`` of `CandidateSets`), or
        checked rows show it.
    caution : str
        Why the data that the model was fitted to cannot tell which candidates are true; empty where it can.
    """

    index: NDArray[np.int64]
    value: Floats = field(metadata=WITH_GAPS)
    probability: Floats = field(metadata=WITH_GAPS)
    probabilities: Floats = field(metadata=WITH_GAPS)
    missing: Floats = field(metadata=WITH_GAPS)
    caution: str = ""

    def __repr__(self) -> str:
        sure = float(np.mean(self.probability > 0.95)) if len(self.probability) else 0.0
        caution = ", but the data cannot tell" if self.caution else ""
        return f"Identification({len(self.index)} rows, {sure:.0%} of them above 0.95 sure{caution})"


def identification(
    noise: NoiseModel,
    prediction: Floats,
    S: CandidateSets,
    relative: Floats | None = None,
    drawn: Floats | None = None,
    diagnosis: Diagnosis | None = None,
) -> Identification:
    """Take the most probable candidate of each row; of equals, the one that the model is nearer to, or the first.

    Where candidates were drawn as the true ones, how often each was counts as much as the noise around the prediction.
    Candidates between which the data cannot tell, as the diagnosis says, have equal shares.
    """
    probabilities = noise.probabilities(prediction, S, relative=relative)
    if drawn is not None:
        present = np.add.reduceat(probabilities, S.offsets[:-1])[S.row_index]
        probabilities = (probabilities + drawn * present) / 2
    return choose(probabilities, S, noise.missing_probabilities(probabilities, S), diagnosis)


def choose(
    probabilities: Floats, S: CandidateSets, missing: Floats, diagnosis: Diagnosis | None = None
) -> Identification:
    """Take the most probable candidate of each row.

    Those of a row sum to one less the probability that its truth is missing.
    """
    by_model, probabilities = probabilities, shared(probabilities, S, diagnosis)
    best = np.maximum.reduceat(probabilities, S.offsets[:-1])
    is_best = probabilities == best[S.row_index]
    if by_model is not probabilities:
        is_best = probabilities >= best[S.row_index] * (1.0 - _ROUNDING)
        # All choices are then those of one reading, as the predictions are.
        nearest = np.maximum.reduceat(np.where(is_best, by_model, -1.0), S.offsets[:-1])
        is_best &= by_model == nearest[S.row_index]
    place = np.where(is_best, np.arange(probabilities.size), probabilities.size)
    flat = np.minimum.reduceat(place, S.offsets[:-1])
    caution = "" if diagnosis is None else diagnosis.caution
    return Identification(flat - S.offsets[:-1], S.values[flat], best, probabilities, missing, caution)


def shared(probabilities: Floats, S: CandidateSets, diagnosis: Diagnosis | None) -> Floats:
    """Return probabilities of which candidates between which the data cannot tell have shares by their prior."""
    if diagnosis is None or not diagnosis.caution:
        return probabilities
    if diagnosis.tied:
        return share_alike(probabilities, S, diagnosis.tied, diagnosis.spread)
    return S.prior_or_uniform * row_sums(probabilities, S)[S.row_index]
