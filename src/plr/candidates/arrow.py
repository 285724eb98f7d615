"""Reading list columns: Arrow, Polars or pandas. pyarrow is imported where it is used, so it never loads needlessly."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr.candidates.checks import name_rows
from plr.candidates.flat import Flat, rows_of
from plr.candidates.floats import complaint
from plr.candidates.readers import read_lists
from plr.candidates.tables import check_buffers, is_frame
from plr.errors import CandidateError

__all__ = ["as_arrow", "is_list_column", "read_column"]


def is_list_column(data: Any) -> bool:
    """Whether this is an Arrow, Polars or pandas column whose Arrow type is a list."""
    if _is_numpy_backed(data) or is_frame(data):
        return False
    dtype: Any = getattr(data, "dtype", None)
    if hasattr(data, "iloc"):
        return hasattr(dtype, "pyarrow_dtype") and _is_list_type(dtype.pyarrow_dtype)
    if hasattr(dtype, "is_nested"):
        return bool(dtype.is_nested()) and _is_list_type(as_arrow(data).type)
    return (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")) and _is_list_type(
        as_arrow(data).type
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

    array = as_arrow(column)
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
    raise complaint(values[0].as_py(), name_rows(rows_of(np.array([0]), sizes)))


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


def _is_list_type(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_numpy_backed(column: Any) -> bool:
    return isinstance(getattr(column, "dtype", None), np.dtype)
