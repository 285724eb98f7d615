"""Rows of a source as a model takes them: candidate sets, and features of new tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.columns.candidates import read_sets
from plr.columns.features import check_present
from plr.columns.kinds import Column, Mended, plain, settled, to_category, to_numbers
from plr.columns.targets import read_target
from plr.errors import DataError, EmptySetError, FeatureError
from plr.learners import Module
from plr.sources.source import Batch, Source
from plr.tables.front_end import PYTHON, FrontEnd, listed

if TYPE_CHECKING:
    from plr.candidates import CandidateSets
    from plr.tables.model import TableModel

__all__ = ["RowReader", "place_in", "read_some_truths", "take_with_candidates"]

# How texts are written, where training did not tell, is told from so many rows of a source in batches.
_LOOKED_AT = 10_000

Place = Callable[[int], str]


def place_in(source: Source, numbers: NDArray[np.int64] | int) -> Place:
    """Return what says where a row is, given the number of the first one, or those of all."""
    if isinstance(numbers, int):
        return lambda row: source.place(numbers + row)
    return lambda row: source.place(int(numbers[row]))


def take_with_candidates(
    table: pa.Table,
    columns: Sequence[str],
    source: Source,
    numbers: NDArray[np.int64] | int,
    prior: Sequence[str] = (),
    *,
    drop_empty: bool,
    front: FrontEnd = PYTHON,
) -> tuple[pa.Table, CandidateSets, Place]:
    """Return the rows that have candidates, their sets, and what says where each is; others are an error, or told."""
    sets, place = read_sets(table, columns, source, numbers, prior), place_in(source, numbers)
    if sets.kept is None:
        return table, sets, place
    names = ", ".join(map(repr, columns))
    if len(sets) == 0:
        raise EmptySetError(f"{source}: no row has a candidate in {names}.")
    kept = sets.kept
    if not drop_empty:
        without = np.setdiff1d(np.arange(table.num_rows), kept)
        raise EmptySetError(
            f"{source}: {len(without)} of {table.num_rows} rows have no candidate in {names}, the first in "
            f"{place(int(without[0]))}; fill them in, or leave them out with {front.option('drop_empty', True)}."
        )
    front.note(f"Left out: {table.num_rows - len(sets)} of {table.num_rows} rows, which have no candidate.")
    return table.take(pa.array(kept)), sets, lambda row: place(int(kept[row]))


def read_some_truths(table: pa.Table, name: str, source: Source, first: int = 0) -> NDArray[np.float64]:
    """Return the true labels of some rows, NaN where there is none."""
    there = np.asarray(table[name].is_valid())
    found = np.full(table.num_rows, np.nan)
    if there.any():
        rows = table.filter(pa.array(there))
        found[there] = read_target(rows, name, source, place_in(source, first + np.flatnonzero(there)))
    return found


class RowReader:
    """Turns tables into the rows that a model takes, and remembers what was ignored or mended.

    Parameters
    ----------
    model : TableModel
    source : Source
        What the tables are read from.
    aside : sequence of str
        Columns that are no features.
    """

    def __init__(self, model: TableModel, source: Source, aside: Sequence[str] = ()) -> None:
        self._model, self._regressor, self._source = model, model.regressor, source
        self._aside = tuple(aside)
        self._features = model.features
        self._roles = {*model.target, *model.aside, *aside, *([] if model.truth is None else [model.truth])}
        self._settled: dict[str, Column] = {}
        self._mended: dict[tuple[str, str], Mended] = {}
        self._some = False
        if source.in_batches:
            self._prepare()

    def _prepare(self) -> None:
        """Look at some rows of all: what is wrong with the columns is told before anything is written."""
        names = self._names(self._source.schema.empty_table())
        table, numbers = self._source.sample(_LOOKED_AT, 0, names)
        if self._features is not None:
            self._features = self._features.settled(table)
        else:
            self._settled = {name: settled(Column(name, "number", (name,)), table[name]) for name in names}
        self.read(table, place_in(self._source, numbers))
        self._some = True
        self._mended.clear()

    def read_batch(self, batch: Batch) -> Any:
        """Return the rows of a batch."""
        return self.read(batch.table, place_in(self._source, batch.first))

    def read(self, table: pa.Table, place: Place) -> Any:
        """Return the rows of a table; ``place`` says where a row is, for messages."""
        notes: list[Mended] = []
        if self._features is None:
            rows = self._by_name(table, notes)
        else:
            rows, notes = self._features.apply(table, self._source, place=place, roles=self._roles, some=self._some)
            if isinstance(self._regressor.learner_, Module):
                _check_filled(rows, self._source, place)
            notes += self._new_categories(rows)
        for note in notes:
            known = self._mended.get((note.column, note.kind))
            self._mended[note.column, note.kind] = note if known is None else known.joined(note)
        return rows

    def notes(self) -> list[str]:
        """Return in words what was ignored or mended in all tables so far."""
        told: list[str] = []
        columns = self._source.schema.names
        if self._features is not None:
            known = {*(column.name for column in self._features.columns), *self._roles}
            extra = [name for name in columns if name not in known]
            if extra:
                told.append(f"Not used, since the model was trained without: {listed(extra)}.")
        elif self._in_order():
            names = [name for name in columns if name not in self._aside]
            told.append(
                f"The model does not know the names of its features; the columns are taken in order: {listed(names)}."
            )
        return [*told, *self._mended.values()]

    def _names(self, table: pa.Table) -> list[str]:
        """Return the columns of a table that are needed, or complain that some are missing."""
        model = self._regressor
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
        if given is None and model.columns_ is not None:
            given = model.columns_.names
        names = [] if given is None else [str(name) for name in given]
        check_present(table, names, self._source, self._aside)
        return names

    def _in_order(self) -> bool:
        """Whether the regressor was fitted to arrays, and knows no names."""
        model = self._regressor
        return getattr(model, "feature_names_in_", None) is None and getattr(model, "columns_", None) is None

    def _by_name(self, table: pa.Table, notes: list[Mended]) -> Any:
        """Return the rows for a regressor that was fitted without a table: by names of features, or else in order."""
        columns = getattr(self._regressor, "columns_", None)
        categorical = () if columns is None else columns.categorical
        made: dict[str, Any] = {}
        for place, name in enumerate(self._names(table)):
            read = to_category if place in categorical else to_numbers
            column = self._settled.get(name, Column(name, "number", (name,)))
            made[name] = read(plain(table[name]), column, notes, some=self._some)
        return np.column_stack(list(made.values())) if self._in_order() else pa.table(made)

    def _new_categories(self, rows: pa.Table) -> list[Mended]:
        """Say which columns have categories that the model has never seen."""
        columns = getattr(self._regressor, "columns_", None)
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


def _check_filled(X: pa.Table, source: Source, place: Place) -> None:
    """Refuse a cell that is missing where the model is a torch module; say where it is."""
    for name in X.column_names:
        missing = np.flatnonzero(np.isnan(np.asarray(X[name], dtype=np.float64)))
        if missing.size:
            more = f" and {missing.size - 1} more" if missing.size > 1 else ""
            raise FeatureError(
                f"{source}: column {name!r} has no number in {place(int(missing[0]))}{more}; the model is a torch "
                f"module and needs all. Fill them in, or leave such rows out."
            )
