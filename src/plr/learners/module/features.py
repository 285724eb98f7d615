"""Features of any kind, in batches: arrays, tensors, sparse matrices, frames, lists and torch datasets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, default_collate

from plr.errors import FeatureError, FeatureTypeError
from plr.preprocessing.scaling import Affine, learn_features

__all__ = [
    "BatchOrder",
    "FeatureReader",
    "FeatureRows",
    "as_is",
    "feature_batches",
    "holds_floats",
    "learn_feature_scaling",
    "loader_options",
    "plain_features",
]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class FeatureReader:
    """How rows of X become what a module takes.

    Attributes
    ----------
    dtype : torch.dtype
        What floats become. Whole numbers in arrays become int64.
    scaling : Affine or None
        Applied to the columns of a matrix, or to the channels of what has more dimensions.
    collate : callable or None
        Makes a batch of a list of items; torch's own where not given.
    pairs : bool
        Whether items may carry their candidates behind the features.
    nested : bool
        Whether the features of an item were a sequence in training.
    floats : bool
        Whether the features were floats in training, so that whole numbers are meant as floats as well.
    """

    dtype: torch.dtype
    scaling: Affine | None = None
    collate: Callable[[list[Any]], Any] | None = None
    pairs: bool = False
    nested: bool = False
    floats: bool = False

    def convert(self, part: Any) -> Any:
        """Return some rows of an array as a tensor."""
        if hasattr(part, "toarray"):
            part = part.toarray()
        if self.scaling is not None:
            part, columns = np.asarray(part, dtype=np.float64), np.size(self.scaling.centre)
            if part.shape[1] != columns:
                raise FeatureError(f"X has {part.shape[1]} columns, and {columns} in training.")
            part = np.moveaxis(self.scaling.apply(np.moveaxis(part, 1, -1)), -1, 1)
        tensor = part if isinstance(part, Tensor) else torch.from_numpy(_contiguous(part))
        if self.floats or tensor.is_floating_point() or tensor.dtype == torch.bool:
            return tensor.to(self.dtype)
        return tensor.to(torch.int64)

    def stack(self, items: list[Any]) -> Any:
        """Return items of a dataset as a batch, floats in the module's own type."""
        batch = (self.collate or default_collate)(items)
        return batch.to(self.dtype) if self.floats and isinstance(batch, Tensor) else self._floats(batch)

    def stack_unpaired(self, items: list[Any]) -> tuple[Any, int]:
        """Return items of a stream as a batch, without their candidates, and how many there are."""
        return self.stack([self.features_of(item) for item in items]), len(items)

    def features_of(self, item: Any) -> Any:
        """Return an item without its candidates."""
        if not self.pairs or not isinstance(item, tuple | list):
            return item
        return item[0] if not self.nested or isinstance(item[0], tuple | list) else item

    def holds_pairs(self, X: Any) -> bool:
        """Return whether X is a list of lists of features and candidates, and not one of rows of numbers."""
        if not self.pairs or not isinstance(X, list | tuple) or not X or not isinstance(X[0], list) or not X[0]:
            return False
        first = X[0]
        return not all(isinstance(part, Number) for part in first) and isinstance(first[0], tuple | list) == self.nested

    def _floats(self, part: Any) -> Any:
        if isinstance(part, Tensor):
            return part.to(self.dtype) if part.is_floating_point() else part
        if isinstance(part, Mapping):
            return {key: self._floats(value) for key, value in part.items()}
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            return type(part)(*(self._floats(value) for value in part))
        if isinstance(part, tuple | list):
            return type(part)(self._floats(value) for value in part)
        return part


class FeatureRows(Dataset):
    """Features indexed by many rows at once."""

    def __init__(self, reader: FeatureReader, X: Any) -> None:
        self.reader = reader
        self.X = X if reader.holds_pairs(X) else plain_features(X)
        self.by_item = isinstance(self.X, Sequence) or not hasattr(self.X, "shape")

    def __len__(self) -> int:
        return int(self.X.shape[0]) if not self.by_item else len(self.X)

    def __getitem__(self, rows: Rows) -> Any:
        if self.by_item:
            return self.reader.stack([self.reader.features_of(self.X[int(row)]) for row in rows])
        part = self.X[torch.from_numpy(rows)] if isinstance(self.X, Tensor) else self.X[rows]
        return self.reader.convert(part)


class BatchOrder(Sampler):
    """Rows in batches, in an order that depends on the seed and the epoch alone."""

    def __init__(self, rows: int, batch_size: int, seed: int | None = None, drop_last: bool = False) -> None:
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        # A single batch is never left out, however small.
        self.used = rows - rows % batch_size if drop_last and rows >= batch_size else rows
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._cuts()) + 1 if self.rows else 0

    def __iter__(self) -> Iterator[Rows]:
        order = np.arange(self.rows)
        if self.seed is not None:
            order = np.random.default_rng([self.seed, 2, self.epoch]).permutation(order)
        if self.rows:
            yield from np.split(order[: self.used], self._cuts())

    def _cuts(self) -> list[int]:
        cuts = list(range(self.batch_size, self.used, self.batch_size))
        # Batch normalisation cannot train on a single row, so a lone last one joins the batch before.
        return cuts[:-1] if cuts and self.batch_size > 1 and self.used - cuts[-1] == 1 else cuts


def feature_batches(
    reader: FeatureReader, X: Any, batch_size: int, loader: Mapping[str, Any]
) -> Iterator[tuple[Any, int]]:
    """Give batches of features in the order of the rows, and how many rows each has."""
    # A generator of our own: a loader otherwise draws from the user's.
    options = {**loader_options(loader), "generator": torch.Generator()}
    if isinstance(X, IterableDataset):
        yield from DataLoader(X, batch_size, collate_fn=reader.stack_unpaired, **options)
        return
    rows = FeatureRows(reader, X)
    if len(rows) == 0:
        return
    order = BatchOrder(len(rows), batch_size)
    batches = DataLoader(rows, sampler=order, batch_size=None, collate_fn=as_is, **options)
    yield from zip(batches, (len(part) for part in order), strict=True)


def loader_options(loader: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that every loader takes."""
    return {name: value for name, value in loader.items() if name not in ("collate_fn", "drop_last")}


def as_is(batch: Any) -> Any:
    """Return a batch that is one already."""
    return batch


def plain_features(X: Any) -> Any:
    """Return features as an array, a tensor, a sparse matrix, or something indexed row by row."""
    if isinstance(X, Tensor):
        # Loaders share memory of the processor, and the way back ends at the module.
        X = X.detach().cpu()
        return _finite(X, torch.isfinite(X) if X.is_floating_point() else None)
    if hasattr(X, "toarray"):
        return X.tocsr()
    if hasattr(X, "column_names") and hasattr(X, "to_pydict"):
        # A table of Arrow's: a column without numbers makes an array of objects, which is refused below.
        X = np.column_stack([np.asarray(column) for column in X.columns])
    elif hasattr(X, "to_numpy"):
        X = _array_of_frame(X)
    if isinstance(X, list | tuple):
        X = list(X)
        if not X or not isinstance(X[0], Tensor | str | bytes | Mapping | tuple):
            with contextlib.suppress(ValueError):
                array = np.asarray(X)
                X = array if array.dtype.kind in "biuf" else X
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "biuf":
            return _finite(X, np.isfinite(X) if X.dtype.kind == "f" else None)
        if X.ndim == 1 and X.dtype.kind in "OUS":
            return X.tolist()
        raise FeatureError(
            f"X has type {X.dtype} and shape {X.shape}; a torch module takes numbers, or a dataset of what it takes. "
            f"Encode texts and categories first, for example with OneHotEncoder in a Pipeline."
        )
    if isinstance(X, IterableDataset):
        raise FeatureTypeError("An iterable dataset has no rows to index; use Module.fit_dataset.")
    if not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        raise FeatureTypeError(
            f"X is a {type(X).__name__}; a torch module takes arrays, tensors, and datasets that have __len__ and "
            f"__getitem__."
        )
    return X


def holds_floats(X: Any) -> bool:
    """Return whether X is an array or a tensor of numbers that are not whole, or of truth values."""
    if isinstance(X, Tensor):
        return X.is_floating_point() or X.dtype == torch.bool
    is_array = isinstance(X, np.ndarray | np.generic) or hasattr(X, "toarray")
    return X.dtype.kind in "bf" if is_array else isinstance(X, float)


def learn_feature_scaling(X: Any, sample_weight: NDArray[np.float64] | None) -> Affine:
    """Learn to bring each column, or each channel, to mean 0 and standard deviation 1."""
    plain = plain_features(X)
    if not hasattr(plain, "shape") or len(plain.shape) < 2:
        raise FeatureError("scale_features needs X as an array or tensor of at least two dimensions; scale it before.")
    array = np.asarray(plain.toarray() if hasattr(plain, "toarray") else plain, dtype=np.float64)
    channels = np.moveaxis(array, 1, -1).reshape(-1, array.shape[1])
    repeats = len(channels) // len(array)
    return learn_features(channels, None if sample_weight is None else np.repeat(sample_weight, repeats), active=True)


def _finite(X: Any, finite: Any) -> Any:
    if X.ndim == 0:
        raise FeatureError("X is a single number; give one row of features per row of candidates.")
    if finite is not None and not bool(finite.all()):
        row, *place = (
            int(index[0]) for index in np.nonzero(~np.asarray(finite.cpu() if isinstance(finite, Tensor) else finite))
        )
        raise FeatureError(
            f"X is {X[(row, *place)]} in row {row}, at {tuple(place)}; a torch module needs finite numbers."
        )
    return X


def _array_of_frame(X: Any) -> Any:
    array = X.to_numpy()
    if array.dtype != object or not hasattr(X, "dtypes"):
        return array
    # Numbers of several kinds, or of kinds that know missing values, have no common type of numpy's own.
    kinds = {getattr(dtype, "kind", "O") for dtype in np.ravel(X.dtypes)}
    if not kinds <= set("biuf"):
        return array
    floats = X.to_numpy(dtype=np.float64, na_value=np.nan)
    return X.to_numpy(dtype=np.int64) if kinds <= set("iu") and np.isfinite(floats).all() else floats


def _contiguous(part: NDArray[Any]) -> NDArray[Any]:
    # Some unsigned, long and big-endian types have no counterpart in torch.
    if part.dtype.kind in "iu":
        return np.asarray(part, dtype=np.int64, order="C")
    if part.dtype.kind == "f" and part.dtype not in (np.float16, np.float32):
        return np.asarray(part, dtype=np.float64, order="C")
    return np.ascontiguousarray(part)
