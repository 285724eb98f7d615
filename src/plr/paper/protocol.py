"""What a benchmark does: every setting that decides its results, and the presets."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plr._parameters import check_choice, check_integer, check_number
from plr.errors import DataNotFoundError, ParameterError, unknown_name
from plr.paper.datasets.registry import REGISTRY
from plr.paper.methods import PAPER_METHODS, get_method, get_model
from plr.paper.selection import parse_selection

__all__ = ["ENGINE", "FIGURE", "MECHANISM_ENGINE", "PRESETS", "DataFile", "Protocol", "get_preset"]

ENGINE = 1
"""Raised whenever the same protocol would give other numbers, so that old and new results are not mixed."""

MECHANISM_ENGINE = 2
"""The same for the mechanisms other than ``uniform``: in 2 their options come from training rows, whatever the part."""

FIGURE: dict[str, tuple[Any, ...]] = {
    "dataset": ("concrete", "housing"),
    "model": ("mlp",),
    "method": ("IDent", "PIDent"),
    "false_labels": (2, 4),
}
"""The cells of the paper's Figure 1: test loss against the share of the training rows."""

# Fields that hold sets: their order decides nothing.
_UNORDERED = (
    "datasets",
    "models",
    "methods",
    "sizes",
    "fractions",
    "figure_fractions",
    "learning_rates",
    "deltas",
    "beta2s",
    "files",
)


@dataclass(frozen=True)
class DataFile:
    """A file of the user's own as a benchmark data set: known by its content, wherever it lies."""

    name: str
    target: str
    sha256: str
    path: str = field(default="", compare=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str], target: str) -> DataFile:
        """Name a file as a data set after checking that it is there."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DataNotFoundError(f"{path} cannot be read: {error.strerror}.") from error
        return cls(Path(path).stem, target, hashlib.sha256(content).hexdigest(), str(path))


@dataclass(frozen=True)
class Protocol:
    """Every setting that decides the results of a benchmark.

    Attributes
    ----------
    datasets, models, methods : tuple of str
        Names; a method may be ``weighting:loss`` as well. Data sets are the paper's or names of `files`.
    sizes : tuple of int
        Numbers of false labels, the paper's |S̄|.
    set_size : {"upto", "fixed"}
        Whether a row has a random number of false labels up to that, as in the paper's tables, or always that many.
    mechanism : str
        How false labels come about, one of `plr.generation.MECHANISMS`.
    trials, epochs, batch_size : int
    fractions : tuple of float
        Shares of the training rows to train on.
    figure_fractions : tuple of float
        Shares trained on besides, in those cells of the protocol that the paper's Figure 1 shows; see `FIGURE`.
    seed : int
    scale_target : bool
        Whether labels are scaled for training; the paper's are raw.
    learning_rates, deltas, beta2s : tuple of float
        Hyper-parameters tried, each by the methods that have it.
    beta1 : float
    files : tuple of DataFile
        Data sets besides the paper's.
    selection : str
        The rule that tables use by default; it decides no fit, so it may differ on resume.
    """

    datasets: tuple[str, ...] = tuple(REGISTRY)
    models: tuple[str, ...] = ("mlp", "linear")
    methods: tuple[str, ...] = PAPER_METHODS
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    set_size: str = "upto"
    mechanism: str = "uniform"
    trials: int = 10
    epochs: int = 1000
    batch_size: int = 256
    fractions: tuple[float, ...] = (1.0,)
    figure_fractions: tuple[float, ...] = ()
    seed: int = 0
    scale_target: bool = False
    learning_rates: tuple[float, ...] = (0.01, 0.001)
    deltas: tuple[float, ...] = (1.0, 5.0)
    beta1: float = 0.5
    beta2s: tuple[float, ...] = (10.0, 100.0, 500.0, 1000.0, 10000.0)
    files: tuple[DataFile, ...] = ()
    selection: str = field(default="last", compare=False)

    def __post_init__(self) -> None:
        from plr.generation import MECHANISMS, SET_SIZES

        for name in _UNORDERED:
            _check_distinct(name, getattr(self, name), may_be_empty=name in ("files", "figure_fractions"))
        known = [*REGISTRY, *(file.name for file in self.files)]
        _check_distinct("datasets", known)
        for name in self.datasets:
            if name not in known:
                raise unknown_name("data set", name, known, parameter="datasets")
        for name in self.models:
            get_model(name)
        for name in self.methods:
            get_method(name)
        for size in self.sizes:
            check_integer("sizes", size, low=1, what="A size in {parameter}")
        check_choice("set_size", self.set_size, SET_SIZES)
        check_choice("mechanism", self.mechanism, MECHANISMS)
        for name in ("trials", "epochs", "batch_size"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("seed", self.seed)
        for fraction in (*self.fractions, *self.figure_fractions):
            check_number("fractions", fraction, low=0.0, high=1.0, open_low=True, what="A fraction in {parameter}")
        for name in ("learning_rates", "deltas", "beta2s"):
            for number in getattr(self, name):
                check_number(name, number, low=0.0, open_low=True)
        parse_selection(self.selection)

    def file(self, dataset: str) -> DataFile | None:
        """Return the user's file of that name, or None for one of the paper's data sets."""
        return next((file for file in self.files if file.name == dataset), None)

    @property
    def mechanism_engine(self) -> int | None:
        """Version of how the mechanism makes candidates; None for ``uniform``, which has had only one."""
        return None if self.mechanism == "uniform" else MECHANISM_ENGINE

    def settings(self) -> dict[str, Any]:
        """Return all that decides results as plain values, in an order that does not depend on how it was given."""
        engines = {"engine": ENGINE, "mechanism_engine": self.mechanism_engine}
        values = {name: engine for name, engine in engines.items() if engine is not None} | vars(self)
        del values["selection"]
        values["files"] = [(file.name, file.target, file.sha256) for file in self.files]
        for name in _UNORDERED:
            values[name] = sorted(values[name])
        plain: dict[str, Any] = json.loads(json.dumps(values))
        return plain

    @property
    def digest(self) -> str:
        """Hash of all that decides results."""
        return hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """Return the protocol as text; where the user's files lie is left out."""
        values = dataclasses.asdict(self)
        values["files"] = [{name: text for name, text in file.items() if name != "path"} for file in values["files"]]
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> Protocol:
        """Read what `to_json` wrote."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()
        }
        values["files"] = tuple(DataFile(**file) for file in values["files"])
        return cls(**values)


def differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """List the settings in which two protocols differ.

    >>> differences({"trials": 3, "seed": 0}, {"trials": 10, "seed": 0})
    ['trials: 3 there, 10 asked for']
    """
    names = [*asked, *(name for name in stored if name not in asked)]
    return [
        f"{name}: {_show(stored.get(name))} there, {_show(asked.get(name))} asked for"
        for name in names
        if stored.get(name) != asked.get(name)
    ]


def _show(value: Any) -> str:
    return ",".join(_show(item) for item in value) if isinstance(value, list) else str(value)


def _check_distinct(name: str, values: Sequence[Any], *, may_be_empty: bool = False) -> None:
    if not values and not may_be_empty:
        raise ParameterError("{parameter} is empty; name at least one.", parameter=name)
    repeated = [value for value in values if list(values).count(value) > 1]
    if repeated:
        raise ParameterError(f"{{parameter}} names {repeated[0]!r} more than once.", parameter=name, value=repeated[0])


_PAPER = Protocol(figure_fractions=(0.2, 0.4, 0.6, 0.8))

PRESETS: dict[str, Protocol] = {
    # One setting each and few epochs: all seven data sets in half a minute on two cores, once kernels are compiled.
    "quick": dataclasses.replace(
        _PAPER,
        models=("mlp",),
        methods=("Supervised", "AVGL-MAE", "IDent", "PIDent", "Posterior"),
        sizes=(4, 16),
        trials=2,
        epochs=700,
        learning_rates=(0.01,),
        deltas=(1.0,),
        beta2s=(500.0,),
        figure_fractions=(),
    ),
    # No rule agrees with more of the published cells (results/paper); `last` alone, which needs no true label, with one
    # fewer.
    "paper": dataclasses.replace(_PAPER, selection="last+truth"),
    "hard": dataclasses.replace(_PAPER, set_size="fixed"),
}
"""Protocols that go by a name."""


def get_preset(name: str) -> Protocol:
    """Return a preset by name.

    >>> get_preset("hard").set_size
    'fixed'
    """
    return PRESETS[check_choice("preset", name, PRESETS)]
