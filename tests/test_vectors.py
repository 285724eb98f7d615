"""Vectors of numbers in kernels, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from plr._jit import jit
from plr._vectors import (
    BYTES,
    DOUBLES,
    add_sums,
    at_least,
    choose_above,
    choose_equal,
    exponential,
    first_lanes,
    highest,
    lane,
    lanes_of,
    load,
    load_some,
    magnitude,
    repeat,
    root,
    splat,
    store,
    store_some,
    total,
)

pytestmark = pytest.mark.kernel
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


@jit
def _exponentials(x, out):
    for at in range(0, x.size, DOUBLES):
        store_some(out, at, x.size, exponential(load_some(x, at, x.size, 0.0)))


def exponentials(x):
    out = np.empty_like(x)
    _exponentials(x, out)
    return out


class TestExponential:
    def test_accuracy(self):
        x = -np.random.default_rng(0).exponential(60.0, 5000)
        x = np.append(x[x >= -700], [0.0, -1e-300, -np.log(2), -707.9])
        assert_allclose(exponentials(x), np.exp(x), rtol=1e-15)

    def test_ends(self):
        assert_array_equal(exponentials(np.array([-708.1, -1e9, -np.inf, np.nan])), [0.0, 0.0, 0.0, np.nan])
        assert exponentials(np.array([-708.0]))[0] > np.finfo(float).tiny


@jit
def _some(source, at, end, other, target):
    store_some(target, 0, end - at, load_some(source, at, end, other))


@pytest.mark.parametrize("count", range(1, DOUBLES + 1))
def test_parts_of_rows(count):
    """Reading stops at the row's end; writing stops there only where the array does."""
    source = np.arange(1.0, count + 3.0)
    wide, narrow = np.full(2 * DOUBLES, 7.0), np.full(count, 7.0)
    for target in (wide, narrow):
        _some(source, 2, 2 + count, -1.0, target)
        assert_array_equal(target[:count], source[2:])
    assert_array_equal(wide[count:DOUBLES], -1.0)
    assert_array_equal(wide[DOUBLES:], 7.0)


@jit
def _operations(a, b, out):
    x, y, w = load(a, 0), load(b, 0), lanes_of(a)
    store(out, 0, (x + y) * x - y / x)
    store(out, w, choose_above(x, y, x, y))
    store(out, 2 * w, choose_equal(x, y, splat(a[0]), y))
    store(out, 3 * w, at_least(x, y))
    store(out, 4 * w, root(magnitude(x)))
    store(out, 5 * w, first_lanes(2, x, repeat(b, 1)))
    out[6 * w], out[6 * w + 1], out[6 * w + 2] = total(x), highest(x), lane(y)


@every_dtype
def test_operations(dtype):
    lanes = BYTES // np.dtype(dtype).itemsize
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, lanes)).astype(dtype)
    b[1] = a[1]
    out = np.zeros(6 * lanes + 3, dtype)
    _operations(a, b, out)
    wanted = [(a + b) * a - b / a, np.maximum(a, b), np.where(a == b, a[0], b), np.maximum(a, b), np.sqrt(np.abs(a))]
    wanted.append(np.r_[a[:2], np.full(lanes - 2, b[1])])
    assert_allclose(out[: 6 * lanes].reshape(6, lanes), wanted, rtol=1e-5 if dtype == "float32" else 1e-13)
    assert_allclose(out[6 * lanes :][:3], [a.sum(), a.max(), b[0]], rtol=1e-5, atol=1e-6)


def test_what_is_no_number_is_not_hidden():
    a, b = np.full(DOUBLES, np.nan), np.zeros(DOUBLES)
    out = np.zeros(6 * DOUBLES + 3)
    _operations(a, b, out)
    assert np.isnan(out[3 * DOUBLES : 4 * DOUBLES]).all()
    assert_array_equal(out[DOUBLES : 2 * DOUBLES], 0.0)
    assert np.isnan(out[6 * DOUBLES])


@jit
def _add_sums(source, skip, target):
    w = lanes_of(source)
    add_sums(target, 1, load(source, 0), load(source, w), load(source, 2 * w), load(source, 3 * w), skip)


@every_dtype
@pytest.mark.parametrize("skip", [0, 1, 3])
def test_sums_of_four(dtype, skip):
    source = np.random.default_rng(2).normal(size=4 * BYTES // np.dtype(dtype).itemsize).astype(dtype)
    target = np.ones(6, dtype)
    _add_sums(source, skip, target)
    sums = source.reshape(4, -1).sum(1)
    sums[:skip] = 0
    assert_allclose(target, 1 + np.r_[0, sums, 0], rtol=1e-5)
