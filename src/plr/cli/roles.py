"""Which columns of a table are what, by the options of a command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Roles", "read_roles"]


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
    recipe = read_recipe(table) or {}
    kept = recipe.get("truth_column")
    if not roles.truth and isinstance(kept, str) and kept in table.column_names:
        roles.truth.append(kept)
    for name in roles.target:
        for role in ("ignore", "truth", "prior", "weights", "groups"):
            if name in getattr(roles, role):
                raise ParameterError(f"The column {name!r} is named by --target and by --{role}; it can be only one.")
    return roles
