"""Which candidate of each row is true, as columns of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from plr.identified import DOUBTFUL, SETTLED

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.candidates import CandidateSets
    from plr.identified import Identification

__all__ = ["DOUBTFUL", "SETTLED", "answer_names", "answers", "check_fits_format", "count_doubt", "write_answers"]


def check_fits_format(table: pa.Table, out: Path | None) -> None:
    """Refuse to write nested columns as CSV before any work is done."""
    import pyarrow as pa

    from plr.datasets.files import format_of
    from plr.errors import ParameterError

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


def answer_names(target: list[str]) -> list[str]:
    """Return the names of the columns that say which candidate is true."""
    return ["value", "probability", "index", *(["source"] if len(target) > 1 else [])]


def answers(found: Identification, sets: CandidateSets, target: list[str], rows: int) -> dict[str, Any]:
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
    return {name: pa.array(values).take(take) for name, values in columns.items()}


def write_answers(
    table: pa.Table,
    found: Identification,
    sets: CandidateSets,
    target: list[str],
    data: Path,
    out: Path | None,
    prefix: str = "",
) -> None:
    """Write a table with the columns that say which candidate is true."""
    from plr.cli.common import add_columns, as_written, emit

    new = answers(found, sets, target, table.num_rows)
    emit(add_columns(as_written(table, data, out), new, data, prefix), out)


def count_doubt(found: Identification, sets: CandidateSets) -> dict[str, Any]:
    """Count the rows with several candidates by how sure it is which one is true."""
    several = sets.unique().sizes > 1
    sure = found.probability[several]
    return {
        "rows_with_several": int(several.sum()),
        "settled": int((sure >= SETTLED).sum()),
        "likely": int(((sure >= DOUBTFUL) & (sure < SETTLED)).sum()),
        "doubtful": int((sure < DOUBTFUL).sum()),
        "settled_from": SETTLED,
        "doubtful_below": DOUBTFUL,
    }
