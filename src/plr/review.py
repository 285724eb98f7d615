"""Which rows are most worth checking next.

An answer teaches what makes candidates believable in all rows, counted in nats of log loss that it is expected to save.
What it teaches is the Fisher information of a conditional logit over the row's candidates; what is not yet known about
the coefficients costs, over all rows, half the trace of the rows' information times the coefficients' covariance
(V-optimal design). Rows that repeat one another teach little twice, so the choice spreads over the features of
candidates by itself; over the features of rows it is spread by sampling. That an answer also settles its own row counts
for little, so that it decides where there is nothing to teach: rows chosen because they are hard are unlike the others,
and what they teach is wrong for these.

Each row gets a probability to be chosen: those that minimise the expected loss, mixed with equal ones for all rows.
Then as many rows as asked are drawn with exactly these probabilities (systematic sampling, along an order in which
neighbours are alike). So estimates from checked rows can be corrected by inverse probabilities, and those marked as
random are an equal-probability sample (active inference: Zrnic and Candès, 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.priors.logit import Alternatives
from plr.threads import one_blas_thread

__all__ = ["RANDOM", "REVIEW", "Review", "choose_rows", "worth_checking"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

REVIEW, RANDOM = "review", "random"
"""How a row was chosen: for what its answer teaches, or by equal probabilities."""

# How much it counts that an answer settles its own row.
_ALONE = 0.01
# The share of the rows that is drawn by equal probabilities, and how many are, all in all, before any other: as long as
# nothing has been learned, what rows would teach is not known either.
_RANDOM_SHARE, _FIRST = 0.2, 10
# Of more rows than this, a random sample is looked at.
_MOST_ROWS = 20_000
# Entries of all rows' matrices of information; with many features, fewer rows are looked at.
_MOST_ENTRIES = 20_000_000
_STEPS = 10
# Coefficients are drawn so many times, each on both sides of those learned.
_DRAWS = 8
_LEAST, _ROUNDING, _FARTHEST = float(np.finfo(float).tiny), 1e-10, 100.0
# So many checked rows teach most of what makes candidates believable, and after so many, more teach little; at a time,
# check at least these.
_MOST_LEARNED, _ENOUGH, _AT_A_TIME = 50, 100, 20
# Where false candidates do not depend on the features, rows are worth checking if more than this share is in doubt.
_MANY_IN_DOUBT = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class Review:
    """Rows worth checking, in random order: the first of them are such a choice, too.

    Attributes
    ----------
    row : ndarray of shape (n,)
        Which rows, counted from 0.
    sets : CandidateSets of n rows
        Their candidates, with records where there are some.
    probabilities : ndarray, one entry per candidate
        How probable each is to be the true one, flat, aligned with ``sets.offsets``.
    missing : ndarray of shape (n,)
        How probable it is that none of the row's candidates is true.
    chosen : ndarray of str of shape (n,)
        ``"review"`` where the row was chosen for what its answer teaches, ``"random"`` where by equal probabilities.
    probability : ndarray of shape (n,)
        With which probability the row was chosen, in either way.
    """

    row: Integers
    sets: CandidateSets
    probabilities: Floats
    missing: Floats
    chosen: NDArray[np.str_]
    probability: Floats

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"Review({len(self)} rows, {int((self.chosen == RANDOM).sum())} of them by equal probabilities)"

    def candidates(self, place: int) -> list[dict[str, Any]]:
        """Return the candidates of one row as plain values, the likeliest first."""
        begin, end = self.sets.offsets[place : place + 2]
        order = begin + np.argsort(-self.probabilities[begin:end], kind="stable")
        record = self.sets.record
        return [
            {
                "value": float(self.sets.values[at]),
                "probability": float(self.probabilities[at]),
                **({} if record is None else {"record": str(record[at])}),
            }
            for at in order
        ]


@one_blas_thread()
def choose_rows(
    n: int,
    S: CandidateSets,
    probabilities: Floats,
    open_rows: Booleans,
    features: Floats,
    coefficients: Floats,
    precision: Floats,
    checked: Booleans,
    position: Floats | None,
    rng: np.random.Generator,
    elsewhere: int = 0,
) -> tuple[Integers, NDArray[np.str_], Floats]:
    """Return the rows to check in random order, how each was chosen, and with what probability.

    Parameters
    ----------
    n : int
        How many; fewer where fewer are open.
    S : CandidateSets
    probabilities : ndarray, one entry per candidate
    open_rows : ndarray of bool, one entry per row
        Rows that can be chosen.
    features : ndarray of shape (n_candidates, n_features)
        What makes candidates believable.
    coefficients, precision : ndarray of shape (n_features,)
        How much each counts, and how sure that would be without checked rows.
    checked : ndarray of bool, one entry per row
        Rows that the coefficients were learned from.
    position : ndarray of shape (n_rows, n_dimensions) or None
        Where each row is in the space of the rows' features, to spread the choice over.
    rng : Generator
    elsewhere : int
        How many rows beside those here the coefficients were learned from; they are taken to be like these.
    """
    every = np.flatnonzero(open_rows)
    most = min(_MOST_ROWS, max(_MOST_ENTRIES // max(features.shape[1], 1) ** 2, n))
    pool = np.sort(rng.choice(every, most, replace=False)) if len(every) > most else every
    n = min(n, len(pool))
    if n == 0:
        return pool[:0], np.empty(0, dtype=str), np.empty(0)
    sets = Alternatives(S.offsets)
    # What is the same for all candidates of a row says nothing; beyond some distance, all is certain.
    features = np.clip(features - (sets.sum(features) / sets.sizes[:, None])[sets.rows], -_FARTHEST, _FARTHEST)
    known, of_known = sets.take(checked)
    learned = features[of_known]
    information = np.diag(precision) + _information(known, learned, [known.softmax(learned @ coefficients)]).sum(axis=0)
    part, of_pool = sets.take(np.isin(np.arange(len(S)), pool))
    if elsewhere:
        alike = _information(part, features[of_pool], [part.softmax(features[of_pool] @ coefficients)])
        information += elsewhere * alike.mean(axis=0)
    shares = _draw_shares(part, probabilities[of_pool], features[of_pool], information, rng)
    own = _ALONE * _worth_alone(part, S.values[of_pool], np.mean(shares, axis=0))
    rows = _Design(_information(part, features[of_pool], shares), information, len(every) / len(pool))
    equal = np.full(len(pool), n / len(pool))
    best = rows.improve(equal, own, n)
    by_equal = min(max(_RANDOM_SHARE, (_FIRST - int(checked.sum()) - elsewhere) / n), 1.0)
    inclusion = np.minimum((1.0 - by_equal) * best + by_equal * equal, 1.0)
    order = np.arange(len(pool)) if position is None else _neighbouring(position[pool])
    drawn = order[_systematic(inclusion[order], n, rng)]
    # Of a row's probability this part is by equal ones.
    by_chance = rng.random(n) < by_equal * equal[drawn] / inclusion[drawn]
    shuffled = rng.permutation(n)
    probability = inclusion[drawn] * len(pool) / len(every)
    return pool[drawn][shuffled], np.where(by_chance, RANDOM, REVIEW)[shuffled], probability[shuffled]


def worth_checking(depends: bool, checked: int, several: int, doubtful: int) -> int:
    """Return how many rows to check next; 0 where their answers would change little.

    Parameters
    ----------
    depends : bool
        Whether false candidates depend on the features, so that the sets alone do not say which are true.
    checked, several, doubtful : int
        Rows that have been checked, that have several candidates, and that are in doubt.
    """
    if depends:
        wanted = max(_MOST_LEARNED - checked, _AT_A_TIME) if checked < _ENOUGH else 0
        return min(wanted, max(several - checked, 0))
    return min(_AT_A_TIME, doubtful) if doubtful > _MANY_IN_DOUBT * several else 0


def _draw_shares(
    sets: Alternatives, probabilities: Floats, features: Floats, information: Floats, rng: np.random.Generator
) -> list[Floats]:
    """Return shares of the candidates under coefficients that are drawn around those learned, as sure as they are."""
    utility = np.log(np.maximum(probabilities, _LEAST))
    # A square root of the inverse; in units of each coefficient, so that rounding does not matter.
    unit = np.sqrt(np.diag(information))
    root = np.linalg.cholesky(information / np.outer(unit, unit) + _ROUNDING * np.eye(len(unit)))
    moved = features / unit @ np.linalg.solve(root.T, rng.standard_normal((len(root), _DRAWS)))
    return [sets.softmax(utility + sign * move) for move in moved.T for sign in (1.0, -1.0)]


def _information(sets: Alternatives, features: Floats, shares: Sequence[Floats]) -> Floats:
    """Return each row's Fisher information about the coefficients: the mean over several shares."""
    weighted, width = np.mean(shares, axis=0)[:, None] * features, features.shape[1]
    found = np.empty((len(sets.sizes), width, width))
    for place, column in enumerate(features.T):
        found[:, place] = sets.sum(weighted * column[:, None])
    for share in shares:
        mean = sets.sum(share[:, None] * features)
        found -= mean[:, :, None] * mean[:, None, :] / len(shares)
    return found


def _worth_alone(sets: Alternatives, values: Floats, shares: Floats) -> Floats:
    """Return what an answer settles in its own row, in nats: half by its entropy, half by the spread of its labels."""
    entropy = -sets.sum(shares * np.log(np.maximum(shares, _LEAST)))
    away = values - sets.sum(shares * values)[sets.rows]
    variance = sets.sum(shares * (away / max(float(np.abs(away).max()), _LEAST)) ** 2)
    total = float(variance.sum())
    return 0.5 * (entropy + variance * (float(entropy.sum()) / total)) if total > 0 else entropy


class _Design:
    """What rows teach about the coefficients.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features, n_features)
        The information of each row.
    known : ndarray of shape (n_features, n_features)
        The information that is there already.
    counts : float
        How many rows each of these stands for.
    """

    def __init__(self, rows: Floats, known: Floats, counts: float) -> None:
        self._rows, self._known, self._all = rows, known, counts * rows.sum(axis=0)

    def worth(self, chosen: Floats) -> Floats:
        """Return the nats that one more answer of each row saves in all rows, if rows were chosen with these shares."""
        inverse = np.linalg.inv(self._known + np.tensordot(chosen, self._rows, axes=1))
        return np.asarray(0.5 * np.tensordot(self._rows, inverse @ self._all @ inverse, axes=2))

    def improve(self, chosen: Floats, own: Floats, n: int) -> Floats:
        """Return inclusion probabilities with a smaller expected loss, which sum to n.

        The loss is convex in the probabilities; each step multiplies them by what rows are worth (the multiplicative
        algorithm of optimal design). Few steps leave a part to all rows that are worth something.
        """
        for _ in range(_STEPS):
            chosen = _inclusion(chosen * np.maximum(self.worth(chosen) + own, _LEAST), n)
        return chosen


def _inclusion(size: Floats, n: int) -> Floats:
    """Return probabilities in proportion to the sizes, none above 1, that sum to n."""
    ranked = np.sort(size)[::-1]
    left = np.cumsum(ranked[::-1])[::-1]
    # The first so many are certain: with them, the next would not be.
    certain = np.arange(len(ranked))
    several = int(np.argmax((n - certain) * ranked <= left))
    return np.minimum(size * ((n - several) / left[several]), 1.0)


def _systematic(inclusion: Floats, n: int, rng: np.random.Generator) -> Integers:
    """Return n places, each drawn with its probability: one in each unit of their running sum."""
    ends = np.cumsum(inclusion)
    ends *= n / ends[-1]
    return np.minimum(np.searchsorted(ends, np.arange(n) + rng.random(), side="right"), len(ends) - 1)


def _neighbouring(position: Floats) -> Integers:
    """Return an order of rows in which those near each other are alike: halves of halves, by the widest dimension."""

    def halve(rows: Integers) -> Integers:
        if len(rows) < 8:
            return rows
        part = position[rows]
        widest = int(np.argmax(part.var(axis=0)))
        rows = rows[np.argsort(part[:, widest], kind="stable")]
        middle = len(rows) // 2
        return np.concatenate([halve(rows[:middle]), halve(rows[middle:])])

    return halve(np.arange(len(position))) if position.shape[1] else np.arange(len(position))
