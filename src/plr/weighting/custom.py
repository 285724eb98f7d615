"""A weighting of the user's own: any compiled score."""

from __future__ import annotations

from collections.abc import Callable

from plr.errors import ParameterError
from plr.weighting.base import Weighting, WeightingCode

__all__ = ["Custom"]


class Custom(Weighting):
    """Weigh candidates by a softmax of a score given as a function.

    Parameters
    ----------
    score : callable
        ``score(prediction, value, loss) -> float``, compiled by Numba. The weights are prior · exp(score), normalised.
        A bare function given as ``weighting`` becomes this.

    Examples
    --------
    >>> from plr.weighting import Custom
    >>> boltzmann = Custom(lambda prediction, value, loss: -loss / 0.1)
    """

    def __init__(self, score: Callable[..., float]) -> None:
        self.score = score

    def encode(self) -> WeightingCode:
        """Check the parameters and return what the formula has to know."""
        if not callable(self.score):
            raise ParameterError(f"Custom needs a function score(prediction, value, loss), got {self.score!r}.")
        return WeightingCode()
