"""One cell done: train every hyper-parameter setting, and record each epoch rule's test error and validation scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.errors import DivergenceError
from plr.paper.grid import Cell, seed_for
from plr.paper.methods import Method, Setting, get_method, get_model
from plr.paper.problems import BenchmarkProblem, ProblemRows, Workbench, labels_as_sets
from plr.paper.protocol import Protocol
from plr.paper.selection import EPOCH_RULES

__all__ = ["BenchmarkProblem", "Fit", "diverged_fits", "dump", "make_fit", "run_cell", "training_seed", "warm_up"]


# Model and method of what has run in this process already.
_WARM: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Fit:
    """One setting's result under one epoch rule.

    The three validation scores, smaller being better, are those at the epoch the rule chose, whatever the rule: the
    method's own loss, the negative log evidence of the candidates, and the error against true labels. All are None
    where training diverged, and ``problem`` then says how.
    """

    setting: str
    rule: str
    epoch: int | None
    val_loss: float | None
    val_evidence: float | None
    val_truth: float | None
    test_mse: float | None
    problem: str | None = None


def run_cell(
    cell: Cell,
    workbench: Workbench,
    *,
    check: Callable[[], None] = lambda: None,
    fitted: Callable[[], None] = lambda: None,
) -> list[Fit]:
    """Do one cell.

    Parameters
    ----------
    cell : Cell
    workbench : Workbench
    check : callable
        Called about ten times a second; stops the work by raising.
    fitted : callable
        Called after each setting.

    Returns
    -------
    list of Fit
        For each setting one per epoch rule.
    """
    protocol = workbench.protocol
    method = get_method(cell.method)
    problem = workbench.problem(cell)
    seed = training_seed(protocol, cell)
    fits: list[Fit] = []
    for setting in cell.settings(protocol):
        check()
        try:
            fits += _fit(problem, cell, method, setting, protocol, seed, check)
        except DivergenceError as error:
            # What the method does at this setting is a result, the same on every attempt; it must not stop the others.
            fits += diverged_fits(setting, error)
        fitted()
    return fits


def training_seed(protocol: Protocol, cell: Cell) -> int:
    """Return the seed of a cell's networks: shared by all methods, so that they differ in nothing but the method."""
    seed = seed_for(protocol, "training", cell.dataset, cell.trial, cell.model)
    return int(seed.generate_state(1, np.uint64)[0])


def diverged_fits(setting: Setting, error: DivergenceError) -> list[Fit]:
    """Return what is recorded of a setting that training went out of range with."""
    return [Fit(dump(setting), rule, None, None, None, None, None, str(error)) for rule in EPOCH_RULES]


def warm_up(cells: Iterable[Cell], protocol: Protocol) -> None:
    """Compile what the networks of some cells need, by one epoch on a few made-up rows for each kind of cell."""
    short = replace(protocol, epochs=1)
    # Custom fits are left out: what they do with twelve rows, and how long that takes, is not known.
    kinds = {(cell.model, cell.method): cell for cell in cells if get_method(cell.method).custom is None}
    if not _WARM.issuperset(kinds):
        y = np.linspace(0.0, 1.0, 12)
        X = np.column_stack([y, y**2]).astype(np.float32)
        # Two candidates a row, so that no method takes the way for rows that are certain.
        part = ProblemRows(X, CandidateSets(np.repeat(y, 2) + np.tile([0.0, 0.5], 12), np.arange(0, 25, 2)), y)
        problem = BenchmarkProblem(part, part, part)
        for kind in kinds.keys() - _WARM:
            cell, method = kinds[kind], get_method(kind[1])
            # Whatever is wrong shows in the cell itself, and is recorded there.
            with suppress(Exception):
                _fit(problem, cell, method, cell.settings(short)[0], short, 0, lambda: None)
            _WARM.add(kind)


def dump(setting: Setting) -> str:
    """Return a setting as text that is the same for equal settings."""
    return json.dumps(setting, sort_keys=True)


def make_fit(
    setting: Setting, rule: str, epoch: int, scores: Sequence[float], unit: float, errors: NDArray[np.floating]
) -> Fit:
    """Return a setting's result under one epoch rule.

    Parameters
    ----------
    setting : dict
    rule : str
        One of `plr.paper.selection.EPOCH_RULES`.
    epoch : int
    scores : sequence of float
        The three validation scores at that epoch.
    unit : float
        What labels were divided by for training.
    errors : ndarray
        Prediction less truth of the test rows.
    """
    loss, evidence, truth = (float(score) for score in scores)
    # The error against true labels goes back to the units of the labels; the other two have no common unit.
    mse = float(np.mean(errors**2))
    kept = [number if math.isfinite(number) else None for number in (loss, evidence, truth * unit**2, mse)]
    return Fit(dump(setting), rule, int(epoch), kept[0], kept[1], kept[2], kept[3])


def _fit(
    problem: BenchmarkProblem,
    cell: Cell,
    method: Method,
    setting: Setting,
    protocol: Protocol,
    seed: int,
    check: Callable[[], None],
) -> list[Fit]:
    if method.custom is not None:
        return method.custom(problem, setting, protocol, seed, check)
    from plr.network.network import (
        BY_EVIDENCE,
        BY_LOSS,
        BY_TRUTH,
        NetworkSettings,
        Validation,
        kernel_sets,
        train_network,
    )
    from plr.preprocessing.scaling import label_scale, learn_target, rescaled
    from plr.weighting.rule import Rule

    model = get_model(cell.model)
    target = learn_target(problem.train.S, None, protocol.scale_target, single_precision=True)
    shown_train, shown_validation = rescaled(problem.train.S, target), rescaled(problem.validation.S, target)
    sets, own = shown_train, shown_validation
    if method.target == "mean":
        sets, own = labels_as_sets(shown_train.mean()), labels_as_sets(shown_validation.mean())
    training = train_network(
        problem.train.X,
        kernel_sets(sets),
        Rule(*method.parts(setting, protocol.beta1)),
        NetworkSettings(
            hidden=model.hidden,
            activations=model.activations,
            epochs=protocol.epochs,
            batch_size=protocol.batch_size,
            learning_rate=setting["learning_rate"],
            initial_scale=label_scale(shown_train),
        ),
        seed=seed,
        validation=Validation(
            problem.validation.X,
            sets=own,
            candidates=shown_validation,
            truth=target.apply(problem.validation.y),
            rules=(BY_LOSS, BY_EVIDENCE, BY_TRUTH),
        ),
        callback=lambda *_: check(),
    )
    codes = (BY_LOSS, BY_EVIDENCE, BY_TRUTH)
    chosen = [(len(training.loss) - 1, training.last)]
    chosen += [(training.best[code].epoch, training.best[code].network) for code in codes]
    fits = []
    for rule, (epoch, network) in zip(EPOCH_RULES, chosen, strict=True):
        scores = [training.validation[epoch][code] for code in codes]
        errors = target.undo(network.predict(problem.test.X)) - problem.test.y
        fits.append(make_fit(setting, rule, epoch, scores, float(target.scale), errors))
    return fits
