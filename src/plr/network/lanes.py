"""Training steps on rows that come in lanes.

A batch takes as many rows from each lane. Each lane's gradient is computed apart, and all are added pairwise in double
precision; so it makes no difference whether one process has all lanes or several have some each and add their sums.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._codes import Formula, Sets
from plr._jit import jit
from plr._vectors import DOUBLES
from plr.network.initialisation import initial_parameters
from plr.network.layers import ACTIVATIONS, BLOCK, STRIDE, Layout, load_rows
from plr.network.network import SCALAR_HEAD, NetworkSettings, aligned_zeros
from plr.network.training import CONSTANT, COSINE, OPTIMIZERS, Head, Stages, get_stages, update
from plr.weighting.rule import Rule

__all__ = ["LaneSteps", "Lanes"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Lanes(NamedTuple):
    """The rows of a round, those of this process."""

    features: Array
    sets: Sets
    sample_weight: Floats
    order: Integers
    """Rows in the order they are taken, lane after lane."""
    starts: Integers
    """Where each lane begins in it, and where the last ends."""
    step_rows: Integers
    """Rows of all lanes, of all processes, in each step."""
    share: int
    """Rows of a lane in each step but the last, which takes all that are left."""


class _Schedule(NamedTuple):
    """How steps are taken; ``steps`` is how many the whole training has."""

    optimizer: int
    learning_rate: float
    schedule: int
    steps: int
    weight_decay: float
    momentum: float
    second_momentum: float
    learn_scale: bool


class _Room(NamedTuple):
    """All that changes in a step.

    ``sums`` has a row for each lane, its gradient; after `_add_gradients` the first is the sum. ``totals`` has a row
    for each lane, what `block_loss` adds up.
    """

    parameters: Array
    first: Array
    second: Array
    state: Floats
    sums: Floats
    totals: Floats
    gradient: Array
    values: Array
    inputs: Array
    deltas: Array
    weights: Floats


class LaneSteps:
    """The steps of a network's training.

    Parameters
    ----------
    rule : Rule
    settings : NetworkSettings
    columns, largest_set : int
        Of the rows.
    lanes : int
        Those of this process.
    steps : int
        Of the whole training.
    seed : int

    Attributes
    ----------
    layout : Layout
    room : named tuple of arrays
        The ``parameters``, their moments (``first``, ``second``), the rule's ``state``, and, for each lane, ``sums``
        and ``totals``.
    """

    def __init__(
        self,
        rule: Rule,
        settings: NetworkSettings,
        columns: int,
        largest_set: int,
        *,
        lanes: int,
        steps: int,
        seed: int,
    ) -> None:
        dtype = np.dtype(settings.dtype)
        sizes = [columns, *settings.hidden, 1]
        codes = [ACTIVATIONS[name] for name in settings.activations]
        self.layout = Layout(np.array(sizes, dtype=np.int64), np.array(codes, dtype=np.int64))
        parameters = initial_parameters(sizes, np.random.default_rng(seed)).astype(dtype)
        block = sum(sizes) * STRIDE
        self.room = _Room(
            parameters=parameters,
            first=np.zeros_like(parameters),
            second=np.zeros_like(parameters),
            state=rule.initial_state(settings.initial_scale),
            sums=np.zeros((lanes, parameters.size)),
            totals=np.zeros((lanes, 4)),
            gradient=np.zeros_like(parameters),
            values=aligned_zeros(block, dtype),
            inputs=np.zeros(block if "silu" in settings.activations else 0, dtype),
            deltas=aligned_zeros(block, dtype),
            weights=aligned_zeros(largest_set + DOUBLES, np.float64),
        )
        schedule = _Schedule(
            OPTIMIZERS[settings.optimizer],
            float(settings.learning_rate),
            COSINE if settings.schedule == "cosine" else CONSTANT,
            steps,
            float(settings.weight_decay),
            float(settings.momentum),
            float(settings.second_momentum),
            rule.learns_scale,
        )
        self._common = (get_stages(settings.dtype), self.layout, SCALAR_HEAD, rule.formula, schedule)

    def begin(self, lanes: Lanes, done: int) -> None:
        """Begin a round, before which ``done`` steps were taken: compute the gradients of its first step."""
        self._lanes, self._done = lanes, done
        self.room.totals[:] = 0.0
        _add_gradients(*self._common, lanes, 0, self.room)

    def advance(self, first: int, last: int) -> None:
        """Take the steps of the round from ``first`` to before ``last``, and compute the gradients of the next.

        A step and the gradients of the next are one call: to hand the arrays over takes longer than a small step.
        """
        _take_steps(*self._common, self._lanes, first, last, self._done, self.room)


@jit
def _add_gradients(
    stages: Stages,
    layout: Layout,
    head: Head,
    formula: Formula,
    schedule: _Schedule,
    lanes: Lanes,
    step: int,
    room: _Room,
) -> None:
    """Compute each lane's gradient of a step of the round, and add them pairwise into the first row of the sums."""
    count = lanes.starts.size - 1
    factor = 1.0 / lanes.step_rows[step]
    for lane in range(count):
        begin = min(lanes.starts[lane] + step * lanes.share, lanes.starts[lane + 1])
        end = min(begin + lanes.share, lanes.starts[lane + 1])
        if step == lanes.step_rows.size - 1:
            end = lanes.starts[lane + 1]
        room.gradient[:] = 0
        for at in range(begin, end, BLOCK):
            block = lanes.order[at : min(at + BLOCK, end)]
            rows = block.size
            load_rows(lanes.features, block, rows, room.values)
            first = stages.forward(layout, room.parameters, room.values, room.inputs, rows)
            stages.block_loss(
                head,
                formula,
                lanes.sets,
                lanes.sample_weight,
                block,
                rows,
                lanes.sets.fixed.size > 0,
                schedule.learn_scale,
                room.values,
                first,
                layout.sizes[-1],
                room.deltas,
                room.state,
                room.weights,
                room.totals[lane],
                factor,
            )
            stages.backward(layout, room.parameters, room.gradient, room.values, room.inputs, room.deltas, rows)
        for k in range(room.gradient.size):
            room.sums[lane, k] = room.gradient[k]
    distance = 1
    while distance < count:
        for lane in range(0, count - distance, 2 * distance):
            for k in range(room.gradient.size):
                room.sums[lane, k] += room.sums[lane + distance, k]
        distance *= 2


@jit
def _take_steps(
    stages: Stages,
    layout: Layout,
    head: Head,
    formula: Formula,
    schedule: _Schedule,
    lanes: Lanes,
    first: int,
    last: int,
    done: int,
    room: _Room,
) -> None:
    """Take some steps of a round by the sums of their gradients; ``done`` were taken before this round."""
    for step in range(first, last):
        for k in range(room.gradient.size):
            room.gradient[k] = room.sums[0, k]
        rate = schedule.learning_rate
        if schedule.schedule == COSINE:
            rate *= 0.5 * (1.0 + math.cos(math.pi * (done + step) / schedule.steps))
        update(
            schedule.optimizer,
            room.parameters,
            room.gradient,
            room.first,
            room.second,
            done + step + 1,
            rate,
            schedule.weight_decay,
            schedule.momentum,
            schedule.second_momentum,
        )
        if step + 1 < lanes.step_rows.size:
            _add_gradients(stages, layout, head, formula, schedule, lanes, step + 1, room)
