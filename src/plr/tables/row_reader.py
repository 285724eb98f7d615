"""Rows of a source as a model takes them: candidate sets, and features of new tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.columns.candidates import SetColumns
from plr.columns.features import Features, check_present
from plr.columns.kinds import Column, Mended
from plr.columns.targets import read_some_targets
from plr.errors import DataError, EmptySetError, FeatureError
from plr.front_end import PYTHON, FrontEnd, listed, warn
from plr.learners import Module
from plr.sources.source import Batch, Source
from plr.streaming.ahead import ahead

if TYPE_CHECKING:
    from plr.candidates import CandidateSets
    from plr.tables.model import TableModel

__all__ = [
    "RowReader",
    "batches_of",
    "no_candidates",
    "place_in",
    "read_some_truths",
    "take_with_candidates",
]

# The format of text cells, where training did not record it, is inferred from so many rows of a source in batches.
_LOOKED_AT = 10_000

Place = Callable[[int], str]


def place_in(source: Source, numbers: NDArray[np.int64] | int) -> Place:
    """Return what says where a row is, given the number of the first one, or those of all."""
    if isinstance(numbers, int):
        return lambda row: source.place(numbers + row)
    return lambda row: source.place(int(numbers[row]))


def batches_of(source: Source, what: str, front: FrontEnd, columns: Sequence[str] | None = None) -> Iterator[Batch]:
    """Give all batches of a source, of which the next is read meanwhile, and tell how far it is."""
    with front.working(what) as tell:
        for batch in ahead(source.batches(columns)):
            yield batch
            tell(batch.first + batch.table.num_rows, source.rows, 0.0)


def no_candidates(source: Source, columns: Sequence[str]) -> EmptySetError:
    """Make the error for a table without a single candidate."""
    return EmptySetError(f"{source}: no row has a candidate in {', '.join(map(repr, columns))}.")


def take_with_candidates(
    table: pa.Table,
    columns: SetColumns,
    source: Source,
    numbers: NDArray[np.int64] | int,
    *,
    drop_empty: bool,
    front: FrontEnd = PYTHON,
) -> tuple[pa.Table, CandidateSets, Place]:
    """Return the rows that have candidates, their sets, and what says where each is; others raise or are reported."""
    sets, place = columns.read(table, source, numbers), place_in(source, numbers)
    kept = sets.kept
    if kept is None:
        return table, sets, place
    if len(sets) == 0:
        raise no_candidates(source, columns.target)
    if not drop_empty:
        without = np.setdiff1d(np.arange(table.num_rows), kept)
        raise EmptySetError(
            f"{source}: {len(without):,} of {table.num_rows:,} rows have no candidate in "
            f"{', '.join(map(repr, columns.target))}, the first in {place(int(without[0]))}; fill them in, or leave "
            f"them out with {front.option('drop_empty', True)}."
        )
    front.note(f"Left out: {table.num_rows - len(sets):,} of {table.num_rows:,} rows, which have no candidate.")
    return table.take(pa.array(kept)), sets, lambda row: place(int(kept[row]))


def read_some_truths(
    table: pa.Table, name: str, source: Source, numbers: NDArray[np.int64] | int = 0, parameter: str = "truth"
) -> NDArray[np.float64]:
    """Return the true labels of rows with these numbers in the source, or from such a one on; NaN where none is."""
    return read_some_targets(table, name, source, place_in(source, numbers), parameter)


class RowReader:
    """Turns tables into the rows that a model takes, and remembers which cells count as missing.

    Parameters
    ----------
    model : TableModel
    source : Source
        What the tables are read from.
    aside : sequence of str
        Columns that are no features.
    """

    def __init__(self, model: TableModel, source: Source, aside: Sequence[str] = ()) -> None:
        self._regressor, self._source = model.regressor, source
        self._roles = {*model.target, *model.aside, *aside, *([] if model.truth is None else [model.truth])}
        self._mended: dict[tuple[str, str], Mended] = {}
        self._columns = getattr(model.regressor, "columns_", None)
        self._names = getattr(model.regressor, "feature_names_in_", None)
        self._features = model.features or self._features_by_name()
        self._some = False
        if source.in_batches:
            # Errors in the columns are reported before anything is written.
            names = [column.name for column in self._features.used]
            check_present(source.schema.names, names, source, self._roles)
            table, numbers = source.sample(_LOOKED_AT, 0, names)
            self._features = self._features.settled(table)
            self.read(table, place_in(source, numbers))
            self._some = True
            self._mended.clear()

    def read_batch(self, batch: Batch) -> Any:
        """Return the rows of a batch."""
        return self.read(batch.table, place_in(self._source, batch.first))

    def read(self, table: pa.Table, place: Place) -> Any:
        """Return the rows of a table; ``place`` says where a row is, for messages."""
        rows, notes = self._features.apply(table, self._source, place=place, roles=self._roles, some=self._some)
        if isinstance(self._regressor.learner_, Module):
            _check_filled(rows, self._source, place)
        for note in [*notes, *self._new_categories(rows)]:
            known = self._mended.get((note.column, note.kind))
            self._mended[note.column, note.kind] = note if known is None else known.joined(note)
        return np.column_stack(rows.columns) if self._names is None and self._columns is None else rows

    def tell(self, front: FrontEnd) -> None:
        """Say which columns were not used, and warn of cells that count as missing in all tables so far."""
        if self._names is None and self._columns is None:
            names = [column.name for column in self._features.columns]
            warn(f"The model does not know the names of its features; the columns are taken in order: {listed(names)}.")
        known = {*(column.name for column in self._features.columns), *self._roles}
        extra = [name for name in self._source.schema.names if name not in known]
        if extra:
            front.note(f"Not used, since the model was trained without: {listed(extra)}.")
        for mended in self._mended.values():
            warn(mended)

    def _features_by_name(self) -> Features:
        """Return the features of a regressor that was fitted without a table: by their names, or else in order."""
        names, wanted = self._names, self._regressor.n_features_in_
        if names is None and self._columns is not None:
            names = self._columns.names
        if names is None:
            names = [name for name in self._source.schema.names if name not in self._roles]
            if len(names) != wanted:
                raise DataError(
                    f"{self._source} has {len(names)} columns and the model takes {wanted} features, whose names it "
                    "does not know; give a table with exactly these, in the order of training."
                )
        categorical = () if self._columns is None else self._columns.categorical
        kinds = ["category" if place in categorical else "number" for place in range(wanted)]
        return Features(tuple(Column(str(name), kind, (str(name),)) for name, kind in zip(names, kinds, strict=True)))

    def _new_categories(self, rows: pa.Table) -> list[Mended]:
        """Say which columns have categories that the model has never seen."""
        notes, columns = [], self._columns
        known = {} if columns is None else {columns.names[place]: found for place, found in columns.categories.items()}
        for name in rows.column_names:
            if name in known and pa.types.is_string(rows[name].type):
                cells = rows[name].drop_null()
                new = cells.filter(pc.invert(pc.is_in(cells, pa.array(map(str, known[name]), pa.string()))))
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
