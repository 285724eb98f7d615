"""Numbers as users write them, turned into float64; what is no number is quoted with its place."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates.flat import Floats
from plr.errors import CandidateError, PlrError, PriorError

__all__ = ["as_floats", "as_shares", "check_readable", "complaint", "floats_of", "is_missing", "is_number", "is_row"]


def is_number(kind: type) -> bool:
    """Whether objects of this type are real numbers."""
    # NumPy counts spans of time among the integers.
    return issubclass(kind, (numbers.Real, Decimal, np.bool_)) and not issubclass(kind, np.timedelta64)


def is_missing(item: Any) -> bool:
    """Whether this stands for no value: None, NaN or pandas' NA."""
    return item is None or type(item).__name__ == "NAType" or (isinstance(item, float) and item != item)


def is_row(kind: type) -> bool:
    """Whether objects of this type can be one row of a list of lists."""
    ordered = hasattr(kind, "__len__") and hasattr(kind, "__iter__")
    return ordered and not issubclass(kind, (str, bytes, Mapping, set, frozenset))


def check_readable(data: Any, error: type[PlrError], what: str) -> None:
    """Refuse what stands for values that cannot be looked at as it is: Polars' lazy frames, tensors with gradients."""
    if type(data).__name__ == "LazyFrame":
        raise error(f"{what} is a LazyFrame, whose rows have not been read yet; call its collect() first.")
    if getattr(data, "requires_grad", False) is True:
        raise error(f"{what} is a tensor that requires a gradient, which would be lost; give its detach().")


def complaint(item: Any, where: str) -> CandidateError:
    """Make the error for an entry that is no number."""
    if isinstance(item, (str, bytes)):
        problem = f"{where} holds {item!r}: strings are not numbers; convert them to floats first."
    elif isinstance(item, (complex, np.complexfloating)):
        problem = f"Complex data not supported: {where} holds {item!r}; give real numbers."
    elif is_missing(item):
        problem = f"{where} holds {item!r}: a list names only the candidates there are; leave missing ones out."
    elif is_row(type(item)):
        problem = f"{where} is nested too deep: it holds {item!r} where a number belongs; give one flat list per row."
    elif isinstance(item, (set, frozenset)):
        problem = f"{where} is a set, which has no order; give a list, or sorted({{...}})."
    else:
        problem = f"{where} holds {item!r} of type {type(item).__name__}, which is not a number; give floats."
    return CandidateError(problem[0].upper() + problem[1:])


def as_floats(data: Any, what: str = "y") -> Floats:
    """Convert a column or table of numbers to float64, NaN where an entry is missing.

    >>> as_floats([1, None, 2.5])
    array([1. , nan, 2.5])
    """
    check_readable(data, CandidateError, what)
    if isinstance(data, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(data.astype(np.float64), np.nan))
    dtype = getattr(data, "dtype", None)
    if isinstance(data, (list, tuple)) and not any(is_row(kind) for kind in set(map(type, data))):
        # NumPy would make strings of all numbers beside one string, and the message would quote the wrong entry.
        array = np.empty(len(data), dtype=object)
        array[:] = data
    elif hasattr(dtype, "na_value") and getattr(dtype, "kind", "O") in "fiub":
        array = data.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        try:
            array = np.asarray(data)
            if array.dtype.kind in "US" and not hasattr(data, "dtype"):
                array = np.asarray(data, dtype=object)
        except ValueError as error:
            raise CandidateError(
                f"{what} is no regular array ({error}); CandidateSets.from_lists takes rows of any length."
            ) from None
    if array.dtype.kind in "fiub":
        return array.astype(np.float64, copy=False)
    return _objects_as_floats(array, what)


def as_shares(data: Any, what: str) -> Floats:
    """Convert priors to float64; what is wrong with them is a :class:`PriorError`."""
    try:
        return as_floats(data, what)
    except CandidateError as problem:
        raise PriorError(str(problem)) from None


def _objects_as_floats(array: NDArray[Any], what: str) -> Floats:
    # ``tolist`` would make plain integers of dates.
    flat = list(array.ravel()) if array.dtype.kind in "mM" else array.ravel().tolist()
    kinds = set(map(type, flat))
    if any(kind.__name__ == "NAType" for kind in kinds):
        flat = [None if is_missing(item) else item for item in flat]
        kinds = set(map(type, flat))

    def name(place: int) -> str:
        index = np.unravel_index(place, array.shape)
        where = f"row {index[0]}" if index else "the value"
        return where + (f", column {', '.join(map(str, index[1:]))}" if len(index) > 1 else "")

    if all(kind is type(None) or is_number(kind) for kind in kinds):
        return floats_of(flat, what, name).reshape(array.shape)
    place = next(place for place, item in enumerate(flat) if item is not None and not is_number(type(item)))
    where = name(place)
    raise complaint(flat[place], f"{what}, {where}," if what != "y" else where)


def floats_of(flat: list[Any], what: str, name: Callable[[int], str]) -> Floats:
    """Convert a list of numbers and None; ``name`` says where an entry is."""
    try:
        return np.array(flat, dtype=np.float64)
    except OverflowError:
        where = name(next(place for place, item in enumerate(flat) if _is_beyond(item)))
        raise CandidateError(
            f"{what} contains infinity or a value too large for dtype('float64'), in {where}; numbers go up to 1.8e308."
        ) from None


def _is_beyond(item: Any) -> bool:
    try:
        float(0 if item is None else item)
    except OverflowError:
        return True
    return False
