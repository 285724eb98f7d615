"""What the parts of a model are called in a file, what each consists of, and what it must look like to be believed.

A file names kinds, never classes to import: which class a kind is made of stands here. All that is read is checked
before a part is made of it, as compiled code believes the numbers it is given.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

__all__ = [
    "Check",
    "Kind",
    "MalformedError",
    "a",
    "digests",
    "every",
    "flag",
    "floats",
    "home_of",
    "integers",
    "mapping",
    "number",
    "numbers",
    "optional",
    "positive",
    "require",
    "strings",
    "text",
    "whole",
]

Check = Callable[[Any], bool]


class MalformedError(Exception):
    """Something in a file is not what it should be. It becomes a `ModelFileError` where the path is known."""


@dataclass(frozen=True)
class Kind:
    """A class as files know it.

    Attributes
    ----------
    name : str
        What a file calls it.
    home : str
        The class, as ``module:name``; imported when the first of its kind is read.
    fields : mapping of str to Check
        What is kept, and what each must be.
    check : callable, optional
        Called with all fields; raises `MalformedError` where they do not go together.
    by_row : tuple of str
        Fields with entries for the training rows, which a file may do without.
    take : callable, optional
        Returns the fields of an object; its attributes, unless given.
    make : callable, optional
        Returns an object from its fields; the class called with them, unless given.
    """

    name: str
    home: str
    fields: Mapping[str, Check]
    check: Callable[[dict[str, Any]], None] | None = None
    by_row: tuple[str, ...] = ()
    take: Callable[[Any], dict[str, Any]] | None = None
    make: Callable[[dict[str, Any]], Any] | None = field(default=None)

    def taken(self, part: Any, with_rows: bool) -> dict[str, Any]:
        """Return the fields of an object."""
        found = {name: getattr(part, name) for name in self.fields} if self.take is None else self.take(part)
        if not with_rows:
            for name in self.by_row:
                found[name] = None if self.fields[name](None) else np.empty(0)
        return found

    def verify(self, fields: dict[str, Any]) -> None:
        """Raise `MalformedError` unless the fields are those of such an object."""
        if fields.keys() != self.fields.keys():
            raise MalformedError(f"a part of the kind {self.name} lacks something, or has too much")
        for name, is_right in self.fields.items():
            if not is_right(fields[name]):
                raise MalformedError(f"the {name} of a part of the kind {self.name} is not what it should be")
        if self.check is not None:
            self.check(fields)

    def made(self, fields: dict[str, Any]) -> Any:
        """Return an object of these fields, once they are verified."""
        self.verify(fields)
        if self.make is not None:
            return self.make(fields)
        module, _, name = self.home.partition(":")
        return getattr(importlib.import_module(module), name)(**fields)


def home_of(part: object) -> str:
    """Return where the class of an object is, as kinds spell it."""
    return f"{type(part).__module__}:{type(part).__qualname__}"


def require(holds: bool, what: str) -> None:
    """Raise `MalformedError` unless something holds."""
    if not holds:
        raise MalformedError(what)


def number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float | np.floating) and not isinstance(value, bool) and math.isfinite(value)


def numbers(value: Any) -> bool:
    """Whether it is a finite number, or a row of them."""
    return number(value) or (floats(1)(value) and bool(np.isfinite(value).all()))


def positive(value: Any) -> bool:
    """Whether it is a number above zero."""
    return number(value) and value > 0


def flag(value: Any) -> bool:
    """Whether it is true or false."""
    return isinstance(value, bool)


def text(value: Any) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


def whole(low: int, high: int = 2**31 - 1) -> Check:
    """Whether it is a whole number within a range."""
    return lambda value: isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high


def floats(dimensions: int, finite: bool = False) -> Check:
    """Whether it is an array of float64 with so many dimensions."""

    def check(value: Any) -> bool:
        right = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == dimensions
        return right and (not finite or bool(np.isfinite(value).all()))

    return check


def integers(dimensions: int) -> Check:
    """Whether it is an array of int64 with so many dimensions."""
    return lambda value: isinstance(value, np.ndarray) and value.dtype == np.int64 and value.ndim == dimensions


def digests(value: Any) -> bool:
    """Whether it is two digests for each row."""
    right = isinstance(value, np.ndarray) and value.dtype == np.uint64 and value.ndim == 2
    return right and len(value) == 2 and value.size > 0


def strings(value: Any) -> bool:
    """Whether it is an array of texts, as scikit-learn keeps the names of columns."""
    return isinstance(value, np.ndarray) and value.dtype == object and all(isinstance(entry, str) for entry in value)


def optional(check: Check) -> Check:
    """Whether it is None, or passes the check."""
    return lambda value: value is None or check(value)


def every(check: Check) -> Check:
    """Whether it is a tuple of what passes the check."""
    return lambda value: isinstance(value, tuple) and all(check(entry) for entry in value)


def mapping(of_key: Check, of_value: Check) -> Check:
    """Whether it is a dictionary of what passes the checks."""
    return lambda value: isinstance(value, dict) and all(of_key(key) and of_value(value[key]) for key in value)


def a(*homes: str) -> Check:
    """Whether it is an object of one of these classes."""
    return lambda value: home_of(value) in homes
