"""A reading wrapped into a period, as a radar's Doppler velocity is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from plr._parameters import check_number
from plr.errors import ParameterError
from plr.generation.mechanism import (
    FalseLabels,
    GenerationTask,
    Mechanism,
    check_span,
    rank_in_row,
    repeat_rows,
    shuffle_in_row,
    span_of,
)

__all__ = ["Folding"]

_MOST_TURNS = 1e9


@dataclass(frozen=True)
class Folding(Mechanism):
    """Wrap the truth into a period; the candidates are its unwrappings ``truth + k · period`` within the label range.

    A model shifted by one period explains every row as well, save at the ends of the range, where one of the two runs
    out of candidates. So it takes rows that are unambiguous, or a prior, to learn which shift is right.

    Parameters
    ----------
    period : float, optional
        By default a third of the range.
    span : (low, high), optional
        The range unwrappings must lie in; by default that of the labels given.
    unambiguous : float, default 0.2
        Share of rows that come unwrapped.
    """

    counted: ClassVar[bool] = False

    period: float | None = None
    span: tuple[float, float] | None = None
    unambiguous: float = 0.2

    def __post_init__(self) -> None:
        if self.period is not None:
            check_number("period", self.period, low=0, open_low=True)
        check_span(self.span)
        check_number("unambiguous", self.unambiguous, low=0, high=1)

    def resolved(self, task: GenerationTask) -> Self:
        """Fill in the span and the period."""
        low, high = span_of(task, self.span)
        return replace(self, span=(low, high), period=self._period(low, high))

    def false_labels(self, task: GenerationTask) -> FalseLabels:
        """List the unwrappings other than the truth."""
        low, high = span_of(task, self.span)
        period = self._period(low, high)
        below, above = np.ceil((low - task.y) / period), np.floor((high - task.y) / period)
        if max(np.abs(below).max(), np.abs(above).max()) > _MOST_TURNS:
            raise ParameterError(
                f"The period {period:g} is too small for the range {low:g} to {high:g}.",
                parameter="period",
                value=period,
            )
        first, last = below.astype(np.int64), above.astype(np.int64)
        holds_truth = (first <= 0) & (last >= 0)
        counts = np.maximum(last - first + 1 - holds_truth, 0)
        # A truth without another unwrapping in the range still needs a false one when it is left out: the next one up.
        alone = task.missing & (counts == 0)
        first[alone], holds_truth[alone], counts[alone] = 1, False, 1
        counts[task.shares(self.unambiguous)] = 0
        rows = repeat_rows(counts)
        turns = first[rows] + rank_in_row(counts)
        turns += holds_truth[rows] & (turns >= 0)
        values = task.y[rows] + turns * period
        return FalseLabels(shuffle_in_row(values, rows, task.rng), counts)

    def _period(self, low: float, high: float) -> float:
        return (high - low) / 3 if self.period is None else self.period
