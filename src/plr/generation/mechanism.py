"""What a mechanism is: a small frozen class that says where the false labels of each row come from."""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_number
from plr.errors import InfeasibleError, ParameterError

__all__ = ["Drawn", "FalseLabels", "GenerationTask", "Mechanism"]

_MOST_FALSE_LABELS = 2_000_000_000
_MOST_REDRAWS = 1000


class FalseLabels(NamedTuple):
    """False labels of all rows, row after row, and how many each row has."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GenerationTask:
    """What false labels are asked for.

    Attributes
    ----------
    y : ndarray of shape (n,)
        True labels.
    X : ndarray of shape (n, features) or None
        Features, where the caller gave them.
    counts : ndarray of int64 of shape (n,)
        Number of false labels wanted per row; only a counted mechanism looks at it.
    missing : ndarray of bool of shape (n,)
        Rows whose truth will be left out. They must get at least one false label, and none equal to the truth.
    rng : numpy.random.Generator
        The only source of randomness.
    """

    y: NDArray[np.float64]
    X: NDArray[np.float64] | None
    counts: NDArray[np.int64]
    missing: NDArray[np.bool_]
    rng: np.random.Generator

    def shares(self, share: float) -> NDArray[np.bool_]:
        """Pick a share of all rows at random, to the nearest whole row, among those that keep their truth."""
        eligible = np.flatnonzero(~self.missing)
        number = min(round(share * len(self.y)), len(eligible))
        picked = np.zeros(len(self.y), dtype=np.bool_)
        picked[self.rng.permutation(eligible)[:number]] = True
        return picked


class Mechanism(ABC):
    """Where false labels come from. The options of a mechanism are the fields of its dataclass.

    Attributes
    ----------
    counted : bool
        Whether ``false_labels`` and ``set_size`` say how many false labels a row gets.
    most_false_labels : int or None
        The largest ``false_labels`` that makes sense, if there is one.
    uses_features : bool
        Whether false labels depend on the features, which then must be given.
    """

    counted: ClassVar[bool] = True
    most_false_labels: ClassVar[int | None] = None
    uses_features: ClassVar[bool] = False

    def resolved(self, task: GenerationTask) -> Self:  # noqa: ARG002
        """Return the mechanism with every option filled in that it would take from the rows, or draw.

        So that other rows get their false labels in exactly the same way.
        """
        return self

    @abstractmethod
    def false_labels(self, task: GenerationTask) -> FalseLabels:
        """Return the false labels of all rows."""


class Drawn(Mechanism):
    """A mechanism that draws each false label on its own, as many per row as were asked for."""

    @abstractmethod
    def draw(self, task: GenerationTask, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw one false label for each entry of ``rows``, which are row numbers with repeats."""

    def false_labels(self, task: GenerationTask) -> FalseLabels:
        """Draw the false labels; a row whose truth is missing gets one more in its place."""
        counts = task.counts + task.missing
        rows = repeat_rows(counts)
        if rows.size == 0:
            return FalseLabels(np.empty(0), counts)
        fixed = self.resolved(task)
        values = fixed.draw(task, rows)
        for _ in range(_MOST_REDRAWS):
            true = np.flatnonzero(task.missing[rows] & (values == task.y[rows]))
            if true.size == 0:
                return FalseLabels(values, counts)
            values[true] = fixed.draw(task, rows[true])
        raise ParameterError(
            f"Row {rows[true[0]]} is to lose its truth, but every false label drawn for it equals the truth "
            f"{task.y[rows[true[0]]]:g}. Set {{parameter}} to 0, or give labels that differ.",
            parameter="missing",
            row=int(rows[true[0]]),
            value=float(task.y[rows[true[0]]]),
        )


def check_total(total: float) -> None:
    """Refuse more false labels than a machine could hold."""
    if total > _MOST_FALSE_LABELS:
        raise InfeasibleError(f"This would make {total:.3g} false candidates; the limit is {_MOST_FALSE_LABELS:.0e}.")


def repeat_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each row number as often as the row has false labels.

    >>> repeat_rows(np.array([2, 0, 1]))
    array([0, 0, 2])
    """
    check_total(float(counts.sum(dtype=np.float64)))
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def rank_in_row(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each false label within its row.

    >>> rank_in_row(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    starts = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)


def shuffle_in_row(
    values: NDArray[np.float64], rows: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Shuffle the false labels of each row.

    Needed where a mechanism lists them in order: a truth inserted at random would stand out.
    """
    return values[np.argsort(rows + rng.random(len(rows)), kind="stable")]


def check_span(span: tuple[float, float] | None) -> None:
    """Refuse a span that is not two finite numbers in ascending order."""
    if span is None:
        return
    if not isinstance(span, Sequence) or len(span) != 2:
        raise ParameterError(
            f"{{parameter}} must be two numbers (low, high), not {span!r}.", parameter="span", value=span
        )
    low = check_number("span", span[0], what="The low end of {parameter}")
    check_number("span", span[1], low=low, open_low=True, what="The high end of {parameter}")


def span_of(task: GenerationTask, span: tuple[float, float] | None) -> tuple[float, float]:
    """Return the span given, else that of the labels, which then must differ."""
    low, high = (task.y.min(), task.y.max()) if span is None else span
    if low == high:
        raise ParameterError(
            f"The labels are all {low:g}, so false labels have no span; give {{parameter}}=[low,high].",
            parameter="span",
        )
    if not math.isfinite(float(high) - float(low)):
        raise ParameterError(
            f"The span from {low:g} to {high:g} is too wide to draw from.", parameter="span", value=span
        )
    return float(low), float(high)


def check_numbers(name: str, values: Sequence[float]) -> None:
    """Refuse what is not a row of finite numbers, one at least."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
        raise ParameterError(
            f"{{parameter}} must be finite numbers, one at least, not {reprlib.repr(values)}.",
            parameter=name,
            value=values,
        )


def deviation_of(task: GenerationTask, deviation: float | None, mechanism: str) -> float:
    """Return the standard deviation given, else that of the labels, which then must differ."""
    if deviation is not None:
        return deviation
    if task.y.min() == task.y.max():
        raise ParameterError(
            f"{mechanism} scales with the spread of the labels, but they are all {task.y[0]:g}; give {{parameter}}.",
            parameter="deviation",
        )
    return float(task.y.std())
