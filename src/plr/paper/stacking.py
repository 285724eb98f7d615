"""Cells done many at a time on one device: their fits become a stack, its results become the cells' fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.errors import DependencyError, DivergenceError, ParameterError
from plr.losses import get_loss
from plr.network.initialisation import NO_SCORE, PARAMETERS, diverged, initial_parameters
from plr.paper.execution import Fit, diverged_fits, make_fit, training_seed
from plr.paper.grid import Cell
from plr.paper.methods import Setting, get_method, get_model
from plr.paper.problems import BenchmarkProblem, ProblemRows, Workbench, labels_as_sets
from plr.paper.selection import EPOCH_RULES
from plr.paper.stack_methods import check_method
from plr.paper.work import Item, StopError, Work, describe
from plr.preprocessing.scaling import Affine, label_scale, learn_target, rescaled
from plr.weighting import get_weighting

if TYPE_CHECKING:
    from plr.paper.stacked import Layers, StackedFit, StackedResult, ValidationRows

__all__ = ["StackLoop", "check_device", "device_name", "is_stackable", "run_stack", "stacked_fits", "stacks"]

_ACTIVATIONS = {"identity": 0, "relu": 1}

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
    if method.custom is not None or not set(get_model(cell.model).activations) <= set(_ACTIVATIONS):
        return False
    try:
        check_method(get_weighting(method.weighting), get_loss(method.loss))
    except ParameterError:
        return False
    return True


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


class StackLoop:
    """Does all cells of a run that can be stacked, and leaves the others to the threads.

    Parameters
    ----------
    work : Work
    device : str
        As PyTorch names it.
    """

    def __init__(self, work: Work, device: str) -> None:
        self._work = work
        self._device = device
        self._compiled = False

    def run(self) -> None:
        """Do stack after stack."""
        work = self._work
        try:
            waiting = stacks(work.take(is_stackable), work.workbench)
            work.start_clock()
            while waiting:
                work.check()
                waiting = self._do(waiting[0]) + waiting[1:]
        except StopError:
            return
        except BaseException:
            work.stop.set()
            raise

    def _do(self, items: Sequence[Item]) -> list[list[Item]]:
        """Run a stack; where that fails, return its halves, until the cell that fails is alone."""
        work = self._work
        mine = work.claim_among(items)
        if not mine:
            return []
        began = time.perf_counter()
        cost, epochs = work.cost(mine), work.workbench.protocol.epochs
        counted = 0.0

        def progress(done: int) -> None:
            nonlocal counted
            self._compiled = True
            work.check()
            work.count(cost * done / epochs - counted)
            counted = cost * done / epochs

        if not self._compiled:
            work.report(compiling=True)
        try:
            results = run_stack([cell for _, cell in mine], work.workbench, self._device, callback=progress)
        except BaseException as error:
            work.count(-counted)
            if isinstance(error, Exception) and not isinstance(error, StopError) and len(mine) == 1:
                work.count(cost)
                work.fail(mine[0][0], describe(error))
                return []
            work.store.release(*(key for key, _ in mine))
            if isinstance(error, StopError) or not isinstance(error, Exception):
                raise
            half = len(mine) // 2
            return [mine[:half], mine[half:]]
        work.finish(mine, results, time.perf_counter() - began)
        return []


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
    from plr.paper.stacked import train_stack

    protocol = workbench.protocol
    plans, layers = _plan(cells, workbench)
    flat = [plan for group in plans for plan in group]
    results = train_stack(
        [plan.fit for plan in flat],
        layers,
        epochs=protocol.epochs,
        batch_size=protocol.batch_size,
        device=device,
        callback=callback,
    )
    judged = iter(_judge(flat, results, layers, protocol.epochs, device))
    return [[fit for _ in group for fit in next(judged)] for group in plans]


def stacked_fits(cells: Sequence[Cell], workbench: Workbench) -> tuple[list[StackedFit], Layers]:
    """Return the fits that some cells of one data set and architecture consist of, and the architecture."""
    plans, layers = _plan(cells, workbench)
    return [plan.fit for group in plans for plan in group], layers


def _plan(cells: Sequence[Cell], workbench: Workbench) -> tuple[list[list[_Plan]], Layers]:
    from plr.paper.stacked import Layers

    if len({(cell.dataset, get_model(cell.model).hidden) for cell in cells}) != 1:
        raise ValueError("A stack is made of cells of one data set and one architecture.")
    maker = _Maker(workbench)
    plans = [maker.plans(cell) for cell in cells]
    return plans, Layers(plans[0][0].fit.features.shape[1], get_model(cells[0].model).hidden)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A fit with what its result is judged by."""

    setting: Setting
    fit: StackedFit
    target: Affine
    problem: BenchmarkProblem


class _Maker:
    """Makes fits of cells; what fits share is made once and is the same object in all of them."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._problems: dict[tuple[Any, ...], tuple[BenchmarkProblem, Affine, CandidateSets, CandidateSets]] = {}
        self._arrays: dict[tuple[Any, ...], NDArray[np.float32]] = {}
        self._validations: dict[tuple[Any, ...], ValidationRows] = {}
        self._features: dict[tuple[Any, ...], NDArray[np.float32]] = {}
        self._parameters: dict[tuple[Any, ...], NDArray[np.float32]] = {}

    def plans(self, cell: Cell) -> list[_Plan]:
        from plr.paper.stacked import StackedFit

        protocol, method, model = self._workbench.protocol, get_method(cell.method), get_model(cell.model)
        problem, target, train, validation = self._problem(cell)
        place = (cell.trial, cell.fraction, cell.false_labels, method.target)
        features = self._features.setdefault((cell.trial, cell.fraction), problem.train.X)
        seed = training_seed(protocol, cell)
        sizes = [features.shape[1], *model.hidden, 1]
        if (cell.model, cell.trial) not in self._parameters:
            drawn = initial_parameters(sizes, np.random.default_rng(seed)).astype(np.float32)
            self._parameters[cell.model, cell.trial] = drawn
        plans = []
        for setting in cell.settings(protocol):
            weighting, loss = method.parts(setting, protocol.beta1)
            fit = StackedFit(
                features=features,
                targets=self._padded(("train", *place), train, method.target),
                validation=self._validation(place, problem.validation, validation, target, method.target),
                parameters=self._parameters[cell.model, cell.trial],
                activations=tuple(_ACTIVATIONS[name] for name in model.activations),
                learning_rate=setting["learning_rate"],
                seed=seed,
                scale=label_scale(train),
                weighting=weighting,
                loss=loss,
            )
            plans.append(_Plan(setting, fit, target, problem))
        return plans

    def _problem(self, cell: Cell) -> tuple[BenchmarkProblem, Affine, CandidateSets, CandidateSets]:
        truth = get_method(cell.method).target == "truth"
        key = (cell.trial, cell.fraction, None if truth else cell.false_labels, truth)
        if key not in self._problems:
            problem = self._workbench.problem(cell)
            target = learn_target(problem.train.S, None, self._workbench.protocol.scale_target, single_precision=True)
            sets = (rescaled(problem.train.S, target), rescaled(problem.validation.S, target))
            self._problems[key] = (problem, target, *sets)
        return self._problems[key]

    def _validation(
        self, place: tuple[Any, ...], part: ProblemRows, sets: CandidateSets, target: Affine, kind: str
    ) -> ValidationRows:
        from plr.paper.stacked import ValidationRows

        if place not in self._validations:
            trial, fraction, size, _ = place
            self._validations[place] = ValidationRows(
                features=self._features.setdefault(("validation", trial), part.X),
                own=self._padded(("validation", *place), sets, kind),
                candidates=self._padded(("validation", trial, fraction, size, kind == "truth"), sets, "candidates"),
                truth=target.apply(part.y).astype(np.float32),
            )
        return self._validations[place]

    def _padded(self, key: tuple[Any, ...], sets: CandidateSets, kind: str) -> NDArray[np.float32]:
        if key not in self._arrays:
            if sets.prior is not None:
                raise ParameterError("Candidates with priors are for --device cpu.")
            shown = labels_as_sets(sets.mean()) if kind == "mean" else sets
            self._arrays[key] = shown.to_padded().astype(np.float32)
        return self._arrays[key]


def _judge(
    plans: Sequence[_Plan], results: Sequence[StackedResult], layers: Layers, epochs: int, device: str
) -> list[list[Fit]]:
    """Return the fits of each plan, one for each epoch rule."""
    from plr.paper.stacked import predict_stack

    # Networks that are tested on the same rows predict together.
    alike: dict[int, list[int]] = {}
    for number, plan in enumerate(plans):
        alike.setdefault(id(plan.problem.test.X), []).append(number)
    judged: list[list[Fit]] = [[] for _ in plans]
    for numbers in alike.values():
        parameters = np.concatenate([np.vstack([results[n].last, results[n].best]) for n in numbers])
        codes = np.repeat([plans[n].fit.activations for n in numbers], len(EPOCH_RULES), axis=0)
        predictions = predict_stack(layers, parameters, codes, plans[numbers[0]].problem.test.X, device)
        for place, n in enumerate(numbers):
            judged[n] = _fits_of(
                plans[n], results[n], predictions[place * len(EPOCH_RULES) : (place + 1) * len(EPOCH_RULES)], epochs
            )
    return judged


def _fits_of(plan: _Plan, result: StackedResult, predictions: NDArray[np.float32], epochs: int) -> list[Fit]:
    try:
        _check_converged(result, epochs, plan.fit.learning_rate)
    except DivergenceError as error:
        return diverged_fits(plan.setting, error)
    fits = []
    for rule, epoch, prediction in zip(EPOCH_RULES, (epochs - 1, *result.best_epoch), predictions, strict=True):
        errors = plan.target.undo(prediction.astype(np.float64)) - plan.problem.test.y
        fits.append(make_fit(plan.setting, rule, epoch, result.scores[epoch], float(plan.target.scale), errors))
    return fits


def _check_converged(result: StackedResult, epochs: int, learning_rate: float) -> None:
    bad = np.flatnonzero(~np.isfinite(result.loss))
    if bad.size:
        raise diverged(f"The training loss became {result.loss[bad[0]]}", int(bad[0]) + 1, epochs, learning_rate)
    if not np.isfinite(result.last).all():
        raise diverged(PARAMETERS, epochs, epochs, learning_rate)
    if (result.best_epoch < 0).any():
        raise DivergenceError(NO_SCORE)
