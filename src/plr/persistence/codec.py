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

from plr.errors import ModelFileError
from plr.persistence.file import ARRAY_TYPES, ModelFile
from plr.persistence.foreign import is_code, pack, unpack
from plr.persistence.schema import (
    CHECKS,
    KINDS,
    NAMES,
    REASONS,
    STAND_INS,
    MalformedError,
    check_part,
    class_of,
    fields_of,
    home_of,
    matches,
    require,
)

__all__ = ["Decoder", "Encoder", "refusal"]

_DEEPEST = 40
# A longer text is an array of its own, and so are more texts or numbers than this in a row.
_SHORT, _FEW = 1000, 1000
_TYPES = {int: np.int64, float: np.float64, str: object}
_NOT_FINITE = ("nan", "inf", "-inf")
_SCALARS = {np.dtype(kind).name: kind for kind in ARRAY_TYPES.values()}


def refusal(place: str, why: str) -> ModelFileError:
    """Make the error for what cannot be written."""
    return ModelFileError(f"The model cannot be written to a file because of its {place}: {why}.")


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
        if type(value) is str:
            return value if len(value) <= _SHORT else self._text(value)
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, place)
        if isinstance(value, np.generic):
            return self._scalar(value, place)
        if type(value) is list:
            return [self.encode(entry, f"{place}, entry {at}") for at, entry in enumerate(value)]
        if type(value) is tuple:
            return self._tuple(value, place)
        if type(value) is dict:
            pairs = value.items()
            return {"dict": [[self.encode(key, place), self.encode(part, f"{place}, {key!r}")] for key, part in pairs]}
        return self._part(value, place)

    def _part(self, value: Any, place: str) -> dict[str, Any]:
        try:
            if (home := home_of(value)) in STAND_INS:
                keep = class_of(STAND_INS[home])
                value = getattr(keep, "of", keep)(value)
                home = home_of(value)
            if home not in NAMES:
                return self._foreign(value, home, place)
            kind, fields = NAMES[home], fields_of(class_of(home))
            found = value.get_params(deep=False) if fields is None else {name: getattr(value, name) for name in fields}
            check_part(kind, found, value)
        except MalformedError as error:
            raise refusal(place, str(error)) from error
        self.kinds.add(kind)
        if not self._with_rows:
            found |= {name: field.without_rows for name, field in (fields or {}).items() if field.by_row}
        return {"kind": kind, "fields": self.named(found, place)}

    def named(self, parts: Mapping[str, Any], place: str = "") -> dict[str, Any]:
        """Return parts that go by names as plain data."""
        return {name: self.encode(part, f"{place}.{name}".removeprefix(".")) for name, part in parts.items()}

    def _tuple(self, value: tuple[Any, ...], place: str) -> dict[str, Any]:
        kinds = {type(entry) for entry in value}
        small = kinds != {int} or all(-(2**63) <= entry < 2**63 for entry in value)
        if len(value) > _FEW and len(kinds) == 1 and kinds <= _TYPES.keys() and small:
            return {"tuple": self._array(np.array(value, dtype=_TYPES[kinds.pop()]), place)}
        return {"tuple": self.encode(list(value), place)}

    def _text(self, value: str) -> dict[str, str]:
        return {"text": self._keep("t", np.array(bytearray(value.encode()), dtype=np.uint8))}

    def _scalar(self, value: np.generic, place: str) -> Any:
        if isinstance(value, np.str_):
            return str(value)
        if value.dtype.name not in _SCALARS:
            raise refusal(place, f"it is a number of numpy's of the kind {value.dtype}, which files do not hold")
        return {"scalar": [value.dtype.name, self.encode(value.item(), place)]}

    def _array(self, value: NDArray[Any], place: str) -> dict[str, Any]:
        if value.dtype.kind in "OU" and value.ndim == 1 and all(isinstance(entry, str) for entry in value):
            lengths = np.array([len(entry) for entry in value], dtype=np.int64)
            return {"strings": [self._text("".join(value)), self._array(lengths, place)]}
        if value.dtype.type not in _SCALARS.values():
            raise refusal(place, f"it is an array of the kind {value.dtype}, which files do not hold")
        native = value.astype(value.dtype.newbyteorder("="), copy=False)
        # In which order an array lies in memory decides the last bits of products with it.
        if native.flags.f_contiguous and not native.flags.c_contiguous:
            return {"transposed": self._keep("a", np.ascontiguousarray(native.T))}
        return {"array": self._keep("a", np.ascontiguousarray(native).reshape(native.shape))}

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
        self._readers: dict[str, Callable[[Any, int], Any]] = {
            "array": lambda data, _: self._file.take(self._name(data)),
            "dict": self._dict,
            "float": self._float,
            "scalar": self._scalar,
            "skops": self._foreign,
            "strings": self._strings,
            "text": self._text,
            "transposed": lambda data, _: self._file.take(self._name(data)).T,
            "tuple": self._tuple,
        }

    def decode(self, data: Any, depth: int = 0) -> Any:
        """Return the part that plain data stands for."""
        require(depth <= _DEEPEST, "it is nested too deep")
        if data is None or isinstance(data, bool | int | float | str):
            return data
        if isinstance(data, list):
            return self._list(data, depth)
        if data.keys() == {"kind", "fields"}:
            kind = data["kind"] if isinstance(data["kind"], str) else ""
            require(kind in KINDS, f"it holds a part of an unknown kind, {str(data['kind'])[:40]!r}")
            return self._part(kind, self.named(data["fields"], depth))
        word, inner = next(iter(data.items()), ("", None))
        require(len(data) == 1 and word in self._readers, f"it holds an unknown value, {word[:40]!r}")
        return self._readers[word](inner, depth)

    def named(self, data: Any, depth: int = 0) -> dict[str, Any]:
        """Return parts that go by names."""
        require(isinstance(data, dict), "a part has no fields")
        return {name: self.decode(entry, depth + 1) for name, entry in data.items()}

    @staticmethod
    def _part(kind: str, given: dict[str, Any]) -> Any:
        found = class_of(KINDS[kind])
        fields = fields_of(found)
        known = set(found._get_param_names()) if fields is None else fields.keys()
        missing = set() if fields is None else known - given.keys()
        require(
            given.keys() <= known and not missing, f"the fields of a part of the kind {kind} are not those plr knows"
        )
        check_part(kind, given)
        # The types of fields are checked already, those of parameters by the class.
        mistakes: tuple[type[Exception], ...] = (ValueError,) if fields else (TypeError, ValueError)
        try:
            part = found(**given)
        except mistakes as error:
            raise MalformedError(f"invalid part of the kind {kind}: {' '.join(str(error).split())[:200]}") from error
        if KINDS[kind] in CHECKS:
            CHECKS[KINDS[kind]](part)
        return part.restore() if hasattr(found, "restore") else part

    def _list(self, data: Any, depth: int) -> list[Any]:
        require(isinstance(data, list), "a list was expected")
        return [self.decode(entry, depth + 1) for entry in data]

    def _dict(self, data: Any, depth: int) -> dict[Any, Any]:
        pairs = self._list(data, depth)
        require(all(isinstance(pair, list) and len(pair) == 2 for pair in pairs), "pairs were expected")
        keys = [key for key, _ in pairs]
        require(all(isinstance(key, str | int | float | bool | np.generic) for key in keys), "invalid key")
        return dict(pairs)

    @staticmethod
    def _float(data: Any, _depth: int) -> float:
        require(data in _NOT_FINITE, "invalid number")
        return float(data)

    def _scalar(self, data: Any, depth: int) -> Any:
        kind, value = data if isinstance(data, list) and len(data) == 2 else (None, None)
        value = self.decode(value, depth + 1)
        require(isinstance(kind, str) and kind in _SCALARS and isinstance(value, bool | int | float), "invalid number")
        try:
            return _SCALARS[str(kind)](value)
        except (OverflowError, ValueError) as error:
            raise MalformedError("invalid number") from error

    def _tuple(self, data: Any, depth: int) -> tuple[Any, ...]:
        found = self.decode(data, depth + 1)
        require(isinstance(found, list) or (isinstance(found, np.ndarray) and found.ndim == 1), "a list was expected")
        return tuple(found if isinstance(found, list) else found.tolist())

    def _strings(self, data: Any, depth: int) -> NDArray[Any]:
        parts = self._list(data, depth)
        right = len(parts) == 2 and isinstance(parts[0], str) and matches(parts[1], NDArray[np.int64])
        require(right and bool((parts[1] >= 0).all()), "texts and lengths were expected")
        joined, ends = parts[0], [0, *np.cumsum(parts[1]).tolist()]
        require(ends[-1] == len(joined) and sorted(ends) == ends, "texts and lengths were expected")
        return np.array([joined[first:last] for first, last in pairwise(ends)], dtype=object)

    def _text(self, data: Any, _depth: int) -> str:
        try:
            return self._file.bytes(self._name(data)).decode()
        except UnicodeDecodeError as error:
            raise MalformedError("a text is not UTF-8") from error

    def _foreign(self, data: Any, _depth: int) -> Any:
        found, packages = unpack(self._file.bytes(self._name(data)), self._trusted)
        if hasattr(type(found), "predict"):
            self.packages |= packages
        return found

    @staticmethod
    def _name(data: Any) -> str:
        require(isinstance(data, str), "the name of an array was expected")
        return str(data)
