"""Folds: each row predicted by a model that has not seen it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from plr._parameters import check_integer
from plr.errors import ParameterError
from plr.learners.base import Learner, Task
from plr.learners.rows import features_of, take_rows

__all__ = ["check_folds", "make_folds", "out_of_fold"]

Floats = NDArray[np.float64]
Folds = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


def check_folds(cv: object) -> None:
    """Refuse what cannot be folds."""
    if isinstance(cv, Integral):
        check_integer("cv", cv, low=2)
    elif not (hasattr(cv, "split") or isinstance(cv, Iterable)) or isinstance(cv, str):
        raise ParameterError(f"cv must be a number of folds, a splitter or an iterable of (train, test), got {cv!r}.")


def make_folds(task: Task, cv: object) -> Folds:
    """Split a task's rows into (train, test) pairs that keep groups together; none where a split is impossible.

    Every row is in one test part, and no row without weight in a training part.
    """
    rows, groups = len(task.S), task.groups
    if isinstance(cv, Integral):
        units = rows if groups is None else len(np.unique(groups))
        parts = min(int(cv), units)
        if parts < 2:
            # One row, or one group: nothing is left to learn from without it.
            return []
        cv = KFold(parts, shuffle=True, random_state=task.seed) if groups is None else GroupKFold(parts)
    folds = [(np.asarray(a), np.asarray(b)) for a, b in check_cv(cv).split(np.empty((rows, 0)), groups=groups)]
    times = np.bincount(np.concatenate([test for _, test in folds]), minlength=rows)
    if (times == 0).any():
        row = int(np.flatnonzero(times == 0)[0])
        raise ParameterError(f"cv leaves row {row} in no test fold; out-of-fold results need every row in one.")
    if task.sample_weight is not None:
        folds = [(train[task.sample_weight[train] > 0], test) for train, test in folds]
        for fold, (train, _) in enumerate(folds):
            if len(train) == 0:
                raise ParameterError(
                    f"Without fold {fold} no row with a sample_weight above 0 is left; use fewer folds."
                )
    return folds


def out_of_fold(learner: Learner, task: Task, cv: object) -> Floats:
    """Predict each row by a model fitted to the folds it is not in."""
    folds = make_folds(task, cv)
    if not folds:
        return learner.fit(task).predict(task.X)

    def run(fold: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> Floats:
        part = replace(take_rows(task, train), seed=(task.seed + fold + 1) % 2**31)
        return learner.fit(part).predict(features_of(task.X, test))

    found = Parallel(n_jobs=task.n_jobs, prefer="threads")(
        delayed(run)(fold, train, test) for fold, (train, test) in enumerate(folds)
    )
    prediction = np.full(len(task.S), np.nan)
    for (_, test), part in zip(folds, found, strict=True):
        prediction[test] = part
    return prediction
