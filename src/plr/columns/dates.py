"""Dates and times of day as numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["PARTS", "date_parts", "has_clock", "is_date", "seconds", "to_timestamp"]

Floats = NDArray[np.float64]

_DAY = 86_400.0


def is_date(kind: pa.DataType) -> bool:
    """Whether a column of this type holds dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def has_clock(kind: pa.DataType) -> bool:
    """Whether a column of this type holds times of day or lengths of time."""
    return bool(pa.types.is_time(kind) or pa.types.is_duration(kind))


def to_timestamp(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates as timestamps in microseconds; those of a time zone by the clock on the wall there."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column)
    return column.cast(pa.timestamp("us"), safe=False)


def seconds(column: pa.ChunkedArray) -> Floats:
    """Return times of day or lengths of time in seconds.

    >>> import datetime
    >>> seconds(pa.chunked_array([[datetime.time(0, 1, 30)]]))
    array([90.])
    """
    if pa.types.is_time32(column.type):
        unit, whole = column.type.unit, column.cast(pa.int32()).cast(pa.int64())
    else:
        unit, whole = column.type.unit, column.cast(pa.int64())
    scale = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
    return _floats(whole) / scale


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.array(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _days(times: pa.ChunkedArray) -> Floats:
    return _floats(times.cast(pa.int64())) / 1e6 / _DAY


def _hour(times: pa.ChunkedArray) -> Floats:
    return np.mod(_days(times), 1.0) * 24.0


PARTS: dict[str, Callable[[pa.ChunkedArray], Floats]] = {
    "days": _days,
    "day of year": lambda times: _floats(pc.day_of_year(times)),
    "weekday": lambda times: _floats(pc.day_of_week(times)),
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
