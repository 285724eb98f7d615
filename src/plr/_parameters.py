"""Checks of parameters, with messages that name the parameter, its value and what is allowed."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from plr.errors import ParameterError, unknown_name

__all__ = ["check_choice", "check_integer", "check_number", "register", "resolve", "shown"]

T = TypeVar("T")

_LARGEST = 2**63


def check_number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    below: float = math.inf,
    open_low: bool = False,
    what: str = "{parameter}",
) -> float:
    """Return ``value`` as a float within ``[low, high]`` and under ``below``, and above ``low`` where ``open_low``.

    ``what`` is how the message begins where the value is only a part of the parameter.
    """
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, numbers.Real) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ParameterError(f"{what} must be a finite number, got {shown(value)}.", parameter=name, value=value)
    if number < low or number > high or number >= below or (open_low and number == low):
        span = _span(low, high, below, open_low)
        raise ParameterError(f"{what} must be {span}, got {value!r}.", parameter=name, value=value)
    return number


def check_integer(name: str, value: object, *, low: int = 0, countable: bool = True, what: str = "{parameter}") -> int:
    """Return ``value`` as an int of at least ``low`` and, unless not ``countable``, one that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        problem = "must be a whole number"
    elif value < low:
        problem = f"must be at least {low}"
    elif countable and int(value) >= _LARGEST:
        problem = "must be below 2**63"
    else:
        return int(value)
    raise ParameterError(f"{what} {problem}, got {shown(value)}.", parameter=name, value=value)


def shown(value: object) -> str:
    """Return a value for a message, without the digits of a huge whole number."""
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return f"a whole number of about {int(value.bit_length() * math.log10(2)) + 1} digits"
    return repr(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; otherwise name the nearest spelling."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise unknown_name("{parameter}", value, known, parameter=name)
    return value


def register(registry: dict[str, type[T]], name: str, made: type[T]) -> None:
    """Let a class go by a name; one that is defined again, as in a notebook, takes the place of its former self."""
    held = registry.get(name, made)
    if (held.__module__, held.__qualname__) != (made.__module__, made.__qualname__):
        raise ParameterError(f"The name {name!r} is taken: it is {held.__module__}.{held.__qualname__}.")
    registry[name] = made


def resolve(
    kind: str, given: object, registry: Mapping[str, Callable[[], T]], base: type[T], wrap: Callable[[Any], T] | None
) -> T:
    """Turn a name or an instance into an instance."""
    if isinstance(given, base):
        return given
    if isinstance(given, str):
        if given not in registry:
            raise unknown_name("{parameter}", given, registry, parameter=kind)
        return registry[given]()
    if isinstance(given, type):
        made = f"{given.__name__}()"
        raise ParameterError(
            f"{{parameter}} got the class {given.__name__}; give an instance, {made}, or a name.",
            parameter=kind,
            value=given,
        )
    if wrap is not None:
        return wrap(given)
    names = ", ".join(sorted(registry))
    raise ParameterError(
        f"{{parameter}} must be a name ({names}) or a {base.__name__} instance, got {given!r}.",
        parameter=kind,
        value=given,
    )


def _span(low: float, high: float, below: float, open_low: bool) -> str:
    bounds = []
    if low > -math.inf:
        bounds.append(f"above {low:g}" if open_low else f"at least {low:g}")
    if high < math.inf:
        bounds.append(f"at most {high:g}")
    if below < math.inf:
        bounds.append(f"below {below:g}")
    return " and ".join(bounds)
