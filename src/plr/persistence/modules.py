"""Torch modules: a file holds their numbers and how features come to them, whoever loads it brings the code."""

from __future__ import annotations

import importlib
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plr.contracts import Fitted, Report
from plr.errors import ModelFileError, ParameterError, PlrError, PlrWarning
from plr.learners.module.learner import Module
from plr.learners.module.left_out import MissingCode
from plr.persistence.kinds import Kind, MalformedError, a, flag, mapping, number, optional, require, text, whole
from plr.persistence.parts import AFFINE, REPORT, scalar_affine
from plr.persistence.tensors import FLOATS, Kept, is_state, keep_tensors, restore_tensor
from plr.preprocessing.scaling import Affine

__all__ = ["MODULE_KINDS", "StoredModule", "bring_module"]

_LEARNER = "plr.learners.module.learner:Module"
_MODULE = "plr.learners.module.fitted:FittedModule"
_READER = "plr.learners.module.features:FeatureReader"

_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
# Options of torch.compile that name no compiler, file or program.
_COMPILING = {"dynamic", "fullgraph", "mode"}
_MOST_WORKERS = 1024
_LONGEST_NAME, _LONGEST_TEXT = 200, 100_000
# So many differences between a file and a module are told.
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class StoredModule(Fitted):
    """A fitted module as it is in a file: all but the code."""

    state: dict[str, Kept]
    architecture: str
    structure: str
    reader: Any
    target: Affine
    report: Report
    batch_size: int
    device: str
    autocast: bool

    def describe(self) -> str:
        """Return in words what there is."""
        count = sum(int(np.prod(kept.shape, dtype=np.float64)) for kept in self.state.values())
        names = list(self.state)
        listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        return (
            f"the weights of a torch module, {self.architecture}: {count:,} numbers in {len(names)} tensors ({listed})"
        )


def name_of_code(value: Any) -> str:
    """Return what something that a file does not hold is called."""
    named = getattr(value, "func", value)
    name = str(getattr(named, "__qualname__", type(named).__name__))
    return name[:_LONGEST_NAME] if name.isprintable() else "code"


def _plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_plain(entry) for entry in value)
    return value is None or isinstance(value, bool | str) or number(value)


def _is_device(value: Any) -> bool:
    return text(value) and _DEVICE.fullmatch(value) is not None


def _is_compile(value: Any) -> bool:
    return flag(value) or (mapping(lambda key: key in _COMPILING, _plain)(value))


def _is_loader(value: Any) -> bool:
    return mapping(text, _plain)(value) and optional(whole(0, _MOST_WORKERS))(value.get("num_workers"))


def _is_none(value: Any) -> bool:
    return value is None


# What is kept of the learner's parameters. A checkpoint belongs to one training on one machine.
_PARAMETERS = {
    "optimizer": text,
    "learning_rate": number,
    "weight_decay": optional(number),
    "scheduler": optional(text),
    "epochs": whole(1),
    "batch_size": whole(1),
    "clip": optional(number),
    "loss": optional(text),
    "score": _is_none,
    "device": _is_device,
    "autocast": flag,
    "compile": _is_compile,
    "validation_fraction": optional(number),
    "monitor": text,
    "patience": optional(whole(1)),
    "checkpoint": _is_none,
    "scale_features": flag,
    "scale_target": flag,
    "threads": optional(whole(1)),
    "loader": optional(_is_loader),
}


def _take_learner(learner: Module) -> dict[str, Any]:
    found = learner.get_params(deep=False) | {"device": str(learner.device), "checkpoint": None}
    if not _is_device(found["device"]):
        found["device"] = "auto"
    kept = {name: found[name] for name, is_right in _PARAMETERS.items() if is_right(found[name])}
    code = {name: value for name, value in found.items() if name not in kept}
    told = {name: value.what if isinstance(value, MissingCode) else name_of_code(value) for name, value in code.items()}
    return {"parameters": kept, "left_out": told}


def _check_learner(fields: dict[str, Any]) -> None:
    kept, left_out = fields["parameters"], fields["left_out"]
    every = set(Module._get_param_names())
    require(kept.keys() | left_out.keys() == every and not kept.keys() & left_out.keys(), "a learner lacks parameters")
    require("module" in left_out, "a learner holds a module")
    for name, value in kept.items():
        require(_PARAMETERS[name](value), f"the {name} of a learner is not what it should be")


def _make_learner(fields: dict[str, Any]) -> Module:
    missing: dict[str, Any] = {name: MissingCode(what) for name, what in fields["left_out"].items()}
    return Module(**fields["parameters"], **missing)


def _take_reader(reader: Any) -> dict[str, Any]:
    if reader.collate is not None:
        raise MalformedError(
            f"its collate function, {name_of_code(reader.collate)}, is code without which the module cannot be given "
            f"its features; collate in the dataset, or pickle the model for your own use"
        )
    dtype = str(reader.dtype).removeprefix("torch.")
    return {"dtype": dtype, **{name: getattr(reader, name) for name in ("scaling", "pairs", "nested", "floats")}}


def _make_reader(fields: dict[str, Any]) -> Any:
    import plr.torch  # noqa: F401  says which extra to install where there is no PyTorch
    from plr.learners.module.features import FeatureReader

    return FeatureReader(**fields | {"dtype": getattr(importlib.import_module("torch"), fields["dtype"])})


def _take_module(model: Any) -> dict[str, Any]:
    structure = repr(model.module)
    return {
        "state": keep_tensors(model.module.state_dict()),
        "architecture": name_of_code(type(model.module)),
        "structure": structure if len(structure) <= _LONGEST_TEXT else "",
        "reader": model.reader,
        "target": model.target,
        "report": model.report,
        "batch_size": model.batch_size,
        "device": model.device if _is_device(model.device) else "cpu",
        "autocast": model.autocast,
    }


def _make_module(fields: dict[str, Any]) -> StoredModule:
    state = {name: Kept(*part) for name, part in fields["state"].items()}
    return StoredModule(**fields | {"state": state})


def _is_name(value: Any) -> bool:
    return text(value) and value.isprintable() and 0 < len(value) <= _LONGEST_NAME


def bring_module(stored: StoredModule, given: Any, features: int | None, seed: int, path: Path) -> Any:
    """Return the fitted module: what was given, or a copy of it, with the numbers of the file."""
    import torch

    from plr.learners.module.factories import exclusive, has_lazy_parameters, make_module
    from plr.learners.module.fitted import FittedModule
    from plr.learners.module.forward import float_type

    cpu = torch.device("cpu")
    with exclusive(cpu, None) as numbers:
        # What a factory draws at random besides its weights is then what it was in training.
        numbers.seed(seed, 0)
        try:
            net = make_module(given, features).cpu()
        except PlrError:
            raise
        except Exception as error:
            raise ParameterError(f"{_called(given)} makes no module: {_last_line(error)}.") from error
    lazy, structure = has_lazy_parameters(net), repr(net)
    _compare(stored, net, path)
    try:
        net.load_state_dict({name: restore_tensor(kept) for name, kept in stored.state.items()}, strict=True)
    except Exception as error:
        # A module may have its own way to load.
        raise ModelFileError(
            f"{path}: {type(net).__name__} does not take the weights of the file: {_last_line(error)}."
        ) from error
    if not lazy:
        # What a lazy module becomes, its first batch shows.
        _warn_of_differences(stored, structure, path)
    if float_type(net) != stored.reader.dtype:
        raise ModelFileError(f"{path} is damaged: its module computes in other numbers than its features come in.")
    fields = {
        name: getattr(stored, name) for name in ("reader", "target", "report", "batch_size", "device", "autocast")
    }
    return FittedModule(net.eval(), **fields)


def _compare(stored: StoredModule, net: Any, path: Path) -> None:
    """Refuse a module whose tensors are others than those of the file."""
    from torch.nn.parameter import is_lazy

    told = []
    found = net.state_dict()
    lacking = [name for name in stored.state if name not in found]
    surplus = [name for name in found if name not in stored.state]
    if lacking:
        told.append(f"the module lacks {_listed(lacking)}")
    if surplus:
        told.append(f"the file lacks {_listed(surplus)}")
    for name, kept in stored.state.items():
        part = found.get(name)
        if part is None or not hasattr(part, "dtype"):
            continue
        here = str(part.dtype).removeprefix("torch."), None if is_lazy(part) else tuple(part.shape)
        for in_file, in_module, what in zip((kept.dtype, kept.shape), here, ("type", "shape"), strict=True):
            if in_module is not None and in_module != in_file:
                told.append(f"{name!r} has the {what} {in_file} in the file and {in_module} in the module")
    if told:
        more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        raise ModelFileError(
            f"{path} holds the weights of another module than the {type(net).__name__} given: "
            f"{'; '.join(told[:_SHOWN])}{more}. Give the module that was trained, {stored.architecture}."
        )


def _warn_of_differences(stored: StoredModule, structure: str, path: Path) -> None:
    """Warn where modules with the same tensors read otherwise, as with another activation."""
    if stored.structure and structure != stored.structure:
        before, after = _first_difference(stored.structure, structure)
        warnings.warn(
            f"{path} was written with a module that reads otherwise, {before!r} where this one has {after!r}: "
            f"predictions may differ unless they compute the same.",
            PlrWarning,
            stacklevel=5,
        )


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _first_difference(one: str, other: str) -> tuple[str, str]:
    lines = [text.split("\n") for text in (one, other)]
    length = max(map(len, lines))
    pairs = zip(*([*part, *[""] * (length - len(part))] for part in lines), strict=True)
    before, after = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return before.strip()[:_LONGEST_NAME], after.strip()[:_LONGEST_NAME]


def _called(given: Any) -> str:
    return f"The factory {name_of_code(given)}"


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' '.join(lines[-1].split())}".rstrip(". ") if lines else type(error).__name__


MODULE_KINDS = (
    Kind(
        "module learner",
        _LEARNER,
        {"parameters": mapping(text, lambda _: True), "left_out": mapping(text, _is_name)},
        _check_learner,
        take=_take_learner,
        make=_make_learner,
    ),
    Kind(
        "feature reader",
        _READER,
        {
            "dtype": lambda value: value in FLOATS,
            "scaling": optional(a(AFFINE)),
            "pairs": flag,
            "nested": flag,
            "floats": flag,
        },
        take=_take_reader,
        make=_make_reader,
    ),
    Kind(
        "module",
        _MODULE,
        {
            "state": is_state,
            "architecture": _is_name,
            "structure": lambda value: text(value) and len(value) <= _LONGEST_TEXT,
            "reader": a(_READER),
            "target": scalar_affine,
            "report": a(REPORT),
            "batch_size": whole(1),
            "device": lambda value: _is_device(value) and value != "auto",
            "autocast": flag,
        },
        take=_take_module,
        make=_make_module,
    ),
)
