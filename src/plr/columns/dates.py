"""Dates as numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["PARTS", "date_parts", "floats", "to_timestamp"]

Floats = NDArray[np.float64]


def floats(cells: pa.ChunkedArray) -> Floats:
    """Return cells as numbers, NaN where missing."""
    return np.array(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def to_timestamp(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates as timestamps in microseconds; those of a time zone by the clock on the wall there."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)
    return column.cast(pa.timestamp("us"), safe=False)


def _days(times: pa.ChunkedArray) -> Floats:
    return floats(times.cast(pa.int64())) / 1e6 / 86_400.0


def _hour(times: pa.ChunkedArray) -> Floats:
    return np.mod(_days(times), 1.0) * 24.0


PARTS: dict[str, Callable[[pa.ChunkedArray], Floats]] = {
    "days": _days,
    "day of year": lambda times: floats(pc.day_of_year(times)),
    "weekday": lambda times: floats(pc.day_of_week(times)),
    "hour": _hour,
}
"""What becomes of a date: days since 1970, the day of the year, the weekday (Monday is 0) and the hour."""


def date_parts(times: pa.ChunkedArray) -> list[str]:
    """Return the parts that say something: those that are not the same in all rows, and the days in any case.

    The day of the year says nothing that the days do not, unless the dates span more than one year.
    """
    days = _days(times)
    span = float(np.nanmax(days) - np.nanmin(days)) if np.isfinite(days).any() else 0.0
    named = ["days"]
    if span > 366:
        named.append("day of year")
    if span > 7 and np.unique(PARTS["weekday"](times)).size > 1:
        named.append("weekday")
    hours = _hour(times)
    if span > 1 and np.unique(hours[np.isfinite(hours)]).size > 1:
        named.append("hour")
    return named
