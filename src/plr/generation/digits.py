"""A printed reading with one digit that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_integer, check_number
from plr.errors import ParameterError
from plr.generation.mechanism import FalseLabels, GenerationTask, Mechanism, rank_in_row, repeat_rows

__all__ = ["Digits"]

_MOST_DECIMALS = 3
_MOST_DIGITS = 15
_LARGEST_EXACT = 10.0**_MOST_DIGITS


@dataclass(frozen=True)
class Digits(Mechanism):
    """Print the truth and make one of its digits unreadable; false labels have another digit there.

    Each row's digit is picked at random among those printed, so false labels lie at most nine units of a power of ten
    away. A change in the last digit is hardly a change; one in the first can look like another row's truth. Where most
    labels share their first digits false ones stand out; where they do not, rows that are unambiguous tell.

    Parameters
    ----------
    decimals : int, optional
        Decimals printed; by default the fewest, up to 3, that print all labels in full. What is not printed is the same
        in all candidates of a row.
    unambiguous : float, default 0.2
        Share of rows that are printed clearly.
    """

    most_false_labels: ClassVar[int | None] = 9

    decimals: int | None = None
    unambiguous: float = 0.2

    def __post_init__(self) -> None:
        if self.decimals is not None and check_integer("decimals", self.decimals) > _MOST_DIGITS:
            raise ParameterError(
                f"{{parameter}} must be at most {_MOST_DIGITS}, got {self.decimals!r}.",
                parameter="decimals",
                value=self.decimals,
            )
        check_number("unambiguous", self.unambiguous, low=0, high=1)

    def resolved(self, task: GenerationTask) -> Self:
        """Fill in the decimals."""
        return replace(self, decimals=self._decimals(task.y))

    def false_labels(self, task: GenerationTask) -> FalseLabels:
        """Replace one digit of each row by others, all different."""
        decimals = self._decimals(task.y)
        printed = np.rint(np.abs(task.y) * 10.0**decimals)
        if printed.max() >= _LARGEST_EXACT:
            raise ParameterError(
                f"The label {np.abs(task.y).max():g} has too many digits to print with {decimals} decimals.",
                parameter="decimals",
                row=int(np.abs(task.y).argmax()),
            )
        counts = np.minimum(task.counts + task.missing, 9)
        counts[task.shares(self.unambiguous)] = 0
        rows = repeat_rows(counts)
        whole = printed.astype(np.int64)
        powers = 10 ** np.arange(1, _MOST_DIGITS + 1, dtype=np.int64)
        # At least one digit is printed before the point.
        width = np.maximum(np.searchsorted(powers, whole, side="right") + 1, decimals + 1)
        power = 10 ** task.rng.integers(0, width)
        digit = whole // power % 10
        steps = task.rng.permuted(np.tile(np.arange(1, 10, dtype=np.int8), (len(whole), 1)), axis=1)
        other = (digit[rows] + steps[rows, rank_in_row(counts)]) % 10
        changed = whole[rows] + (other - digit[rows]) * power[rows]
        sign = np.where(task.y < 0, -1.0, 1.0)
        unprinted = task.y - sign * (printed / 10.0**decimals)
        return FalseLabels(sign[rows] * (changed / 10.0**decimals) + unprinted[rows], counts)

    def _decimals(self, y: NDArray[np.float64]) -> int:
        if self.decimals is not None:
            return self.decimals
        exact = ((np.rint(y * 10.0**d) / 10.0**d == y).all() for d in range(_MOST_DECIMALS))
        return next((decimals for decimals, enough in enumerate(exact) if enough), _MOST_DECIMALS)
