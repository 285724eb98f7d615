"""What the network's outputs mean, and the gradient that enters its last layer.

``SCALAR``: one output, the prediction; a row costs what the formula says.
``DENSITY``: one output per label bin, the logits of a conditional density over labels; a row costs minus the log
likelihood of its candidates, −log Σ_j prior_j · p(y_j | x) / q(y_j). The density is piecewise linear: bin centres stand
``width`` apart from ``low`` on, and between two centres it runs straight from one's height to the other's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._codes import Formula
from plr._jit import jit
from plr.network._blocks import STRIDE
from plr.weighting._formula import may_miss, row
from plr.weighting._noise import row_spread, row_total

__all__ = ["DENSITY", "SCALAR", "Head", "Sets", "block_loss"]

SCALAR, DENSITY = 0, 1

# Keeps the logarithm finite where a density has underflowed at every candidate.
_SMALLEST = 1e-300

Array = NDArray[Any]
Floats = NDArray[np.float64]


class Head(NamedTuple):
    """The kind of outputs and, for a density, the label of its first bin's centre and the distance between centres."""

    kind: int
    low: float = 0.0
    width: float = 1.0


class Sets(NamedTuple):
    """Candidate sets as the kernels take them; an empty array means uniform, or not given."""

    values: Floats
    offsets: NDArray[np.int64]
    prior: Floats
    log_q: Floats
    fixed: Floats
    """Weights of a start, one per candidate."""


@jit
def block_loss(
    head: Head,
    formula: Formula,
    sets: Sets,
    sample_weight: Floats,
    rows_at: NDArray[np.int64],
    rows: int,
    use_fixed: bool,
    learn_scale: bool,
    outputs: Array,
    first: int,
    count: int,
    deltas: Array,
    state: Floats,
    weights: Floats,
    totals: Floats,
    factor: float,
) -> None:
    """Turn a block's outputs into deltas, multiplied by ``factor``, and add up what the epoch wants to know.

    ``totals``: the weighted sum of losses, of sample weights, of the spread that the next noise scale comes from, and
    of how probable it is that rows have their truth.
    """
    incomplete = may_miss(formula, state)
    fixed = sets.fixed if use_fixed else sets.fixed[:0]
    for r in range(rows):
        i = rows_at[r]
        importance = sample_weight[i] if sample_weight.size > 0 else 1.0
        start = sets.offsets[i]
        stop = sets.offsets[i + 1]
        if head.kind == DENSITY:
            value = _density_row(
                head,
                sets.values[start:stop],
                sets.prior[start:stop],
                sets.log_q[start:stop],
                outputs,
                first,
                count,
                r,
                deltas,
                weights,
                factor * importance,
            )
        else:
            prediction = np.float64(outputs[first * STRIDE + r])
            value, slope, _, scale = row(
                formula,
                incomplete,
                prediction,
                sets.values,
                sets.prior,
                sets.log_q,
                fixed,
                start,
                stop,
                state,
                weights,
                0,
            )
            deltas[first * STRIDE + r] = factor * importance * slope
            if learn_scale:
                spread = row_spread(formula, prediction, sets.values, start, stop, state, weights, 0)
                totals[2] += importance * scale * spread
                totals[3] += importance * (scale * row_total(weights, 0, stop - start) if incomplete else 1.0)
        totals[0] += importance * value
        totals[1] += importance


@jit
def _density_row(
    head: Head,
    candidates: Floats,
    prior: Floats,
    log_q: Floats,
    outputs: Array,
    first: int,
    count: int,
    r: int,
    deltas: Array,
    shares: Floats,
    factor: float,
) -> float:
    highest = -np.inf
    for k in range(count):
        highest = max(highest, float(outputs[(first + k) * STRIDE + r]))
    total = 0.0
    for k in range(count):
        # The delta array holds the unnormalised probabilities until the gradient replaces them.
        e = math.exp(outputs[(first + k) * STRIDE + r] - highest)
        deltas[(first + k) * STRIDE + r] = e
        total += e

    likelihood = 0.0
    for j in range(candidates.size):
        left, fraction = _place(head, count, candidates[j])
        height = (1.0 - fraction) * deltas[(first + left) * STRIDE + r] * _peak(left, count)
        height += fraction * deltas[(first + left + 1) * STRIDE + r] * _peak(left + 1, count)
        share = prior[j] if prior.size > 0 else 1.0 / candidates.size
        if log_q.size > 0:
            share *= math.exp(-log_q[j])
        shares[j] = share * height
        likelihood += share * height
    likelihood = max(likelihood, _SMALLEST)

    for k in range(count):
        deltas[(first + k) * STRIDE + r] *= factor / total
    for j in range(candidates.size):
        left, fraction = _place(head, count, candidates[j])
        lower = (1.0 - fraction) * math.exp(outputs[(first + left) * STRIDE + r] - highest) * _peak(left, count)
        upper = fraction * math.exp(outputs[(first + left + 1) * STRIDE + r] - highest) * _peak(left + 1, count)
        if lower + upper > 0.0:
            responsibility = factor * shares[j] / likelihood / (lower + upper)
            deltas[(first + left) * STRIDE + r] -= responsibility * lower
            deltas[(first + left + 1) * STRIDE + r] -= responsibility * upper
    return -math.log(likelihood / (total * head.width))


@jit
def _place(head: Head, count: int, value: float) -> tuple[int, float]:
    """Return the bin centre at or below a label and the way to the next one, from 0 to 1."""
    at = min(max((value - head.low) / head.width, 0.0), count - 1.0)
    left = min(int(at), count - 2)
    return left, at - left


@jit
def _peak(k: int, count: int) -> float:
    """Return the height of a bin's hat for unit width; the outermost hats are halves, so they stand twice as high."""
    return 2.0 if k == 0 or k == count - 1 else 1.0
