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
    held = np.flatnonzero(records >= 0)
    by_record = np.unique(records[held], return_inverse=True)[1]
    # How probable it is that other rows leave the record alone, as a log.
    left_alone = np.zeros(len(utility))
    for _ in range(_ROUNDS):
        # The odds that the row takes the record, if it were certainly free; and that any other row does.
        odds = utility - _log_sum_of_others(utility + left_alone, sets.rows)
        updated = -np.logaddexp(0.0, _log_sum_of_others(odds[held], by_record))
        change = np.abs(updated - left_alone[held]).max(initial=0.0)
        left_alone[held] += (1.0 - _DAMPING) * (updated - left_alone[held])
        if change < _SETTLED:
            break
    return sets.softmax(utility + left_alone)


def _log_sum_of_others(values: Floats, groups: NDArray[np.int64]) -> Floats:
    """Return log Σ exp over the other members of each one's group, very small where there are none.

    The sum of the others is not taken from the sum of all where one of them is most of it, and would leave no digit.
    """
    count = int(groups.max(initial=-1)) + 1
    order = np.lexsort((values, groups))
    last = order[np.append(groups[order][1:] != groups[order][:-1], True)] if len(order) else order
    top = np.zeros(count)
    top[groups[last]] = values[last]
    scaled = np.exp(values - top[groups])
    others = (np.bincount(groups, scaled, count))[groups] - scaled
    scaled[last] = 0.0
    others[last] = np.bincount(groups, scaled, count)[groups[last]]
    return np.asarray(top[groups] + np.log(np.maximum(others, np.finfo(float).tiny)))
