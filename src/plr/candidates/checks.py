"""What every target must satisfy, however it was read, and messages that name the rows which do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plr.candidates.flat import Flat, Floats, Integers, Parts, offsets_of, own, rows_of, tidy_slots
from plr.errors import CandidateError, EmptySetError, PriorError, unknown_name

__all__ = ["checked", "checked_offsets", "checked_rows", "name_rows"]

_NAMED = 5


def name_rows(rows: Iterable[int] | Integers, names: Sequence[Any] | None = None) -> str:
    """Name the first few of some rows, and how many there are.

    >>> name_rows([4])
    'row 4'
    >>> name_rows(range(10, 40))
    'rows 10, 11, 12, 13, 14, ... (30 in all)'
    """
    found = list(rows)
    shown = [str(row) if names is None else repr(names[int(row)]) for row in found[:_NAMED]]
    more = f", ... ({len(found)} in all)" if len(found) > _NAMED else ""
    return f"row{'s' if len(found) > 1 else ''} {', '.join(shown)}{more}"


def checked_rows(rows: NDArray[Any], count: int) -> Integers:
    """Row numbers from a mask or an index array, negative ones counted from the end."""
    if rows.ndim != 1:
        raise IndexError(
            f"Rows are chosen by an integer, a slice, or a 1-D mask or index array, not {rows.ndim} dimensions."
        )
    if rows.dtype.kind == "b":
        if len(rows) != count:
            raise IndexError(f"The mask has {len(rows)} entries for {count} rows.")
        return np.flatnonzero(rows)
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    if rows.dtype.kind not in "iu":
        raise IndexError(f"Rows are chosen by integers or booleans, not {rows.dtype}.")
    wrong = rows[(rows >= count) | (rows < -count)]
    if len(wrong):
        raise IndexError(f"Index {wrong[0]} is out of range for {count} rows.")
    chosen = rows.astype(np.int64, copy=False)
    return np.where(chosen < 0, chosen + count, chosen) if chosen.min() < 0 else chosen


def checked_offsets(offsets: ArrayLike, count: int) -> Integers:
    """Where each row starts and ends among ``count`` values, as int64."""
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or not len(bounds) or bounds.dtype.kind not in "iu":
        raise CandidateError("offsets must be a 1-D array of integers with one entry more than there are rows.")
    bounds = bounds.astype(np.int64, copy=False)
    if bounds[0] != 0 or bounds[-1] != count:
        raise CandidateError(f"offsets must go from 0 to the {count} values, not from {bounds[0]} to {bounds[-1]}.")
    falls = np.flatnonzero(bounds[1:] < bounds[:-1])
    if len(falls):
        raise CandidateError(f"offsets must never fall; they do after {name_rows(falls)}.")
    return bounds


def checked(flat: Flat, empty: str) -> Parts:
    """Apply the rules all constructors share: finite candidates, no row without one, priors that sum to one."""
    if empty not in ("raise", "drop"):
        raise unknown_name("empty", empty, ["raise", "drop"])
    values, sizes, prior, slots, names = flat
    finite = np.isfinite(values)
    if not finite.all():
        rows = rows_of(np.flatnonzero(~finite), sizes)
        kind = "NaN" if np.isnan(values[~finite][0]) else "infinite"
        remedy = "leave missing candidates out of the list" if kind == "NaN" else "leave it out or correct it"
        raise CandidateError(
            f"A candidate that is {kind} inside {name_rows(rows, names)} ({len(rows)} of {len(sizes)} rows have one "
            f"that is not finite); {remedy}."
        )
    kept = None
    if len(sizes) and sizes.min() == 0:
        hollow = np.flatnonzero(sizes == 0)
        if empty == "raise":
            raise EmptySetError(
                f"{len(hollow)} of {len(sizes)} rows have no candidate: {name_rows(hollow, names)}. Give each at least "
                'one, or make the target by CandidateSets.from_lists(lists, empty="drop") or its like, and take the '
                "rows in its `kept` from the features."
            )
        kept = np.flatnonzero(sizes)
        sizes = sizes[kept]
    offsets = offsets_of(sizes)
    if prior is not None:
        prior = _normalised(prior, offsets, lambda rows: name_rows(rows if kept is None else kept[rows], names))
    return Parts(values, offsets, prior, tidy_slots(slots, offsets), kept)


def _normalised(prior: Floats, offsets: Integers, name: Callable[[Integers], str]) -> Floats:
    sizes, starts = np.diff(offsets), offsets[:-1]
    for problem, wrong in (("not finite", ~np.isfinite(prior)), ("negative", prior < 0)):
        if wrong.any():
            rows = rows_of(np.flatnonzero(wrong), sizes)
            raise PriorError(
                f"{len(rows)} of {len(sizes)} rows have a prior that is {problem}: {name(rows)}. "
                "A prior is a finite number, zero or more, for each candidate."
            )
    largest = np.maximum.reduceat(prior, starts)
    if not largest.all():
        rows = np.flatnonzero(largest == 0)
        raise PriorError(
            f"{len(rows)} of {len(sizes)} rows have a prior of zero for every candidate: {name(rows)}. "
            "Give at least one candidate a positive prior."
        )
    with np.errstate(over="ignore"):
        total = np.add.reduceat(prior, starts)
    # What is normalised already stays as it is, so that reading a prior back changes no bit of it.
    done = np.abs(total - 1) <= 4 * sizes * np.finfo(np.float64).eps
    if done.all():
        return own(prior, np.float64)
    # Dividing by the largest first keeps tiny priors from vanishing and huge ones from overflowing.
    scaled = prior / np.repeat(np.where(done, 1.0, largest), sizes)
    return scaled / np.repeat(np.where(done, 1.0, np.add.reduceat(scaled, starts)), sizes)
