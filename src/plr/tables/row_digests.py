"""Rows that a model was trained on, recognised one by one in any other table."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from plr.candidates import CandidateSets
    from plr.regressor import PartialLabelRegressor

__all__ = ["SeenRows", "row_digests", "table_digest"]

Digests = NDArray[np.uint64]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def row_digests(X: pa.Table, sets: CandidateSets) -> Digests:
    """Return two digests of each row: of its features, and of its features and candidates.

    Equal rows have equal digests in every table: what counts are values, not how they were written, nor the order of
    the candidates.

    Parameters
    ----------
    X : pyarrow.Table
        Features, as `plr.columns.Features` makes them.
    sets : CandidateSets

    Returns
    -------
    ndarray of shape (2, n)

    Examples
    --------
    >>> from plr.candidates import CandidateSets
    >>> X, S = pa.table({"x": [1.0, 2.0], "k": ["a", None]}), CandidateSets.from_lists([[3.0, 4.0], [5.0]])
    >>> backwards = row_digests(X.take([1, 0]), CandidateSets.from_lists([[5.0], [4.0, 3.0]]))
    >>> bool((row_digests(X, S) == backwards[:, ::-1]).all())
    True
    """
    features = _features_digest(X)
    return np.stack([features, _with_candidates(features, sets)])


def table_digest(X: pa.Table, sets: CandidateSets) -> str:
    """Return a fingerprint of some rows and their candidates, in their order."""
    return hashlib.sha256(row_digests(X, sets).tobytes()).hexdigest()


class SeenRows:
    """The training rows of a model: which rows of a table are among them, and what was predicted for them out of fold.

    Of rows that are equal, the first in a table is the first of training, and so on; after the last comes the first.

    Parameters
    ----------
    model : PartialLabelRegressor
        With digests of its training rows.

    Attributes
    ----------
    prediction : ndarray or None
        What models that had not seen a training row predicted for it; None where nothing of the kind is known.
    scale : ndarray or None
        The same for each row's noise scale.
    """

    def __init__(self, model: PartialLabelRegressor) -> None:
        digests = model._row_digests
        assert digests is not None
        self._known = [_Multiset(entries) for entries in digests]
        # A file that was written without them has empty arrays here.
        by_row = [
            None if values is None or len(values) != digests.shape[1] else values
            for values in (
                model.model_.held_out,
                model.model_.out_of_fold,
                model._out_of_fold,
                model.model_.relative_scale,
            )
        ]
        self.prediction = next((values for values in by_row[:3] if values is not None), None)
        self.scale = by_row[3]

    def find(self, X: pa.Table, sets: CandidateSets | None) -> Rows:
        """Return the number of each row among the training rows, -1 where it is not among them.

        Parameters
        ----------
        X : pyarrow.Table
        sets : CandidateSets or None
            The candidates of these rows. Rows that have none, as ``sets.kept`` says, are recognised by their features.
        """
        features = _features_digest(X)
        if sets is None:
            return self._known[0].find(features)
        kept = np.arange(len(features)) if sets.kept is None else sets.kept
        found = np.full(len(features), -1)
        found[kept] = self._known[1].find(_with_candidates(features[kept], sets))
        bare = np.ones(len(features), dtype=bool)
        bare[kept] = False
        found[bare] = self._known[0].find(features[bare])
        return found

    def predict(self, trained: Rows, prediction: Floats, scale: Floats | None) -> tuple[Floats, Floats | None]:
        """Return predictions and noise scales, those of training rows out of fold where known.

        Parameters
        ----------
        trained : ndarray of int
            As of `find`.
        prediction, scale : ndarray
            What the model itself says about the rows.
        """
        known = trained >= 0
        if self.prediction is not None:
            prediction = np.where(known, self.prediction[trained], prediction)
        if self.scale is not None and scale is not None:
            scale = np.where(known, self.scale[trained], scale)
        return prediction, scale


class _Multiset:
    """Where digests are in an array, equal ones in turn."""

    def __init__(self, digests: Digests) -> None:
        self._order = np.argsort(digests, kind="stable")
        self._unique, self._first, self._times = np.unique(digests[self._order], return_index=True, return_counts=True)
        self._given = np.zeros(len(self._unique), dtype=np.int64)

    def find(self, digests: Digests) -> Rows:
        found = np.full(len(digests), -1)
        places = np.minimum(np.searchsorted(self._unique, digests), len(self._unique) - 1)
        there = np.flatnonzero(self._unique[places] == digests)
        if not there.size:
            return found
        # Rows in the order of what they equal, and within that in their own.
        there = there[np.argsort(places[there], kind="stable")]
        which, begin, times = np.unique(places[there], return_index=True, return_counts=True)
        turn = np.arange(len(there)) - np.repeat(begin, times) + np.repeat(self._given[which], times)
        self._given[which] += times
        places = places[there]
        found[there] = self._order[self._first[places] + turn % self._times[places]]
        return found


def _features_digest(X: pa.Table) -> Digests:
    total = np.zeros(X.num_rows, dtype=np.uint64)
    for name in X.column_names:
        total = _mixed(total ^ _column_digest(X[name]))
    return total


def _with_candidates(features: Digests, sets: CandidateSets) -> Digests:
    # A sum, since candidates have no order that matters.
    return _mixed(features + np.add.reduceat(_mixed(_bits(sets.values)), sets.offsets[:-1])) if len(sets) else features


def _column_digest(column: pa.ChunkedArray) -> Digests:
    if not pa.types.is_string(column.type):
        return _mixed(_bits(np.asarray(column.to_numpy(), dtype=np.float64)))
    encoded = column.combine_chunks().dictionary_encode()
    texts = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in encoded.dictionary.to_pylist()]
    # The last one is for cells that are empty.
    digests = np.append(np.frombuffer(b"".join(texts), dtype="<u8").astype(np.uint64), np.uint64(0))
    return digests[np.asarray(pc.fill_null(encoded.indices, len(texts)))]


def _bits(values: Any) -> Digests:
    """Return numbers as their bits, the same for both zeros and for everything that is no number."""
    same = np.where(np.isnan(values), np.nan, values + 0.0)
    return np.ascontiguousarray(same, dtype="<f8").view("<u8").astype(np.uint64, copy=False)


def _mixed(bits: Digests) -> Digests:
    """Return a permutation of all 64-bit numbers in which nothing of their order is left (SplitMix64's)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
