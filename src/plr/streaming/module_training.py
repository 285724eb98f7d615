"""A torch module trained on the rounds of a shuffled copy: its steps as batches that the module learner takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plr.contracts import Report
from plr.learners.module.data import TrainingBatch
from plr.learners.module.factories import exclusive, make_module
from plr.learners.module.features import FeatureReader
from plr.learners.module.fitted import FittedModule
from plr.learners.module.fitting import Interface, begin, label_type, train
from plr.learners.module.forward import find_device, float_type
from plr.learners.module.learner import Module
from plr.learners.module.settings import check_settings
from plr.learners.module.training import ModuleGroup, TrainingData
from plr.losses import Loss
from plr.preprocessing.scaling import Affine
from plr.streaming.ahead import ahead
from plr.streaming.shuffled import EncodedRows, ShuffledCopy
from plr.streaming.training_rounds import RoundRows, TrainingOrder, read_rounds
from plr.torch.batches import spread
from plr.weighting import Weighting

__all__ = ["ModuleJob"]

Integers = NDArray[np.int64]
Progress = Callable[[int, int, float], object]

_START_SHARE = 3


@dataclass(frozen=True)
class ModuleJob:
    """A module to be trained: all that other processes need to know.

    Attributes
    ----------
    copy : Path
        The folder of the shuffled copy.
    learner : Module
    weighting : Weighting
    loss : Loss
    epochs : int
    columns : int
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
    weighting: Weighting
    loss: Loss
    epochs: int
    columns: int
    scaling: Affine | None
    target: Affine
    scale: float
    started: bool
    seed: int
    validation: EncodedRows | None = field(default=None, repr=False)

    def order(self, copy: ShuffledCopy) -> TrainingOrder:
        """Return what is trained on when."""
        return TrainingOrder(copy.sizes, self.epochs, self.learner.batch_size, self.seed)

    def run(
        self,
        copy: ShuffledCopy,
        checkpoint: Path,
        *,
        lanes: tuple[int, int] | None = None,
        group: ModuleGroup | None = None,
        callback: Progress | None = None,
        tell: Progress | None = None,
    ) -> FittedModule:
        """Train, from the checkpoint on where there is one.

        Parameters
        ----------
        copy : ShuffledCopy
        checkpoint : Path
            Written after each epoch.
        lanes : (int, int), optional
            Those of this process, from the first to before the second; all of them by default.
        group : optional
            The processes that train together.
        callback : callable, optional
            Called after each epoch.
        tell : callable, optional
            Called with ``(steps done, steps in all, nan)`` after each round.
        """
        settings = replace(check_settings(self.learner), epochs=self.epochs, checkpoint=checkpoint)
        device = find_device(settings.device)
        order = self.order(copy)
        own = (0, order.lanes) if lanes is None else lanes
        with exclusive(device, settings.threads, of_rows=False) as numbers:
            net = begin(self.learner, self.columns, device, self.seed, numbers)
            kind = label_type(net)
            reader = FeatureReader(float_type(net), self.scaling, None, floats=True)
            source = _CopySource(copy, order, own, reader.dtype, kind, numbers.outside(tell))
            validation = None if self.validation is None else _HeldSource(self.validation, reader.dtype, kind)
            data = TrainingData(
                source,
                validation,
                self.scale,
                self.seed,
                numbers,
                self.epochs // _START_SHARE if self.started else 0,
                numbers.outside(callback),
                group,
            )
            interface = Interface(reader, self.target, (copy.sizes,))
            return train(self.learner, settings, net, device, data, self.weighting, self.loss, interface)

    def report_arrays(self, fitted: FittedModule) -> dict[str, NDArray[Any]]:
        """Return the report of a training as arrays, for `fitted`."""
        report = fitted.report
        return {
            "rounds": np.array([report.rounds, -1 if report.best_round is None else report.best_round]),
            "loss": report.loss,
            "noise_scale": report.noise_scale,
            "validation": report.validation,
        }

    def fitted(self, weights: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FittedModule:
        """Return the trained module from its weights and the arrays of its report."""
        settings = check_settings(self.learner)
        net = make_module(self.learner.module, self.columns)
        net.load_state_dict(weights)
        rounds, best = (int(number) for number in arrays.pop("rounds"))
        report = Report(rounds, **arrays, best_round=None if best < 0 else best)
        reader = FeatureReader(float_type(net), self.scaling, None, floats=True)
        device = str(find_device(settings.device))
        return FittedModule(net.eval(), reader, self.target, report, settings.batch_size, device, settings.autocast)


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
        for turn, rows in ahead(read_rounds(self._copy, order, epoch * chunks, (epoch + 1) * chunks, self._lanes)):
            step_rows = order.step_rows(turn.chunk)
            bounds = order.bounds(turn.chunk)[self._lanes[0] : self._lanes[1]] + rows.starts[:-1, None]
            for step, in_all in enumerate(step_rows):
                taken = [rows.order[lane[step] : lane[step + 1]] for lane in bounds]
                yield _batch(rows, np.concatenate(taken), self._dtype, self._labels, int(in_all))
            done += len(step_rows)
            if self._tell is not None:
                self._tell(done, order.steps, np.nan)


class _HeldSource:
    """Batches of rows that are held out."""

    def __init__(self, rows: EncodedRows, dtype: torch.dtype, labels: torch.dtype, size: int = 4096) -> None:
        S = rows.S
        nothing = np.empty(0)
        self._rows = RoundRows(
            rows.features,
            S.values,
            S.offsets,
            nothing if S.prior is None else S.prior,
            nothing if rows.log_q is None else rows.log_q,
            nothing,
            nothing,
            np.arange(len(S)),
            np.array([0, len(S)]),
        )
        self._dtype, self._labels, self._size = dtype, labels, size
        self.steps: int | None = -(-len(S) // size)

    def batches(self, _: int) -> Iterator[TrainingBatch]:
        """Give all rows."""
        rows = self._rows
        for first in range(0, len(rows.order), self._size):
            yield _batch(rows, rows.order[first : first + self._size], self._dtype, self._labels, None)


def _batch(
    rows: RoundRows, taken: Integers, dtype: torch.dtype, labels: torch.dtype, in_all: int | None
) -> TrainingBatch:
    starts = rows.offsets[taken]
    sizes = rows.offsets[taken + 1] - starts
    mask = np.arange(int(sizes.max(initial=1))) < sizes[:, None]
    ends = np.cumsum(sizes)
    places = np.repeat(starts - ends + sizes, sizes) + np.arange(int(sizes.sum()))

    def padded(flat: NDArray[np.float64]) -> Any:
        return spread(flat[places], mask, labels) if flat.size else None

    return TrainingBatch(
        torch.from_numpy(rows.features[taken]).to(dtype),
        spread(rows.values[places], mask, labels),
        torch.from_numpy(mask),
        padded(rows.prior),
        padded(rows.log_q),
        padded(rows.start),
        torch.from_numpy(rows.weight[taken]).to(labels) if rows.weight.size else None,
        in_all,
    )
