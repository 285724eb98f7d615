"""The library's default as a method of the benchmark: what `PartialLabelRegressor` does when nothing is chosen."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from plr.errors import PlrWarning
from plr.paper.execution import BenchmarkProblem, Fit, dump
from plr.paper.methods import Setting
from plr.paper.protocol import Protocol
from plr.paper.selection import EPOCH_RULES
from plr.regressor import PartialLabelRegressor

__all__ = ["fit_default"]


def fit_default(
    problem: BenchmarkProblem, setting: Setting, _protocol: Protocol, seed: int, check: Callable[[], None]
) -> list[Fit]:
    """Fit the default to the training sets, with one core; there are no epochs or settings to choose."""
    model = PartialLabelRegressor(random_state=seed % 2**31, n_jobs=1)
    with warnings.catch_warnings():
        # What it has to say about the data is no part of a result.
        warnings.simplefilter("ignore", PlrWarning)
        model.fit(problem.train.X, problem.train.S, callback=lambda *_: check())
    evidence = -model.score(problem.validation.X, problem.validation.S)
    truth, test = (float(np.mean((model.predict(part.X) - part.y) ** 2)) for part in (problem.validation, problem.test))
    return [Fit(dump(setting), rule, model.n_iter_, None, evidence, truth, test) for rule in EPOCH_RULES]
