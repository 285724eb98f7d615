"""Reading flat arrays, Python lists, padded arrays and plain labels.

Every reader, here and in the modules for tables and Arrow, returns a :class:`~plr.candidates.flat.Flat`. None decides
what an empty row or an infinite candidate means; :mod:`plr.candidates.checks` does, once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plr.candidates.checks import checked_offsets, name_rows
from plr.candidates.flat import Flat, Floats, own, rows_of
from plr.candidates.floats import as_floats, as_shares, complaint, floats_of, is_missing, is_number, is_row
from plr.errors import CandidateError, EmptySetError, LengthError, PriorError

__all__ = ["read_flat", "read_labels", "read_lists", "read_padded", "read_with_prior"]


def read_flat(values: ArrayLike, offsets: ArrayLike, prior: ArrayLike | None, slots: ArrayLike | None) -> Flat:
    """Read the candidates of all rows one after the other; ``offsets`` says where each row starts and ends."""
    flat = own(as_floats(values, "values"), np.float64)
    if flat.ndim != 1:
        raise CandidateError(f"values must have 1 dimension, not {flat.ndim}; from_padded takes 2-D arrays.")
    bounds = checked_offsets(offsets, len(flat))
    shares = None if prior is None else own(as_shares(prior, "prior"), np.float64)
    if shares is not None and shares.shape != flat.shape:
        raise PriorError(f"Give one prior per candidate: {len(flat)} candidates, prior of shape {shares.shape}.")
    places = None if slots is None else own(slots, np.int32)
    if places is not None and places.shape != flat.shape:
        raise CandidateError(f"Give one slot per candidate: {len(flat)} candidates, slots of shape {places.shape}.")
    return Flat(flat, np.diff(bounds), shares, places)


def read_with_prior(reader: Callable[[Any], Flat], rows: Any, prior: Any) -> Flat:
    """Read candidates, and a prior of the same shape in the same way."""
    flat = reader(rows)
    if prior is None:
        return flat
    try:
        shares = reader(prior)
    except CandidateError as problem:
        raise PriorError(f"The prior cannot be read: {problem}") from None
    return _with_prior(flat, shares)


def _with_prior(flat: Flat, prior: Flat) -> Flat:
    """Join candidates with priors read from a structure of the same shape."""
    if len(flat.sizes) != len(prior.sizes):
        raise LengthError(f"There are {len(flat.sizes)} rows of candidates but {len(prior.sizes)} rows of priors.")
    wrong = np.flatnonzero(flat.sizes != prior.sizes)
    if len(wrong):
        row = int(wrong[0])
        raise PriorError(
            f"Give one prior per candidate: row {row} has {flat.sizes[row]} candidates and {prior.sizes[row]} priors "
            f"({len(wrong)} such rows)."
        )
    return flat._replace(prior=prior.values)


def read_lists(lists: Iterable[Any]) -> Flat:
    """Read one sequence of numbers per row; a missing row counts as an empty one."""
    rows = lists if isinstance(lists, list) else list(lists)
    kinds = set(map(type, rows))
    if not all(map(is_row, kinds)):
        rows = [() if is_missing(row) else row for row in rows]
        _check_rows(rows)
    try:
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    except TypeError:
        _check_rows(rows)
        raise
    if kinds == {np.ndarray} and _are_plain(rows):
        return Flat(np.concatenate(rows).astype(np.float64, copy=False), sizes)
    flat = list(chain.from_iterable(rows))
    if not all(map(is_number, set(map(type, flat)))):
        place = next(place for place, item in enumerate(flat) if not is_number(type(item)))
        raise complaint(flat[place], name_rows(rows_of(np.array([place]), sizes)))
    return Flat(floats_of(flat, "The target", lambda place: name_rows(rows_of(np.array([place]), sizes))), sizes)


def _are_plain(rows: list[NDArray[Any]]) -> bool:
    dtypes = set(map(attrgetter("dtype"), rows))
    return set(map(attrgetter("ndim"), rows)) == {1} and all(dtype.kind in "fiub" for dtype in dtypes)


def _check_rows(rows: list[Any]) -> None:
    for number, row in enumerate(rows):
        if isinstance(row, (set, frozenset, Mapping)):
            raise CandidateError(
                f"Row {number} is a {type(row).__name__}, which has no order; "
                "candidates keep their positions, so give a list."
            )
        if not is_row(type(row)) or getattr(row, "ndim", 1) == 0:
            if is_number(type(row)):
                raise CandidateError(f"Row {number} is the single number {row!r} among lists; write [{row!r}].")
            raise complaint(row, f"row {number}")


def read_padded(array: Any, prior: Any = None) -> Flat:
    """Read one row per line of a 2-D array, NaN where there is no candidate."""
    table = as_floats(array, "The padded array")
    if table.ndim != 2:
        raise CandidateError(
            f"A padded array has 2 dimensions (rows, candidates); this one has {table.ndim}. "
            "For one label per row use CandidateSets.from_labels."
        )
    absent = np.isnan(table)
    shares = None if prior is None else _padded_prior(prior, table.shape)
    if not absent.any():
        sizes = np.full(len(table), table.shape[1], dtype=np.int64)
        return Flat(own(table, np.float64).reshape(-1), sizes, None if shares is None else shares.reshape(-1))
    present = ~absent
    sizes = np.count_nonzero(present, axis=1).astype(np.int64)
    gaps = bool((absent[:, :-1] & present[:, 1:]).any())
    slots = np.nonzero(present)[1].astype(np.int32) if gaps else None
    return Flat(table[present], sizes, None if shares is None else shares[present], slots)


def _padded_prior(prior: Any, shape: tuple[int, ...]) -> Floats:
    shares = as_shares(prior, "The prior")
    if shares.shape not in (shape, shape[1:]):
        raise LengthError(
            f"The prior has shape {shares.shape}; give {shape} (one per candidate) or {shape[1:]} (one per column)."
        )
    return np.broadcast_to(shares, shape).copy()


def read_labels(y: Any, empty: str) -> Flat:
    """Read one label per row; the messages about missing and infinite ones are those scikit-learn's checks expect."""
    labels = as_floats(y)
    if labels.ndim != 1:
        raise CandidateError(f"y should be a 1d array, got an array of shape {labels.shape} instead.")
    missing = np.isnan(labels)
    if missing.any() and empty == "raise":
        raise EmptySetError(
            f"Input y contains NaN. There is no label in {name_rows(np.flatnonzero(missing))}; leave those rows "
            'out of features and labels, or pass empty="drop" and take the rows in `kept`.'
        )
    if np.isinf(labels).any():
        raise CandidateError(
            "Input y contains infinity or a value too large for dtype('float64'). "
            f"Look at {name_rows(np.flatnonzero(np.isinf(labels)))}."
        )
    values = labels[~missing] if missing.any() else own(labels, np.float64)
    return Flat(values, (~missing).astype(np.int64))
