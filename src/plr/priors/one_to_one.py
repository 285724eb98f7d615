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

_ROUNDS = 100
_SETTLED = 1e-4
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
    # Candidates that are records, those of the same record one after the other.
    held = np.flatnonzero(records >= 0)
    held = held[np.argsort(records[held], kind="stable")]
    by_record = Alternatives(np.append(np.unique(records[held], return_index=True)[1], len(held)))
    # How probable it is that other rows leave the record alone, as a log.
    left_alone = np.zeros(len(utility))
    for _ in range(_ROUNDS if len(held) else 0):
        # The odds that the row takes the record, if it were certainly free; and that any other row does.
        odds = utility - _log_sum_of_others(sets, utility + left_alone)
        updated = -np.logaddexp(0.0, _log_sum_of_others(by_record, odds[held]))
        change = np.abs(updated - left_alone[held]).max()
        left_alone[held] += (1.0 - _DAMPING) * (updated - left_alone[held])
        if change < _SETTLED:
            break
    return sets.softmax(utility + left_alone)


def _log_sum_of_others(sets: Alternatives, values: Floats) -> Floats:
    """Return log Σ exp over the others of each one's set, very small where there are none.

    Where one is most of the sum, the sum of the others is added up without it: a difference would leave no digit.
    """
    top = sets.max(values)[sets.rows]
    scaled = np.exp(values - top)
    others = sets.sum(scaled)[sets.rows] - scaled
    highest = np.flatnonzero(values == top)
    highest = highest[np.append(True, np.diff(sets.rows[highest]) > 0)]
    scaled[highest] = 0.0
    others[highest] = sets.sum(scaled)
    return np.asarray(top + np.log(np.maximum(others, np.finfo(float).tiny)))
