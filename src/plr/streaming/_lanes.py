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
from plr.network.layers import BLOCK, Layout, load_rows
from plr.network.training import COSINE, Head, Stages, update

__all__ = ["Lanes", "Room", "Schedule", "add_gradients", "step_on", "take_step", "train_steps"]

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


class Schedule(NamedTuple):
    """How steps are taken."""

    optimizer: int
    learning_rate: float
    schedule: int
    steps: int
    """Of the whole training."""
    weight_decay: float
    momentum: float
    second_momentum: float
    learn_scale: bool


class Room(NamedTuple):
    """All that changes in a step."""

    parameters: Array
    first: Array
    second: Array
    state: Floats
    sums: Floats
    """A row for each lane: its gradient; after `add_gradients` the first is the sum."""
    totals: Floats
    """A row for each lane: what `block_loss` adds up."""
    gradient: Array
    values: Array
    inputs: Array
    deltas: Array
    weights: Floats


@jit
def add_gradients(
    stages: Stages,
    layout: Layout,
    head: Head,
    formula: Formula,
    lanes: Lanes,
    step: int,
    use_fixed: bool,
    learn_scale: bool,
    room: Room,
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
                use_fixed,
                learn_scale,
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
def take_step(schedule: Schedule, number: int, room: Room) -> None:
    """Take step ``number``, from 1, of the training, by the sum of all gradients."""
    for k in range(room.gradient.size):
        room.gradient[k] = room.sums[0, k]
    rate = schedule.learning_rate
    if schedule.schedule == COSINE:
        rate *= 0.5 * (1.0 + math.cos(math.pi * (number - 1) / schedule.steps))
    update(
        schedule.optimizer,
        room.parameters,
        room.gradient,
        room.first,
        room.second,
        number,
        rate,
        schedule.weight_decay,
        schedule.momentum,
        schedule.second_momentum,
    )


@jit
def step_on(
    stages: Stages,
    layout: Layout,
    head: Head,
    formula: Formula,
    schedule: Schedule,
    lanes: Lanes,
    step: int,
    done: int,
    use_fixed: bool,
    room: Room,
) -> None:
    """Take a step of a round, whose gradients are added up, and compute the gradients of the next."""
    take_step(schedule, done + step + 1, room)
    add_gradients(stages, layout, head, formula, lanes, step + 1, use_fixed, schedule.learn_scale, room)


@jit
def train_steps(
    stages: Stages,
    layout: Layout,
    head: Head,
    formula: Formula,
    schedule: Schedule,
    lanes: Lanes,
    first: int,
    last: int,
    done: int,
    use_fixed: bool,
    room: Room,
) -> None:
    """Take some steps of a round, from ``first`` to before ``last``; ``done`` were taken before this round."""
    for step in range(first, last):
        add_gradients(stages, layout, head, formula, lanes, step, use_fixed, schedule.learn_scale, room)
        take_step(schedule, done + step + 1, room)
