"""Cases: fixed splits, hidden among false labels in a fixed way, and the plans that say which cases a table needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.identification.data import EXPORTS, HELD_BACK, MAIN, load_table
from benchmarks.identification.seeds import seed_for
from numpy.typing import NDArray

from plr import CandidateSets, make_candidates
from plr.generation import MECHANISMS, resolve_options

__all__ = ["MISSING", "NO_CANDIDATES", "PLANS", "SET_SIZES", "SIZES", "Case", "Plan", "Problem", "make_problem"]

Floats = NDArray[np.float64]

SIZES = (2, 4, 8, 16)
SET_SIZES = ("upto", "fixed")

MISSING = "missing"
"""The mechanism ``uniform`` with the truth missing from some rows' sets."""
_MISSING_SHARE = 0.1

NO_CANDIDATES = "none"
"""In place of a mechanism where a method is told true labels, so that how they would be hidden does not matter."""

_KEPT_SPLITS = 32


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


def make_problem(case: Case, exports: Path = EXPORTS) -> Problem:
    """Make the problem that a case is about: the same rows and candidates as the benchmark's, where it has them."""
    (X, X_test), (train, test) = _split(case.dataset, case.trial, exports)
    y = load_table(case.dataset, exports).y
    if case.mechanism == NO_CANDIDATES:
        sets = CandidateSets(y[train], np.arange(len(train) + 1))
        present = np.ones(len(train), dtype=bool)
    else:
        sets, index = _hide(case, X, y[train])
        present = index >= 0
    # Made for all rows and then cut, so that fewer rows are a part of the same problem.
    kept = len(train) if case.rows is None else min(case.rows, len(train))
    return Problem(X[:kept], sets[:kept], y[train[:kept]], present[:kept], X_test, y[test])


@lru_cache(_KEPT_SPLITS)
def _split(dataset: str, trial: int, exports: Path) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    table = load_table(dataset, exports)
    order = np.random.default_rng(seed_for("split", dataset, trial)).permutation(len(table.y))
    fifth = len(table.y) // 5
    # The first fifth are the benchmark's validation rows, which nothing here looks at.
    train, test = order[2 * fifth :], order[fifth : 2 * fifth]
    X = table.encode(train)
    return (X[train], X[test]), (train, test)


def _hide(case: Case, X: NDArray[np.float32], y: Floats) -> tuple[CandidateSets, NDArray[np.int64]]:
    kind = "uniform" if case.mechanism == MISSING else case.mechanism
    options = resolve_options(
        kind, y, X=X, random_state=seed_for("mechanism", case.dataset, case.trial, case.mechanism)
    )
    if case.false_labels is not None:
        options |= {"false_labels": case.false_labels, "set_size": case.set_size}
    seed = seed_for("candidates", case.dataset, case.trial, case.false_labels, case.set_size or "upto", case.mechanism)
    return make_candidates(
        y,
        mechanism=kind,
        X=X,
        missing=_MISSING_SHARE if case.mechanism == MISSING else 0.0,
        random_state=seed.spawn(2)[0],
        return_index=True,
        **options,
    )


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
    "out-of-the-box": Plan(("default", "default-supervised", "default-progressive")),
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
