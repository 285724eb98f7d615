"""Random forests over label bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.utils.parallel import Parallel, delayed

from plr._fields import require
from plr.densities.bins import Bins
from plr.densities.mixture import DensityTask
from plr.folds import average_folds

__all__ = ["FittedForest", "Forest"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Grown = tuple[Any, NDArray[np.bool_]]

# Rows are predicted in parts of this size, each by all trees in order, so that sums do not depend on threads.
_PART = 4096


@dataclass(frozen=True)
class FittedForest:
    """Trees whose leaves hold heights at bin centres."""

    bins: Bins
    trees: tuple[Any, ...]
    threads: int

    def __post_init__(self) -> None:
        require(len(self.trees) > 0 and self.threads >= 1, "a forest needs trees and a thread")

    def heights(self, X: Floats) -> Floats:
        """Return each row's density at the bin centres, the mean over trees."""
        return self.bins.nearest_density(
            _predict(self.trees, None, X, self.bins.count, min(self.threads, joblib.cpu_count()))[0]
        )


@dataclass(frozen=True)
class Forest:
    """A random forest whose target is a row's histogram of candidates less what false labels add to it on average.

    Trees are grown on rows, or groups of rows, drawn with replacement, and those not drawn predict a row. Where only
    given folds may be left out, one forest is grown without each.

    Parameters
    ----------
    rows_per_leaf : int
    bins : int
    trees : int
    most_rows : int
        Rows that one tree is grown on, about.
    """

    rows_per_leaf: int
    bins: int = 24
    trees: int = 100
    most_rows: int = 10_000

    def __str__(self) -> str:
        return f"forest, {self.rows_per_leaf} rows a leaf"

    def fit(self, problem: DensityTask) -> tuple[FittedForest, Floats]:
        """Grow the trees, and predict each row by those that have not seen it."""
        bins = Bins.over(problem.S, self.bins, problem.weight)
        target, weight = problem.excess(bins)
        data = np.ascontiguousarray(problem.X, dtype=np.float32), target, weight
        rows = len(weight)
        if problem.units is not None:
            grown = self._grow(data, np.arange(rows), problem.units, problem.seed, self.trees, problem.threads)
            trees, bags = [tree for tree, _ in grown], np.array([drawn for _, drawn in grown])
            total, times = _predict(trees, bags, problem.X, self.bins, problem.threads)
            # A row that every tree has seen is predicted by none; the mean of all rows stands in.
            total[times == 0] = np.average(target, axis=0, weights=weight)
        else:
            parts: list[Floats] = []
            trees = []
            for fold, (train, test) in enumerate(problem.folds):
                each = max(20, self.trees // len(problem.folds))
                grown = self._grow(data, train, np.arange(rows), problem.seed + 1 + fold, each, problem.threads)
                trees.extend(tree for tree, _ in grown)
                parts.append(_predict(trees[-each:], None, problem.X[test], self.bins, problem.threads)[0])
            total = average_folds(problem.folds, parts, rows)
        return FittedForest(bins, tuple(trees), problem.threads), bins.nearest_density(total)

    def _grow(
        self,
        data: tuple[NDArray[np.float32], Floats, Floats],
        among: Rows,
        units: Rows,
        seed: int,
        trees: int,
        threads: int,
    ) -> list[Grown]:
        """Grow trees on units drawn from among some rows; each comes with which of all rows it has seen."""
        from sklearn.tree import DecisionTreeRegressor

        X, target, weight = data
        heavy = among[weight[among] > 0]
        kinds, unit = np.unique(units[heavy], return_inverse=True)
        draws = max(1, round(len(kinds) * min(1.0, self.most_rows / len(heavy))))
        # Half of the columns, unless there are so many that fewer will do.
        columns = X.shape[1]
        looked_at = max(1, min(columns // 2, max(32, round(columns**0.5))))

        def grow(number: int) -> Grown:
            random = np.random.default_rng([seed, number])
            times = np.bincount(random.integers(len(kinds), size=draws), minlength=len(kinds))
            of_row = times[unit]
            drawn = heavy[of_row > 0]
            tree = DecisionTreeRegressor(
                min_samples_leaf=min(self.rows_per_leaf, max(1, len(drawn) // 4)),
                max_features=looked_at,
                random_state=int(random.integers(2**31 - 1)),
            )
            tree.fit(X[drawn], target[drawn], sample_weight=of_row[of_row > 0] * weight[drawn], check_input=False)
            # By units, not rows: a row without weight has been seen where others of its group have.
            return tree.tree_, np.isin(units, kinds[times > 0])

        # On few rows, scikit-learn's checks would take as long as the trees do.
        with config_context(skip_parameter_validation=True):
            return Parallel(n_jobs=threads, prefer="threads")(delayed(grow)(number) for number in range(trees))


def _predict(
    trees: Any, bags: NDArray[np.bool_] | None, X: Floats, bins: int, threads: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Return each row's mean over the trees that have not seen it, 0 where there is none, and how many these are."""
    rows = np.ascontiguousarray(X, dtype=np.float32)

    def part(first: int) -> tuple[Floats, NDArray[np.int64]]:
        block = rows[first : first + _PART]
        total = np.zeros((len(block), bins))
        times = np.zeros(len(block), dtype=np.int64)
        for number, tree in enumerate(trees):
            unseen = slice(None) if bags is None else np.flatnonzero(~bags[number, first : first + _PART])
            part_rows = block[unseen]
            if len(part_rows):
                total[unseen] += tree.predict(part_rows).reshape(len(part_rows), -1)
                times[unseen] += 1
        return total / np.maximum(times, 1)[:, None], times

    found = Parallel(n_jobs=threads, prefer="threads")(delayed(part)(first) for first in range(0, len(rows), _PART))
    return np.concatenate([means for means, _ in found]), np.concatenate([times for _, times in found])
