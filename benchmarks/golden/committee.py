"""Test errors of the default: its draws turn on rounding, so that only errors can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.identification.cases import Case as Problem
from benchmarks.identification.cases import make_problem, training_seed
from benchmarks.identification.data import MAIN

from plr import PartialLabelRegressor

__all__ = ["cases", "ratios"]

# Splits that no table uses.
_TRIALS = (80, 81, 82)
_ROWS = 2000


@dataclass(frozen=True)
class Case:
    """One fit of the default to one split of a data set."""

    dataset: str
    set_size: str
    false_labels: int
    trial: int

    @property
    def name(self) -> str:
        """What the record calls it."""
        return f"{self.cell} trial {self.trial}"

    @property
    def cell(self) -> str:
        """What is averaged over."""
        return f"{self.dataset} {self.set_size} {self.false_labels}"

    def answer(self) -> dict[str, Any]:
        """Return the test error."""
        given = make_problem(Problem(self.dataset, "uniform", self.false_labels, self.set_size, self.trial, _ROWS))
        model = PartialLabelRegressor(random_state=training_seed(self.dataset, self.trial)).fit(given.X, given.S)
        error = float(np.mean((model.predict(given.X_test) - given.y_test) ** 2))
        return {"cell": self.cell, "test_mse": error}


def cases() -> Iterator[Case]:
    """Return fourteen cells of three trials."""
    for dataset in MAIN:
        for set_size, false_labels in (("upto", 16), ("fixed", 4)):
            for trial in _TRIALS:
                yield Case(dataset, set_size, false_labels, trial)


def ratios(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float]:
    """Return each cell's mean error, after over before, for cells of which both records have all trials."""
    cells: dict[str, list[str]] = {}
    for name, answer in before.items():
        cells.setdefault(answer["cell"], []).append(name)
    return {
        cell: float(np.sum([after[name]["test_mse"] for name in names]))
        / float(np.sum([before[name]["test_mse"] for name in names]))
        for cell, names in cells.items()
        if all(name in after for name in names)
    }
