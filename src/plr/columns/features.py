"""From the columns of a table to features: what each column is, decided once and applied to every later table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from plr.columns.dates import PARTS
from plr.columns.kinds import (
    KINDS,
    Column,
    Mended,
    plain,
    settled,
    to_category,
    to_dates,
    to_numbers,
    to_seconds,
    to_truth,
    what_is,
)
from plr.columns.targets import row_places
from plr.errors import DataError

__all__ = ["Column", "Features", "learn_features"]

Floats = NDArray[np.float64]

_NAMED = 8
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
        check_present(table, [column.name for column in self.used], source, roles)
        made: dict[str, Any] = {}
        notes: list[Mended] = []
        for column in self.used:
            for name, values in _read(column, table, notes, some).items():
                made[name] = values
                if isinstance(values, np.ndarray):
                    _check_size(values, column, source, place or row_places(source))
        return pa.table(made), notes

    def settled(self, table: pa.Table) -> Features:
        """Return features that read the texts of every batch alike: as they are written in some rows."""
        return Features(
            tuple(settled(column, table[column.name]) if column.features else column for column in self.columns)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and texts that `from_dict` reads."""
        return {"columns": [{**asdict(column), "features": list(column.features)} for column in self.columns]}

    @classmethod
    def from_dict(cls, written: Any) -> Features:
        """Read what `to_dict` wrote, or complain."""
        try:
            columns = tuple(_column_of(entry) for entry in written["columns"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError("What the model file says about the columns of its table cannot be read.") from error
        return cls(columns)


def _column_of(entry: Mapping[str, Any]) -> Column:
    name, kind, form, note = (str(entry[key]) for key in ("name", "kind", "form", "note"))
    features = tuple(str(feature) for feature in entry["features"])
    parts = [feature.rpartition(": ")[2].rstrip("_") for feature in features]
    if kind not in KINDS or (kind == "date" and not set(parts) <= set(PARTS)) or (kind != "date" and len(features) > 1):
        raise ValueError(kind)
    return Column(name, kind, features, form, note)


def learn_features(table: pa.Table, leave: Collection[str] = (), source: object = "The table") -> Features:
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

    Examples
    --------
    >>> table = pa.table({"size": [1.5, 2.5, 4.0], "colour": ["red", "blue", "red"], "unit": ["m", "m", "m"]})
    >>> [(column.name, column.kind) for column in learn_features(table).columns]
    [('size', 'number'), ('colour', 'category'), ('unit', 'left out')]
    """
    columns = tuple(what_is(name, table[name]) for name in table.column_names if name not in leave)
    features = Features(_without_clashes(columns))
    if not features.used:
        reasons = "; ".join(f"{column.name!r} {column.note}" for column in features.columns[:_NAMED])
        raise DataError(
            f"{source} has no column to predict from besides the target"
            + (f", since the others are left out: {reasons}." if reasons else ".")
        )
    return features


def check_present(table: pa.Table, names: list[str], source: object, roles: Collection[str] = ()) -> None:
    """Refuse a table that lacks columns the model was trained on; one with a role is no other under another name."""
    missing = [name for name in names if name not in table.column_names]
    if not missing:
        return
    shown = ", ".join(map(repr, missing[:_NAMED])) + (
        f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    )
    taken = {*roles, *names}
    folded = {name.casefold().strip(): name for name in table.column_names if name not in taken}
    near = difflib.get_close_matches(missing[0].casefold(), folded, n=1, cutoff=0.8)
    hint = f"; its {folded[near[0]]!r} may be {missing[0]!r} under another name" if near else ""
    raise DataError(
        f"{source} lacks the column{'s' if len(missing) > 1 else ''} {shown} that the model was trained on{hint}."
    )


def _check_size(values: Floats, column: Column, source: object, place: Callable[[int], str]) -> None:
    too_large = np.flatnonzero(np.abs(values) > _LARGEST)
    if too_large.size:
        row = int(too_large[0])
        what = "infinite" if np.isinf(values[row]) else f"{values[row]:g}, too large to compute with,"
        raise DataError(
            f"{source}: column {column.name!r} is {what} in {place(row)}; correct it, leave the "
            "cell empty, or leave the column out with {parameter}.",
            parameter="ignore",
            row=row,
            column=column.name,
            value=values[row],
            source=source,
        )


def _without_clashes(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    taken = {column.name for column in columns}
    out = []
    for column in columns:
        if column.kind == "date":
            fresh = []
            for feature in column.features:
                while feature in taken:
                    feature += "_"
                taken.add(feature)
                fresh.append(feature)
            column = Column(column.name, column.kind, tuple(fresh), column.form, column.note)
        out.append(column)
    return tuple(out)


def _read(column: Column, table: pa.Table, notes: list[Mended], some: bool) -> dict[str, Any]:
    cells = plain(table[column.name])
    if column.kind == "date":
        times = to_dates(cells, column, notes, some=some)
        return {feature: PARTS[feature.rpartition(": ")[2].rstrip("_")](times) for feature in column.features}
    readers: dict[str, Callable[..., Any]] = {
        "number": to_numbers,
        "boolean": to_truth,
        "category": to_category,
        "clock": to_seconds,
    }
    return {column.features[0]: readers[column.kind](cells, column, notes, some=some)}
