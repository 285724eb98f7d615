"""Anything that can be a target, turned into candidate sets."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from plr.candidates.arrays import check_readable, is_row
from plr.candidates.arrow import is_frame, is_list_column, is_text_column, parse_cells
from plr.candidates.sets import CandidateSets
from plr.candidates.tables import columns_of
from plr.errors import CandidateError

__all__ = ["as_candidate_sets"]


def as_candidate_sets(S: Any, empty: str = "raise") -> CandidateSets:
    """Turn anything that can be a target into candidate sets.

    Parameters
    ----------
    S : CandidateSets, sequence of sequences, list column, NaN-padded 2-D array or frame, or 1-D labels
        Candidate sets are returned as they are. A column of texts such as ``12.5|13.1`` or ``[12.5, 13.1]`` will do for
        a list column. An array or frame with one column of numbers is taken for labels, with the
        warning scikit-learn's own regressors give.
    empty : {"raise", "drop"}, default="raise"
        What to do about rows without a candidate.

    Examples
    --------
    >>> as_candidate_sets([[1, 2], [3]])
    CandidateSets(2 rows, sizes 1–2 (mean 1.5), values 1 to 3, uniform prior)
    >>> as_candidate_sets([1.5, 2.5]).to_lists()
    [[1.5], [2.5]]
    """
    if isinstance(S, CandidateSets):
        return S
    if S is None:
        raise CandidateError(
            "Fitting requires y to be passed, but the target y is None; give candidate sets or labels.", parameter="y"
        )
    check_readable(S, CandidateError, "The target")
    if is_frame(S):
        columns = dict(columns_of(S))
        if S.shape[1] != 1:
            return CandidateSets.from_columns(S, list(columns), empty=empty)
        column = next(iter(columns.values()))
        if not (is_list_column(column) or _has_rows(np.asarray(column, dtype=object)) or is_text_column(column)):
            _warn_column_vector()
        return as_candidate_sets(column, empty)
    if is_list_column(S):
        return CandidateSets.from_arrow(S, empty=empty)
    if is_text_column(S):
        return CandidateSets.from_arrow(parse_cells(S), empty=empty)
    if hasattr(S, "__array__"):
        return _from_array(S, empty)
    if not is_row(type(S)) or hasattr(S, "toarray"):
        raise CandidateError(
            f"A {type(S).__name__} is no target; give CandidateSets, a list of lists, a list column, a NaN-padded "
            "2-D array or 1-D labels (columns of a dict or frame: CandidateSets.from_columns).",
            parameter="y",
        )
    S = list(S)
    return CandidateSets.from_lists(S, empty=empty) if _has_rows(S) else CandidateSets.from_labels(S, empty=empty)


def _from_array(S: Any, empty: str) -> CandidateSets:
    array = S if isinstance(S, np.ma.MaskedArray) else np.asarray(S)
    if array.ndim == 1:
        if array.dtype == object and _has_rows(array):
            return CandidateSets.from_lists(array, empty=empty)
        return CandidateSets.from_labels(S, empty=empty)
    if array.ndim != 2:
        raise CandidateError(
            f"A target of shape {array.shape} has {array.ndim} dimensions"
            + ("; row 0 is nested too deep" if array.ndim > 2 else "")
            + ". Give 1-D labels, a NaN-padded 2-D array or a list of lists.",
            parameter="y",
        )
    if array.shape[1] == 1:
        _warn_column_vector()
        return CandidateSets.from_labels(array[:, 0], empty=empty)
    return CandidateSets.from_padded(array, empty=empty)


def _has_rows(items: Any) -> bool:
    return any(map(is_row, set(map(type, items))))


def _warn_column_vector() -> None:
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples, ), for "
        "example using ravel().",
        DataConversionWarning,
        stacklevel=3,
    )
