"""How parameters of the library are spelled on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from plr.errors import PlrError

__all__ = ["spell_option", "spell_parameter"]

# Parameters whose option has another name.
_OTHER_NAMES = {
    "columns": "target",
    "coverage": "interval",
    "identify": "identified",
    "in_batches": "stream",
    "n_jobs": "jobs",
    "random_state": "seed",
    "sample_weight": "weights",
    "trusted": "trust",
}


def spell_option(name: str, value: object = None) -> str:
    """Return the option that sets a parameter, and a value for it.

    >>> spell_option("truth", "y"), spell_option("in_batches", False), spell_option("drop_empty", True)
    ('--truth y', '--no-stream', '--drop-empty')
    """
    option = _OTHER_NAMES.get(name, name).replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option}" if value is None else f"--{option} {value}"


def spell_parameter(error: PlrError, options: Iterable[Any]) -> None:
    """Let an error name the option that sets its parameter, given the options of the command (click's parameters).

    Parameters without an option of their own are given by ``--option``, where the command has that.
    """
    if error.parameter is None or not error.parameter.isidentifier():
        return
    known = {option.opts[0] for option in options}
    if spell_option(error.parameter) in known:
        error.parameter = spell_option(error.parameter)
    elif "--option" in known:
        error.parameter = f"--option {error.parameter}"
