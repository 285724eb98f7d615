"""Made-up tables: eight laws of noise around one smooth function, and rows for tolerance intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr import CandidateSets, make_candidates

__all__ = ["FALSE_LABELS", "LAWS", "SEED", "Law", "MadeUp", "make_law", "make_promise"]

Floats = NDArray[np.float64]
Rng = np.random.Generator

SEED = 0
"""What all seeds come from."""

FALSE_LABELS = ("uniform", "dependent")
"""How false labels come about where tolerance intervals are judged: over the range of labels, or too high a guess."""

_TEST_ROWS = 4000
_PROMISE_TEST_ROWS = 5000
# By how much, in noise scales, false labels that depend on the truth are too high, and how they scatter.
_LEAN, _SCATTER = 1.0, 1.5


@dataclass(frozen=True, eq=False)
class Law:
    """A law of noise: labels around the function's values, and how far they scatter in each row."""

    words: str
    labels: Callable[[Floats, Floats, Rng], Floats]
    scale: Callable[[Floats], Floats] | None = None


@dataclass(frozen=True, eq=False)
class MadeUp:
    """Rows to train with, and rows to judge by; ``scale`` is the true noise scale of the latter, where it differs."""

    X: Floats
    S: CandidateSets
    truth: Floats
    X_test: Floats
    y_test: Floats
    scale: Floats | None


def _growing(X: Floats) -> Floats:
    return np.asarray(0.1 * np.exp(1.5 * (X[:, 0] + 1.0)))


def _with_atoms(values: Floats, rng: Rng) -> Floats:
    labels = values + 0.5 * rng.normal(size=len(values))
    return np.where(rng.random(len(values)) < 0.3, np.round(labels), labels)


LAWS: dict[str, Law] = {
    "wide": Law(
        "uniform, as wide as the function's range of about 8",
        lambda _, values, rng: values + rng.uniform(-4.0, 4.0, len(values)),
    ),
    "humps": Law(
        "two humps, 3 apart",
        lambda _, values, rng: (
            values + np.where(rng.random(len(values)) < 0.5, -1.5, 1.5) + 0.3 * rng.normal(size=len(values))
        ),
    ),
    "lognormal": Law("lognormal", lambda _, values, rng: values + np.exp(0.8 * rng.normal(size=len(values))) - 1.0),
    "heavy": Law(
        "Student's t with 2 degrees of freedom",
        lambda _, values, rng: values + 0.3 * rng.standard_t(2, size=len(values)),
    ),
    "growing": Law(
        "normal, with a standard deviation from 0.1 to 2 by the first feature",
        lambda X, values, rng: values + _growing(X) * rng.normal(size=len(values)),
        _growing,
    ),
    "cut": Law(
        "normal, labels below 0 become 0", lambda _, values, rng: np.maximum(values + rng.normal(size=len(values)), 0.0)
    ),
    "atoms": Law("normal, 30 % of labels rounded", lambda _, values, rng: _with_atoms(values, rng)),
    "integers": Law(
        "normal, all labels rounded", lambda _, values, rng: np.round(values + 0.8 * rng.normal(size=len(values)))
    ),
}
"""Every law by name."""


def make_law(name: str, rows: int, false_labels: int, set_size: str, trial: int) -> MadeUp:
    """Return a table made up by a law, its labels hidden among uniform false ones."""
    law = LAWS[name]
    rng = np.random.default_rng([SEED, list(LAWS).index(name), rows, trial])
    X, X_test = _features(rng, rows), _features(rng, _TEST_ROWS)
    y, y_test = (law.labels(part, _values(part), rng) for part in (X, X_test))
    S = make_candidates(y, false_labels, set_size=set_size, random_state=rng)
    return MadeUp(X, S, y, X_test, y_test, None if law.scale is None else law.scale(X_test))


def make_promise(kind: str, rows: int, false_labels: int, trial: int) -> MadeUp:
    """Return a table whose noise depends on x, and whose false labels are one of `FALSE_LABELS`."""
    rng = np.random.default_rng([SEED, len(LAWS) + FALSE_LABELS.index(kind), rows, trial])
    X, X_test = _features(rng, rows), _features(rng, _PROMISE_TEST_ROWS)
    y, y_test = (LAWS["growing"].labels(part, _values(part), rng) for part in (X, X_test))
    if kind == "uniform":
        S = make_candidates(y, false_labels, set_size="fixed", random_state=rng)
    else:
        noise = _LEAN + _SCATTER * rng.normal(size=(rows, false_labels))
        values = np.column_stack([y, y[:, None] + _growing(X)[:, None] * noise])
        values = rng.permuted(values, axis=1)
        S = CandidateSets(values.ravel(), (false_labels + 1) * np.arange(rows + 1))
    return MadeUp(X, S, y, X_test, y_test, _growing(X_test))


def _features(rng: Rng, rows: int) -> Floats:
    return rng.uniform(-1.0, 1.0, (rows, 4))


def _values(X: Floats) -> Floats:
    """Return a smooth function of four features, two of which act together."""
    return np.asarray(2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3])
