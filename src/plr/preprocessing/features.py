"""Features as numbers: columns of a frame as codes of categories, and a matrix of codes and gaps as plain columns.

`Columns` turns a frame into a float64 matrix in which categories are whole numbers, in an order learned from the
training rows. `Encoding` turns such a matrix into what a network, a linear model or a distance can use: categories
one-hot, gaps filled and marked, columns scaled.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr.errors import FeatureError, ParameterError, unknown_name
from plr.preprocessing.ranks import NormalScores
from plr.preprocessing.scaling import Affine, learn_features

__all__ = [
    "MANY_DIFFERENT",
    "MOST_CATEGORIES",
    "Columns",
    "Encoding",
    "by_blocks",
    "column_place",
    "find_identifiers",
    "learn_columns",
    "learn_encoding",
    "names_identifiers",
    "too_many_texts",
]

Floats = NDArray[np.float64]

MANY_DIFFERENT = 20
"""With fewer different entries, no column is taken for one of identifiers."""

_DIFFERENT = 0.5
_IDENTIFIERS = re.compile(r"(.*[_ .-])?(id|nr|no|key)|.*[a-z](Id|ID)")
# Of a column with more categories than this, the most frequent have columns of their own.
MOST_CATEGORIES = 100
# Scaled as the indicator of half the rows would be. By its own standard deviation, the indicator of one row in ten
# thousand would be 100 in that row, and the row would decide what is learned from it.
_INDICATOR_SCALE = 0.5
# Entries of X encoded at a time in predictions: a megabyte, which the cache holds until it is used.
_ENTRIES_AT_A_TIME = 131_072
# Of this many rows a network computes at once; blocks are made of whole ones, so that cutting changes no bit.
_ROWS_TOGETHER = 256
_TIMES = (datetime.date, datetime.time, datetime.timedelta)


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
            _, column = _column(X, place, name)
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
    # The columns of an Arrow table are the columns themselves.
    names = tuple(str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns))
    categories: dict[int, tuple[Any, ...]] = {}
    for place, name in enumerate(names):
        series, column = _column(X, place, name)
        dtype = getattr(series, "dtype", column.dtype)
        # A pandas categorical states them, and their order.
        stated = getattr(dtype, "categories", None) if hasattr(series, "iloc") else None
        if stated is not None:
            categories[place] = tuple(stated)
        elif column.dtype.kind in "biuf" or (
            # A column of numbers with gaps may come as objects.
            column.dtype == object and all(isinstance(entry, Real | Decimal) or _is_missing(entry) for entry in column)
        ):
            continue
        else:
            # Sorted, so that they do not depend on the order of rows.
            found = [entry for entry in set(column) if not _is_missing(entry)]
            categories[place] = tuple(sorted(found, key=lambda entry: (type(entry).__name__, entry)))
        if getattr(dtype, "kind", column.dtype.kind) in "mM" or any(
            isinstance(each, _TIMES) for each in categories[place]
        ):
            raise FeatureError(
                f"Column {name} holds dates or times; turn them into numbers first, days for example, or fit "
                "plr.TableModel, which does so.",
                column=name,
            )
    return Columns(names, categories) if categories else None


def find_identifiers(X: Any, columns: Columns | None = None) -> dict[str, str]:
    """Return the columns of a frame that look like identifiers, and why; none of an array, or of categoricals.

    Parameters
    ----------
    X : array or frame
    columns : Columns, optional
        The categories of its columns, where they are known.

    Examples
    --------
    >>> import pandas as pd
    >>> streets = [f"street {n}" for n in range(40)]
    >>> frame = pd.DataFrame({"meter_id": range(900, 940), "street": streets, "area": 1.5})
    >>> find_identifiers(frame, learn_columns(frame))
    {'meter_id': 'has a different number in every row', 'street': 'has 40 different texts in 40 rows'}
    """
    if not hasattr(X, "columns"):
        return {}
    found = {}
    for place, given in enumerate(X.column_names if hasattr(X, "column_names") else X.columns):
        name = str(given)
        series, cells = _column(X, place, name)
        categories = () if columns is None else columns.categories.get(place, ())
        if categories and not hasattr(getattr(series, "dtype", None), "categories"):
            there = sum(not _is_missing(entry) for entry in cells)
            if too_many_texts(len(categories), there):
                found[name] = f"has {len(categories):,} different texts in {there:,} rows"
        elif (
            cells.dtype.kind in "iu"
            and names_identifiers(name)
            and MANY_DIFFERENT <= len(cells) == np.unique(cells).size
        ):
            found[name] = "has a different number in every row"
    return found


def names_identifiers(name: str) -> bool:
    """Return whether a column is named as one of identifiers.

    >>> names_identifiers("meterId"), names_identifiers("order_no"), names_identifiers("width")
    (True, True, False)
    """
    name = name.strip()
    return bool(_IDENTIFIERS.fullmatch(name) or _IDENTIFIERS.fullmatch(name.lower()))


def too_many_texts(different: int, rows: int) -> bool:
    """Return whether texts are identifiers or prose, and no categories: so many, and so large a share, differ."""
    return different >= MANY_DIFFERENT and different > _DIFFERENT * rows


def column_place(parameter: str, column: object, names: tuple[str, ...], columns: int) -> int:
    """Return the place of a column that a parameter gives by its name or its number."""
    if isinstance(column, str):
        if not names:
            raise ParameterError(
                f"{{parameter}} names the column {column!r}, but X has no names; give column numbers.",
                parameter=parameter,
                value=column,
            )
        if column not in names:
            raise unknown_name("column in {parameter}", column, names, parameter=parameter)
        return names.index(column)
    if isinstance(column, bool) or not isinstance(column, Integral) or not 0 <= int(column) < columns:
        raise ParameterError(
            f"{{parameter}} must give columns by name, or by number from 0 to {columns - 1}, got {column!r}.",
            parameter=parameter,
            value=column,
        )
    return int(column)


def _column(X: Any, place: int, name: str) -> tuple[Any, NDArray[Any]]:
    """Return a column of a frame or an Arrow table, and its cells, None or NaN where missing."""
    if hasattr(X, "column_names"):
        series = X.column(place)
    else:
        series = X.iloc[:, place] if hasattr(X, "iloc") else X.to_series(place)
    cells = np.asarray(series.to_numpy())
    if cells.dtype == object:
        for row, entry in enumerate(cells):
            if type(entry).__hash__ is None:
                raise FeatureError(
                    f"Column {name} holds a {type(entry).__name__} in row {row}; it must be numbers or categories.",
                    row=row,
                    column=name,
                )
    return series, cells


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


@dataclass(frozen=True)
class Encoding:
    """How a matrix of numbers and category codes becomes a matrix of numbers.

    The encoded columns are the numeric ones, then those that mark gaps, then those of the categories, then ranks.

    Attributes
    ----------
    numeric : tuple of int
        Columns that are numbers.
    fill : ndarray
        What stands for a missing entry in each of these: the mean.
    marked : tuple of int
        Numeric columns that had gaps in training; each gets a column that says where. Gaps in others are filled only:
        nothing is known about what they mean.
    categories : dict
        For each column of categories, the codes that have a column of their own. Where a category is missing, was not
        seen in training, or is rarer than the hundred most frequent, all of these are zero.
    scaling : Affine
        Of the encoded columns but ranks.
    ranks : NormalScores or None
        Of the scaled columns.
    """

    numeric: tuple[int, ...]
    fill: Floats
    marked: tuple[int, ...]
    categories: dict[int, Floats]
    scaling: Affine
    ranks: NormalScores | None = None

    def __post_init__(self) -> None:
        places = [*self.numeric, *self.categories]
        require(sorted(places) == list(range(len(places))), "columns are missing or named twice")
        require(
            list(self.numeric) == sorted(self.numeric) and {*self.marked} <= {*self.numeric}, "columns out of order"
        )
        require(len(self.fill) == len(self.numeric), "fill and numeric columns differ in number")
        width = len(self.numeric) + len(self.marked) + sum(map(len, self.categories.values()))
        require(np.shape(self.scaling.centre) == (width,), "scaling and encoded columns differ in number")
        require(self.ranks is None or {*self.ranks.columns} <= {*range(width)}, "ranks of columns that there are not")

    @property
    def columns(self) -> int:
        """Number of columns before encoding."""
        return len(self.numeric) + len(self.categories)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return np.size(self.scaling.centre) + (0 if self.ranks is None else len(self.ranks.columns))

    def sum_by_column(self, shares: Floats) -> Floats:
        """Return the sums of numbers for encoded columns, over all those that are made of one column.

        >>> encoding = learn_encoding(np.array([[0.0, 1.0], [1.0, 3.0], [2.0, np.nan]]), categorical=(0,))
        >>> encoding.width, encoding.sum_by_column(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
        (5, array([12.,  3.]))
        """
        owners = [*self.numeric, *self.marked]
        owners += [column for column, codes in self.categories.items() for _ in codes]
        return np.asarray(np.bincount(owners, shares, minlength=self.columns), dtype=np.float64)

    def apply(self, X: Floats) -> Floats:
        """Encode and scale."""
        rows = self.scaling.apply(self.expand(X))
        return rows if self.ranks is None else self.ranks.append(rows)

    def expand(self, X: Floats) -> Floats:
        """Encode; the same array where there is nothing to encode."""
        plain = len(self.numeric) == X.shape[1] and not self.marked
        # The least of numbers is NaN where one of them is, and takes no array of flags to find.
        if plain and not np.isnan(X.min(initial=0.0)):
            return X
        numbers = X[:, list(self.numeric)]
        parts = [np.where(np.isnan(numbers), self.fill, numbers)]
        if self.marked:
            parts.append(np.isnan(X[:, list(self.marked)]).astype(np.float64))
        parts.extend((X[:, column, None] == codes).astype(np.float64) for column, codes in self.categories.items())
        return np.concatenate(parts, axis=1)


def learn_encoding(
    X: Floats, categorical: tuple[int, ...] = (), sample_weight: Floats | None = None, scale: bool = True
) -> Encoding:
    """Learn how to encode.

    Numbers are brought to mean 0 and standard deviation 1, of the entries that are there. Indicators are centred and
    doubled, so that one of half the rows has standard deviation 1 too and a rare one stays small. Without ``scale``
    everything is left in its own units. A matrix of numbers without gaps is scaled as it always was, to the bit.
    """
    counts = np.ones(len(X)) if sample_weight is None else sample_weight
    numeric = tuple(column for column in range(X.shape[1]) if column not in categorical)
    gaps = np.isnan(X)
    gaps[:, list(categorical)] = False
    marked = tuple(column for column in numeric if gaps[:, column].any())
    fill = _means(X, counts)
    known = np.ones(X.shape[1])
    for column in marked:
        there = ~gaps[:, column] & (counts > 0)
        fill[column] = _means(X[there, column, None], counts[there])[0] if there.any() else 0.0
        known[column] = counts[there].sum() / counts.sum() if there.any() else 1.0
    categories = {column: _frequent(X[:, column], counts) for column in categorical}
    if not marked and not categories:
        return Encoding(numeric, fill, marked, categories, learn_features(X, sample_weight, scale))

    # Columns keep their places here, so that an error names the right one.
    numbers = np.where(gaps, fill, X)
    numbers[:, list(categorical)] = 0.0
    places = list(numeric)
    of_numbers = learn_features(numbers, sample_weight, scale)
    centre, spread = np.asarray(of_numbers.centre)[places], np.asarray(of_numbers.scale)[places]
    if scale:
        # Filled gaps have no spread.
        spread = spread / np.sqrt(known[places])
    width = len(numeric) + len(marked) + sum(map(len, categories.values()))
    plain = Encoding(numeric, fill[places], marked, categories, Affine(np.zeros(width), np.ones(width)))
    indicators = plain.expand(X)[:, len(numeric) :]
    shares = np.average(indicators, axis=0, weights=counts) if scale else np.zeros(indicators.shape[1])
    unit = np.full(indicators.shape[1], _INDICATOR_SCALE if scale else 1.0)
    scaling = Affine(np.concatenate([centre, shares]), np.concatenate([spread, unit]))
    return Encoding(numeric, fill[places], marked, categories, scaling)


def by_blocks(X: Floats, compute: Callable[[Floats], Floats]) -> Floats:
    """Return one number per row, computed on some thousand rows at a time.

    Encoding and scaling a million rows at once writes copies of X to memory and reads them back, which takes longer
    than a small model's own work.
    """
    step = max(1, _ENTRIES_AT_A_TIME // (max(1, X.shape[1]) * _ROWS_TOGETHER)) * _ROWS_TOGETHER
    if len(X) <= step:
        return compute(X)
    found = np.empty(len(X))
    for first in range(0, len(X), step):
        found[first : first + step] = compute(X[first : first + step])
    return found


def _means(X: Floats, weight: Floats) -> Floats:
    """Return the columns' weighted means, taken around their middles so that large numbers do not overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = X.min(axis=0) / 2 + X.max(axis=0) / 2
        means: Floats = middle + np.average(X - middle, axis=0, weights=weight)
    return np.where(np.isfinite(means), means, 0.0)


def _frequent(codes: Floats, counts: Floats) -> Floats:
    """Return the codes that rows with weight have, at most as many as get columns; the most frequent, in order."""
    there = ~np.isnan(codes) & (counts > 0)
    if not there.any():
        return np.empty(0)
    total = np.bincount(codes[there].astype(np.int64), weights=counts[there])
    chosen = np.argsort(-total, kind="stable")[:MOST_CATEGORIES]
    return np.sort(chosen[total[chosen] > 0]).astype(np.float64)
