"""The problems that cells are about: data split, encoded and hidden among false labels, each made once."""

from __future__ import annotations

import os
from collections.abc import Mapping
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

__all__ = ["BenchmarkProblem", "ProblemRows", "Workbench", "labels_as_sets"]

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
class BenchmarkProblem:
    """What a method is given, and what it is scored on.

    Attributes
    ----------
    train, validation : ProblemRows
        Encoded features, candidate sets, and true labels, which only Supervised and the rule ``truth`` may look at.
    test : ProblemRows
        The sets hold the true label alone.
    """

    train: ProblemRows
    validation: ProblemRows
    test: ProblemRows


class Workbench:
    """Loads data sets and makes problems of them, for many threads at once.

    Parameters
    ----------
    protocol : Protocol
    data_home : path, optional
        Folder to look for data sets in first.
    datasets : mapping, optional
        The protocol's data sets by name, where they are loaded already.
    """

    def __init__(
        self,
        protocol: Protocol,
        data_home: str | os.PathLike[str] | None = None,
        datasets: Mapping[str, Dataset] | None = None,
    ) -> None:
        self.protocol = protocol
        self._datasets = datasets or {name: _load(protocol, name, data_home) for name in protocol.datasets}
        self._split = lru_cache(_KEPT)(self._make_split)
        self._sets = lru_cache(_KEPT)(self._make_sets)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process makes its own problems, of the same data and by the same seeds.
        return Workbench, (self.protocol, None, self._datasets)

    def problem(self, cell: Cell) -> BenchmarkProblem:
        """Return the problem that a cell is about."""
        features, rows = self._split(cell.dataset, cell.trial)
        y = self._datasets[cell.dataset].target
        sets = [labels_as_sets(y[part]) for part in rows]
        if get_method(cell.method).target != "truth":
            sets[:2] = self._sets(cell.dataset, cell.trial, cell.false_labels)
        train, validation, test = map(ProblemRows, features, sets, (y[part] for part in rows))
        kept = self.training_rows(cell)
        if kept < len(train.y):
            train = ProblemRows(train.X[:kept], train.S[:kept], train.y[:kept])
        return BenchmarkProblem(train, validation, test)

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
