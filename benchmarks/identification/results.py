"""Lines put together again: what was measured of each method in each cell, and comparisons over common trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from benchmarks.identification.cases import Case, Plan
from benchmarks.identification.measuring import Job
from scipy import stats

from plr.paper.tables import LEVEL, paired_p_value

__all__ = ["Comparison", "Results", "compare", "geometric_mean", "mean_std", "standard_error"]

Trials = Mapping[int, float]


class Results:
    """Lines by what they are of.

    Parameters
    ----------
    lines : iterable of dict
        What `benchmarks.harness.read_lines` returns; failures are left out.
    revision : str
        Take only lines measured at a revision that begins so.
    quick : bool
        Take the lines of quick methods.
    """

    def __init__(self, lines: Iterable[dict[str, Any]], *, revision: str = "", quick: bool = False) -> None:
        self.quick = quick
        self.revisions: set[str] = set()
        self._by_key: dict[str, dict[str, Any]] = {}
        for line in lines:
            if "error" in line or not line["revision"].startswith(revision):
                continue
            known = self._by_key.setdefault(line["key"], line)
            if known["test_mse"] != line["test_mse"]:
                raise SystemExit(
                    f"{line['method']} on {line['dataset']}, trial {line['trial']}, was measured as "
                    f"{known['test_mse']:g} at {known['revision']} and as {line['test_mse']:g} at {line['revision']}; "
                    "say which with --revision, or remove one of the two."
                )

    def lines(self, method: str, cell: Case, trials: int) -> dict[int, dict[str, Any]]:
        """Return a method's lines in a cell by trial."""
        found = {}
        for trial in range(trials):
            line = self._by_key.get(Job.of(replace(cell, trial=trial), method, self.quick).key)
            if line is not None:
                self.revisions.add(line["revision"])
                found[trial] = line
        return found

    def errors(self, method: str, cell: Case, trials: int) -> dict[int, float]:
        """Return a method's test errors in a cell by trial."""
        return self.values("test_mse", method, cell, trials)

    def values(self, name: str, method: str, cell: Case, trials: int) -> dict[int, float]:
        """Return some number of a method's lines in a cell by trial, where they have it."""
        found = {trial: line.get(name) for trial, line in self.lines(method, cell, trials).items()}
        return {trial: value for trial, value in found.items() if value is not None}


def cells_of(plan: Plan) -> Iterator[Case]:
    """Return the cells of a plan: its cases, trials aside."""
    return replace(plan, trials=1).cases()


def mean_std(values: Trials) -> tuple[float, float]:
    """Return mean and standard deviation over trials, NaN where there are none, or only one.

    >>> mean_std({0: 1.0, 1: 3.0})
    (2.0, 1.4142135623730951)
    """
    numbers = np.array(list(values.values()))
    mean = float(numbers.mean()) if numbers.size else float("nan")
    return mean, float(numbers.std(ddof=1)) if numbers.size > 1 else float("nan")


def standard_error(values: Trials) -> float:
    """Return the standard error of the mean over trials."""
    return mean_std(values)[1] / float(np.sqrt(max(len(values), 1)))


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean, NaN of nothing; what is not finite is left out.

    >>> geometric_mean([2.0, 0.5])
    1.0
    """
    found = np.array([ratio for ratio in ratios if np.isfinite(ratio)])
    return float(np.exp(np.log(found).mean())) if found.size else float("nan")


@dataclass(frozen=True)
class Comparison:
    """Two methods over their common trials.

    Attributes
    ----------
    trials : int
        How many there are.
    ratio : float
        Of the mean errors, first over second.
    ratio_error : float
        Its standard error, by leaving out one trial at a time.
    difference, difference_error : float
        Mean difference of the errors, and its standard error.
    p_value : float or None
        Of a paired t-test; None with too few trials.
    corrected_p_value : float or None
        The same, corrected for overlapping splits.
    """

    trials: int
    ratio: float
    ratio_error: float
    difference: float
    difference_error: float
    p_value: float | None
    corrected_p_value: float | None

    @property
    def worse(self) -> bool:
        """Whether the first is worse by the paired t-test, the harsher of the two."""
        return self.p_value is not None and self.p_value < LEVEL and self.difference > 0

    @property
    def tied_or_better(self) -> bool:
        """Whether the first is better, or worse by at most one standard error of the difference."""
        return self.difference <= max(self.difference_error, 0.0) if np.isfinite(self.difference_error) else False


def compare(first: Trials, second: Trials) -> Comparison:
    """Compare two methods over their common trials."""
    common = sorted(first.keys() & second.keys())
    a, b = (np.array([errors[trial] for trial in common]) for errors in (first, second))
    nothing = float("nan")
    if not common:
        return Comparison(0, nothing, nothing, nothing, nothing, None, None)
    n = len(common)
    ratio = float(a.mean() / b.mean())
    ratio_error = difference_error = nothing
    if n > 1:
        without = (a.sum() - a) / (b.sum() - b)
        ratio_error = float(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))
        difference_error = float((a - b).std(ddof=1) / np.sqrt(n))
    corrected = paired_p_value(first, second)
    plain = None
    if corrected is not None:
        plain = corrected if np.ptp(a - b) == 0 else float(stats.ttest_rel(a, b).pvalue)
    return Comparison(n, ratio, ratio_error, float((a - b).mean()), difference_error, plain, corrected)
