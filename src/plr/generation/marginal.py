"""False labels that are true elsewhere, as a wrong join gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from plr.errors import ParameterError
from plr.generation.mechanism import Drawn, GenerationTask, check_numbers

__all__ = ["Marginal"]


@dataclass(frozen=True)
class Marginal(Drawn):
    """Draw false labels from the true labels of other rows, never from the row's own.

    The density q of false labels is the label's own marginal: a candidate at a common value is more often false than
    one at a rare value, and weights that ignore q are biased towards common values. Draws are independent, so two
    candidates of a row may come from the same other row, and where labels repeat (counts, say) a false label may equal
    the truth, unless the truth is to be missing.

    Parameters
    ----------
    pool : sequence of float, optional
        Labels to draw from; by default those given. Where the pool is the labels given, a row never draws its own.
    """

    pool: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.pool is not None:
            check_numbers("pool", self.pool)

    def resolved(self, task: GenerationTask) -> Self:
        """Fill in the pool."""
        return replace(self, pool=tuple(task.y.tolist())) if self.pool is None else self

    def draw(self, task: GenerationTask, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draw another row and take its label."""
        pool = task.y if self.pool is None else np.asarray(self.pool, dtype=np.float64)
        if not np.array_equal(pool, task.y):
            return pool[task.rng.integers(0, len(pool), size=len(rows))]
        n = len(pool)
        if n < 2:
            raise ParameterError("marginal takes false labels from other rows, but there is only one row.")
        other = task.rng.integers(0, n - 1, size=len(rows))
        # The numbers from the row's own on move up by one, so that every other row is as likely as the next.
        return pool[other + (other >= rows)]
