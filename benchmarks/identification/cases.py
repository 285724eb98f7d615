"""Cases: fixed splits, hidden among false labels in a fixed way, and the plans that say which cases a table needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from benchmarks.identification.data import EXPORTS, FINAL, HELD_BACK, MAIN, held_back_file
from numpy.typing import NDArray

from plr import CandidateSets, make_candidates
from plr.generation import MECHANISMS, SET_SIZES, resolve_options
from plr.paper.grid import Cell, seed_for
from plr.paper.problems import ProblemRows, Workbench
from plr.paper.protocol import Protocol

__all__ = [
    "MISSING",
    "NO_CANDIDATES",
    "PLANS",
    "SEED",
    "SIZES",
    "Case",
    "Plan",
    "Problem",
    "make_problem",
    "training_seed",
]

Floats = NDArray[np.float64]

SIZES = Protocol().sizes

SEED = Protocol().seed
"""What all seeds come from."""

MISSING = "missing"
"""The mechanism ``uniform`` with the truth missing from some rows' sets."""
_MISSING_SHARE = 0.1

NO_CANDIDATES = "none"
"""In place of a mechanism where a method is told true labels, so that how they would be hidden does not matter."""

_KEPT_WORKBENCHES = 16


@dataclass(frozen=True)
class Case:
    """One problem.

    Attributes
    ----------
    dataset : str
    mechanism : str
        One of `plr.generation.MECHANISMS`, `MISSING` or `NO_CANDIDATES`.
    false_labels : int or None
        None where the mechanism decides itself.
    set_size : {"upto", "fixed"} or None
    trial : int
    rows : int or None
        At most so many training rows.
    """

    dataset: str
    mechanism: str = "uniform"
    false_labels: int | None = 4
    set_size: str | None = "upto"
    trial: int = 0
    rows: int | None = None

    def with_truth(self) -> Case:
        """Return the case of the same rows for methods that are told the true labels."""
        return replace(self, mechanism=NO_CANDIDATES, false_labels=None, set_size=None)


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method is given (X, S, X_test), and what it is judged by.

    Attributes
    ----------
    X, X_test : ndarray of float32
        Encoded as the benchmark does.
    S : CandidateSets
        Of the training rows.
    truth, y_test : ndarray
        True labels of training and test rows.
    present : ndarray of bool
        Whether the truth is among a training row's candidates.
    """

    X: NDArray[np.float32]
    S: CandidateSets
    truth: Floats
    present: NDArray[np.bool_]
    X_test: NDArray[np.float32]
    y_test: Floats


def training_seed(dataset: str, trial: int) -> int:
    """Return the seed that all methods train with on a trial, whatever the candidates."""
    return int(seed_for(Protocol(), "training", dataset, "identification", trial).generate_state(1)[0] % 2**31)


def make_problem(case: Case, exports: Path = EXPORTS) -> Problem:
    """Make the problem that a case is about: the rows and candidates of the benchmark."""
    hidden = case.mechanism not in (NO_CANDIDATES, MISSING)
    bench = _workbench(case.dataset, case.mechanism if hidden else "uniform", case.set_size or "upto", exports)
    method = "IDent" if hidden else "Supervised"
    made = bench.problem(Cell(case.dataset, "mlp", method, case.false_labels, 1.0, case.trial))
    train, test = made.train, made.test
    sets, present = train.S, np.ones(len(train.y), dtype=bool)
    if case.mechanism == MISSING:
        sets, index = _hide_some(case, bench.protocol, train)
        present = index >= 0
    # Made for all rows and then cut, so that fewer rows are a part of the same problem.
    kept = len(train.y) if case.rows is None else min(case.rows, len(train.y))
    return Problem(train.X[:kept], sets[:kept], train.y[:kept], present[:kept], test.X, test.y)


@lru_cache(_KEPT_WORKBENCHES)
def _workbench(dataset: str, mechanism: str, set_size: str, exports: Path) -> Workbench:
    files = (held_back_file(dataset, exports),) if dataset in HELD_BACK or dataset in FINAL else ()
    protocol = Protocol(datasets=(dataset,), mechanism=mechanism, set_size=set_size, files=files)
    return Workbench(protocol, exports if exports.is_dir() else None)


def _hide_some(case: Case, protocol: Protocol, train: ProblemRows) -> tuple[CandidateSets, NDArray[np.int64]]:
    """Hide the labels among uniform false ones, and take the true label out of some sets."""
    place = (case.dataset, case.trial)
    seed = seed_for(protocol, "mechanism", *place, MISSING)
    options = resolve_options("uniform", train.y, X=train.X, random_state=seed)
    options |= {"false_labels": case.false_labels, "set_size": case.set_size, "missing": _MISSING_SHARE}
    seed = seed_for(protocol, "candidates", *place, case.false_labels, case.set_size, MISSING)
    return make_candidates(train.y, X=train.X, random_state=seed.spawn(2)[0], return_index=True, **options)


@dataclass(frozen=True)
class Plan:
    """The cases and methods that a table needs."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...] = MAIN
    mechanisms: tuple[str, ...] = ("uniform",)
    sizes: tuple[int, ...] = SIZES
    set_sizes: tuple[str, ...] = SET_SIZES
    trials: int = 10
    rows: int | None = None

    def cases(self) -> Iterator[Case]:
        """Return the cases, trial by trial, so that a run that is stopped has something of everything."""
        for trial, dataset, mechanism in product(range(self.trials), self.datasets, self.mechanisms):
            for size, set_size in self.hidings(mechanism):
                yield Case(dataset, mechanism, size, set_size, trial, self.rows)

    def hidings(self, mechanism: str) -> Iterable[tuple[int | None, str | None]]:
        """Return the numbers of false labels and set sizes that a mechanism is tried with."""
        if mechanism != MISSING and not MECHANISMS[mechanism].counted:
            return [(None, None)]
        return product(self.sizes, self.set_sizes)


PLANS: dict[str, Plan] = {
    "same-network": Plan(("supervised", "progressive", "posterior+start")),
    "out-of-the-box": Plan(("default", "default-supervised")),
    "members": Plan(
        ("default", "default-supervised", "density", "gaussian-process", "trees-density", "network-density"),
        datasets=(*MAIN, *HELD_BACK, *FINAL),
        sizes=(4, 16),
        set_sizes=("fixed",),
        trials=3,
    ),
    "oracle": Plan(("default", "default-progressive", "default-supervised", "oracle")),
    "mechanisms": Plan(
        ("default", "default-progressive"),
        mechanisms=("gaussian", "marginal", "units", "digits", "folding", "biased", MISSING),
        sizes=(4,),
        set_sizes=("upto",),
        trials=3,
        rows=2000,
    ),
    "held-back": Plan(
        ("default", "default-supervised", "default-progressive", "oracle"),
        datasets=tuple(HELD_BACK),
        sizes=(4, 16),
        trials=5,
    ),
    "selection": Plan(("progressive", "posterior+start")),
    "ablation": Plan(
        (
            "default",
            "default-supervised",
            "default-no-start",
            "gaussian-process",
            "trees-density",
            "posterior+start",
            "posterior",
        ),
        datasets=("airfoil", "auto-mpg", "housing", "concrete", "cpu-act"),
        sizes=(4, 16),
        set_sizes=("fixed",),
        trials=3,
    ),
}
"""Every table by name."""
