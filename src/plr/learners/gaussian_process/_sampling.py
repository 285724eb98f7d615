"""Drawing which candidate of each row is true, given those drawn for all other rows.

The model is linear in m features with a standard normal prior on their coefficients and Gaussian noise, so the
coefficients are integrated out: ``gain[i]`` is how they move when the label of row i moves by one, and the prediction
of a row by all others follows from its leverage. Neither depends on the labels. A row's draw costs two loops over the
features, and the row has no say in its own prediction.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from plr._jit import inlined, jit

__all__ = ["sweep"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_TO_UNIT = 2.0**-53


@inlined
def _uniform(random: NDArray[np.uint64]) -> float:
    """Draw from [0, 1); the generator's state (splitmix64) is in ``random[0]``."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * _TO_UNIT


@inlined
def _normal(random: NDArray[np.uint64]) -> float:
    radius = math.sqrt(-2.0 * math.log(1.0 - _uniform(random)))
    return radius * math.cos(2.0 * math.pi * _uniform(random))


@jit
def sweep(
    features: NDArray[np.float32],
    gain: NDArray[np.float32],
    leverage: Floats,
    noise: Floats,
    values: Floats,
    offsets: Integers,
    odds: Floats,
    missing: Floats,
    labels: Floats,
    coefficients: NDArray[np.float32],
    order: Integers,
    random: NDArray[np.uint64],
    densities: Floats,
    keep: bool,
    shares: Floats,
    expected: Floats,
    evidence: Floats,
) -> None:
    """Draw the label of every row once, in a fresh random order.

    Parameters
    ----------
    features, gain : ndarrays of shape (n, m)
    leverage, noise : ndarrays of shape (n,)
        ``noise`` is the variance of a row's label around the function.
    values, offsets : ndarrays
        The candidates.
    odds : ndarray, one entry per candidate
        Prior over density of false labels, times the probability that the truth is among the candidates.
    missing : ndarray of shape (n,)
        Probability that it is not; the label is then drawn from the prediction.
    labels, coefficients, order, random, densities : ndarrays
        The state; ``densities`` is scratch for the largest set.
    keep : bool
        Whether to add this sweep to what follows.
    shares, expected, evidence : ndarrays
        Sums over the sweeps kept: each candidate's probability, each row's mean label and log likelihood, all before
        the draw.
    """
    rows, count = features.shape
    for a in range(rows - 1, 0, -1):
        b = int(_uniform(random) * (a + 1))
        order[a], order[b] = order[b], order[a]
    for place in range(rows):
        i = order[place]
        start = offsets[i]
        size = offsets[i + 1] - start
        if size == 1 and missing[i] == 0.0:
            if keep:
                shares[start] += 1.0
                expected[i] += values[start]
            continue
        fitted = np.float32(0.0)
        for k in range(count):
            fitted += features[i, k] * coefficients[k]
        rest = 1.0 - leverage[i]
        centre = (fitted - leverage[i] * labels[i]) / rest
        deviation = math.sqrt(noise[i] / rest)
        total = 0.0
        mean = 0.0
        # Indexed from 0: an index that might be negative makes arrays that lie close together seem to overlap, and
        # the loop then runs without vectors, by which sums are rounded otherwise.
        own_values, own_odds = values[start : start + size], odds[start : start + size]
        for j in range(size):
            distance = (own_values[j] - centre) / deviation
            density = own_odds[j] * math.exp(-0.5 * distance * distance) / (deviation * _ROOT_TWO_PI)
            densities[j] = density
            total += density
            mean += density * own_values[j]
        full = total + missing[i]
        drawn = centre
        if full > 0.0:
            if keep:
                for j in range(size):
                    shares[start + j] += densities[j] / full
                expected[i] += (mean + missing[i] * centre) / full
                evidence[i] += math.log(full)
            aim = _uniform(random) * full
            if aim < total:
                last = -1
                for j in range(size):
                    if densities[j] > 0.0:
                        last = j
                        aim -= densities[j]
                        if aim < 0.0:
                            break
                drawn = values[start + last]
            else:
                drawn = centre + deviation * _normal(random)
        elif keep:
            expected[i] += centre
        step = np.float32(drawn - labels[i])
        if step != 0.0:
            labels[i] = drawn
            for k in range(count):
                coefficients[k] += gain[i, k] * step
