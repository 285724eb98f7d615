"""What is computed from candidate sets: chosen, joined and merged rows, and their means.

Each function that gives new candidate sets returns their parts; :mod:`plr.candidates.container` puts those together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from plr.candidates.flat import Floats, Integers, Parts, offsets_of, positions, tidy_slots

if TYPE_CHECKING:
    from plr.candidates.container import CandidateSets

__all__ = ["chosen_rows", "joined", "means", "merged", "row_range"]


def row_range(S: CandidateSets, start: int, stop: int) -> Parts:
    """Take the rows from ``start`` up to ``stop``, as views."""
    first, last = S.offsets[start], S.offsets[stop]
    offsets = S.offsets[start : stop + 1] - first
    prior = None if S.prior is None else S.prior[first:last]
    slots = None if S.slots is None else tidy_slots(S.slots[first:last], offsets)
    return Parts(S.values[first:last], offsets, prior, slots)


def chosen_rows(S: CandidateSets, rows: Integers) -> Parts:
    """Copy these rows, in this order; a row may come several times."""
    starts = S.offsets[rows]
    sizes = S.offsets[rows + 1] - starts
    offsets = offsets_of(sizes)
    places = np.repeat(starts - offsets[:-1], sizes)
    places += np.arange(offsets[-1])
    prior = None if S.prior is None else S.prior[places]
    slots = None if S.slots is None else tidy_slots(S.slots[places], offsets)
    return Parts(S.values[places], offsets, prior, slots)


def joined(sets: Sequence[CandidateSets]) -> Parts:
    """Put the rows of several objects one after the other."""
    offsets = offsets_of(np.concatenate([np.empty(0, np.int64), *(S.sizes for S in sets)]))
    values = np.concatenate([np.empty(0), *(S.values for S in sets)])
    prior = slots = None
    if any(S.prior is not None for S in sets):
        prior = np.concatenate([S.prior_or_uniform for S in sets])
    if any(S.slots is not None for S in sets):
        slots = np.concatenate([positions(S.offsets) if S.slots is None else S.slots for S in sets])
    return Parts(values, offsets, prior, tidy_slots(slots, offsets))


def merged(S: CandidateSets) -> Parts | None:
    """Merge equal candidates of a row into the first of them, adding up their priors; None where none are equal."""
    rows = S.row_index
    order = np.lexsort((S.values, rows))
    ordered, owners = S.values[order], rows[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]) | (owners[1:] != owners[:-1])
    if first.all():
        return None
    groups = np.flatnonzero(first)
    prior = np.empty(len(order))
    if S.prior is None:
        prior[order[groups]] = np.diff(groups, append=len(order)) / S.sizes[owners[groups]]
    else:
        prior[order[groups]] = np.add.reduceat(S.prior[order], groups)
    leaders = np.sort(order[groups])
    offsets = offsets_of(np.bincount(rows[leaders], minlength=len(S)))
    slots = positions(S.offsets) if S.slots is None else S.slots
    return Parts(S.values[leaders], offsets, prior[leaders], tidy_slots(slots[leaders], offsets))


def means(S: CandidateSets) -> Floats:
    """Prior-weighted mean of each row."""
    starts = S.offsets[:-1]
    # Weighing before adding keeps the sum of huge candidates finite.
    shares = S.values / np.repeat(S.sizes, S.sizes) if S.prior is None else S.values * S.prior
    total = np.add.reduceat(shares, starts)
    # A mean lies among its candidates; rounding alone may push it out.
    return np.clip(total, np.minimum.reduceat(S.values, starts), np.maximum.reduceat(S.values, starts))
