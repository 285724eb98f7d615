"""A network trained on rounds of rows: by one process that has all lanes, or by several that have some each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plr._codes import SCALE
from plr.contracts import Report
from plr.errors import DivergenceError
from plr.learners.mlp import FittedNetwork
from plr.network.initialisation import NO_SCORE, PARAMETERS, diverged
from plr.network.lanes import Lanes, LaneSteps
from plr.network.network import BY_LOSS, Network, NetworkSettings, kernel_sets
from plr.noise import fit_noise
from plr.preprocessing.features import Encoding
from plr.preprocessing.scaling import Affine
from plr.streaming.ahead import ahead
from plr.streaming.scratch import read_state, write_state
from plr.streaming.shuffled import EncodedRows, RoundRows, ShuffledCopy, TrainingOrder, TrainingRound, read_rounds
from plr.weighting import Posterior
from plr.weighting.rule import NOTHING, Rule, frozen

__all__ = ["LaneTraining", "NetworkJob", "ProcessGroup", "SingleProcess"]

Floats = NDArray[np.float64]
Progress = Callable[[int, int, float], object]

# As in training on rows in memory: Python looks at progress and at Ctrl-C about this often.
_SECONDS_BETWEEN_LOOKS = 0.1
_FIRST_OPERATIONS, _MOST_STEPS = 200_000_000, 1 << 30
_CHECKPOINT = "progress.npz"
_MOVING, _HISTORY = ("parameters", "first", "second", "state"), ("losses", "scales", "validation")


class ProcessGroup(Protocol):
    """The processes that train a network together."""

    number: int
    """Which of them this is."""
    processes: int

    def add(self, array: Any) -> None:
        """Replace an array by the sum of all processes' arrays."""
        ...


class SingleProcess:
    """The group of a process that trains alone."""

    number, processes = 0, 1

    def add(self, array: Any) -> None:
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
        self._group: ProcessGroup = group or SingleProcess()
        self._score = score
        first, last = lanes or (0, order.lanes)
        self._steps = LaneSteps(rule, settings, columns, largest_set, lanes=last - first, steps=order.steps, seed=seed)
        self._room = self._steps.room
        work = 6 * self._room.parameters.size * min(settings.batch_size, 65_536)
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
        self._best = np.zeros_like(self._room.parameters)
        self.stopped = False

    @property
    def network(self) -> Network:
        """The network as it is now; the best one where epochs were scored and training is over."""
        chosen = self._best if self._score is not None and self.is_over else self._room.parameters
        return Network(self._steps.layout, chosen.copy())

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.stopped or self.round >= self.order.rounds

    def run(
        self,
        rounds: Iterable[tuple[TrainingRound, RoundRows]],
        *,
        callback: Progress | None = None,
        save: Callable[[], object] | None = None,
        save_every: float = 0.0,
    ) -> None:
        """Train on rounds, from the one that is next.

        Parameters
        ----------
        rounds : iterable of (TrainingRound, RoundRows)
        callback : callable, optional
            Called with ``(steps done, steps in all, loss)`` about ten times a second.
        save : callable, optional
            Called, in all processes alike, after the first round, then after rounds that end ``save_every`` seconds
            later, and in the end.
        """
        due = -np.inf
        for turn, rows in rounds:
            if turn.number != self.round:
                raise RuntimeError(f"Round {turn.number} came in place of {self.round}.")
            self._train(turn, rows, callback)
            self._end_round(turn)
            if save is not None and (self.is_over or self._first_says(time.monotonic() >= due)):
                save()
                due = time.monotonic() + save_every
            if self.is_over:
                break
        if self.is_over and not np.isfinite(self._room.parameters).all():
            raise diverged(PARAMETERS, len(self.losses), self.order.epochs, self.settings.learning_rate)
        if self.is_over and self._score is not None and self.best_epoch < 0:
            raise DivergenceError(NO_SCORE)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of the training as arrays."""
        return {
            **{name: getattr(self._room, name) for name in _MOVING},
            "place": np.array([self.round, self.steps, self.best_epoch, int(self.stopped)]),
            "of_epoch": self._of_epoch,
            "best": self._best,
            **{name: np.array(getattr(self, name)) for name in _HISTORY},
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from the state of another training."""
        for name in _MOVING:
            getattr(self._room, name)[:] = state[name]
        self.round, self.steps, self.best_epoch, stopped = (int(number) for number in state["place"])
        self.stopped = bool(stopped)
        self._of_epoch = np.array(state["of_epoch"])
        self._best = np.array(state["best"])
        for name in _HISTORY:
            setattr(self, name, state[name].tolist())

    def _train(self, turn: TrainingRound, round_rows: RoundRows, callback: Progress | None) -> None:
        rows = round_rows.rows
        fixed = rows.start if turn.number < self.settings.fixed_epochs else None
        step_rows = self.order.step_rows(turn.chunk)
        lanes = Lanes(
            np.require(rows.features, dtype=self._room.parameters.dtype, requirements=["C", "A", "W"]),
            kernel_sets(rows.S, log_q=rows.log_q, fixed=fixed),
            frozen(NOTHING if rows.weight is None else rows.weight),
            round_rows.order,
            round_rows.starts,
            step_rows,
            self.order.share,
        )
        self._steps.begin(lanes, self.steps)
        count, step = len(step_rows), 0
        while step < count:
            last = min(count, step + self._budget)
            began = time.perf_counter()
            if self._group.processes == 1:
                self._steps.advance(step, last)
            else:
                for one in range(step, last):
                    self._group.add(self._room.sums[0])
                    self._steps.advance(one, one + 1)
            taken = time.perf_counter() - began
            grown = self._budget * min(_SECONDS_BETWEEN_LOOKS / max(taken, 1e-9), 8.0)
            self._budget = max(1, int(min(grown, _MOST_STEPS)))
            step = last
            if callback is not None:
                totals = self._room.totals[0]
                loss = float(totals[0] / totals[1]) if totals[1] > 0 else np.nan
                callback(self.steps + step, self.order.steps, loss)
        self.steps += count

    def _end_round(self, turn: TrainingRound) -> None:
        """Learn the noise from the round's sums, and close the epoch where it ends."""
        totals = _pairwise(self._room.totals)
        self._group.add(totals)
        state = self._room.state
        if not np.isfinite(totals[0]):
            what = f"The training loss became {totals[0]}"
            raise diverged(what, turn.epoch + 1, self.order.epochs, self.settings.learning_rate)
        if self.rule.learns_scale and totals[1] > 0.0:
            mean, met = totals[2:] / totals[1]
            state[:] = self.rule.next_state(state, mean, met, own=turn.number >= self.settings.fixed_epochs)
        self._of_epoch += totals[:2]
        self.round = turn.number + 1
        if not turn.ends_epoch:
            return
        self.losses.append(float(self._of_epoch[0] / self._of_epoch[1]))
        self.scales.append(float(state[SCALE]))
        self._of_epoch = np.zeros(2)
        if self._score is None:
            return
        parameters = self._room.parameters.copy()
        first = self._group.number == 0
        found = self._first_says(self._score(Network(self._steps.layout, parameters), state) if first else 0.0)
        best = np.inf if self.best_epoch < 0 else self.validation[self.best_epoch]
        self.validation.append(found)
        if found < best:
            self.best_epoch, self._best = turn.epoch, parameters
        self.stopped = self.settings.patience > 0 and turn.epoch - self.best_epoch >= self.settings.patience

    def _first_says(self, number: float) -> float:
        """Return the number that the first process has: clocks, and the last bits on other processors, may differ."""
        found = np.array([float(number) if self._group.number == 0 else 0.0])
        self._group.add(found)
        return float(found[0])


@dataclass(frozen=True)
class NetworkJob:
    """A network to be trained: all that other processes need to know.

    Attributes
    ----------
    copy : Path
        The folder of the shuffled copy.
    rule : Rule
    settings : NetworkSettings
    encoding : Encoding
        Of the features; the copy has them encoded.
    target : Affine
    largest_set : int
    seed : int
    validation : EncodedRows or None
        Rows held out to choose the best epoch by.
    """

    copy: Path
    rule: Rule
    settings: NetworkSettings
    encoding: Encoding
    target: Affine
    largest_set: int
    seed: int
    validation: EncodedRows | None = None

    def run(
        self,
        folder: Path,
        group: ProcessGroup | None = None,
        *,
        tell: Progress | None = None,
        saved: Callable[..., object] | None = None,
        save_every: float = 0.0,
    ) -> FittedNetwork:
        """Train, from the checkpoint in a folder on where there is one.

        Parameters
        ----------
        folder : Path
            Where the first process writes checkpoints.
        group : ProcessGroup, optional
            The processes that train together; each has some lanes.
        tell : callable, optional
            Called with ``(steps done, steps in all, loss)``.
        saved : callable, optional
            Called in all processes when there is a new checkpoint.
        save_every : float
            Seconds between two checkpoints.
        """
        group = group or SingleProcess()
        copy, settings = ShuffledCopy(self.copy), self.settings
        order = TrainingOrder(copy.sizes, settings.epochs, settings.batch_size, self.seed)
        lanes = order.lanes_of(group.number, group.processes)
        score = None if self.validation is None else self._score
        training = LaneTraining(
            self.rule,
            settings,
            order,
            copy.shape.width,
            self.largest_set,
            seed=self.seed,
            lanes=lanes,
            group=group,
            score=score,
        )
        before = read_state(folder / _CHECKPOINT)
        if before is not None:
            training.restore(before)

        def save() -> None:
            if group.number == 0:
                write_state(folder / _CHECKPOINT, training.state())
            if saved is not None:
                saved()

        rounds = () if training.is_over else ahead(read_rounds(copy, order, training.round, lanes=lanes))
        training.run(rounds, callback=tell, save=save, save_every=save_every)
        report = Report(
            rounds=len(training.losses),
            loss=np.array(training.losses),
            noise_scale=np.array(training.scales) * float(self.target.scale) if self.rule.learns_scale else NOTHING,
            validation=np.array(training.validation),
            best_round=training.best_epoch if score is not None else None,
        )
        return FittedNetwork(training.network, self.encoding, self.target, report)

    def _score(self, network: Network, state: Floats) -> float:
        """Score a network on the rows held out, without their labels: smaller is better."""
        assert self.validation is not None
        features, S, weight, log_q, _ = self.validation
        prediction = network.predict(features)
        if self.settings.stop_rule == BY_LOSS:
            found = self.rule.evaluate(prediction, S, state, NOTHING if log_q is None else log_q)
            return float(np.average(found.loss, weights=weight))
        family = self.rule.weighting if isinstance(self.rule.weighting, Posterior) else None
        noise = fit_noise(prediction, S, family, weight)
        return -float(np.average(noise.log_likelihood(prediction, S), weights=weight))


def _pairwise(totals: Floats) -> Floats:
    """Add the rows of an array as gradients are added, so that several processes get what one does."""
    left = totals.copy()
    while len(left) > 1:
        left = np.concatenate([left, np.zeros((len(left) % 2, left.shape[1]))])
        left = left[::2] + left[1::2]
    return left[0]
