"""Which columns of a table are what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from plr.columns.candidates import read_candidates
from plr.errors import ParameterError, PlrError, unknown_name
from plr.sources.recipe import read_recipe
from plr.tables.front_end import PYTHON, FrontEnd

if TYPE_CHECKING:
    from plr.sources.source import Source

__all__ = ["ROLES", "Asked", "Roles", "check_columns", "read_roles", "split_columns"]

Asked = Mapping[str, str | Sequence[str] | None]
"""Columns by role, as the user named them."""

ROLES = ("target", "ignore", "truth", "prior", "weights", "groups")
"""What a column can be, besides a feature."""

_SINGLE = ("truth", "weights", "groups")
# A column that equals a candidate in so many of the first rows, if there are some, looks like the true label.
_LOOKED_AT, _LEAST_ROWS, _NEARLY_ALL = 5_000, 5, 0.95


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are what, apart from the features."""

    target: list[str]
    ignore: list[str]
    truth: list[str]
    prior: list[str]
    weights: list[str]
    groups: list[str]

    @property
    def aside(self) -> list[str]:
        """All of them: columns that are no features."""
        return [name for role in ROLES for name in getattr(self, role)]


def check_columns(columns: Sequence[str], known: Sequence[str], source: object) -> None:
    """Refuse columns the table does not have, naming the nearest spelling."""
    for column in columns:
        if column not in known:
            raise unknown_name(f"column of {source}", column, known)


def split_columns(named: str | Sequence[str] | None, known: Sequence[str], source: object) -> list[str]:
    """Return the columns that were named: as a list, or as a text, separated by commas unless that is a column.

    >>> split_columns("a, b", ["a", "b"], "t.csv")
    ['a', 'b']
    """
    if named is None:
        return []
    if not isinstance(named, str) and not (
        isinstance(named, Sequence) and all(isinstance(name, str) for name in named)
    ):
        raise ParameterError(f"Columns are given by name, as a text or a list of texts; got {type(named).__name__}.")
    if isinstance(named, str):
        if named in known:
            return [named]
        named = [name.strip() for name in named.split(",") if name.strip()]
        if not named:
            raise ParameterError("A column name is needed where an empty one was given.")
    check_columns(named, known, source)
    return list(named)


def read_roles(table: pa.Table, source: Source, asked: Asked, front: FrontEnd = PYTHON) -> Roles:
    """Return which columns are what; a recipe that came with the table names the truth without being asked.

    Parameters
    ----------
    table : pyarrow.Table
        Rows of the source, all or some.
    source : Source
    asked : mapping of str to str or sequence of str
        Columns by role.
    front : FrontEnd
    """
    roles = Roles(*(split_columns(asked.get(role), table.column_names, source) for role in ROLES))
    for role in _SINGLE:
        if len(getattr(roles, role)) > 1:
            raise ParameterError(f"{front.option(role)} takes one column, not {len(getattr(roles, role))}.")
    kept = (read_recipe(table.schema, source) or {}).get("truth_column")
    if not roles.truth and isinstance(kept, str) and kept in table.column_names:
        roles.truth.append(kept)
    for name in roles.target:
        for role in ROLES[1:]:
            if name in getattr(roles, role):
                raise ParameterError(
                    f"The column {name!r} is named by {front.option('target')} and by {front.option(role)}; it can be "
                    "only one."
                )
    for name in _given_away(table, roles) if roles.target else []:
        instead = front.option("ignore" if roles.truth else "truth", name)
        front.note(
            f"Note: the column {name!r} equals one of the candidates in nearly every row that has it. If it is the "
            f"true label, say {instead}: as a feature it gives the answer away."
        )
    return roles


def _given_away(table: pa.Table, roles: Roles) -> list[str]:
    """Return features that look like the true label: wherever they are filled in, they are one of the candidates."""
    numbers = [
        field.name
        for field in table.schema
        if field.name not in roles.aside and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
    ]
    found = []
    for name in numbers:
        # Known truths may begin far down.
        filled = table.filter(table[name].is_valid()) if table[name].null_count else table
        if _is_a_candidate(filled.slice(0, _LOOKED_AT), name, roles.target):
            found.append(name)
    return found


def _is_a_candidate(table: pa.Table, name: str, target: list[str]) -> bool:
    try:
        sets = read_candidates(table, target, empty="drop")
    except PlrError:
        # Whoever needs the sets says what is wrong with them, and where.
        return False
    if len(sets) == 0:
        return False
    value = table[name].to_numpy().astype(float)
    value = value if sets.kept is None else value[sets.kept]
    told = (sets.sizes > 1) & ~np.isnan(value)
    equal = np.logical_or.reduceat(sets.values == value[sets.row_index], sets.offsets[:-1])
    return bool(told.sum() >= _LEAST_ROWS and equal[told].mean() > _NEARLY_ALL)
