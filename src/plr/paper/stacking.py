"""Cells done many at a time on one device: their fits become a stack, its results become the cells' fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.errors import DependencyError, DivergenceError, ParameterError
from plr.losses import get_loss
from plr.network.initialisation import NO_SCORE, PARAMETERS, diverged, initial_parameters
from plr.paper.execution import Fit, diverged_fits, make_fit, training_seed
from plr.paper.grid import Cell
from plr.paper.methods import Setting, get_method, get_model
from plr.paper.problems import BenchmarkProblem, Workbench, labels_as_sets
from plr.paper.selection import EPOCH_RULES
from plr.paper.stacked.fits import ACTIVATIONS, Layers, StackedFit, StackedResult, ValidationRows, why_unstackable
from plr.paper.work import Item, StopError, Work, describe
from plr.preprocessing.scaling import Affine, label_scale, learn_target, rescaled
from plr.weighting import get_weighting

__all__ = ["check_device", "device_name", "is_stackable", "plan_stack", "run_stack", "run_stacks", "stacks"]

# So many fits keep a large GPU busy; more would only delay the first results.
_MOST_FITS = 4096


def check_device(name: str) -> str:
    """Return a device as PyTorch names it, after making sure that it is there.

    ``cuda`` and ``cuda:1`` are GPUs; ``torch`` is the same engine on the CPU.
    """
    kind, _, number = name.partition(":")
    if name != "torch" and (kind != "cuda" or (number and not number.isdigit())):
        raise ParameterError(f"Unknown device {name!r}; choose cpu, cuda, cuda:N for GPU number N, or torch.")
    try:
        import torch
    except ImportError as error:
        raise DependencyError(
            f'--device {name} needs PyTorch, which is not installed: pip install "plr[torch]".'
        ) from error
    if name == "torch":
        return "cpu"
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= there:
        found = "no GPU" if there == 0 else f"{there} GPU{'s' if there > 1 else ''}, numbered from 0"
        raise ParameterError(f"--device {name}: PyTorch finds {found} on this machine. Without a GPU use --device cpu.")
    return name


def device_name(name: str) -> str:
    """Return what a device is called in the record of a run."""
    import torch

    return f"{name} ({torch.cuda.get_device_name(name)})" if name.startswith("cuda") else name


def is_stackable(cell: Cell) -> bool:
    """Return whether a stack can do a cell; others are done one by one on the CPU."""
    method = get_method(cell.method)
    if method.custom is not None or not set(get_model(cell.model).activations) <= set(ACTIVATIONS):
        return False
    return why_unstackable(get_weighting(method.weighting), get_loss(method.loss)) is None


def stacks(items: Sequence[Item], workbench: Workbench) -> list[list[Item]]:
    """Group cells into stacks: of one data set and architecture each, long ones first."""
    groups: dict[tuple[str, tuple[int, ...]], list[Item]] = {}
    for item in items:
        groups.setdefault((item[1].dataset, get_model(item[1].model).hidden), []).append(item)
    found = []
    for group in groups.values():
        parts: list[list[Item]] = [[]]
        fits = 0
        for item in sorted(group, key=lambda item: item[1].trial):
            more = len(item[1].settings(workbench.protocol))
            if fits + more > _MOST_FITS and parts[-1]:
                parts.append([])
                fits = 0
            parts[-1].append(item)
            fits += more
        found += parts
    return sorted(found, key=lambda part: -sum(workbench.training_rows(cell) for _, cell in part))


def run_stacks(work: Work, device: str) -> None:
    """Do all cells of a run that can be stacked, stack after stack, on a device as PyTorch names it."""
    compiled = False

    def run(items: list[Item]) -> list[list[Item]]:
        """Run a stack; where that fails, return its halves, until the cell that fails is alone."""
        mine = work.claim_among(items)
        if not mine:
            return []
        began = time.perf_counter()
        cost, epochs = work.cost(mine), work.workbench.protocol.epochs
        counted = 0.0

        def progress(done: int) -> None:
            nonlocal compiled, counted
            compiled = True
            work.check()
            work.count(cost * done / epochs - counted)
            counted = cost * done / epochs

        if not compiled:
            work.report(compiling=True)
        try:
            results = run_stack([cell for _, cell in mine], work.workbench, device, callback=progress)
        except BaseException as error:
            work.count(-counted)
            if isinstance(error, StopError) or not isinstance(error, Exception):
                work.store.release(*(key for key, _ in mine))
                raise
            return work.fail(mine, describe(error))
        work.finish(mine, results, time.perf_counter() - began)
        return []

    with work.stopping():
        waiting = stacks(work.take(is_stackable), work.workbench)
        work.start_clock()
        while waiting:
            work.check()
            waiting = run(waiting[0]) + waiting[1:]


def run_stack(
    cells: Sequence[Cell], workbench: Workbench, device: str, *, callback: Callable[[int], object] | None = None
) -> list[list[Fit]]:
    """Do some cells of one data set and architecture at once.

    Parameters
    ----------
    cells : sequence of Cell
    workbench : Workbench
    device : str
        As PyTorch names it.
    callback : callable, optional
        Called with the number of epochs done now and then; stops the work by raising.

    Returns
    -------
    list of list of Fit
        For each cell what `plr.paper.execution.run_cell` would return.
    """
    from plr.paper.stacked.training import predict_stack, train_stack

    protocol = workbench.protocol
    plans, layers = plan_stack(cells, workbench)
    results = train_stack(
        [plan.fit for plan in plans],
        layers,
        epochs=protocol.epochs,
        batch_size=protocol.batch_size,
        device=device,
        callback=callback,
    )
    # Networks that are tested on the same rows predict together.
    alike: dict[int, list[int]] = {}
    for number, plan in enumerate(plans):
        alike.setdefault(id(plan.problem.test.X), []).append(number)
    fits: dict[int, list[Fit]] = {}
    for numbers in alike.values():
        parameters = np.concatenate([np.vstack([results[n].last, results[n].best]) for n in numbers])
        codes = np.repeat([plans[n].fit.activations for n in numbers], len(EPOCH_RULES), axis=0)
        predictions = predict_stack(layers, parameters, codes, plans[numbers[0]].problem.test.X, device)
        for n, predicted in zip(numbers, predictions.reshape(len(numbers), len(EPOCH_RULES), -1), strict=True):
            fits[n] = _fits_of(plans[n], results[n], predicted)
    found: dict[Cell, list[Fit]] = {cell: [] for cell in cells}
    for n, plan in enumerate(plans):
        found[plan.cell] += fits[n]
    return [found[cell] for cell in cells]


@dataclass(frozen=True, eq=False)
class Plan:
    """A fit of a stack: the setting of the cell that it is for, and what its result is compared with."""

    cell: Cell
    setting: Setting
    fit: StackedFit
    target: Affine
    problem: BenchmarkProblem


def plan_stack(cells: Sequence[Cell], workbench: Workbench) -> tuple[list[Plan], Layers]:
    """Return the fits that some cells of one data set and architecture consist of, and the architecture.

    What fits share is made once and is the same object in all of them.
    """
    if len({(cell.dataset, get_model(cell.model).hidden) for cell in cells}) != 1:
        raise ValueError("A stack is made of cells of one data set and one architecture.")
    protocol = workbench.protocol
    tables: dict[tuple[Any, ...], NDArray[np.float32]] = {}
    prepared: dict[tuple[Any, ...], tuple[BenchmarkProblem, Affine, dict[str, Any]]] = {}
    plans = []
    for cell in cells:
        method, model, seed = get_method(cell.method), get_model(cell.model), training_seed(protocol, cell)
        place = (cell.trial, cell.fraction, cell.false_labels, method.target)
        if place not in prepared:
            prepared[place] = _prepare(cell, workbench, tables)
        problem, target, data = prepared[place]
        sizes = [problem.train.X.shape[1], *model.hidden, 1]
        parameters = initial_parameters(sizes, np.random.default_rng(seed)).astype(np.float32)
        for setting in cell.settings(protocol):
            weighting, loss = method.parts(setting, protocol.beta1)
            fit = StackedFit(
                **data,
                parameters=parameters,
                activations=tuple(ACTIVATIONS[name] for name in model.activations),
                learning_rate=setting["learning_rate"],
                seed=seed,
                weighting=weighting,
                loss=loss,
            )
            plans.append(Plan(cell, setting, fit, target, problem))
    return plans, Layers(plans[0].fit.features.shape[1], get_model(cells[0].model).hidden)


def _prepare(
    cell: Cell, workbench: Workbench, tables: dict[tuple[Any, ...], NDArray[np.float32]]
) -> tuple[BenchmarkProblem, Affine, dict[str, Any]]:
    """Return the problem of a cell, how its labels are scaled, and what a `StackedFit` takes of it."""
    problem = workbench.problem(cell)
    target = learn_target(problem.train.S, None, workbench.protocol.scale_target, single_precision=True)
    train, candidates = rescaled(problem.train.S, target), rescaled(problem.validation.S, target)
    takes_mean = get_method(cell.method).target == "mean"
    shown = _padded(candidates)
    return (
        problem,
        target,
        {
            "features": tables.setdefault((cell.trial, cell.fraction), problem.train.X),
            "targets": _padded(labels_as_sets(train.mean()) if takes_mean else train),
            "validation": ValidationRows(
                features=tables.setdefault((cell.trial,), problem.validation.X),
                own=_padded(labels_as_sets(candidates.mean())) if takes_mean else shown,
                candidates=shown,
                truth=target.apply(problem.validation.y).astype(np.float32),
            ),
            "scale": label_scale(train),
        },
    )


def _padded(sets: CandidateSets) -> NDArray[np.float32]:
    if sets.prior is not None:
        raise ParameterError("Candidates with priors are for --device cpu.")
    return sets.to_padded().astype(np.float32)


def _fits_of(plan: Plan, result: StackedResult, predictions: NDArray[np.float32]) -> list[Fit]:
    """Return a fit's results, one for each epoch rule."""
    epochs, rate = len(result.loss), plan.fit.learning_rate
    bad = np.flatnonzero(~np.isfinite(result.loss))
    if bad.size:
        error = diverged(f"The training loss became {result.loss[bad[0]]}", int(bad[0]) + 1, epochs, rate)
        return diverged_fits(plan.setting, error)
    if not np.isfinite(result.last).all():
        return diverged_fits(plan.setting, diverged(PARAMETERS, epochs, epochs, rate))
    if (result.best_epoch < 0).any():
        return diverged_fits(plan.setting, DivergenceError(NO_SCORE))
    fits = []
    for rule, epoch, prediction in zip(EPOCH_RULES, (epochs - 1, *result.best_epoch), predictions, strict=True):
        errors = plan.target.undo(prediction.astype(np.float64)) - plan.problem.test.y
        fits.append(make_fit(plan.setting, rule, epoch, result.scores[epoch], float(plan.target.scale), errors))
    return fits
