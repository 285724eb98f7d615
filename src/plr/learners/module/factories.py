"""What a training is made of: the module, its optimiser and scheduler, the loss, and the random numbers."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from plr._parameters import check_choice
from plr.errors import ParameterError
from plr.learners.module.settings import ModuleSettings

__all__ = [
    "OPTIMIZERS",
    "Numbers",
    "check_trainable",
    "exclusive",
    "has_lazy_parameters",
    "make_module",
    "make_optimizer",
    "make_scheduler",
    "required_arguments",
]

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "sgd": functools.partial(torch.optim.SGD, momentum=0.9),
}

_TRAINING = threading.RLock()


class Numbers:
    """Random numbers of a training's own, in place of those that the whole process draws from.

    Torch, numpy and Python have one state each for all threads, and what a user's module and datasets draw comes from
    there. So the training's numbers are in place while it runs, and everybody else's are put back in between.

    Parameters
    ----------
    device : torch.device
    of_rows : bool
        Whether rows are made by code of the user's, which may draw from numpy and Python. Otherwise those two are left
        alone: other threads may be drawing from them.
    """

    def __init__(self, device: torch.device, of_rows: bool) -> None:
        self._device, self._of_rows = device, of_rows
        self._aside = self._states()

    def seed(self, *seeds: int) -> None:
        """Seed what is in place."""
        seed = int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> np.uint64(1))
        if self._of_rows:
            np.random.seed(seed % 2**32)  # noqa: NPY002
            random.seed(seed)
        torch.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            torch.cuda.default_generators[self._device.index].manual_seed(seed)

    @contextlib.contextmanager
    def of_all(self) -> Iterator[None]:
        """Seed numpy and Python as well, for a moment, and leave them as they were."""
        if self._of_rows:
            yield
            return
        self._of_rows = True
        of_numpy, of_python = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            yield
        finally:
            self._of_rows = False
            np.random.set_state(of_numpy)  # noqa: NPY002
            random.setstate(of_python)

    def swap(self) -> None:
        """Put everybody else's numbers in place of the training's, or the other way round."""
        aside, self._aside = self._aside, self._states()
        torch.set_rng_state(aside[0])
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(aside[1], self._device)
        if self._of_rows:
            np.random.set_state(aside[2])  # noqa: NPY002
            random.setstate(aside[3])

    def outside(self, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return a function of the user's that draws as if no training were under way."""
        if function is None:
            return None

        def call(*given: Any) -> Any:
            self.swap()
            try:
                return function(*given)
            finally:
                self.swap()

        return call

    def _states(self) -> tuple[Any, ...]:
        on_device = torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None
        shared = (np.random.get_state(), random.getstate()) if self._of_rows else (None, None)  # noqa: NPY002
        return (torch.get_rng_state(), on_device, *shared)


@contextlib.contextmanager
def exclusive(device: torch.device, threads: int | None, of_rows: bool = True) -> Iterator[Numbers]:
    """Train alone, on so many threads, with random `Numbers` of one's own; leave all as it was.

    Both are shared by all threads of Python, so two fits at the same time would take numbers from each other.
    """
    with _TRAINING:
        outside, numbers = torch.get_num_threads(), Numbers(device, of_rows)
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            yield numbers
        finally:
            torch.set_num_threads(outside)
            numbers.swap()


def make_module(given: Any, features: int | None) -> nn.Module:
    """Return a module to train: a copy of the one given, or what a factory makes."""
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    if not callable(given):
        raise ParameterError(f"module must be a torch.nn.Module or a function that makes one, got {given!r}.")
    name = getattr(given, "__name__", repr(given))
    if required_arguments(given) == 0:
        made = given()
    elif features is None:
        raise ParameterError(
            f"The factory {name} asks for the number of features, which only a matrix X has; give one without "
            f"arguments."
        )
    else:
        made = given(features)
    if not isinstance(made, nn.Module):
        raise ParameterError(f"The factory {name} returned a {type(made).__name__}; expected a torch.nn.Module.")
    # A factory may hand out the same module every time.
    return copy.deepcopy(made)


def has_lazy_parameters(net: nn.Module) -> bool:
    """Return whether a module has parameters whose shape the first batch decides."""
    return any(is_lazy(part) for part in (*net.parameters(), *net.buffers()))


def check_trainable(net: nn.Module) -> None:
    """Refuse a module that nothing can be learned in."""
    if not any(parameter.requires_grad for parameter in net.parameters()):
        what = "has no parameters" if not any(True for _ in net.parameters()) else "has all its parameters frozen"
        raise ParameterError(f"The module {type(net).__name__} {what}; there is nothing to train.")


def make_optimizer(settings: ModuleSettings, net: nn.Module) -> torch.optim.Optimizer:
    """Make the optimiser, with the learning rate and weight decay where it has parameters of these names."""
    given = settings.optimizer
    if isinstance(given, str):
        given = OPTIMIZERS[check_choice("optimizer", given, OPTIMIZERS)]
    if not callable(given):
        raise ParameterError(
            f"optimizer must be a name ({', '.join(sorted(OPTIMIZERS))}), a class of torch.optim, or a function of "
            f"parameters that makes one, got {given!r}."
        )
    wanted = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    taken = set(_parameters(given)) - set(getattr(given, "keywords", ()))
    keywords = {name: value for name, value in wanted.items() if value is not None and name in taken}
    if settings.weight_decay is not None and "weight_decay" not in taken:
        raise ParameterError("The optimizer takes no weight_decay, or has its own; leave weight_decay at None.")
    made = given([parameter for parameter in net.parameters() if parameter.requires_grad], **keywords)
    if not isinstance(made, torch.optim.Optimizer):
        raise ParameterError(f"The optimizer's factory returned a {type(made).__name__}; expected a torch optimizer.")
    return made


def make_scheduler(settings: ModuleSettings, optimizer: torch.optim.Optimizer, steps: int | None) -> Any:
    """Make the scheduler; ``steps`` is the number of batches in an epoch, where it is known."""
    given = settings.scheduler
    if given is None:
        return None
    total = None if steps is None else steps * settings.epochs
    if isinstance(given, str):
        check_choice("scheduler", given, ("cosine",))
        if total is None:
            raise ParameterError(
                "The cosine scheduler has to know how many batches there are; give the dataset a __len__, or another "
                "scheduler."
            )
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    if not callable(given):
        raise ParameterError(f"scheduler must be None, 'cosine' or a function of (optimizer, steps), got {given!r}.")
    made = given(optimizer, total)
    if not isinstance(made, torch.optim.lr_scheduler.LRScheduler):
        raise ParameterError(f"The scheduler's factory returned a {type(made).__name__}; expected a torch scheduler.")
    return made


def required_arguments(function: Callable[..., Any]) -> int:
    """Return how many arguments a function cannot do without."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(part.kind in positional and part.default is part.empty for part in _parameters(function).values())


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; none where it does not say, as some of the compiled ones."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
