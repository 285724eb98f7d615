"""Checks of what a user hands to an estimator, in scikit-learn's ways, with plr's errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, validate_data

from plr.candidates import CandidateSets
from plr.errors import FeatureError, FeatureTypeError, LengthError, ParameterError
from plr.learners.base import Learner

__all__ = ["check_features", "check_groups", "check_sample_weight", "check_seed", "is_plain_target"]

Floats = NDArray[np.float64]


def check_features(estimator: Any, X: Any, learner: Learner, *, reset: bool) -> Floats:
    """Return X as a float64 array after scikit-learn's own checks, and record or compare its columns."""
    try:
        checked: Floats = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            order="C",  # sums then run in one order, whatever kind of table the rows came in
            ensure_all_finite="allow-nan" if learner.takes_missing else True,
        )
    except TypeError as error:
        raise FeatureTypeError(str(error)) from error
    except ValueError as error:
        # scikit-learn's message goes on to recommend other estimators; ours says where to look instead.
        raise FeatureError(f"{str(error).split(chr(10) + 'PartialLabelRegressor does not')[0]}{_where(X)}") from error
    return checked


def check_groups(groups: Any, rows: int) -> NDArray[Any] | None:
    """Return one group per row, or None."""
    if groups is None:
        return None
    given = np.asarray(groups)
    if given.shape != (rows,):
        raise LengthError(f"groups has shape {given.shape}, but there are {rows} rows; give one group per row.")
    return given


def check_seed(random_state: Any) -> np.random.RandomState:
    """Return scikit-learn's random state for what the user gave."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise ParameterError(
            f"random_state must be a whole number, a RandomState or None, got {random_state!r}."
        ) from error


def check_sample_weight(sample_weight: Any, rows: int) -> Floats:
    """Return sample weights as one finite, non-negative number per row, not all of them zero."""
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"sample_weight must be numbers, one per row: {error}.") from error
    if weight.ndim == 0:
        weight = np.full(rows, float(weight))
    if weight.shape != (rows,):
        raise LengthError(f"sample_weight has shape {weight.shape}, but there are {rows} rows; give one per row.")
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ParameterError(f"sample_weight must be finite and not negative; row {row} has {weight[row]}.")
    if not weight.any():
        raise ParameterError("sample_weight is zero for every row; at least one must count.")
    return weight


def is_plain_target(y: Any) -> bool:
    """Return whether a target is plain labels rather than candidate sets."""
    if isinstance(y, CandidateSets):
        return False
    shape = getattr(y, "shape", None)
    if shape is not None and len(shape) == 2:
        return shape[1] == 1 and np.ndim(np.asarray(y)[0, 0]) == 0
    if _num_samples(y) == 0:
        return True
    first = y.iloc[0] if hasattr(y, "iloc") else y[0]
    return np.ndim(first) == 0


def _where(X: Any) -> str:
    """Return where X has its first entry that is no finite number, as sentences to append; empty if there is none."""
    values = np.asarray(X, dtype=object)
    if values.ndim != 2:
        return ""
    names = getattr(X, "columns", None)
    count = 0
    first = ""
    text = False
    for column in range(values.shape[1]):
        try:
            bad = ~np.isfinite(values[:, column].astype(np.float64))
            is_text = False
        except (TypeError, ValueError):
            bad = np.array([not _is_number(entry) for entry in values[:, column]])
            is_text = True
        if bad.any() and not first:
            name = f" ({names[column]})" if names is not None else ""
            row = int(np.flatnonzero(bad)[0])
            first = f"\nThe first is {values[row, column]!r} in row {row}, column {column}{name}"
            text = is_text
        count += int(bad.sum())
    if not first:
        return ""
    advice = " Encode text and dates first, for example with OneHotEncoder in a Pipeline." if text else ""
    return f"{first}; {count} in all.{advice}"


def _is_number(entry: Any) -> bool:
    try:
        return bool(np.isfinite(float(entry)))
    except (TypeError, ValueError):
        return False
