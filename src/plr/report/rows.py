"""The rows that a page shows, small enough to be kept in a model file.

A page needs each row's candidates, how probable each is, and the prediction. Of many rows the least certain are kept,
and a weighted sample of the others; of a set of very many candidates, the likeliest.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.errors import DataError

__all__ = ["Rows", "make_rows"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# A page with so many rows has about three megabytes, and at most half as much again for columns of the data.
_MOST_ROWS = 20_000
_MOST_CANDIDATES = 120_000
_MOST_OF_A_ROW = 100
# The share of the rows kept that are the least certain ones; the others are a sample of the rest.
_DOUBTFUL_PART = 0.75
_LONGEST_TEXT = 40
_MOST_TEXT = 1_500_000

_BY_ROW = {
    "sizes": "<i4",
    "given": "<i4",
    "number": "<i8",
    "prediction": "<f8",
    "weight": "<f8",
    "top_prior": "<f4",
    "top_start": "<f4",
    "relative": "<f4",
    "truth": "<f8",
}
_BY_CANDIDATE = {"values": "<f8", "probabilities": "<f4", "slots": "<i2"}
_OPTIONAL = {"top_start", "relative", "truth", "slots"}
_SHARES = ("probabilities", "top_prior", "top_start")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as a page shows them.

    Attributes
    ----------
    values, probabilities : ndarray, one entry per candidate
        Flat; how probable each is to be the true one.
    sizes : ndarray of shape (n,)
        How many of them belong to each row.
    given : ndarray of shape (n,)
        How many candidates each row has in the data.
    number : ndarray of shape (n,)
        Which row of the data it is, from 0.
    prediction : ndarray of shape (n,)
    weight : ndarray of shape (n,)
        For how many rows of the data each stands; all 1 where all were kept.
    top_prior, top_start : ndarray of shape (n,)
        The share of the likeliest candidate before anything was learned, and by the start; None where there was none.
    relative : ndarray of shape (n,) or None
        The width of each row's interval relative to the typical one; None where all are alike.
    truth : ndarray of shape (n,) or None
        The true labels where they are known, and else NaN.
    slots : ndarray, one entry per candidate, or None
        The column each candidate came from, where there are several.
    out_of_fold, out_of_fold_prediction : bool
        Whether probabilities, and predictions, are by models that were not fitted to the row.
    columns : dict of str to list of str
        Texts by which a person recognises a row.
    naming : int
        How many of these, at the beginning, are names rather than features.
    """

    values: Floats
    probabilities: Floats
    sizes: Integers
    given: Integers
    number: Integers
    prediction: Floats
    weight: Floats
    top_prior: Floats
    top_start: Floats | None = None
    relative: Floats | None = None
    truth: Floats | None = None
    slots: Integers | None = None
    out_of_fold: bool = True
    out_of_fold_prediction: bool = True
    columns: dict[str, list[str]] = field(default_factory=dict)
    naming: int = 0

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def offsets(self) -> Integers:
        """Where each row's candidates begin, with the end of the last."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def row_index(self) -> Integers:
        """The row of each candidate."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def top(self) -> Floats:
        """How probable each row's likeliest candidate is."""
        return np.asarray(np.maximum.reduceat(self.probabilities, self.offsets[:-1]))

    @property
    def likeliest(self) -> Integers:
        """Where each row's likeliest candidate is among all; of equals, the first."""
        place = np.where(self.probabilities == self.top[self.row_index], np.arange(len(self.values)), len(self.values))
        return np.minimum.reduceat(place, self.offsets[:-1])

    @property
    def several(self) -> NDArray[np.bool_]:
        """Whether a row has candidates that differ."""
        return np.maximum.reduceat(self.values, self.offsets[:-1]) > np.minimum.reduceat(self.values, self.offsets[:-1])

    @property
    def by_doubt(self) -> Integers:
        """The rows with several candidates by how sure their choice is, the least sure first, then the others."""
        return np.argsort(np.where(self.several, self.top, 2.0), kind="stable")

    @property
    def total(self) -> int:
        """For how many rows of the data these stand."""
        return round(float(self.weight.sum()))

    def take(self, rows: Integers) -> Rows:
        """Return some of the rows."""
        ends = np.cumsum(self.sizes[rows])
        first = np.repeat(self.offsets[rows] - ends + self.sizes[rows], self.sizes[rows])
        columns = {name: [texts[row] for row in rows] for name, texts in self.columns.items()}
        return replace(self._with(_BY_ROW, rows)._with(_BY_CANDIDATE, first + np.arange(len(first))), columns=columns)

    def _with(self, names: Iterable[str], places: Integers) -> Rows:
        """Return the rows with some entries of each of some arrays."""
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        return replace(self, **{name: part[places] for name, part in parts.items() if part is not None})

    def to_dict(self) -> dict[str, Any]:
        """Return texts and lists that `from_dict` reads."""
        arrays = {
            name: base64.b64encode(np.ascontiguousarray(getattr(self, name), dtype=kind).tobytes()).decode()
            for name, kind in (_BY_ROW | _BY_CANDIDATE).items()
            if getattr(self, name) is not None
        }
        return {
            "rows": len(self),
            "out_of_fold": self.out_of_fold,
            "out_of_fold_prediction": self.out_of_fold_prediction,
            "columns": self.columns,
            "naming": self.naming,
            "arrays": arrays,
        }

    @classmethod
    def from_dict(cls, written: Any) -> Rows:
        """Read what `to_dict` wrote; raise `DataError` for anything else, since model files may come from anywhere."""
        try:
            rows, arrays, columns = int(written["rows"]), written["arrays"], written["columns"]
            naming = int(written["naming"])
            found = {
                name: _read(arrays[name], kind)
                for name, kind in (_BY_ROW | _BY_CANDIDATE).items()
                if name not in _OPTIONAL or name in arrays
            }
            sizes, shares = found["sizes"], [found[name] for name in _SHARES if name in found]
            right = (
                rows > 0,
                sizes > 0,
                [len(part) == (rows if name in _BY_ROW else sizes.sum()) for name, part in found.items()],
                [np.isfinite(part).all() for name, part in found.items() if name != "truth"],
                [len(texts) == rows for texts in columns.values()],
                found["weight"] > 0,
                found["given"] >= sizes,
                np.diff(found["number"], prepend=-1) > 0,
                [((part >= 0) & (part <= 1 + 1e-6)).all() for part in shares],
                found.get("relative", sizes) > 0,
            )
            texts = {str(name): [str(text) for text in column] for name, column in columns.items()}
        except (KeyError, TypeError, ValueError, AttributeError, binascii.Error, OverflowError) as error:
            raise DataError("What the model file says about its training rows cannot be read.") from error
        if not all(np.all(condition) for condition in right):
            raise DataError("What the model file says about its training rows does not go together.")
        flags: Any = {name: bool(written.get(name)) for name in ("out_of_fold", "out_of_fold_prediction")}
        return cls(**found, **flags, columns=texts, naming=naming)


def make_rows(
    S: CandidateSets,
    probabilities: Floats,
    prediction: Floats,
    *,
    start: Floats | None = None,
    relative: Floats | None = None,
    truth: Floats | None = None,
    out_of_fold: bool = True,
    out_of_fold_prediction: bool = True,
    columns: Mapping[str, Sequence[object]] | None = None,
    naming: int = 0,
) -> Rows:
    """Return rows as a page shows them; of very many, some.

    Parameters
    ----------
    S : CandidateSets
    probabilities : ndarray, one entry per candidate
    prediction : ndarray of shape (n,)
    start : ndarray, one entry per candidate, optional
        The start's weights.
    relative, truth : ndarray of shape (n,), optional
    out_of_fold, out_of_fold_prediction : bool
        Whether probabilities, and predictions, are by models that were not fitted to the row.
    columns : mapping of str to sequence, optional
        One entry per row each, which tell a person what row it is; shortened as texts.
    naming : int
        How many of these, at the beginning, are names rather than features.
    """
    by_row = S.offsets[:-1]
    every = Rows(
        values=S.values,
        probabilities=probabilities,
        sizes=S.sizes,
        given=S.sizes,
        number=np.arange(len(S)) if S.kept is None else np.asarray(S.kept),
        prediction=prediction,
        weight=np.ones(len(S)),
        top_prior=np.maximum.reduceat(S.prior_or_uniform, by_row),
        top_start=None if start is None else np.maximum.reduceat(start, by_row),
        relative=relative,
        truth=truth,
        slots=None if S.slots is None else np.asarray(S.slots),
        out_of_fold=out_of_fold,
        out_of_fold_prediction=out_of_fold_prediction,
    )
    few = _with_fewer_candidates(_with_fewer_rows(every))
    where = np.arange(len(S)) if few.total == len(few) else np.searchsorted(every.number, few.number)
    return replace(few, columns=_shortened(columns or {}, where), naming=naming)


def _with_fewer_rows(rows: Rows) -> Rows:
    fitting = int(_MOST_CANDIDATES / max(float(np.minimum(rows.sizes, _MOST_OF_A_ROW).mean()), 1.0))
    most = min(_MOST_ROWS, max(fitting, 1))
    if len(rows) <= most:
        return rows
    doubtful = int(_DOUBTFUL_PART * most)
    order = rows.by_doubt
    rest = np.random.default_rng(0).choice(order[doubtful:], most - doubtful, replace=False)
    weight = np.ones(len(rows))
    weight[rest] = (len(rows) - doubtful) / len(rest)
    chosen = np.sort(np.concatenate([order[:doubtful], rest]))
    return replace(rows, weight=weight).take(chosen)


def _with_fewer_candidates(rows: Rows) -> Rows:
    if rows.sizes.max(initial=0) <= _MOST_OF_A_ROW:
        return rows
    order = np.lexsort((-rows.probabilities, rows.row_index))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(rows.offsets[:-1], rows.sizes)
    kept = np.flatnonzero(rank < _MOST_OF_A_ROW)
    return replace(rows._with(_BY_CANDIDATE, kept), sizes=np.minimum(rows.sizes, _MOST_OF_A_ROW))


def _shortened(columns: Mapping[str, Sequence[object]], where: Integers) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    room = _MOST_TEXT
    for name, cells in columns.items():
        texts = [_as_text(cells[row]) for row in where]
        room -= sum(len(text.encode()) for text in texts)
        if room < 0:
            break
        found[name] = texts
    return found


def _as_text(cell: object) -> str:
    text = "" if cell is None or cell != cell else f"{cell:.7g}" if isinstance(cell, float) else str(cell)
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def _read(text: str, kind: str) -> Any:
    array = np.frombuffer(base64.b64decode(text, validate=True), dtype=kind)
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
