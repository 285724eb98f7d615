"""Rows of a table, or of many batches of one, as a model takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.cli.common import Trained
    from plr.columns.kinds import Column, Mended
    from plr.streaming.folder import Folder

__all__ = ["RowReader", "features_of"]

# How texts are written, where training did not tell, is told from so many rows of a folder.
_LOOKED_AT = 10_000


class RowReader:
    """Turns tables into the rows that a model takes, and remembers what was ignored or mended.

    Parameters
    ----------
    trained : Trained
    source : Path
        What the tables are read from, for messages.
    aside : sequence of str
        Columns that are no features.
    """

    def __init__(self, trained: Trained, source: Path, aside: Sequence[str] = ()) -> None:
        self._trained, self._source, self._aside = trained, source, tuple(aside)
        self._features = trained.features
        self._roles = {*trained.target, *trained.aside, *aside, *([] if trained.truth is None else [trained.truth])}
        self._some = False
        self._columns: list[str] = []
        self._settled: dict[str, Column] = {}
        self._mended: dict[tuple[str, str], Mended] = {}

    def prepare(self, folder: Folder) -> None:
        """Get ready for all batches of a folder: what is wrong with its columns is told before anything is written."""
        from plr.columns.kinds import Column, settled

        names = self._names(folder.schema.empty_table())
        table, numbers = folder.sample(_LOOKED_AT, 0, names)
        if self._features is not None:
            self._features = self._features.settled(table)
        else:
            self._settled = {name: settled(Column(name, "number", (name,)), table[name]) for name in names}
        self.read(table, lambda row: folder.place(int(numbers[row])))
        self._some, self._columns = True, folder.schema.names
        self._mended.clear()

    def read(self, table: pa.Table, place: Callable[[int], str] | None = None) -> Any:
        """Return the rows of a table; ``place`` says where a row is, for messages."""
        from plr.cli.modules import check_filled
        from plr.columns.targets import place_of_row
        from plr.learners import Module

        if not self._columns:
            self._columns = table.column_names
        notes: list[Mended] = []
        if self._features is None:
            rows = self._by_name(table, notes)
        else:
            rows, notes = self._features.apply(table, self._source, place=place, roles=self._roles, some=self._some)
            if isinstance(self._trained.model.learner_, Module):
                check_filled(rows, self._source, place or (lambda row: place_of_row(row, table, self._source)))
            notes += self._new_categories(rows)
        for note in notes:
            known = self._mended.get((note.column, note.kind))
            self._mended[note.column, note.kind] = note if known is None else known.joined(note)
        return rows

    def notes(self) -> list[str]:
        """Return in words what was ignored or mended in all tables so far."""
        from plr.cli.common import listed

        told: list[str] = []
        if self._features is not None:
            known = {*(column.name for column in self._features.columns), *self._roles}
            extra = [name for name in self._columns if name not in known]
            if extra:
                told.append(f"Not used, since the model was trained without: {listed(extra)}.")
        elif self._in_order():
            names = [name for name in self._columns if name not in self._aside]
            told.append(
                f"The model does not know the names of its features; the columns are taken in order: {listed(names)}."
            )
        return [*told, *self._mended.values()]

    def _names(self, table: pa.Table) -> list[str]:
        """Return the columns of a table that are needed, or complain that some are missing."""
        from plr.columns.features import check_present
        from plr.errors import DataError

        model = self._trained.model
        if self._features is not None:
            names = [column.name for column in self._features.used]
            check_present(table, names, self._source, self._roles)
            return names
        if self._in_order():
            names = [name for name in table.column_names if name not in self._aside]
            if len(names) != model.n_features_in_:
                raise DataError(
                    f"{self._source} has {len(names)} columns and the model takes {model.n_features_in_} features, "
                    "whose names it does not know; give a table with exactly these, in the order of training."
                )
            return names
        given = getattr(model, "feature_names_in_", None)
        names = [str(name) for name in given] if given is not None else list(model.columns_.names)
        check_present(table, names, self._source, self._aside)
        return names

    def _in_order(self) -> bool:
        """Whether the model was saved from Python and knows no names."""
        model = self._trained.model
        return getattr(model, "feature_names_in_", None) is None and getattr(model, "columns_", None) is None

    def _by_name(self, table: pa.Table, notes: list[Mended]) -> Any:
        """Return the rows for a model that was saved from Python: by the names of its features, or else in order."""
        import numpy as np
        import pyarrow as pa

        from plr.columns.kinds import Column, plain, to_category, to_numbers

        columns = getattr(self._trained.model, "columns_", None)
        categorical = () if columns is None else columns.categorical
        made: dict[str, Any] = {}
        for place, name in enumerate(self._names(table)):
            read = to_category if place in categorical else to_numbers
            column = self._settled.get(name, Column(name, "number", (name,)))
            made[name] = read(plain(table[name]), column, notes, some=self._some)
        return np.column_stack(list(made.values())) if self._in_order() else pa.table(made)

    def _new_categories(self, rows: pa.Table) -> list[Mended]:
        """Say which columns have categories that the model has never seen."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from plr.columns.kinds import Mended

        columns = getattr(self._trained.model, "columns_", None)
        if columns is None:
            return []
        notes = []
        for place, known in columns.categories.items():
            name = columns.names[place]
            if name not in rows.column_names or not pa.types.is_string(rows[name].type):
                continue
            cells = rows[name].drop_null()
            new = cells.filter(pc.invert(pc.is_in(cells, pa.array(map(str, known), pa.string()))))
            if len(new):
                notes.append(Mended(name, "category", len(new), new[0].as_py()))
        return notes


def features_of(
    trained: Trained,
    table: pa.Table,
    source: Path,
    aside: Sequence[str] = (),
    place: Callable[[int], str] | None = None,
) -> Any:
    """Return the rows of a table as the model takes them, and say what was ignored or mended."""
    from plr.cli.common import note

    reader = RowReader(trained, source, aside)
    rows = reader.read(table, place)
    for text in reader.notes():
        note(text)
    return rows
