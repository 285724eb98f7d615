"""How kernels know weightings, losses and noise families: by number, and together as a `Formula`."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "ABSOLUTE",
    "AVERAGE",
    "CUSTOM",
    "GAUSSIAN",
    "HUBER",
    "IDENTIFICATION",
    "LAPLACE",
    "LOWEST",
    "MISSING",
    "NARROWEST",
    "POSTERIOR",
    "PROGRESSIVE",
    "SCALE",
    "SQUARED",
    "STATE_SIZE",
    "STUDENT",
    "Formula",
]

CUSTOM = 0
AVERAGE, IDENTIFICATION, PROGRESSIVE, POSTERIOR = 1, 2, 3, 4  # weightings
SQUARED, ABSOLUTE, HUBER = 1, 2, 3  # losses
GAUSSIAN, LAPLACE, STUDENT = 1, 2, 3  # noise families of the posterior

SCALE = 0  # where the learned state keeps the noise scale
MISSING = (
    1  # and the share of rows whose truth is missing from their candidates; 0 for all weightings but the posterior
)
LOWEST = 2  # and how low the noise scale may go
STATE_SIZE = 3

NARROWEST = 1e-9
"""A learned noise scale goes no lower than this share of the one it begins with, the labels' standard deviation.

It has collapsed then onto rows that are met exactly, and weights could not get harder. A higher floor would drown the
labels where one absurd value, such as 999999999, makes most of the standard deviation; with a lower one, squares of
distances would leave single precision.
"""


class Formula(NamedTuple):
    """A weighting and a loss in the form the kernels take: codes, numbers and, for a user's own, function pointers."""

    weighting: int
    first: float
    """Progressive: beta1. Posterior: the noise family."""
    second: float
    """Progressive: beta2. Posterior: the degrees of freedom of Student's t."""
    loss: int
    delta: float
    score: Any
    """``score(prediction, value, loss)``, called where ``weighting`` is CUSTOM."""
    value: Any
    """``value(prediction, value)``, called where ``loss`` is CUSTOM, as are the two below."""
    derivative: Any
    curvature: Any
