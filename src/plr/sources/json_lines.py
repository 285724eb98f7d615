"""Tables as JSON Lines: one object per row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["json_lines"]

_ROWS_AT_A_TIME = 50_000


def json_lines(table: pa.Table) -> Iterator[bytes]:
    """Yield a table as JSON Lines, some thousand rows at a time.

    Numbers that are not finite become null: JSON has no others. What JSON has no type for, such as dates, becomes text.

    >>> import pyarrow as pa
    >>> print(b"".join(json_lines(pa.table({"x": [0.5, None], "y": [[1.5, 2.0], [3.0]]}))).decode(), end="")
    {"x":0.5,"y":[1.5,2.0]}
    {"x":null,"y":[3.0]}
    """
    import orjson
    import pyarrow as pa

    names = table.column_names
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_DATETIME
    for batch in table.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        columns = [
            # By way of their shortest text: the nearest double has more digits.
            (column.cast(pa.string()).cast(pa.float64()) if pa.types.is_float32(column.type) else column).to_pylist()
            for column in batch.columns
        ]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        yield b"".join(orjson.dumps(row, default=str, option=options) for row in rows)
