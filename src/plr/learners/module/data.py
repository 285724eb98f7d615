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
from plr.contracts import Task
from plr.errors import CandidateError, FeatureTypeError
from plr.learners.module.features import BatchOrder, FeatureReader, FeatureRows, as_is, loader_options
from plr.preprocessing.scaling import Affine, rescaled
from plr.torch.batches import PartialLabelDataset, collate_sets, pad_mask, spread
from plr.weighting.false_labels import FalseLabelDensity

__all__ = ["BatchSource", "MapSource", "PairRows", "StreamSource", "TaskRows", "TrainingBatch", "padded_batch", "peek"]

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
    rows_in_all: int | None = None
    """Rows of the step in all processes that train together; those here, unless given."""


class BatchSource(Protocol):
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
        self.start = task.start
        log_q = task.scaled_log_q(target)
        self.log_q = log_q if log_q.size else None
        self.importance = None if task.sample_weight is None else task.sample_weight / task.sample_weight.mean()

    def __len__(self) -> int:
        return len(self.S)

    def __getitem__(self, rows: Rows) -> TrainingBatch:
        features = self.features[rows]
        return padded_batch(features, self.S, rows, self.dtype, self.log_q, self.start, self.importance)


def padded_batch(
    features: Any,
    S: CandidateSets,
    rows: Rows,
    dtype: torch.dtype,
    log_q: Floats | None = None,
    fixed: Floats | None = None,
    weight: Floats | None = None,
    rows_in_all: int | None = None,
) -> TrainingBatch:
    """Return some rows of all as a batch; ``features`` are those of these rows, everything else that of all."""
    starts = S.offsets[rows]
    sizes = S.offsets[rows + 1] - starts
    # One of several processes may have no row of a batch.
    mask = pad_mask(sizes, rows) if len(rows) else np.zeros((0, 1), dtype=bool)
    places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())

    def padded(flat: Floats | None) -> Any:
        return None if flat is None else spread(flat[places], mask, dtype)

    return TrainingBatch(
        features,
        padded(S.values),
        torch.from_numpy(mask),
        padded(S.prior),
        padded(log_q),
        padded(fixed),
        None if weight is None else torch.from_numpy(weight[rows]).to(dtype),
        rows_in_all,
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

    def __init__(
        self,
        reader: FeatureReader,
        target: Affine,
        dtype: torch.dtype,
        false_labels: FalseLabelDensity | None = None,
    ) -> None:
        self.reader, self.target, self.dtype, self.false_labels = reader, target, dtype, false_labels

    def __call__(self, items: list[Any]) -> TrainingBatch:
        features, S = collate_sets(items)
        mask = pad_mask(S.sizes)
        density = self.false_labels
        return TrainingBatch(
            self.reader.stack(features),
            spread(self.target.apply(S.values), mask, self.dtype),
            torch.from_numpy(mask),
            None if S.prior is None else spread(S.prior, mask, self.dtype),
            None if density is None else spread(density.log_scaled(S.values, self.target), mask, self.dtype),
        )


class MapSource:
    """Batches of rows that can be indexed, in an order that the seed and the epoch decide.

    Without a seed they are validation rows: all of them, in their own order.
    """

    def __init__(self, rows: Dataset, batch_size: int, seed: int | None, loader: Mapping[str, Any], pin: bool) -> None:
        drop_last = seed is not None and bool(loader.get("drop_last", False))
        self._order = BatchOrder(len(rows), batch_size, seed, drop_last)
        self._seed, self._generator = seed, torch.Generator()
        options = {"pin_memory": pin} | loader_options(loader) | {"generator": self._generator}
        self._loader = DataLoader(rows, sampler=self._order, batch_size=None, collate_fn=as_is, **options)
        self.steps: int | None = len(self._order)

    def batches(self, epoch: int) -> Iterator[TrainingBatch]:
        """Give the batches of an epoch."""
        self._order.epoch = epoch
        _seed_workers(self._generator, self._seed, epoch)
        return iter(self._loader)


class StreamSource:
    """Batches of an iterable dataset, in the order it gives them. Without a seed they are validation rows."""

    def __init__(
        self, dataset: Any, make: MakeBatch, batch_size: int, seed: int | None, loader: Mapping[str, Any], pin: bool
    ) -> None:
        self._seed, self._generator = seed, torch.Generator()
        options = {"pin_memory": pin} | loader_options(loader) | {"generator": self._generator}
        options["drop_last"] = seed is not None and bool(loader.get("drop_last", False))
        self._loader = DataLoader(dataset, batch_size, collate_fn=make, **options)
        self.steps = len(self._loader) if hasattr(dataset, "__len__") else None

    def batches(self, epoch: int) -> Iterator[TrainingBatch]:
        """Give the batches of an epoch."""
        _seed_workers(self._generator, self._seed, epoch)
        return iter(self._loader)


def peek(dataset: Any) -> tuple[Any, CandidateSets]:
    """Return the features of a row, and the candidates of some.

    Those are the first rows of an iterable dataset, and else rows at equal distances.
    """
    if isinstance(dataset, PartialLabelDataset) and len(dataset) > 0:
        return dataset[0][0], dataset.S
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
    features, S = collate_sets(items)
    return features[0], S


def _seed_workers(generator: torch.Generator, seed: int | None, epoch: int) -> None:
    """Let the seed and the epoch decide what a loader's workers draw."""
    generator.manual_seed(int(np.random.SeedSequence([seed or 0, 3, epoch]).generate_state(1)[0]))
