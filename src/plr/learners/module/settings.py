"""The parameters of `Module`, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plr._parameters import check_choice, check_integer, check_number
from plr.errors import ParameterError
from plr.learners.module.missing_code import check_complete

if TYPE_CHECKING:
    from plr.learners.module.learner import Module

__all__ = ["MONITORS", "ModuleSettings", "check_settings"]

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


def check_settings(given: Module) -> ModuleSettings:
    """Check the parameters that need no PyTorch to be judged."""
    check_complete(given)
    return ModuleSettings(
        optimizer=given.optimizer,
        learning_rate=check_number("learning_rate", given.learning_rate, low=0.0, open_low=True),
        weight_decay=None if given.weight_decay is None else check_number("weight_decay", given.weight_decay, low=0.0),
        scheduler=given.scheduler,
        epochs=check_integer("epochs", given.epochs, low=1),
        batch_size=check_integer("batch_size", given.batch_size, low=1),
        clip=None if given.clip is None else check_number("clip", given.clip, low=0.0, open_low=True),
        device=_check_text("device", given.device),
        autocast=_check_flag("autocast", given.autocast),
        compile=_check_compile(given.compile),
        monitor=check_choice("monitor", given.monitor, MONITORS),
        patience=None if given.patience is None else check_integer("patience", given.patience, low=1),
        threads=None if given.threads is None else check_integer("threads", given.threads, low=1),
        checkpoint=_check_path(given.checkpoint),
        loader=_check_loader(given.loader),
    )


def _check_flag(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise ParameterError(f"{name} must be True or False, got {given!r}.")
    return given


def _check_text(name: str, given: object) -> str:
    # A torch.device will do; its text is its name.
    text = str(given)
    if not text or type(given).__name__ not in ("str", "device"):
        raise ParameterError(f'{name} must be "auto", "cpu", "cuda" or another of PyTorch\'s devices, got {given!r}.')
    return text


def _check_compile(given: object) -> dict[str, Any] | None:
    if isinstance(given, Mapping):
        return dict(given)
    return {} if _check_flag("compile", given) else None


def _check_path(given: object) -> Path | None:
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise ParameterError(f"checkpoint must be the path of a file, got {given!r}.")
    return Path(given)


def _check_loader(given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError(f"loader must be a dict of options of torch's DataLoader, got {given!r}.")
    for option in given:
        if option in ("batch_size", "shuffle", "sampler", "batch_sampler", "generator", "dataset"):
            raise ParameterError(f"The loader's {option} is chosen by the learner; leave it out of loader.")
        check_choice("loader option", option, _LOADER_OPTIONS)
    return dict(given)
