"""Parts of a task: some of its rows, validation rows, and folds, by which each row is predicted without being seen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, check_cv
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.parallel import Parallel, delayed

from plr._parameters import check_integer, check_number
from plr.contracts import Fitted, Learner, Task
from plr.errors import ParameterError

__all__ = [
    "Folds",
    "average_folds",
    "check_folds",
    "cross_fit",
    "features_of",
    "make_folds",
    "merge_equal_rows",
    "out_of_fold",
    "predict_folds",
    "row_weights",
    "set_rows_aside",
    "take_rows",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Folds = list[tuple[Rows, Rows]]


def features_of(X: Any, rows: Rows) -> Any:
    """Return some rows of features of any kind: an array, a frame, a sparse matrix, a list, a torch dataset."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(X, torch.utils.data.Dataset):
        return torch.utils.data.Subset(X, rows.tolist())
    if isinstance(X, np.ndarray) or type(X).__module__.partition(".")[0] == "torch":
        return X[rows]
    return _safe_indexing(X, rows)


def take_rows(task: Task, rows: Rows) -> Task:
    """Return the task on some of its rows."""
    sizes = task.S.sizes[rows]
    starts = np.repeat(task.S.offsets[rows] - np.cumsum(sizes) + sizes, sizes)
    candidates = starts + np.arange(sizes.sum())
    return replace(
        task,
        X=features_of(task.X, rows),
        S=task.S[rows],
        sample_weight=None if task.sample_weight is None else task.sample_weight[rows],
        log_q=None if task.log_q is None else task.log_q[candidates],
        start=None if task.start is None else task.start[candidates],
        density=None,
        groups=None if task.groups is None else task.groups[rows],
        known=None if task.known is None else task.known.take(rows, candidates),
        preprocessing=None,
    )


def merge_equal_rows(task: Task) -> Task:
    """Sort rows by content, leave out those without weight, and let equal ones stand as one with their weights added.

    A weight of two and a row given twice then are the same task to the bit, as are two orders of the same rows.
    Thousands of steps on few rows would otherwise blow up the last bit of a sum that was added in another order.
    """
    S = task.S
    weight = np.ones(len(S)) if task.sample_weight is None else task.sample_weight
    extras = [part for part in (S.prior, task.log_q, task.start) if part is not None]
    merged: dict[bytes, tuple[int, list[float]]] = {}
    for row in np.flatnonzero(weight):
        span = slice(S.offsets[row], S.offsets[row + 1])
        key = task.X[row].tobytes() + b"".join(part[span].tobytes() for part in (S.values, *extras))
        merged.setdefault(key, (int(row), []))[1].append(float(weight[row]))
    kept = [merged[key] for key in sorted(merged)]
    rows = np.array([row for row, _ in kept], dtype=np.int64)
    totals = np.array([np.sort(parts).sum() for _, parts in kept])
    return replace(take_rows(task, rows), sample_weight=totals)


def row_weights(task: Task) -> Floats:
    """Return how much each row counts: 1 on average of those that count at all."""
    weight = np.ones(len(task.S)) if task.sample_weight is None else task.sample_weight
    return np.asarray(weight * (task.counted_rows / weight.sum()))


def set_rows_aside(task: Task, share: float | None) -> Task:
    """Turn a share of the rows into validation rows; the task as it is where the share is None.

    Rows without weight are neither kept nor set aside. Where rows come in groups, whole groups are set aside, until
    their rows make up the share.
    """
    if share is None:
        return task
    share = check_number("validation_fraction", share, low=0.0, high=0.9, open_low=True)
    if task.validation is not None:
        raise ParameterError("Give validation rows to fit or a validation_fraction to the learner, not both.")
    counting = np.arange(len(task.S)) if task.sample_weight is None else np.flatnonzero(task.sample_weight)
    rows = len(counting)
    aside = round(share * rows)
    if aside < 1 or aside >= rows:
        raise ParameterError(f"validation_fraction={share:g} of {rows} rows leaves nothing to train or validate on.")
    random = np.random.default_rng([task.seed, 1])
    if task.groups is None:
        order = random.permutation(counting)
    else:
        groups, of_row = np.unique(task.groups[counting], return_inverse=True)
        if len(groups) < 2:
            raise ParameterError("validation_fraction needs rows of at least two groups; give validation rows to fit.")
        place = random.permutation(len(groups))[of_row]
        order = counting[np.argsort(place, kind="stable")]
        ends = np.cumsum(np.bincount(place))[:-1]
        aside = int(ends[np.abs(ends - aside).argmin()])
    held, kept = np.sort(order[:aside]), np.sort(order[aside:])
    return replace(take_rows(task, kept), validation=(features_of(task.X, held), task.S[held]))


def check_folds(cv: object) -> None:
    """Refuse what cannot be folds."""
    if isinstance(cv, Integral):
        check_integer("cv", cv, low=2)
    elif isinstance(cv, Iterator):
        raise ParameterError("cv is an iterator, which gives its folds only once; give list(cv).")
    elif not (hasattr(cv, "split") or isinstance(cv, Iterable)) or isinstance(cv, str):
        raise ParameterError(f"cv must be a number of folds, a splitter or an iterable of (train, test), got {cv!r}.")


def make_folds(task: Task, cv: object) -> Folds:
    """Split a task's rows into (train, test) pairs that keep groups together; none where a split is impossible.

    Every row is in one test part, and no row without weight in a training part. A number of folds divides the rows
    that have weight, so that the others have no part in what is learned.
    """
    rows, groups = len(task.S), task.groups
    if not isinstance(cv, Integral):
        return _given_folds(task, cv)
    counts = np.ones(rows, dtype=bool) if task.sample_weight is None else task.sample_weight > 0
    heavy = np.flatnonzero(counts)
    parts = min(int(cv), len(heavy) if groups is None else len(np.unique(groups[heavy])))
    if parts < 2:
        # One row, or one group: nothing is left to learn from without it.
        return []
    # Rows without weight are predicted with the first fold, or with their group.
    fold_of = np.zeros(rows, dtype=np.int64)
    if groups is None:
        split = KFold(parts, shuffle=True, random_state=task.seed).split(heavy)
    else:
        split = GroupKFold(parts).split(heavy, groups=groups[heavy])
    for fold, (_, test) in enumerate(split):
        fold_of[heavy[test] if groups is None else np.isin(groups, groups[heavy[test]])] = fold
    return [(np.flatnonzero(counts & (fold_of != fold)), np.flatnonzero(fold_of == fold)) for fold in range(parts)]


def _given_folds(task: Task, cv: Any) -> Folds:
    """Return the folds of a splitter, or those that are listed, checked."""
    rows = len(task.S)
    try:
        given = [(train, test) for train, test in check_cv(cv).split(np.empty((rows, 0)), groups=task.groups)]
    except (TypeError, ValueError) as error:
        raise ParameterError(f"cv={cv!r} cannot split {rows} rows of candidate sets: {error}") from error
    if not given:
        raise ParameterError("cv has no folds; give at least two.")
    folds: Folds = []
    for fold, (train, test) in enumerate(given):
        rest = _row_numbers(train, rows, f"training part of fold {fold}")
        chosen = _row_numbers(test, rows, f"test part of fold {fold}")
        if len(rest) == 0:
            raise ParameterError(f"The training part of fold {fold} in cv is empty; give it at least one row.")
        if len(chosen):
            folds.append((rest, chosen))
    if not folds:
        raise ParameterError("All test parts in cv are empty; out-of-fold results need every row in one.")
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


def _row_numbers(part: Any, rows: int, what: str) -> Rows:
    """Return row numbers, or the rows that a mask marks, and refuse what is neither."""
    try:
        found = np.asarray(part)
    except ValueError as error:
        raise ParameterError(f"The {what} in cv is no list of row numbers: {error}.") from error
    if found.ndim == 1 and found.dtype == bool and len(found) == rows:
        return np.flatnonzero(found)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ParameterError(f"The {what} in cv must be a list of whole numbers, the rows from 0 to {rows - 1}.")
    wrong = found[(found < 0) | (found >= rows)]
    if wrong.size:
        raise ParameterError(f"The {what} in cv names row {wrong[0]}; there are the rows 0 to {rows - 1}.")
    return found.astype(np.int64)


def average_folds(folds: Folds, parts: Iterable[Floats], rows: int) -> Floats:
    """Put together what was found for the test rows of each fold; a row in several gets the mean."""
    found = list(parts)
    total, times = np.zeros((rows, *found[0].shape[1:])), np.zeros((rows, *(1 for _ in found[0].shape[1:])))
    for (_, test), part in zip(folds, found, strict=True):
        total[test] += part
        times[test] += 1
    return total / times


def predict_folds(
    folds: Folds, run: Callable[[int, Rows, Rows], Floats], rows: int, n_jobs: int | None = None
) -> Floats:
    """Call ``run(fold, train, test)`` for each fold, and put together what it predicts for the test rows."""
    found = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(run)(fold, train, test) for fold, (train, test) in enumerate(folds)
    )
    return average_folds(folds, found, rows)


def cross_fit(
    learner: Learner, task: Task, folds: Folds, fit: Callable[[Task], Fitted]
) -> tuple[Floats, Floats | None]:
    """Predict each row by a model fitted without its fold; with the row's noise scale where there is one.

    ``fit`` fits the learner, or what is made of it, to a part of the rows.
    """
    # Where X says how rows relate to each other, leaving out rows leaves out columns.
    pairwise = get_tags(learner).input_tags.pairwise

    pieces = task.progress.parts(len(folds))

    def run(fold: int, train: Rows, test: Rows) -> Floats:
        part = replace(take_rows(task, train), seed=(task.seed + fold + 1) % 2**31, progress=pieces[fold])
        rest = features_of(task.X, test)
        if pairwise:
            rest = _safe_indexing(rest, train, axis=1)
            part = replace(part, X=_safe_indexing(part.X, train, axis=1))
        with part.progress:
            model = fit(part)
        scale = model.predict_scale(rest)
        return np.column_stack([model.predict(rest), np.full(len(test), np.nan) if scale is None else scale])

    prediction, scale = predict_folds(folds, run, len(task.S), task.n_jobs).T
    return prediction, None if np.isnan(scale).any() else scale


def out_of_fold(learner: Learner, task: Task, cv: object) -> Floats:
    """Predict each row by a model fitted to the folds it is not in."""
    learner = learner.for_folds(task)
    folds = make_folds(task, cv)
    if folds:
        return cross_fit(learner, task, folds, learner.fit)[0]
    if task.sample_weight is not None and not task.sample_weight.all():
        raise ParameterError(
            "Only one row, or one group, has a sample_weight above 0; without it there is nothing to learn from."
        )
    return learner.fit(task).predict(task.X)
