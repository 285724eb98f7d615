"""Which candidate of each row is true, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from plr.identification import DOUBTFUL, SETTLED

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.candidates import CandidateSets
    from plr.cli.common import Trained
    from plr.cli.reading import RowReader
    from plr.identification import Identification

__all__ = [
    "DOUBTFUL",
    "SETTLED",
    "Judge",
    "Judged",
    "MostDoubtful",
    "answer_fields",
    "answer_names",
    "answers",
    "check_fits_format",
    "count_doubt",
    "doubt_of",
    "write_answers",
]

# Rows beyond those asked for that may wait until they are sorted out.
_SPARE = 20_000


def check_fits_format(table: pa.Table, out: Path | None) -> None:
    """Refuse to write nested columns as CSV before any work is done."""
    import pyarrow as pa

    from plr.errors import ParameterError
    from plr.sources.files import format_of

    if out is not None and format_of(out) != "csv":
        return
    for field in table.schema:
        inner = field.type
        while pa.types.is_list(inner) or pa.types.is_large_list(inner):
            inner = inner.value_type
        if pa.types.is_struct(inner) or pa.types.is_map(inner):
            raise ParameterError(
                f"The column {field.name!r} holds nested objects, which a CSV file cannot; write with -o to a .parquet "
                "or .jsonl file."
            )


def answer_names(target: Sequence[str]) -> list[str]:
    """Return the names of the columns that say which candidate is true."""
    return [field.name for field in answer_fields(target)]


def answer_fields(target: Sequence[str]) -> list[pa.Field]:
    """Return the columns that say which candidate is true."""
    import pyarrow as pa

    fields = [pa.field("value", pa.float64()), pa.field("probability", pa.float64()), pa.field("index", pa.int64())]
    return [*fields, *([pa.field("source", pa.string())] if len(target) > 1 else [])]


def answers(found: Identification, sets: CandidateSets, target: Sequence[str], rows: int) -> dict[str, pa.Array]:
    """Return the columns that say which candidate is true, empty for rows that had none."""
    import numpy as np
    import pyarrow as pa

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
    return {field.name: pa.array(columns[field.name], field.type).take(take) for field in answer_fields(target)}


class Judged(NamedTuple):
    """What was found about some rows."""

    new: dict[str, pa.Array]
    """The columns that are added to them."""
    X: Any
    """Features of the rows that have candidates."""
    sets: CandidateSets
    counts: dict[str, int]
    """How many rows are in doubt, and how many have no candidate."""


@dataclass(frozen=True)
class Judge:
    """Says which candidates are true, of one table or of one batch after another.

    Attributes
    ----------
    trained : Trained
    reader : RowReader
        Makes features of the rows.
    target, prior : list of str
        The columns of candidates, and of how likely each is.
    source : Path
        What the rows are read from, for messages.
    """

    trained: Trained
    reader: RowReader
    target: list[str]
    prior: list[str]
    source: Path

    def judge(self, table: pa.Table, place: Callable[[int], str] | None = None) -> Judged:
        """Judge the rows of a table; with ``place``, which says where a row is, of a part of one."""
        import pyarrow as pa

        from plr.cli.common import places_of, read_sets
        from plr.streaming.sets import read_sets_at

        if place is None:
            sets = read_sets(table, self.target, self.source, prior=self.prior, drop_empty=True)
            where = places_of(sets, table, self.source)
        else:
            sets = read_sets_at(table, self.target, self.source, place, self.prior)
            kept, at = sets.kept, place
            where = place if kept is None else (lambda row: at(int(kept[row])))
        without = table.num_rows - len(sets)
        if len(sets) == 0:
            nothing = {field.name: pa.nulls(table.num_rows, field.type) for field in answer_fields(self.target)}
            return Judged(nothing, None, sets, {"without": without})
        X = self.reader.read(table if sets.kept is None else table.take(pa.array(sets.kept)), where)
        found = self.trained.model.identify(X, sets)
        new = answers(found, sets, self.target, table.num_rows)
        return Judged(new, X, sets, {**_counted(found, sets), "without": without})


class MostDoubtful:
    """Keeps the rows whose answers are least probable, of all that it is given; of equals, the first.

    Parameters
    ----------
    most : int
        How many to keep.
    name : str
        The column of probabilities; rows where it is empty are never kept.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._parts: list[pa.Table] = []
        self._worst: float | None = None

    def add(self, table: pa.Table) -> None:
        """Look at some rows."""
        import pyarrow.compute as pc

        there = pc.is_valid(table[self._name])
        if self._worst is not None:
            there = pc.and_kleene(there, pc.less(table[self._name], self._worst))
        chosen = table.filter(there)
        if chosen.num_rows:
            self._parts.append(chosen)
        if sum(part.num_rows for part in self._parts) > 2 * self._most + _SPARE:
            self._parts = [self.table(chosen)]

    def table(self, like: pa.Table) -> pa.Table:
        """Return what is kept, the most doubtful first; ``like`` says the columns where there is nothing."""
        import numpy as np
        import pyarrow as pa

        if not self._parts:
            return like.slice(0, 0)
        every = pa.concat_tables(self._parts)
        order = np.argsort(every[self._name].to_numpy(), kind="stable")[: self._most]
        kept = every.take(pa.array(order))
        if kept.num_rows == self._most:
            self._worst = kept[self._name][-1].as_py()
        return kept


def write_answers(
    table: pa.Table,
    found: Identification,
    sets: CandidateSets,
    target: list[str],
    data: Path,
    out: Path | None,
    prefix: str = "",
    texts: Callable[[], pa.Table] | None = None,
) -> None:
    """Write a table with the columns that say which candidate is true; ``texts`` gives the cells as written."""
    from plr.cli.common import add_columns, as_written, emit

    new = answers(found, sets, target, table.num_rows)
    emit(add_columns(as_written(table, texts, out), new, data, prefix), out)


def count_doubt(found: Identification, sets: CandidateSets) -> dict[str, Any]:
    """Count the rows with several candidates by how sure it is which one is true."""
    return doubt_of(_counted(found, sets))


def doubt_of(counts: Mapping[str, float]) -> dict[str, Any]:
    """Return the counts of `Judge`, perhaps added up, as they are told to programs."""
    told = {name: int(counts.get(name, 0)) for name in ("rows_with_several", "settled", "likely", "doubtful")}
    return {**told, "settled_from": SETTLED, "doubtful_below": DOUBTFUL}


def _counted(found: Identification, sets: CandidateSets) -> dict[str, int]:
    several = sets.unique().sizes > 1
    sure = found.probability[several]
    return {
        "rows_with_several": int(several.sum()),
        "settled": int((sure >= SETTLED).sum()),
        "likely": int(((sure >= DOUBTFUL) & (sure < SETTLED)).sum()),
        "doubtful": int((sure < DOUBTFUL).sum()),
    }
