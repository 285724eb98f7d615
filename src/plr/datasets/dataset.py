"""A table of features with a true label per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plr.datasets.encoding import categories, numbers, one_hot
from plr.datasets.registry import DatasetInfo, Scaling

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Dataset"]


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
        How :func:`plr.datasets.encode` scales the other features unless told otherwise.
    info : DatasetInfo or None
        The registry's entry; None for a file of the user's own.
    """

    name: str
    table: pa.Table
    target: NDArray[np.float64]
    categorical: tuple[str, ...] = ()
    scaling: Scaling = "standard"
    info: DatasetInfo | None = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def X(self) -> NDArray[np.float64]:  # noqa: N802
        """Features as numbers: categorical columns one-hot, the others as they are, NaN where empty.

        For models that scale inside, as plr's own do; :func:`plr.datasets.encode` scales.
        """
        blocks = [
            one_hot(self.table[name]) if name in self.categorical else numbers(self.table[name], name)[:, None]
            for name in self.table.column_names
        ]
        return np.hstack(blocks)

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of :attr:`X` and of what :func:`plr.datasets.encode` returns."""
        names: list[str] = []
        for name in self.table.column_names:
            if name in self.categorical:
                names += [f"{name}={category}" for category in categories(self.table[name])]
            else:
                names.append(name)
        return names
