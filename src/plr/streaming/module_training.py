"""A torch module trained on the rounds of a shuffled copy: its steps as batches that the module learner takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from plr.contracts import START_SHARE, Task
from plr.learners.module.data import MapSource, TaskRows, TrainingBatch, padded_batch
from plr.learners.module.factories import exclusive
from plr.learners.module.features import FeatureReader
from plr.learners.module.fitted import FittedModule
from plr.learners.module.fitting import Interface, begin, label_type, train
from plr.learners.module.forward import find_device, float_type
from plr.learners.module.learner import Module
from plr.learners.module.settings import check_settings
from plr.learners.module.training import ModuleGroup, TrainingData
from plr.preprocessing.scaling import Affine
from plr.streaming.ahead import ahead
from plr.streaming.shuffled import EncodedRows, ShuffledCopy, TrainingOrder, read_rounds
from plr.weighting.rule import Rule

__all__ = ["ModuleJob"]

Progress = Callable[[int, int, float], object]

_CHECKPOINT = "module.pt"
_HELD_AT_A_TIME = 4096
# Rows held out are scaled already.
_AS_IT_IS = Affine(np.float64(0.0), np.float64(1.0))


@dataclass(frozen=True)
class ModuleJob:
    """A module to be trained: all that other processes need to know.

    Attributes
    ----------
    copy : Path
        The folder of the shuffled copy.
    learner : Module
    rule : Rule
    scaling : Affine or None
        Of the features; the copy has them scaled.
    target : Affine
    scale : float
        Standard deviation of the labels as the module sees them.
    started : bool
        Whether candidates have the weights of a start.
    seed : int
    validation : EncodedRows or None
        Rows held out to choose the best epoch by.
    """

    copy: Path
    learner: Module
    rule: Rule
    scaling: Affine | None
    target: Affine
    scale: float
    started: bool
    seed: int
    validation: EncodedRows | None = field(default=None, repr=False)

    def run(
        self,
        folder: Path,
        group: ModuleGroup | None = None,
        *,
        tell: Progress | None = None,
        saved: Callable[..., object] | None = None,
        save_every: float = 0.0,  # noqa: ARG002
    ) -> FittedModule:
        """Train, from the checkpoint in a folder on where there is one.

        Parameters
        ----------
        folder : Path
            Where the first process writes a checkpoint after each epoch.
        group : optional
            The processes that train together; each has some lanes.
        tell : callable, optional
            Called with ``(steps done, steps in all, nan)`` after each round.
        saved : callable, optional
            Called in all processes when there is a new checkpoint.
        save_every : float
            Without effect here.
        """
        learner, copy = self.learner, ShuffledCopy(self.copy)
        settings = replace(check_settings(learner), checkpoint=folder / _CHECKPOINT)
        device = find_device(settings.device)
        order = TrainingOrder(copy.sizes, settings.epochs, settings.batch_size, self.seed)
        lanes = (0, order.lanes) if group is None else order.lanes_of(group.number, group.processes)
        with exclusive(device, settings.threads, of_rows=False) as numbers:
            net = begin(learner, copy.shape.width, device, self.seed, numbers)
            kind = label_type(net)
            reader = FeatureReader(float_type(net), self.scaling, None, floats=True)
            validation = None
            if self.validation is not None:
                features, S, _, log_q, _ = self.validation
                held = Task(None, S, self.rule, log_q=log_q)
                rows = TaskRows(torch.from_numpy(features).to(reader.dtype), held, _AS_IT_IS, kind)
                validation = MapSource(rows, _HELD_AT_A_TIME, None, {}, False)
            data = TrainingData(
                _CopySource(copy, order, lanes, reader.dtype, kind, numbers.outside(tell)),
                validation,
                self.scale,
                self.seed,
                numbers,
                settings.epochs // START_SHARE if self.started else 0,
                numbers.outside(saved),
                group,
            )
            interface = Interface(reader, self.target, (copy.sizes,))
            return train(learner, settings, net, device, data, self.rule.weighting, self.rule.loss, interface)


class _CopySource:
    """Batches of some lanes of a shuffled copy."""

    def __init__(
        self,
        copy: ShuffledCopy,
        order: TrainingOrder,
        lanes: tuple[int, int],
        dtype: torch.dtype,
        labels: torch.dtype,
        tell: Progress | None,
    ) -> None:
        self._copy, self._order, self._lanes = copy, order, lanes
        self._dtype, self._labels, self._tell = dtype, labels, tell
        self.steps: int | None = order.steps // order.epochs

    def batches(self, epoch: int) -> Iterator[TrainingBatch]:
        """Give the batches of an epoch."""
        order = self._order
        done = epoch * (self.steps or 0)
        chunks = len(order.sizes)
        rounds = read_rounds(self._copy, order, epoch * chunks, (epoch + 1) * chunks, self._lanes)
        for turn, (rows, taken, starts) in ahead(rounds):
            features, S, weight, log_q, start = rows
            step_rows = order.step_rows(turn.chunk)
            bounds = order.bounds(turn.chunk)[slice(*self._lanes)] + starts[:-1, None]
            for step, in_all in enumerate(step_rows):
                some = np.concatenate([taken[lane[step] : lane[step + 1]] for lane in bounds])
                found = torch.from_numpy(features[some]).to(self._dtype)
                yield padded_batch(found, S, some, self._labels, log_q, start, weight, int(in_all))
            done += len(step_rows)
            if self._tell is not None:
                self._tell(done, order.steps, np.nan)
