"""A reading whose unit is not stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plr._parameters import check_number
from plr.errors import ParameterError
from plr.generation.mechanism import FalseLabels, GenerationTask, Mechanism, repeat_rows, shuffle_in_row

__all__ = ["Units"]


@dataclass(frozen=True)
class Units(Mechanism):
    """Write the truth down in a random unit; the candidates are all it may have meant.

    A unit is an affine map: the reading is ``scale · truth + shift``, and each unit reads it back as a candidate. The
    row has as many candidates as there are units. A truth that two units read alike (-40 in °C and °F) is there twice.

    If every row held the truth and the truth in one other unit, the other unit would be as good an answer, and a
    learned noise scale prefers the smaller one. Here the unit is random, so a wrong unit explains only some of the
    rows, and a share of rows is unambiguous; beyond that, a prior or the density q with the map's Jacobian tells units
    apart.

    Parameters
    ----------
    maps : sequence of (scale, shift), default ((1, 0), (1.8, 32))
        The units; by default degrees Celsius and Fahrenheit.
    unambiguous : float, default 0.2
        Share of rows whose unit is known.
    """

    counted: ClassVar[bool] = False

    maps: Sequence[tuple[float, float]] = ((1.0, 0.0), (1.8, 32.0))
    unambiguous: float = 0.2

    def __post_init__(self) -> None:
        check_number("unambiguous", self.unambiguous, low=0, high=1)
        try:
            maps = np.asarray(self.maps, dtype=np.float64)
        except (TypeError, ValueError):
            maps = np.empty(0)
        if maps.ndim != 2 or maps.shape[1:] != (2,) or not np.isfinite(maps).all() or (maps[:, 0] == 0).any():
            problem = "must be pairs of finite numbers (scale, shift) with scale not 0"
        elif len(np.unique(maps, axis=0)) < max(2, len(maps)):
            problem = "must hold at least two units, all different"
        else:
            return
        raise ParameterError(f"{{parameter}} {problem}: {self.maps!r}", parameter="maps", value=self.maps)

    def false_labels(self, task: GenerationTask) -> FalseLabels:
        """Read each row's reading back in every unit but its own."""
        scale, shift = np.asarray(self.maps, dtype=np.float64).T
        others = len(scale) - 1
        counts = np.where(task.shares(self.unambiguous), 0, others).astype(np.int64)
        rows = repeat_rows(counts)
        unit = task.rng.integers(0, len(scale), size=len(task.y))[rows]
        other = (unit + 1 + np.arange(len(rows)) % others) % len(scale)
        values = (scale[unit] * task.y[rows] + shift[unit] - shift[other]) / scale[other]
        return FalseLabels(shuffle_in_row(values, rows, task.rng), counts)
