"""Where training batches come from: the rows of a task, or a dataset that yields features with their candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from plr.candidates import CandidateSets
from plr.errors import CandidateError, FeatureTypeError
from plr.learners.base import Task
from plr.learners.module.features import BatchOrder, FeatureReader, FeatureRows, as_is, loader_options
from plr.learners.scaling import Affine, rescaled
from plr.torch.batches import PartialLabelDataset, collate_sets, pad_mask

__all__ = ["MapSource", "PairRows", "Source", "StreamSource", "TaskRows", "TrainingBatch", "peek_sets"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Labels are scaled by what so many rows of a dataset say.
_PEEKED_ROWS = 10_000


class TrainingBatch(NamedTuple):
    """Some rows as a training step takes them; what is None is uniform or not given."""

    features: Any
    candidates: Tensor
    mask: Tensor
    prior: Tensor | None = None
    log_q: Tensor | None = None
    fixed: Tensor | None = None
    sample_weight: Tensor | None = None


class Source(Protocol):
    """Something that gives the batches of an epoch."""

    steps: int | None
    """How many, where that is known."""

    def batches(self, epoch: int) -> Iterator[TrainingBatch]:
        """Give the batches of an epoch."""
        ...


class TaskRows(Dataset):
    """The rows of a task, indexed by many at once; labels as the module sees them."""

    def __init__(self, features: FeatureRows, task: Task, target: Affine, dtype: torch.dtype) -> None:
        self.features, self.dtype = features, dtype
        self.S = rescaled(task.S, target)
        self.log_q, self.start = task.log_q, task.start
        self.importance = None if task.sample_weight is None else task.sample_weight / task.sample_weight.mean()

    def __len__(self) -> int:
        return len(self.S)

    def __getitem__(self, rows: Rows) -> TrainingBatch:
        starts = self.S.offsets[rows]
        sizes = self.S.offsets[rows + 1] - starts
        mask = pad_mask(sizes, rows)
        ends = np.cumsum(sizes)
        places = np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1])

        def spread(flat: Floats | None) -> Tensor | None:
            return None if flat is None else _padded(flat[places], mask, self.dtype)

        return TrainingBatch(
            self.features[rows],
            _padded(self.S.values[places], mask, self.dtype),
            torch.from_numpy(mask),
            spread(self.S.prior),
            spread(self.log_q),
            spread(self.start),
            None if self.importance is None else torch.from_numpy(self.importance[rows]).to(self.dtype),
        )


class PairRows(Dataset):
    """A map-style dataset of features with candidates, indexed by many rows at once."""

    def __init__(self, dataset: Any, make: MakeBatch) -> None:
        self.dataset, self.make = dataset, make

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, rows: Rows) -> TrainingBatch:
        return self.make([self.dataset[int(row)] for row in rows])


class MakeBatch:
    """Makes a batch of items ``(features, candidates)`` or ``(features, candidates, prior)``."""

    def __init__(self, reader: FeatureReader, target: Affine, dtype: torch.dtype) -> None:
        self.reader, self.target, self.dtype = reader, target, dtype

    def __call__(self, items: list[Any]) -> TrainingBatch:
        features, S = collate_sets(items)
        mask = pad_mask(S.sizes)
        return TrainingBatch(
            self.reader.stack(features),
            _padded(self.target.apply(S.values), mask, self.dtype),
            torch.from_numpy(mask),
            None if S.prior is None else _padded(S.prior, mask, self.dtype),
        )


class MapSource:
    """Batches of rows that can be indexed, in an order that the seed and the epoch decide; in their own without."""

    def __init__(self, rows: Dataset, batch_size: int, seed: int | None, loader: Mapping[str, Any], pin: bool) -> None:
        self._order = BatchOrder(len(rows), batch_size, seed)
        self._generator = torch.Generator()
        options = {"pin_memory": pin} | loader_options(loader) | {"generator": self._generator}
        self._loader = DataLoader(rows, sampler=self._order, batch_size=None, collate_fn=as_is, **options)
        self.steps: int | None = len(self._order)

    def batches(self, epoch: int) -> Iterator[TrainingBatch]:
        """Give the batches of an epoch."""
        self._order.epoch = epoch
        self._generator.manual_seed(epoch)
        return iter(self._loader)


class StreamSource:
    """Batches of an iterable dataset, in the order it gives them."""

    def __init__(self, dataset: Any, make: MakeBatch, batch_size: int, loader: Mapping[str, Any], pin: bool) -> None:
        self._generator = torch.Generator()
        options = {"pin_memory": pin} | loader_options(loader) | {"generator": self._generator}
        options["drop_last"] = bool(loader.get("drop_last", False))
        self._loader = DataLoader(dataset, batch_size, collate_fn=make, **options)
        self.steps = len(self._loader) if hasattr(dataset, "__len__") else None

    def batches(self, epoch: int) -> Iterator[TrainingBatch]:
        """Give the batches of an epoch."""
        self._generator.manual_seed(epoch)
        return iter(self._loader)


def peek_sets(dataset: Any) -> CandidateSets:
    """Return the candidates of some rows: the first of an iterable dataset, and else rows at equal distances."""
    if isinstance(dataset, PartialLabelDataset):
        return dataset.S
    if isinstance(dataset, IterableDataset):
        items = list(islice(iter(dataset), _PEEKED_ROWS))
    elif hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        rows = np.linspace(0, len(dataset) - 1, min(len(dataset), _PEEKED_ROWS)).astype(int)
        items = [dataset[int(row)] for row in rows]
    else:
        raise FeatureTypeError(
            f"fit_dataset takes a torch IterableDataset, or a dataset with __len__ and __getitem__, not a "
            f"{type(dataset).__name__}."
        )
    if not items:
        raise CandidateError("The dataset has no rows to fit; give at least one.")
    return collate_sets(items)[1]


def _padded(flat: Floats, mask: NDArray[np.bool_], dtype: torch.dtype) -> Tensor:
    out = np.zeros(mask.shape)
    out[mask] = flat
    return torch.from_numpy(out).to(dtype)
