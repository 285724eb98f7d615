"""Which columns matter: found from candidates before any model exists, or from a model of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import eval_legendre

from plr.candidates import CandidateSets
from plr.weighting.rule import row_sums

__all__ = ["column_parts", "moments_of", "relevant_columns", "screen_columns"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Candidates are summed up in so many polynomials of their place in the range; one column is cut into bins, and each of
# a pair.
_MOMENTS, _BINS, _PAIR_BINS = 4, 8, 6
# Columns whose dependence is so many standard deviations above chance are of interest, alone or in pairs; the
# thresholds grow with how many are looked at.
_ALONE, _IN_PAIRS = 3.0, 3.5
_MOST = 12
# Beyond so many columns, pairs are looked at among those of highest dependence alone.
_MOST_PAIRED = 300
# Columns whose part in a function is below this share of the largest part are left out.
_LEAST_PART = 0.03
# A function is asked about so many rows for each column, fewer where columns are many, but no fewer than the last.
_ASKED, _MOST_ASKED, _FEWEST_ASKED = 300, 60_000, 20


def screen_columns(X: Floats, moments: Floats, weight: Floats) -> Rows:
    """Return the columns that some numbers of each row depend on, alone or as one of a pair; none where nothing shows.

    Where false labels have nothing to do with the features, whatever of a row's candidates depends on a column does so
    by the true label (`moments_of`). The numbers are compared between cells of one column, and of two: a product of two
    columns shows in their cells alone. Rows without weight do not count.
    """
    counted = np.flatnonzero(weight > 0)
    if len(counted) < 2:
        return np.empty(0, dtype=np.int64)
    moments = moments[counted]
    moments = moments - moments.mean(axis=0)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(moments.T)))
    if not values[0] > 1e-9 * values[-1]:
        return np.empty(0, dtype=np.int64)
    moments = np.ascontiguousarray(moments @ vectors / np.sqrt(values))
    columns = X.shape[1]
    alone = _dependence(_cells(X[counted], _BINS), moments, _BINS)
    alone = _to_normal(alone, (_BINS - 1.0) * moments.shape[1])
    among = np.sort(np.argsort(-alone, kind="stable")[:_MOST_PAIRED])
    cells = _cells(X[counted][:, among], _PAIR_BINS)
    pairs = _pair_dependence(cells, moments, _dependence(cells, moments, _PAIR_BINS), _PAIR_BINS)
    pairs = _to_normal(pairs, (_PAIR_BINS - 1.0) ** 2 * moments.shape[1])
    # The largest of so many that are due to chance.
    by_chance = np.sqrt(2.0 * np.log(max(columns, 2)))
    of_pairs = np.sqrt(2.0 * np.log(max(pairs.size / 2, 2)))
    score = alone - max(_ALONE, by_chance)
    for first, second in zip(*np.nonzero(pairs > max(_IN_PAIRS, of_pairs)), strict=True):
        for place in (first, second):
            column = among[place]
            score[column] = max(score[column], pairs[first, second] - max(_IN_PAIRS, of_pairs))
    best = np.argsort(-score, kind="stable")[:_MOST]
    return np.sort(best[score[best] > 0])


def relevant_columns(predict: Callable[[Floats], Floats], X: Floats, seed: int) -> Rows:
    """Return the columns that a function depends on."""
    parts = column_parts(predict, X, seed)
    return np.flatnonzero(parts > _LEAST_PART * parts.max())


def column_parts(
    predict: Callable[[Floats], Floats], X: Floats, seed: int, columns: Iterable[int] | None = None
) -> Floats:
    """Return by how much a function changes, in squares, where one of the columns is shuffled.

    It is known not to change with others than ``columns``, where these are given.
    """
    random = np.random.default_rng(seed)
    asked = max(_FEWEST_ASKED, min(_ASKED, _MOST_ASKED // X.shape[1]))
    rows = X[random.permutation(len(X))[:asked]]
    other = X[random.permutation(len(X))[: len(rows)]]
    before = predict(rows)
    parts = np.zeros(X.shape[1])
    for column in range(X.shape[1]) if columns is None else columns:
        changed = rows.copy()
        changed[:, column] = other[:, column]
        parts[column] = np.mean((predict(changed) - before) ** 2)
    return parts


def moments_of(S: CandidateSets) -> Floats:
    """Return a few moments of each row's candidates, by their priors."""
    low, high = float(S.values.min()), float(S.values.max())
    place = 2.0 * (S.values - low) / (high - low) - 1.0 if high > low else np.zeros(S.values.size)
    prior = S.prior_or_uniform * S.sizes[S.row_index]
    return np.column_stack([row_sums(prior * eval_legendre(order, place), S) for order in range(1, _MOMENTS + 1)])


def _to_normal(sums: Floats, freedom: float) -> Floats:
    """Return sums that are chi-squared by chance as standard normal numbers (Wilson and Hilferty, 1931).

    Their tail is longer than a normal one: of twenty columns, one would pass for relevant every few tables.
    """
    spread = 2.0 / (9.0 * freedom)
    return np.asarray((np.cbrt(np.maximum(sums, 0.0) / freedom) - (1.0 - spread)) / np.sqrt(spread))


def _cells(X: Floats, bins: int) -> NDArray[np.int64]:
    """Return which of some bins, about equally full, each entry falls into; equal entries fall into one."""
    cells = np.empty(X.shape, dtype=np.int64)
    for column in range(X.shape[1]):
        edges = np.unique(np.quantile(X[:, column], np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        cells[:, column] = np.searchsorted(edges, X[:, column], side="right")
    return np.ascontiguousarray(cells)


def _dependence(cells: NDArray[np.int64], moments: Floats, bins: int) -> Floats:
    """Return for each column the sum over its cells of their size times the squared mean of the moments."""
    columns = cells.shape[1]
    flat = (cells + bins * np.arange(columns)).ravel()
    sizes = np.maximum(np.bincount(flat, minlength=bins * columns), 1)
    found = np.zeros(bins * columns)
    for moment in moments.T:
        found += np.bincount(flat, np.repeat(moment, columns), bins * columns) ** 2 / sizes
    return found.reshape(columns, bins).sum(axis=1)


def _pair_dependence(cells: NDArray[np.int64], moments: Floats, alone: Floats, bins: int) -> Floats:
    """Return the same for pairs of columns, less what each of the two has alone; above the diagonal."""
    rows, columns = cells.shape
    member = np.zeros((rows, columns * bins), dtype=np.float32)
    np.put_along_axis(member, cells + bins * np.arange(columns), 1.0, axis=1)
    sizes = np.maximum(member.T @ member, 1.0)
    total = np.zeros_like(sizes)
    for moment in moments.T:
        total += (member.T @ (member * moment[:, None].astype(np.float32))) ** 2 / sizes
    found: Floats = total.reshape(columns, bins, columns, bins).sum(axis=(1, 3), dtype=np.float64)
    return np.triu(found - alone[:, None] - alone, 1)
