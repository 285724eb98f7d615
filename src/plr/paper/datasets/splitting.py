"""The paper's split into training, validation and test rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plr.errors import ParameterError

__all__ = ["split"]

Rows = NDArray[np.int64]


def split(n: int, seed: int | np.random.SeedSequence) -> tuple[Rows, Rows, Rows]:
    """Split ``n`` rows at random into 60 % training, 20 % validation and 20 % test.

    Validation and test have ⌊n/5⌋ rows each, training the rest: the counts of the paper's Table 1.

    Parameters
    ----------
    n : int
        Number of rows, 5 at least.
    seed : int or SeedSequence
        The same seed gives the same split.

    Returns
    -------
    train, validation, test : ndarray of int64
        Disjoint row numbers, in random order.

    Examples
    --------
    >>> [len(rows) for rows in split(4177, seed=0)]
    [2507, 835, 835]
    """
    if n < 5:
        raise ParameterError(f"{n} rows are too few to split 60/20/20; at least 5 are needed.")
    order = np.random.default_rng(seed).permutation(n).astype(np.int64, copy=False)
    fifth = n // 5
    return order[2 * fifth :], order[:fifth], order[fifth : 2 * fifth]
