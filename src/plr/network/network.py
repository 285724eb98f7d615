"""A network and its training, seen from Python: shapes, initial weights, the loop around the compiled steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plr._codes import Sets
from plr._fields import require
from plr._vectors import DOUBLES
from plr.candidates import CandidateSets
from plr.errors import DivergenceError, LengthError, ParameterError
from plr.losses import Squared
from plr.network.initialisation import NO_SCORE, PARAMETERS, diverged, initial_parameters
from plr.network.layers import ACTIVATIONS, STRIDE, Layout, run
from plr.network.training import (
    BY_EVIDENCE,
    BY_LOSS,
    BY_TRUTH,
    CONSTANT,
    COSINE,
    DENSITY,
    OPTIMIZERS,
    RULES,
    SCALAR,
    Head,
    Memory,
    Monitor,
    TrainingPlan,
    get_stages,
    get_validation,
    train,
)
from plr.weighting.posterior import Posterior
from plr.weighting.rule import NOTHING, Rule, frozen, kernel_sets

__all__ = [
    "ACTIVATIONS",
    "BY_EVIDENCE",
    "BY_LOSS",
    "BY_TRUTH",
    "DENSITY",
    "OPTIMIZERS",
    "SCALAR_HEAD",
    "Best",
    "Head",
    "Network",
    "NetworkSettings",
    "TrainedNetwork",
    "Validation",
    "aligned_zeros",
    "kernel_sets",
    "make_memory",
    "train_network",
]

Array = NDArray[Any]
Floats = NDArray[np.float64]
SCALAR_HEAD = Head(SCALAR, 0.0, 1.0)

# Python looks at progress and at Ctrl-C about this often; what is learned does not depend on it.
_SECONDS_BETWEEN_LOOKS = 0.1
_FIRST_OPERATIONS = 200_000_000


@dataclass(frozen=True)
class NetworkSettings:
    """How to train, in words; see `plr.learners.MLP` for what each means."""

    hidden: tuple[int, ...]
    activations: tuple[str, ...]
    epochs: int
    batch_size: int = 256
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    weight_decay: float = 0.0
    momentum: float = 0.9
    second_momentum: float = 0.999
    dtype: Literal["float32", "float64"] = "float32"
    fixed_epochs: int = 0
    initial_scale: float = 1.0
    patience: int = 0
    stop_rule: int = BY_LOSS


@dataclass(frozen=True)
class Validation:
    """Validation rows and how they score epochs: by the method's own loss, by evidence (label-free) and by true labels.

    ``sets`` is what the own loss is taken on; ``candidates``, where it differs, what the evidence is taken on.
    ``log_q`` has the log density of false labels at each candidate of ``sets``, where it is not uniform.
    """

    features: Array
    sets: CandidateSets
    candidates: CandidateSets | None = None
    truth: Floats | None = None
    rules: tuple[int, ...] = (BY_LOSS,)
    log_q: Floats | None = None


class Best(NamedTuple):
    """The best epoch by one rule."""

    epoch: int
    score: float
    network: Network


@dataclass(frozen=True)
class Network:
    """A trained network: its shape and all its parameters in one flat vector."""

    layout: Layout
    parameters: Array

    def __post_init__(self) -> None:
        # The kernels follow these without looking.
        sizes, activations = self.layout.sizes.tolist(), self.layout.activations.tolist()
        require(len(sizes) >= 2 and sizes[0] >= 0 and min(sizes[1:]) >= 1, "a network needs layers with units")
        require(self.parameters.dtype in (np.float32, np.float64), "parameters must be floats")
        require(len(activations) == len(sizes) - 2, "activations and hidden layers differ in number")
        require(set(activations) <= set(ACTIVATIONS.values()), "unknown activation code")
        needed = sum((into + 1) * out for into, out in pairwise(sizes))
        require(self.parameters.shape == (needed,), "parameters and units differ in number")

    def outputs(self, features: Array) -> Floats:
        """Return the outputs for each row, one column per output unit."""
        # The kernel itself: a stage's pointer runs as plain Python when it is Python that calls it.
        rows = np.require(features, dtype=self.parameters.dtype, requirements=["C", "A", "W"])
        _check_columns(rows, int(self.layout.sizes[0]))
        out = np.empty((len(rows), int(self.layout.sizes[-1])))
        units = int(self.layout.sizes.sum()) * STRIDE
        values, inputs = aligned_zeros(units, rows.dtype), aligned_zeros(units, rows.dtype)
        run(self.layout, self.parameters, rows, values, inputs, out)
        return out

    def predict(self, features: Array) -> Floats:
        """Return the first output for each row."""
        return np.ascontiguousarray(self.outputs(features)[:, 0])


@dataclass(frozen=True)
class TrainedNetwork:
    """What training gave: the network of the last epoch, those of the best epochs, and how it went."""

    last: Network
    best: dict[int, Best]
    loss: Floats
    scales: Floats
    validation: Floats
    state: Floats


def train_network(
    features: Array,
    sets: Sets,
    rule: Rule,
    settings: NetworkSettings,
    *,
    seed: int,
    head: Head = SCALAR_HEAD,
    outputs: int = 1,
    sample_weight: Floats | None = None,
    validation: Validation | None = None,
    callback: Callable[[int, int, float], object] | None = None,
) -> TrainedNetwork:
    """Train a network and return it with its best epochs.

    Features and labels come as the network is to see them; scaling is the caller's. The same seed gives the same
    network, bit for bit. The callback is called now and then with (epochs done, epochs at most, loss).
    """
    dtype = np.dtype(settings.dtype)
    if len(sets.offsets) != len(features) + 1:
        raise LengthError(
            f"There are {len(features)} rows of features and {len(sets.offsets) - 1} sets; they must agree."
        )
    if head.kind != SCALAR and validation is not None:
        raise ParameterError("Validation rows are scored by the formula, which a density head does not use.")
    random = np.random.default_rng(seed)
    sizes = [features.shape[1], *settings.hidden, outputs]
    layout = Layout(
        np.array(sizes, dtype=np.int64), np.array([ACTIVATIONS[name] for name in settings.activations], dtype=np.int64)
    )
    parameters = initial_parameters(sizes, random).astype(dtype)
    largest_set = int(np.diff(sets.offsets).max())
    memory = make_memory(parameters, sum(sizes), len(features), largest_set, rule, settings, random)
    monitor = _make_monitor(validation, parameters, rule, settings, sizes[0])
    plan = TrainingPlan(
        settings.epochs,
        settings.batch_size,
        OPTIMIZERS[settings.optimizer],
        float(settings.learning_rate),
        COSINE if settings.schedule == "cosine" else CONSTANT,
        float(settings.weight_decay),
        float(settings.momentum),
        float(settings.second_momentum),
        settings.fixed_epochs if sets.fixed.size else 0,
        rule.learns_scale,
        rule.learns_missing,
        settings.patience if validation is not None else 0,
        settings.stop_rule,
    )
    rows = np.ascontiguousarray(features, dtype=dtype)
    importance = frozen(NOTHING if sample_weight is None else sample_weight / sample_weight.mean())
    stages = get_stages(settings.dtype)
    scoring, validate = get_validation(stages, layout, rule.formula, memory, monitor)
    # How long a step takes is not known yet; the first call does a few milliseconds' worth by its arithmetic.
    work = 6 * parameters.size * min(plan.batch_size, len(rows))
    budget, over = max(1, _FIRST_OPERATIONS // work), False
    while not over:
        began = time.perf_counter()
        over = train(
            stages,
            scoring,
            validate,
            layout,
            head,
            rule.formula,
            plan,
            rows,
            sets,
            importance,
            memory,
            monitor,
            budget,
        )
        taken = time.perf_counter() - began
        budget = max(1, int(budget * min(_SECONDS_BETWEEN_LOOKS / max(taken, 1e-9), 8.0)))
        done = int(memory.counters[0])
        if done and not np.isfinite(memory.history[done - 1]):
            what = f"The training loss became {memory.history[done - 1]}"
            raise diverged(what, done, plan.epochs, plan.learning_rate)
        if callback is not None and done:
            callback(done, plan.epochs, float(memory.history[done - 1]))
    # The last step comes after the last loss.
    if not np.isfinite(memory.parameters).all():
        raise diverged(PARAMETERS, done, plan.epochs, plan.learning_rate)
    if (monitor.best_epoch[monitor.wanted] < 0).any():
        raise DivergenceError(NO_SCORE)
    best = {
        rule: Best(
            int(monitor.best_epoch[rule]),
            float(monitor.best_score[rule]),
            Network(layout, monitor.best_parameters[rule].copy()),
        )
        for rule in np.flatnonzero(monitor.wanted).tolist()
    }
    return TrainedNetwork(
        last=Network(layout, memory.parameters.copy()),
        best=best,
        loss=memory.history[:done].copy(),
        scales=memory.scales[:done].copy(),
        validation=monitor.scores[:done].copy(),
        state=memory.state.copy(),
    )


def _check_columns(features: Array, columns: int) -> None:
    """Refuse a matrix that is not as wide as the network's first layer: the kernels would write past their memory."""
    if features.ndim != 2 or features.shape[1] != columns:
        raise LengthError(f"The network takes {columns} columns, got an array of shape {features.shape}.")


def aligned_zeros(size: int, dtype: Any) -> Array:
    """Return zeros that begin where a cache line does: vectors that straddle two lines take twice as long to load."""
    line = 64
    raw = np.zeros(size * np.dtype(dtype).itemsize + line, np.uint8)
    begin = -raw.ctypes.data % line
    return raw[begin : begin + size * np.dtype(dtype).itemsize].view(dtype)


def make_memory(
    parameters: Array,
    units: int,
    rows: int,
    largest_set: int,
    rule: Rule,
    settings: NetworkSettings,
    random: np.random.Generator,
) -> Memory:
    """Return what a training that begins with these parameters works in."""
    block = units * STRIDE
    return Memory(
        parameters=parameters.copy(),
        gradient=np.zeros_like(parameters),
        first=np.zeros_like(parameters),
        second=np.zeros_like(parameters),
        values=aligned_zeros(block, parameters.dtype),
        inputs=np.zeros(block if "silu" in settings.activations else 0, parameters.dtype),
        deltas=aligned_zeros(block, parameters.dtype),
        weights=aligned_zeros(largest_set + DOUBLES, np.float64),
        order=np.arange(rows, dtype=np.int64),
        counters=np.zeros(4, dtype=np.int64),
        random=random.integers(0, 2**63, 1).astype(np.uint64),
        state=rule.initial_state(settings.initial_scale),
        totals=np.zeros(4),
        history=np.full(settings.epochs, np.nan),
        scales=np.full(settings.epochs, np.nan),
    )


def _make_monitor(
    validation: Validation | None, parameters: Array, rule: Rule, settings: NetworkSettings, columns: int
) -> Monitor:
    # The common score assumes the same noise for every method, whatever the method itself assumes.
    noise = rule if rule.learns_scale else Rule(Posterior(), Squared())
    state = noise.initial_state(settings.initial_scale)
    wanted = np.zeros(RULES, dtype=np.bool_)
    if validation is None:
        features = np.empty((0, 0), parameters.dtype)
        sets = candidates = kernel_sets(CandidateSets._of_checked(NOTHING, np.zeros(1, np.int64), None))
        truth, rows, entries = NOTHING, 0, 0
    else:
        features = np.ascontiguousarray(validation.features, dtype=parameters.dtype)
        _check_columns(features, columns)
        if validation.truth is None and BY_TRUTH in validation.rules:
            raise ParameterError("To choose the best epoch by true labels, validation needs them.")
        sets = kernel_sets(validation.sets, log_q=validation.log_q)
        shown = validation.sets if validation.candidates is None else validation.candidates
        candidates = sets if validation.candidates is None else kernel_sets(shown)
        truth = NOTHING if validation.truth is None else validation.truth
        rows, entries = len(features), max(validation.sets.values.size, shown.values.size)
        wanted[list(validation.rules)] = True
    epochs = settings.epochs if rows else 0
    return Monitor(
        features=features,
        sets=sets,
        candidates=candidates,
        truth=frozen(truth),
        noise=noise.formula,
        learn_missing=noise.learns_missing,
        state=state,
        predictions=np.empty(rows),
        weights=np.empty(entries),
        buffer=np.empty(rows),
        spare=np.empty(rows),
        wanted=wanted,
        scores=np.full((epochs, RULES), np.nan),
        best_score=np.full(RULES, np.inf),
        best_epoch=np.full(RULES, -1, dtype=np.int64),
        best_parameters=np.tile(parameters, (RULES if rows else 0, 1)),
    )
