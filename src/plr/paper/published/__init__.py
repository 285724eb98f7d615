"""The numbers of the paper's Tables 2 and 3, as printed."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from plr.paper.datasets.registry import REGISTRY

__all__ = ["MISPRINTED_DEVIATIONS", "MISPRINTED_MEANS", "Place", "Published", "find_published", "published_cells"]

Place = tuple[str, str, int, str]
"""Data set, model, number of false labels, method."""

_TABLES = ("table2_mlp.csv", "table3_linear.csv")

_MSE_REPEATED = "repeats AVGL-MSE"
_MAE_REPEATED = "repeats AVGV-MAE"

MISPRINTED_MEANS: dict[Place, str] = {
    ("auto-mpg", "mlp", 2, "AVGL-MAE"): _MSE_REPEATED,
    ("auto-mpg", "mlp", 4, "AVGL-MAE"): _MSE_REPEATED,
    ("abalone", "mlp", 4, "AVGV-MSE"): _MAE_REPEATED,
    ("abalone", "mlp", 8, "AVGV-MSE"): _MAE_REPEATED,
    ("abalone", "mlp", 16, "AVGV-MSE"): _MAE_REPEATED,
    ("power-plant", "mlp", 8, "AVGL-MAE"): _MSE_REPEATED,
    ("power-plant", "mlp", 16, "AVGL-MAE"): _MSE_REPEATED,
}
"""Means that look misprinted, and why; leave them out when counting agreement."""

MISPRINTED_DEVIATIONS: dict[Place, str] = {
    ("housing", "linear", 4, "AVGL-Huber"): "the deviation repeats the mean",
    ("cpu-act", "linear", 8, "AVGV-Huber"): "the deviation lacks its brackets",
    ("cpu-act", "linear", 2, "AVGL-MAE"): "the deviation lacks its brackets",
}
"""Deviations that look misprinted, and why; their means are sound."""


@dataclass(frozen=True)
class Published:
    """A cell of the paper's tables: mean and standard deviation of the test MSE, and what is wrong with the print."""

    mse: float
    std: float
    misprint: str | None = None


@cache
def published_cells() -> dict[Place, Published]:
    """Return all cells of Tables 2 and 3.

    >>> len(published_cells()), published_cells()["concrete", "mlp", 4, "IDent"].mse > 0
    (462, True)
    """
    names = {info.title: name for name, info in REGISTRY.items()}
    cells: dict[Place, Published] = {}
    for table in _TABLES:
        with resources.files(__name__).joinpath(table).open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                place = (names[row["dataset"]], row["model"], int(row["false_labels"]), row["method"])
                misprint = MISPRINTED_MEANS.get(place) or MISPRINTED_DEVIATIONS.get(place)
                cells[place] = Published(float(row["test_mse"]), float(row["std"]), misprint)
    return cells


def find_published(row: Mapping[str, Any]) -> Published | None:
    """Return the published number a measured row compares to; None where the paper did not measure it.

    The tables are those of uniform false labels, a random number of them per row, and all training rows.
    """
    # Supervised never sees a candidate, so how many there are makes no difference to it.
    sized = row["set_size"] == "upto" or row["method"] == "Supervised"
    if row["mechanism"] != "uniform" or row["fraction"] != 1.0 or not sized:
        return None
    return published_cells().get((row["dataset"], row["model"], row["false_labels"], row["method"]))
