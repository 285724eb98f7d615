"""The problems that cells are about: data split, encoded and hidden among false labels, each made once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.errors import DataNotFoundError
from plr.generation import make_candidates, resolve_options
from plr.paper.datasets import Dataset, encode, load, load_file, split
from plr.paper.grid import Cell, seed_for
from plr.paper.methods import get_method
from plr.paper.protocol import Protocol

__all__ = ["BenchmarkProblem", "Held", "ProblemRows", "Workbench"]

Floats = NDArray[np.float64]

# Splits and candidate sets kept in memory; a cell needs one of each, and neighbouring cells mostly the same.
_KEPT = 96


@dataclass(frozen=True)
class ProblemRows:
    """Features, candidate sets and true labels of some rows."""

    X: NDArray[Any]
    S: CandidateSets
    y: Floats


@dataclass(frozen=True)
class Held:
    """Features and true labels of the test rows."""

    X: NDArray[Any]
    y: Floats


@dataclass(frozen=True)
class BenchmarkProblem:
    """What a method is given, and what it is judged by.

    Attributes
    ----------
    train, validation : ProblemRows
        Encoded features, candidate sets, and true labels, which only Supervised and the rule ``truth`` may look at.
    test : Held
    """

    train: ProblemRows
    validation: ProblemRows
    test: Held


class Workbench:
    """Loads data sets and makes problems of them, for many threads at once.

    Parameters
    ----------
    protocol : Protocol
    data_home : path, optional
        Folder to look for data sets in first.
    """

    def __init__(self, protocol: Protocol, data_home: str | os.PathLike[str] | None = None) -> None:
        self._set_up(protocol, {name: _load(protocol, name, data_home) for name in protocol.datasets})

    def _set_up(self, protocol: Protocol, datasets: dict[str, Dataset]) -> None:
        self.protocol = protocol
        self._datasets = datasets
        self._split = lru_cache(_KEPT)(self._make_split)
        self._sets = lru_cache(_KEPT)(self._make_sets)

    def __getstate__(self) -> tuple[Protocol, dict[str, Dataset]]:
        # Another process makes its own problems, of the same data and by the same seeds.
        return self.protocol, self._datasets

    def __setstate__(self, state: tuple[Protocol, dict[str, Dataset]]) -> None:
        self._set_up(*state)

    def problem(self, cell: Cell) -> BenchmarkProblem:
        """Return the problem that a cell is about."""
        features, rows = self._split(cell.dataset, cell.trial)
        y = self._datasets[cell.dataset].target
        if get_method(cell.method).target == "truth":
            sets = [labels_as_sets(y[part]) for part in rows[:2]]
        else:
            sets = list(self._sets(cell.dataset, cell.trial, cell.false_labels))
        kept = self.training_rows(cell)
        train = ProblemRows(features[0][:kept], sets[0] if kept == len(sets[0]) else sets[0][:kept], y[rows[0][:kept]])
        return BenchmarkProblem(train, ProblemRows(features[1], sets[1], y[rows[1]]), Held(features[2], y[rows[2]]))

    def training_rows(self, cell: Cell) -> int:
        """Return how many rows a cell trains on."""
        n = len(self._datasets[cell.dataset])
        return max(1, round(cell.fraction * (n - 2 * (n // 5))))

    def _make_split(
        self, dataset: str, trial: int
    ) -> tuple[tuple[NDArray[np.float32], ...], tuple[NDArray[np.int64], ...]]:
        data = self._datasets[dataset]
        rows = split(len(data), seed_for(self.protocol, "split", dataset, trial))
        features = encode(data, rows[0])
        return tuple(np.ascontiguousarray(features[part], dtype=np.float32) for part in rows), rows

    def _make_sets(self, dataset: str, trial: int, false_labels: int | None) -> tuple[CandidateSets, CandidateSets]:
        protocol = self.protocol
        features, rows = self._split(dataset, trial)
        y = self._datasets[dataset].target
        # One mechanism for both parts, and nothing of it from validation rows.
        options = resolve_options(
            protocol.mechanism,
            y[rows[0]],
            X=features[0],
            random_state=seed_for(protocol, "mechanism", dataset, trial, protocol.mechanism),
        )
        if false_labels is not None:
            options |= {"false_labels": false_labels, "set_size": protocol.set_size}
        seeds = seed_for(
            protocol, "candidates", dataset, trial, false_labels, protocol.set_size, protocol.mechanism
        ).spawn(2)
        train, validation = (
            make_candidates(y[part], mechanism=protocol.mechanism, X=X, random_state=seed, **options)
            for part, X, seed in zip(rows[:2], features[:2], seeds, strict=True)
        )
        return train, validation


def labels_as_sets(y: Floats) -> CandidateSets:
    """Return labels as sets of one."""
    return CandidateSets(y, np.arange(len(y) + 1))


def _load(protocol: Protocol, name: str, data_home: str | os.PathLike[str] | None) -> Dataset:
    file = protocol.file(name)
    if file is None:
        return load(name, data_home)
    if not file.path:
        raise DataNotFoundError(f"Where the file of the data set {name!r} lies is not known; name it again.")
    return load_file(file.path, file.target)
