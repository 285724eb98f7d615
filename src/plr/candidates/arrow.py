"""Reading list columns of Arrow, Polars or pandas, and sets written in one cell: ``12.5|13.1`` or ``[12.5, 13.1]``.

pyarrow is imported where it is used, so it never loads needlessly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from plr.candidates.arrays import Flat, is_missing, is_number, name_rows, not_a_number, read_lists, rows_of
from plr.errors import CandidateError, ParameterError, PlrError, PriorError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "as_arrow",
    "check_buffers",
    "is_frame",
    "is_list_column",
    "is_text_column",
    "parse_cells",
    "read_column",
    "read_texts",
]


# What a text with several candidates has, and a number never.
_SEVERAL = re.compile(r"[|;]|^\s*\[")
# What numbers are written with, and what brackets and priors are.
_OF_NUMBERS = set("0123456789+-.eE:[]")


def is_frame(data: Any) -> bool:
    """Whether this is a pandas or Polars frame or an Arrow table."""
    return hasattr(data, "columns") and hasattr(data, "shape") and hasattr(data, "__getitem__")


def check_buffers(data: Any, error: type[PlrError] = CandidateError, what: str = "The column") -> None:
    """Refuse an Arrow array or table whose offsets or indices point outside: Arrow itself follows them blindly."""
    import pyarrow as pa

    try:
        data.validate(full=True)
    except pa.ArrowException as problem:
        raise error(
            f"{what} is damaged: {str(problem).splitlines()[0].rstrip('.')}; read or make it anew."
        ) from problem


def is_list_column(data: Any) -> bool:
    """Whether this is an Arrow, Polars or pandas column whose Arrow type is a list."""
    if _is_numpy_backed(data) or is_frame(data):
        return False
    dtype: Any = getattr(data, "dtype", None)
    if hasattr(data, "iloc"):
        return hasattr(dtype, "pyarrow_dtype") and _is_list_type(dtype.pyarrow_dtype)
    if hasattr(dtype, "is_nested"):
        return bool(dtype.is_nested()) and _is_list_type(as_arrow(data).type)
    return _speaks_arrow(data) and _is_list_type(as_arrow(data).type)


def read_column(column: Any) -> Flat:
    """Read one list per row from an Arrow, Polars or pandas column, without copying float64 values."""
    if _is_numpy_backed(column) or isinstance(column, (list, tuple)):
        return read_lists(list(column))
    if is_frame(column) or not (_speaks_arrow(column) or hasattr(column, "iloc")):
        raise CandidateError(
            f"A {type(column).__name__} is not one column; give an Arrow, Polars or pandas list column."
        )
    import pyarrow as pa
    import pyarrow.compute as pc

    array = as_arrow(column)
    if not _is_list_type(array.type):
        raise CandidateError(
            f"The column has Arrow type {array.type}; a list, large_list or fixed_size_list of numbers is needed. "
            "For one label per row use CandidateSets.from_labels."
        )
    sizes = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    values = array.flatten()
    if values.null_count:
        rows = rows_of(np.flatnonzero(np.asarray(values.is_null())), sizes)
        raise CandidateError(
            f"Null inside the list of {name_rows(rows)}; drop the null entries, a list names what is there.",
            row=int(rows[0]),
            problem="a candidate is null; drop the null entries, a list names what is there.",
        )
    kinds = pa.types
    if kinds.is_float64(values.type):
        return Flat(values.to_numpy(zero_copy_only=True), sizes)
    if kinds.is_integer(values.type) or kinds.is_floating(values.type) or kinds.is_decimal(values.type):
        return Flat(values.cast(pa.float64(), safe=False).to_numpy(), sizes)
    if kinds.is_boolean(values.type) or kinds.is_null(values.type):
        return Flat(np.asarray(values.cast(pa.int8())).astype(np.float64), sizes)
    if not len(values):
        return Flat(np.empty(0), sizes)
    row = int(np.flatnonzero(sizes)[0])
    raise not_a_number(values[0].as_py(), row)


def as_arrow(column: Any) -> Any:
    """One Arrow array out of an Arrow, Polars or pandas column, its buffers shared wherever they are in one piece."""
    import pyarrow as pa

    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        array = column
    elif hasattr(column, "iloc") and not _is_numpy_backed(column):
        array = pa.array(column.array)
    elif hasattr(column, "__arrow_c_stream__") and not _is_numpy_backed(column):
        array = pa.chunked_array(column)
    else:
        array = pa.array(column)
    check_buffers(array)
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        return array
    entries = array.dictionary
    # Arrow cannot take from the string views that Polars hands out.
    return (entries.cast(pa.large_string()) if pa.types.is_string_view(entries.type) else entries).take(array.indices)


def is_text_column(column: Any) -> bool:
    """Whether this is a column of texts, some of which hold several values; plain numbers may be among them.

    >>> is_text_column(["1|2", "3"]), is_text_column(["1; 2", 3.0]), is_text_column(["1", "2"]), is_text_column([1.0])
    (True, True, False, False)
    """
    values = np.asarray(column, dtype=object) if not isinstance(column, list | tuple) else column
    if getattr(values, "ndim", 1) != 1:
        return False
    kinds = set(map(type, values))
    if str not in kinds or not all(kind is str or is_number(kind) or kind is type(None) for kind in kinds):
        return False
    return any(isinstance(cell, str) and bool(_SEVERAL.search(cell)) for cell in values)


def parse_cells(cells: Any, name: str = "") -> pa.Array:
    """Split a column of texts into an Arrow column of lists of numbers.

    >>> parse_cells(["12.5|13.1", "[7, 8, 9]", "4"]).to_pylist()
    [[12.5, 13.1], [7.0, 8.0, 9.0], [4.0]]
    """
    import pyarrow as pa

    is_arrow = isinstance(cells, pa.Array | pa.ChunkedArray)
    given = as_arrow(cells) if is_arrow else pa.array(list(cells), type=pa.string())
    numbers = pa.list_(pa.float64())
    try:
        return _split(given).cast(numbers)
    except pa.ArrowInvalid:
        # Most often for blanks around a number, which few files have and which take longest to look for.
        parts = _split(_with_bars(given), blanks=True)
    try:
        return parts.cast(numbers)
    except pa.ArrowInvalid:
        row = next(row for row, part in enumerate(parts) if not _are_numbers(part.values))
        raise _no_set(given[row].as_py(), row, name) from None


def _with_bars(cells: Any) -> Any:
    """Return texts with bars where they have semicolons, which no number has."""
    import pyarrow.compute as pc

    return pc.replace_substring(cells, ";", "|")


def read_texts(cells: Any, separator: str, may_lack_prior: bool) -> Flat:
    """Read sets written as texts, each candidate perhaps with its prior after a colon.

    Parameters
    ----------
    cells : iterable of str
        Plain numbers may be among them; missing where there is no set.
    separator : str
        What stands between candidates.
    may_lack_prior : bool
        Whether rows without priors may stand beside rows that have some.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(separator, str) or not separator or set(separator) & _OF_NUMBERS:
        raise ParameterError(
            "{parameter} must be a text such as '|', without digits, signs, points, colons, brackets or the letter e; "
            f"got {separator!r}.",
            parameter="separator",
            value=separator,
        )
    # Entries of Arrow's columns are objects of its own.
    entries = as_arrow(cells).to_pylist() if isinstance(cells, pa.Array | pa.ChunkedArray) else cells
    texts = pa.array([_as_text(cell, row) for row, cell in enumerate(entries)], pa.string())
    parts = _split(_with_bars(texts) if separator == "|" else texts, separator, blanks=True)
    sizes = np.asarray(pc.fill_null(pc.list_value_length(parts), 0)).astype(np.int64)
    flat = parts.flatten()
    has_prior = pc.match_substring(flat, ":")
    pairs = pc.extract_regex(flat, r"^(?P<value>[^:]*?)\s*(?::\s*(?P<prior>[^:]*))?$")
    value, prior = pc.struct_field(pairs, "value"), pc.if_else(has_prior, pc.struct_field(pairs, "prior"), "1")
    try:
        values, shares = (np.asarray(column.cast(pa.float64())) for column in (value, prior))
        wrong = np.asarray(pairs.is_null())
    except pa.ArrowInvalid:
        wrong = np.array([not (_is_number(one) and _is_number(two)) for one, two in zip(value, prior, strict=True)])
    if wrong.any():
        row = int(rows_of(np.flatnonzero(wrong), sizes)[0])
        raise _no_set(texts[row].as_py(), row, separator=separator)
    given = np.asarray(has_prior.cast(pa.int8())).astype(bool)
    if not given.any():
        return Flat(values, sizes)
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    with_prior = np.bincount(row_of, given, minlength=len(sizes))
    lacking = (with_prior < sizes) if not may_lack_prior else (with_prior > 0) & (with_prior < sizes)
    if lacking.any():
        row = int(np.flatnonzero(lacking)[0])
        problem = (
            f"{texts[row].as_py()!r} has a prior for {int(with_prior[row])} of its {sizes[row]} candidates; "
            f"give one to each, such as 12.5:0.7{separator}13.1:0.3."
        )
        raise PriorError(f"Row {row}: {problem}", row=row, value=texts[row].as_py(), problem=problem)
    return Flat(values, sizes, shares)


def _as_text(cell: Any, row: int) -> str | None:
    if isinstance(cell, str):
        return cell
    if is_missing(cell):
        return None
    if is_number(type(cell)) and not isinstance(cell, bool | np.bool_):
        return repr(float(cell))
    raise CandidateError(
        f"Row {row} holds {cell!r} of type {type(cell).__name__}; from_text takes texts such as 12.5|13.1 and numbers.",
        row=row,
        value=cell,
    )


def _no_set(text: str, row: int, name: str = "", separator: str = "|") -> CandidateError:
    problem = f"{text!r} is not a set of candidates; write 12.5{separator}13.1 or [12.5, 13.1]."
    return CandidateError(
        f"Column {name!r}, row {row}: {problem}" if name else f"Row {row}: {problem}",
        row=row,
        column=name or None,
        value=text,
        problem=f"column {name!r}: {problem}" if name else problem,
    )


def _split(cells: pa.Array, separator: str = "|", *, blanks: bool = False) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = pc.utf8_trim_whitespace(cells)
    # A comma separates only within brackets: elsewhere it may be somebody's decimal point.
    listed = pc.and_(pc.starts_with(cells, "["), pc.ends_with(cells, "]"))
    if pc.any(listed).as_py():
        inside = pc.replace_substring(pc.utf8_trim(cells, "[] "), ", ", separator)
        cells = pc.if_else(listed, pc.replace_substring(inside, ",", separator), cells)
    if separator.isspace():
        cells = pc.replace_substring_regex(cells, r"\s+", separator)
    elif blanks:
        cells = pc.replace_substring_regex(cells, rf"\s*{re.escape(separator)}\s*", separator)
    # One at the end separates nothing; two are a candidate that is missing.
    ends = pc.ends_with(cells, separator)
    if pc.any(ends).as_py():
        cells = pc.if_else(ends, pc.utf8_slice_codeunits(cells, 0, -len(separator)), cells)
    cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, cells.type), cells)
    return pc.split_pattern(cells, separator)


def _is_number(text: pa.Scalar) -> bool:
    import pyarrow as pa

    try:
        return text.as_py() is not None and text.cast(pa.float64()) is not None
    except pa.ArrowInvalid:
        return False


def _are_numbers(parts: pa.Array | None) -> bool:
    import pyarrow as pa

    try:
        return parts is None or parts.cast(pa.float64()) is not None
    except pa.ArrowInvalid:
        return False


def _is_list_type(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _speaks_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _is_numpy_backed(column: Any) -> bool:
    return isinstance(getattr(column, "dtype", None), np.dtype)
