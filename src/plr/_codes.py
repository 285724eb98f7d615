"""What the compiled formula is given: a `Formula`, candidate sets, and the state that a fit learns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CUSTOM",
    "EVEN",
    "GAUSSIAN",
    "HIGHEST",
    "LAPLACE",
    "LOWEST",
    "MISSING",
    "MOST_MISSING",
    "NARROWEST",
    "NO_NOISE",
    "SCALE",
    "SMALLEST_PRIOR",
    "SOFTMAX",
    "STATE_SIZE",
    "STUDENT",
    "Formula",
    "Sets",
]

CUSTOM = 0  # code of a weighting or loss that is called through function pointers
EVEN, HIGHEST, SOFTMAX = 0, 1, 2  # how scores become shares: not at all, all for the highest, by a softmax
NO_NOISE, GAUSSIAN, LAPLACE, STUDENT = 0, 1, 2, 3  # noise families of the posterior

SCALE = 0  # where the learned state keeps the noise scale
MISSING = (
    1  # and the share of rows whose truth is missing from their candidates; 0 for all weightings but the posterior
)
LOWEST = 2  # and how low the noise scale may go
STATE_SIZE = 3

SMALLEST_PRIOR = 1e-290
"""A prior below this counts as zero: its reciprocal, the scale of a lone candidate's share, would overflow."""
MOST_MISSING = 0.5
"""A learned share of rows without their truth goes no higher: beyond it, the model explains too little."""
NARROWEST = 1e-9
"""A learned noise scale goes no lower than this share of the one it begins with, the labels' standard deviation.

It has collapsed then onto rows that are met exactly, and weights could not get harder. A higher floor would drown the
labels where one absurd value, such as 999999999, makes most of the standard deviation; with a lower one, squares of
distances would leave single precision.
"""


class Formula(NamedTuple):
    """A weighting and a loss in the form the kernels take; `plr.weighting.Rule` makes it.

    Attributes
    ----------
    weighting : int
        Which compiled score; CUSTOM: ``score``.
    shares : int
        EVEN, HIGHEST or SOFTMAX.
    first, second : float
        The numbers that the score takes, 0 where it takes fewer.
    noise : int
        The posterior's noise family; NO_NOISE for all other weightings.
    degrees : float
        Degrees of freedom of Student's t.
    constant : float
        Log of the noise density's normalising constant at scale 1.
    loss : int
        Which compiled loss; CUSTOM: ``value``, ``derivative`` and ``curvature``.
    number : float
        The number that the loss takes, such as Huber's delta.
    score : pointer
        ``score(prediction, value, loss, first, second)``.
    value, derivative, curvature : pointer
        ``value(prediction, value, number)``.
    """

    weighting: int
    shares: int
    first: float
    second: float
    noise: int
    degrees: float
    constant: float
    loss: int
    number: float
    score: Any
    value: Any
    derivative: Any
    curvature: Any


class Sets(NamedTuple):
    """Candidate sets as the kernels take them; an empty array means uniform, or not given.

    Attributes
    ----------
    values, prior, log_q : ndarray, one entry per candidate
    offsets : ndarray of shape (rows + 1,)
    fixed : ndarray, one entry per candidate
        Weights of a start.
    """

    values: NDArray[np.float64]
    offsets: NDArray[np.int64]
    prior: NDArray[np.float64]
    log_q: NDArray[np.float64]
    fixed: NDArray[np.float64]
