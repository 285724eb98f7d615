"""Plain data as the parts of a model again, each checked before it is made."""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.persistence.container import Members
from plr.persistence.encoding import ARRAY_TYPES
from plr.persistence.foreign import unpack
from plr.persistence.kinds import MalformedError, floats, integers, require
from plr.persistence.registry import CLASSES, KINDS

__all__ = ["Decoder"]

_DEEPEST = 40
_MOST_DIMENSIONS = 4
_NOT_FINITE = ("nan", "inf", "-inf")


class Decoder:
    """Makes parts of a model from plain data and the members of a file.

    Parameters
    ----------
    members : Members
    described : dict
        What the manifest says of each member, checked to be a dictionary of dictionaries.
    trusted : sequence of str
        Types that foreign regressors may be made of, besides the usual.

    Attributes
    ----------
    used : set of str
        Members that were read.
    packages : set of str
        Modules of others that its regressors come from.
    """

    def __init__(self, members: Members, described: dict[str, dict[str, Any]], trusted: Sequence[str]) -> None:
        self._members = members
        self._described = described
        self._trusted = trusted
        self.used: set[str] = set()
        self.packages: set[str] = set()
        self._readers: dict[str, Callable[[Any, int], Any]] = {
            "float": self._float,
            "scalar": self._scalar,
            "tuple": lambda data, depth: tuple(self._list(data, depth)),
            "dict": self._dict,
            "strings": self._strings,
            "texts": self._texts,
            "numbers": self._numbers,
            "array": lambda data, _: self._array(data),
            "text": lambda data, _: self._content(data).decode(),
            "skops": lambda data, _: self._foreign(data),
        }

    def decode(self, data: Any, depth: int = 0) -> Any:
        """Return the part that plain data stands for."""
        require(depth <= _DEEPEST, "it is nested too deep")
        if data is None or isinstance(data, bool | int | float | str):
            return data
        if isinstance(data, list):
            return self._list(data, depth)
        if data.keys() == {"kind", "fields"}:
            kind = KINDS.get(data["kind"]) if isinstance(data["kind"], str) else None
            if kind is None:
                raise MalformedError(f"it holds a part of a kind that plr does not know, {str(data['kind'])[:40]!r}")
            return kind.made(self.decode_named(data["fields"], depth))
        if data.keys() == {"made", "parameters"}:
            return self._make(data["made"], self.decode_named(data["parameters"], depth))
        require(len(data) == 1, "it holds something that is none of plr's")
        word, inner = next(iter(data.items()))
        require(word in self._readers, "it holds something that is none of plr's")
        return self._readers[word](inner, depth)

    def _list(self, data: Any, depth: int) -> list[Any]:
        require(isinstance(data, list), "a list is none")
        return [self.decode(entry, depth + 1) for entry in data]

    def decode_named(self, data: Any, depth: int = 0) -> dict[str, Any]:
        """Return parts that go by names."""
        require(isinstance(data, dict), "a part has no fields")
        return {name: self.decode(entry, depth + 1) for name, entry in data.items()}

    def _dict(self, data: Any, depth: int) -> dict[Any, Any]:
        require(isinstance(data, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in data), "no pairs")
        pairs = [(self.decode(key, depth + 1), self.decode(value, depth + 1)) for key, value in data]
        require(all(isinstance(key, str | int | float | bool | np.generic) for key, _ in pairs), "a key is none")
        return dict(pairs)

    def _make(self, name: Any, parameters: dict[str, Any]) -> Any:
        require(isinstance(name, str) and name in CLASSES, "it holds a part that plr does not know")
        module, _, called = CLASSES[name].partition(":")
        found = getattr(importlib.import_module(module), called)
        require(parameters.keys() <= set(found._get_param_names()), f"its {name} has parameters that plr does not know")
        try:
            return found(**parameters)
        except TypeError as error:
            raise MalformedError(f"its {name} lacks a parameter") from error

    @staticmethod
    def _float(data: Any, _depth: int) -> float:
        require(data in _NOT_FINITE, "a number is none")
        return float(data)

    def _scalar(self, data: Any, depth: int) -> Any:
        require(isinstance(data, list) and len(data) == 2, "a number is none")
        dtype = next((kind for kind in map(np.dtype, ARRAY_TYPES) if kind.name == data[0]), None)
        value = self.decode(data[1], depth + 1)
        if dtype is None or not isinstance(value, bool | int | float):
            raise MalformedError("a number is none")
        try:
            return dtype.type(value)
        except (OverflowError, ValueError) as error:
            raise MalformedError("a number is none") from error

    @staticmethod
    def _strings(data: Any, _depth: int) -> NDArray[Any]:
        require(isinstance(data, list) and all(isinstance(entry, str) for entry in data), "a text is none")
        return np.array(data, dtype=object)

    def _texts(self, data: Any, depth: int) -> tuple[str, ...]:
        parts = self._list(data, depth)
        right = len(parts) == 2 and isinstance(parts[0], str) and integers(1)(parts[1])
        if not right or not (parts[1] >= 0).all():
            raise MalformedError("texts are none")
        joined, ends = parts[0], np.cumsum(parts[1]).tolist()
        require(ends[-1:] == [len(joined)] and sorted(ends) == ends, "texts are none")
        return tuple(joined[first:last] for first, last in pairwise([0, *ends]))

    def _numbers(self, data: Any, depth: int) -> tuple[Any, ...]:
        found = self.decode(data, depth + 1)
        require(integers(1)(found) or floats(1)(found), "numbers are none")
        return tuple(found.tolist())

    def _array(self, name: Any) -> NDArray[Any]:
        described, size = self._member(name)
        dtype, shape, order = described.get("dtype"), described.get("shape"), described.get("order")
        require(dtype in ARRAY_TYPES and order in ("C", "F"), f"the array {name} is of a kind that files do not hold")
        if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
            raise MalformedError(f"the shape of {name} is none")
        require(all(type(length) is int and 0 <= length < 2**40 for length in shape), f"the shape of {name} is none")
        require(math.prod(shape) * np.dtype(dtype).itemsize == size, f"the array {name} is not as large as it says")
        flat = np.empty(size, dtype=np.uint8)
        self._members.read_into(name, flat.data)
        self._compare(name, flat.data)
        require(dtype != "|b1" or bool((flat <= 1).all()), f"the array {name} is neither true nor false")
        try:
            found = flat.view(dtype).reshape(shape, order=order)
        except ValueError as error:
            raise MalformedError(f"the shape of {name} is none") from error
        return found.astype(found.dtype.newbyteorder("="), copy=False)

    def _foreign(self, name: Any) -> Any:
        found, packages = unpack(self._content(name), self._trusted)
        if hasattr(type(found), "predict"):
            self.packages |= packages
        return found

    def _content(self, name: Any) -> bytearray:
        _, size = self._member(name)
        content = self._members.read(name, size)
        self._compare(name, memoryview(content))
        return content

    def _member(self, name: Any) -> tuple[dict[str, Any], int]:
        require(isinstance(name, str) and name in self._described, "it names a member that it has not")
        # A small file that names one array a million times would fill the memory.
        require(name not in self.used, f"it names {name} twice")
        self.used.add(name)
        return self._described[name], self._members.sizes[name]

    def _compare(self, name: str, content: memoryview) -> None:
        right = hashlib.sha256(content).hexdigest() == self._described[name].get("sha256")
        require(right, f"the content of {name} is not what was written")
