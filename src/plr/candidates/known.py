"""Rows whose true label somebody looked up: what was found, and how the rows were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates.arrays import Integers, as_floats
from plr.candidates.arrow import is_frame
from plr.candidates.features import Column, record_names
from plr.candidates.matching import Precision, precision_of, true_candidates
from plr.candidates.sets import CandidateSets
from plr.candidates.tables import columns_of
from plr.errors import CandidateError, LengthError, ParameterError

__all__ = ["CANNOT_TELL", "NONE_OF_THESE", "CheckedRows", "read_answers", "read_known"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

NONE_OF_THESE, CANNOT_TELL = "none of these", "cannot tell"
"""Answers that are no value: the truth is not among the candidates; and whoever looked could not say."""

_COLUMNS = ("value", "record", "answer", "probability")
# How many decimals known labels are printed with can be seen from so many of them.
_ENOUGH = 5


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
        return _any(self.true, S)

    @property
    def labelled(self) -> Booleans:
        """The rows whose true label is known."""
        return ~np.isnan(self.value)

    @property
    def looked_at(self) -> Booleans:
        """The rows that somebody looked at, with an answer or without."""
        return self.labelled | self.missing | self.undecided

    @property
    def stands_for(self) -> Floats:
        """How many rows each row stands for: the more, the less probable it was to be chosen.

        Rows of which that is not known count as the others do on average; where it is known of none, as one each.
        """
        known = self.looked_at & ~np.isnan(self.probability)
        inverse = 1.0 / np.where(known, self.probability, 1.0)
        return np.where(known, inverse, inverse[known].mean() if known.any() else 1.0)

    def settle(self, S: CandidateSets) -> CandidateSets:
        """Return the sets with known labels in place of all candidates of their rows."""
        values = np.where(self.labelled[S.row_index], self.value[S.row_index], S.values)
        missing = None if S.missing is None else np.where(self.labelled, 0.0, S.missing)
        return S._with(values=values, missing=missing)

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
        True labels, NaN or None where nobody looked. A table (a frame, an Arrow table or a dict of arrays) has the
        column ``value``, ``record`` or both, each empty where nobody looked, and may have ``answer`` (``"none of
        these"``, ``"cannot tell"`` or empty) and ``probability``, with which the row was chosen to be looked at; other
        columns are ignored. A value that is none of the row's candidates says that the truth is missing there, and so
        does a record without a value that is none of them. A candidate has the value if they differ by no more than a
        millionth, or, where five or more labels are known, if it alone becomes the value when it is rounded to as many
        decimals as the known labels have. Where several candidates have the value, the record says which of them it
        is. With ``"none of these"``, a value is the true label all the same; with ``"cannot tell"`` it does not count.
        Answers may be in upper or lower case.
    S : CandidateSets of n rows
        Where rows without a candidate were dropped, ``known`` has the other rows alone.

    Examples
    --------
    >>> S = CandidateSets.from_lists([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> checked = read_known([None, 4.0, 7.0], S)
    >>> checked.true.tolist(), checked.missing.tolist()
    ([False, False, False, True, False, False], [False, False, True])
    """
    if known is None:
        return None
    columns: dict[Any, Any] = {"value": known}
    if is_frame(known) or isinstance(known, Mapping):
        columns = {name: column for name, column in columns_of(known) if name in _COLUMNS}
        if not columns.keys() & {"value", "record"}:
            raise ParameterError(
                "A table of known labels needs a column 'value', the true label, or 'record', which candidate it is; "
                "empty where nobody looked.",
                parameter="known",
            )
    value, probability = (_numbers(columns, name, S) for name in ("value", "probability"))
    wanted, answers = (_texts(columns, name, S) for name in ("record", "answer"))
    _check_rows(np.isinf(value), value, "The known label of row {} is {}; give a number, or NaN where nobody looked.")
    _check_rows(
        (probability <= 0) | (probability > 1),
        probability,
        "Row {} of known was chosen with probability {}; it must be above 0 and at most 1, or NaN.",
    )
    answers = read_answers(answers)
    undecided, none = answers == CANNOT_TELL, answers == NONE_OF_THESE
    value, wanted = np.where(undecided, np.nan, value), np.where(undecided | none, "", wanted)
    true = np.zeros(len(S.values), dtype=bool)
    labelled = ~np.isnan(value)
    if labelled.any():
        looked_at, values = S[labelled], value[labelled]
        precision = precision_of(values) if len(values) >= _ENOUGH else Precision(float(np.abs(values).max()), None)
        true[labelled[S.row_index]] = true_candidates(looked_at.values, looked_at.offsets, values, precision)
        true &= ~none[S.row_index]
    by_record = wanted != ""
    if by_record.any():
        true = _by_record(S, true, labelled, wanted)
        first = S.values[np.maximum.reduceat(np.where(true, np.arange(len(true)), 0), S.offsets[:-1])]
        value = np.where(by_record & ~labelled & _any(true, S), first, value)
    if not (labelled | by_record | undecided | none).any():
        return None
    return CheckedRows(value, true, none | ((labelled | by_record) & ~_any(true, S)), undecided, probability)


def read_answers(texts: Any) -> Column:
    """Return answers as `NONE_OF_THESE`, `CANNOT_TELL` or empty, in whatever case they are written.

    >>> read_answers(["None of these", None, " cannot tell"]).tolist()
    ['none of these', '', 'cannot tell']
    """
    written = record_names(texts)
    answers = np.strings.lower(written)
    wrong = np.flatnonzero(~np.isin(answers, ["", NONE_OF_THESE, CANNOT_TELL]))
    if wrong.size:
        row = int(wrong[0])
        found = str(written[row])
        problem = f"{found!r}; it must be {NONE_OF_THESE!r}, {CANNOT_TELL!r}, or empty where the true label is given."
        raise CandidateError(
            f"The answer for row {row} is {problem}",
            row=row,
            value=found,
            parameter="known",
            problem=f"the column 'answer' has {problem}",
        )
    return answers


def _numbers(columns: dict[Any, Any], name: str, S: CandidateSets) -> Floats:
    if name not in columns:
        return np.full(len(S), np.nan)
    return _one_each(as_floats(columns[name], "known"), S)


def _texts(columns: dict[Any, Any], name: str, S: CandidateSets) -> Column:
    if name not in columns:
        return np.full(len(S), "")
    return np.asarray(_one_each(record_names(columns[name]), S))


def _one_each(column: Any, S: CandidateSets) -> Any:
    if column.shape != (len(S),):
        remedy = "give one label each, or NaN"
        if S.kept is not None:
            remedy = "rows without a candidate were dropped, so leave out theirs: known[S.kept]"
        raise LengthError(f"known has shape {column.shape}, and there are {len(S)} rows; {remedy}.")
    return column


def _check_rows(wrong: Booleans, column: Column, message: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        found = column[row].item()
        raise CandidateError(message.format(row, found), row=row, value=found, parameter="known")


def _any(true: Booleans, S: CandidateSets) -> Booleans:
    return np.logical_or.reduceat(true, S.offsets[:-1])


def _by_record(S: CandidateSets, true: Booleans, labelled: Booleans, wanted: Column) -> Booleans:
    """Leave of candidates with the known value that of the known record; take the latter where no value is known."""
    if S.record is None:
        if labelled[wanted != ""].all():
            return true
        raise CandidateError(
            "known names records without values, and the candidate sets have no records; give record to the candidate "
            "sets, or the true values as known.",
            parameter="known",
        )
    rows = S.row_index
    chosen = (wanted[rows] != "") & (S.record == wanted[rows])
    found = _any(chosen, S)
    both = labelled & (wanted != "")
    _check_rows(
        both & ~found & _any(true, S),
        wanted,
        "The known record of row {} is {!r}, which is none of its candidates, though the known value is; correct it, "
        "or leave it empty.",
    )
    _check_rows(
        both & found & ~_any(true & chosen, S),
        wanted,
        "The known record of row {} is {!r}, a candidate with another value than the known one; correct one of them.",
    )
    return np.where((wanted != "")[rows], chosen & (true | ~labelled[rows]), true)
