"""Training a network inside compiled code: epochs, batches, loss, optimiser, validation, best epochs.

`train` runs a bounded number of steps and returns; called again it goes on where it was, to the bit. So Python can show
progress and hear Ctrl-C between calls while all work is done without it.

What the network's outputs mean is its head. ``SCALAR``: one output, the prediction; a row costs what the formula says.
``DENSITY``: one output per label bin, the logits of a conditional density over labels; a row costs minus the log
likelihood of its candidates, −log Σ_j prior_j · p(y_j | x) / q(y_j). The density is piecewise linear: bin centres stand
``width`` apart from ``low`` on, and between two centres it runs straight from one's height to the other's.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from plr._codes import MISSING, SCALE, Formula, Sets
from plr._jit import LOCK, jit, pointer
from plr.candidates import CandidateSets
from plr.losses import Squared
from plr.network.layers import BLOCK, STRIDE, Layout, backward, forward, load_rows, run
from plr.weighting.average import Average
from plr.weighting.formula import (
    evaluate,
    evidence,
    may_miss,
    next_missing,
    next_scale,
    row,
    row_spread,
    row_total,
    spread,
)
from plr.weighting.rule import NOTHING, Rule, frozen, kernel_sets

__all__ = [
    "BY_EVIDENCE",
    "BY_LOSS",
    "BY_TRUTH",
    "CONSTANT",
    "COSINE",
    "DENSITY",
    "OPTIMIZERS",
    "RULES",
    "SCALAR",
    "Head",
    "Memory",
    "Monitor",
    "Stages",
    "TrainingPlan",
    "batch_gradient",
    "get_stages",
    "get_validation",
    "train",
    "update",
]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SCALAR, DENSITY = 0, 1

ADAM, ADAMW, SGD = 0, 1, 2
OPTIMIZERS = {"adam": ADAM, "adamw": ADAMW, "sgd": SGD}
_EPSILON = 1e-8

# How epochs are scored on validation rows.
BY_LOSS, BY_EVIDENCE, BY_TRUTH = 0, 1, 2
RULES = 3

CONSTANT, COSINE = 0, 1  # learning-rate schedules

# Places in Memory.counters.
_EPOCH, _STEP, _CURSOR, _STOPPED = 0, 1, 2, 3

# Keeps the logarithm finite where a density has underflowed at every candidate.
_SMALLEST = 1e-300


class Head(NamedTuple):
    """What outputs mean: SCALAR, or DENSITY with the label of its first bin's centre and the distance between them."""

    kind: int
    low: float = 0.0
    width: float = 1.0


class Stages(NamedTuple):
    """The parts of training that are compiled on their own and called through pointers; see `plr._jit.pointer`."""

    forward: Any
    backward: Any
    run: Any
    block_loss: Any


class Scoring(NamedTuple):
    """The same of validation; where there are no validation rows they do nothing, and take no time to compile."""

    evaluate: Any
    evidence: Any
    spread: Any


class TrainingPlan(NamedTuple):
    """How to train.

    For ``fixed_epochs`` the weights are those of the start. Training stops after ``patience`` epochs without a better
    one by ``stop_rule``; 0 is never.
    """

    epochs: int
    batch_size: int
    optimizer: int
    learning_rate: float
    schedule: int
    weight_decay: float
    momentum: float
    second_momentum: float
    fixed_epochs: int
    learn_scale: bool
    learn_missing: bool
    patience: int
    stop_rule: int


class Memory(NamedTuple):
    """All that changes while a network is trained; together with the plan it says exactly where training stands.

    ``history`` has the mean training loss of each epoch, ``scales`` the noise scale after it.
    """

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
    scales: Floats


class Monitor(NamedTuple):
    """Validation rows and what is remembered of them; empty features mean that there are none.

    Attributes
    ----------
    sets : Sets
        What the method's own loss is taken on: candidates, or what the method makes of them.
    candidates : Sets
        What the common label-free score is taken on.
    truth : ndarray
        True labels, where the caller has them.
    noise : Formula
        The posterior formula whose evidence is the common label-free score.
    wanted : ndarray
        Which of the rules to follow.
    scores : ndarray
        One row per epoch, one column per rule; smaller is better.
    """

    features: Array
    sets: Sets
    candidates: Sets
    truth: Floats
    noise: Formula
    learn_missing: bool
    state: Floats
    predictions: Floats
    weights: Floats
    buffer: Floats
    spare: Floats
    wanted: NDArray[np.bool_]
    scores: Floats
    best_score: Floats
    best_epoch: Integers
    best_parameters: Array


@jit
def block_loss(
    head: Head,
    formula: Formula,
    sets: Sets,
    sample_weight: Floats,
    rows_at: NDArray[np.int64],
    rows: int,
    use_fixed: bool,
    learn_scale: bool,
    outputs: Array,
    first: int,
    count: int,
    deltas: Array,
    state: Floats,
    weights: Floats,
    totals: Floats,
    factor: float,
) -> None:
    """Turn a block's outputs into deltas, multiplied by ``factor``, and add up what the epoch wants to know.

    ``totals``: the weighted sum of losses, of sample weights, of the spread that the next noise scale comes from, and
    of how probable it is that rows have their truth.
    """
    incomplete, use_fixed = may_miss(formula, state), use_fixed and sets.fixed.size > 0
    # A plain 0 would be a type of its own, and everything that takes it compiled once more.
    origin: int = np.int64(0)  # type: ignore[assignment]
    for r in range(rows):
        i = rows_at[r]
        importance = sample_weight[i] if sample_weight.size > 0 else 1.0
        start, stop = sets.offsets[i], sets.offsets[i + 1]
        if head.kind == DENSITY:
            value = _density_row(
                head,
                sets.values[start:stop],
                sets.prior[start:stop],
                sets.log_q[start:stop],
                outputs,
                first,
                count,
                r,
                deltas,
                weights,
                factor * importance,
            )
        else:
            prediction = np.float64(outputs[first * STRIDE + r])
            value, slope, _, scale = row(
                formula, incomplete, use_fixed, prediction, sets, start, stop, state, weights, origin
            )
            deltas[first * STRIDE + r] = factor * importance * slope
            if learn_scale:
                spread = row_spread(formula, prediction, sets, start, stop, state, weights, origin)
                totals[2] += importance * scale * spread
                totals[3] += importance * (scale * row_total(weights, origin, stop - start) if incomplete else 1.0)
        totals[0] += importance * value
        totals[1] += importance


@jit
def _density_row(
    head: Head,
    candidates: Floats,
    prior: Floats,
    log_q: Floats,
    outputs: Array,
    first: int,
    count: int,
    r: int,
    deltas: Array,
    shares: Floats,
    factor: float,
) -> float:
    highest = -np.inf
    for k in range(count):
        highest = max(highest, float(outputs[(first + k) * STRIDE + r]))
    total = 0.0
    for k in range(count):
        # The delta array holds the unnormalised probabilities until the gradient replaces them.
        e = math.exp(outputs[(first + k) * STRIDE + r] - highest)
        deltas[(first + k) * STRIDE + r] = e
        total += e

    likelihood = 0.0
    for j in range(candidates.size):
        left, fraction = _place(head, count, candidates[j])
        height = (1.0 - fraction) * deltas[(first + left) * STRIDE + r] * _peak(left, count)
        height += fraction * deltas[(first + left + 1) * STRIDE + r] * _peak(left + 1, count)
        share = prior[j] if prior.size > 0 else 1.0 / candidates.size
        if log_q.size > 0:
            share *= math.exp(-log_q[j])
        shares[j] = share * height
        likelihood += share * height
    likelihood = max(likelihood, _SMALLEST)

    for k in range(count):
        deltas[(first + k) * STRIDE + r] *= factor / total
    for j in range(candidates.size):
        left, fraction = _place(head, count, candidates[j])
        lower = (1.0 - fraction) * math.exp(outputs[(first + left) * STRIDE + r] - highest) * _peak(left, count)
        upper = fraction * math.exp(outputs[(first + left + 1) * STRIDE + r] - highest) * _peak(left + 1, count)
        if lower + upper > 0.0:
            responsibility = factor * shares[j] / likelihood / (lower + upper)
            deltas[(first + left) * STRIDE + r] -= responsibility * lower
            deltas[(first + left + 1) * STRIDE + r] -= responsibility * upper
    return -math.log(likelihood / (total * head.width))


@jit
def _place(head: Head, count: int, value: float) -> tuple[int, float]:
    """Return the bin centre at or below a label and the way to the next one, from 0 to 1."""
    at = min(max((value - head.low) / head.width, 0.0), count - 1.0)
    left = min(int(at), count - 2)
    return left, at - left


@jit
def _peak(k: int, count: int) -> float:
    """Return the height of a bin's hat for unit width; the outermost hats are halves, so they stand twice as high."""
    return 2.0 if k == 0 or k == count - 1 else 1.0


@jit
def update(
    code: int,
    parameters: Array,
    gradient: Array,
    first: Array,
    second: Array,
    step: int,
    rate: float,
    weight_decay: float,
    momentum: float,
    second_momentum: float,
) -> None:
    """Take step number ``step`` (from 1) of an optimiser as PyTorch defines it, on the flat vector of all parameters.

    ``first`` and ``second`` are the running moments.
    Weight decay adds to the gradient in Adam and SGD and acts directly in AdamW.
    """
    cast = parameters.dtype.type
    one = cast(1)
    decay = cast(weight_decay)
    b1 = cast(momentum)
    if code == SGD:
        lr = cast(rate)
        for k in range(parameters.size):
            slope = gradient[k] + decay * parameters[k]
            first[k] = slope if step == 1 else b1 * first[k] + slope
            parameters[k] -= lr * first[k]
        return
    shrink = one
    if code == ADAMW:
        shrink = one - cast(rate * weight_decay)
        decay = cast(0)
    b2 = cast(second_momentum)
    lr = cast(rate / (1.0 - momentum**step))
    root = cast(1.0 / math.sqrt(1.0 - second_momentum**step))
    epsilon = cast(_EPSILON)
    for k in range(parameters.size):
        slope = gradient[k] + decay * parameters[k]
        first[k] = b1 * first[k] + (one - b1) * slope
        second[k] = b2 * second[k] + (one - b2) * slope * slope
        parameters[k] = shrink * parameters[k] - lr * first[k] / (math.sqrt(second[k]) * root + epsilon)


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
    stages: Stages, scoring: Scoring, layout: Layout, formula: Formula, memory: Memory, monitor: Monitor, epoch: int
) -> None:
    """Score the network on the validation rows by every rule wanted, and remember it where it is the best so far."""
    rows = monitor.features.shape[0]
    predictions = monitor.predictions.reshape((rows, 1))
    stages.run(layout, memory.parameters, monitor.features, memory.values, memory.inputs, predictions)
    if monitor.wanted[BY_LOSS]:
        _evaluate(scoring, formula, monitor, monitor.sets, memory.state)
        monitor.scores[epoch, BY_LOSS] = _mean(monitor.buffer)
    if monitor.wanted[BY_EVIDENCE]:
        monitor.scores[epoch, BY_EVIDENCE] = -_mean_evidence(scoring, monitor)
    if monitor.wanted[BY_TRUTH]:
        for i in range(rows):
            monitor.buffer[i] = (monitor.predictions[i] - monitor.truth[i]) ** 2
        monitor.scores[epoch, BY_TRUTH] = _mean(monitor.buffer)
    for rule in range(RULES):
        if monitor.wanted[rule] and monitor.scores[epoch, rule] < monitor.best_score[rule]:
            monitor.best_score[rule] = monitor.scores[epoch, rule]
            monitor.best_epoch[rule] = epoch
            for k in range(memory.parameters.size):
                monitor.best_parameters[rule, k] = memory.parameters[k]


@jit
def _evaluate(scoring: Scoring, formula: Formula, monitor: Monitor, sets: Sets, state: Floats) -> None:
    """Weigh the candidates of the validation rows; the rows' losses are left in the buffer."""
    spare = monitor.spare
    scoring.evaluate(formula, monitor.predictions, sets, state, monitor.weights, monitor.buffer, spare, spare)


@jit
def _mean(values: Floats) -> float:
    return row_total(values, 0, values.size) / values.size


@jit
def _mean_evidence(scoring: Scoring, monitor: Monitor) -> float:
    """Return the validation rows' mean log evidence, its noise scale moved one round towards the best one.

    The scale is carried from epoch to epoch, so it follows the network without being solved for anew each time.
    """
    sets, state = monitor.candidates, monitor.state
    _evaluate(scoring, monitor.noise, monitor, sets, state)
    scoring.spread(monitor.noise, monitor.predictions, sets, state, monitor.weights, monitor.buffer)
    met = 1.0
    if state[MISSING] > 0.0:
        met = row_total(monitor.weights, 0, sets.values.size) / monitor.buffer.size
    if met > 0.0:
        state[SCALE] = next_scale(monitor.noise, _mean(monitor.buffer) / met, state)
    if monitor.learn_missing:
        state[MISSING] = next_missing(met)
    scoring.evidence(monitor.noise, monitor.predictions, sets, state, monitor.weights, monitor.buffer)
    return _mean(monitor.buffer)


@jit
def train(
    stages: Stages,
    scoring: Scoring,
    validate: Any,
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
            validate(stages, scoring, layout, formula, memory, monitor, epoch)
            if plan.patience > 0 and epoch - monitor.best_epoch[plan.stop_rule] >= plan.patience:
                counters[_STOPPED] = 1
    return counters[_EPOCH] >= plan.epochs or counters[_STOPPED] != 0


def get_stages(dtype: str) -> Stages:
    """Return pointers to the stages for networks in float32 or float64."""
    with LOCK:
        return _compile_stages(dtype)


def get_validation(
    stages: Stages, layout: Layout, formula: Formula, memory: Memory, monitor: Monitor
) -> tuple[Scoring, Any]:
    """Return what `train` is handed for validation: pointers to its parts, and to the whole."""
    given = tuple(map(numba.typeof, (stages, layout, formula, memory, monitor)))
    with LOCK:
        return _compile_validation(given, monitor.features.shape[0] > 0)


@functools.lru_cache(maxsize=8)
def _compile_validation(given: tuple[Any, ...], wanted: bool) -> tuple[Scoring, Any]:
    stages, layout, formula, memory, monitor = given
    nothing, floats = types.none, types.float64[::1]
    rows = (formula, floats, _sets_type(), floats, floats)
    scoring = Scoring(
        pointer(evaluate if wanted else _evaluate_nothing, nothing(*rows, floats, floats, floats)),
        pointer(evidence if wanted else _score_nothing, nothing(*rows, floats)),
        pointer(spread if wanted else _score_nothing, nothing(*rows, floats)),
    )
    whole = nothing(stages, numba.typeof(scoring), layout, formula, memory, monitor, types.int64)
    return scoring, pointer(_validate if wanted else _validate_nothing, whole)


def _evaluate_nothing(
    _formula: Any, _predictions: Any, _sets: Any, _state: Any, _a: Any, _b: Any, _c: Any, _d: Any
) -> None:
    pass


def _score_nothing(_formula: Any, _predictions: Any, _sets: Any, _state: Any, _weights: Any, _out: Any) -> None:
    pass


def _validate_nothing(_a: Any, _b: Any, _c: Any, _d: Any, _e: Any, _f: Any, _epoch: Any) -> None:
    pass


def _sets_type() -> Any:
    return numba.typeof(kernel_sets(CandidateSets._of_checked(NOTHING, np.zeros(1, np.int64), None)))


@functools.lru_cache(maxsize=2)
def _compile_stages(dtype: str) -> Stages:
    number = types.Array(numba.from_dtype(np.dtype(dtype)), 1, "C")
    table = types.Array(numba.from_dtype(np.dtype(dtype)), 2, "C")
    real, whole, flag, nothing = types.float64, types.int64, types.boolean, types.none
    floats, columns, integers = types.float64[::1], types.float64[:, ::1], types.int64[::1]
    kept = numba.typeof(frozen(NOTHING))
    layout = numba.typeof(Layout(np.zeros(1, np.int64), np.zeros(1, np.int64)))
    formula = numba.typeof(Rule(Average(), Squared()).formula)
    head = numba.typeof(Head(0, 0.0, 1.0))
    return Stages(
        forward=pointer(forward, whole(layout, number, number, number, whole)),
        backward=pointer(backward, nothing(layout, number, number, number, number, number, whole)),
        run=pointer(run, nothing(layout, number, table, number, number, columns)),
        block_loss=pointer(
            block_loss,
            nothing(
                head,
                formula,
                _sets_type(),
                kept,
                integers,
                whole,
                flag,
                flag,
                number,
                whole,
                whole,
                number,
                floats,
                floats,
                floats,
                real,
            ),
        ),
    )
