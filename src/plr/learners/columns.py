"""Columns of a frame as numbers: categories become whole numbers, in an order learned from the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.errors import FeatureError

__all__ = ["Columns", "learn_columns"]

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
            column = _column(X, place)
            if place in self.categories:
                numbers = {category: number for number, category in enumerate(self.categories[place])}
                out[:, place] = [np.nan if _is_missing(entry) else numbers.get(entry, np.nan) for entry in column]
            else:
                out[:, place] = _numbers(column, name)
        return out


def learn_columns(X: Any) -> Columns | None:
    """Learn the categories of a frame; None for arrays, and for frames of nothing but numbers."""
    if not hasattr(X, "columns"):
        return None
    names = tuple(str(name) for name in X.columns)
    categories = {}
    for place, name in enumerate(names):
        column = _column(X, place)
        if column.dtype.kind in "mM":
            raise FeatureError(f"Column {name} holds dates or times; turn them into numbers first, days for example.")
        if not _is_numeric(column):
            categories[place] = _categories(_series(X, place), column)
    return Columns(names, categories) if categories else None


def _series(X: Any, place: int) -> Any:
    return X.iloc[:, place] if hasattr(X, "iloc") else X.to_series(place)


def _column(X: Any, place: int) -> NDArray[Any]:
    return np.asarray(_series(X, place).to_numpy())


def _is_numeric(column: NDArray[Any]) -> bool:
    if column.dtype.kind in "biuf":
        return True
    # A column of numbers with gaps may come as objects.
    return column.dtype == object and all(isinstance(entry, Real) or _is_missing(entry) for entry in column)


def _categories(series: Any, column: NDArray[Any]) -> tuple[Any, ...]:
    # A pandas categorical states its order; everything else is sorted, so that it does not depend on the rows' order.
    stated = getattr(series.dtype, "categories", None)
    if stated is not None and hasattr(series, "iloc"):
        return tuple(stated)
    found = {entry for entry in column if not _is_missing(entry)}
    return tuple(sorted(found, key=lambda entry: (type(entry).__name__, entry)))


def _is_missing(entry: Any) -> bool:
    # pandas' NA is the one missing value that does not say whether it equals itself.
    return entry is None or str(entry) == "<NA>" or entry != entry


def _numbers(column: NDArray[Any], name: str) -> Floats:
    try:
        if column.dtype == object:
            column = np.array([np.nan if _is_missing(entry) else entry for entry in column])
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FeatureError(f"Column {name} held numbers in training and does not now: {error}.") from error
