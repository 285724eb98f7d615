"""Starts: where true labels pile up, before any model exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from plr._parameters import resolve
from plr.contracts import Learner, Start, Task
from plr.errors import ParameterError
from plr.learners.starts.density import DensityStart
from plr.learners.starts.sampled import SampledStart
from plr.preprocessing.features import learn_columns
from plr.weighting.average import Average
from plr.weighting.base import Weighting

__all__ = [
    "STARTS",
    "DensityStart",
    "SampledStart",
    "Start",
    "choose_start",
    "first_weights",
    "get_start",
]

Floats = NDArray[np.float64]

# A sparse matrix of at most this many entries may be written out in full.
_MOST_ENTRIES = 100_000_000

STARTS: dict[str, Callable[[], Start]] = {"density": DensityStart, "sampled": SampledStart}
"""Starts that go by a name."""


def get_start(start: object) -> Start | None:
    """Turn a name, an instance or None into a start.

    >>> get_start("density")
    DensityStart()
    """
    return None if start is None else resolve("start", start, STARTS, Start, _wrap)


def choose_start(start: object, weighting: Weighting, learner: Learner, rows: int) -> Start | None:
    """Return the start that a regressor's parameter stands for; None where weights never move from the priors.

    ``"auto"`` is the density for the committee and the Gaussian process under a posterior weighting, and none
    elsewhere.
    """
    if isinstance(start, str) and start == "auto":
        return DensityStart.for_draws(rows) if learner.draws and weighting.learns_scale else None
    chosen = get_start(start)
    return None if isinstance(weighting, Average) else chosen


def _wrap(given: Any) -> Any:
    if callable(getattr(given, "weights", None)):
        return given
    raise ParameterError(
        f"start must be 'auto', None, a name ({', '.join(sorted(STARTS))}) or something with weights(task, cv), such "
        f"as a plr.learners.starts.DensityStart instance; got {given!r}."
    )


def first_weights(start: Any, task: Task, cv: object, learner: Learner) -> Floats:
    """Ask a start for weights, on features it can read, and check what it gives."""
    if (task.S.sizes == 1).all():
        # Plain labels: there is nothing to weigh.
        return np.ones(len(task.S))
    if learner.takes == "rows":
        matrix, categorical = _as_matrix(task.X)
        task = replace(task, X=matrix, categorical=categorical)
    S, name = task.S, type(start).__name__
    given = start.weights(replace(task, validation=None, callback=None, start=None), cv)
    weights = np.array(given, dtype=np.float64)
    if weights.shape != S.values.shape:
        raise ParameterError(
            f"The start {name} gave weights of shape {weights.shape} for {S.values.size} candidates; give one each."
        )
    sums = np.add.reduceat(weights, S.offsets[:-1])
    wrong = ~(np.abs(sums - 1.0) <= 1e-6) | np.logical_or.reduceat(~(weights >= 0.0), S.offsets[:-1])
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ParameterError(
            f"The start {name} gave row {row} the weights {weights[S.offsets[row] : S.offsets[row + 1]]}; they must be "
            f"at least 0 and sum to 1."
        )
    return weights


def _as_matrix(X: Any) -> tuple[Floats, tuple[int, ...]]:
    """Return features that a learner takes as they are as numbers, and which columns of them are categories."""
    columns = learn_columns(X)
    if columns is not None:
        return columns.encode(X), columns.categorical
    if sparse.issparse(X):
        if X.shape[0] * X.shape[1] > _MOST_ENTRIES:
            raise ParameterError(
                f"The density start needs X in full, and this sparse matrix of shape {X.shape} is too large for that. "
                f"Use start=None, or a start of your own on fewer columns."
            )
        X = X.toarray()
    try:
        matrix = np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or np.isinf(matrix).any():
        raise ParameterError(
            f"The density start needs a table of numbers and categories, and X, of type {type(X).__name__}, is none. "
            f"Use start=None, or a start of your own whose weights(task, cv) looks at features it can read."
        )
    return matrix, ()
