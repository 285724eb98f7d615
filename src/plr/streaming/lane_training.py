"""A network trained on rounds of rows: by one process that has all lanes, or by several that have some each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plr._codes import MISSING, SCALE, Sets
from plr._vectors import DOUBLES
from plr.errors import DivergenceError
from plr.network.initialisation import NO_SCORE, PARAMETERS, diverged, initial_parameters
from plr.network.layers import ACTIVATIONS, STRIDE, Layout
from plr.network.network import SCALAR_HEAD, Network, NetworkSettings, aligned_zeros
from plr.network.training import BY_LOSS, CONSTANT, COSINE, OPTIMIZERS, get_stages
from plr.noise import fit_noise
from plr.streaming._lanes import Lanes, Room, Schedule, add_gradients, step_on, take_step, train_steps
from plr.streaming.shuffled import EncodedRows, ShuffledCopy
from plr.streaming.training_rounds import RoundRows, TrainingOrder, TrainingRound
from plr.weighting import Posterior
from plr.weighting.formula import next_missing, next_scale
from plr.weighting.rule import NOTHING, Rule, frozen

__all__ = ["LaneTraining", "NetworkJob", "ProcessGroup", "SingleProcess"]

Floats = NDArray[np.float64]

# As in training on rows in memory: Python looks at progress and at Ctrl-C about this often.
_SECONDS_BETWEEN_LOOKS = 0.1
_FIRST_OPERATIONS, _MOST_STEPS = 200_000_000, 1 << 30
_HISTORY = ("losses", "scales", "validation")


class ProcessGroup(Protocol):
    """The processes that train a network together."""

    number: int
    """Which of them this is."""
    processes: int

    def add(self, array: Floats) -> None:
        """Replace an array by the sum of all processes' arrays."""
        ...


class SingleProcess:
    """The group of a process that trains alone."""

    number, processes = 0, 1

    def add(self, array: Floats) -> None:
        """Leave it as it is."""


class LaneTraining:
    """The training of a network, round by round.

    Parameters
    ----------
    rule : Rule
    settings : NetworkSettings
        Of the network; ``fixed_epochs`` counts rounds here.
    order : TrainingOrder
    columns : int
        Of the features.
    largest_set : int
    seed : int
    lanes : (int, int)
        Those of this process, from the first to before the second.
    group : ProcessGroup
    score : callable, optional
        Scores a network, with the state of its rule, on rows held out; smaller is better. Asked after each epoch, to
        choose the best.
    """

    def __init__(
        self,
        rule: Rule,
        settings: NetworkSettings,
        order: TrainingOrder,
        columns: int,
        largest_set: int,
        *,
        seed: int,
        lanes: tuple[int, int] | None = None,
        group: ProcessGroup | None = None,
        score: Callable[[Network, Floats], float] | None = None,
    ) -> None:
        self.rule, self.settings, self.order = rule, settings, order
        self.lanes = (0, order.lanes) if lanes is None else lanes
        self._group: ProcessGroup = SingleProcess() if group is None else group
        self._score = score
        dtype = np.dtype(settings.dtype)
        sizes = [columns, *settings.hidden, 1]
        self.layout = Layout(
            np.array(sizes, dtype=np.int64),
            np.array([ACTIVATIONS[name] for name in settings.activations], dtype=np.int64),
        )
        parameters = initial_parameters(sizes, np.random.default_rng(seed)).astype(dtype)
        own = self.lanes[1] - self.lanes[0]
        block = sum(sizes) * STRIDE
        self._room = Room(
            parameters=parameters,
            first=np.zeros_like(parameters),
            second=np.zeros_like(parameters),
            state=rule.initial_state(settings.initial_scale),
            sums=np.zeros((own, parameters.size)),
            totals=np.zeros((own, 4)),
            gradient=np.zeros_like(parameters),
            values=aligned_zeros(block, dtype),
            inputs=np.zeros(block if "silu" in settings.activations else 0, dtype),
            deltas=aligned_zeros(block, dtype),
            weights=aligned_zeros(largest_set + DOUBLES, np.float64),
        )
        self._schedule = Schedule(
            OPTIMIZERS[settings.optimizer],
            float(settings.learning_rate),
            COSINE if settings.schedule == "cosine" else CONSTANT,
            order.steps,
            float(settings.weight_decay),
            float(settings.momentum),
            float(settings.second_momentum),
            rule.learns_scale,
        )
        self._stages = get_stages(settings.dtype)
        work = 6 * parameters.size * min(settings.batch_size, 65_536)
        self._budget = max(1, _FIRST_OPERATIONS // work)
        self.round = 0
        """The next round."""
        self.steps = 0
        """Steps that have been taken."""
        self.losses: list[float] = []
        self.scales: list[float] = []
        self.validation: list[float] = []
        self._of_epoch = np.zeros(2)
        self.best_epoch = -1
        self._best = np.zeros_like(parameters)
        self.stopped = False

    @property
    def network(self) -> Network:
        """The network as it is now; the best one where epochs were scored and training is over."""
        chosen = self._best if self._score is not None and self.is_over else self._room.parameters
        return Network(self.layout, chosen.copy())

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.stopped or self.round >= self.order.rounds

    def run(
        self,
        rounds: Iterable[tuple[TrainingRound, RoundRows]],
        *,
        callback: Callable[[int, int, float], object] | None = None,
        after: Callable[[LaneTraining], object] | None = None,
    ) -> None:
        """Train on rounds, from the one that is next.

        Parameters
        ----------
        rounds : iterable of (TrainingRound, RoundRows)
        callback : callable, optional
            Called with ``(steps done, steps in all, loss)`` about ten times a second.
        after : callable, optional
            Called with this training after every round.
        """
        for turn, rows in rounds:
            if turn.number != self.round:
                raise RuntimeError(f"Round {turn.number} came in place of {self.round}.")
            self._train(turn, rows, callback)
            self._end_round(turn)
            if after is not None:
                after(self)
            if self.is_over:
                break
        self.check()

    def check(self) -> None:
        """Raise an error where training is over and has diverged."""
        if not self.is_over:
            return
        if not np.isfinite(self._room.parameters).all():
            raise diverged(PARAMETERS, len(self.losses), self.order.epochs, self.settings.learning_rate)
        if self._score is not None and self.best_epoch < 0:
            raise DivergenceError(NO_SCORE)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of the training as arrays."""
        room = self._room
        return {
            "parameters": room.parameters,
            "first": room.first,
            "second": room.second,
            "state": room.state,
            "place": np.array([self.round, self.steps, self.best_epoch, int(self.stopped)]),
            "of_epoch": self._of_epoch,
            "best": self._best,
            **{name: np.array(getattr(self, name)) for name in _HISTORY},
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from the state of another training."""
        room = self._room
        for name in ("parameters", "first", "second", "state"):
            getattr(room, name)[:] = state[name]
        self.round, self.steps, self.best_epoch, stopped = (int(number) for number in state["place"])
        self.stopped = bool(stopped)
        self._of_epoch = np.array(state["of_epoch"])
        self._best = np.array(state["best"])
        for name in _HISTORY:
            setattr(self, name, state[name].tolist())

    def _train(
        self, turn: TrainingRound, rows: RoundRows, callback: Callable[[int, int, float], object] | None
    ) -> None:
        fixed = rows.start if turn.number < self.settings.fixed_epochs else rows.start[:0]
        lanes = Lanes(
            np.require(rows.features, dtype=self._room.parameters.dtype, requirements=["C", "A", "W"]),
            Sets(*(frozen(part) for part in (rows.values, rows.offsets, rows.prior, rows.log_q, fixed))),
            frozen(rows.weight),
            rows.order,
            rows.starts,
            self.order.step_rows(turn.chunk),
            self.order.share,
        )
        self._room.totals[:] = 0.0
        count = len(lanes.step_rows)
        use_fixed = bool(fixed.size)
        step = 0
        while step < count:
            last = min(count, step + self._budget)
            began = time.perf_counter()
            if self._group.processes == 1:
                self._steps(lanes, step, last, use_fixed)
            else:
                self._steps_in_group(lanes, step, last, use_fixed)
            taken = time.perf_counter() - began
            grown = self._budget * min(_SECONDS_BETWEEN_LOOKS / max(taken, 1e-9), 8.0)
            self._budget = max(1, int(min(grown, _MOST_STEPS)))
            step = last
            if callback is not None:
                totals = self._room.totals[0]
                loss = float(totals[0] / totals[1]) if totals[1] > 0 else np.nan
                callback(self.steps + step, self.order.steps, loss)
        self.steps += count

    def _steps(self, lanes: Lanes, first: int, last: int, use_fixed: bool) -> None:
        train_steps(
            self._stages,
            self.layout,
            SCALAR_HEAD,
            self.rule.formula,
            self._schedule,
            lanes,
            first,
            last,
            self.steps,
            use_fixed,
            self._room,
        )

    def _steps_in_group(self, lanes: Lanes, first: int, last: int, use_fixed: bool) -> None:
        """Take steps of which the gradients of all processes are added up.

        A step and the gradients of the next are one call: to hand the arrays over takes longer than a small step.
        """
        room = self._room
        common = (self._stages, self.layout, SCALAR_HEAD, self.rule.formula)
        add_gradients(*common, lanes, first, use_fixed, self._schedule.learn_scale, room)
        for step in range(first, last):
            self._group.add(room.sums[0])
            if step + 1 < last:
                step_on(*common, self._schedule, lanes, step, self.steps, use_fixed, room)
        take_step(self._schedule, self.steps + last, room)

    def _end_round(self, turn: TrainingRound) -> None:
        """Learn the noise from the round's sums, and close the epoch where it ends."""
        totals = _pairwise(self._room.totals)
        self._group.add(totals)
        state = self._room.state
        if not np.isfinite(totals[0]):
            what = f"The training loss became {totals[0]}"
            raise diverged(what, turn.epoch + 1, self.order.epochs, self.settings.learning_rate)
        if self.rule.learns_scale:
            if totals[3] > 0.0:
                state[SCALE] = next_scale(self.rule.formula, totals[2] / totals[3], state)
            if self.rule.learns_missing and turn.number >= self.settings.fixed_epochs:
                state[MISSING] = next_missing(totals[3] / totals[1])
        self._of_epoch += totals[:2]
        self.round = turn.number + 1
        if not turn.ends_epoch:
            return
        self.losses.append(float(self._of_epoch[0] / self._of_epoch[1]))
        self.scales.append(float(state[SCALE]))
        self._of_epoch = np.zeros(2)
        if self._score is None:
            return
        # The first process decides for all: on other processors the last bit may be another.
        found = np.zeros(1)
        if self._group.number == 0:
            found[0] = self._score(Network(self.layout, self._room.parameters.copy()), state)
        self._group.add(found)
        score = float(found[0])
        best = np.inf if self.best_epoch < 0 else self.validation[self.best_epoch]
        self.validation.append(score)
        if score < best:
            self.best_epoch = turn.epoch
            self._best = self._room.parameters.copy()
        self.stopped = self.settings.patience > 0 and turn.epoch - self.best_epoch >= self.settings.patience


@dataclass(frozen=True)
class NetworkJob:
    """A network to be trained: all that other processes need to know.

    Attributes
    ----------
    copy : Path
        The folder of the shuffled copy.
    rule : Rule
    settings : NetworkSettings
    columns, largest_set : int
    seed : int
    validation : EncodedRows or None
        Rows held out to choose the best epoch by.
    """

    copy: Path
    rule: Rule
    settings: NetworkSettings
    columns: int
    largest_set: int
    seed: int
    validation: EncodedRows | None = None

    def order(self, copy: ShuffledCopy) -> TrainingOrder:
        """Return what is trained on when."""
        return TrainingOrder(copy.sizes, self.settings.epochs, self.settings.batch_size, self.seed)

    def training(
        self, copy: ShuffledCopy, lanes: tuple[int, int] | None = None, group: ProcessGroup | None = None
    ) -> LaneTraining:
        """Return the training before its first round, of some lanes or of all."""
        return LaneTraining(
            self.rule,
            self.settings,
            self.order(copy),
            self.columns,
            self.largest_set,
            seed=self.seed,
            lanes=lanes,
            group=group,
            score=None if self.validation is None else self._score,
        )

    def _score(self, network: Network, state: NDArray[np.float64]) -> float:
        """Score a network on the rows held out, without their labels: smaller is better."""
        assert self.validation is not None
        _, S, weight, log_q, _ = self.validation
        prediction = network.predict(self.validation.features)
        if self.settings.stop_rule == BY_LOSS:
            found = self.rule.evaluate(prediction, S, state, NOTHING if log_q is None else log_q)
            return float(np.average(found.loss, weights=weight))
        family = self.rule.weighting if isinstance(self.rule.weighting, Posterior) else None
        noise = fit_noise(prediction, S, family, weight)
        return -float(np.average(noise.log_likelihood(prediction, S), weights=weight))


def _pairwise(totals: Floats) -> Floats:
    """Add the rows of an array as gradients are added, so that several processes get what one does."""
    left = totals.copy()
    distance = 1
    while distance < len(left):
        for lane in range(0, len(left) - distance, 2 * distance):
            left[lane] += left[lane + distance]
        distance *= 2
    return left[0]
