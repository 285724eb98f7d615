"""What candidate sets were read from, so that answers about them come back the same way.

That is the kind of frame, what it calls its rows, and the order of its lines; the frame itself is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates.arrays import Integers

__all__ = ["Origin", "frame_of", "join_origins", "origin_of", "origin_of_lines"]

# The column of row numbers, and of row ids that have no name.
_ROW = "row"
_KINDS = ("pandas", "polars")


@dataclass(frozen=True, eq=False)
class Origin:
    """What candidate sets were read from.

    Attributes
    ----------
    kind : {"pandas", "polars", "arrow"}
        The kind of frame; ``"arrow"`` for everything else.
    keys : pandas.Index, pyarrow.Array or None
        What each row is called: the index of a pandas frame, the row ids of a long table. None where rows go by number.
    name : str
        The column of row ids of a long table.
    lines : ndarray or None
        Which line of a long table each candidate was in.
    line_keys : pandas.Index or None
        The index of a long table.
    columns : tuple
        The columns that candidates came from, where each has one.
    """

    kind: str
    keys: Any = None
    name: str = _ROW
    lines: Integers | None = None
    line_keys: Any = None
    columns: tuple[Any, ...] = ()

    def take(self, rows: Any, candidates: Any = None) -> Origin:
        """Return the origin of some rows, a slice or an array of numbers; without ``candidates``, of all of theirs."""
        keys, lines = self.keys, self.lines
        if keys is not None:
            keys = keys[rows] if isinstance(rows, slice) or self.kind == "pandas" else keys.take(_arrow(rows))
        if lines is not None and candidates is not None:
            lines = lines[candidates]
        return replace(self, keys=keys, lines=lines)

    def label(self, row: int) -> str:
        """Return what a row is called, as a text."""
        if self.keys is None:
            return str(row)
        key = self.keys[row]
        return str(key.as_py() if hasattr(key, "as_py") else key)


def _arrow(numbers: NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.array(numbers)


def _kind_of(data: Any) -> str:
    """Return whose frame or column this is, without importing anybody's package."""
    packages = {base.__module__.partition(".")[0] for base in type(data).__mro__}
    return next((kind for kind in _KINDS if kind in packages), "arrow")


def origin_of(data: Any) -> Origin | None:
    """Return the origin of rows that are in a frame or column; None where nothing is known but their number."""
    kind = _kind_of(data)
    if kind == "pandas":
        return Origin(kind, getattr(data, "index", None))
    return Origin(kind) if kind == "polars" else None


def origin_of_lines(table: Any, row: Any, rows: Any, names: Any, count: int, order: Integers | None) -> Origin:
    """Return the origin of the rows of a long table.

    Parameters
    ----------
    table : frame
    row : column name
    rows : array-like or None
        All row ids, as the caller gave them.
    names : pyarrow.Array
        The row ids in order.
    count : int
        How many lines there are.
    order : ndarray or None
        The line of each candidate, where they were reordered.
    """
    kind, lines = _kind_of(table), np.arange(count) if order is None else order
    if kind != "pandas":
        return Origin(kind, names, str(row), lines)
    import pandas as pd

    keys = rows if isinstance(rows, pd.Index) else pd.Index(names.to_pandas(), name=row)
    return Origin(kind, keys, str(row), lines, table.index)


def join_origins(origins: Sequence[Origin | None]) -> Origin | None:
    """Return the origin of rows put one after the other; what they do not share is forgotten."""
    known = [origin for origin in origins if origin is not None]
    if not known or len(known) < len(origins):
        return None
    first = known[0]
    if any((one.kind, one.name, one.columns) != (two.kind, two.name, two.columns) for one, two in pairwise(known)):
        return None
    keys = None
    if all(origin.keys is not None for origin in known):
        if first.kind == "pandas":
            keys = first.keys.append([origin.keys for origin in known[1:]])
        elif len({origin.keys.type for origin in known}) == 1:
            import pyarrow as pa

            keys = pa.concat_arrays([origin.keys for origin in known])
    return Origin(first.kind, keys, first.name, columns=first.columns)


def frame_of(columns: dict[str, NDArray[Any]], origin: Origin | None, rows: Any, lines: Any = None) -> Any:
    """Make a frame of the origin's kind.

    Parameters
    ----------
    columns : dict of str to ndarray
        Texts, or numbers; empty texts are missing.
    origin : Origin or None
    rows : ndarray
        The number of the row that each line is about; where that is not its number among the origin's keys, those are
        None.
    lines : ndarray, optional
        The line of the origin's long table that each line is about.
    """
    import pyarrow as pa

    keys: Any
    kind, keys, name = ("arrow", None, _ROW) if origin is None else (origin.kind, origin.keys, origin.name)
    name = _ROW if name in columns else name
    # A column of a pandas frame may be called anything, but ids have one name and need one column.
    as_index = kind == "pandas" and keys is not None and lines is None
    if not as_index:
        ids = rows if keys is None else keys.take(rows if kind == "pandas" else pa.array(rows))
        columns = {name: ids} | columns
    if kind != "pandas":
        table = pa.table({name: _cells(column) for name, column in columns.items()})
        if kind == "arrow":
            return table
        import polars as pl

        return pl.from_arrow(table)
    import pandas as pd

    index = None
    if as_index:
        index = keys.take(rows)
    elif origin is not None and lines is not None and origin.line_keys is not None:
        index = origin.line_keys.take(lines)
    data = {
        name: _cells(column).to_pandas() if _is_text(column) else np.asarray(column) for name, column in columns.items()
    }
    frame = pd.DataFrame(data)
    if index is not None:
        frame.index = index
    return frame


def _is_text(column: Any) -> bool:
    return getattr(getattr(column, "dtype", None), "kind", "") == "U"


def _cells(column: Any) -> Any:
    import pyarrow as pa

    return pa.array(column, mask=column == "") if _is_text(column) else pa.array(column)
