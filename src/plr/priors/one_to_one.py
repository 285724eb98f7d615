"""Probabilities under the condition that no record is the true one of two rows.

Belief propagation between rows, each of which takes one of its candidates, and records, each of which is taken at most
once. Exact where rows and records form no loops, and a good approximation of the marginals elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plr.priors.logit import Alternatives

__all__ = ["one_to_one_shares"]

Floats = NDArray[np.float64]

_ROUNDS = 200
_SETTLED = 1e-6
_DAMPING = 0.5


def one_to_one_shares(sets: Alternatives, utility: Floats, records: NDArray[np.int64]) -> Floats:
    """Return the probability of each candidate, summing to one in each row.

    Parameters
    ----------
    sets : Alternatives
    utility : ndarray of shape (n_candidates,)
        Log of each candidate's share without the condition, up to a constant for each row.
    records : ndarray of shape (n_candidates,)
        Which record each candidate is, counted from 0; below 0 where it is none, and never taken by another row.
    """
    free = records < 0
    places = np.where(free, 0, records)
    # How probable it is that other rows leave the record alone, as a log.
    left_alone = np.zeros(len(utility))
    size = int(places.max(initial=0)) + 1
    for _ in range(_ROUNDS):
        total = utility + left_alone
        share = sets.softmax(total)
        # The odds that the row takes the record, if it were certainly free.
        odds = share / np.maximum(1.0 - share, 1e-12) / np.exp(left_alone)
        taken = np.bincount(places, np.where(free, 0.0, odds), size)
        updated = np.where(free, 0.0, -np.log1p(np.maximum(taken[places] - odds, 0.0)))
        change = np.abs(updated - left_alone).max()
        left_alone = _DAMPING * left_alone + (1.0 - _DAMPING) * updated
        if change < _SETTLED:
            break
    return sets.softmax(utility + left_alone)
