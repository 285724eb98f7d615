"""The ragged layout: the candidates of all rows one after the other, how many each row has, and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_choice
from plr.errors import CandidateError, EmptySetError, PriorError

__all__ = [
    "Flat",
    "Floats",
    "Integers",
    "Parts",
    "checked",
    "name_rows",
    "offsets_of",
    "positions",
    "rows_of",
    "tidy_slots",
    "unshared",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Parts = tuple[Floats, Integers, Floats | None, NDArray[np.int32] | None, Integers | None]
"""Checked values, offsets, prior, slots and kept rows, as the properties of the same names have them."""

Names = Callable[[int], Any]
"""What gives the id of a row, for messages; only those that are named are looked up."""

_NAMED = 5


class Flat(NamedTuple):
    """Candidates of all rows one after the other, as read: not yet checked, and the prior not yet normalised."""

    values: Floats
    sizes: Integers
    prior: Floats | None = None
    slots: NDArray[np.int32] | None = None
    names: Names | None = None


def offsets_of(sizes: Integers) -> Integers:
    """Where each row starts in the flat array, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def positions(offsets: Integers) -> Integers:
    """Position of every candidate within its own row."""
    return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def rows_of(flat: Integers, sizes: Integers) -> Integers:
    """Rows that these places of the flat array belong to, each named once."""
    return np.unique(np.searchsorted(offsets_of(sizes), flat, side="right") - 1)


def unshared(data: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Convert to a contiguous array nobody else can write to: the same where it is read-only, else a copy."""
    array = np.ascontiguousarray(data, dtype=dtype)
    shared = array is data or array.base is not None
    return array.copy() if shared and array.flags.writeable else array


def tidy_slots(slots: Integers | NDArray[np.int32] | None, offsets: Integers) -> NDArray[np.int32] | None:
    """Drop slots that say no more than the positions do."""
    if slots is None or np.array_equal(slots, positions(offsets)):
        return None
    return slots.astype(np.int32, copy=False)


def name_rows(rows: Iterable[int] | Integers, names: Names | None = None) -> str:
    """Name the first few of some rows, and how many there are.

    >>> name_rows([4])
    'row 4'
    >>> name_rows(range(10, 40))
    'rows 10, 11, 12, 13, 14, ... (30 in all)'
    """
    found = list(rows)
    shown = [str(row) if names is None else repr(names(int(row))) for row in found[:_NAMED]]
    more = f", ... ({len(found)} in all)" if len(found) > _NAMED else ""
    return f"row{'s' if len(found) > 1 else ''} {', '.join(shown)}{more}"


def checked(flat: Flat, empty: str) -> Parts:
    """Apply the rules of all constructors: finite candidates, no row without one, priors that sum to one."""
    check_choice("empty", empty, ("raise", "drop"))
    values, sizes, prior, slots, names = flat
    finite = np.isfinite(values)
    if not finite.all():
        rows, value = rows_of(np.flatnonzero(~finite), sizes), float(values[~finite][0])
        kind, remedy = ("NaN", "leave missing candidates out of the list")
        if not np.isnan(value):
            kind, remedy = ("infinite", "leave it out or correct it")
        raise CandidateError(
            f"A candidate that is {kind} inside {name_rows(rows, names)} ({len(rows)} of {len(sizes)} rows have one "
            f"that is not finite); {remedy}.",
            row=_first(rows, names),
            value=value,
            problem=f"a candidate is {kind}; {remedy}.",
        )
    kept = None
    if len(sizes) and sizes.min() == 0:
        rows = np.flatnonzero(sizes == 0)
        if empty == "raise":
            raise EmptySetError(
                f"{len(rows)} of {len(sizes)} rows have no candidate: {name_rows(rows, names)}. Give each at least "
                'one, or leave them out: CandidateSets.from_lists(lists, empty="drop") and the other constructors do, '
                "and `kept` says which rows of the features remain.",
                row=_first(rows, names),
            )
        kept = np.flatnonzero(sizes)
        sizes = sizes[kept]
    offsets = offsets_of(sizes)
    if prior is not None:
        prior = _normalised(prior, offsets, kept, names)
    return values, offsets, prior, tidy_slots(slots, offsets), kept


def _first(rows: Integers, names: Names | None) -> Any:
    return int(rows[0]) if names is None else names(int(rows[0]))


def _normalised(prior: Floats, offsets: Integers, kept: Integers | None, names: Names | None) -> Floats:
    sizes, starts = np.diff(offsets), offsets[:-1]

    def check(wrong: Integers, problem: str, remedy: str) -> None:
        if len(wrong):
            rows = wrong if kept is None else kept[wrong]
            raise PriorError(
                f"{len(rows)} of {len(sizes)} rows have a prior {problem}: {name_rows(rows, names)}. {remedy}",
                row=_first(rows, names),
                problem=f"it has a prior {problem}. {remedy}",
            )

    for problem, wrong in (("not finite", ~np.isfinite(prior)), ("negative", prior < 0)):
        remedy = "A prior is a finite number, zero or more, for each candidate."
        check(rows_of(np.flatnonzero(wrong), sizes), f"that is {problem}", remedy)
    largest = np.maximum.reduceat(prior, starts)
    remedy = "Give at least one candidate a positive prior."
    check(np.flatnonzero(largest == 0), "of zero for every candidate", remedy)
    with np.errstate(over="ignore"):
        total = np.add.reduceat(prior, starts)
    # What is normalised already stays as it is, so that reading a prior back changes no bit of it.
    done = np.abs(total - 1) <= 4 * sizes * np.finfo(np.float64).eps
    if done.all():
        return unshared(prior, np.float64)
    # Dividing by the largest first keeps tiny priors from vanishing and huge ones from overflowing.
    scaled = prior / np.repeat(np.where(done, 1.0, largest), sizes)
    return scaled / np.repeat(np.where(done, 1.0, np.add.reduceat(scaled, starts)), sizes)
