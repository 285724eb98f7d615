"""Checks of what a user hands to an estimator, in scikit-learn's ways, with plr's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _num_samples, validate_data

from plr._parameters import shown
from plr.candidates import CandidateSets, as_candidate_sets
from plr.candidates.arrays import check_readable
from plr.candidates.arrow import check_buffers
from plr.contracts import Learner
from plr.errors import FeatureError, FeatureTypeError, LengthError, ParameterError
from plr.preprocessing.features import learn_columns

__all__ = [
    "check_codes",
    "check_features",
    "check_groups",
    "check_sample_weight",
    "check_seed",
    "check_validation",
    "is_plain_target",
]

Floats = NDArray[np.float64]


def check_features(estimator: Any, X: Any, learner: Learner, *, reset: bool) -> Any:
    """Return X as the learner takes it, after scikit-learn's own checks, and record or compare its columns."""
    if not learner.takes_datasets:
        check_readable(X, FeatureTypeError, "X")
    if hasattr(X, "column_names") and hasattr(X, "validate"):
        check_buffers(X, FeatureError, "X")
    if learner.takes == "rows":
        return _check_rows(estimator, X, learner, reset)
    if learner.takes == "table":
        if reset:
            estimator.columns_ = learn_columns(X)
        columns = getattr(estimator, "columns_", None)
        if columns is not None:
            _check_columns(estimator, X, reset)
            X = columns.encode(X)
            if not learner.takes_missing and np.isnan(X).any():
                row, column = (int(index) for index in np.argwhere(np.isnan(X))[0])
                raise FeatureError(
                    f"X is missing in row {row}, column {columns.names[column]}; this learner needs all."
                )
            return X
    # Sums run in one order then, whatever kind of table the rows came in.
    return _check_matrix(estimator, X, learner, reset, dtype=np.float64, order="C")


def check_codes(estimator: Any, X: Any, learner: Learner) -> Floats | None:
    """Return numbers in which categories are codes, if that is what X is; None where it is as in training."""
    if learner.takes == "rows":
        return None
    # Their codes are the numbers of a categorical, not its values.
    kinds = X.dtypes if hasattr(X, "iloc") else [getattr(X, "dtype", None)]
    if not all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds):
        return None
    if np.shape(X)[1:] != (estimator.n_features_in_,):
        return None
    if hasattr(X, "iloc"):
        _check_columns(estimator, X, reset=False)
    finite = "allow-nan" if learner.takes_missing else True
    with _own_errors(lambda: _where(X)):
        found: Floats = check_array(X, dtype=np.float64, order="C", ensure_all_finite=finite, input_name="X")
    return found


def _check_rows(estimator: Any, X: Any, learner: Learner, reset: bool) -> Any:
    """Check arrays of numbers, and hand on everything else as it is: what is wrong with it, the model will say."""
    if not hasattr(X, "__len__") and not hasattr(X, "shape") and not hasattr(X, "__array__"):
        raise FeatureTypeError(f"X must have rows, as an array, a frame or a list has; got {type(X).__name__}.")
    is_table = (
        hasattr(X, "iloc") or hasattr(X, "columns") or type(X).__module__.partition(".")[0] in ("polars", "torch")
    )
    if hasattr(X, "__array__") and not (isinstance(X, np.ndarray) or sparse.issparse(X) or is_table):
        X = np.asarray(X)
    if _is_numeric(X):
        if np.ndim(X) > 2:
            # Images and sequences: how long they are is the model's business.
            with _own_errors(lambda: _where(X)):
                return check_array(X, dtype=None, allow_nd=True, input_name="X")
        # Rows can be taken from these two kinds of sparse matrix.
        return _check_matrix(estimator, X, learner, reset, dtype=None, accept_sparse=("csr", "csc"))
    if len(getattr(X, "shape", ())) in (1, 2):
        _check_columns(estimator, X, reset)
    return X


def _check_matrix(estimator: Any, X: Any, learner: Learner, reset: bool, **kind: Any) -> Any:
    finite = "allow-nan" if learner.takes_missing else True
    with _own_errors(lambda: _where(X)):
        return validate_data(estimator, X, reset=reset, ensure_all_finite=finite, **kind)


def _check_columns(estimator: Any, X: Any, reset: bool) -> None:
    """Record or compare the number and names of columns, and nothing else."""
    with _own_errors():
        validate_data(estimator, X, reset=reset, skip_check_array=True)


@contextmanager
def _own_errors(where: Callable[[], str] = str) -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise FeatureTypeError(str(error)) from error
    except OverflowError as error:
        raise FeatureError(f"X has a whole number beyond floating point, which goes up to 1.8e308.{where()}") from error
    except ValueError as error:
        # scikit-learn's message goes on to recommend other estimators; ours says where to look instead.
        raise FeatureError(f"{str(error).split(chr(10) + 'PartialLabelRegressor does not')[0]}{where()}") from error


def _is_numeric(X: Any) -> bool:
    """Return whether X is, or reads as, an array of numbers."""
    if sparse.issparse(X):
        return True
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "biufc"
    if not isinstance(X, list | tuple):
        return False
    if len(X) == 0:
        return True
    # Looked at before it is made an array: one of long texts would need the length of the longest for each.
    first = X
    while isinstance(first, list | tuple) and len(first):
        first = first[0]
    if not isinstance(first, Number | np.ndarray):
        return False
    try:
        return np.asarray(X).dtype.kind in "biufc"
    except ValueError:
        return False  # rows of different length


def check_validation(estimator: Any, validation: object, learner: Learner) -> tuple[Any, CandidateSets]:
    """Return validation rows as the learner takes them, by the columns that the estimator has recorded."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ParameterError("validation must be a pair (X, S) of rows and their candidate sets.")
    X = check_features(estimator, validation[0], learner, reset=False)
    S = as_candidate_sets(validation[1])
    if _num_samples(X) != len(S):
        raise LengthError(f"The validation X has {_num_samples(X)} rows and its target {len(S)}; they must agree.")
    return X, S


def check_groups(groups: Any, rows: int) -> NDArray[Any]:
    """Return one group per row."""
    check_readable(groups, ParameterError, "groups")
    given = np.asarray(groups)
    if given.shape != (rows,):
        raise LengthError(
            f"{{parameter}} has shape {given.shape}, but there are {rows} rows; give one group per row.",
            parameter="groups",
        )
    missing = [row for row, group in enumerate(given) if group is None or group != group]
    if missing:
        raise ParameterError(
            f"{{parameter}} is missing in row {missing[0]}; give every row a group.", parameter="groups", row=missing[0]
        )
    return given


def check_seed(random_state: Any) -> np.random.RandomState:
    """Return scikit-learn's random state for what the user gave."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise ParameterError(
            f"{{parameter}} must be a whole number, a RandomState or None, got {random_state!r}.",
            parameter="random_state",
            value=random_state,
        ) from error


def check_sample_weight(sample_weight: Any, rows: int) -> Floats:
    """Return sample weights as one finite, non-negative number per row, not all of them zero."""
    check_readable(sample_weight, ParameterError, "sample_weight")
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(
            f"{{parameter}} must be numbers, one per row: {error}.", parameter="sample_weight"
        ) from error
    if weight.ndim == 0:
        weight = np.full(rows, float(weight))
    if weight.shape != (rows,):
        raise LengthError(
            f"{{parameter}} has shape {weight.shape}, but there are {rows} rows; give one per row.",
            parameter="sample_weight",
        )
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ParameterError(
            f"{{parameter}} must be finite and not negative; row {row} has {weight[row]}.",
            parameter="sample_weight",
            row=row,
            value=weight[row],
        )
    if not weight.any():
        raise ParameterError("{parameter} is zero for every row; at least one must count.", parameter="sample_weight")
    return weight


def is_plain_target(y: Any) -> bool:
    """Return whether a target is plain labels rather than candidate sets."""
    if isinstance(y, CandidateSets):
        return False
    shape: Any = getattr(y, "shape", ())
    is_table = len(shape) == 2
    if is_table and shape[1] != 1:
        return False
    if _num_samples(y) == 0:
        return True
    if is_table:
        y = np.asarray(y)[:, 0]
    first = y.iloc[0] if hasattr(y, "iloc") else y[0]
    # A value of Arrow's says nothing about itself.
    first = first.as_py() if hasattr(first, "as_py") else first
    return np.ndim(first) == 0 and not isinstance(first, str)


def _where(X: Any) -> str:
    """Return where X has its first entry that is no finite number, as sentences to append; empty if there is none."""
    values = np.asarray(X, dtype=object)
    if values.ndim != 2:
        return ""
    try:
        bad = ~np.isfinite(values.astype(np.float64))
    except (TypeError, ValueError, OverflowError):
        bad = ~np.frompyfunc(_is_number, 1, 1)(values).astype(bool)
    if not bad.any():
        return ""
    column, row = np.argwhere(bad.T)[0]
    first, names = values[row, column], getattr(X, "columns", None)
    name = "" if names is None else f" ({names[column]})"
    is_text = first is not None and not isinstance(first, Number)
    advice = " Encode text and dates first, for example with OneHotEncoder in a Pipeline." if is_text else ""
    return f"\nThe first is {shown(first)} in row {row}, column {column}{name}; {bad.sum()} in all.{advice}"


def _is_number(entry: Any) -> bool:
    try:
        return bool(np.isfinite(float(entry)))
    except (TypeError, ValueError, OverflowError):
        return False
