"""The intervals of the rows on the page of a model, made anew from what the model has learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.errors import ParameterError
from plr.intervals import Calibration
from plr.regressor import PartialLabelRegressor
from plr.report.numbers import shown
from plr.report.rows import Rows

__all__ = ["LEVELS", "SHOWN", "RowIntervals", "ends_of", "intervals_of", "reach", "widths_differ", "widths_of"]

Floats = NDArray[np.float64]

SHOWN = 0.9
"""The coverage of the intervals that the page shows."""

LEVELS = (0.5, 0.8, SHOWN)
"""Coverages that are compared with how many true labels intervals hold."""


@dataclass(frozen=True, eq=False)
class RowIntervals:
    """The intervals of some rows.

    Attributes
    ----------
    ends : ndarray of shape (n, 2)
    pieces : list of ndarray of shape (k, 2)
        What is drawn of each row: the pieces of its set where there are several, and else the interval.
    """

    ends: Floats
    pieces: list[Floats]


def widths_differ(calibration: Calibration) -> bool:
    """Return whether rows have intervals of different widths."""
    return calibration.by_row or calibration.widths is not None


def widths_of(model: PartialLabelRegressor, X: Any, prediction: Floats, scale: Floats | None) -> Floats | None:
    """Return each row's width relative to the typical one; None where all are alike, or that is not known."""
    calibration = model.calibration_
    return model._row_widths(X, prediction, scale) if calibration is not None and widths_differ(calibration) else None


def intervals_of(rows: Rows, calibration: Calibration | None) -> RowIntervals | None:
    """Return the adaptive intervals of some rows; None where there are none."""
    ends = ends_of(rows, calibration, SHOWN)
    if calibration is None or ends is None:
        return None
    sets = calibration.label_sets(rows.prediction, SHOWN, rows.relative)
    return RowIntervals(
        ends, [pieces if len(pieces) > 1 else whole[None] for pieces, whole in zip(sets, ends, strict=True)]
    )


def ends_of(rows: Rows, calibration: Calibration | None, coverage: float) -> Floats | None:
    """Return the ends of the adaptive intervals of some rows, of shape (n, 2); None where there are none."""
    if calibration is None or (rows.relative is None and widths_differ(calibration)):
        return None
    try:
        return calibration.intervals(rows.prediction, coverage, widths=rows.relative)
    except ParameterError:
        # Too few rows for so high a coverage.
        return None


def reach(calibration: Calibration | None, coverage: float = SHOWN) -> str | None:
    """Return in words how far the interval of a typical row reaches from the prediction; None where that is unknown."""
    if calibration is None:
        return None
    try:
        low, high = calibration.ends(coverage)
    except ParameterError:
        return None
    return f"±{shown(high)}" if abs(low + high) <= 1e-9 * (high - low) else f"{shown(low)} to +{shown(high)}"
