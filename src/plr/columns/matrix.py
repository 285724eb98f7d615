"""From a table of features to the matrix a model is fed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plr.errors import FeatureError, ParameterError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.columns.dataset import Dataset

__all__ = ["encode"]

_SCALINGS = ("standard", "min-max", "none")


def encode(dataset: Dataset, train_rows: ArrayLike, *, scaling: str | None = None) -> NDArray[np.float64]:
    """Encode the features of a data set as a matrix, the scaling learned from the training rows alone.

    Parameters
    ----------
    dataset : Dataset
        What :func:`plr.paper.datasets.load` returns.
    train_rows : array-like of int
        Rows the scaling, and the mean that fills an empty cell, may look at.
    scaling : {"standard", "min-max", "none"}, optional
        How columns that are not categorical are scaled; by default as the data set says. A column that is constant over
        the training rows becomes 0.

    Returns
    -------
    ndarray of shape (rows, encoded features)
        All rows. A categorical column gives one column of zeros and ones per category, in sorted order, whether or not
        a training row has it; an empty cell of a categorical column is zero in all of them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from plr.paper.datasets import Dataset
    >>> table = pa.table({"colour": ["red", "blue", "red"], "size": [1.0, 3.0, 9.0]})
    >>> dataset = Dataset("toy", table, np.zeros(3), categorical=("colour",))
    >>> encode(dataset, [0, 1])
    array([[ 0.,  1., -1.],
           [ 1.,  0.,  1.],
           [ 0.,  1.,  7.]])
    """
    chosen = dataset.scaling if scaling is None else scaling
    if chosen not in _SCALINGS:
        raise unknown_name("scaling", chosen, _SCALINGS)
    rows = np.asarray(train_rows)
    if rows.size == 0:
        raise ParameterError("encode needs at least one training row to learn the scaling from.")
    blocks = []
    for name in dataset.table.column_names:
        if name in dataset.categorical:
            blocks.append(one_hot(dataset.table[name]))
        else:
            blocks.append(_scale(numbers(dataset.table[name], name), rows, chosen)[:, None])
    return np.hstack(blocks)


def one_hot(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return one column of zeros and ones per category, categories sorted."""
    return np.stack([column_is(column, category) for category in categories(column)], axis=1)


def categories(column: pa.ChunkedArray) -> list[Any]:
    """Return the distinct values of a column, sorted, empty cells aside."""
    return sorted(value for value in _plain(column).unique().to_pylist() if value is not None)


def column_is(column: pa.ChunkedArray, category: Any) -> NDArray[np.float64]:
    """Return 1 where the column has the category, else 0."""
    import pyarrow.compute as pc

    equal = pc.fill_null(pc.equal(_plain(column), category), False)
    return np.asarray(equal.to_numpy(), dtype=np.float64)


def numbers(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """Return a column as floats, NaN where empty."""
    import pyarrow as pa

    try:
        return np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowException as error:
        raise FeatureError(f"Column {name!r} has the type {column.type}: neither a number nor text.") from error


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _scale(values: NDArray[np.float64], rows: NDArray[Any], scaling: str) -> NDArray[np.float64]:
    seen = values[rows]
    seen = seen[~np.isnan(seen)]
    if seen.size == 0:
        return np.zeros_like(values)
    filled = np.where(np.isnan(values), seen.mean(), values)
    if scaling == "none":
        return filled
    # Decided on the range: the mean of equal numbers may be off by a rounding error, and so their deviation not zero.
    width = seen.max() - seen.min()
    if width == 0:
        return np.zeros_like(values)
    return (filled - seen.mean()) / seen.std() if scaling == "standard" else (filled - seen.min()) / width
