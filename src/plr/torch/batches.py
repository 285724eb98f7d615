"""Ragged candidate sets as padded tensors: for a whole table, and for the batches of a DataLoader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from plr.candidates import CandidateSets, as_candidate_sets
from plr.candidates.arrays import pad_mask
from plr.errors import CandidateError, LengthError

__all__ = ["Padded", "PartialLabelDataset", "TensorBatch", "collate", "collate_sets", "pad", "pad_mask", "spread"]


class Padded(NamedTuple):
    """Candidate sets as tensors of shape (rows, largest set); ``prior`` is None where it is uniform."""

    candidates: Tensor
    mask: Tensor
    prior: Tensor | None


class TensorBatch(NamedTuple):
    """Features of some rows, and their candidates padded."""

    features: Any
    candidates: Tensor
    mask: Tensor
    prior: Tensor | None


def pad(S: object, dtype: Any = None) -> Padded:
    """Return candidate sets as padded tensors.

    Parameters
    ----------
    S : CandidateSets or anything it can be made from
    dtype : torch.dtype, optional
        Of candidates and prior; torch's default where not given.

    Examples
    --------
    >>> pad([[1, 2], [3]]).candidates
    tensor([[1., 2.],
            [3., 0.]])
    """
    sets = as_candidate_sets(S)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    mask = pad_mask(sets.sizes)
    prior = None if sets.prior is None else spread(sets.prior, mask, dtype)
    return Padded(spread(sets.values, mask, dtype), torch.from_numpy(mask), prior)


def spread(flat: NDArray[np.float64], mask: NDArray[np.bool_], dtype: torch.dtype) -> Tensor:
    """Return one number per candidate as a padded tensor, 0 where there is no candidate."""
    out = np.zeros(mask.shape)
    out[mask] = flat
    return torch.from_numpy(out).to(dtype)


def collate(rows: Sequence[Any], dtype: Any = None) -> TensorBatch:
    """Make a batch of rows; the ``collate_fn`` of a DataLoader.

    Parameters
    ----------
    rows : sequence of (features, candidates) or (features, candidates, prior)
        Features of any structure that torch's ``default_collate`` can stack; candidates and prior as lists, arrays or
        tensors of one dimension, or a single number.
    dtype : torch.dtype, optional
        Of candidates and prior; torch's default where not given.

    Examples
    --------
    >>> batch = collate([(torch.zeros(2), [1.0, 2.0]), (torch.ones(2), [3.0])])
    >>> batch.features.shape, batch.mask
    (torch.Size([2, 2]), tensor([[ True,  True],
            [ True, False]]))
    """
    features, sets = collate_sets(rows)
    return TensorBatch(default_collate(features), *pad(sets, dtype))


def collate_sets(rows: Sequence[Any]) -> tuple[list[Any], CandidateSets]:
    """Take rows apart into their features and their candidate sets."""
    for place, row in enumerate(rows):
        if not isinstance(row, tuple | list) or len(row) not in (2, 3):
            found = f"{len(row)} parts" if isinstance(row, tuple | list) else f"a {type(row).__name__}"
            raise CandidateError(
                f"Row {place} of the batch is {found}; expected (features, candidates) or "
                f"(features, candidates, prior)."
            )
    values = [_numbers(row[1]) for row in rows]
    priors = [None if len(row) == 2 or row[2] is None else _numbers(row[2]) for row in rows]
    if all(prior is None for prior in priors):
        return [row[0] for row in rows], CandidateSets.from_lists(values)
    given = [np.ones(len(value)) if prior is None else prior for value, prior in zip(values, priors, strict=True)]
    return [row[0] for row in rows], CandidateSets.from_lists(values, given)


def _numbers(given: Any) -> Any:
    if isinstance(given, Tensor):
        given = given.detach().cpu().to(torch.float64).numpy()
    return np.atleast_1d(given) if np.ndim(given) == 0 else given


class PartialLabelDataset(Dataset):
    """Rows of features with their candidates, for a DataLoader with `collate`.

    Parameters
    ----------
    X : array, tensor or map-style dataset of n rows
    S : CandidateSets or anything it can be made from

    Examples
    --------
    >>> rows = PartialLabelDataset(torch.eye(2), [[1.0, 2.0], [3.0]])
    >>> len(rows), rows[1]
    (2, (tensor([0., 1.]), array([3.])))
    """

    def __init__(self, X: Any, S: object) -> None:
        self.X = X
        self.S = as_candidate_sets(S)
        if len(X) != len(self.S):
            raise LengthError(f"X has {len(X)} rows and S {len(self.S)}; they must agree.")

    def __len__(self) -> int:
        return len(self.S)

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        row = range(len(self))[row]
        start, stop = self.S.offsets[row], self.S.offsets[row + 1]
        values = self.S.values[start:stop]
        return (self.X[row], values) if self.S.prior is None else (self.X[row], values, self.S.prior[start:stop])
