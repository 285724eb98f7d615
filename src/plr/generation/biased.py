"""False labels that depend on the instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_number
from plr.errors import ParameterError
from plr.generation.mechanism import Drawn, Task, deviation_of

__all__ = ["Biased"]


@dataclass(frozen=True)
class Biased(Drawn):
    """Draw false labels around a centre that moves with the features.

    The centre is the mean label plus ``shift`` standard deviations times a random direction of the standardised
    features, itself scaled to unit variance; it knows nothing of the truth. So false labels follow a function of x and
    pile up as the truth does: the truth stands out only by lying closer to its function than false labels to theirs. A
    small ``spread`` makes the false function the better explanation, and no method that sees candidates alone can tell,
    save through rows that come with their truth alone (``set_size="upto"``).

    Parameters
    ----------
    shift : float, default 1.0
        How far the centre moves, in standard deviations of the labels per standard deviation of the direction.
    spread : float, default 0.5
        Standard deviation of false labels around the centre, in standard deviations of the labels.
    """

    uses_features: ClassVar[bool] = True

    shift: float = 1.0
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_number("shift", self.shift)
        check_number("spread", self.spread, low=0, open_low=True)

    def draw(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw around the row's centre."""
        if task.X is None:
            raise ParameterError("biased moves false labels with the features; pass X.")
        deviation = deviation_of(task, "biased")
        centre = task.y.mean() + self.shift * deviation * _direction(task.X, task.rng)
        return centre[rows] + self.spread * deviation * task.rng.standard_normal(len(rows))


def _direction(X: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    varied = X[:, np.ptp(X, axis=0) > 0]
    if varied.shape[1] == 0:
        raise ParameterError("biased moves false labels with the features, but every column of X is constant.")
    standard = (varied - varied.mean(axis=0)) / varied.std(axis=0)
    projection = standard @ rng.standard_normal(standard.shape[1])
    return np.asarray(projection / projection.std())
