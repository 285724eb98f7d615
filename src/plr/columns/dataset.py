"""A table of features with a true label per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from plr.columns.matrix import categories, numbers, one_hot
from plr.errors import DataError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Dataset", "dataset_of", "true_labels"]


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
        blocks = [
            one_hot(self.table[name]) if name in self.categorical else numbers(self.table[name], name)[:, None]
            for name in self.table.column_names
        ]
        return np.hstack(blocks)

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

    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def true_labels(table: pa.Table, name: str, source: object) -> NDArray[np.float64]:
    """Return a column as true labels that cannot be written to."""
    from plr.columns.targets import read_target

    values = read_target(table, name, source)
    values.flags.writeable = False
    return values
