"""Reading candidate sets out of what users hold: lists, padded arrays, frames, Arrow columns and long tables.

Every reader returns a :class:`Flat`: the candidates of all rows one after the other, and how many each row has. Nothing
here decides what an empty row or an infinite value means; :mod:`plr.candidates` does, once for all readers. pandas and
Polars are recognised by what their objects can do, and pyarrow is imported where it is used, so none loads needlessly.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from plr.errors import CandidateError, LengthError, ParameterError, PriorError, unknown_name

__all__ = [
    "Flat",
    "as_floats",
    "as_shares",
    "columns_of",
    "is_frame",
    "is_list_column",
    "is_row",
    "name_rows",
    "offsets_of",
    "own",
    "positions",
    "read_column",
    "read_columns",
    "read_lists",
    "read_long",
    "read_padded",
    "rows_of",
    "with_prior",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NAMED = 5


class Flat(NamedTuple):
    """Candidates of all rows one after the other; the prior as given, not yet checked or normalised."""

    values: Floats
    sizes: Integers
    prior: Floats | None = None
    slots: NDArray[np.int32] | None = None
    names: Sequence[Any] | None = None


def name_rows(rows: Iterable[int] | Integers, names: Sequence[Any] | None = None) -> str:
    """Name the first few of some rows, and how many there are.

    >>> name_rows([4])
    'row 4'
    >>> name_rows(range(10, 40))
    'rows 10, 11, 12, 13, 14, ... (30 in all)'
    """
    found = list(rows)
    shown = [str(row) if names is None else repr(names[int(row)]) for row in found[:_NAMED]]
    more = f", ... ({len(found)} in all)" if len(found) > _NAMED else ""
    return f"row{'s' if len(found) > 1 else ''} {', '.join(shown)}{more}"


def offsets_of(sizes: Integers) -> Integers:
    """Where each row starts in the flat array, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def positions(offsets: Integers) -> Integers:
    """Position of every candidate within its own row."""
    return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def rows_of(flat: Integers, sizes: Integers) -> Integers:
    """Rows that own these places of the flat array, each named once."""
    return np.unique(np.searchsorted(offsets_of(sizes), flat, side="right") - 1)


def own(data: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Convert to a contiguous array nobody else can write to: shared where read-only already, copied otherwise."""
    array = np.ascontiguousarray(data, dtype=dtype)
    shared = array is data or array.base is not None
    return array.copy() if shared and array.flags.writeable else array


def _is_number(kind: type) -> bool:
    # NumPy counts spans of time among the integers.
    return issubclass(kind, (numbers.Real, Decimal, np.bool_)) and not issubclass(kind, np.timedelta64)


def _is_missing(item: Any) -> bool:
    return item is None or type(item).__name__ == "NAType" or (isinstance(item, float) and item != item)


def is_row(kind: type) -> bool:
    """Whether objects of this type can be one row of a list of lists."""
    ordered = hasattr(kind, "__len__") and hasattr(kind, "__iter__")
    return ordered and not issubclass(kind, (str, bytes, Mapping, set, frozenset))


def _complaint(item: Any, where: str) -> CandidateError:
    if isinstance(item, (str, bytes)):
        problem = f"{where} holds {item!r}: strings are not numbers; convert them to floats first."
    elif isinstance(item, (complex, np.complexfloating)):
        problem = f"Complex data not supported: {where} holds {item!r}; give real numbers."
    elif _is_missing(item):
        problem = f"{where} holds {item!r}: a list names only the candidates there are; leave missing ones out."
    elif is_row(type(item)):
        problem = f"{where} is nested too deep: it holds {item!r} where a number belongs; give one flat list per row."
    else:
        problem = f"{where} holds {item!r} of type {type(item).__name__}, which is not a number; give floats."
    return CandidateError(problem[0].upper() + problem[1:])


def as_floats(data: Any, what: str = "y") -> Floats:
    """Convert a column or table of numbers to float64, NaN where an entry is missing.

    >>> as_floats([1, None, 2.5])
    array([1. , nan, 2.5])
    """
    if isinstance(data, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(data.astype(np.float64), np.nan))
    dtype = getattr(data, "dtype", None)
    if isinstance(data, (list, tuple)) and not any(is_row(kind) for kind in set(map(type, data))):
        # NumPy would make strings of all numbers beside one string, and the message would quote the wrong entry.
        array = np.empty(len(data), dtype=object)
        array[:] = data
    elif hasattr(dtype, "na_value") and getattr(dtype, "kind", "O") in "fiub":
        array = data.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        try:
            array = np.asarray(data)
            if array.dtype.kind in "US" and not hasattr(data, "dtype"):
                array = np.asarray(data, dtype=object)
        except ValueError as error:
            raise CandidateError(
                f"{what} is no regular array ({error}); CandidateSets.from_lists takes rows of any length."
            ) from None
    if array.dtype.kind in "fiub":
        return array.astype(np.float64, copy=False)
    return _objects_as_floats(array, what)


def as_shares(data: Any, what: str) -> Floats:
    """Convert priors to float64; what is wrong with them is a :class:`PriorError`."""
    try:
        return as_floats(data, what)
    except CandidateError as problem:
        raise PriorError(str(problem)) from None


def _objects_as_floats(array: NDArray[Any], what: str) -> Floats:
    # ``tolist`` would make plain integers of dates.
    flat = list(array.ravel()) if array.dtype.kind in "mM" else array.ravel().tolist()
    kinds = set(map(type, flat))
    if any(kind.__name__ == "NAType" for kind in kinds):
        flat = [None if _is_missing(item) else item for item in flat]
        kinds = set(map(type, flat))
    if all(kind is type(None) or _is_number(kind) for kind in kinds):
        return _floats_of(flat, what).reshape(array.shape)
    place = next(place for place, item in enumerate(flat) if item is not None and not _is_number(type(item)))
    index = np.unravel_index(place, array.shape)
    where = f"row {index[0]}" if index else "the value"
    if len(index) > 1:
        where += f", column {', '.join(map(str, index[1:]))}"
    raise _complaint(flat[place], f"{what}, {where}," if what != "y" else where)


def _floats_of(flat: list[Any], what: str) -> Floats:
    try:
        return np.array(flat, dtype=np.float64)
    except OverflowError:
        raise CandidateError(f"{what} contains infinity or a value too large for dtype('float64').") from None


def read_lists(lists: Iterable[Any]) -> Flat:
    """Read one sequence of numbers per row; a missing row counts as an empty one."""
    rows = lists if isinstance(lists, list) else list(lists)
    kinds = set(map(type, rows))
    if not all(map(is_row, kinds)):
        rows = [() if _is_missing(row) else row for row in rows]
        _check_rows(rows)
    try:
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    except TypeError:
        _check_rows(rows)
        raise
    if kinds == {np.ndarray} and _are_plain(rows):
        return Flat(np.concatenate(rows).astype(np.float64, copy=False), sizes)
    flat = list(chain.from_iterable(rows))
    if not all(map(_is_number, set(map(type, flat)))):
        place = next(place for place, item in enumerate(flat) if not _is_number(type(item)))
        raise _complaint(flat[place], name_rows(rows_of(np.array([place]), sizes)))
    return Flat(_floats_of(flat, "Candidates"), sizes)


def _are_plain(rows: list[NDArray[Any]]) -> bool:
    dtypes = set(map(attrgetter("dtype"), rows))
    return set(map(attrgetter("ndim"), rows)) == {1} and all(dtype.kind in "fiub" for dtype in dtypes)


def _check_rows(rows: list[Any]) -> None:
    for number, row in enumerate(rows):
        if isinstance(row, (set, frozenset, Mapping)):
            raise CandidateError(
                f"Row {number} is a {type(row).__name__}, which has no order; "
                "candidates keep their positions, so give a list."
            )
        if not is_row(type(row)) or getattr(row, "ndim", 1) == 0:
            if _is_number(type(row)):
                raise CandidateError(f"Row {number} is the single number {row!r} among lists; write [{row!r}].")
            raise _complaint(row, f"row {number}")


def with_prior(flat: Flat, prior: Flat) -> Flat:
    """Join candidates with priors read from a structure of the same shape."""
    if len(flat.sizes) != len(prior.sizes):
        raise LengthError(f"There are {len(flat.sizes)} rows of candidates but {len(prior.sizes)} rows of priors.")
    wrong = np.flatnonzero(flat.sizes != prior.sizes)
    if len(wrong):
        row = int(wrong[0])
        raise PriorError(
            f"Give one prior per candidate: row {row} has {flat.sizes[row]} candidates and {prior.sizes[row]} priors "
            f"({len(wrong)} such rows)."
        )
    return flat._replace(prior=prior.values)


def read_padded(array: Any, prior: Any = None) -> Flat:
    """Read one row per line of a 2-D array, NaN where there is no candidate."""
    table = as_floats(array, "The padded array")
    if table.ndim != 2:
        raise CandidateError(
            f"A padded array has 2 dimensions (rows, candidates); this one has {table.ndim}. "
            "For one label per row use CandidateSets.from_labels."
        )
    absent = np.isnan(table)
    shares = None if prior is None else _padded_prior(prior, table.shape)
    if not absent.any():
        sizes = np.full(len(table), table.shape[1], dtype=np.int64)
        return Flat(own(table, np.float64).reshape(-1), sizes, None if shares is None else shares.reshape(-1))
    present = ~absent
    sizes = np.count_nonzero(present, axis=1).astype(np.int64)
    gaps = bool((absent[:, :-1] & present[:, 1:]).any())
    slots = np.nonzero(present)[1].astype(np.int32) if gaps else None
    return Flat(table[present], sizes, None if shares is None else shares[present], slots)


def _padded_prior(prior: Any, shape: tuple[int, ...]) -> Floats:
    shares = as_shares(prior, "The prior")
    if shares.shape not in (shape, shape[1:]):
        raise LengthError(
            f"The prior has shape {shares.shape}; give {shape} (one per candidate) or {shape[1:]} (one per column)."
        )
    return np.broadcast_to(shares, shape).copy()


def is_frame(data: Any) -> bool:
    """Whether this is a pandas or Polars frame or an Arrow table."""
    return hasattr(data, "columns") and hasattr(data, "shape") and hasattr(data, "__getitem__")


def columns_of(table: Any) -> Iterator[tuple[Any, Any]]:
    """Name and content of every column of a frame, an Arrow table or a dict of arrays."""
    if isinstance(table, Mapping) or hasattr(table, "iloc"):
        return iter(table.items())
    if hasattr(table, "column_names"):
        return zip(table.column_names, table.columns, strict=True)
    if is_frame(table):
        return zip(table.columns, table.iter_columns(), strict=True)
    raise CandidateError(
        f"A {type(table).__name__} has no named columns; give a pandas or Polars frame, an Arrow table "
        "or a dict of arrays."
    )


def _column(columns: list[tuple[Any, Any]], name: Any) -> Any:
    found = [column for label, column in columns if label == name]
    if not found:
        raise unknown_name("column", name, (str(label) for label, _ in columns))
    if len(found) > 1:
        raise CandidateError(f"The table has {len(found)} columns named {name!r}; give them names of their own.")
    return found[0]


def _stack(columns: Sequence[tuple[Any, Floats]]) -> Floats:
    for name, column in columns:
        if column.ndim != 1:
            raise CandidateError(f"Column {name!r} has {column.ndim} dimensions; a column of numbers has one.")
    if len({len(column) for _, column in columns}) > 1:
        lengths = ", ".join(f"{name!r} {len(column)}" for name, column in columns)
        raise LengthError(f"The columns differ in length: {lengths}.")
    return np.stack([column for _, column in columns], axis=1)


def read_columns(table: Any, columns: Sequence[Any], prior: Sequence[Any] | None = None) -> Flat:
    """Read one candidate per named column; the prior is one column or one number for each."""
    if isinstance(columns, str) or not len(columns):
        raise ParameterError(f"columns must be a list of one column name or more, not {columns!r}.")
    if len(set(columns)) < len(columns):
        raise ParameterError(f"columns names a column twice: {list(columns)!r}.")
    content = list(columns_of(table))
    candidates = [(name, as_floats(_column(content, name), f"Column {name!r}")) for name in columns]
    padded = _stack(candidates)
    if prior is None:
        return read_padded(padded)
    if isinstance(prior, str) or len(prior) != len(columns):
        raise LengthError(f"prior must give one column name or number for each of {list(columns)!r}, not {prior!r}.")
    if all(isinstance(entry, str) for entry in prior):
        shares = [(name, as_shares(_column(content, name), f"Prior column {name!r}")) for name in prior]
        return read_padded(padded, _stack([candidates[0], *shares])[:, 1:])
    return read_padded(padded, as_shares(list(prior), "The prior"))


def _is_numpy_backed(column: Any) -> bool:
    return isinstance(getattr(column, "dtype", None), np.dtype)


def _arrow(column: Any) -> Any:
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
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        return array
    entries = array.dictionary
    # Arrow cannot take from the string views that Polars hands out.
    return (entries.cast(pa.large_string()) if pa.types.is_string_view(entries.type) else entries).take(array.indices)


def _is_list_type(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_list_column(data: Any) -> bool:
    """Whether this is an Arrow, Polars or pandas column whose Arrow type is a list."""
    if _is_numpy_backed(data) or is_frame(data):
        return False
    dtype: Any = getattr(data, "dtype", None)
    if hasattr(data, "iloc"):
        return hasattr(dtype, "pyarrow_dtype") and _is_list_type(dtype.pyarrow_dtype)
    if hasattr(dtype, "is_nested"):
        return bool(dtype.is_nested()) and _is_list_type(_arrow(data).type)
    return (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")) and _is_list_type(
        _arrow(data).type
    )


def read_column(column: Any) -> Flat:
    """Read one list per row from an Arrow, Polars or pandas column, without copying float64 values."""
    if _is_numpy_backed(column) or isinstance(column, (list, tuple)):
        return read_lists(list(column))
    if not any(hasattr(column, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "iloc")) or is_frame(
        column
    ):
        raise CandidateError(
            f"A {type(column).__name__} is not one column; give an Arrow, Polars or pandas list column."
        )
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _arrow(column)
    if not _is_list_type(array.type):
        raise CandidateError(
            f"The column has Arrow type {array.type}; a list, large_list or fixed_size_list of numbers is needed. "
            "For one label per row use CandidateSets.from_labels."
        )
    sizes = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    values = array.flatten()
    if values.null_count:
        bad = rows_of(np.flatnonzero(np.asarray(values.is_null())), sizes)
        raise CandidateError(
            f"Null inside the list of {name_rows(bad)}; drop the null entries, a list names what is there."
        )
    if pa.types.is_float64(values.type):
        return Flat(values.to_numpy(zero_copy_only=True), sizes)
    kinds = pa.types
    if kinds.is_integer(values.type) or kinds.is_floating(values.type) or kinds.is_decimal(values.type):
        return Flat(values.cast(pa.float64(), safe=False).to_numpy(), sizes)
    if kinds.is_boolean(values.type) or kinds.is_null(values.type):
        return Flat(np.asarray(values.cast(pa.int8())).astype(np.float64), sizes)
    if not len(values):
        return Flat(np.empty(0), sizes)
    raise _complaint(values[0].as_py(), name_rows(rows_of(np.array([0]), sizes)))


def read_long(table: Any, row: Any, value: Any, prior: Any = None, rows: Any = None) -> Flat:
    """Read one candidate per line of a table that says which row each line belongs to."""
    content = list(columns_of(table))
    ids = _row_ids(_column(content, row), f"column {row!r}")
    values = as_floats(_column(content, value), f"Column {value!r}")
    shares = None if prior is None else as_shares(_column(content, prior), f"Column {prior!r}")
    for name, column in ((value, values), (prior, shares)):
        if column is not None and column.shape != (len(ids),):
            raise LengthError(f"Column {name!r} has shape {column.shape}; column {row!r} has {len(ids)} entries.")
    codes, names = _codes(ids, rows)
    sizes = np.bincount(codes, minlength=len(names)).astype(np.int64)
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        values, shares = values[order], None if shares is None else shares[order]
    return Flat(own(values, np.float64), sizes, shares, names=_Ids(names))


class _Ids(Sequence[Any]):
    """Row ids for error messages, turned into Python objects only where one is named."""

    def __init__(self, names: Any) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: Any) -> Any:
        return self._names[index].as_py()


def _row_ids(column: Any, what: str) -> Any:
    import pyarrow as pa

    try:
        ids = _arrow(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise CandidateError(f"The row ids in {what} are not of one plain type: {error}") from None
    if ids.null_count:
        lines = np.flatnonzero(np.asarray(ids.is_null()))
        raise CandidateError(
            f"There is no row id in {what}, {name_rows(lines)} of the table; fill or drop those lines."
        )
    kinds = pa.types
    if kinds.is_integer(ids.type):
        return ids.cast(pa.int64())
    if kinds.is_floating(ids.type):
        return ids.cast(pa.float64())
    return ids.cast(pa.large_string()) if kinds.is_string(ids.type) or kinds.is_string_view(ids.type) else ids


def _codes(ids: Any, rows: Any) -> tuple[Integers, Any]:
    """Row number of every line, and the row ids in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if rows is None:
        encoded = ids.dictionary_encode()
        return np.asarray(encoded.indices).astype(np.int64), encoded.dictionary
    names = _row_ids(rows, "rows")
    if {names.type, ids.type} == {pa.int64(), pa.float64()}:
        names, ids = names.cast(pa.float64()), ids.cast(pa.float64())
    if not len(names):
        names = names.cast(ids.type)
    if names.type != ids.type:
        raise ParameterError(f"The table's row ids are of type {ids.type} but those in rows of type {names.type}.")
    if len(names.unique()) < len(names):
        raise ParameterError("rows names a row id twice; each row has one place.")
    codes = pc.index_in(ids, value_set=names)
    if codes.null_count:
        unknown = ids.filter(codes.is_null()).unique()
        raise CandidateError(
            f"The table has lines for {name_rows(range(len(unknown)), _Ids(unknown))}, not among the {len(names)} "
            "row ids in rows; add the ids or drop those lines."
        )
    return cast(Integers, np.asarray(codes).astype(np.int64)), names
