"""False labels near the truth, as several people's guesses are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_number
from plr.generation.mechanism import Drawn, GenerationTask, deviation_of

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Drawn):
    """Draw false labels from a normal distribution around the truth.

    The false labels carry information: their mean is the truth, so averaging is consistent here, where elsewhere it is
    biased. What a method that believes in uniform false labels loses is precision, not correctness.

    Parameters
    ----------
    spread : float, default 0.5
        Standard deviation around the truth, in standard deviations of the labels.
    deviation : float, optional
        The labels' standard deviation; by default that of the labels given.
    """

    spread: float = 0.5
    deviation: float | None = None

    def __post_init__(self) -> None:
        check_number("spread", self.spread, low=0, open_low=True)
        if self.deviation is not None:
            check_number("deviation", self.deviation, low=0, open_low=True)

    def resolved(self, task: GenerationTask) -> Self:
        """Fill in the labels' standard deviation."""
        return replace(self, deviation=deviation_of(task, self.deviation, "gaussian"))

    def draw(self, task: GenerationTask, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw around the row's truth."""
        deviation = self.spread * deviation_of(task, self.deviation, "gaussian")
        return task.y[rows] + deviation * task.rng.standard_normal(len(rows))
