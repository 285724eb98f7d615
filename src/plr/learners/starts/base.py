"""What a start is: first weights for the candidates, from before any model exists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from plr.contracts import Learner, Task
from plr.errors import ParameterError
from plr.preprocessing.features import learn_columns

__all__ = ["Start", "first_weights"]

Floats = NDArray[np.float64]

# A sparse matrix of at most this many entries may be written out in full.
_MOST_ENTRIES = 100_000_000


class Start(BaseEstimator):
    """Base of the starts. One of your own is anything with this method."""

    trust: float = 0.0
    """The power of the weights that the learner's priors are multiplied by."""

    def weights(self, task: Task, cv: object) -> Floats:
        """Return one weight per candidate, flat; those of a row sum to one.

        Parameters
        ----------
        task : Task
            Its ``X`` is a float64 matrix, in which ``task.categorical`` columns are category codes and NaN is missing.
        cv : int, scikit-learn splitter or iterable of (train, test)
            The folds. A row's weights must be made without its fold, and without the other rows of its group.
        """
        raise NotImplementedError


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
