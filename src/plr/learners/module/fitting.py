"""Putting a training together: from a task, or from a dataset that brings its own candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import IterableDataset

from plr._parameters import check_integer
from plr.contracts import START_SHARE, Report, Task
from plr.errors import DivergenceError
from plr.learners.module.checkpoint import describe, digest_arrays, digest_module
from plr.learners.module.data import BatchSource, MakeBatch, MapSource, PairRows, StreamSource, TaskRows, peek
from plr.learners.module.factories import (
    Numbers,
    check_trainable,
    exclusive,
    has_lazy_parameters,
    make_module,
    make_optimizer,
    make_scheduler,
)
from plr.learners.module.features import (
    FeatureReader,
    FeatureRows,
    holds_floats,
    learn_feature_scaling,
    plain_features,
)
from plr.learners.module.fitted import FittedModule
from plr.learners.module.forward import call_module, find_device, float_type, on_device
from plr.learners.module.settings import ModuleSettings
from plr.learners.module.training import ModuleTraining, TrainingData
from plr.losses import Loss, get_loss
from plr.preprocessing.scaling import Affine, label_scale, learn_target, rescaled
from plr.torch import ScoreLoss, make_loss
from plr.weighting import Posterior, Weighting, get_weighting

if TYPE_CHECKING:
    from plr.learners.module.learner import Module

__all__ = ["Interface", "begin", "fit_pairs", "fit_task", "label_type", "train"]

# How much a batch moves the noise scale: about one whole round in an epoch, or in so many batches.
_SLOWEST_ROUND, _UNKNOWN_ROUND = 100, 20

Callback = Callable[[int, int, float], object]


def fit_task(learner: Module, settings: ModuleSettings, task: Task) -> FittedModule:
    """Train on the rows of a task."""
    device = find_device(settings.device)
    X, S = plain_features(task.X), task.S
    width = int(X.shape[1]) if hasattr(X, "shape") and len(X.shape) == 2 else None
    drawn = settings.loader.get("collate_fn") is not None or not hasattr(X, "shape")
    with exclusive(device, settings.threads, of_rows=drawn) as numbers:
        net = begin(learner, width, device, task.seed, numbers)
        labels = label_type(net)
        target = learn_target(S, task.sample_weight, learner.scale_target, labels != torch.float64)
        scaling = learn_feature_scaling(X, task.sample_weight) if learner.scale_features else None
        reader = FeatureReader(float_type(net), scaling, settings.loader.get("collate_fn"), floats=holds_floats(X))

        def source_of(rows: Task, seed: int | None) -> BatchSource:
            indexed = TaskRows(FeatureRows(reader, rows.X), rows, target, labels)
            return MapSource(indexed, settings.batch_size, seed, settings.loader, device.type == "cuda")

        validation: BatchSource | None = None
        held_out: tuple[Any, ...] = ()
        if task.validation is not None:
            rows, sets = task.validation
            # The validation rows are scored by the density of the training rows, already scaled.
            log_q = task.validation_log_q(target)
            scored = Task(rows, sets, task.rule, log_q=log_q - np.log(float(target.scale)) if log_q.size else None)
            validation, held_out = source_of(scored, None), (sets.values, sets.offsets, sets.prior)
        given = (X, S.values, S.offsets, S.prior, task.sample_weight, task.log_q, task.start)
        data = TrainingData(
            source_of(task, task.seed),
            validation,
            label_scale(rescaled(S, target), task.sample_weight),
            task.seed,
            numbers,
            settings.epochs // START_SHARE if task.start is not None else 0,
            numbers.outside(task.tell),
        )
        interface = Interface(reader, target, (*given, *held_out))
        return train(learner, settings, net, device, data, task.rule.weighting, task.rule.loss, interface)


def fit_pairs(
    learner: Module,
    settings: ModuleSettings,
    dataset: Any,
    weighting: object,
    loss: object,
    seed: int,
    validation: Any,
    callback: Callback | None,
) -> FittedModule:
    """Train on a dataset of features with candidates."""
    seed = check_integer("seed", seed)
    device = find_device(settings.device)
    with exclusive(device, settings.threads) as numbers:
        # Datasets may draw random numbers as well.
        numbers.seed(seed, 2)
        first, S = peek(dataset)
        net = begin(learner, None, device, seed, numbers)
        labels = label_type(net)
        target = learn_target(S, None, learner.scale_target, labels != torch.float64)
        nested, floats = isinstance(first, tuple | list), holds_floats(first)
        reader = FeatureReader(float_type(net), None, settings.loader.get("collate_fn"), True, nested, floats)
        rule = get_weighting(weighting)
        learner.check_weighting(rule)
        make = MakeBatch(reader, target, labels, rule.density(S))

        def source_of(given: Any, order: int | None) -> BatchSource:
            pin = device.type == "cuda"
            if not isinstance(given, IterableDataset):
                return MapSource(PairRows(given, make), settings.batch_size, order, settings.loader, pin)
            return StreamSource(given, make, settings.batch_size, order, settings.loader, pin)

        data = TrainingData(
            source_of(dataset, seed),
            None if validation is None else source_of(validation, None),
            label_scale(rescaled(S, target)),
            seed,
            numbers,
            callback=numbers.outside(callback),
        )
        interface = Interface(reader, target, (S.values, S.offsets, S.prior))
        return train(learner, settings, net, device, data, rule, get_loss(loss), interface)


class Interface(NamedTuple):
    """How features and labels are turned into what the module sees, and the data that a checkpoint is of."""

    reader: FeatureReader
    target: Affine
    data: tuple[Any, ...]


def begin(learner: Module, width: int | None, device: torch.device, seed: int, numbers: Numbers) -> nn.Module:
    """Make the module on the device, as the seed decides."""
    # A factory may draw from numpy and Python, whatever the rows do.
    with numbers.of_all():
        numbers.seed(seed, 0)
        return make_module(learner.module, width).to(device)


def train(
    learner: Module,
    settings: ModuleSettings,
    net: nn.Module,
    device: torch.device,
    data: TrainingData,
    weighting: Weighting,
    loss: Loss,
    interface: Interface,
) -> FittedModule:
    """Train a module that has just begun."""
    steps = data.source.steps
    pointwise = loss if learner.loss is None else learner.loss
    rounds = _UNKNOWN_ROUND if steps is None else min(max(steps, 1), _SLOWEST_ROUND)
    if learner.score is None:
        criterion = make_loss(weighting, pointwise, "none", initial_scale=data.scale, momentum=1.0 / rounds)
    else:
        criterion = ScoreLoss(learner.score, pointwise, reduction="none")
    if has_lazy_parameters(net):
        _fill_in(net, data.source, device, settings.autocast)
    check_trainable(net)
    identity = {}
    if settings.checkpoint is not None:
        identity = describe(
            settings,
            module=f"{type(net).__name__} {digest_module(net)}",
            weighting=weighting if learner.score is None else learner.score,
            loss=pointwise,
            data=digest_arrays(interface.data),
            seed=data.seed,
            scale_features=learner.scale_features,
            scale_target=learner.scale_target,
            validation_fraction=learner.validation_fraction,
            drop_last=bool(settings.loader.get("drop_last", False)),
            collate_fn=settings.loader.get("collate_fn"),
        )
    optimizer = make_optimizer(settings, net)
    scheduler = make_scheduler(settings, optimizer, steps)
    noise = weighting if isinstance(weighting, Posterior) else Posterior()
    training = ModuleTraining(net, criterion, optimizer, scheduler, settings, device, data, noise, identity)
    reader, target, _ = interface

    def finished() -> FittedModule:
        net.zero_grad(set_to_none=True)
        progress = training.progress
        report = Report(
            rounds=progress.epoch,
            loss=np.array(progress.losses),
            noise_scale=np.array(progress.scales) * float(target.scale),
            validation=np.array(progress.validation),
            best_round=progress.best_epoch,
        )
        workers = {"num_workers": settings.loader["num_workers"]} if "num_workers" in settings.loader else {}
        return FittedModule(
            net.cpu().eval(), reader, target, report, settings.batch_size, str(device), settings.autocast, workers
        )

    try:
        training.run()
    except DivergenceError as error:
        error.fitted = finished()
        raise
    return finished()


@torch.no_grad()
def _fill_in(net: nn.Module, source: BatchSource, device: torch.device, autocast: bool) -> None:
    """Let a first batch decide the shapes that a module leaves open."""
    batch = on_device(next(iter(source.batches(0))), device)
    net.eval()
    call_module(net, batch.features, len(batch.candidates), device, autocast)


def label_type(net: nn.Module) -> torch.dtype:
    """Return what labels are kept in for a module."""
    return torch.float64 if float_type(net) == torch.float64 else torch.float32
