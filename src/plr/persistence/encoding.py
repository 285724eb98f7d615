"""A model as plain data: texts, numbers, lists, and names of members that hold arrays and longer texts.

What JSON has no word for is written as an object with one key that says what it is, such as ``{"tuple": [1, 2]}`` or
``{"array": "a0003"}``; parts of known kinds as ``{"kind": "affine", "fields": {…}}``.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.errors import ModelFileError
from plr.persistence.foreign import is_code, pack
from plr.persistence.kinds import MalformedError, home_of
from plr.persistence.registry import CLASSES, KINDS_BY_HOME, REASONS

__all__ = ["ARRAY_TYPES", "Encoder", "refusal"]

ARRAY_TYPES = ("<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1")
"""Kinds of numbers that a member may hold."""

# A longer text is a member of its own.
_SHORT = 1000
# So many texts or numbers, such as categories, are kept as one.
_MANY = 1000
_NUMBERS = {int: np.int64, float: np.float64}


class Encoder:
    """Turns parts of a model into plain data, and collects the members they need.

    Parameters
    ----------
    with_rows : bool
        Whether to keep what was found for the training rows.

    Attributes
    ----------
    members : dict of str to memoryview
    described : dict of str to dict
        What the manifest says about each member, besides its size and sum.
    packages : set of str
        Modules of others that parts of it come from.
    """

    def __init__(self, with_rows: bool) -> None:
        self.with_rows = with_rows
        self.members: dict[str, memoryview] = {}
        self.described: dict[str, dict[str, Any]] = {}
        self.packages: set[str] = set()

    def encode(self, value: Any, place: str) -> Any:
        """Return a value as plain data; ``place`` says where it is, for errors."""
        if value is None or type(value) in (bool, int, str):
            return self._text(value) if type(value) is str and len(value) > _SHORT else value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, np.generic):
            return self._scalar(value, place)
        if type(value) is list:
            return [self.encode(entry, f"{place}, entry {at}") for at, entry in enumerate(value)]
        if type(value) is tuple and len(value) > _MANY and (kept := self._many(value, place)) is not None:
            return kept
        if type(value) is tuple:
            return {"tuple": [self.encode(entry, f"{place}, entry {at}") for at, entry in enumerate(value)]}
        if isinstance(value, Mapping) and type(value) in (dict, types.MappingProxyType):
            pairs = [[self.encode(key, place), self.encode(entry, f"{place}, {key!r}")] for key, entry in value.items()]
            return {"dict": pairs}
        home = home_of(value)
        if home in KINDS_BY_HOME:
            kind = KINDS_BY_HOME[home]
            try:
                fields = kind.taken(value, self.with_rows)
                kind.verify(fields)
            except MalformedError as error:
                raise refusal(place, str(error)) from error
            return {"kind": kind.name, "fields": self._named(fields, place)}
        if home in CLASSES.values():
            name = next(name for name, found in CLASSES.items() if found == home)
            return {"made": name, "parameters": self._named(value.get_params(deep=False), place)}
        return self._foreign(value, home, place)

    def _many(self, value: tuple[Any, ...], place: str) -> dict[str, Any] | None:
        """Return a long tuple of texts or numbers as one part; None for any other."""
        kinds = {type(entry) for entry in value}
        if kinds == {str}:
            lengths = np.array([len(entry) for entry in value], dtype=np.int64)
            return {"texts": [self._text("".join(value)), self._array(lengths, place)]}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind not in _NUMBERS or (kind is int and not all(-(2**63) <= entry < 2**63 for entry in value)):
            return None
        return {"numbers": self._array(np.array(value, dtype=_NUMBERS[kind]), place)}

    def _named(self, parts: Mapping[str, Any], place: str) -> dict[str, Any]:
        return {name: self.encode(part, f"{place}.{name}") for name, part in parts.items()}

    def _text(self, value: str) -> dict[str, str]:
        return {"text": self._member("t", value.encode(), {})}

    def _scalar(self, value: np.generic, place: str) -> Any:
        if isinstance(value, np.str_):
            return str(value)
        if value.dtype.newbyteorder("<").str not in ARRAY_TYPES:
            raise refusal(place, f"it is a number of numpy's of the kind {value.dtype}, which files do not hold")
        return {"scalar": [value.dtype.name, self.encode(value.item(), place)]}

    def _array(self, value: NDArray[Any], place: str) -> dict[str, Any]:
        if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(entry, str) for entry in value):
            return {"strings": [str(entry) for entry in value]}
        dtype = value.dtype.newbyteorder("<")
        if dtype.str not in ARRAY_TYPES:
            raise refusal(place, f"it is an array of the kind {value.dtype}, which files do not hold")
        # In which order an array lies in memory decides the last bits of products with it.
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = np.ascontiguousarray(value.T if fortran else value, dtype=dtype)
        described = {"dtype": dtype.str, "shape": list(value.shape), "order": "F" if fortran else "C"}
        return {"array": self._member("a", flat.reshape(-1).view(np.uint8).data, described)}

    def _foreign(self, value: Any, home: str, place: str) -> dict[str, str]:
        if home in REASONS:
            raise refusal(place, REASONS[home])
        if is_code(value):
            name = getattr(value, "__name__", type(value).__name__)
            raise refusal(place, f"{name} is code, and a model file holds none; keep the script that fits it")
        if type(value).__module__ == "builtins":
            raise refusal(place, f"it is a {type(value).__name__}, which files do not hold")
        content, packages = pack(value, place)
        self.packages |= packages
        return {"skops": self._member("s", content, {})}

    def _member(self, letter: str, content: bytes | memoryview, described: dict[str, Any]) -> str:
        """Keep the content of a member and return the member's name."""
        name = f"{letter}{len(self.members):05d}"
        self.members[name] = memoryview(content)
        self.described[name] = described
        return name


def refusal(place: str, why: str) -> ModelFileError:
    """Make the error for what cannot be written."""
    return ModelFileError(f"The model cannot be written to a file because of its {place}: {why}.")
