"""Tables as JSON Lines: one object per row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["json_lines"]

_ROWS_AT_A_TIME = 50_000


def json_lines(table: pa.Table) -> Iterator[bytes]:
    """Yield a table as JSON Lines, some thousand rows at a time.

    Numbers that are not finite become null: JSON has no others. Numbers, and lists of numbers, are printed by Arrow,
    which is several times as fast as making Python objects of them.

    >>> import pyarrow as pa
    >>> print(b"".join(json_lines(pa.table({"x": [0.5, None], "y": [[1.5, 2.0], [3.0]]}))).decode(), end="")
    {"x": 0.5, "y": [1.5, 2]}
    {"x": null, "y": [3]}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Decided for whole columns: where all numbers are whole, Arrow would print what reads back as integers.
    by_arrow = [_prints_alike(column) for column in table.columns]
    for batch in table.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        if not batch.num_rows:
            continue
        pieces: list[Any] = []
        for place, name in enumerate(batch.schema.names):
            pieces.append(pa.scalar(("{" if place == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": "))
            column = batch.column(place)
            pieces.append(_printed(column) if by_arrow[place] else pa.array(map(_dumped, column.to_pylist())))
        lines = pc.binary_join_element_wise(*pieces, pa.scalar("}"), "")
        yield ("\n".join(lines.to_pylist()) + "\n").encode()


def _prints_alike(column: pa.ChunkedArray) -> bool:
    """Return whether what Arrow prints reads back as numbers of the same type, for numbers and lists of numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_list(column.type) or kinds.is_large_list(column.type):
        column = pc.list_flatten(column)
    if kinds.is_floating(column.type) and not kinds.is_float16(column.type):
        whole = pc.or_kleene(pc.equal(column, pc.floor(column)), pc.invert(pc.is_finite(column)))
        return not pc.all(whole).as_py()
    return bool(kinds.is_integer(column.type))


def _printed(array: pa.Array) -> pa.Array:
    """Return numbers, or lists of numbers, as the texts that stand for them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_list(array.type) or kinds.is_large_list(array.type):
        sizes = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
        inside = pc.binary_join(pa.ListArray.from_arrays(offsets, _printed(array.flatten())), ", ")
        texts = pc.binary_join_element_wise("[", inside, "]", "")
        there = array.is_valid()
    else:
        texts = array.cast(pa.string())
        there = pc.is_finite(array) if kinds.is_floating(array.type) else array.is_valid()
    return pc.fill_null(pc.if_else(there, texts, pa.scalar(None, pa.string())), "null")


def _dumped(value: Any) -> str:
    return json.dumps(_finite(value), default=str, ensure_ascii=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
