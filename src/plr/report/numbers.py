"""Numbers as the pages write them: with commas between thousands and a real minus, columns with as many decimals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["decimals_of", "exact", "shown", "to_decimals"]

# Digits of a column's range that are worth reading, and of a value of the data.
_DIGITS, _EXACT = 4, 9
# From here on, numbers are written with powers of ten.
_LARGE, _MOST_DECIMALS = 1e12, 8


def shown(value: float) -> str:
    """Return a number with four significant digits, as people write it.

    >>> [shown(value) for value in (0.0, 12.3456, -1234567.0, 0.000012345, 5e20)]
    ['0', '12.35', '−1,234,567', '1.234e-05', '5e+20']
    """
    return _signed(value, f"{abs(value):,.0f}" if 1000 <= abs(value) < _LARGE else f"{abs(value):.{_DIGITS}g}")


def exact(value: float) -> str:
    """Return a value of the data with all of its digits, up to nine.

    >>> [exact(value) for value in (20296.0, 12.3456789, -0.5, 1234567.25, 123456789012.0, 1.5e-9)]
    ['20,296', '12.3456789', '−0.5', '1,234,567.25', '123,456,789,000', '1.5e-09']
    """
    size = float(f"{abs(value):.{_EXACT}g}")
    text = f"{size:.{_EXACT}g}"
    if 1e-4 <= size < _LARGE:
        text = f"{size:,.{max(_EXACT - 1 - math.floor(math.log10(size)), 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return _signed(value, text)


def decimals_of(values: Any) -> int | None:
    """Return how many decimals tell the numbers of a column apart; None where powers of ten are needed.

    >>> decimals_of([18000.0, 45200.5]), decimals_of([0.25, 7.5]), decimals_of([2020.1, 2020.9]), decimals_of([0, 1e15])
    (0, 3, 4, None)
    """
    values = np.asarray(values, dtype=np.float64)
    values = values[np.isfinite(values)]
    largest = float(np.abs(values).max(initial=0.0))
    if largest >= _LARGE:
        return None
    span = float(values.max() - values.min()) if len(values) else 0.0
    decimals = _DIGITS - 1 - math.floor(math.log10(span or largest or 1.0))
    return max(decimals, 0) if decimals <= _MOST_DECIMALS else None


def to_decimals(value: float, decimals: int | None) -> str:
    """Return a number with so many decimals; with four significant digits where that is None.

    >>> to_decimals(-1234.5678, 2), to_decimals(0.5, 3), to_decimals(-0.001, 1), to_decimals(5e20, None)
    ('−1,234.57', '0.500', '0.0', '5e+20')
    """
    if decimals is None:
        return shown(value)
    text = f"{abs(value):,.{decimals}f}"
    return _signed(value, text) if float(text.replace(",", "")) else text


def _signed(value: float, text: str) -> str:
    return f"−{text}" if value < 0 else text
