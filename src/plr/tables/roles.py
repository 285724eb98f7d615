"""Which columns of a table are what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from plr.columns.candidates import SetColumns, read_candidates
from plr.errors import ParameterError, PlrError
from plr.front_end import PYTHON, FrontEnd, warn
from plr.sources.named import named_columns
from plr.sources.recipe import read_recipe
from plr.sources.source import Source

__all__ = ["Asked", "Roles", "only_one_role", "read_roles", "warn_of_truths"]

Asked = Mapping[str, str | Sequence[str] | None]
"""Columns by role, as the user named them."""

_ROLES = (
    "target",
    "ignore",
    "truth",
    "prior",
    "weights",
    "groups",
    "row",
    "candidate_features",
    "record",
    "known",
)
# A column that equals a candidate in so many of the first rows, if there are some, looks like the true label.
_LOOKED_AT, _LEAST_ROWS, _NEARLY_ALL = 5_000, 5, 0.95


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are what, apart from the features; and which of these are free texts."""

    target: list[str]
    ignore: list[str]
    truth: list[str]
    prior: list[str]
    weights: list[str]
    groups: list[str]
    row: list[str]
    candidate_features: list[str]
    record: list[str]
    known: list[str]
    prior_is: str = "share"
    text: tuple[str, ...] = ()

    @property
    def sets(self) -> SetColumns:
        """The columns that hold the candidate sets."""
        record, row = (next(iter(names), None) for names in (self.record, self.row))
        return SetColumns(
            tuple(self.target), tuple(self.prior), tuple(self.candidate_features), record, row, self.prior_is
        )

    @property
    def aside(self) -> list[str]:
        """All of them: columns that are no features."""
        return [name for role in _ROLES for name in getattr(self, role)]


def only_one_role(name: str | None, role: str, others: Sequence[str], front: FrontEnd, other: str = "target") -> None:
    """Refuse a column that is named as something else as well."""
    if name in others:
        raise ParameterError(
            f"The column {name!r} is named by {front.option(other)} and by {front.option(role)}; it can be only one."
        )


def read_roles(source: Source, asked: Asked, front: FrontEnd = PYTHON, prior_is: str = "share") -> Roles:
    """Return which columns are what; a recipe that came with the table names the truth without being asked.

    Parameters
    ----------
    source : Source
    asked : mapping of str to str or sequence of str
        Columns by role.
    front : FrontEnd
    prior_is : str
        What the numbers of the prior are.
    """
    roles = Roles(
        **{role: named_columns(role, asked.get(role), source.schema.names, source) for role in _ROLES},
        prior_is=prior_is,
        text=tuple(named_columns("text", asked.get("text"), source.schema.names, source)),
    )
    score = named_columns("match_score", asked.get("match_score"), source.schema.names, source)
    if len(score) > 1:
        raise ParameterError(f"{{parameter}} takes one column, not {len(score)}.", parameter="match_score")
    roles.candidate_features.extend(name for name in score if name not in roles.candidate_features)
    for role in ("truth", "weights", "groups", "row", "record", "known"):
        if len(getattr(roles, role)) > 1:
            raise ParameterError(f"{{parameter}} takes one column, not {len(getattr(roles, role))}.", parameter=role)
    kept = (read_recipe(source.schema, source) or {}).get("truth_column")
    if not roles.truth and isinstance(kept, str) and kept in source.schema.names:
        roles.truth.append(kept)
    for role in _ROLES[1:]:
        for name in getattr(roles, role):
            only_one_role(name, role, roles.target, front)
    for name in roles.text:
        for role in _ROLES:
            only_one_role(name, "text", getattr(roles, role), front, role)
    for name in roles.row:
        for role in ("prior", "candidate_features", "record", "known", "truth"):
            only_one_role(name, role, getattr(roles, role), front, "row")
    return roles


def warn_of_truths(table: pa.Table, roles: Roles, front: FrontEnd = PYTHON) -> None:
    """Warn of features that look like the true label, given rows of the table, all or some."""
    for field in table.schema:
        is_number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        if is_number and field.name not in roles.aside and _is_a_candidate(table, field.name, roles.target):
            instead = front.option("ignore" if roles.truth else "truth", field.name)
            warn(
                f"The column {field.name!r} equals one of the candidates in nearly every row that has it. If it is the "
                f"true label, say {instead}: as a feature it gives the answer away."
            )


def _is_a_candidate(table: pa.Table, name: str, target: list[str]) -> bool:
    """Return whether a column looks like the true label: wherever it is filled in, it is one of the candidates."""
    # Known truths may begin far down.
    table = table.filter(table[name].is_valid()) if table[name].null_count else table
    table = table.slice(0, _LOOKED_AT)
    try:
        sets = read_candidates(table, target, empty="drop")
    except PlrError:
        # Whoever needs the sets says what is wrong with them, and where.
        return False
    if len(sets) == 0:
        return False
    value = table[name].to_numpy().astype(float)
    value = value if sets.kept is None else value[sets.kept]
    known = (sets.sizes > 1) & ~np.isnan(value)
    equal = np.logical_or.reduceat(sets.values == value[sets.row_index], sets.offsets[:-1])
    return bool(known.sum() >= _LEAST_ROWS and equal[known].mean() > _NEARLY_ALL)
