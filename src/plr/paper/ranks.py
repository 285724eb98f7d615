"""Which methods do better than others over the data sets: mean ranks, and how far apart they must be to tell."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from plr.paper.tables import LEVEL, ResultTable

__all__ = ["FEWEST_DATASETS", "Ranking", "build_rankings", "ranks_csv"]

FEWEST_DATASETS = 5
"""With fewer data sets no critical difference is given."""

# Sees the truth, so it is no competitor of the others.
_REFERENCE = "Supervised"


@dataclass(frozen=True)
class Ranking:
    """The methods of a table by their mean rank, the best first.

    Attributes
    ----------
    title : str
        Of the table.
    model : str
    methods : tuple of str
    ranks : tuple of float
        Mean ranks over data sets; in each, the mean over its numbers of false labels. 1 is the best.
    datasets : int
        How many data sets these are.
    critical_difference : float or None
        By how much two mean ranks must differ to be told apart (Nemenyi's test, level 5 %); None for fewer data sets
        than `FEWEST_DATASETS`.
    """

    title: str
    model: str
    methods: tuple[str, ...]
    ranks: tuple[float, ...]
    datasets: int
    critical_difference: float | None

    @property
    def groups(self) -> list[tuple[int, int]]:
        """The largest groups of methods that cannot be told apart: the place of the first and of the last of each."""
        if self.critical_difference is None:
            return []
        found: list[tuple[int, int]] = []
        for first, rank in enumerate(self.ranks):
            near = [place for place, other in enumerate(self.ranks) if other - rank <= self.critical_difference]
            if near[-1] > first and (not found or near[-1] > found[-1][1]):
                found.append((first, near[-1]))
        return found


def build_rankings(tables: Iterable[ResultTable]) -> list[Ranking]:
    """Rank the methods of each table by mean test error, over the rows that have all of them.

    A method that failed to train is the last of its row. Supervised, which sees the truth, is left out, and so are
    tables with fewer than two other methods.

    References
    ----------
    Demšar, J. (2006). Statistical comparisons of classifiers over multiple data sets. Journal of Machine Learning
    Research 7, 1-30.
    """
    rankings = []
    for table in tables:
        methods = [method for method in table.methods if method != _REFERENCE]
        by_dataset: dict[str, list[np.ndarray]] = {}
        for row in table.rows:
            if all(method in row.entries for method in methods):
                means = [row.entries[method].mean for method in methods]
                errors = [np.inf if mean is None else mean for mean in means]
                by_dataset.setdefault(row.dataset, []).append(rankdata(errors))
        if len(methods) < 2 or not by_dataset:
            continue
        # The numbers of false labels of a data set are no independent samples; data sets are.
        ranks = np.mean([np.mean(found, axis=0) for found in by_dataset.values()], axis=0)
        order = np.argsort(ranks, kind="stable")
        rankings.append(
            Ranking(
                title=table.title,
                model=table.model,
                methods=tuple(methods[place] for place in order),
                ranks=tuple(float(ranks[place]) for place in order),
                datasets=len(by_dataset),
                critical_difference=_critical_difference(len(methods), len(by_dataset)),
            )
        )
    return rankings


def _critical_difference(methods: int, datasets: int) -> float | None:
    """Return Nemenyi's critical difference of mean ranks.

    >>> round(_critical_difference(4, 14), 2)
    1.25
    """
    from scipy.stats import studentized_range

    if datasets < FEWEST_DATASETS:
        return None
    quantile = float(studentized_range.ppf(1.0 - LEVEL, methods, np.inf)) / np.sqrt(2.0)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6.0 * datasets)))


def ranks_csv(rankings: Iterable[Ranking]) -> str:
    """Return the ranks as CSV, one line a model and method."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", "method", "mean_rank", "datasets", "critical_difference"])
    for ranking in rankings:
        for method, rank in zip(ranking.methods, ranking.ranks, strict=True):
            critical = "" if ranking.critical_difference is None else f"{ranking.critical_difference:.4g}"
            writer.writerow([ranking.model, method, f"{rank:.4g}", ranking.datasets, critical])
    return out.getvalue()
