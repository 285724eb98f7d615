"""Which columns of a table are what, by the options of a command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plr.cli.common import note

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Roles", "read_roles"]

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
        every = (self.target, self.ignore, self.truth, self.prior, self.weights, self.groups)
        return [name for names in every for name in names]


def read_roles(table: pa.Table, data: Path, asked: dict[str, str | None]) -> Roles:
    """Return which columns are what; a recipe that came with the table names the truth without being asked."""
    from plr.cli.tables import read_recipe, split_columns
    from plr.errors import ParameterError

    named = {role: split_columns(text, table, data) for role, text in asked.items()}
    for role in ("truth", "weights", "groups"):
        if len(named.get(role, [])) > 1:
            raise ParameterError(f"--{role} takes one column, not {len(named[role])}.")
    roles = Roles(*(named.get(role, []) for role in ("target", "ignore", "truth", "prior", "weights", "groups")))
    recipe = read_recipe(table, data) or {}
    kept = recipe.get("truth_column")
    if not roles.truth and isinstance(kept, str) and kept in table.column_names:
        roles.truth.append(kept)
    for name in roles.target:
        for role in ("ignore", "truth", "prior", "weights", "groups"):
            if name in getattr(roles, role):
                raise ParameterError(f"The column {name!r} is named by --target and by --{role}; it can be only one.")
    for name in _given_away(table, roles) if roles.target else []:
        instead = f"--ignore {name}" if roles.truth else f"--truth {name}"
        note(
            f"Note: the column {name!r} equals one of the candidates in nearly every row that has it. If it is the "
            f"true label, say {instead}: as a feature it gives the answer away."
        )
    return roles


def _given_away(table: pa.Table, roles: Roles) -> list[str]:
    """Return features that look like the true label: wherever they are filled in, they are one of the candidates."""
    import pyarrow as pa

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
    import numpy as np

    from plr.cli.tables import read_candidates
    from plr.errors import PlrError

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
