"""The parameters of `Module`, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plr._parameters import check_choice, check_integer, check_number
from plr.errors import ParameterError

if TYPE_CHECKING:
    from plr.learners.module.learner import Module

__all__ = ["MONITORS", "MissingCode", "ModuleSettings", "check_settings"]

MONITORS = ("loss", "evidence")
_LOADER_OPTIONS = (
    "collate_fn",
    "drop_last",
    "in_order",
    "multiprocessing_context",
    "num_workers",
    "persistent_workers",
    "pin_memory",
    "pin_memory_device",
    "prefetch_factor",
    "timeout",
    "worker_init_fn",
)


@dataclass(frozen=True)
class ModuleSettings:
    """How to train; see `plr.learners.Module` for what each means."""

    optimizer: Any
    learning_rate: float
    weight_decay: float | None
    scheduler: Any
    epochs: int
    batch_size: int
    clip: float | None
    device: str
    autocast: bool
    compile: dict[str, Any] | None
    monitor: str
    patience: int | None
    threads: int | None
    checkpoint: Path | None
    loader: dict[str, Any]


@dataclass(frozen=True)
class MissingCode:
    """A parameter that was code when the model was saved, such as a function or a class.

    Attributes
    ----------
    what : str
        What it was called.
    """

    what: str


def check_settings(given: Module) -> ModuleSettings:
    """Check the parameters that can be checked without PyTorch."""
    missing = {name: value for name, value in given.get_params(deep=False).items() if isinstance(value, MissingCode)}
    if missing:
        listed = ", ".join(f"{name} ({value.what})" for name, value in missing.items())
        again = ", ".join(f"learner__{name}=..." for name in missing)
        raise ParameterError(
            f"The model was loaded from a file, which holds no code, so this is missing: {listed}. Give it again "
            f"before fitting: model.set_params({again})."
        )
    # A torch.device will do; its text is its name.
    if not str(given.device) or type(given.device).__name__ not in ("str", "device"):
        raise ParameterError(
            f'device must be "auto", "cpu", "cuda" or another of PyTorch\'s devices, got {given.device!r}.'
        )
    for name, value in (("autocast", given.autocast), ("compile", given.compile)):
        if not isinstance(value, bool) and not (name == "compile" and isinstance(value, Mapping)):
            raise ParameterError(f"{name} must be True or False, got {value!r}.")
    if given.checkpoint is not None and not isinstance(given.checkpoint, str | os.PathLike):
        raise ParameterError(f"checkpoint must be the path of a file, got {given.checkpoint!r}.")
    loader = {} if given.loader is None else given.loader
    if not isinstance(loader, Mapping):
        raise ParameterError(f"loader must be a dict of options of torch's DataLoader, got {loader!r}.")
    for option in loader:
        if option in ("batch_size", "shuffle", "sampler", "batch_sampler", "generator", "dataset"):
            raise ParameterError(f"The loader's {option} is chosen by the learner; leave it out of loader.")
        check_choice("loader option", option, _LOADER_OPTIONS)
    return ModuleSettings(
        optimizer=given.optimizer,
        learning_rate=check_number("learning_rate", given.learning_rate, low=0.0, open_low=True),
        weight_decay=None if given.weight_decay is None else check_number("weight_decay", given.weight_decay, low=0.0),
        scheduler=given.scheduler,
        epochs=check_integer("epochs", given.epochs, low=1),
        batch_size=check_integer("batch_size", given.batch_size, low=1),
        clip=None if given.clip is None else check_number("clip", given.clip, low=0.0, open_low=True),
        device=str(given.device),
        autocast=given.autocast,
        compile=dict(given.compile) if isinstance(given.compile, Mapping) else {} if given.compile else None,
        monitor=check_choice("monitor", given.monitor, MONITORS),
        patience=None if given.patience is None else check_integer("patience", given.patience, low=1),
        threads=None if given.threads is None else check_integer("threads", given.threads, low=1),
        checkpoint=None if given.checkpoint is None else Path(given.checkpoint),
        loader=dict(loader),
    )
