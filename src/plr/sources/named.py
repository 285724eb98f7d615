"""Columns as a user names them, found among those of a table; imports nothing else, so that mistakes show at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plr.errors import DataNotFoundError, ParameterError, unknown_name

__all__ = ["is_known_column", "named_columns"]


def named_columns(parameter: str, named: str | Sequence[str] | None, known: Sequence[str], source: object) -> list[str]:
    """Return the columns that were named: as a list, or as a text, separated by commas unless that is a column.

    Parameters
    ----------
    parameter : str
        What the columns are.
    named : str or sequence of str, optional
    known : sequence of str
        All columns.
    source : object
        Whose they are, for messages.

    Examples
    --------
    >>> named_columns("target", "a, b", ["a", "b", "c"], "The table")
    ['a', 'b']
    """
    if named is None:
        return []
    if isinstance(named, str):
        named = [named] if named in known else [name.strip() for name in named.split(",") if name.strip()]
        if not named:
            raise ParameterError(
                "{parameter} needs the name of a column, and was given an empty one.", parameter=parameter
            )
    elif not isinstance(named, Sequence) or not all(isinstance(name, str) for name in named):
        raise ParameterError(
            f"{{parameter}}: columns are given by name, as a text or a list of texts; got {type(named).__name__}.",
            parameter=parameter,
        )
    for name in named:
        if name not in known:
            raise unknown_name(
                "column", name, known, parameter=parameter, problem=f"{{parameter}}: {source} has no column"
            )
    return list(named)


def is_known_column(known: Any, columns: Sequence[str], source: object) -> bool:
    """Whether known labels are a column of the table itself; where they are neither that nor a file, complain."""
    if isinstance(known, list | tuple):
        if not known or any(is_known_column(one, columns, source) for one in known):
            raise ParameterError("{parameter} is one column of the table, or one or more files.", parameter="known")
        return False
    if isinstance(known, str) and known in columns:
        return True
    if isinstance(known, str | os.PathLike) and not Path(known).expanduser().exists():
        raise DataNotFoundError(
            f"{{parameter}} {known}: {source} has no such column, and there is no such file; name a column of true "
            "labels, or a file with a row key and the column 'value'.",
            parameter="known",
        )
    return False
