"""From a protocol to the cells of work it consists of, each with a key and seeds of its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from plr.paper.methods import Setting, get_method
from plr.paper.protocol import ENGINE, FIGURE, Protocol

__all__ = ["Cell", "count_fits", "expand", "seed_for"]


@dataclass(frozen=True)
class Cell:
    """One unit of work: a method on one trial of one problem, with all its hyper-parameter settings.

    ``false_labels`` is 0 for Supervised, which has no use for candidates, and None where the mechanism decides itself
    how many false labels a row gets.
    """

    dataset: str
    model: str
    method: str
    false_labels: int | None
    fraction: float
    trial: int

    def settings(self, protocol: Protocol) -> list[Setting]:
        """Return the hyper-parameter settings to try."""
        return get_method(self.method).settings(protocol)

    def key(self, protocol: Protocol) -> str:
        """Return a hash of everything that decides this cell's result, and of nothing else."""
        file = protocol.file(self.dataset)
        decisive: list[Any] = [
            ENGINE,
            self.dataset,
            None if file is None else [file.target, file.sha256],
            self.model,
            self.method,
            self.false_labels,
            self.fraction,
            self.trial,
            self.settings(protocol),
            protocol.set_size,
            protocol.mechanism,
            protocol.epochs,
            protocol.batch_size,
            protocol.seed,
            protocol.scale_target,
            protocol.beta1,
        ]
        if protocol.mechanism_engine is not None:
            decisive.append(protocol.mechanism_engine)
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]


def expand(protocol: Protocol) -> list[Cell]:
    """Return all cells of a protocol.

    >>> from plr.paper.protocol import PRESETS
    >>> cells = expand(PRESETS["paper"])
    >>> len(cells), count_fits(cells, PRESETS["paper"])
    (4940, 17880)
    """
    from plr.generation import MECHANISMS

    sizes: tuple[int | None, ...] = protocol.sizes if MECHANISMS[protocol.mechanism].counted else (None,)
    cells: dict[Cell, None] = {}
    for dataset in protocol.datasets:
        for name in protocol.methods:
            method = get_method(name)
            models = protocol.models if method.model is None else (method.model,)
            for model in models:
                for size in (0,) if method.target == "truth" else sizes:
                    place = {"dataset": dataset, "model": model, "method": name, "false_labels": size}
                    shown = all(value in FIGURE[part] for part, value in place.items())
                    for fraction in (*protocol.fractions, *(protocol.figure_fractions if shown else ())):
                        for trial in range(protocol.trials):
                            cells[Cell(dataset, model, name, size, fraction, trial)] = None
    return list(cells)


def count_fits(cells: list[Cell], protocol: Protocol) -> int:
    """Return how many fits cells consist of."""
    return sum(len(cell.settings(protocol)) for cell in cells)


def seed_for(protocol: Protocol, purpose: str, *parts: object) -> np.random.SeedSequence:
    """Return the seed for a purpose, decided by the protocol's seed and the parts named, and by nothing else.

    Splits name data set and trial; what a mechanism draws once for all rows the mechanism as well; candidates also the
    size; training the model. So all methods
    meet the same rows, candidates and initial weights, and their differences are their own.
    """
    text = json.dumps([protocol.seed, purpose, *parts])
    return np.random.SeedSequence(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little"))
