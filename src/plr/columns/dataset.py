"""A table of features with a true label per row, and the matrix of numbers that a model is fed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plr.errors import DataError, FeatureError, ParameterError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Dataset", "categories", "dataset_of", "encode", "numbers", "true_labels"]

_SCALINGS = ("standard", "min-max", "none")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of features with a true label per row.

    Attributes
    ----------
    name : str
        Name of the data set.
    table : pyarrow.Table
        The features, in order, as they are in the source.
    target : ndarray of float64
        The true label of each row.
    categorical : tuple of str
        Features that are one-hot encoded.
    scaling : {"standard", "min-max"}
        How :func:`plr.paper.datasets.encode` scales the other features unless told otherwise.
    info : object or None
        The registry's entry; None for a file of the user's own.
    """

    name: str
    table: pa.Table
    target: NDArray[np.float64]
    categorical: tuple[str, ...] = ()
    scaling: Literal["standard", "min-max"] = "standard"
    info: Any = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def X(self) -> NDArray[np.float64]:  # noqa: N802
        """Features as numbers: categorical columns one-hot, the others as they are, NaN where empty.

        For models that scale inside, as plr's own do; :func:`plr.paper.datasets.encode` scales.
        """
        return _encode(self, lambda values: values)

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of :attr:`X` and of what :func:`plr.paper.datasets.encode` returns."""
        names: list[str] = []
        for name in self.table.column_names:
            if name in self.categorical:
                names += [f"{name}={category}" for category in categories(self.table[name])]
            else:
                names.append(name)
        return names


def dataset_of(table: pa.Table, target: str, *, name: str = "table", source: object = None) -> Dataset:
    """Make a data set of a table, as :func:`load_file` does of a file; messages name the ``source``."""
    where = name if source is None else source
    if target not in table.column_names:
        raise unknown_name(f"column of {where}", target, table.column_names)
    features = table.drop_columns([target])
    if features.num_columns == 0:
        raise DataError(f"{where} has no column besides the target {target!r}.")
    empty = [column for column in features.column_names if features[column].null_count == table.num_rows]
    if empty:
        raise DataError(f"The column {empty[0]!r} of {where} is empty.")
    categorical = tuple(field.name for field in features.schema if _is_categorical(field.type))
    for column in features.column_names:
        if column not in categorical:
            numbers(features[column], column)
    return Dataset(
        name=name,
        table=features,
        target=true_labels(table, target, where),
        categorical=categorical,
    )


def _is_categorical(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind) or types.is_boolean(kind)


def true_labels(table: pa.Table, name: str, source: object) -> NDArray[np.float64]:
    """Return a column as true labels that cannot be written to."""
    from plr.columns.targets import read_target

    values = read_target(table, name, source)
    values.flags.writeable = False
    return values


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
    return _encode(dataset, lambda values: _scale(values, rows, chosen))


def _encode(dataset: Dataset, scale: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
    blocks = []
    for name in dataset.table.column_names:
        column = dataset.table[name]
        blocks.append(_one_hot(column) if name in dataset.categorical else scale(numbers(column, name))[:, None])
    return np.hstack(blocks)


def _one_hot(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return one column of zeros and ones per category, categories sorted."""
    import pyarrow.compute as pc

    cells = _plain(column)
    equal = [pc.fill_null(pc.equal(cells, category), False).to_numpy() for category in categories(column)]
    return np.stack(equal, axis=1).astype(np.float64)


def categories(column: pa.ChunkedArray) -> list[Any]:
    """Return the distinct values of a column, sorted, empty cells aside."""
    return sorted(value for value in _plain(column).unique().to_pylist() if value is not None)


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
