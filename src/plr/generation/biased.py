"""False labels that depend on the instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_number
from plr.errors import ParameterError
from plr.generation.mechanism import Drawn, GenerationTask, check_numbers, deviation_of

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
    deviation : float, optional
        The labels' standard deviation; by default that of the labels given.
    centre : sequence of float, optional
        The function the centre follows: an intercept, then a slope for each feature. By default drawn, ``shift`` saying
        how steep.
    """

    uses_features: ClassVar[bool] = True

    shift: float = 1.0
    spread: float = 0.5
    deviation: float | None = None
    centre: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_number("shift", self.shift)
        check_number("spread", self.spread, low=0, open_low=True)
        if self.deviation is not None:
            check_number("deviation", self.deviation, low=0, open_low=True)
        if self.centre is not None:
            check_numbers("centre", self.centre)

    def resolved(self, task: GenerationTask) -> Self:
        """Fill in the labels' standard deviation, and draw the direction in which the centre moves."""
        deviation = deviation_of(task, self.deviation, "biased")
        return replace(self, deviation=deviation, centre=self._function(task, deviation))

    def draw(self, task: GenerationTask, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw around the row's centre."""
        deviation = deviation_of(task, self.deviation, "biased")
        intercept, *slopes = self._function(task, deviation)
        centre = intercept + _features(task) @ np.asarray(slopes)
        return np.asarray(centre[rows] + self.spread * deviation * task.rng.standard_normal(len(rows)))

    def _function(self, task: GenerationTask, deviation: float) -> Sequence[float]:
        X = _features(task)
        if self.centre is None:
            varies = np.ptp(X, axis=0) > 0
            if not varies.any():
                raise ParameterError(
                    "biased moves false labels with the features, but every column of X is constant.", parameter="X"
                )
            # A random projection of the standardised features, brought to unit variance.
            slopes = np.zeros(X.shape[1])
            slopes[varies] = task.rng.standard_normal(int(varies.sum())) / X[:, varies].std(axis=0)
            slopes = self.shift * deviation * (slopes / ((X - X.mean(axis=0)) @ slopes).std())
            return (float(task.y.mean() - X.mean(axis=0) @ slopes), *slopes.tolist())
        if len(self.centre) != X.shape[1] + 1:
            raise ParameterError(
                f"{{parameter}} must be an intercept and {X.shape[1]} slopes, one for each feature; "
                f"it has {len(self.centre)} numbers.",
                parameter="centre",
                value=self.centre,
            )
        return self.centre


def _features(task: GenerationTask) -> NDArray[np.float64]:
    if task.X is None:
        raise ParameterError("biased moves false labels with the features; pass X.", parameter="X")
    return task.X
