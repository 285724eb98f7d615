"""Layers on blocks of rows, forwards and backwards: the arithmetic the network's training time is spent in.

A block holds up to `BLOCK` rows, feature-major: unit u of a layer is the stretch from ``u * STRIDE`` on in a flat
array, so that a vector holds the same unit of neighbouring rows. Work goes in whole steps of `STEP` rows. What is
computed for rows past the last one is never read, and adds nothing to a gradient as long as their deltas are 0.

Sums are kept in registers over the whole inner loop, four units at a time: eight of them in a product (two vectors of
rows), sixteen in a gradient. Where the number of units is no multiple of four, the last four overlap the four before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._jit import jit
from plr._vectors import add_sums, at_least, choose_above, lanes_of, load, repeat, splat, store, total

__all__ = [
    "ACTIVATIONS",
    "BLOCK",
    "STRIDE",
    "Layout",
    "add_row_sums",
    "add_weight_gradient",
    "backward",
    "forward",
    "load_rows",
    "padded",
    "product",
    "run",
]

BLOCK = 256
STEP = 32
# Not a power of two: units that far apart would compete for the same places of the cache.
STRIDE = BLOCK + 16

# What happens to a product before it is written.
RELU_AFTER, RELU_BACK = 1, 2

IDENTITY, RELU, TANH, SILU = 0, 1, 2, 3
ACTIVATIONS = {"identity": IDENTITY, "relu": RELU, "silu": SILU, "tanh": TANH}

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Layout(NamedTuple):
    """The shape of a network: units per layer from input to output, and the activation after each hidden layer."""

    sizes: Integers
    activations: Integers


@jit
def padded(rows: int) -> int:
    """Return the number of rows rounded up to whole steps."""
    return (rows + STEP - 1) // STEP * STEP


@jit
def load_rows(features: Array, rows_at: NDArray[np.int64], rows: int, values: Array) -> None:
    """Copy rows into the first units of a block, and zeros into what is left of its last step."""
    for r in range(rows):
        i = rows_at[r]
        for c in range(features.shape[1]):
            values[c * STRIDE + r] = features[i, c]
    for c in range(features.shape[1]):
        for r in range(rows, padded(rows)):
            values[c * STRIDE + r] = 0


@jit
def product(
    weights: Array,
    at: int,
    out_stride: int,
    in_stride: int,
    bias_at: int,
    source: Array,
    first_in: int,
    n_in: int,
    target: Array,
    first_out: int,
    n_out: int,
    finish: int,
    gates: Array,
    rows: int,
) -> None:
    """Set the target's units to a matrix of ``weights`` times the source's units.

    The weight from input i to output o is ``weights[at + o * out_stride + i * in_stride]``, so the same code runs a
    layer forwards and, with the strides exchanged, backwards. Biases are added from ``bias_at`` on unless it is -1.
    With ``finish`` RELU_AFTER, what is negative becomes 0; with RELU_BACK, what belongs to a unit of ``gates`` at 0.
    """
    width = 2 * lanes_of(source)
    for r in range(0, rows, width):
        x = first_in * STRIDE + r
        if n_out >= 4:
            for begin in range(0, n_out, 4):
                o = min(begin, n_out - 4)
                bias = bias_at + o if bias_at >= 0 else -1
                y = (first_out + o) * STRIDE + r
                _four_outputs(
                    weights, at + o * out_stride, out_stride, in_stride, bias, source, x, n_in, target, y, finish, gates
                )
        else:
            for o in range(n_out):
                bias = bias_at + o if bias_at >= 0 else -1
                y = (first_out + o) * STRIDE + r
                _one_output(weights, at + o * out_stride, in_stride, bias, source, x, n_in, target, y, finish, gates)


@jit
def _four_outputs(
    weights: Array,
    p: int,
    s: int,
    t: int,
    bias: int,
    source: Array,
    x: int,
    n_in: int,
    target: Array,
    y: int,
    finish: int,
    gates: Array,
) -> None:
    lanes = lanes_of(source)
    zero = splat(source.dtype.type(0))
    a0, a1, a2, a3 = zero, zero, zero, zero
    if bias >= 0:
        a0, a1, a2, a3 = (
            repeat(weights, bias),
            repeat(weights, bias + 1),
            repeat(weights, bias + 2),
            repeat(weights, bias + 3),
        )
    b0, b1, b2, b3 = a0, a1, a2, a3
    for _ in range(n_in):
        left, right = load(source, x), load(source, x + lanes)
        w = repeat(weights, p)
        a0 += w * left
        b0 += w * right
        w = repeat(weights, p + s)
        a1 += w * left
        b1 += w * right
        w = repeat(weights, p + 2 * s)
        a2 += w * left
        b2 += w * right
        w = repeat(weights, p + 3 * s)
        a3 += w * left
        b3 += w * right
        p += t
        x += STRIDE
    _finish(a0, b0, target, y, finish, gates)
    _finish(a1, b1, target, y + STRIDE, finish, gates)
    _finish(a2, b2, target, y + 2 * STRIDE, finish, gates)
    _finish(a3, b3, target, y + 3 * STRIDE, finish, gates)


@jit
def _one_output(
    weights: Array,
    p: int,
    t: int,
    bias: int,
    source: Array,
    x: int,
    n_in: int,
    target: Array,
    y: int,
    finish: int,
    gates: Array,
) -> None:
    lanes = lanes_of(source)
    a = splat(source.dtype.type(0))
    if bias >= 0:
        a = repeat(weights, bias)
    b = a
    for _ in range(n_in):
        w = repeat(weights, p)
        a += w * load(source, x)
        b += w * load(source, x + lanes)
        p += t
        x += STRIDE
    _finish(a, b, target, y, finish, gates)


@jit
def _finish(left: Any, right: Any, target: Array, y: int, finish: int, gates: Array) -> None:
    lanes = lanes_of(target)
    zero = splat(target.dtype.type(0))
    if finish == RELU_AFTER:
        left, right = at_least(left, zero), at_least(right, zero)
    elif finish == RELU_BACK:
        left = choose_above(load(gates, y), zero, left, zero)
        right = choose_above(load(gates, y + lanes), zero, right, zero)
    store(target, y, left)
    store(target, y + lanes, right)


@jit
def add_weight_gradient(
    deltas: Array,
    first_out: int,
    n_out: int,
    source: Array,
    first_in: int,
    n_in: int,
    gradient: Array,
    at: int,
    rows: int,
) -> None:
    """Add ``Σ_rows delta_o · source_i`` to the gradient of the weight from input i to output o."""
    if n_in < 4 or n_out < 4:
        for o in range(n_out):
            for i in range(n_in):
                gradient[at + o * n_in + i] += _dot(deltas, first_out + o, source, first_in + i, rows)
        return
    for first in range(0, n_in, 4):
        i = min(first, n_in - 4)
        for begin in range(0, n_out, 4):
            o = min(begin, n_out - 4)
            _dot_4_by_4(
                deltas,
                first_out + o,
                source,
                first_in + i,
                gradient,
                at + o * n_in + i,
                n_in,
                begin - o,
                first - i,
                rows,
            )


@jit
def _dot_4_by_4(
    deltas: Array,
    d: int,
    source: Array,
    a: int,
    gradient: Array,
    p: int,
    n_in: int,
    done_out: int,
    done_in: int,
    rows: int,
) -> None:
    """Do four outputs and inputs, of which the first ``done_out`` and ``done_in`` have been done before."""
    lanes = lanes_of(source)
    zero = splat(source.dtype.type(0))
    s00, s01, s02, s03 = zero, zero, zero, zero
    s10, s11, s12, s13 = zero, zero, zero, zero
    s20, s21, s22, s23 = zero, zero, zero, zero
    s30, s31, s32, s33 = zero, zero, zero, zero
    x = a * STRIDE
    y = d * STRIDE
    for r in range(0, rows, lanes):
        x0, x1, x2, x3 = (
            load(source, x + r),
            load(source, x + STRIDE + r),
            load(source, x + 2 * STRIDE + r),
            load(source, x + 3 * STRIDE + r),
        )
        delta = load(deltas, y + r)
        s00 += delta * x0
        s01 += delta * x1
        s02 += delta * x2
        s03 += delta * x3
        delta = load(deltas, y + STRIDE + r)
        s10 += delta * x0
        s11 += delta * x1
        s12 += delta * x2
        s13 += delta * x3
        delta = load(deltas, y + 2 * STRIDE + r)
        s20 += delta * x0
        s21 += delta * x1
        s22 += delta * x2
        s23 += delta * x3
        delta = load(deltas, y + 3 * STRIDE + r)
        s30 += delta * x0
        s31 += delta * x1
        s32 += delta * x2
        s33 += delta * x3
    if done_out < 1:
        add_sums(gradient, p, s00, s01, s02, s03, done_in)
    if done_out < 2:
        add_sums(gradient, p + n_in, s10, s11, s12, s13, done_in)
    if done_out < 3:
        add_sums(gradient, p + 2 * n_in, s20, s21, s22, s23, done_in)
    add_sums(gradient, p + 3 * n_in, s30, s31, s32, s33, done_in)


@jit
def _dot(deltas: Array, d: int, source: Array, a: int, rows: int) -> float:
    s = splat(source.dtype.type(0))
    for r in range(0, rows, lanes_of(source)):
        s += load(deltas, d * STRIDE + r) * load(source, a * STRIDE + r)
    return total(s)


@jit
def add_row_sums(deltas: Array, first: int, count: int, gradient: Array, at: int, rows: int) -> None:
    """Add each unit's sum over rows to the gradient of its bias."""
    for o in range(count):
        s = splat(deltas.dtype.type(0))
        for r in range(0, rows, lanes_of(deltas)):
            s += load(deltas, (first + o) * STRIDE + r)
        gradient[at + o] += total(s)


@jit
def _apply_activation(code: int, values: Array, inputs: Array, first: int, count: int, rows: int) -> None:
    """Replace the units' values by their activation; what went in is kept in ``inputs`` if the derivative needs it.

    Not for ``relu``, which `product` applies as it writes.
    """
    if code == IDENTITY:
        return
    for u in range(first, first + count):
        y = values[u * STRIDE : (u + 1) * STRIDE]
        if code == TANH:
            for r in range(min(rows, BLOCK)):
                y[r] = math.tanh(y[r])
        else:
            x = inputs[u * STRIDE : (u + 1) * STRIDE]
            one = values.dtype.type(1)
            for r in range(min(rows, BLOCK)):
                x[r] = y[r]
                y[r] = y[r] / (one + math.exp(-y[r]))


@jit
def _apply_derivative(
    code: int, values: Array, inputs: Array, deltas: Array, first: int, count: int, rows: int
) -> None:
    """Multiply the units' deltas by the derivative of their activation."""
    if code == IDENTITY:
        return
    one = values.dtype.type(1)
    for u in range(first, first + count):
        y = values[u * STRIDE : (u + 1) * STRIDE]
        d = deltas[u * STRIDE : (u + 1) * STRIDE]
        if code == TANH:
            for r in range(min(rows, BLOCK)):
                d[r] *= one - y[r] * y[r]
        else:
            x = inputs[u * STRIDE : (u + 1) * STRIDE]
            for r in range(min(rows, BLOCK)):
                gate = one / (one + math.exp(-x[r]))
                d[r] *= gate * (one + x[r] * (one - gate))


@jit
def forward(layout: Layout, parameters: Array, values: Array, inputs: Array, rows: int) -> int:
    """Run a block through the network; its features are in the first units of ``values``. Return the output's unit."""
    at = 0
    first = 0
    layers = layout.sizes.size - 1
    for layer in range(layers):
        n_in = layout.sizes[layer]
        n_out = layout.sizes[layer + 1]
        target = first + n_in
        rectified = layer < layers - 1 and layout.activations[layer] == RELU
        product(
            parameters,
            at,
            n_in,
            1,
            at + n_in * n_out,
            values,
            first,
            n_in,
            values,
            target,
            n_out,
            RELU_AFTER if rectified else 0,
            values,
            rows,
        )
        if layer < layers - 1 and not rectified:
            _apply_activation(layout.activations[layer], values, inputs, target, n_out, rows)
        at += n_in * n_out + n_out
        first = target
    return first


@jit
def backward(
    layout: Layout, parameters: Array, gradient: Array, values: Array, inputs: Array, deltas: Array, rows: int
) -> None:
    """Add a block's gradient; the deltas of the output units are in place."""
    at = parameters.size
    layers = layout.sizes.size - 1
    first = 0
    for layer in range(layers):
        first += layout.sizes[layer]
    for o in range(layout.sizes[layers]):
        for r in range(rows, padded(rows)):
            deltas[(first + o) * STRIDE + r] = 0
    for layer in range(layers - 1, -1, -1):
        n_in = layout.sizes[layer]
        n_out = layout.sizes[layer + 1]
        at -= n_in * n_out + n_out
        source = first - n_in
        add_weight_gradient(deltas, first, n_out, values, source, n_in, gradient, at, rows)
        add_row_sums(deltas, first, n_out, gradient, at + n_in * n_out, rows)
        if layer > 0:
            rectified = layout.activations[layer - 1] == RELU
            product(
                parameters,
                at,
                1,
                n_in,
                -1,
                deltas,
                first,
                n_out,
                deltas,
                source,
                n_in,
                RELU_BACK if rectified else 0,
                values,
                rows,
            )
            if not rectified:
                _apply_derivative(layout.activations[layer - 1], values, inputs, deltas, source, n_in, rows)
        first = source


@jit
def run(layout: Layout, parameters: Array, features: Array, values: Array, inputs: Array, out: Floats) -> None:
    """Write the outputs for every row of ``features`` into ``out``, one column per output."""
    for begin in range(0, features.shape[0], BLOCK):
        rows = min(BLOCK, features.shape[0] - begin)
        for r in range(rows):
            for c in range(features.shape[1]):
                values[c * STRIDE + r] = features[begin + r, c]
        first = forward(layout, parameters, values, inputs, rows)
        for k in range(out.shape[1]):
            for r in range(rows):
                out[begin + r, k] = values[(first + k) * STRIDE + r]
