"""Torch modules: a file holds their numbers and how features come to them, whoever loads it brings the code.

numpy has no word for some of torch's numbers; those are kept as whole numbers of the same bits, complex ones as pairs.
"""

from __future__ import annotations

import importlib
import math
import re
import warnings
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from plr._fields import WITH_GAPS
from plr.contracts import Fitted, Report
from plr.errors import ModelFileError, ParameterError, PlrError, PlrWarning
from plr.learners.module.learner import Module
from plr.learners.module.settings import MissingCode
from plr.persistence.schema import matches, require
from plr.preprocessing.scaling import Affine

if TYPE_CHECKING:
    import torch

__all__ = ["StoredLearner", "StoredModule", "StoredReader", "StoredTensor", "bring_module"]

_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
# Options of torch.compile that name no compiler, file or program.
_COMPILING = {"dynamic", "fullgraph", "mode"}
_MOST_WORKERS = 1024
_LONGEST_NAME, _LONGEST_KEY, _LONGEST_TEXT = 200, 1000, 100_000
_MOST_DIMENSIONS, _LONGEST = 32, 2**31
# So many differences between a file and a module are named.
_SHOWN = 3
# For each of torch's types, the type that it is kept as where numpy has no such type.
_SAME = ("float32", "float64", "int8", "int16", "int32", "int64", "bool", "uint8", "uint16", "uint32", "uint64")
_KEPT_AS = {name: name for name in _SAME} | {
    "float16": "int16",
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "complex64": "float32",
    "complex128": "float64",
}


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor as a file holds it: its type, its shape, and its numbers in a row."""

    dtype: str
    shape: tuple[int, ...]
    numbers: NDArray[Any] = field(metadata=WITH_GAPS)

    def __post_init__(self) -> None:
        shape, kept_as = self.shape, _KEPT_AS.get(self.dtype)
        require(kept_as is not None and self.numbers.dtype == np.dtype(kept_as), "the type of a tensor is unknown")
        small = len(shape) <= _MOST_DIMENSIONS and all(0 <= length < _LONGEST for length in shape)
        pairs = 2 if self.dtype.startswith("complex") else 1
        require(small and self.numbers.size == math.prod(shape) * pairs, "shape and numbers of a tensor differ")

    @classmethod
    def of(cls, name: str, part: Any) -> StoredTensor:
        """Return a tensor as files hold it."""
        import torch

        is_tensor = isinstance(part, torch.Tensor)
        require(is_tensor, f"the module keeps a {type(part).__name__} under {name!r}, and files hold tensors only")
        dtype = str(part.dtype).removeprefix("torch.")
        plain = part.layout is torch.strided and not part.is_quantized and not part.is_meta and dtype in _KEPT_AS
        require(
            plain, f"the tensor {name!r} of the module is sparse, quantised or of the type {dtype}, which files lack"
        )
        flat = part.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return cls(dtype, tuple(part.shape), flat.view(getattr(torch, _KEPT_AS[dtype])).numpy())

    def tensor(self) -> torch.Tensor:
        """Return the tensor again, on the memory of its array."""
        import torch

        return torch.from_numpy(self.numbers).view(getattr(torch, self.dtype)).reshape(self.shape)


@dataclass(frozen=True)
class StoredReader:
    """How features become what a module takes, as a file holds it."""

    dtype: Literal["float32", "float64", "float16", "bfloat16"]
    scaling: Affine | None
    pairs: bool
    nested: bool
    floats: bool

    @classmethod
    def of(cls, reader: Any) -> StoredReader:
        """Return what is kept of a reader."""
        require(
            reader.collate is None,
            f"its collate function, {_name_of(reader.collate)}, is code without which the module cannot be given its "
            f"features; collate in the dataset, or pickle the model for your own use",
        )
        dtype: Any = str(reader.dtype).removeprefix("torch.")
        return cls(dtype, reader.scaling, reader.pairs, reader.nested, reader.floats)

    def restore(self) -> Any:
        """Return a reader again."""
        import plr.torch  # noqa: F401  says which extra to install where there is no PyTorch
        from plr.learners.module.features import FeatureReader

        return FeatureReader(**vars(self) | {"dtype": getattr(importlib.import_module("torch"), self.dtype)})


@dataclass(frozen=True, eq=False)
class StoredModule(Fitted):
    """A fitted module as it is in a file: all but the code."""

    state: dict[str, StoredTensor]
    architecture: str
    structure: str
    reader: Any
    target: Affine
    report: Report
    batch_size: int
    device: str
    autocast: bool

    def __post_init__(self) -> None:
        named = all(name.isprintable() and len(name) <= _LONGEST_KEY for name in self.state)
        require(named, "the state has names that cannot be printed")
        require(_is_name(self.architecture), "the architecture has no name")
        require(len(self.structure) <= _LONGEST_TEXT and self.batch_size >= 1, "the batch_size is out of range")
        require(_is_device(self.device) and self.device != "auto", "the device is unknown")
        require(np.ndim(self.target.centre) == 0, "labels need one centre and one scale")
        require(hasattr(self.reader, "scaling") and hasattr(self.reader, "pairs"), "the reader is not one")

    @classmethod
    def of(cls, model: Any) -> StoredModule:
        """Return what is kept of a fitted module."""
        structure = repr(model.module)
        return cls(
            {str(name): StoredTensor.of(str(name), part) for name, part in model.module.state_dict().items()},
            _name_of(type(model.module)),
            structure if len(structure) <= _LONGEST_TEXT else "",
            model.reader,
            model.target,
            model.report,
            model.batch_size,
            model.device if _is_device(model.device) else "cpu",
            model.autocast,
        )

    def describe(self) -> str:
        """Return in words what there is."""
        count = sum(math.prod(part.shape) for part in self.state.values())
        listed = ", ".join(list(self.state)[:_SHOWN]) + (", ..." if len(self.state) > _SHOWN else "")
        return (
            f"the weights of a torch module, {self.architecture}: {count:,} numbers in {len(self.state)} tensors "
            f"({listed})"
        )


def _is_name(value: str) -> bool:
    return value.isprintable() and 0 < len(value) <= _LONGEST_NAME


def _is_device(value: Any) -> bool:
    return isinstance(value, str) and _DEVICE.fullmatch(value) is not None


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return isinstance(value, str | bool | None) or matches(value, float)


def _is_kept(name: str, value: Any) -> bool:
    """Whether a parameter of the learner is one that files hold: neither code, nor what names programs or files."""
    if name in ("module", "checkpoint", "score"):
        # A checkpoint belongs to one training on one machine.
        return name != "module" and value is None
    if name == "device":
        return _is_device(value)
    if isinstance(value, dict):
        known = name == "loader" and value.get("num_workers", 0) in range(_MOST_WORKERS)
        known = value.keys() <= _COMPILING if name == "compile" else known
        return known and all(isinstance(key, str) and _is_plain(entry) for key, entry in value.items())
    return _is_plain(value)


@dataclass(frozen=True)
class StoredLearner:
    """A module learner as a file holds it: its parameters, and what those were called that are code."""

    parameters: dict[str, Any]
    left_out: dict[str, str]

    def __post_init__(self) -> None:
        kept, left_out = self.parameters.keys(), self.left_out.keys()
        right = kept | left_out == set(Module._get_param_names()) and not kept & left_out
        require(right and all(map(_is_name, self.left_out.values())), "a learner lacks parameters")
        for name, value in self.parameters.items():
            require(_is_kept(name, value), f"the {name} of a learner is not what it should be")

    @classmethod
    def of(cls, learner: Module) -> StoredLearner:
        """Return what is kept of a learner."""
        found = learner.get_params(deep=False) | {"device": str(learner.device), "checkpoint": None}
        if not _is_device(found["device"]):
            found["device"] = "auto"
        kept = {name: value for name, value in found.items() if _is_kept(name, value)}
        code = {name: value for name, value in found.items() if name not in kept}
        return cls(kept, {name: _name_of(value) for name, value in code.items()})

    def restore(self) -> Module:
        """Return a learner again; what was code is missing."""
        missing: dict[str, Any] = {name: MissingCode(what) for name, what in self.left_out.items()}
        return Module(**self.parameters, **missing)


def _name_of(value: Any) -> str:
    """Return what something that a file does not hold is called."""
    if isinstance(value, MissingCode):
        return value.what
    named = getattr(value, "func", value)
    name = str(getattr(named, "__qualname__", type(named).__name__))
    return name[:_LONGEST_NAME] if name.isprintable() else "code"


def bring_module(stored: StoredModule, given: Any, columns: int | None, seed: int, path: Path) -> Any:
    """Return the fitted module: what was given, or a copy of it, with the numbers of the file."""
    import torch

    from plr.learners.module.factories import exclusive, has_lazy_parameters, make_module
    from plr.learners.module.fitted import FittedModule
    from plr.learners.module.forward import float_type

    with exclusive(torch.device("cpu"), None) as numbers:
        # What a factory draws at random besides its weights is then what it was in training.
        numbers.seed(seed, 0)
        try:
            net = make_module(given, columns).cpu()
        except PlrError:
            raise
        except Exception as error:
            raise ParameterError(f"The factory {_name_of(given)} makes no module: {_last_line(error)}.") from error
    lazy, structure = has_lazy_parameters(net), repr(net)
    _compare(stored, net, path)
    try:
        net.load_state_dict({name: part.tensor() for name, part in stored.state.items()}, strict=True)
    except Exception as error:
        # A module may have its own way to load.
        raise ModelFileError(
            f"{path}: {type(net).__name__} does not take the weights of the file: {_last_line(error)}."
        ) from error
    # What a lazy module becomes, its first batch shows.
    if not lazy and stored.structure and structure != stored.structure:
        _warn_of_difference(stored.structure, structure, path)
    if float_type(net) != stored.reader.dtype:
        raise ModelFileError(f"{path} is damaged: its module computes in other numbers than its features come in.")
    names = {each.name for each in fields(FittedModule)} & {each.name for each in fields(StoredModule)}
    return FittedModule(net.eval(), **{name: getattr(stored, name) for name in names})


def _compare(stored: StoredModule, net: Any, path: Path) -> None:
    """Refuse a module whose tensors are others than those of the file."""
    from torch.nn.parameter import is_lazy

    found = net.state_dict()
    different = []
    for lacking, has, lacks in (("module", stored.state, found), ("file", found, stored.state)):
        if names := [name for name in has if name not in lacks]:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            different.append(f"the {lacking} lacks {', '.join(map(repr, names[:_SHOWN]))}{more}")
    for name, part in found.items():
        if name in stored.state and hasattr(part, "dtype"):
            kept, dtype = stored.state[name], str(part.dtype).removeprefix("torch.")
            shape = kept.shape if is_lazy(part) else tuple(part.shape)
            for what, in_file, here in (("type", kept.dtype, dtype), ("shape", kept.shape, shape)):
                if in_file != here:
                    different.append(f"{name!r} has the {what} {in_file} in the file and {here} in the module")
    if different:
        more = f"; and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
        raise ModelFileError(
            f"{path} holds the weights of another module than the {type(net).__name__} given: "
            f"{'; '.join(different[:_SHOWN])}{more}. Give the module that was trained, {stored.architecture}."
        )


def _warn_of_difference(stored: str, structure: str, path: Path) -> None:
    """Warn where modules with the same tensors read otherwise, as with another activation."""
    lines = zip_longest(stored.split("\n"), structure.split("\n"), fillvalue="")
    before, after = next(((one.strip(), other.strip()) for one, other in lines if one != other), ("", ""))
    warnings.warn(
        f"{path} was written with a module that reads otherwise, {before[:_LONGEST_NAME]!r} where this one has "
        f"{after[:_LONGEST_NAME]!r}: predictions may differ unless they compute the same.",
        PlrWarning,
        stacklevel=5,
    )


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' '.join(lines[-1].split())}".rstrip(". ") if lines else type(error).__name__
