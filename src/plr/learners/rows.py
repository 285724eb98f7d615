"""Some rows of a task; rows in a canonical order, equal ones merged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from plr.learners.base import Task

__all__ = ["features_of", "merge_equal_rows", "take_rows"]


def features_of(X: Any, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Any:
    """Return some rows of features of any kind: an array, a frame, a sparse matrix, a list, a tensor."""
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
