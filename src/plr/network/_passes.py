"""A block of rows through the network and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._jit import jit
from plr.network._activations import RELU, apply_activation, apply_derivative
from plr.network._blocks import (
    BLOCK,
    RELU_AFTER,
    RELU_BACK,
    STRIDE,
    add_row_sums,
    add_weight_gradient,
    padded,
    product,
)

__all__ = ["Layout", "backward", "forward", "run"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Layout(NamedTuple):
    """The shape of a network: units per layer from input to output, and the activation after each hidden layer."""

    sizes: Integers
    activations: Integers


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
            apply_activation(layout.activations[layer], values, inputs, target, n_out, rows)
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
                apply_derivative(layout.activations[layer - 1], values, inputs, deltas, source, n_in, rows)
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
