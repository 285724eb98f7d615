"""Neighbours' candidates, counted by label bins."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from plr._fields import MATRIX, require
from plr.densities.bins import Bins
from plr.densities.mixture import DensityTask
from plr.folds import average_folds

__all__ = ["FittedNeighbours", "Neighbours"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_PART = 2048


@dataclass(frozen=True)
class FittedNeighbours:
    """Rows to look among, and their histograms."""

    bins: Bins
    rows: Floats = field(metadata=MATRIX)
    count: int
    target: Floats = field(metadata=MATRIX)
    weight: Floats
    threads: int

    def __post_init__(self) -> None:
        rows = len(self.rows)
        require(1 <= self.count <= rows and self.threads >= 1, "more neighbours than rows")
        require(self.weight.shape == (rows,), "rows and weights differ in number")
        require(self.target.shape == (rows, self.bins.count), "histograms and bins differ in number")

    @cached_property
    def index(self) -> Any:
        """What finds a row's neighbours."""
        from sklearn.neighbors import NearestNeighbors

        return NearestNeighbors(n_neighbors=self.count, n_jobs=1).fit(self.rows)

    def heights(self, X: Floats) -> Floats:
        """Return each row's density at the bin centres: the mean of its neighbours'."""

        def part(first: int) -> Floats:
            places = self.index.kneighbors(X[first : first + _PART], return_distance=False)
            weight = self.weight[places][:, :, None]
            mean: Floats = (self.target[places] * weight).sum(axis=1) / weight.sum(axis=1)
            return mean

        _ = self.index
        threads = min(self.threads, joblib.cpu_count())
        parts = Parallel(n_jobs=threads, prefer="threads")(delayed(part)(row) for row in range(0, len(X), _PART))
        return self.bins.nearest_density(np.concatenate(parts))


@dataclass(frozen=True)
class Neighbours:
    """The mean over a row's neighbours, by distance of encoded features, of their histograms less false labels.

    Parameters
    ----------
    count : int
        Neighbours.
    bins : int
    most_rows : int
        Rows to look among, drawn at random where there are more.
    """

    count: int
    bins: int = 24
    most_rows: int = 20_000

    def __str__(self) -> str:
        return f"{self.count} neighbours"

    def fit(self, problem: DensityTask) -> tuple[FittedNeighbours, Floats]:
        """Look among the rows outside each fold, and for new rows among all."""
        bins = Bins.over(problem.S, self.bins, problem.weight)
        target, weight = problem.excess(bins)
        parts = [
            self._among(problem, bins, target, weight, train, fold).heights(problem.X[test])
            for fold, (train, test) in enumerate(problem.folds)
        ]
        everywhere = self._among(problem, bins, target, weight, np.flatnonzero(weight > 0), len(parts))
        return everywhere, average_folds(problem.folds, parts, len(weight))

    def _among(
        self, problem: DensityTask, bins: Bins, target: Floats, weight: Floats, rows: Rows, fold: int
    ) -> FittedNeighbours:
        if len(rows) > self.most_rows:
            random = np.random.default_rng([problem.seed, fold])
            rows = np.sort(random.choice(rows, self.most_rows, replace=False))
        count = min(self.count, len(rows))
        return FittedNeighbours(bins, problem.X[rows], count, target[rows], weight[rows], problem.threads)
