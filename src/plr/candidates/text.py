"""Candidate sets written in one cell, as in a CSV file: ``12.5|13.1`` or ``[12.5, 13.1]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plr.candidates.arrow import as_arrow
from plr.errors import CandidateError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["is_text_column", "parse_cells"]


def is_text_column(column: Any) -> bool:
    """Whether this is a column of texts, some of which hold several values.

    >>> is_text_column(["1|2", "3"]), is_text_column(["1", "2"]), is_text_column([1.0, 2.0])
    (True, False, False)
    """
    values = np.asarray(column, dtype=object) if not isinstance(column, list | tuple) else column
    if getattr(values, "ndim", 1) != 1 or not all(isinstance(cell, str) for cell in values):
        return False
    return any("|" in cell or cell.lstrip().startswith("[") for cell in values)


def parse_cells(cells: Any, name: str = "") -> pa.Array:
    """Split a column of texts into an Arrow column of lists of numbers.

    >>> parse_cells(["12.5|13.1", "[7, 8, 9]", "4"]).to_pylist()
    [[12.5, 13.1], [7.0, 8.0, 9.0], [4.0]]
    """
    import pyarrow as pa

    if isinstance(cells, pa.Array | pa.ChunkedArray):
        given = as_arrow(cells)
    else:
        given = pa.array(list(cells), type=pa.string())
    numbers = pa.list_(pa.float64())
    try:
        return _split(given).cast(numbers)
    except pa.ArrowInvalid:
        # Most often for blanks around a number, which few files have and which take longest to look for.
        parts = _split(given, blanks=True)
    try:
        return parts.cast(numbers)
    except pa.ArrowInvalid:
        row = next(row for row, part in enumerate(parts) if not _are_numbers(part.values))
        where = f"Column {name!r}, row {row}" if name else f"Row {row}"
        raise CandidateError(
            f"{where}: {given[row].as_py()!r} is not a set of candidates; write 12.5|13.1 or [12.5, 13.1]."
        ) from None


def _split(cells: pa.Array, *, blanks: bool = False) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = pc.utf8_trim_whitespace(cells)
    # A comma separates only within brackets: elsewhere it may be somebody's decimal point.
    listed = pc.and_(pc.starts_with(cells, "["), pc.ends_with(cells, "]"))
    if pc.any(listed).as_py():
        inside = pc.replace_substring(pc.utf8_trim(cells, "[] "), ", ", "|")
        cells = pc.if_else(listed, pc.replace_substring(inside, ",", "|"), cells)
    if blanks:
        cells = pc.replace_substring_regex(cells, r"\s*\|\s*", "|")
    cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, cells.type), cells)
    return pc.split_pattern(cells, "|")


def _are_numbers(parts: pa.Array | None) -> bool:
    import pyarrow as pa

    try:
        return parts is None or parts.cast(pa.float64()) is not None
    except pa.ArrowInvalid:
        return False
