"""The formula for a block of rows inside the fused kernel: what `plr.paper.stacked.formula` computes, in Triton.

Candidates are walked through twice: once for the best score, once for the shares. Of candidates that are equally near,
identification takes the first; the other engines share between them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from plr.losses import Absolute, Huber, Squared
from plr.paper.stack_methods import FUSED_LOSSES, FUSED_WEIGHTINGS
from plr.weighting import Average, Identify, Posterior, Progressive

__all__ = ["evidence", "terms"]

_SQUARED = tl.constexpr(FUSED_LOSSES.index(Squared))
_ABSOLUTE = tl.constexpr(FUSED_LOSSES.index(Absolute))
_HUBER = tl.constexpr(FUSED_LOSSES.index(Huber))
_AVERAGE = tl.constexpr(FUSED_WEIGHTINGS.index(Average))
_IDENTIFICATION = tl.constexpr(FUSED_WEIGHTINGS.index(Identify))
_PROGRESSIVE = tl.constexpr(FUSED_WEIGHTINGS.index(Progressive))
_POSTERIOR = tl.constexpr(FUSED_WEIGHTINGS.index(Posterior))
# Below this a loss counts as this, and above that a score as that: differences must stay finite.
_SMALLEST_LOSS = tl.constexpr(1e-30)
_HIGHEST_SCORE = tl.constexpr(1e37)


@triton.jit
def _loss(code, delta, residual):
    length = tl.abs(residual)
    huber = tl.where(length <= delta, 0.5 * residual * residual, delta * (length - 0.5 * delta))
    found = tl.where(code == _HUBER, huber, float("nan"))
    return tl.where(code == _SQUARED, residual * residual, tl.where(code == _ABSOLUTE, length, found))


@triton.jit
def _slope(code, delta, residual):
    sign = tl.where(residual > 0.0, 1.0, tl.where(residual < 0.0, -1.0, 0.0))
    huber = tl.where(tl.abs(residual) <= delta, residual, delta * sign)
    return tl.where(code == _SQUARED, 2.0 * residual, tl.where(code == _ABSOLUTE, sign, huber))


@triton.jit
def _student(degrees, scale, residual):
    ratio = residual / scale
    return -0.5 * (degrees + 1.0) * tl.log(1.0 + ratio * ratio / degrees)


@triton.jit
def _spread(degrees, scale, residual):
    ratio = residual / scale
    return (degrees + 1.0) * residual * residual / (degrees + ratio * ratio)


@triton.jit
def _score(weighting, loss_code, first, second, delta, scale, residual):
    """Return a candidate's score; the weighting is the same for all rows, so only one branch runs."""
    if weighting == _POSTERIOR:
        score = _student(first, scale, residual)
    else:
        loss = _loss(loss_code, delta, residual)
        if weighting == _PROGRESSIVE:
            loss = tl.maximum(loss, _SMALLEST_LOSS)
            # The root is exact to the last bit but one; logarithm and exponential are not, and beta2 may be large.
            if first == 0.5:  # noqa: SIM108 -- Triton has no such expression for numbers known at run time only.
                power = tl.rsqrt(loss)
            else:
                power = tl.exp(-first * tl.log(loss))
            score = tl.minimum(second * power, _HIGHEST_SCORE)
        elif weighting == _IDENTIFICATION:
            score = -loss
        elif weighting == _AVERAGE:
            score = tl.zeros_like(loss)
        else:
            score = tl.full(loss.shape, float("nan"), loss.dtype)
    return score


@triton.jit
def terms(labels, at, width, there, prediction, weighting, loss_code, first, second, delta, scale, BLOCK: tl.constexpr):
    """Weigh the candidates of a block of rows; return each row's loss, slope and spread.

    ``at`` is where a row's candidates begin in ``labels``, ``there`` which rows there are.
    """
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    # Every row has a first candidate; where all losses have overflowed, its own shows that.
    nearest = tl.load(labels + at, mask=there, other=0.0)
    for j in range(width):
        value = tl.load(labels + at + j, mask=there, other=0.0)
        score = _score(weighting, loss_code, first, second, delta, scale, prediction - value)
        higher = (value == value) & (score > best)
        best = tl.where(higher, score, best)
        nearest = tl.where(higher, value, nearest)
    if weighting == _IDENTIFICATION:
        residual = prediction - nearest
        loss = _loss(loss_code, delta, residual)
        slope = _slope(loss_code, delta, residual)
        spread = tl.zeros((BLOCK,), tl.float32)
    else:
        total = tl.zeros((BLOCK,), tl.float32)
        loss = tl.zeros((BLOCK,), tl.float32)
        slope = tl.zeros((BLOCK,), tl.float32)
        spread = tl.zeros((BLOCK,), tl.float32)
        for j in range(width):
            value = tl.load(labels + at + j, mask=there, other=0.0)
            residual = prediction - tl.where(value == value, value, prediction)
            score = _score(weighting, loss_code, first, second, delta, scale, residual)
            share = tl.where(value == value, tl.exp(tl.minimum(score - best, 0.0)), 0.0)
            total += share
            loss += share * _loss(loss_code, delta, residual)
            slope += share * _slope(loss_code, delta, residual)
            if weighting == _POSTERIOR:
                spread += share * _spread(first, scale, residual)
        loss = loss / total
        slope = slope / total
        spread = spread / total
    return loss, slope, spread


@triton.jit
def evidence(labels, at, width, there, prediction, degrees, scale, BLOCK: tl.constexpr):
    """Return the log evidence of a block of rows, the constant left out, and their parts in the next scale."""
    total = tl.zeros((BLOCK,), tl.float32)
    best = tl.full((BLOCK,), -1.0e38, tl.float32)
    for j in range(width):
        value = tl.load(labels + at + j, mask=there, other=0.0)
        score = _student(degrees, scale, prediction - value)
        best = tl.where((value == value) & (score > best), score, best)
    spread = tl.zeros((BLOCK,), tl.float32)
    number = tl.zeros((BLOCK,), tl.float32)
    for j in range(width):
        value = tl.load(labels + at + j, mask=there, other=0.0)
        residual = prediction - tl.where(value == value, value, prediction)
        share = tl.exp(tl.minimum(_student(degrees, scale, residual) - best, 0.0))
        share = tl.where(value == value, share, 0.0)
        number += tl.where(value == value, 1.0, 0.0)
        total += share
        spread += share * _spread(degrees, scale, residual)
    return best + tl.log(total) - tl.log(number), spread / total
