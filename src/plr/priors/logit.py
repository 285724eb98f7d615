"""A conditional logit over the candidates of each row: what makes a candidate believable, learned from checked rows.

The probability that candidate j of a row is the true one is proportional to exp(coefficients · features of j). What is
the same for all candidates of a row cancels. Coefficients are shrunk towards given centres, group by group, as strongly
as the evidence (Laplace's approximation of the marginal likelihood) asks for, so that a few checked rows do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

__all__ = ["Alternatives", "fit_logit"]

Floats = NDArray[np.float64]

_PASSES = 3
# A group that may be shrunk so strongly is in doubt: a penalty below the second has to gain so much log evidence.
_IN_DOUBT, _STRONG, _MARGIN = 100.0, 30.0, 2.0


@dataclass(frozen=True)
class Alternatives:
    """The candidates of several rows, one row after the other; sums, maxima and softmax within rows.

    Attributes
    ----------
    offsets : ndarray of shape (n_rows + 1,)
        Row ``i`` has the candidates from ``offsets[i]`` up to ``offsets[i + 1]``; no row is empty.
    """

    offsets: NDArray[np.int64]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of candidates of each row."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each candidate."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.sizes)

    def sum(self, values: Floats) -> Floats:
        """Return the sum over each row; of each column where there are several."""
        return np.add.reduceat(values, self.offsets[:-1], axis=0)

    def max(self, values: Floats) -> Floats:
        """Return the largest of each row."""
        return np.maximum.reduceat(values, self.offsets[:-1])

    def log_sum_exp(self, values: Floats) -> Floats:
        """Return log Σ exp over each row."""
        top = self.max(values)
        return top + np.log(self.sum(np.exp(values - top[self.rows])))

    def softmax(self, values: Floats) -> Floats:
        """Return shares in proportion to exp(values), summing to one in each row."""
        return np.exp(values - self.log_sum_exp(values)[self.rows])

    def take(self, chosen: NDArray[np.bool_]) -> tuple[Alternatives, NDArray[np.bool_]]:
        """Return the alternatives of the chosen rows, and which candidates these are."""
        offsets = np.append(0, np.cumsum(self.sizes[chosen]))
        return Alternatives(offsets.astype(np.int64)), chosen[self.rows]


def fit_logit(
    sets: Alternatives,
    features: Floats,
    true: NDArray[np.bool_],
    groups: Sequence[str],
    centre: Floats,
    penalties: Mapping[str, Sequence[float]],
    weights: Floats,
) -> Floats:
    """Return the coefficients.

    Parameters
    ----------
    sets : Alternatives
        The candidates of the checked rows.
    features : ndarray of shape (n_candidates, n_features)
    true : ndarray of shape (n_candidates,)
        Which candidate is the true one; where several equal it, the likelihood is that of their union.
    groups : sequence of str
        The group of each feature; features of a group share a penalty.
    centre : ndarray of shape (n_features,)
        What the coefficients are shrunk towards.
    penalties : dict of str to sequence of float
        The penalties to choose from, for each group. Where the largest is 100 or more, one below 30 is taken only if
        the evidence for it is clear.
    weights : ndarray of shape (n_rows,)
        How much each row counts.
    """
    names = sorted(set(groups))
    chosen = {name: max(penalties[name]) for name in names}

    def maximise(chosen: Mapping[str, float], start: Floats) -> tuple[float, Floats]:
        penalty = np.array([chosen[group] for group in groups])
        evidence, found = _maximise(sets, features, true, weights, centre, penalty, start)
        bold = sum(chosen[name] < _STRONG and max(penalties[name]) >= _IN_DOUBT for name in names)
        return evidence - _MARGIN * bold, found

    best = maximise(chosen, centre)
    # One group after the other, from the strongest penalties on.
    for _ in range(_PASSES):
        before = dict(chosen)
        for name in names:
            for penalty in penalties[name]:
                if penalty != chosen[name] and (found := maximise({**chosen, name: penalty}, best[1]))[0] > best[0]:
                    best, chosen = found, {**chosen, name: penalty}
        if chosen == before:
            break
    return best[1]


def _maximise(
    sets: Alternatives,
    features: Floats,
    true: NDArray[np.bool_],
    weights: Floats,
    centre: Floats,
    penalty: Floats,
    start: Floats,
) -> tuple[float, Floats]:
    """Return the log evidence for one penalty, and the likeliest coefficients under it."""
    rows = sets.rows
    ruled_out = np.where(true, 0.0, -np.inf)
    each = weights[rows]

    def objective(coefficients: Floats) -> tuple[float, Floats]:
        utility = features @ coefficients
        every, hit = sets.log_sum_exp(utility), sets.log_sum_exp(utility + ruled_out)
        difference = np.exp(utility - every[rows]) - np.where(true, np.exp(utility - hit[rows]), 0.0)
        away = coefficients - centre
        loss = weights @ (every - hit) + 0.5 * penalty @ away**2
        return float(loss), features.T @ (each * difference) + penalty * away

    solution = minimize(objective, start, jac=True, method="L-BFGS-B")
    utility = features @ solution.x

    def information(utility: Floats) -> Floats:
        share = sets.softmax(utility)[:, None] * features
        mean = sets.sum(share)
        return np.asarray((each[:, None] * share).T @ features - (weights[:, None] * mean).T @ mean)

    curvature = information(utility) - information(utility + ruled_out) + np.diag(penalty)
    sign, size = np.linalg.slogdet(curvature)
    evidence = -float(solution.fun) + 0.5 * float(np.log(penalty).sum()) - 0.5 * float(size)
    return (evidence if sign > 0 else -np.inf), solution.x
