"""Training a network inside compiled code: epochs, batches, forward, backward, optimiser, validation, best epochs.

`train` runs a bounded number of steps and returns; called again it goes on where it was, to the bit. So Python can show
progress and hear Ctrl-C between calls while all work is done without it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._codes import MISSING, SCALE, Formula
from plr._jit import jit
from plr.network._blocks import BLOCK, load_rows
from plr.network._heads import SCALAR, Head, Sets
from plr.network._optimizers import update
from plr.network._passes import Layout
from plr.weighting._noise import next_missing, next_scale, row_total

__all__ = [
    "BY_EVIDENCE",
    "BY_LOSS",
    "BY_TRUTH",
    "CONSTANT",
    "COSINE",
    "RULES",
    "Memory",
    "Monitor",
    "Stages",
    "TrainingPlan",
    "batch_gradient",
    "train",
]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# How the best epoch is judged on validation rows.
BY_LOSS, BY_EVIDENCE, BY_TRUTH = 0, 1, 2
RULES = 3

CONSTANT, COSINE = 0, 1  # learning-rate schedules

# Places in Memory.counters.
_EPOCH, _STEP, _CURSOR, _STOPPED = 0, 1, 2, 3


class Stages(NamedTuple):
    """The parts of training that are compiled on their own and called through pointers; see `plr._jit.pointer`."""

    forward: Any
    backward: Any
    run: Any
    block_loss: Any
    evaluate: Any
    evidence: Any
    spread: Any


class TrainingPlan(NamedTuple):
    """How to train."""

    epochs: int
    batch_size: int
    optimizer: int
    learning_rate: float
    schedule: int
    weight_decay: float
    momentum: float
    second_momentum: float
    fixed_epochs: int
    """For so many epochs the weights are those of the start."""
    learn_scale: bool
    learn_missing: bool
    patience: int
    """Stop after so many epochs without a better one; 0: never."""
    stop_rule: int


class Memory(NamedTuple):
    """All that changes while a network is trained; together with the plan it says exactly where training stands."""

    parameters: Array
    gradient: Array
    first: Array
    second: Array
    values: Array
    inputs: Array
    deltas: Array
    weights: Floats
    order: Integers
    counters: Integers
    random: NDArray[np.uint64]
    state: Floats
    totals: Floats
    history: Floats
    """Mean training loss of each epoch."""
    scales: Floats
    """Noise scale after each epoch."""


class Monitor(NamedTuple):
    """Validation rows and what is remembered of them; empty features mean that there are none."""

    features: Array
    sets: Sets
    """What the method's own loss is taken on: candidates, or what the method makes of them."""
    candidates: Sets
    """What the common label-free score is taken on."""
    truth: Floats
    """True labels, where the caller has them."""
    noise: Formula
    """The posterior formula whose evidence is the common label-free score."""
    learn_missing: bool
    state: Floats
    predictions: Floats
    weights: Floats
    buffer: Floats
    spare: Floats
    order: Integers
    totals: Floats
    wanted: NDArray[np.bool_]
    """Which of the rules to follow."""
    scores: Floats
    """One row per epoch, one column per rule; smaller is better."""
    best_score: Floats
    best_epoch: Integers
    best_parameters: Array


@jit
def batch_gradient(
    stages: Stages,
    layout: Layout,
    head: Head,
    formula: Formula,
    features: Array,
    sets: Sets,
    sample_weight: Floats,
    rows_at: Integers,
    use_fixed: bool,
    learn_scale: bool,
    memory: Memory,
) -> None:
    """Set ``memory.gradient`` to the mean gradient over a batch of rows."""
    memory.gradient[:] = 0
    count = layout.sizes[-1]
    factor = 1.0 / rows_at.size
    for begin in range(0, rows_at.size, BLOCK):
        block = rows_at[begin : begin + BLOCK]
        rows = block.size
        load_rows(features, block, rows, memory.values)
        first = stages.forward(layout, memory.parameters, memory.values, memory.inputs, rows)
        stages.block_loss(
            head,
            formula,
            sets,
            sample_weight,
            block,
            rows,
            use_fixed,
            learn_scale,
            memory.values,
            first,
            count,
            memory.deltas,
            memory.state,
            memory.weights,
            memory.totals,
            factor,
        )
        stages.backward(layout, memory.parameters, memory.gradient, memory.values, memory.inputs, memory.deltas, rows)


@jit
def _shuffle(order: Integers, random: NDArray[np.uint64]) -> None:
    """Put the rows into a fresh random order; the generator's state (splitmix64) is in ``random[0]``."""
    for i in range(order.size - 1, 0, -1):
        random[0] += np.uint64(0x9E3779B97F4A7C15)
        z = random[0]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        # The upper 32 bits times the bound, shifted down: even enough for any table that fits in memory.
        j = np.int64(((z >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@jit
def _validate(
    stages: Stages, layout: Layout, head: Head, formula: Formula, memory: Memory, monitor: Monitor, epoch: int
) -> None:
    """Score the network on the validation rows by every rule wanted, and remember it where it is the best so far."""
    rows = monitor.features.shape[0]
    count = layout.sizes[-1]
    if head.kind == SCALAR:
        stages.run(
            layout,
            memory.parameters,
            monitor.features,
            memory.values,
            memory.inputs,
            monitor.predictions.reshape((rows, 1)),
        )
        if monitor.wanted[BY_LOSS]:
            stages.evaluate(
                formula,
                monitor.predictions,
                monitor.sets.values,
                monitor.sets.offsets,
                monitor.sets.prior,
                monitor.sets.log_q,
                memory.state,
                monitor.weights,
                monitor.buffer,
                monitor.spare,
                monitor.spare,
            )
            monitor.scores[epoch, BY_LOSS] = _mean(monitor.buffer)
        if monitor.wanted[BY_EVIDENCE]:
            monitor.scores[epoch, BY_EVIDENCE] = -_mean_evidence(stages, monitor)
        if monitor.wanted[BY_TRUTH]:
            total = 0.0
            for i in range(rows):
                total += (monitor.predictions[i] - monitor.truth[i]) ** 2
            monitor.scores[epoch, BY_TRUTH] = total / rows
    else:
        totals = monitor.totals
        totals[:] = 0.0
        for begin in range(0, rows, BLOCK):
            block = monitor.order[begin : begin + BLOCK]
            load_rows(monitor.features, block, block.size, memory.values)
            first = stages.forward(layout, memory.parameters, memory.values, memory.inputs, block.size)
            stages.block_loss(
                head,
                formula,
                monitor.sets,
                monitor.truth[:0],
                block,
                block.size,
                False,
                False,
                memory.values,
                first,
                count,
                memory.deltas,
                memory.state,
                monitor.weights,
                totals,
                1.0,
            )
        monitor.scores[epoch, BY_LOSS] = totals[0] / totals[1]

    for rule in range(RULES):
        if monitor.wanted[rule] and monitor.scores[epoch, rule] < monitor.best_score[rule]:
            monitor.best_score[rule] = monitor.scores[epoch, rule]
            monitor.best_epoch[rule] = epoch
            for k in range(memory.parameters.size):
                monitor.best_parameters[rule, k] = memory.parameters[k]


@jit
def _mean(values: Floats) -> float:
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total / values.size


@jit
def _mean_evidence(stages: Stages, monitor: Monitor) -> float:
    """Return the validation rows' mean log evidence, its noise scale moved one round towards the best one.

    The scale is carried from epoch to epoch, so it follows the network without being solved for anew each time.
    """
    sets = monitor.candidates
    stages.evaluate(
        monitor.noise,
        monitor.predictions,
        sets.values,
        sets.offsets,
        sets.prior,
        sets.log_q,
        monitor.state,
        monitor.weights,
        monitor.buffer,
        monitor.spare,
        monitor.spare,
    )
    stages.spread(
        monitor.noise, monitor.predictions, sets.values, sets.offsets, monitor.state, monitor.weights, monitor.buffer
    )
    met = 1.0
    if monitor.state[MISSING] > 0.0:
        met = row_total(monitor.weights, 0, sets.values.size) / monitor.buffer.size
    if met > 0.0:
        monitor.state[SCALE] = next_scale(monitor.noise, _mean(monitor.buffer) / met, monitor.state)
    if monitor.learn_missing:
        monitor.state[MISSING] = next_missing(met)
    stages.evidence(
        monitor.noise,
        monitor.predictions,
        sets.values,
        sets.offsets,
        sets.prior,
        sets.log_q,
        monitor.state,
        monitor.weights,
        monitor.buffer,
    )
    return _mean(monitor.buffer)


@jit
def train(
    stages: Stages,
    layout: Layout,
    head: Head,
    formula: Formula,
    plan: TrainingPlan,
    features: Array,
    sets: Sets,
    sample_weight: Floats,
    memory: Memory,
    monitor: Monitor,
    budget: int,
) -> bool:
    """Train for at most ``budget`` steps and return whether training is over."""
    counters = memory.counters
    n = features.shape[0]
    steps_per_epoch = (n + plan.batch_size - 1) // plan.batch_size
    for _ in range(budget):
        if counters[_EPOCH] >= plan.epochs or counters[_STOPPED] != 0:
            return True
        epoch = counters[_EPOCH]
        if counters[_CURSOR] == 0:
            memory.totals[:] = 0.0
            if steps_per_epoch > 1:
                _shuffle(memory.order, memory.random)
        begin = counters[_CURSOR]
        batch = memory.order[begin : begin + plan.batch_size]
        use_fixed = epoch < plan.fixed_epochs
        batch_gradient(
            stages, layout, head, formula, features, sets, sample_weight, batch, use_fixed, plan.learn_scale, memory
        )
        counters[_STEP] += 1
        rate = plan.learning_rate
        if plan.schedule == COSINE:
            done = (counters[_STEP] - 1) / (plan.epochs * steps_per_epoch)
            rate *= 0.5 * (1.0 + math.cos(math.pi * done))
        update(
            plan.optimizer,
            memory.parameters,
            memory.gradient,
            memory.first,
            memory.second,
            counters[_STEP],
            rate,
            plan.weight_decay,
            plan.momentum,
            plan.second_momentum,
        )
        counters[_CURSOR] += batch.size
        if counters[_CURSOR] < n:
            continue

        counters[_CURSOR] = 0
        counters[_EPOCH] += 1
        memory.history[epoch] = memory.totals[0] / memory.totals[1]
        if plan.learn_scale:
            if memory.totals[3] > 0.0:
                memory.state[SCALE] = next_scale(formula, memory.totals[2] / memory.totals[3], memory.state)
            if plan.learn_missing and not use_fixed:
                # A start's weights sum to one and say nothing about it.
                memory.state[MISSING] = next_missing(memory.totals[3] / memory.totals[1])
        memory.scales[epoch] = memory.state[SCALE]
        if not math.isfinite(memory.history[epoch]):
            counters[_STOPPED] = 1
            return True
        if monitor.features.shape[0] > 0:
            _validate(stages, layout, head, formula, memory, monitor, epoch)
            if plan.patience > 0 and epoch - monitor.best_epoch[plan.stop_rule] >= plan.patience:
                counters[_STOPPED] = 1
    return counters[_EPOCH] >= plan.epochs or counters[_STOPPED] != 0
