"""False labels anywhere in the label's range: the mechanism of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from plr.generation.mechanism import Drawn, GenerationTask, check_span, span_of

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform(Drawn):
    """Draw false labels uniformly between the smallest and the largest label.

    The density q of false labels is constant, so a candidate is as likely true as the model finds it. The truth is
    identifiable: it piles up where rows are alike, false labels do not.

    Parameters
    ----------
    span : (low, high), optional
        The range; by default that of the labels given.
    """

    span: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_span(self.span)

    def resolved(self, task: GenerationTask) -> Self:
        """Fill in the span."""
        return replace(self, span=span_of(task, self.span))

    def draw(self, task: GenerationTask, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw from the span, whatever the row."""
        low, high = span_of(task, self.span)
        return task.rng.uniform(low, high, size=len(rows))
