"""Padding and collating of ragged candidate sets."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from plr import CandidateSets
from plr.errors import CandidateError, EmptySetError, InfeasibleError, LengthError, PriorError
from plr.torch import AverageLoss, PartialLabelDataset, collate, pad

SETS = CandidateSets.from_lists([[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]], [[3, 1], [1], [0, 1, 1]])


def test_pad() -> None:
    candidates, mask, prior = pad(SETS)
    assert candidates.dtype == prior.dtype == torch.get_default_dtype()
    assert mask.tolist() == [[True, True, False], [True, False, False], [True, True, True]]
    assert candidates[mask].tolist() == [1, 2, 3, 4, 5, 6]
    assert prior[0].tolist() == [0.75, 0.25, 0.0]
    assert pad([[0.1]], torch.float64).candidates.item() == 0.1
    assert pad([[1.0]]).prior is None


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, tuple], ids=["list", "array", "tensor", "tuple"])
def test_collate_takes_candidates_of_any_kind(kind: Any) -> None:
    batch = collate([(torch.zeros(2), kind([1.0, 2.0])), (torch.ones(2), kind([3.0]))])
    assert batch.features.tolist() == [[0, 0], [1, 1]]
    assert batch.candidates.tolist() == [[1, 2], [3, 0]]
    assert batch.prior is None


def test_collate_keeps_structure_and_fills_in_priors() -> None:
    rows = [({"a": 1.0, "b": np.zeros(2)}, 5.0), ({"a": 2.0, "b": np.ones(2)}, [1, 2], torch.tensor([3.0, 1.0]))]
    batch = functools.partial(collate, dtype=torch.float64)(rows)
    assert batch.features["a"].tolist() == [1.0, 2.0]
    assert batch.features["b"].shape == (2, 2)
    assert batch.prior.tolist() == [[1.0, 0.0], [0.75, 0.25]]
    assert batch.candidates.dtype == torch.float64


@pytest.mark.parametrize("workers", [0, 1])
def test_in_a_loader(workers: int) -> None:
    rows = PartialLabelDataset(torch.arange(6.0).reshape(3, 2), SETS)
    features, candidates, mask, prior = next(
        iter(DataLoader(rows, batch_size=3, collate_fn=collate, num_workers=workers))
    )
    assert features.shape == (3, 2)
    assert torch.equal(candidates, pad(SETS).candidates)
    assert torch.isfinite(AverageLoss()(features.sum(1), candidates, mask, prior))


def test_dataset() -> None:
    rows = PartialLabelDataset(np.arange(3), [[1.0], [2.0, 3.0], [4.0]])
    assert [len(values) for _, values in rows] == [1, 2, 1]
    assert rows[-1][1].tolist() == [4.0]
    with pytest.raises(IndexError):
        rows[3]
    with pytest.raises(LengthError, match="X has 2 rows and S 3"):
        PartialLabelDataset(np.arange(2), SETS)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([(0.0, [1.0]), (0.0, [])], EmptySetError, "row 1"),
        ([(0.0, [1.0]), (0.0, [np.inf])], CandidateError, "row 1"),
        ([(0.0, [1.0], [0.0])], PriorError, "row 0"),
        ([(0.0, [1.0, 2.0], [1.0])], ValueError, "prior"),
        ([torch.zeros(2)], CandidateError, "Row 0 of the batch is a Tensor"),
        ([(0.0, [1.0]), (0.0,)], CandidateError, "Row 1 of the batch is 1 parts"),
        ([(0.0, [1.0]), (0.0, np.zeros(1_000_000))], InfeasibleError, "1000000 candidates of row 1"),
    ],
)
def test_bad_input(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        collate(rows)


def test_padding_that_would_dwarf_the_data() -> None:
    sizes = np.ones(40_000, dtype=int)
    sizes[123] = 5_000
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    with pytest.raises(InfeasibleError, match="5000 candidates of row 123 would take"):
        pad(CandidateSets(np.zeros(offsets[-1]), offsets))
