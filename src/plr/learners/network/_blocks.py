"""Dense algebra on blocks of rows: the arithmetic the network's training time is spent in.

A block holds up to `BLOCK` rows, feature-major: unit u of a layer is the stretch ``[u * BLOCK, u * BLOCK + rows)`` of a
flat array, so that the innermost loop always runs over rows, which are independent and lie side by side. Work is tiled
four units by four units, which keeps sixteen multiply-adds busy for every eight rows loaded. The stride is a constant
and indices start at slices: both are what lets the compiler turn the loops into vector code without a test per element.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from plr._jit import jit

__all__ = ["BLOCK", "add_product", "add_row_sums", "add_weight_gradient", "fill"]

BLOCK = 256

Array = NDArray[Any]


@jit
def fill(target: Array, unit: int, value: float, rows: int) -> None:
    """Set one unit's rows to a value."""
    y = target[unit * BLOCK : (unit + 1) * BLOCK]
    for r in range(min(rows, BLOCK)):
        y[r] = value


@jit
def add_product(
    weights: Array,
    at: int,
    out_stride: int,
    in_stride: int,
    source: Array,
    first_in: int,
    n_in: int,
    target: Array,
    first_out: int,
    n_out: int,
    rows: int,
) -> None:
    """Add a matrix of ``weights`` times the source's units to the target's units.

    The weight from input i to output o is ``weights[at + o * out_stride + i * in_stride]``, so the same code runs a
    layer forwards and, with the strides exchanged, backwards.
    """
    o = 0
    while o + 4 <= n_out:
        i = 0
        while i + 4 <= n_in:
            _add_4_by_4(
                weights,
                at + o * out_stride + i * in_stride,
                out_stride,
                in_stride,
                source,
                first_in + i,
                target,
                first_out + o,
                rows,
            )
            i += 4
        while i < n_in:
            _add_4_by_1(
                weights,
                at + o * out_stride + i * in_stride,
                out_stride,
                source,
                first_in + i,
                target,
                first_out + o,
                rows,
            )
            i += 1
        o += 4
    while o < n_out:
        for k in range(n_in):
            _add_1_by_1(weights[at + o * out_stride + k * in_stride], source, first_in + k, target, first_out + o, rows)
        o += 1


@jit
def _add_4_by_4(
    weights: Array, p: int, s: int, t: int, source: Array, a: int, target: Array, z: int, rows: int
) -> None:
    w00, w01, w02, w03 = weights[p], weights[p + t], weights[p + 2 * t], weights[p + 3 * t]
    p += s
    w10, w11, w12, w13 = weights[p], weights[p + t], weights[p + 2 * t], weights[p + 3 * t]
    p += s
    w20, w21, w22, w23 = weights[p], weights[p + t], weights[p + 2 * t], weights[p + 3 * t]
    p += s
    w30, w31, w32, w33 = weights[p], weights[p + t], weights[p + 2 * t], weights[p + 3 * t]
    x = source[a * BLOCK : (a + 4) * BLOCK]
    y = target[z * BLOCK : (z + 4) * BLOCK]
    for r in range(min(rows, BLOCK)):
        x0, x1, x2, x3 = x[r], x[BLOCK + r], x[2 * BLOCK + r], x[3 * BLOCK + r]
        y[r] += w00 * x0 + w01 * x1 + w02 * x2 + w03 * x3
        y[BLOCK + r] += w10 * x0 + w11 * x1 + w12 * x2 + w13 * x3
        y[2 * BLOCK + r] += w20 * x0 + w21 * x1 + w22 * x2 + w23 * x3
        y[3 * BLOCK + r] += w30 * x0 + w31 * x1 + w32 * x2 + w33 * x3


@jit
def _add_4_by_1(weights: Array, p: int, s: int, source: Array, a: int, target: Array, z: int, rows: int) -> None:
    w0, w1, w2, w3 = weights[p], weights[p + s], weights[p + 2 * s], weights[p + 3 * s]
    x = source[a * BLOCK : (a + 1) * BLOCK]
    y = target[z * BLOCK : (z + 4) * BLOCK]
    for r in range(min(rows, BLOCK)):
        x0 = x[r]
        y[r] += w0 * x0
        y[BLOCK + r] += w1 * x0
        y[2 * BLOCK + r] += w2 * x0
        y[3 * BLOCK + r] += w3 * x0


@jit
def _add_1_by_1(weight: float, source: Array, a: int, target: Array, z: int, rows: int) -> None:
    x = source[a * BLOCK : (a + 1) * BLOCK]
    y = target[z * BLOCK : (z + 1) * BLOCK]
    for r in range(min(rows, BLOCK)):
        y[r] += weight * x[r]


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
    o = 0
    while o + 4 <= n_out:
        i = 0
        while i + 4 <= n_in:
            _dot_4_by_4(deltas, first_out + o, source, first_in + i, gradient, at + o * n_in + i, n_in, rows)
            i += 4
        while i < n_in:
            for k in range(4):
                gradient[at + (o + k) * n_in + i] += _dot(deltas, first_out + o + k, source, first_in + i, rows)
            i += 1
        o += 4
    while o < n_out:
        for k in range(n_in):
            gradient[at + o * n_in + k] += _dot(deltas, first_out + o, source, first_in + k, rows)
        o += 1


@jit
def _dot_4_by_4(deltas: Array, d: int, source: Array, a: int, gradient: Array, p: int, n_in: int, rows: int) -> None:
    x = source[a * BLOCK : (a + 4) * BLOCK]
    y = deltas[d * BLOCK : (d + 4) * BLOCK]
    zero = source.dtype.type(0)
    s00, s01, s02, s03 = zero, zero, zero, zero
    s10, s11, s12, s13 = zero, zero, zero, zero
    s20, s21, s22, s23 = zero, zero, zero, zero
    s30, s31, s32, s33 = zero, zero, zero, zero
    for r in range(min(rows, BLOCK)):
        x0, x1, x2, x3 = x[r], x[BLOCK + r], x[2 * BLOCK + r], x[3 * BLOCK + r]
        y0, y1, y2, y3 = y[r], y[BLOCK + r], y[2 * BLOCK + r], y[3 * BLOCK + r]
        s00 += y0 * x0
        s01 += y0 * x1
        s02 += y0 * x2
        s03 += y0 * x3
        s10 += y1 * x0
        s11 += y1 * x1
        s12 += y1 * x2
        s13 += y1 * x3
        s20 += y2 * x0
        s21 += y2 * x1
        s22 += y2 * x2
        s23 += y2 * x3
        s30 += y3 * x0
        s31 += y3 * x1
        s32 += y3 * x2
        s33 += y3 * x3
    gradient[p] += s00
    gradient[p + 1] += s01
    gradient[p + 2] += s02
    gradient[p + 3] += s03
    p += n_in
    gradient[p] += s10
    gradient[p + 1] += s11
    gradient[p + 2] += s12
    gradient[p + 3] += s13
    p += n_in
    gradient[p] += s20
    gradient[p + 1] += s21
    gradient[p + 2] += s22
    gradient[p + 3] += s23
    p += n_in
    gradient[p] += s30
    gradient[p + 1] += s31
    gradient[p + 2] += s32
    gradient[p + 3] += s33


@jit
def _dot(deltas: Array, d: int, source: Array, a: int, rows: int) -> float:
    x = source[a * BLOCK : (a + 1) * BLOCK]
    y = deltas[d * BLOCK : (d + 1) * BLOCK]
    total = source.dtype.type(0)
    for r in range(min(rows, BLOCK)):
        total += x[r] * y[r]
    return total


@jit
def add_row_sums(deltas: Array, first: int, count: int, gradient: Array, at: int, rows: int) -> None:
    """Add each unit's sum over rows to the gradient of its bias."""
    for o in range(count):
        y = deltas[(first + o) * BLOCK : (first + o + 1) * BLOCK]
        total = deltas.dtype.type(0)
        for r in range(min(rows, BLOCK)):
            total += y[r]
        gradient[at + o] += total
