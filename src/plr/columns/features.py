"""From the columns of a table to features: what each column is, decided once and applied to every later table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from plr.columns.kinds import KINDS, PARTS, Column, Mended, free_text, part_of, read_cells, settled, what_is
from plr.columns.prose import Prose
from plr.columns.targets import row_places
from plr.errors import DataError
from plr.front_end import listed

__all__ = ["Column", "Features", "check_present", "learn_features"]

# The squares of larger numbers are none.
_LARGEST = 1e150


@dataclass(frozen=True)
class Features:
    """How the columns of a table become features.

    Attributes
    ----------
    columns : tuple of Column
        One for each column that could have been a feature, in the order of the training table.
    """

    columns: tuple[Column, ...]

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that are features."""
        return tuple(column for column in self.columns if column.features)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for column in self.used for name in column.features)

    def apply(
        self,
        table: pa.Table,
        source: object,
        *,
        place: Callable[[int], str] | None = None,
        roles: Collection[str] = (),
        some: bool = False,
    ) -> tuple[pa.Table, list[Mended]]:
        """Return a table's features, and in words what had to be done to make them.

        Parameters
        ----------
        table : pyarrow.Table
            Its columns may be in any order, and more than are needed.
        source : Source or path
            What the table was read from, for messages.
        place : callable, optional
            Says where a row is, for messages; for a table that is a part of what was read.
        roles : collection of str
            Columns that are known to be something else, such as the target.
        some : bool, default=False
            Whether there are more rows than these, so that a column without one right cell here is no mistake.

        Returns
        -------
        features : pyarrow.Table
            Numbers, NaN where missing, and texts, null where missing.
        notes : list of Mended
            Texts.
        """
        check_present(table.column_names, [column.name for column in self.used], source, roles)
        made: dict[str, Any] = {}
        notes: list[Mended] = []
        for column in self.used:
            try:
                read, mended = read_cells(column, table[column.name], some=some)
            except ValueError as error:
                raise DataError(
                    f"{source}: column {column.name!r} held {KINDS[column.kind]} in training and {error} now; write it "
                    "as in training, or fit the model again.",
                    column=column.name,
                    source=source,
                ) from error
            if column.kind != "category":
                _check_size(read, column.name, source, place or row_places(source))
            made |= read
            notes += [] if mended is None else [mended]
        return pa.table(made), notes

    def settled(self, table: pa.Table) -> Features:
        """Return features that read the texts of every batch alike: as they are written in some rows."""
        return Features(
            tuple(settled(column, table[column.name]) if column.features else column for column in self.columns)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and texts that `from_dict` reads."""
        learned = {column.name: column.prose.to_dict() for column in self.columns if column.prose is not None}
        return {"columns": self.describe(), **({"prose": learned} if learned else {})}

    def describe(self) -> list[dict[str, Any]]:
        """Return what each column is, as plain values, for people and programs to read."""
        return [
            {
                "name": column.name,
                "kind": column.kind,
                "features": list(column.features),
                "form": column.form,
                "note": column.note,
            }
            for column in self.columns
        ]

    @classmethod
    def from_dict(cls, written: Any) -> Features:
        """Read what `to_dict` wrote, or complain."""
        try:
            learned = written.get("prose", {})
            prose = {name: Prose.from_dict(found) for name, found in learned.items()}
            columns = tuple(_column_of(entry, prose) for entry in written["columns"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError("What the model file says about the columns of its table cannot be read.") from error
        return cls(columns)


def _column_of(entry: Mapping[str, Any], prose: Mapping[str, Prose]) -> Column:
    name, kind, form, note = (str(entry[key]) for key in ("name", "kind", "form", "note"))
    features = tuple(map(str, entry["features"]))
    learned = prose[name] if kind == "text" else None
    is_right = set(map(part_of, features)) <= set(PARTS) if kind == "date" else len(features) <= 1
    if learned is not None:
        is_right = len(features) == len(learned.directions)
    if kind not in KINDS or not is_right:
        raise ValueError(kind)
    return Column(name, kind, features, form, note, learned)


def learn_features(
    table: pa.Table, leave: Collection[str] = (), source: object = "The table", text: Collection[str] = ()
) -> Features:
    """Decide what each column of a table is.

    Numbers stay numbers. Dates become several numbers, true and false 1 and 0, and texts categories; texts that are
    numbers or dates in disguise are read as such. Columns that say nothing are left out: those that are the same in all
    rows or empty, row numbers, identifiers by name that are all different, and texts that are nearly all different.

    Parameters
    ----------
    table : pyarrow.Table
    leave : collection of str
        Columns that are no features: the target, the truth, what the user does not want.
    source : Source or path
        What the table was read from, for messages.
    text : collection of str
        Columns of free texts, of which numbers are made.

    Examples
    --------
    >>> table = pa.table({"size": [1.5, 2.5, 4.0], "colour": ["red", "blue", "red"], "unit": ["m", "m", "m"]})
    >>> [(column.name, column.kind) for column in learn_features(table).columns]
    [('size', 'number'), ('colour', 'category'), ('unit', 'left out')]
    """
    taken, columns = set(table.column_names) - set(leave), []
    for name in table.column_names:
        if name in leave:
            continue
        column = _free_text(name, table[name], source) if name in text else what_is(name, table[name])
        if column.kind in ("date", "text"):
            column = replace(column, features=tuple(_new_name(feature, taken) for feature in column.features))
        columns.append(column)
    features = Features(tuple(columns))
    if not features.used:
        reasons = "; ".join(f"{column.name!r} {column.note}" for column in features.columns[:8])
        raise DataError(
            f"{source} has no column to predict from besides the target"
            + (f", since the others are left out: {reasons}." if reasons else ".")
        )
    return features


def _free_text(name: str, cells: Any, source: object) -> Column:
    try:
        return free_text(name, cells)
    except ValueError as error:
        raise DataError(
            f"{source}: column {name!r} {error}; leave it out of {{parameter}}.",
            parameter="text",
            column=name,
            source=source,
        ) from error


def _new_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def check_present(known: Sequence[str], names: Sequence[str], source: object, roles: Collection[str] = ()) -> None:
    """Refuse a table that lacks columns the model was trained on; one with a role is no other under another name."""
    missing = [name for name in names if name not in known]
    if not missing:
        return
    folded = {name.casefold().strip(): name for name in known if name not in {*roles, *names}}
    near = difflib.get_close_matches(missing[0].casefold(), folded, n=1, cutoff=0.8)
    hint = f"; its {folded[near[0]]!r} may be {missing[0]!r} under another name" if near else ""
    raise DataError(
        f"{source} lacks the column{'s' if len(missing) > 1 else ''} {listed(list(map(repr, missing)))} that the model "
        f"was trained on{hint}."
    )


def _check_size(read: Mapping[str, Any], column: str, source: object, place: Callable[[int], str]) -> None:
    for values in read.values():
        too_large = np.flatnonzero(np.abs(values) > _LARGEST)
        if too_large.size:
            row = int(too_large[0])
            what = "infinite" if np.isinf(values[row]) else f"{values[row]:g}, too large to compute with,"
            raise DataError(
                f"{source}: column {column!r} is {what} in {place(row)}; correct it, leave the cell empty, or leave "
                "the column out with {parameter}.",
                parameter="ignore",
                row=row,
                column=column,
                value=values[row],
                source=source,
            )
