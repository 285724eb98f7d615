"""Columns of a frame as numbers: categories become whole numbers, in an order learned from the training rows."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.errors import FeatureError, ParameterError, unknown_name

__all__ = ["Columns", "column_place", "learn_columns"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """How the columns of a frame become numbers.

    Attributes
    ----------
    names : tuple of str
    categories : dict
        For each column of categories, by its place, the categories in order; a category's place is its number.
    """

    names: tuple[str, ...]
    categories: dict[int, tuple[Any, ...]]

    @property
    def categorical(self) -> tuple[int, ...]:
        """Which columns are categories."""
        return tuple(self.categories)

    def encode(self, X: Any) -> Floats:
        """Return a frame as a float64 array; categories that are missing or were never seen become NaN."""
        if not hasattr(X, "columns"):
            raise FeatureError(
                f"The model was fitted on a frame with the columns {', '.join(self.names)}; give it such a frame."
            )
        out = np.empty((len(X), len(self.names)))
        for place, name in enumerate(self.names):
            column = _column(X, place, name)
            if place in self.categories:
                numbers = {category: number for number, category in enumerate(self.categories[place])}
                out[:, place] = [numbers.get(entry, np.nan) for entry in column]
            else:
                out[:, place] = _numbers(column, name)
        return out


def learn_columns(X: Any) -> Columns | None:
    """Learn the categories of a frame; None for arrays, and for frames of nothing but numbers."""
    if not hasattr(X, "columns"):
        return None
    names = _names(X)
    categories = {}
    for place, name in enumerate(names):
        series, column = _series(X, place), _column(X, place, name)
        stated = _stated_categories(series)
        if stated is None and _is_numeric(column):
            continue
        categories[place] = _categories(column) if stated is None else stated
        if getattr(series.dtype, "kind", column.dtype.kind) in "mM" or any(map(_is_time, categories[place])):
            raise FeatureError(f"Column {name} holds dates or times; turn them into numbers first, days for example.")
    return Columns(names, categories) if categories else None


def column_place(parameter: str, column: object, names: tuple[str, ...], columns: int) -> int:
    """Return the place of a column that a parameter gives by its name or its number."""
    if isinstance(column, str):
        if not names:
            raise ParameterError(f"{parameter} names the column {column!r}, but X has no names; give column numbers.")
        if column not in names:
            raise unknown_name(f"column in {parameter}", column, names)
        return names.index(column)
    if isinstance(column, bool) or not isinstance(column, Integral) or not 0 <= int(column) < columns:
        raise ParameterError(
            f"{parameter} must give columns by name, or by number from 0 to {columns - 1}, got {column!r}."
        )
    return int(column)


def _names(X: Any) -> tuple[str, ...]:
    # The columns of an Arrow table are the columns themselves.
    return tuple(str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns))


def _series(X: Any, place: int) -> Any:
    if hasattr(X, "column_names"):
        return _ArrowSeries(X.column(place))
    return X.iloc[:, place] if hasattr(X, "iloc") else X.to_series(place)


@dataclass(frozen=True)
class _ArrowSeries:
    """A column of an Arrow table, as far as it is looked at here."""

    column: Any

    def to_numpy(self) -> NDArray[Any]:
        """Return the cells, None or NaN where missing."""
        return np.asarray(self.column.to_numpy())

    @property
    def dtype(self) -> Any:
        """The type of the cells."""
        return self.to_numpy().dtype


def _column(X: Any, place: int, name: str) -> NDArray[Any]:
    column = np.asarray(_series(X, place).to_numpy())
    if column.dtype == object:
        for row, entry in enumerate(column):
            if type(entry).__hash__ is None:
                raise FeatureError(
                    f"Column {name} holds a {type(entry).__name__} in row {row}; it must be numbers or categories."
                )
    return column


def _is_numeric(column: NDArray[Any]) -> bool:
    if column.dtype.kind in "biuf":
        return True
    # A column of numbers with gaps may come as objects.
    return column.dtype == object and all(isinstance(entry, Real | Decimal) or _is_missing(entry) for entry in column)


def _stated_categories(series: Any) -> tuple[Any, ...] | None:
    """Return the categories of a pandas categorical, in the order it states; None for all else."""
    stated = getattr(series.dtype, "categories", None)
    return tuple(stated) if stated is not None and hasattr(series, "iloc") else None


def _categories(column: NDArray[Any]) -> tuple[Any, ...]:
    # Sorted, so that they do not depend on the order of rows.
    found = [entry for entry in set(column) if not _is_missing(entry)]
    return tuple(sorted(found, key=lambda entry: (type(entry).__name__, entry)))


def _is_time(entry: Any) -> bool:
    return isinstance(entry, datetime.date | datetime.time | datetime.timedelta)


def _is_missing(entry: Any) -> bool:
    # pandas' NA is the one missing value that does not say whether it equals itself.
    return entry is None or str(entry) == "<NA>" or entry != entry


def _numbers(column: NDArray[Any], name: str) -> Floats:
    try:
        if column.dtype == object:
            column = np.array([np.nan if _is_missing(entry) else entry for entry in column])
        numbers = np.asarray(column, dtype=np.float64)
    except OverflowError as error:
        raise FeatureError(f"Column {name} has a whole number beyond floating point, which ends at 1.8e308.") from error
    except (TypeError, ValueError) as error:
        raise FeatureError(f"Column {name} held numbers in training and does not now: {error}.") from error
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise FeatureError(f"Column {name} is infinite in row {row}; give a number, or NaN where it is missing.")
    return numbers
