"""Long tables: one line per candidate, several lines a row. They are read as one row per row id, with lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from plr.candidates.features import record_name
from plr.columns.candidates import SetColumns
from plr.columns.kinds import plain
from plr.columns.targets import read_target
from plr.errors import DataError, ParameterError
from plr.front_end import PYTHON, FrontEnd
from plr.memory import available_memory, readable
from plr.sources.folder import Folder
from plr.sources.source import Source, TableSource

__all__ = [
    "LongTable",
    "columns_of_lines",
    "find_row_column",
    "name_rows",
    "one_line_per_row",
    "row_keys",
    "rows_in_memory",
]

Integers = NDArray[np.int64]

# A long folder is read as one table if it takes no more than this share of the memory that is left.
_SHARE = 0.25
# A table looks like a long one if it has so many rows or more, of so many lines on average.
_LEAST_ROWS, _LEAST_LINES, _MOST_LINES = 5, 1.5, 30.0
_LOOKED_AT = 20_000


class LongTable(TableSource):
    """A long table as one of rows: its columns of candidates hold lists, the others what the lines of a row agree on.

    The lines of a row may be anywhere in the table; candidates keep their order, and rows come in order of appearance.
    A line without a candidate value adds none to its row.

    Parameters
    ----------
    lines : TableSource
    columns : SetColumns
        With ``row``. Without a target, the table has rows alone, and no column in which lines of a row differ.
    agree : collection of str
        Columns that must be the same in all lines of a row.
    front : FrontEnd

    Attributes
    ----------
    lines : TableSource
    row : str
        The column of row ids.
    keys : list of str
        The id of each row, as a text.
    line : ndarray of int
        The number of the line of each candidate, row after row.
    offsets : ndarray of int
        Row ``i`` has the candidates ``line[offsets[i]:offsets[i + 1]]``.
    first : ndarray of int
        The first line of each row.
    """

    def __init__(
        self, lines: TableSource, columns: SetColumns, agree: Collection[str], front: FrontEnd = PYTHON
    ) -> None:
        assert columns.row is not None
        table = lines.table
        keys, codes = _row_codes(table, columns.row, lines)
        order = np.argsort(codes, kind="stable")
        self.lines, self.row, self.keys, self._codes = lines, columns.row, keys, codes
        self.first = order[np.searchsorted(codes[order], np.arange(len(keys)))]
        _check_agreement(table, [name for name in table.column_names if name in agree], codes, self, columns, front)
        self.line = order[:0]
        self.offsets = np.zeros(len(keys) + 1, dtype=np.int64)
        take = pa.array(self.first)
        if columns.target:
            rows = table.take(take)
            for name, lists in self._lists(columns, codes, order).items():
                rows = rows.set_column(rows.column_names.index(name), name, lists)
            super().__init__(rows, lines.path)
            return
        other = [name for name in table.column_names if name not in columns.of_candidates]
        other = [name for name in other if name in agree or not _differing(table, name, codes, self.first).size]
        texts = None if lines.texts is None else lines.texts.select(other).take(take)
        super().__init__(table.select(other).take(take), lines.path, texts)

    def _lists(self, columns: SetColumns, codes: Integers, order: Integers) -> dict[str, pa.Array]:
        """Return the columns of candidates as lists."""
        if len(columns.target) > 1 or len(columns.prior) > 1:
            raise ParameterError(
                "A table with one line per candidate has one column of candidate values; name one with {parameter}.",
                parameter="target" if len(columns.target) > 1 else "prior",
            )
        table, name = self.lines.table, columns.target[0]
        cells = plain(table[name])
        there = cells.is_valid()
        if pa.types.is_floating(cells.type):
            there = pc.and_(there, pc.invert(pc.fill_null(pc.is_nan(cells), True)))
        self.line = order[np.asarray(there)[order]]
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(codes[self.line], minlength=len(self.first)))])
        part, place = table.take(pa.array(self.line)), lambda row: self.lines.place(int(self.line[row]))
        found: dict[str, Any] = {name: read_target(part, name, self.lines, place, "target")}
        for prior in columns.prior:
            found[prior] = read_target(part, prior, self.lines, place, "prior")
        for other in columns.of_candidates:
            if other not in found:
                found[other] = plain(part[other])
        offsets = pa.array(self.offsets, pa.int64())
        return {
            key: pa.LargeListArray.from_arrays(
                offsets, pa.array(entries) if isinstance(entries, np.ndarray) else entries.combine_chunks()
            )
            for key, entries in found.items()
        }

    def columns_of_lines(self) -> set[str]:
        """Return the columns in which lines of one row differ."""
        table = self.lines.table
        return {name for name in table.column_names if _differing(table, name, self._codes, self.first).size}

    def place(self, row: int) -> str:
        """Say in words where a row is."""
        return f"row {self.keys[row]}, which begins in {self.lines.place(int(self.first[row]))}"

    def chosen_lines(self, rows: Integers, index: Integers) -> TableSource:
        """Return one line of each row as it is in the table: that of one of its candidates, or else the first."""
        chosen = self.first.copy()
        chosen[rows] = self.line[self.offsets[rows] + index]
        take = pa.array(chosen)
        texts = None if self.lines.texts is None else self.lines.texts.take(take)
        return TableSource(self.lines.table.take(take), self.path, texts)


def one_line_per_row(source: Source, columns: SetColumns, agree: Collection[str], front: FrontEnd = PYTHON) -> Source:
    """Return a source with one line per row: itself, or the rows of a long table where ``columns`` has row ids."""
    if columns.row is None:
        return source
    return LongTable(rows_in_memory(source, columns.row, front), columns, agree, front)


def rows_in_memory(source: Source, row: str, front: FrontEnd = PYTHON) -> TableSource:
    """Return a long table as one in memory: the lines of a row may be in several files of a folder."""
    if isinstance(source, Folder):
        left = available_memory()
        if left is not None and source.uncompressed > _SHARE * left:
            raise ParameterError(
                f"{source} has several lines for each {row!r}, in whatever files, and is read as one table; its "
                f"{readable(source.uncompressed)} are too much for the {readable(left)} of memory that are left. "
                f"Gather the lines of each row in one with a list of candidates, and leave out {front.option('row')}."
            )
        source = source.read()
    assert isinstance(source, TableSource)
    return source


def name_rows(source: Source, numbers: Integers) -> list[int] | list[str]:
    """Return what rows go by in files about them: their ids in a long table, and else their numbers from 0."""
    return [source.keys[number] for number in numbers] if isinstance(source, LongTable) else numbers.tolist()


def columns_of_lines(source: Source) -> set[str]:
    """Return the columns that say nothing about a row as a whole, since its lines differ in them."""
    return source.columns_of_lines() if isinstance(source, LongTable) else set()


def row_keys(ids: Iterable[Any]) -> list[str]:
    """Return row ids as texts, the same for 7, 7.0 and ``" 7"``.

    >>> row_keys([7.0, "B1 "])
    ['7', 'B1']
    """
    return [record_name(value) for value in ids]


def _row_codes(table: pa.Table, name: str, source: Source) -> tuple[list[str], Integers]:
    """Return the keys of rows in order of appearance, and the number of each line's row among them."""
    column = plain(table[name])
    if pa.types.is_nested(column.type):
        raise DataError(f"{source}: the column {name!r} holds lists, which are no row ids.", column=name)
    _, first, codes = np.unique(_codes(column), return_index=True, return_inverse=True)
    numbers: dict[str, int] = {}
    # Ids that differ only in blanks around them have one key.
    same = [numbers.setdefault(key, len(numbers)) for key in row_keys(column.take(pa.array(first)).to_pylist())]
    codes = np.array(same, dtype=np.int64)[codes]
    if "" in numbers:
        line = int(np.flatnonzero(codes == numbers[""])[0])
        raise DataError(
            f"{source}: the column {name!r} is empty in {source.place(line)}, so that line belongs to no row; fill it "
            "in, or remove the line.",
            row=line,
            column=name,
            source=source.path,
        )
    return list(numbers), codes


def _codes(column: pa.ChunkedArray) -> Integers:
    """Return numbers that are equal where cells are, counted by appearance; -1 where a cell is empty."""
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([[None if cell is None else repr(cell) for cell in column.to_pylist()]], pa.string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)


def _differing(table: pa.Table, name: str, codes: Integers, first: Integers) -> Integers:
    """Return the lines that differ in a column from the first line of their row."""
    cells = _codes(plain(table[name]))
    return np.flatnonzero(cells != cells[first[codes]])


def _check_agreement(
    table: pa.Table, names: list[str], codes: Integers, rows: LongTable, columns: SetColumns, front: FrontEnd
) -> None:
    """Refuse lines of one row that differ in what belongs to the row; name the first such row, and its column."""
    wrong: tuple[int, str, int] | None = None
    for name in names:
        if name in columns.names:
            continue
        differ = _differing(table, name, codes, rows.first)
        if differ.size:
            line = int(differ[np.argmin(codes[differ])])
            if wrong is None or codes[line] < wrong[0]:
                wrong = int(codes[line]), name, line
    if wrong is None:
        return
    row, name, line = wrong
    one, other = (table[name][int(where)].as_py() for where in (rows.first[row], line))
    raise DataError(
        f"{rows.lines}: the lines of row {rows.keys[row]} differ in {name!r}: {_shown(one)} in "
        f"{rows.lines.place(int(rows.first[row]))} and {_shown(other)} in {rows.lines.place(line)}. What belongs to "
        f"the row must be the same in all its lines; what belongs to the candidate is named by "
        f"{front.option('candidate_features')} or left out by {front.option('ignore')}.",
        row=rows.keys[row],
        column=name,
        value=(one, other),
        source=rows.lines.path,
    )


def _shown(cell: Any) -> str:
    return "nothing" if cell is None else repr(cell)


def find_row_column(table: pa.Table, target: str, leave: Collection[str]) -> str | None:
    """Return the column that seems to say which row a line belongs to, where a table looks like a long one, else None.

    Lines that agree in it agree in other columns too, which together tell most rows apart, and differ in the target.
    Where lines agree in all columns but the target, and none of them is such a column, the answer is an empty text.

    >>> lines = {"id": [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], "x": [8, 8, 6, 6, 7, 7, 5, 5, 9, 9], "y": range(10)}
    >>> find_row_column(pa.table({name: list(cells) for name, cells in lines.items()}), "y", ())
    'id'
    """
    table = table.slice(0, _LOOKED_AT)
    values = _codes(plain(table[target]))
    encoded = {
        name: _codes(plain(table[name]))
        for name in table.column_names
        if name not in leave and name != target and not pa.types.is_nested(table[name].type)
    }
    for name, codes in encoded.items():
        if not pa.types.is_floating(table[name].type) and _are_rows([codes], values):
            same = [cells for other, cells in encoded.items() if other != name and _depends(cells, codes)]
            if same and 2 * _count(same) >= _count([codes]):
                return name
    return "" if encoded and _are_rows(list(encoded.values()), values) else None


def _are_rows(columns: list[Integers], values: Integers) -> bool:
    """Whether lines that agree in some columns could be candidates of one row: a few each, and different ones."""
    count, different = _count(columns), _count([*columns, values])
    return count >= _LEAST_ROWS and _LEAST_LINES * count <= different <= _MOST_LINES * count


def _count(columns: list[Integers]) -> int:
    """Return how many different lines some columns have."""
    return int(np.unique(np.stack(columns), axis=1).shape[1])


def _depends(cells: Integers, codes: Integers) -> bool:
    """Whether cells are the same wherever codes are."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return bool((cells == cells[first[inverse]]).all())
