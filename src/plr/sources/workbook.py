"""Excel workbooks: the first sheet as a table, its first row the names of the columns."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from plr.errors import DataError, DependencyError
from plr.sources.csv_text import typed_cells
from plr.sources.source import MOST_COLUMNS, TableSource, too_many_columns

__all__ = ["read_workbook"]

# What Excel shows where a formula has no value.
_ERRORS = ("#N/A", "#DIV/0!", "#REF!", "#VALUE!", "#NUM!", "#NAME?", "#NULL!")


def read_workbook(data: bytes, path: Path) -> TableSource:
    """Read the first sheet of a workbook; of formulas, the values that were saved with them.

    Columns of numbers, dates and yes or no are taken as they are. Texts are read as those of a CSV file, and so are
    columns of several kinds.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise DependencyError(
            f"{path} is an Excel workbook, which the package openpyxl reads: pip install 'plr[excel]', or save the "
            "table as CSV."
        ) from error
    try:
        with warnings.catch_warnings():
            # Of styles and filters that it cannot keep, which are not read here.
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            sheet = book.worksheets[0]
            rows = [_cells(row) for row in sheet.iter_rows(values_only=True)]
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError, OSError, EOFError, TypeError, SyntaxError) as error:
        raise DataError(f"{path} is no Excel workbook, or is cut short or damaged.") from error
    while rows and not any(cell is not None for cell in rows[-1]):
        rows.pop()
    if len(rows) < 2:
        raise DataError(f"{path}: the sheet {sheet.title!r} has no rows; its first row names the columns.")
    width = max(max((place + 1 for place, cell in enumerate(row) if cell is not None), default=0) for row in rows)
    if width > MOST_COLUMNS:
        raise too_many_columns(path, width)
    whole = [[*row[:width], *[None] * (width - len(row))] for row in rows]
    names = ["" if name is None else _text(name) for name in whole[0]]
    columns = [_column(cells) for cells in zip(*whole[1:], strict=True)]
    table = pa.Table.from_arrays(columns, names=names)
    return TableSource(table, path, first_line=2, line_of=f"row {{}} of the sheet {sheet.title!r}")


def _cells(row: Sequence[Any]) -> list[Any]:
    return [None if isinstance(cell, str) and (cell in _ERRORS or not cell.strip()) else cell for cell in row]


def _column(cells: Sequence[Any]) -> pa.ChunkedArray:
    there = [cell for cell in cells if cell is not None]
    if not any(isinstance(cell, str) for cell in there):
        try:
            return pa.chunked_array([pa.array(cells)])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
    return typed_cells(
        pa.chunked_array([pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())])
    )


def _text(cell: Any) -> str:
    """Return a cell as it would be in a CSV file.

    >>> _text(3.0), _text(2.5), _text("12|13")
    ('3', '2.5', '12|13')
    """
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
