"""From the bytes of a file to the one table a data set is, and the digest that proves it.

Whatever the source, a parsed table has the registry's columns in the registry's order: features as ``float64``, except
categorical ones as ``string``, and the target as ``float64``. Its digest depends on nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from plr.errors import DataError, DependencyError
from plr.paper.datasets.registry import DatasetInfo, RawFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parse_exported", "parse_raw", "table_digest"]


def parse_raw(content: bytes, info: DatasetInfo) -> pa.Table:
    """Parse a file as it was published."""
    raw = info.raw
    if raw.sheet:
        table = _read_sheet(content, raw)
    else:
        import pyarrow.csv

        if raw.path.endswith(".gz"):
            content = gzip.decompress(content)
        table = pyarrow.csv.read_csv(
            io.BytesIO(content),
            read_options=pyarrow.csv.ReadOptions(column_names=list(raw.columns), skip_rows=raw.skip_rows),
            parse_options=pyarrow.csv.ParseOptions(delimiter=raw.delimiter),
        )
    return _normalise(table, info)


def parse_exported(content: bytes, suffix: str, info: DatasetInfo) -> pa.Table:
    """Parse a table with a header, ``suffix`` being ``.csv`` or ``.parquet``."""
    if suffix == ".parquet":
        import pyarrow.parquet

        return _normalise(pyarrow.parquet.read_table(io.BytesIO(content)), info)
    import pyarrow.csv

    return _normalise(pyarrow.csv.read_csv(io.BytesIO(content)), info)


def table_digest(table: pa.Table) -> str:
    """Return the SHA-256 of a parsed table: column names, types and values, row by row within a column.

    Numbers enter as little-endian ``float64`` with one zero, strings as UTF-8 with their length, so neither the file
    format nor the number of chunks shows.

    >>> import pyarrow as pa
    >>> table_digest(pa.table({"a": [0.0, 1.5]})) == table_digest(pa.table({"a": [-0.0, 1.5]}))
    True
    >>> table_digest(pa.table({"a": [0.0, 1.5]})) == table_digest(pa.table({"b": [0.0, 1.5]}))
    False
    """
    import pyarrow as pa

    digest = hashlib.sha256(f"{table.num_rows}\n".encode())
    for name in table.column_names:
        column = table[name]
        digest.update(f"{name}\t{column.type}\n".encode())
        if pa.types.is_float64(column.type):
            digest.update((column.to_numpy() + 0.0).astype("<f8").tobytes())
        else:
            texts = [text.encode() for text in column.to_pylist()]
            digest.update(np.array([len(text) for text in texts], "<i8").tobytes())
            digest.update(b"".join(texts))
    return digest.hexdigest()


def _read_sheet(content: bytes, raw: RawFile) -> pa.Table:
    try:
        import openpyxl
    except ImportError as error:
        raise DependencyError(
            f'Reading {raw.filename} needs openpyxl, which is not installed. Run: pip install "plr[datasets]"'
        ) from error
    import pyarrow as pa

    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    rows = list(book[raw.sheet].iter_rows(min_row=raw.skip_rows + 1, values_only=True))
    values: Sequence[Sequence[object]] = list(zip(*rows, strict=True))
    return pa.table({name: _floats(column) for name, column in zip(raw.columns, values, strict=True)})


def _floats(cells: Sequence[object]) -> pa.Array:
    import pyarrow as pa

    # A spreadsheet stores 540.0 as the integer 540.
    return pa.array(np.array(cells, dtype=np.float64))


def _normalise(table: pa.Table, info: DatasetInfo) -> pa.Table:
    import pyarrow as pa

    absent = [name for name in info.columns if name not in table.column_names]
    if absent:
        raise DataError(f"lacks the column {absent[0]!r}; {info.name} has {', '.join(info.columns)}")
    holed = [name for name in info.columns if table[name].null_count]
    if holed:
        raise DataError(f"has empty cells in the column {holed[0]!r}")
    columns = {}
    for name in info.columns:
        column = table[name].combine_chunks()
        columns[name] = _category(column) if name in info.categorical else column.cast(pa.float64())
    return pa.table(columns)


def _category(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    # The same category is 1, 1.0 or "1" depending on the file.
    if pa.types.is_floating(column.type):
        column = column.cast(pa.int64())
    return column.cast(pa.string())
