"""Torch modules, data and short cuts for the tests of the module learner."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import nn

from plr import CandidateSets, make_candidates
from plr.learners import Module, Task
from plr.losses import get_loss
from plr.weighting import Rule, get_weighting

ROWS = 300

# Threads that wait for each other on a busy machine take longer than the work.
torch.set_num_threads(1)


def perceptron(features: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 1))


class Restless(nn.Module):
    """Draws random numbers in training and keeps statistics: what is hardest to take up again."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[:, 0]


class Words(nn.Module):
    """Embeds token ids and pools them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(8, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens).mean(1))


class TwoParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = perceptron()

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([left, right], 1))


@functools.cache
def compiled(weighting: str, loss: str = "squared") -> Rule:
    return Rule(get_weighting(weighting), get_loss(loss))


@functools.cache
def problem(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray, CandidateSets]:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 3))
    y = 10 * np.sin(X[:, 0]) + 5 * X[:, 1] + 0.5 * random.normal(size=rows) + 100
    return X, y, make_candidates(y, 3, random_state=1)


def small(module: Any = perceptron, **changed: Any) -> Module:
    return Module(module, **({"epochs": 40, "batch_size": 64, "learning_rate": 0.02, "device": "cpu"} | changed))


def fit(learner: Module, X: Any = None, S: Any = None, weighting: str = "posterior", **more: Any) -> Any:
    plain, _, sets = problem()
    return learner.fit(Task(plain if X is None else X, sets if S is None else S, compiled(weighting), **more))


def explained(prediction: np.ndarray, y: np.ndarray) -> float:
    return 1 - float(np.mean((prediction - y) ** 2) / np.var(y))
