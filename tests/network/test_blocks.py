"""Products and gradients on blocks, against NumPy, for numbers of units and rows that fit no tile."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from plr.network.layers import (
    BLOCK,
    RELU_AFTER,
    RELU_BACK,
    STRIDE,
    add_row_sums,
    add_weight_gradient,
    load_rows,
    padded,
    product,
)

UNITS = [(1, 1), (3, 4), (4, 3), (5, 6), (7, 1), (2, 9), (10, 12)]
every_shape = pytest.mark.parametrize(("n_in", "n_out"), UNITS)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# For other widths of vectors, float32 is left to the gradients of whole networks, which are compiled for it anyway.
every_block = pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        (256, "float32"),
        *(pytest.param(rows, "float64", marks=pytest.mark.kernel) for rows in (256, 33, 1)),
    ],
)


def block(units: int, seed: int, dtype: str = "float64", rows: int = BLOCK) -> np.ndarray:
    """Return units with 0 in all rows past the last."""
    values = np.zeros((units, STRIDE), dtype)
    values[:, :rows] = np.random.default_rng(seed).normal(size=(units, rows))
    return values


class TestProduct:
    @every_shape
    @every_block
    def test_forwards(self, n_in, n_out, rows, dtype):
        source, target = block(n_in + 2, 0, dtype), np.full((n_out + 1, STRIDE), np.nan, dtype)
        weights = np.random.default_rng(1).normal(size=3 + n_in * n_out + n_out).astype(dtype)
        matrix, bias = weights[3 : 3 + n_in * n_out].reshape(n_out, n_in), weights[3 + n_in * n_out :]
        wanted = matrix @ source[2:, :rows] + bias[:, None]
        for finish, expected in ((0, wanted), (RELU_AFTER, np.maximum(wanted, 0))):
            flat = source.ravel(), target.ravel()
            at = (3, n_in, 1, 3 + n_in * n_out)
            product(weights, *at, flat[0], 2, n_in, flat[1], 1, n_out, finish, flat[0], rows)
            assert_allclose(target[1:, :rows], expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        assert np.isnan(target[0]).all()
        assert np.isnan(target[:, padded(rows) :]).all()

    @pytest.mark.kernel
    @every_shape
    def test_backwards(self, n_in, n_out):
        deltas, gates = block(n_out, 0), block(n_in, 1)
        weights = np.random.default_rng(2).normal(size=n_in * n_out)
        wanted = weights.reshape(n_out, n_in).T @ deltas[:, :BLOCK]
        target = np.zeros((n_in, STRIDE))
        for finish, expected in ((0, wanted), (RELU_BACK, np.where(gates[:, :BLOCK] > 0, wanted, 0))):
            ends = deltas.ravel(), 0, n_out, target.ravel(), 0, n_in, finish, gates.ravel()
            product(weights, 0, 1, n_in, -1, *ends, BLOCK)
            assert_allclose(target[:, :BLOCK], expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.kernel
    def test_what_is_no_number_passes_a_relu(self):
        source = block(1, 0)
        source[0, 3] = np.nan
        target = np.zeros(STRIDE)
        product(np.ones(2), 0, 1, 1, 1, source.ravel(), 0, 1, target, 0, 1, RELU_AFTER, target, BLOCK)
        assert_array_equal(np.flatnonzero(np.isnan(target)), [3])


class TestGradient:
    @every_shape
    @every_block
    def test_weights(self, n_in, n_out, rows, dtype):
        """What overlapping tiles do twice counts once, and rows past the last do not count."""
        source, deltas = block(n_in + 1, 0, dtype), block(n_out + 1, 1, dtype, rows)
        gradient = np.ones(2 + n_in * n_out + 2, dtype)
        add_weight_gradient(deltas.ravel(), 1, n_out, source.ravel(), 1, n_in, gradient, 2, rows)
        wanted = 1 + deltas[1:, :rows] @ source[1:, :rows].T
        assert_allclose(gradient[2:-2], wanted.ravel(), rtol=TOLERANCE[dtype], atol=40 * TOLERANCE[dtype])
        assert_array_equal(gradient[[0, 1, -2, -1]], 1)

    @pytest.mark.kernel
    def test_biases(self):
        deltas, gradient = block(5, 0, rows=70), np.ones(6)
        add_row_sums(deltas.ravel(), 1, 4, gradient, 2, 70)
        assert_allclose(gradient, np.r_[1, 1, 1 + deltas[1:].sum(1)], rtol=1e-12)


@pytest.mark.kernel
def test_rows_are_loaded_with_zeros_behind_them():
    features = np.random.default_rng(0).normal(size=(50, 3))
    at = np.array([7, 3, 3, 49, 0])
    values = np.full((4, STRIDE), 7.0)
    load_rows(features, at, len(at), values.ravel())
    assert_array_equal(values[:3, :5], features[at].T)
    assert_array_equal(values[:3, 5 : padded(5)], 0)
    assert_array_equal(values[3], 7)
