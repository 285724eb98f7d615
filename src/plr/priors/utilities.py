"""How features of candidates become utilities: the contract of what `PartialLabelRegressor` takes as ``prior``.

The probability that a candidate is the true one of its row is the softmax of the utilities of the row. A conditional
logit, a weighted sum of features, is always learned; a model of another kind starts from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from plr.candidates import CandidateSets
from plr.errors import ParameterError
from plr.priors.columns import CandidateColumns
from plr.priors.logit import Alternatives

__all__ = [
    "CandidateTable",
    "FittedUtility",
    "Refinement",
    "UtilityModel",
    "table_names",
    "tabulate",
]

Floats = NDArray[np.float64]

# The group of columns that the table has as they were given.
_GIVEN = "own"


@dataclass(frozen=True)
class CandidateTable:
    """What is known of the candidates of some rows, one line per candidate.

    Attributes
    ----------
    names : tuple of str
        What each column is: the columns that candidates were given, how far each number is below the highest of the
        row, the place of the value among those of the row, the log of the given prior, the number of candidates of the
        row and, where false candidates depend on the features, the log ratio of the model's density to theirs.
    values : ndarray of shape (n_candidates, n_columns)
        NaN where missing; categories are whole numbers.
    categorical : tuple of int
        Which columns are categories.
    offsets : ndarray of shape (n_rows + 1,)
        Row ``i`` has the lines from ``offsets[i]`` up to ``offsets[i + 1]``.
    logit : ndarray of shape (n_candidates,)
        The utilities of the conditional logit.
    """

    names: tuple[str, ...]
    values: Floats
    categorical: tuple[int, ...]
    offsets: NDArray[np.int64]
    logit: Floats

    @cached_property
    def sets(self) -> Alternatives:
        """Sums, maxima and softmax within rows."""
        return Alternatives(self.offsets)

    def take(self, rows: NDArray[np.bool_]) -> CandidateTable:
        """Return the candidates of some rows."""
        part, lines = self.sets.take(rows)
        return replace(self, values=self.values[lines], offsets=part.offsets, logit=self.logit[lines])


class FittedUtility:
    """Base of what a `UtilityModel` gives back."""

    def utility(self, features: CandidateTable) -> Floats:
        """Return one number per candidate; their softmax within rows are the probabilities."""
        raise NotImplementedError

    def describe(self) -> list[str]:
        """Return what was learned beyond the conditional logit, in words."""
        return []

    def check_names(self, names: tuple[str, ...]) -> None:
        """Raise ValueError where it was fitted to columns of other names."""


class UtilityModel(BaseEstimator):
    """Base of how features of candidates become utilities.

    One of your own has its parameters in ``__init__`` and this method. Models with one cannot be written to model
    files, which hold no code.
    """

    def fit(
        self,
        features: CandidateTable,
        true: NDArray[np.bool_],
        weights: Floats,
        folds: NDArray[np.int64],
        seed: int,
    ) -> FittedUtility | None:
        """Learn from checked rows of several candidates; None leaves the utilities to the conditional logit.

        Parameters
        ----------
        features : CandidateTable
        true : ndarray of shape (n_candidates,)
            Which candidates are true; where several of a row have the known value, each of them.
        weights : ndarray of shape (n_rows,)
            How much each row counts.
        folds : ndarray of shape (n_rows,)
            The fold of each row, for cross-validation: rows that belong together are in the same.
        seed : int
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Refinement:
    """A model of utilities, and what it takes to fit it to some rows.

    Attributes
    ----------
    model : UtilityModel
    folds : ndarray of shape (n_rows,)
        The fold of each row.
    seed : int
    """

    model: UtilityModel
    folds: NDArray[np.int64]
    seed: int

    def fit(
        self, features: CandidateTable, true: NDArray[np.bool_], rows: NDArray[np.bool_], weights: Floats
    ) -> FittedUtility | None:
        """Fit it to the checked ones of all rows."""
        part, name = features.take(rows), type(self.model).__name__
        found = self.model.fit(part, true[rows[features.sets.rows]], weights[rows], self.folds[rows], self.seed)
        if found is not None and not isinstance(found, FittedUtility):
            raise ParameterError(
                f"{{parameter}}: {name}.fit returned {type(found).__name__}; it must be a "
                "plr.priors.FittedUtility, or None.",
                parameter="prior",
            )
        if found is not None:
            utility = np.asarray(found.utility(features))
            if utility.shape != features.logit.shape or not np.isfinite(utility).all():
                raise ParameterError(
                    f"{{parameter}}: the utilities that {name} learned have shape {utility.shape}, or are not all "
                    f"finite; there must be a finite number for each of the {len(features.logit)} candidates.",
                    parameter="prior",
                )
        return found


def table_names(columns: CandidateColumns, with_ratio: bool) -> tuple[str, ...]:
    """Return the names of the columns that `tabulate` makes."""
    own = [*columns.numbers, *(f"{name}: below the highest of the row" for name in columns.numbers), *columns.levels]
    made = [name for name, group in zip(columns.names, columns.groups, strict=True) if group != _GIVEN]
    return (*own, *made, "number of candidates", *["agreement with the model"] * with_ratio)


def tabulate(
    columns: CandidateColumns, S: CandidateSets, matrix: Floats, logit: Floats, ratio: Floats | None
) -> CandidateTable:
    """Return what is known of candidates.

    Parameters
    ----------
    columns : CandidateColumns
    S : CandidateSets
    matrix : ndarray
        Of the columns, for these sets, which have been checked when it was made.
    logit : ndarray, one entry per candidate
        The utilities of the conditional logit.
    ratio : ndarray, one entry per candidate, or None
        The log ratio of the model's density to that of false candidates.
    """
    sets = Alternatives(S.offsets)
    numbers = [S.features[name] for name in columns.numbers]
    # Where all are missing, none is the highest.
    highest = [sets.max(np.nan_to_num(number, nan=-np.inf))[sets.rows] for number in numbers]
    below = [np.where(np.isfinite(high), high - number, np.nan) for high, number in zip(highest, numbers, strict=True)]
    codes = [_codes(S.features[name], levels) for name, levels in columns.levels.items()]
    made = matrix[:, [group != _GIVEN for group in columns.groups]]
    more = [sets.sizes[sets.rows], *([] if ratio is None else [ratio])]
    first = 2 * len(numbers)
    return CandidateTable(
        table_names(columns, ratio is not None),
        np.column_stack([*numbers, *below, *codes, made, *more]).astype(float),
        tuple(range(first, first + len(codes))),
        S.offsets,
        logit,
    )


def _codes(column: NDArray[Any], levels: tuple[str, ...]) -> Floats:
    """Return the place of each level, NaN where it is none of them."""
    if column.dtype.kind == "f" or not levels:
        # Missing everywhere.
        return np.full(len(column), np.nan)
    known, places = np.unique(np.array(levels, dtype=str), return_index=True)
    found = np.minimum(np.searchsorted(known, column), len(known) - 1)
    return np.where(known[found] == column, places[found], np.nan)
