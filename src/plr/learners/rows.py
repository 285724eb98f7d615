"""Some rows of a task; rows in a canonical order, equal ones merged."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from plr._parameters import check_number
from plr.errors import ParameterError
from plr.learners.base import Task

__all__ = ["features_of", "merge_equal_rows", "set_rows_aside", "take_rows"]


def features_of(X: Any, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Any:
    """Return some rows of features of any kind: an array, a frame, a sparse matrix, a list, a torch dataset."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(X, torch.utils.data.Dataset):
        return torch.utils.data.Subset(X, rows.tolist())
    if isinstance(X, np.ndarray) or type(X).__module__.partition(".")[0] == "torch":
        return X[rows]
    return _safe_indexing(X, rows)


def take_rows(task: Task, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Task:
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
        groups=None if task.groups is None else task.groups[rows],
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
