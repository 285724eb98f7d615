"""Which candidates are the true ones, where truths and candidates may be written with different precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEVER_AMONG", "true_candidates"]

Floats = NDArray[np.float64]

NEVER_AMONG = "cannot be judged: the truth is never among the candidates"

# Relative to the largest truth: values this near are the same number, computed in two ways.
_SAME = 1e-9
# Relative to a row's own truth: a candidate this near was probably only written otherwise.
_NEAR = 1e-6
_MOST_DECIMALS = 8


def true_candidates(values: Floats, offsets: NDArray[np.int64], truth: Floats) -> NDArray[np.bool_]:
    """Return which candidates are the true labels of their rows.

    The nearest candidate of a row is the true one if it differs by no more than a millionth, or if it alone becomes the
    truth when it is rounded to as many decimals as the truths have. Candidates equal to it are true as well.

    Parameters
    ----------
    values : ndarray, one entry per candidate
    offsets : ndarray of shape (n + 1,)
        Where each row's candidates begin.
    truth : ndarray of shape (n,)

    Examples
    --------
    >>> values, offsets = np.array([1.2345, 7.0, 1.23, 1.2345, 5.0, 6.0]), np.array([0, 2, 4, 6])
    >>> true_candidates(values, offsets, np.array([1.23, 1.23, 5.5])).tolist()
    [True, False, True, False, False, False]
    """
    rows = np.repeat(np.arange(len(truth)), np.diff(offsets))
    begin = offsets[:-1]
    same = _SAME * max(float(np.abs(truth).max()), 1e-300)
    with np.errstate(over="ignore"):
        off = np.abs(values - truth[rows])
        nearest = np.minimum.reduceat(off, begin)
        is_nearest = off <= nearest[rows] + same
    found = nearest <= np.maximum(_NEAR * np.abs(truth), same)
    decimals = _decimals(truth)
    if decimals is not None:
        rounds = off <= 0.5 * 10.0**-decimals * (1 + _NEAR)
        # Where two different candidates become the truth, rounding does not tell which one is meant.
        with np.errstate(over="ignore"):
            differs = np.abs(values - _first(values, is_nearest, rows, begin)) > same
        found |= np.logical_or.reduceat(rounds, begin) & ~np.logical_or.reduceat(rounds & differs, begin)
    return np.asarray(is_nearest & found[rows])


def _first(values: Floats, chosen: NDArray[np.bool_], rows: NDArray[np.int64], begin: NDArray[np.int64]) -> Any:
    """Return, for each candidate, the first chosen one of its row."""
    places = np.where(chosen, np.arange(len(values)), len(values))
    return values[np.minimum.reduceat(places, begin)][rows]


def _decimals(truth: Floats) -> int | None:
    """Return how many decimals the truths are rounded to; None where they do not seem to be rounded."""
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in range(_MOST_DECIMALS + 1):
            scaled = truth * 10.0**decimals
            if (np.abs(scaled - np.rint(scaled)) <= 1e-12 * np.abs(scaled)).all():
                return decimals
    return None
