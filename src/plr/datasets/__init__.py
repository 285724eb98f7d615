"""The seven data sets of the paper, and any table of the user's own, ready for the benchmark.

>>> from plr.datasets import encode, load, split
>>> airfoil = load("airfoil")
>>> train, validation, test = split(len(airfoil), seed=0)
>>> encode(airfoil, train).shape
(1503, 5)
"""

from __future__ import annotations

from plr.datasets.dataset import Dataset
from plr.datasets.encoding import encode
from plr.datasets.loading import Availability, available, dataset_of, load, load_file
from plr.datasets.registry import REGISTRY, Counts, DatasetInfo
from plr.datasets.splitting import split

__all__ = [
    "REGISTRY",
    "Availability",
    "Counts",
    "Dataset",
    "DatasetInfo",
    "available",
    "dataset_of",
    "encode",
    "load",
    "load_file",
    "split",
]
