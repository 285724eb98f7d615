"""One line: what was measured of one fit."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from benchmarks.identification.cases import Case, make_problem, training_seed
from benchmarks.identification.measuring import most_probable
from benchmarks.uncertainty.laws import make_law, make_promise
from benchmarks.uncertainty.plans import TIME, Fit
from numpy.typing import NDArray

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.paper.grid import seed_for
from plr.paper.machine import revision
from plr.paper.protocol import Protocol
from plr.paper.work import describe

__all__ = ["ASKED", "BINS", "CHECKED", "LEVELS", "measure", "reliability"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

ASKED = 0.9
"""The coverage that all intervals are asked for."""

LEVELS = (0.5, 0.8, 0.95)
"""Other coverages that adaptive intervals are asked for."""

BINS = 10
"""Bins of probabilities, equally wide."""

CHECKED = 50
"""How many rows are checked, where rows are."""

_PROMISE_LEARNER = "linear"
_DECILES = 10


def measure(fit: Fit) -> dict[str, Any]:
    """Fit and judge; a failure is a line as well."""
    line: dict[str, Any] = {"key": fit.key, **fit.decisive, "revision": revision() or "unknown"}
    del line["path"]
    try:
        # That more rows should be checked, or labels are hard to find, is what the benchmark is about.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return line | _MEASURES[fit.part](fit)
    except Exception as error:
        return line | {"error": describe(error)}


def _of_data_set(fit: Fit) -> dict[str, Any]:
    case = Case(fit.name, "uniform", fit.false_labels, fit.set_size, fit.trial)
    made = make_problem(case)
    seed = training_seed(fit.name, fit.trial)
    # In the same way, but by seeds that nothing else uses.
    words = ("candidates of test rows", fit.name, fit.trial, fit.false_labels, fit.set_size)
    new = make_candidates(
        made.y_test,
        fit.false_labels,
        set_size=fit.set_size,
        span=(float(made.truth.min()), float(made.truth.max())),
        random_state=seed_for(Protocol(), *words),
    )
    return _judge(fit, seed, made.X, made.S, made.truth, made.X_test, made.y_test, new=new)


def _of_law(fit: Fit) -> dict[str, Any]:
    assert fit.false_labels is not None
    assert fit.set_size is not None
    made = make_law(fit.name, fit.rows, fit.false_labels, fit.set_size, fit.trial)
    seed = training_seed(fit.name, fit.trial)
    return _judge(fit, seed, made.X, made.S, made.truth, made.X_test, made.y_test, scale=made.scale)


def _judge(
    fit: Fit,
    seed: int,
    X: Any,
    S: CandidateSets,
    truth: Floats,
    X_test: Any,
    y_test: Floats,
    *,
    new: CandidateSets | None = None,
    scale: Floats | None = None,
) -> dict[str, Any]:
    """Fit the default model; judge its intervals of test rows, and its probabilities of training and test rows."""
    begun = time.perf_counter()
    model = PartialLabelRegressor(effort=fit.effort, random_state=seed).fit(X, S)
    fitted = time.perf_counter()
    probabilities = model.identify().probabilities
    identified = time.perf_counter()
    first = _within(model, X_test, y_test, ASKED, "adaptive", scale)
    ended = time.perf_counter()
    line: dict[str, Any] = {
        "fit_seconds": round(fitted - begun, 3),
        "identify_seconds": round(identified - fitted, 3),
        "interval_seconds": round(ended - identified, 3),
        "train_rows": len(S),
        "test_rows": len(y_test),
        "test_mse": float(np.mean((model.predict(X_test) - y_test) ** 2)),
        "intervals": [
            first,
            _within(model, X_test, y_test, ASKED, "constant", scale),
            *(_within(model, X_test, y_test, level, "adaptive") for level in LEVELS),
        ],
        **_of_calibration(model),
        "training": _believed(probabilities, S, truth),
    }
    if new is not None:
        line["new"] = _believed(model.identify(X_test, new).probabilities, new, y_test)
    return line


def _of_calibration(model: PartialLabelRegressor) -> dict[str, Any]:
    calibration = model.calibrate()
    return {"by_row": calibration.by_row or calibration.widths is not None, "assumes": calibration.assumes}


def _within(
    model: PartialLabelRegressor, X: Any, y: Floats, level: float, method: str, scale: Floats | None = None
) -> dict[str, Any]:
    """Return coverage, mean width and interval score, and the coverage by decile of the true noise scale."""
    low, high = model.predict_interval(X, level, method).T
    inside = (low <= y) & (y <= high)
    missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    found: dict[str, Any] = {
        "method": method,
        "level": level,
        "coverage": float(inside.mean()),
        "width": float((high - low).mean()),
        "score": float((high - low + 2.0 / (1.0 - level) * missed).mean()),
    }
    if scale is not None:
        parts = np.array_split(inside[np.argsort(scale, kind="stable")], _DECILES)
        found["deciles"] = [float(part.mean()) for part in parts]
    return found


def _believed(probabilities: Floats, S: CandidateSets, truth: Floats) -> dict[str, Any]:
    """Return how probabilities of candidates compare with what is true: of all, and of each row's most probable."""
    is_true = S.values == truth[S.row_index]
    top = most_probable(probabilities, S)
    return {
        "candidates": reliability(probabilities, is_true),
        "top": reliability(probabilities[top], is_true[top]),
        "accuracy": float(is_true[top].mean()),
    }


def reliability(probabilities: Floats, is_true: Booleans) -> dict[str, list[float]]:
    """Return, for each bin of probabilities, how many there are, their sum, and how many of them are true."""
    place = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    return {
        "count": np.bincount(place, minlength=BINS).tolist(),
        "claimed": np.bincount(place, probabilities, BINS).tolist(),
        "true": np.bincount(place, is_true, BINS).tolist(),
    }


def _of_real_table(fit: Fit) -> dict[str, Any]:
    from benchmarks.real.cases import FOLDS, SEED, problem
    from benchmarks.real.methods import METHODS

    fold, draw = fit.trial % FOLDS, fit.trial // FOLDS
    made = problem(fit.name, fold, fit.path)
    begun = time.perf_counter()
    model = METHODS["checked-50"].fit(made.train, made.known(CHECKED, draw, fold), SEED)
    methods = ("adaptive", "constant", "guaranteed")
    line: dict[str, Any] = {
        "fold": fold,
        "draw": draw,
        "test_rows": len(made.test.truth),
        "intervals": [_within(model, made.test.X, made.test.truth, ASKED, method) for method in methods],
    }
    return line | _of_calibration(model) | {"seconds": round(time.perf_counter() - begun, 3)}


def _of_promise(fit: Fit) -> dict[str, Any]:
    """Judge tolerance intervals, and ordinary cross-conformal ones of the same learner with all labels known."""
    assert fit.false_labels is not None
    made = make_promise(fit.name, fit.rows, fit.false_labels, fit.trial)
    known = np.full(len(made.truth), np.nan)
    # Rows are in no order, so that the first are as random as any.
    known[:CHECKED] = made.truth[:CHECKED]
    model = PartialLabelRegressor(_PROMISE_LEARNER, random_state=fit.trial).fit(made.X, made.S, known=known)
    told = PartialLabelRegressor(_PROMISE_LEARNER, random_state=fit.trial).fit(made.X, made.truth)
    methods = ("guaranteed", "adaptive", "constant")
    intervals = [_within(model, made.X_test, made.y_test, ASKED, method) for method in methods]
    return {
        "test_rows": len(made.y_test),
        "intervals": intervals,
        "told": _within(told, made.X_test, made.y_test, ASKED, "constant"),
    } | _of_calibration(model)


def _of_time(fit: Fit) -> dict[str, Any]:
    from benchmarks.uncertainty.timing import compare_times

    return compare_times(fit)


_MEASURES = {
    "seven": _of_data_set,
    "tables": _of_data_set,
    "final": _of_data_set,
    "laws": _of_law,
    "guaranteed": _of_promise,
    "real": _of_real_table,
    TIME: _of_time,
}
