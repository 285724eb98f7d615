"""Options as NAME=VALUE, which some verbs take any number of."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

__all__ = ["parse_options"]


def parse_options(given: Sequence[str], example: str, *, texts: bool = True) -> dict[str, Any]:
    """Read what was typed after ``--option``: a value is JSON, or else a text as it stands.

    Parameters
    ----------
    given : sequence of str
        Each as NAME=VALUE.
    example : str
        One to show in messages.
    texts : bool, default=True
        Whether a value may be a text that is no JSON.

    Examples
    --------
    >>> parse_options(["epochs=50", "hidden=[8, 8]", "activation=silu"], "epochs=50")
    {'epochs': 50, 'hidden': [8, 8], 'activation': 'silu'}
    """
    from plr.errors import ParameterError

    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ParameterError(f"--option {text}: write NAME=VALUE, such as {example}.")
        if name in options:
            raise ParameterError(f"--option {text}: {name} is given twice; give it once.")
        try:
            options[name] = json.loads(value, parse_constant=_refuse)
        except ValueError:
            if not texts:
                raise ParameterError(f"--option {text}: {value!r} is not a number or a list of numbers.") from None
            options[name] = value.strip()
        if not _is_finite(options[name]):
            raise ParameterError(f"--option {text}: the number is too large.")
    return options


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)
