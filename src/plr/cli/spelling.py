"""How parameters of the library are spelled on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plr.errors import PlrError

__all__ = ["spell_parameter"]

# Parameters whose option has another name.
_OTHER_NAMES = {
    "columns": "target",
    "coverage": "interval",
    "n_jobs": "jobs",
    "random_state": "seed",
    "sample_weight": "weights",
    "trusted": "trust",
}


def spell_parameter(error: PlrError, options: Iterable[Any]) -> None:
    """Let an error name the option that sets its parameter, given the options of the command (click's parameters).

    Parameters without an option of their own are given by ``--option``, where the command has that.
    """
    if error.parameter is None or not error.parameter.isidentifier():
        return
    spellings = {option.name: option.opts[0] for option in options if option.opts[0].startswith("--")}
    name = _OTHER_NAMES.get(error.parameter, error.parameter)
    if name in spellings:
        error.parameter = spellings[name]
    elif "option" in spellings:
        error.parameter = f"{spellings['option']} {error.parameter}"
