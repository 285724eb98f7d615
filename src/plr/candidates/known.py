"""Rows whose true label somebody looked up: what was found, and how the rows were chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates.arrays import Integers, as_floats, is_missing
from plr.candidates.arrow import is_frame
from plr.candidates.features import entries_of, record_name
from plr.candidates.matching import true_candidates
from plr.candidates.sets import CandidateSets
from plr.candidates.tables import columns_of
from plr.errors import CandidateError, LengthError, ParameterError

__all__ = ["CANNOT_TELL", "NONE_OF_THESE", "CheckedRows", "read_known"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

NONE_OF_THESE, CANNOT_TELL = "none of these", "cannot tell"
"""Answers that are no value: the truth is not among the candidates; and whoever looked could not say."""

_COLUMNS = ("value", "record", "answer", "probability")


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """What is known of some rows.

    Attributes
    ----------
    value : ndarray of shape (n,)
        The true label; NaN where nobody looked, or where it is not known.
    true : ndarray of bool, one entry per candidate
        Which candidates of a checked row are the true one; several where they are equal.
    missing : ndarray of bool of shape (n,)
        Rows that were looked at and whose truth is not among their candidates.
    undecided : ndarray of bool of shape (n,)
        Rows that were looked at without an answer.
    probability : ndarray of shape (n,)
        With which probability each row was chosen to be looked at; NaN where that is not known.
    """

    value: Floats
    true: Booleans
    missing: Booleans
    undecided: Booleans
    probability: Floats

    def found(self, S: CandidateSets) -> Booleans:
        """Return the rows of which a candidate is known to be the true one."""
        return np.logical_or.reduceat(self.true, S.offsets[:-1])

    @property
    def labelled(self) -> Booleans:
        """The rows whose true label is known."""
        return ~np.isnan(self.value)

    @property
    def looked_at(self) -> Booleans:
        """The rows that somebody looked at, with an answer or without."""
        return self.labelled | self.missing | self.undecided

    def settle(self, S: CandidateSets) -> CandidateSets:
        """Return the sets with known labels in place of all candidates of their rows."""
        values = np.where(self.labelled[S.row_index], self.value[S.row_index], S.values)
        return CandidateSets._of_checked(values, S.offsets, S.prior)

    def settle_probabilities(self, S: CandidateSets, probabilities: Floats, missing: Floats) -> tuple[Floats, Floats]:
        """Return probabilities that are certain about checked rows."""
        found = self.found(S)
        equal = np.add.reduceat(self.true.astype(float), S.offsets[:-1])
        certain = self.true / np.maximum(equal, 1.0)[S.row_index]
        settled = (found | self.missing)[S.row_index]
        missing = np.where(found, 0.0, np.where(self.missing, 1.0, missing))
        return np.where(settled, certain, probabilities), missing

    def take(self, rows: Integers, candidates: Integers) -> CheckedRows:
        """Return what is known of some rows, which have these candidates."""
        return CheckedRows(
            self.value[rows],
            self.true[candidates],
            self.missing[rows],
            self.undecided[rows],
            self.probability[rows],
        )


def read_known(known: Any, S: CandidateSets) -> CheckedRows | None:
    """Read the labels of checked rows; None where there are none.

    Parameters
    ----------
    known : array-like of shape (n,), or table of n rows
        True labels, NaN where nobody looked. A table has the column ``value`` and may have ``record`` (which candidate
        it is, where several have the value), ``answer`` (``"none of these"`` or ``"cannot tell"``) and ``probability``
        (with which the row was chosen to be looked at).
    S : CandidateSets of n rows

    Examples
    --------
    >>> S = CandidateSets.from_lists([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> checked = read_known([np.nan, 4.0, 7.0], S)
    >>> checked.true.tolist(), checked.missing.tolist()
    ([False, False, False, True, False, False], [False, False, True])
    """
    if known is None:
        return None
    columns: dict[Any, Any] = {"value": known}
    if is_frame(known):
        columns = {name: column for name, column in columns_of(known) if name in _COLUMNS}
        if "value" not in columns:
            raise ParameterError(
                "A table of known labels needs a column 'value': the true label, empty where nobody looked.",
                parameter="known",
            )
    value = as_floats(columns["value"], "known")
    rows = len(S)
    if value.shape != (rows,):
        raise LengthError(f"known has shape {value.shape}, and there are {rows} rows; give one label each, or NaN.")
    if np.isinf(value).any():
        row = int(np.flatnonzero(np.isinf(value))[0])
        raise CandidateError(
            f"The known label of row {row} is infinite; give a number, or NaN where nobody looked.",
            row=row,
            value=value[row],
        )
    answers = [str(answer).strip() for answer in entries_of(columns.get("answer", [""] * rows))]
    undecided, none = (np.array([answer == text for answer in answers]) for text in (CANNOT_TELL, NONE_OF_THESE))
    value = np.where(undecided, np.nan, value)
    labelled = ~np.isnan(value)
    if not (labelled | undecided | none).any():
        return None
    true = np.zeros(len(S.values), dtype=bool)
    if labelled.any():
        part = labelled[S.row_index]
        looked_at = S[labelled]
        true[part] = true_candidates(looked_at.values, looked_at.offsets, value[labelled])
    if "record" in columns:
        true = _by_record(S, true, labelled, entries_of(columns["record"]))
    true &= ~none[S.row_index]
    there = np.logical_or.reduceat(true, S.offsets[:-1]) if rows else labelled
    probability = as_floats(columns["probability"], "known") if "probability" in columns else np.full(rows, np.nan)
    bad = ~np.isnan(probability) & ~((probability > 0) & (probability <= 1))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ParameterError(
            f"Row {row} of known was chosen with probability {probability[row]:g}; it must be above 0 and at most 1.",
            parameter="known",
            value=probability[row],
        )
    return CheckedRows(value, true, none | (labelled & ~there), undecided, probability)


def _by_record(S: CandidateSets, true: Booleans, labelled: Booleans, records: list[Any]) -> Booleans:
    """Leave of candidates with the known value the one that is the known record."""
    given = labelled & np.array([not is_missing(record) and str(record) != "" for record in records])
    if S.record is None or not given.any():
        return true
    wanted = np.array([record_name(record) if here else "" for record, here in zip(records, given, strict=True)])
    chosen = given[S.row_index] & (S.record == wanted[S.row_index])
    found = np.logical_or.reduceat(chosen, S.offsets[:-1])
    lacking = np.flatnonzero(given & ~found & np.logical_or.reduceat(true, S.offsets[:-1]))
    if len(lacking):
        row = int(lacking[0])
        raise CandidateError(
            f"The known record of row {row} is {records[row]!r}, which is none of its candidates; correct it, or leave "
            f"it empty.",
            row=row,
            value=records[row],
        )
    return np.where(given[S.row_index], chosen & true, true)
