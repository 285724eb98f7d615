"""A model as plain data and arrays, and back.

What JSON has no word for is an object with one key that says what it is, such as ``{"tuple": [1, 2]}`` or
``{"array": "a3"}``; parts of known kinds are ``{"kind": "affine", "fields": {…}}``, with the parameters of a learner,
weighting, loss or start in place of fields. Every part is checked when it is written and when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.errors import PlrError
from plr.persistence.file import ARRAY_TYPES, ModelFile
from plr.persistence.foreign import is_code, pack, unpack
from plr.persistence.schema import (
    CHECKS,
    REASONS,
    STAND_INS,
    MalformedError,
    check_fields,
    class_of,
    fields_of,
    home_of,
    import_class,
    in_one_line,
    kind_of,
    matches,
    refusal,
    require,
)

__all__ = ["Decoder", "Encoder"]

_DEEPEST = 100
# A longer text is an array of its own, and so are more texts or numbers than this in a row.
_SHORT, _FEW = 1000, 1000
_TYPES = {int: np.int64, float: np.float64, str: object}
_NOT_FINITE = {word: float(word) for word in ("nan", "inf", "-inf")}


class Encoder:
    """Turns parts of a model into plain data, and collects the arrays they need.

    Parameters
    ----------
    with_rows : bool
        Whether to keep what was found for the training rows.

    Attributes
    ----------
    arrays : dict of str to ndarray
    kinds : set of str
    packages : set of str
        Modules of others that parts of it come from.
    """

    def __init__(self, with_rows: bool) -> None:
        self._with_rows = with_rows
        self.arrays: dict[str, NDArray[Any]] = {}
        self.kinds: set[str] = set()
        self.packages: set[str] = set()

    def encode(self, value: Any, place: str) -> Any:
        """Return a value as plain data; ``place`` says where it is, for errors."""
        if value is None or type(value) in (bool, int):
            return value
        if isinstance(value, str):
            return str(value) if len(value) <= _SHORT else self._text(value)
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, place)
        if type(value) is list:
            return [self.encode(entry, f"{place}, entry {at}") for at, entry in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": self._entries(value, place)}
        if type(value) is dict:
            pairs = value.items()
            return {"dict": [[self.encode(key, place), self.encode(part, f"{place}, {key!r}")] for key, part in pairs]}
        return self._part(value, place)

    def named(self, parts: Mapping[str, Any], place: str = "") -> dict[str, Any]:
        """Return parts that go by names as plain data."""
        return {name: self.encode(part, f"{place}.{name}".removeprefix(".")) for name, part in parts.items()}

    def _part(self, value: Any, place: str) -> dict[str, Any]:
        try:
            if (home := home_of(value)) in STAND_INS:
                value = import_class(STAND_INS[home]).of(value)
            kind = kind_of(value)
            if kind is None:
                return self._foreign(value, place)
            fields = fields_of(class_of(kind))
            found = value.get_params(deep=False) if fields is None else {name: getattr(value, name) for name in fields}
            check_fields(kind, found)
            if kind in CHECKS:
                CHECKS[kind](value)
        except MalformedError as error:
            raise refusal(place, str(error)) from error
        self.kinds.add(kind)
        if not self._with_rows:
            by_row = {name: field.hint for name, field in (fields or {}).items() if field.by_row}
            found |= {name: None if matches(None, hint) else np.empty(0) for name, hint in by_row.items()}
        return {"kind": kind, "fields": self.named(found, place)}

    def _entries(self, value: tuple[Any, ...], place: str) -> Any:
        kinds = {type(entry) for entry in value}
        small = kinds != {int} or all(-(2**63) <= entry < 2**63 for entry in value)
        if len(value) > _FEW and len(kinds) == 1 and kinds <= _TYPES.keys() and small:
            return self._array(np.array(value, dtype=_TYPES[kinds.pop()]), place)
        return self.encode(list(value), place)

    def _text(self, value: str) -> dict[str, str]:
        return {"text": self._keep("t", np.array(bytearray(value.encode()), dtype=np.uint8))}

    def _array(self, value: Any, place: str) -> dict[str, Any]:
        if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(entry, str) for entry in value):
            lengths = np.array([len(entry) for entry in value], dtype=np.int64)
            return {"strings": [self._text("".join(value)), self._array(lengths, place)]}
        if value.dtype.type not in ARRAY_TYPES.values():
            raise refusal(place, f"it is an array or number of the type {value.dtype}, which files do not hold")
        native = np.asarray(value, value.dtype.newbyteorder("="))
        # In which order an array lies in memory decides the last bits of products with it.
        if native.flags.f_contiguous and not native.flags.c_contiguous:
            return {"transposed": self._keep("a", np.ascontiguousarray(native.T))}
        if isinstance(value, np.generic):
            return {"scalar": self._keep("a", native.reshape(1))}
        return {"array": self._keep("a", np.ascontiguousarray(native).reshape(native.shape))}

    def _foreign(self, value: Any, place: str) -> dict[str, str]:
        if (home := home_of(value)) in REASONS:
            raise refusal(place, REASONS[home])
        if is_code(value):
            name = getattr(value, "__name__", type(value).__name__)
            raise refusal(place, f"{name} is code, and a model file holds none; keep the script that fits it")
        if type(value).__module__ == "builtins":
            raise refusal(place, f"it is a {type(value).__name__}, which files do not hold")
        content, packages = pack(value, place)
        self.packages |= packages
        return {"skops": self._keep("s", np.frombuffer(content, np.uint8))}

    def _keep(self, letter: str, content: NDArray[Any]) -> str:
        name = f"{letter}{len(self.arrays)}"
        self.arrays[name] = content
        return name


class Decoder:
    """Makes parts of a model from plain data and the arrays of a file.

    Parameters
    ----------
    file : ModelFile
    trusted : sequence of str
        Types that foreign regressors may be made of, besides the usual.

    Attributes
    ----------
    packages : set of str
        Modules of others that its regressors come from.
    """

    def __init__(self, file: ModelFile, trusted: Sequence[str]) -> None:
        self._file, self._trusted = file, trusted
        self.packages: set[str] = set()
        self._readers: dict[str, Callable[[Any], Any]] = {
            "array": file.take,
            "dict": _as_dict,
            "float": _NOT_FINITE.__getitem__,
            "scalar": lambda name: file.take(name)[0],
            "skops": self._foreign,
            "strings": _as_strings,
            "text": lambda name: file.bytes(name).decode(),
            "transposed": lambda name: file.take(name).T,
            "tuple": lambda entries: tuple(entries.tolist() if isinstance(entries, np.ndarray) else entries),
        }

    def decode(self, data: Any, depth: int = 0) -> Any:
        """Return the part that plain data stands for."""
        require(depth <= _DEEPEST, "it is nested too deep")
        if isinstance(data, list):
            return [self.decode(entry, depth + 1) for entry in data]
        if not isinstance(data, dict):
            return data
        if data.keys() == {"kind", "fields"}:
            return self._part(str(data["kind"]), self.named(data["fields"], depth))
        word, inner = next(iter(data.items()), ("", None))
        require(len(data) == 1 and word in self._readers, f"it holds an unknown value, {word[:40]!r}")
        found = self.decode(inner, depth + 1)
        try:
            return self._readers[word](found)
        except PlrError:
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise MalformedError(f"invalid {word} ({type(error).__name__})") from error

    def named(self, data: Any, depth: int = 0) -> dict[str, Any]:
        """Return parts that go by names."""
        require(isinstance(data, dict), "a part has no fields")
        return {name: self.decode(entry, depth + 1) for name, entry in data.items()}

    @staticmethod
    def _part(kind: str, given: dict[str, Any]) -> Any:
        found = class_of(kind)
        fields = fields_of(found)
        known = set(found._get_param_names()) if fields is None else fields.keys()
        right = given.keys() <= known and (fields is None or given.keys() == known)
        require(right, f"the fields of a part of the kind {kind} are not those plr knows")
        check_fields(kind, given)
        # The types of fields are checked already, those of parameters by the class.
        mistakes: tuple[type[Exception], ...] = (ValueError,) if fields else (TypeError, ValueError)
        try:
            part = found(**given)
        except mistakes as error:
            raise MalformedError(f"invalid part of the kind {kind} ({in_one_line(error)})") from error
        if kind in CHECKS:
            CHECKS[kind](part)
        return part.restore() if hasattr(found, "restore") else part

    def _foreign(self, name: Any) -> Any:
        found, packages = unpack(self._file.bytes(name), self._trusted)
        if hasattr(type(found), "predict"):
            self.packages |= packages
        return found


def _as_dict(pairs: Any) -> dict[Any, Any]:
    found = dict(pairs)
    require(all(isinstance(key, str | int | float | bool | np.generic) for key in found), "invalid key")
    return found


def _as_strings(parts: Any) -> NDArray[Any]:
    joined, lengths = parts
    ends = [0, *np.cumsum(lengths).tolist()]
    require(isinstance(joined, str) and ends[-1] == len(joined) and sorted(ends) == ends, "invalid lengths of texts")
    return np.array([joined[first:last] for first, last in pairwise(ends)], dtype=object)
