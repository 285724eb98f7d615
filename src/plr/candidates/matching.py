"""Which candidates are the true label of their row, where the two are written with different precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Precision", "precision_of", "true_candidates"]

Floats = NDArray[np.float64]

# Relative to the largest truth: values this near are the same number, computed in two ways.
_SAME = 1e-9
# Relative to a row's own truth: a candidate this near was probably only written otherwise.
_NEAR = 1e-6
_MOST_DECIMALS = 8


class Precision(NamedTuple):
    """How exact truths are."""

    largest: float
    """The largest of them, without its sign."""
    decimals: int | None
    """How many decimals they are rounded to; None where they do not seem to be rounded."""

    def joined(self, other: Precision) -> Precision:
        """Return how exact the truths of both are."""
        decimals = None if self.decimals is None or other.decimals is None else max(self.decimals, other.decimals)
        return Precision(max(self.largest, other.largest), decimals)


def precision_of(truth: Floats) -> Precision:
    """Return how exact truths are.

    >>> precision_of(np.array([1.5, 2.25]))
    Precision(largest=2.25, decimals=2)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = ((decimals, truth * 10.0**decimals) for decimals in range(_MOST_DECIMALS + 1))
        whole = (
            place for place, values in scaled if (np.abs(values - np.rint(values)) <= 1e-12 * np.abs(values)).all()
        )
        return Precision(float(np.abs(truth).max()), next(whole, None))


def true_candidates(
    values: Floats,
    offsets: NDArray[np.int64],
    truth: Floats,
    precision: Precision | None = None,
    candidate_decimals: int | None = None,
) -> NDArray[np.bool_]:
    """Return which candidates are the true labels of their rows.

    The nearest candidate of a row is the true one if it differs by no more than a millionth, or if it alone becomes the
    truth when it is rounded to as many decimals as the truths have. Candidates equal to it are true as well.

    Parameters
    ----------
    values : ndarray, one entry per candidate
    offsets : ndarray of shape (n + 1,)
        Where each row's candidates begin.
    truth : ndarray of shape (n,)
    precision : Precision, optional
        How exact truths are; that of those given, unless there are others beside them.
    candidate_decimals : int, optional
        How many decimals candidates are rounded to, where they are printed with fewer than truths. The nearest is then
        the true one as well if the truth becomes it, and no other, when it is rounded so.

    Examples
    --------
    >>> values, offsets = np.array([1.2345, 7.0, 1.23, 1.2345, 5.0, 6.0]), np.array([0, 2, 4, 6])
    >>> true_candidates(values, offsets, np.array([1.23, 1.23, 5.5])).tolist()
    [True, False, True, False, False, False]
    >>> true_candidates(np.array([1.2, 7.0]), np.array([0, 2]), np.array([1.2345]), candidate_decimals=1).tolist()
    [True, False]
    """
    rows = np.repeat(np.arange(len(truth)), np.diff(offsets))
    begin = offsets[:-1]
    largest, decimals = precision_of(truth) if precision is None else precision
    same = _SAME * max(largest, 1e-300)
    with np.errstate(over="ignore"):
        off = np.abs(values - truth[rows])
        nearest = np.minimum.reduceat(off, begin)
        is_nearest = off <= nearest[rows] + same
    found = nearest <= np.maximum(_NEAR * np.abs(truth), same)
    if candidate_decimals is not None and (decimals is None or decimals > candidate_decimals):
        decimals = candidate_decimals
    if decimals is not None:
        rounds = off <= 0.5 * 10.0**-decimals * (1 + _NEAR)
        first = np.minimum.reduceat(np.where(is_nearest, np.arange(len(values)), len(values)), begin)
        # Where two different candidates become the truth, rounding does not tell which one is meant.
        with np.errstate(over="ignore"):
            differs = np.abs(values - values[first][rows]) > same
        found |= np.logical_or.reduceat(rounds, begin) & ~np.logical_or.reduceat(rounds & differs, begin)
    return np.asarray(is_nearest & found[rows])
