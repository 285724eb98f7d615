"""A small torch module, and models of it, for the tests of files that hold one."""

from __future__ import annotations

import numpy as np
from torch import nn

from plr import PartialLabelRegressor
from plr.learners import Module
from support.model_files import problem

ROWS = problem()[0].astype(np.float32)


def make_net(features):
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 1))


def fitted(module=make_net, X=None, **options):
    rows, S = problem()
    X = rows.astype(np.float32) if X is None else X
    learner = Module(module, **({"epochs": 2, "device": "cpu", "batch_size": 16} | options))
    return PartialLabelRegressor(learner, random_state=0).fit(X, S), X, S
