"""One cell done: train every hyper-parameter setting, and record each epoch rule's test error and validation scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from plr.candidates import CandidateSets
from plr.errors import DivergenceError
from plr.paper.grid import Cell, seed_for
from plr.paper.methods import Method, Setting, get_method
from plr.paper.models import get_model
from plr.paper.problems import Held, Part, Problem, Workbench, labels_as_sets
from plr.paper.protocol import Protocol
from plr.paper.selection import EPOCH_RULES

__all__ = ["Fit", "Problem", "diverged_fits", "dump", "finite", "run_cell", "training_seed", "warm_up"]


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
    # A fit of the method's own is left alone: nobody knows what it does with twelve rows, or how long it takes.
    kinds = {(cell.model, cell.method): cell for cell in cells if get_method(cell.method).custom is None}
    if not _WARM.issuperset(kinds):
        y = np.linspace(0.0, 1.0, 12)
        X = np.column_stack([y, y**2]).astype(np.float32)
        # Two candidates a row, so that no method takes the way for rows that are certain.
        part = Part(X, CandidateSets(np.repeat(y, 2) + np.tile([0.0, 0.5], 12), np.arange(0, 25, 2)), y)
        problem = Problem(part, part, Held(X, y))
        for kind in kinds.keys() - _WARM:
            cell, method = kinds[kind], get_method(kind[1])
            # Whatever is wrong shows in the cell itself, and is recorded there.
            with suppress(Exception):
                _fit(problem, cell, method, cell.settings(short)[0], short, 0, lambda: None)
            _WARM.add(kind)


def dump(setting: Setting) -> str:
    """Return a setting as text that is the same for equal settings."""
    return json.dumps(setting, sort_keys=True)


def _fit(
    problem: Problem,
    cell: Cell,
    method: Method,
    setting: Setting,
    protocol: Protocol,
    seed: int,
    check: Callable[[], None],
) -> list[Fit]:
    if method.custom is not None:
        return method.custom(problem, setting, protocol, seed, check)
    return _fit_network(problem, cell, method, setting, protocol, seed, check)


def _fit_network(
    problem: Problem,
    cell: Cell,
    method: Method,
    setting: Setting,
    protocol: Protocol,
    seed: int,
    check: Callable[[], None],
) -> list[Fit]:
    from plr.network._training import BY_EVIDENCE, BY_LOSS, BY_TRUTH
    from plr.network.network import Settings, Validation, kernel_sets, train_network
    from plr.preprocessing.scaling import label_scale, learn_target, rescaled

    model = get_model(cell.model)
    target = learn_target(problem.train.S, None, protocol.scale_target, single_precision=True)
    unit = float(target.scale)
    shown_train, shown_validation = rescaled(problem.train.S, target), rescaled(problem.validation.S, target)
    sets, own = shown_train, shown_validation
    if method.target == "mean":
        sets, own = labels_as_sets(shown_train.mean()), labels_as_sets(shown_validation.mean())
    training = train_network(
        problem.train.X,
        kernel_sets(sets),
        method.rule(setting, protocol.beta1),
        Settings(
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
        callback=lambda _progress: check(),
    )
    chosen = {"last": (len(training.loss) - 1, training.last)}
    for name, code in (("loss", BY_LOSS), ("evidence", BY_EVIDENCE), ("truth", BY_TRUTH)):
        best = training.best[code]
        chosen[name] = (best.epoch, best.network)
    fits = []
    for name in EPOCH_RULES:
        epoch, network = chosen[name]
        scores = training.validation[epoch]
        prediction = target.undo(network.predict(problem.test.X))
        fits.append(
            Fit(
                setting=dump(setting),
                rule=name,
                epoch=epoch,
                val_loss=finite(scores[BY_LOSS]),
                val_evidence=finite(scores[BY_EVIDENCE]),
                # Back in the units of the labels; the other two are the method's own affair.
                val_truth=finite(scores[BY_TRUTH] * unit**2),
                test_mse=finite(float(np.mean((prediction - problem.test.y) ** 2))),
            )
        )
    return fits


def finite(number: float) -> float | None:
    """Return a number as the store keeps it: None where there is none."""
    return float(number) if math.isfinite(number) else None
