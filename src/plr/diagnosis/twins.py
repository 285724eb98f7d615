"""Twins: candidates of a row that follow from its features equally well, since a relation of all rows ties them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from plr.candidates import CandidateSets
from plr.contracts import Task
from plr.diagnosis.ambiguity import Relation

__all__ = ["always_one_side", "follows_one_of_two", "related", "share_alike", "telling_rows"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# From this share of the rows on, and from so many, those on the other side say which side is the true one.
_OTHER_SIDE, _LEAST_OTHERS = 0.02, 5
# Errors that a function may have, and those of rows on the other side, relative to the distance of the two sides.
_SMALL, _ONE_STEP = 0.2, (0.7, 1.3)
# A candidate of this probability counts as chosen; so many rows must have one.
_CHOSEN, _LEAST_ROWS = 0.8, 20
# Where twins would be at least this share of the spread apart, a label says which of the two is true.
_APART = 0.05
_COMPARED_AT_A_TIME = 4_000_000


def related(S: CandidateSets, relation: Relation, spread: float) -> tuple[Integers, Integers]:
    """Return places of candidates, and of those in the same row that they are tied to: the larger by a ratio, say."""
    slope, offset = relation.line
    first: list[Integers] = [np.empty(0, dtype=np.int64)]
    second = list(first)
    for size in np.unique(S.sizes[S.sizes > 1]):
        rows = np.flatnonzero(S.sizes == size)
        for part in np.array_split(rows, max(1, len(rows) * int(size) ** 2 // _COMPARED_AT_A_TIME)):
            begin = S.offsets[part]
            values = S.values[begin[:, None] + np.arange(size)]
            wanted = slope * values + offset
            ties = relation.near(values[:, None, :], wanted[:, :, None], spread) & (
                values[:, None, :] != values[:, :, None]
            )
            row, one, other = np.nonzero(ties)
            first.append(begin[row] + one)
            second.append(begin[row] + other)
    return np.concatenate(first), np.concatenate(second)


def follows_one_of_two(task: Task, relation: Relation, spread: float) -> bool:
    """Whether features predict the smaller of two related candidates so well that it is a function of them.

    Then the larger one is a function too, and fits as well: nothing in the data says which of the two is true. Where
    the truth is sometimes the smaller and sometimes the larger one, neither is, or some rows are one step off.
    """
    from sklearn.ensemble import ExtraTreesRegressor

    values, (one, other) = task.S.values, related(task.S, relation, spread)
    slope, offset = relation.line
    one, other = _best_of_each_row(task.S, one, other, -np.abs(values[other] - slope * values[one] - offset))
    if len(one) < _LEAST_ROWS:
        return False
    if relation.kind == "ratio":
        # Ratios tie small values and large ones alike, so that logarithms are predicted.
        smaller = np.minimum(np.abs(values[one]), np.abs(values[other]))
        y = np.log(np.maximum(smaller, np.finfo(float).tiny))
    else:
        y = np.minimum(values[one], values[other])
    X = task.preprocess().features[task.S.row_index[one]]
    forest = ExtraTreesRegressor(100, min_samples_leaf=3, bootstrap=True, oob_score=True, random_state=task.seed)
    found = forest.fit(X, y).oob_prediction_
    off = y - found
    # How far it is from the predictions to what they are tied to, on either side.
    if relation.kind == "ratio":
        step = np.full(len(found), float(np.log(relation.value)))
        steps = step, -step
    else:
        steps = (slope - 1.0) * found + offset, (found - offset) / (slope or np.inf) - found
    # Medians, since a few rows far off say nothing of the others.
    if not np.median(np.abs(off)) < _SMALL * np.median(np.abs(steps[0])):
        return False
    least, most = _ONE_STEP
    for step in steps:
        part = off / np.where(np.abs(step) > 0, step, np.inf)
        # Noise goes both ways alike, while rows whose truth is on the other side are all off in one direction.
        there, mirrored = (int(((side * part > least) & (side * part < most)).sum()) for side in (1, -1))
        if _enough(there - mirrored, len(off)):
            return False
    return True


def always_one_side(S: CandidateSets, probabilities: Floats, relation: Relation, spread: float) -> bool:
    """Whether a model takes the same one of two related candidates in nearly all rows: the larger, say.

    Then a model that takes the other one fits as well. Were the truth on either side, that model would fit some rows
    by neither candidate.
    """
    one, other = related(S, relation, spread)
    likelier = np.maximum(probabilities[one], probabilities[other])
    one, other = _best_of_each_row(S, one, other, likelier)
    chosen = np.maximum(probabilities[one], probabilities[other]) >= _CHOSEN
    rows, sides = int(chosen.sum()), int((probabilities[other] > probabilities[one])[chosen].sum())
    return rows >= max(_LEAST_ROWS, 0.8 * len(S)) and not _enough(min(sides, rows - sides), rows)


def telling_rows(S: CandidateSets, labelled: NDArray[np.bool_], relation: Relation, spread: float) -> int:
    """Return how many rows that are as good as labelled say which of two twins is true.

    Where both are nearly the same value, as °C and °F are at forty below zero, the label fits both.
    """
    slope, offset = relation.line
    label = S.values[S.offsets[:-1]][labelled]
    # From either side: the label may be the one or the other.
    apart = np.minimum(np.abs((slope - 1.0) * label + offset), np.abs((label - offset) / (slope or np.inf) - label))
    return int((apart > _APART * spread).sum())


def share_alike(probabilities: Floats, S: CandidateSets, relations: Sequence[Relation], spread: float) -> Floats:
    """Return probabilities of which candidates that are tied to each other have shares by their prior.

    A model f, and another one that is tied to it, fit equally well. By the one, f's candidate of a row is the true one,
    by the other its twin; as both are equally likely, so are the two candidates, but for what the prior says.
    """
    pairs = [related(S, relation, spread) for relation in relations]
    one, other = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    count = len(probabilities)
    ties = coo_array((np.ones(len(one), dtype=np.int8), (one, other)), shape=(count, count))
    group = connected_components(ties, directed=False)[1]
    prior = S.prior_or_uniform
    total, weight = np.bincount(group, probabilities), np.bincount(group, prior)
    tied = (np.bincount(group) > 1) & (weight > 0)
    share = prior / np.where(weight > 0, weight, 1.0)[group]
    return np.where(tied[group], share * total[group], probabilities)


def _best_of_each_row(S: CandidateSets, one: Integers, other: Integers, how_good: Floats) -> tuple[Integers, Integers]:
    """Return the best pair of each row that has one."""
    rows = S.row_index[one]
    order = np.lexsort((-how_good, rows))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(rows[order]) != 0
    return one[order[first]], other[order[first]]


def _enough(rows: int, of: int) -> bool:
    return rows >= max(_LEAST_OTHERS, _OTHER_SIDE * of)
