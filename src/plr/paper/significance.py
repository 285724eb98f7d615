"""Whether one method is worse than another over the same trials, or only seems so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import stdtr

__all__ = ["FEWEST_TRIALS", "LEVEL", "TEST_IN_WORDS", "paired_p_value"]

FEWEST_TRIALS = 5
"""Below this no test is made."""

LEVEL = 0.05

# Trials are overlapping splits of the same rows, so their differences vary less than those of fresh data would.
# Nadeau and Bengio's correction adds the ratio of test to training rows, here 20 % to 60 %.
_TEST_TO_TRAINING = 1.0 / 3.0

TEST_IN_WORDS = (
    "two-sided paired t-test over the common trials, corrected for overlapping splits (Nadeau and Bengio 2003), at the "
    f"level {100 * LEVEL:g} %"
)


def paired_p_value(first: Mapping[int, float], second: Mapping[int, float]) -> float | None:
    """Return how likely so large a mean difference would be if two methods were equally good.

    Parameters
    ----------
    first, second : mapping
        Test error by trial.

    Returns
    -------
    float or None
        None with fewer than `FEWEST_TRIALS` common trials.

    References
    ----------
    Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.

    Examples
    --------
    >>> worse = dict(enumerate([5.1, 5.0, 5.2, 5.1, 5.0]))
    >>> best = dict(enumerate([4.1, 4.0, 4.1, 4.1, 4.1]))
    >>> paired_p_value(worse, best) < 0.001
    True
    """
    common = sorted(first.keys() & second.keys())
    if len(common) < FEWEST_TRIALS:
        return None
    difference = np.array([first[trial] - second[trial] for trial in common])
    mean, variance = float(difference.mean()), float(difference.var(ddof=1))
    # Differences equal up to rounding have no spread that could be measured against.
    if variance <= (1e-12 * max(abs(first[trial]) for trial in common)) ** 2:
        return 1.0 if np.isclose(mean, 0.0, atol=1e-12) else 0.0
    statistic = mean / np.sqrt((1.0 / len(common) + _TEST_TO_TRAINING) * variance)
    return float(2.0 * stdtr(len(common) - 1, -abs(statistic)))
