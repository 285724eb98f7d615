"""Which candidate of each row is true, as columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plr.candidates import CandidateSets
from plr.identification import DOUBTFUL, SETTLED, Identification
from plr.tables.long_table import LongTable

__all__ = [
    "MostDoubtful",
    "as_written",
    "candidate_columns",
    "candidate_fields",
    "count_doubt",
    "doubt_of",
    "exploded_columns",
    "exploded_fields",
    "identification_columns",
    "identification_fields",
]

_DIGITS = 6


def identification_fields(target: Sequence[str]) -> list[pa.Field]:
    """Return the columns that say which candidate is true."""
    fields = [pa.field("value", pa.float64()), pa.field("probability", pa.float64()), pa.field("index", pa.int64())]
    return [*fields, *([pa.field("source", pa.string())] if len(target) > 1 else [])]


def identification_columns(
    found: Identification | None, sets: CandidateSets, target: Sequence[str], rows: int
) -> dict[str, pa.Array]:
    """Return the columns that say which candidate is true, empty for rows that had none; None where all had none."""
    if found is None:
        return {field.name: pa.nulls(rows, field.type) for field in identification_fields(target)}
    kept = np.arange(rows) if sets.kept is None else sets.kept
    # Where candidates come from several columns and cells are empty, the place in the row is not the column.
    flat = sets.offsets[:-1] + found.index
    index = found.index if sets.slots is None or len(target) == 1 else sets.slots[flat]
    columns: dict[str, Any] = {"value": found.value, "probability": found.probability, "index": index}
    if len(target) > 1:
        columns["source"] = np.array(target, dtype=object)[index]
    places = np.full(rows, -1)
    places[kept] = np.arange(len(kept))
    take = pa.array(places, mask=places < 0)
    return {field.name: pa.array(columns[field.name], field.type).take(take) for field in identification_fields(target)}


def candidate_fields() -> list[pa.Field]:
    """Return the columns that say of each candidate of a long table how probable it is to be true."""
    return [pa.field("probability", pa.float64()), pa.field("chosen", pa.bool_())]


def candidate_columns(found: Identification, sets: CandidateSets, source: LongTable) -> dict[str, pa.Array]:
    """Return these columns for all lines of a long table, empty for lines without a candidate."""
    probability, chosen = np.full(source.lines.rows, np.nan), np.zeros(source.lines.rows, dtype=bool)
    probability[source.line] = found.probabilities
    chosen[source.line[sets.offsets[:-1] + found.index]] = True
    bare = np.ones(source.lines.rows, dtype=bool)
    bare[source.line] = False
    return {"probability": pa.array(probability, mask=bare), "chosen": pa.array(chosen, mask=bare)}


def exploded_fields(target: Sequence[str]) -> list[pa.Field]:
    """Return the columns of a table with one line for each candidate of a table with one line for each row."""
    return [pa.field("row", pa.int64()), *identification_fields(target), pa.field("chosen", pa.bool_())]


def exploded_columns(
    found: Identification, sets: CandidateSets, target: Sequence[str], rows: int
) -> dict[str, pa.Array]:
    """Return these columns; rows without a candidate have one line, with empty cells."""
    kept, sizes = np.arange(rows) if sets.kept is None else sets.kept, np.zeros(rows, dtype=np.int64)
    sizes[kept] = sets.sizes
    numbers = np.repeat(np.arange(rows), np.maximum(sizes, 1))
    places = np.full(len(numbers), -1)
    places[sizes[numbers] > 0] = np.arange(len(sets.values))
    take = pa.array(places, mask=places < 0)
    chosen = np.zeros(len(sets.values), dtype=bool)
    chosen[sets.offsets[:-1] + found.index] = True
    index = sets.row_positions if len(target) > 1 else np.arange(len(chosen)) - sets.offsets[sets.row_index]
    columns: dict[str, Any] = {
        "value": sets.values,
        "probability": found.probabilities,
        "index": index,
        "chosen": chosen,
    }
    if len(target) > 1:
        columns["source"] = np.array(target, dtype=object)[index]
    fields = exploded_fields(target)[1:]
    return {"row": pa.array(numbers)} | {
        field.name: pa.array(columns[field.name], field.type).take(take) for field in fields
    }


def as_written(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns with probabilities of six significant digits, more than which nobody knows of them.

    >>> exact = pa.array([1 - 4e-15, 0.123456789, 1.23456789e-9, 0.0, None])
    >>> as_written({"probability": exact})["probability"].to_pylist()
    [1.0, 0.123457, 1.23457e-09, 0.0, None]
    """
    given = columns["probability"]
    exact = given.to_numpy(zero_copy_only=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** np.clip(_DIGITS - 1 - np.floor(np.log10(exact)), 0, 300)
    return {**columns, "probability": pa.array(np.rint(exact * unit) / unit, mask=~given.is_valid().to_numpy(False))}


class MostDoubtful:
    """Keeps the rows whose answers are least probable, of all that it is given; of equals, the first.

    Parameters
    ----------
    most : int
        How many to keep.
    name : str
        The column of probabilities; rows where it is empty are never kept.

    Attributes
    ----------
    rows : pyarrow.Table or None
        The most doubtful first; None before the first `add`.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._worst = np.inf
        self.rows: pa.Table | None = None

    def add(self, table: pa.Table) -> None:
        """Look at some rows."""
        found = table.filter(pc.less(table[self._name], self._worst))
        found = found if self.rows is None else pa.concat_tables([self.rows, found])
        order = np.argsort(found[self._name].to_numpy(), kind="stable")[: self._most]
        self.rows = found.take(pa.array(order))
        if len(order) == self._most:
            self._worst = self.rows[self._name][-1].as_py()


def count_doubt(found: Identification, sets: CandidateSets) -> dict[str, int]:
    """Count the rows with several candidates by how sure it is which one is true."""
    several = sets.unique().sizes > 1
    sure = found.probability[several]
    return {
        "rows_with_several": int(several.sum()),
        "settled": int((sure >= SETTLED).sum()),
        "likely": int(((sure >= DOUBTFUL) & (sure < SETTLED)).sum()),
        "doubtful": int((sure < DOUBTFUL).sum()),
    }


def doubt_of(counts: Mapping[str, float]) -> dict[str, Any]:
    """Return the counts of `count_doubt`, perhaps added up, as values for JSON."""
    doubt = {name: int(counts.get(name, 0)) for name in ("rows_with_several", "settled", "likely", "doubtful")}
    return {**doubt, "settled_from": SETTLED, "doubtful_below": DOUBTFUL}
