"""The seven data sets of the paper, and any table of the user's own, ready for the benchmark.

>>> from plr.paper.datasets import encode, load, split
>>> airfoil = load("airfoil")
>>> train, validation, test = split(len(airfoil), seed=0)
>>> encode(airfoil, train).shape
(1503, 5)
"""

from __future__ import annotations

from plr.columns.dataset import Dataset, dataset_of, encode
from plr.paper.datasets.loading import Availability, available, load, load_file, split
from plr.paper.datasets.registry import REGISTRY, DatasetInfo

__all__ = [
    "REGISTRY",
    "Availability",
    "Dataset",
    "DatasetInfo",
    "available",
    "dataset_of",
    "encode",
    "load",
    "load_file",
    "split",
]
