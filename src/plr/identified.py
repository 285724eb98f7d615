"""Which candidate of each row is the true one, as `PartialLabelRegressor.identify` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets

if TYPE_CHECKING:
    from plr.selection import NoiseModel

__all__ = ["DOUBTFUL", "SETTLED", "Identification", "identification"]

Floats = NDArray[np.float64]

SETTLED, DOUBTFUL = 0.95, 0.8
"""From the first probability on a row is settled, and below the second it is in doubt."""


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
        (``missing_truth`` of `plr.weighting.Posterior`).
    """

    index: NDArray[np.int64]
    value: Floats
    probability: Floats
    probabilities: Floats
    missing: Floats

    def __repr__(self) -> str:
        sure = float(np.mean(self.probability > 0.95)) if len(self.probability) else 0.0
        return f"Identification({len(self.index)} rows, {sure:.0%} of them above 0.95 sure)"


def identification(
    noise: NoiseModel,
    prediction: Floats,
    S: CandidateSets,
    relative: Floats | None = None,
    drawn: Floats | None = None,
) -> Identification:
    """Take the most probable candidate of each row; of equals, the first.

    Where candidates were drawn as the true ones, how often each was counts as much as the noise around the prediction.
    """
    probabilities = noise.probabilities(prediction, S, relative=relative)
    if drawn is not None:
        present = np.add.reduceat(probabilities, S.offsets[:-1])[S.row_index]
        probabilities = (probabilities + drawn * present) / 2
    best = np.maximum.reduceat(probabilities, S.offsets[:-1])
    is_best = probabilities == best[S.row_index]
    place = np.where(is_best, np.arange(probabilities.size), probabilities.size)
    flat = np.minimum.reduceat(place, S.offsets[:-1])
    missing = noise.missing_probabilities(probabilities, S)
    return Identification(flat - S.offsets[:-1], S.values[flat], best, probabilities, missing)
