"""A stack trained by the fused kernel, in Triton: one network by one program.

A program keeps its network's weights in registers, walks through the batches of each epoch, takes Adam's steps, and
after each epoch scores the validation rows and stores the network where it is the best so far. Little leaves the
multiprocessor: rows and candidates, which all programs share, and Adam's moments come from the cache. So the time of a
step is that of its arithmetic and latency, and programs that share a multiprocessor fill each other's gaps.

Networks have three hidden layers, identity or ReLU. The formula is that of `plr.paper.stacked.plain`. A row's
candidates are walked through twice: once for the best score, once for the shares. Of candidates that are equally near,
identification takes the first; the other engines share between them.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from plr.errors import ParameterError
from plr.losses import Absolute, Huber, Squared
from plr.paper.stacked.fits import FUSED_LOSSES, FUSED_WEIGHTINGS
from plr.paper.stacked.packing import FLOATS, INTEGERS, Stack, State
from plr.paper.stacked.plain import EPSILON, MOMENTUM, SECOND_MOMENTUM, STUDENT
from plr.weighting import Average, Identify, Posterior, Progressive

__all__ = ["check_supported", "train_epochs"]

_LAYERS = 3
_WIDEST = 64
# Rows that a program computes at a time, and its groups of 32 threads. With more than 8 of these, two threads would
# hold the same weight, and one might read a moment that the other has just written.
_BLOCK, _WARPS = 64, 4

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
_MOMENTUM = tl.constexpr(MOMENTUM)
_SECOND_MOMENTUM = tl.constexpr(SECOND_MOMENTUM)
_EPSILON = tl.constexpr(EPSILON)
_INTEGERS = tl.constexpr(len(INTEGERS))
_FLOATS = tl.constexpr(len(FLOATS))


def check_supported(stack: Stack) -> None:
    """Refuse a stack that the kernel cannot train, and say why."""
    if len(stack.layers.hidden) != _LAYERS or max(stack.shape) > _WIDEST:
        raise ParameterError(
            "The fused engine trains networks of three hidden layers, none of them and no table wider than 63; use "
            "engine='auto'."
        )
    for kind, found, known in (
        ("weighting", stack.weightings, len(FUSED_WEIGHTINGS)),
        ("loss", stack.losses, len(FUSED_LOSSES)),
    ):
        names = [type(part).__name__ for code, part in found.items() if code >= known]
        if names:
            raise ParameterError(f"The fused engine does not know the {kind} {names[0]}; use engine='auto'.")


def train_epochs(
    stack: Stack,
    state: State,
    orders: Tensor,
    epoch: int,
    batch_size: int,
    degrees: float,
    *,
    precision: str = "tf32x3",
) -> None:
    """Train for as many epochs as there are ``orders``, from number ``epoch`` on.

    Parameters
    ----------
    stack, state : Stack, State
    orders : Tensor of shape (epochs, rows of all streams), int32
    epoch, batch_size : int
    degrees : float
        What the common label-free score takes for the noise's degrees of freedom.
    precision : {"tf32x3", "ieee", "tf32"}
        How matrices are multiplied; see `triton.language.dot`. The first two are as good as float32.
    """
    rows = int(stack.column("rows").max())
    steps = (epoch + len(orders)) * -(-rows // batch_size)
    count = torch.arange(1, steps + 1, dtype=torch.float64, device=orders.device)
    corrections = torch.stack([1.0 / (1.0 - MOMENTUM**count), (1.0 - SECOND_MOMENTUM**count).rsqrt()]).float()
    predictions = torch.empty(
        (len(stack.integers), int(stack.column("validation_rows").max())), dtype=torch.float32, device=orders.device
    )
    kernel: Any = _train
    kernel[(len(stack.integers),)](
        stack.table,
        stack.labels,
        stack.integers,
        stack.floats,
        orders,
        orders.shape[1],
        corrections,
        steps,
        state.parameters,
        state.first,
        state.second,
        state.scales,
        state.best,
        state.best_score,
        state.best_epoch,
        state.loss,
        state.scores,
        predictions,
        predictions.shape[1],
        epoch,
        len(orders),
        state.loss.shape[1],
        batch_size,
        *stack.layers.hidden,
        degrees,
        STUDENT.log_constant(degrees),
        N0=stack.shape[0],
        N1=stack.shape[1],
        N2=stack.shape[2],
        N3=stack.shape[3],
        BLOCK=_BLOCK,
        PRECISION=precision,
        num_warps=_WARPS,
        num_stages=1,
    )


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
def _terms(
    labels, at, width, there, prediction, weighting, loss_code, first, second, delta, scale, BLOCK: tl.constexpr
):
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
def _evidence(labels, at, width, there, prediction, degrees, scale, BLOCK: tl.constexpr):
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


@triton.jit
def _activate(units, code, ones, COLUMNS: tl.constexpr):
    """Apply an activation and set the unit that is always one, number ``ones``."""
    units = tl.where(code == 0, units, tl.maximum(units, 0.0))
    return tl.where(tl.arange(0, COLUMNS)[None, :] == ones, 1.0, units)


@triton.jit
def _deactivate(delta, units, code, ones, COLUMNS: tl.constexpr):
    """Multiply deltas by the derivative of the activation; none passes through the unit that is always one."""
    passing = (code == 0) | (units > 0.0)
    passing = passing & (tl.arange(0, COLUMNS)[None, :] != ones)
    return tl.where(passing, delta, 0.0)


@triton.jit
def _forward(
    x,
    w1,
    w2,
    w3,
    w4,
    a1,
    a2,
    a3,
    u1,
    u2,
    u3,
    N1: tl.constexpr,
    N2: tl.constexpr,
    N3: tl.constexpr,
    PRECISION: tl.constexpr,
):
    h1 = _activate(tl.dot(x, w1, input_precision=PRECISION), a1, u1, N1)
    h2 = _activate(tl.dot(h1, w2, input_precision=PRECISION), a2, u2, N2)
    h3 = _activate(tl.dot(h2, w3, input_precision=PRECISION), a3, u3, N3)
    return h1, h2, h3, tl.sum(h3 * w4[None, :], axis=1)


@triton.jit
def _adam(weights, gradient, first, second, at, rate, root):
    """Take a step; the moments lie in memory, where ``at`` says."""
    m = _MOMENTUM * tl.load(first + at) + (1.0 - _MOMENTUM) * gradient
    v = _SECOND_MOMENTUM * tl.load(second + at) + (1.0 - _SECOND_MOMENTUM) * gradient * gradient
    tl.store(first + at, m)
    tl.store(second + at, v)
    return weights - rate * m / (tl.sqrt(v) * root + _EPSILON)


@triton.jit
def _keep(place, w1, w2, w3, w4, at1, at2, at3, at4):
    tl.store(place + at1, w1)
    tl.store(place + at2, w2)
    tl.store(place + at3, w3)
    tl.store(place + at4, w4)


# These differ from call to call, and to compile the kernel anew for some of their values takes longer than most calls.
@triton.jit(
    do_not_specialize=[
        "order_stride",
        "correction_stride",
        "prediction_stride",
        "first_epoch",
        "epochs",
        "all_epochs",
        "batch_size",
    ]
)
def _train(
    table,
    labels,
    integers,
    floats,
    orders,
    order_stride,
    corrections,
    correction_stride,
    parameters,
    first_moments,
    second_moments,
    scales,
    best,
    best_score,
    best_epoch,
    losses,
    scores,
    predictions,
    prediction_stride,
    first_epoch,
    epochs,
    all_epochs,
    batch_size,
    u1,
    u2,
    u3,
    degrees,
    constant,
    N0: tl.constexpr,
    N1: tl.constexpr,
    N2: tl.constexpr,
    N3: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Train one fit for some epochs."""
    fit = tl.program_id(0).to(tl.int64)
    integers += fit * _INTEGERS
    floats += fit * _FLOATS
    features = tl.load(integers + 0)
    rows = tl.load(integers + 1)
    targets = tl.load(integers + 2)
    width = tl.load(integers + 3).to(tl.int32)
    check_features = tl.load(integers + 4)
    check_rows = tl.load(integers + 5)
    own = tl.load(integers + 6)
    own_width = tl.load(integers + 7).to(tl.int32)
    candidates = tl.load(integers + 8)
    candidates_width = tl.load(integers + 9).to(tl.int32)
    truth = tl.load(integers + 10)
    order = tl.load(integers + 11)
    weighting = tl.load(integers + 12)
    loss_code = tl.load(integers + 13)
    a1 = tl.load(integers + 14)
    a2 = tl.load(integers + 15)
    a3 = tl.load(integers + 16)
    learning_rate = tl.load(floats + 0)
    first = tl.load(floats + 1)
    second = tl.load(floats + 2)
    delta = tl.load(floats + 3)
    lowest_scale = tl.load(floats + 4)
    scale = tl.load(scales + fit * 2)
    noise = tl.load(scales + fit * 2 + 1)

    COUNT: tl.constexpr = N0 * N1 + N1 * N2 + N2 * N3 + N3
    i0 = tl.arange(0, N0)
    i1 = tl.arange(0, N1)
    i2 = tl.arange(0, N2)
    i3 = tl.arange(0, N3)
    at1 = i0[:, None] * N1 + i1[None, :]
    at2 = N0 * N1 + i1[:, None] * N2 + i2[None, :]
    at3 = N0 * N1 + N1 * N2 + i2[:, None] * N3 + i3[None, :]
    at4 = N0 * N1 + N1 * N2 + N2 * N3 + i3
    parameters += fit * COUNT
    first_moments += fit * COUNT
    second_moments += fit * COUNT
    best += fit * 3 * COUNT
    w1 = tl.load(parameters + at1)
    w2 = tl.load(parameters + at2)
    w3 = tl.load(parameters + at3)
    w4 = tl.load(parameters + at4)
    # A vector is held by several threads at once: one must not read what another has just written. So its moments,
    # and the best scores, are read once and kept.
    m4 = tl.load(first_moments + at4)
    v4 = tl.load(second_moments + at4)
    best_own = tl.load(best_score + fit * 3)
    best_evidence = tl.load(best_score + fit * 3 + 1)
    best_missed = tl.load(best_score + fit * 3 + 2)
    tl.debug_barrier()
    within = tl.arange(0, BLOCK)
    steps = (rows + batch_size - 1) // batch_size

    for epoch in range(first_epoch, first_epoch + epochs):
        total_loss = 0.0
        total_spread = 0.0
        order_at = orders + (epoch - first_epoch).to(tl.int64) * order_stride + order
        for step in range(steps):
            begin = step * batch_size
            count = tl.minimum(batch_size, rows - begin)
            g1 = tl.zeros((N0, N1), tl.float32)
            g2 = tl.zeros((N1, N2), tl.float32)
            g3 = tl.zeros((N2, N3), tl.float32)
            g4 = tl.zeros((N3,), tl.float32)
            part = 1.0 / count.to(tl.float32)
            for inner in range(0, count, BLOCK):
                there = inner + within < count
                row = tl.load(order_at + begin + inner + within, mask=there, other=0).to(tl.int64)
                x = tl.load(table + (features + row)[:, None] * N0 + i0[None, :])
                h1, h2, h3, prediction = _forward(x, w1, w2, w3, w4, a1, a2, a3, u1, u2, u3, N1, N2, N3, PRECISION)
                loss, slope, spread = _terms(
                    labels,
                    targets + row * width,
                    width,
                    there,
                    prediction,
                    weighting,
                    loss_code,
                    first,
                    second,
                    delta,
                    scale,
                    BLOCK,
                )
                total_loss += tl.sum(tl.where(there, loss, 0.0), axis=0)
                total_spread += tl.sum(tl.where(there, spread, 0.0), axis=0)
                slope = tl.where(there, slope * part, 0.0)
                g4 += tl.sum(h3 * slope[:, None], axis=0)
                d3 = _deactivate(slope[:, None] * w4[None, :], h3, a3, u3, N3)
                g3 = tl.dot(tl.trans(h2), d3, g3, input_precision=PRECISION)
                d2 = _deactivate(tl.dot(d3, tl.trans(w3), input_precision=PRECISION), h2, a2, u2, N2)
                g2 = tl.dot(tl.trans(h1), d2, g2, input_precision=PRECISION)
                d1 = _deactivate(tl.dot(d2, tl.trans(w2), input_precision=PRECISION), h1, a1, u1, N1)
                g1 = tl.dot(tl.trans(x), d1, g1, input_precision=PRECISION)
            number = epoch * steps + step
            rate = learning_rate * tl.load(corrections + number)
            root = tl.load(corrections + correction_stride + number)
            w1 = _adam(w1, g1, first_moments, second_moments, at1, rate, root)
            w2 = _adam(w2, g2, first_moments, second_moments, at2, rate, root)
            w3 = _adam(w3, g3, first_moments, second_moments, at3, rate, root)
            m4 = _MOMENTUM * m4 + (1.0 - _MOMENTUM) * g4
            v4 = _SECOND_MOMENTUM * v4 + (1.0 - _SECOND_MOMENTUM) * g4 * g4
            w4 -= rate * m4 / (tl.sqrt(v4) * root + _EPSILON)
        tl.store(losses + fit * all_epochs + epoch, total_loss / rows.to(tl.float32))
        if weighting == _POSTERIOR:
            scale = tl.maximum(tl.sqrt(total_spread / rows.to(tl.float32)), lowest_scale)

        own_loss = 0.0
        missed = 0.0
        total_spread = 0.0
        for begin in range(0, check_rows, BLOCK):
            there = begin + within < check_rows
            row = tl.where(there, begin + within, 0).to(tl.int64)
            x = tl.load(table + (check_features + row)[:, None] * N0 + i0[None, :])
            h1, h2, h3, prediction = _forward(x, w1, w2, w3, w4, a1, a2, a3, u1, u2, u3, N1, N2, N3, PRECISION)
            tl.store(predictions + fit * prediction_stride + row, prediction, mask=there)
            loss, slope, spread = _terms(
                labels,
                own + row * own_width,
                own_width,
                there,
                prediction,
                weighting,
                loss_code,
                first,
                second,
                delta,
                scale,
                BLOCK,
            )
            found, spread = _evidence(
                labels, candidates + row * candidates_width, candidates_width, there, prediction, degrees, noise, BLOCK
            )
            residual = prediction - tl.load(labels + truth + row)
            own_loss += tl.sum(tl.where(there, loss, 0.0), axis=0)
            missed += tl.sum(tl.where(there, residual * residual, 0.0), axis=0)
            total_spread += tl.sum(tl.where(there, spread, 0.0), axis=0)
        noise = tl.maximum(tl.sqrt(total_spread / check_rows.to(tl.float32)), lowest_scale)
        # Predictions written by one thread may be read by another.
        tl.debug_barrier()
        log_evidence = 0.0
        for begin in range(0, check_rows, BLOCK):
            there = begin + within < check_rows
            row = tl.where(there, begin + within, 0).to(tl.int64)
            prediction = tl.load(predictions + fit * prediction_stride + row, mask=there, other=0.0)
            found, spread = _evidence(
                labels, candidates + row * candidates_width, candidates_width, there, prediction, degrees, noise, BLOCK
            )
            log_evidence += tl.sum(tl.where(there, found, 0.0), axis=0)
        tl.debug_barrier()
        own_loss = own_loss / check_rows.to(tl.float32)
        surprise = tl.log(noise) - constant - log_evidence / check_rows.to(tl.float32)
        missed = missed / check_rows.to(tl.float32)
        score_at = scores + (fit * all_epochs + epoch) * 3
        tl.store(score_at, own_loss)
        tl.store(score_at + 1, surprise)
        tl.store(score_at + 2, missed)
        if own_loss < best_own:
            best_own = own_loss
            tl.store(best_epoch + fit * 3, epoch)
            _keep(best, w1, w2, w3, w4, at1, at2, at3, at4)
        if surprise < best_evidence:
            best_evidence = surprise
            tl.store(best_epoch + fit * 3 + 1, epoch)
            _keep(best + COUNT, w1, w2, w3, w4, at1, at2, at3, at4)
        if missed < best_missed:
            best_missed = missed
            tl.store(best_epoch + fit * 3 + 2, epoch)
            _keep(best + 2 * COUNT, w1, w2, w3, w4, at1, at2, at3, at4)
    _keep(parameters, w1, w2, w3, w4, at1, at2, at3, at4)
    tl.store(first_moments + at4, m4)
    tl.store(second_moments + at4, v4)
    tl.store(best_score + fit * 3, best_own)
    tl.store(best_score + fit * 3 + 1, best_evidence)
    tl.store(best_score + fit * 3 + 2, best_missed)
    tl.store(scales + fit * 2, scale)
    tl.store(scales + fit * 2 + 1, noise)
