"""The weightings for people with their own PyTorch training loop: losses over padded candidates, and what pads them.

Each loss is called as ``loss(prediction, candidates, mask, prior=None, sample_weight=None)`` with one prediction per
row, the candidates of each row padded to the same width, and a mask that is True where there is a candidate.

Examples
--------
>>> import torch
>>> from plr import CandidateSets
>>> from plr.torch import PartialLabelDataset, ProgressiveLoss, collate
>>> S = CandidateSets.from_lists([[3.1, 7.0], [2.2], [5.0, 5.5, 9.1]])
>>> rows = PartialLabelDataset(torch.eye(3), S)
>>> net, loss = torch.nn.Linear(3, 1), ProgressiveLoss(beta2=1.0)
>>> for features, candidates, mask, prior in torch.utils.data.DataLoader(rows, batch_size=3, collate_fn=collate):
...     loss(net(features), candidates, mask, prior).backward()
>>> mask.sum(1)
tensor([2, 1, 3])
"""

from __future__ import annotations

import importlib

from plr.errors import DependencyError

try:
    importlib.import_module("torch")
except ImportError as error:
    raise DependencyError(
        'plr.torch and plr.learners.Module need PyTorch, which is not installed: pip install "plr[torch]".'
    ) from error

from plr.torch.batches import Padded, PartialLabelDataset, TensorBatch, collate, pad
from plr.torch.losses import AverageLoss, CandidateLoss, IdentificationLoss, ProgressiveLoss, ScoreLoss
from plr.torch.posterior import PosteriorLoss, make_loss

__all__ = [
    "AverageLoss",
    "CandidateLoss",
    "IdentificationLoss",
    "Padded",
    "PartialLabelDataset",
    "PosteriorLoss",
    "ProgressiveLoss",
    "ScoreLoss",
    "TensorBatch",
    "collate",
    "make_loss",
    "pad",
]
