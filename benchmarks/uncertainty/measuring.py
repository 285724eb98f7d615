"""One line: what was measured of one fit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from benchmarks.harness import job_key
from benchmarks.identification.cases import SEED, Case, Problem, make_problem, training_seed
from benchmarks.identification.data import MAIN
from benchmarks.identification.measuring import most_probable
from numpy.typing import NDArray

from plr import PartialLabelRegressor
from plr.intervals import METHODS
from plr.paper.machine import revision
from plr.paper.work import describe

__all__ = ["BINS", "LEVELS", "SIZES", "Fit", "measure", "planned", "reliability"]

Floats = NDArray[np.float64]

SIZES = (4, 16)
"""Numbers of false labels; each row has up to so many."""

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Coverages that intervals are asked for."""

BINS = 10
"""Bins of probabilities, equally wide."""

NAIVE = "naive"
"""Intervals from the learner's own out-of-fold predictions and the weights of its noise model: what not to do."""

# Raised whenever the same fit would give other numbers for a reason outside of plr.
_ENGINE = 1


@dataclass(frozen=True)
class Fit:
    """A model to be fitted: to sets of up to ``false_labels`` false labels, or to true labels where it is None."""

    dataset: str
    false_labels: int | None
    trial: int
    effort: str = "normal"

    @property
    def case(self) -> Case:
        """The rows, and how their labels are hidden."""
        case = Case(self.dataset, "uniform", self.false_labels, "upto", self.trial)
        return case if self.false_labels is not None else case.with_truth()

    @property
    def key(self) -> str:
        """Hash of all that decides the result, plr's revision aside."""
        return job_key(_ENGINE, SEED, asdict(self))


def planned(
    datasets: tuple[str, ...] = MAIN, sizes: tuple[int, ...] = SIZES, trials: int = 10, effort: str = "normal"
) -> Iterator[Fit]:
    """Return all fits, trial by trial, so that a run that is stopped has something of everything."""
    for trial, dataset, size in product(range(trials), datasets, (*sizes, None)):
        yield Fit(dataset, size, trial, effort)


def measure(fit: Fit) -> dict[str, Any]:
    """Fit a model and judge it; a failure is a line as well."""
    line: dict[str, Any] = {"key": fit.key, **asdict(fit), "revision": revision() or "unknown"}
    try:
        return line | _judge(fit, make_problem(fit.case))
    except Exception as error:
        return line | {"error": describe(error)}


def _judge(fit: Fit, problem: Problem) -> dict[str, Any]:
    begun = time.perf_counter()
    seed = training_seed(fit.dataset, fit.trial)
    model = PartialLabelRegressor(effort=fit.effort, random_state=seed).fit(problem.X, problem.S)
    fitted = time.perf_counter()
    calibration = model.calibrate()
    found: dict[str, Any] = {
        "fit_seconds": round(fitted - begun, 3),
        "calibrate_seconds": round(time.perf_counter() - fitted, 3),
        "train_rows": len(problem.truth),
        "test_rows": len(problem.y_test),
    }
    prediction = model.predict(problem.X_test)
    missed = np.abs(prediction - problem.y_test)
    found["test_mse"] = float(np.mean(missed**2))
    halves = {(method, level): calibration.half_width(level, method) for method in METHODS for level in LEVELS}
    if fit.false_labels is not None:
        halves |= {(NAIVE, level): _naive(model, problem, level) for level in LEVELS}
        probabilities = model.identify().probabilities
        is_true = problem.S.values == problem.truth[problem.S.row_index]
        top = most_probable(probabilities, problem.S)
        found["accuracy"] = float(is_true[top].mean())
        found["candidates"] = reliability(probabilities, is_true)
        found["top"] = reliability(probabilities[top], is_true[top])
    found["intervals"] = [
        {"method": method, "level": level, "coverage": float(np.mean(missed <= half)), "width": 2.0 * half}
        for (method, level), half in halves.items()
    ]
    return found


def _naive(model: PartialLabelRegressor, problem: Problem, level: float) -> float:
    S, prediction = problem.S, model.model_.out_of_fold
    if prediction is None:
        raise ValueError("Naive intervals need predictions made out_of_fold, and this learner has none.")
    distances = np.abs(S.values - prediction[S.row_index])
    weights = model.noise_.probabilities(prediction, S)
    order = np.argsort(distances, kind="stable")
    place = np.searchsorted(np.cumsum(weights[order]), level * (len(S) + 1) - 1e-9)
    return float(distances[order[min(place, order.size - 1)]])


def reliability(probabilities: Floats, is_true: NDArray[np.bool_]) -> dict[str, list[float]]:
    """Return, for each bin of probabilities, how many there are, their sum, and how many of them are true."""
    place = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    return {
        "count": np.bincount(place, minlength=BINS).tolist(),
        "claimed": np.bincount(place, probabilities, BINS).tolist(),
        "true": np.bincount(place, is_true, BINS).tolist(),
    }
