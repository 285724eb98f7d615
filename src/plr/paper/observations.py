"""The five observations of the paper's "Experimental Performance", each as statements to be counted on a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from plr.paper.published import MISPRINTED_MEANS, Place, published_cells

__all__ = ["Claim", "Observation", "check_observations", "measured_means", "published_means"]

Means = Mapping[Place, float]

# The share of cases from which on something is generally so.
_GENERALLY = 2 / 3

_OURS = ("IDent", "PIDent")
_LOSSES = ("MSE", "MAE", "Huber")
_BASELINES = tuple(f"{kind}-{loss}" for kind in ("AVGL", "AVGV") for loss in _LOSSES)
_MODELS = ("mlp", "linear")
_PAR = 1.05
_SLIGHTLY = 0.10


@dataclass(frozen=True)
class Claim:
    """A statement that can be counted.

    Attributes
    ----------
    statement : str
    holds : bool or None
        None where the table does not contain what it is about.
    count, total : int
        Cases in which it is so, of all cases.
    detail : str
        What else is worth knowing, such as where it fails.
    """

    statement: str
    holds: bool | None
    count: int
    total: int
    detail: str = ""


@dataclass(frozen=True)
class Observation:
    """One of the paper's observations, and the claims it makes."""

    number: int
    summary: str
    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool | None:
        """False where any claim fails, True where all hold, None where some cannot be checked and none fails."""
        verdicts = [claim.holds for claim in self.claims]
        if False in verdicts:
            return False
        return None if None in verdicts else True


def check_observations(means: Means) -> list[Observation]:
    """Check the five observations on a table of mean test errors.

    Parameters
    ----------
    means : mapping
        Mean test MSE by data set, model, number of false labels and method; see `measured_means`, `published_means`.

    Examples
    --------
    >>> [observation.holds for observation in check_observations(published_means())]
    [False, True, True, True, False]
    """
    beside_linear = {
        (dataset, model, size, method): number < means[dataset, "linear", size, method]
        for (dataset, model, size, method), number in means.items()
        if model == "mlp" and (dataset, "linear", size, method) in means
    }
    robust = {kind: [(f"{kind}-{loss}", f"{kind}-MSE", loss) for loss in ("MAE", "Huber")] for kind in ("AVGL", "AVGV")}
    return [
        Observation(
            1,
            "IDent and PIDent do better than every baseline, and here and there as well as full supervision.",
            (_ours_beat_baselines(means), _ours_match_supervised(means)),
        ),
        Observation(
            2,
            "More false labels make every method worse: the baselines much, IDent and PIDent only a little.",
            _all_degrade(means),
        ),
        Observation(
            3,
            "The MLP mostly does better than the linear model.",
            (
                _generally(
                    "The MLP has a lower mean test MSE than the linear model, by data set, method and |S̄|.",
                    beside_linear,
                ),
            ),
        ),
        Observation(4, "PIDent does slightly better than IDent.", _progressive_helps(means)),
        Observation(
            5,
            "AVGL mostly does better than AVGV, and MAE and Huber clearly better than MSE.",
            (
                # With the squared loss both have the same gradient, so only chance could tell them apart.
                _generally(
                    "AVGL has a lower mean test MSE than AVGV with the same loss, MAE or Huber (with MSE the two are "
                    "one method).",
                    _wins(means, [(f"AVGL-{loss}", f"AVGV-{loss}", loss) for loss in ("MAE", "Huber")]),
                ),
                *(
                    _generally(
                        f"{kind}-MAE and {kind}-Huber have a lower mean test MSE than {kind}-MSE.", _wins(means, pairs)
                    )
                    for kind, pairs in robust.items()
                ),
            ),
        ),
    ]


def measured_means(table: Iterable[Mapping[str, Any]]) -> dict[Place, float]:
    """Return the means that `plr.paper.selection.tabulate` found for the paper's models on all training rows."""
    return {
        (row["dataset"], row["model"], row["false_labels"], row["method"]): row["test_mse"]
        for row in table
        if row["test_mse"] is not None
        and row["model"] in _MODELS
        and row["fraction"] == 1.0
        and row["false_labels"] is not None
    }


def published_means() -> dict[Place, float]:
    """Return the published means, less the misprinted."""
    return {place: cell.mse for place, cell in published_cells().items() if place not in MISPRINTED_MEANS}


def _ours_beat_baselines(means: Means) -> Claim:
    return _claim(
        "IDent and PIDent both have a lower mean test MSE than every baseline, in every row (data set, model, |S̄|).",
        {row: ours < min(others) for row, ours, others in _beside_baselines(means, _rows(means))},
    )


def _ours_match_supervised(means: Means) -> Claim:
    cases = [
        number <= _PAR * means[dataset, model, 0, "Supervised"]
        for (dataset, model, _, method), number in means.items()
        if method in _OURS and (dataset, model, 0, "Supervised") in means
    ]
    statement = "Somewhere IDent or PIDent comes within 5 % of the mean test MSE of Supervised, or below it."
    return Claim(statement, any(cases) if cases else None, sum(cases), len(cases))


def _all_degrade(means: Means) -> tuple[Claim, Claim]:
    series: dict[tuple[str, str, str], dict[int, float]] = {}
    for (dataset, model, size, method), number in means.items():
        if size > 0 and method in (*_BASELINES, *_OURS):
            series.setdefault((dataset, model, method), {})[size] = number
    # By how much each series rises from its fewest false labels to its most.
    rises = {key: sizes[max(sizes)] - sizes[min(sizes)] for key, sizes in series.items() if len(sizes) > 1}
    all_rise = _claim(
        "Mean test MSE is higher with the most false labels than with the fewest, in every series (data set, model, "
        "method).",
        {key: rise > 0 for key, rise in rises.items()},
    )
    compared = _beside_baselines(rises, dict.fromkeys(key[:2] for key in rises))
    # Barely trained models need not rise at all.
    shares = [ours / typical for _, ours, others in compared if (typical := statistics.median(others)) > 0]
    detail = ""
    if shares:
        median = 100 * statistics.median(shares)
        detail = f"The larger of the two rises is {median:.1f} % of the baselines' median rise."
    less = _claim(
        "Mean test MSE rises less for IDent and for PIDent than for any baseline, from the fewest false labels to the "
        "most, in every pair of data set and model.",
        {pair: ours < min(others) for pair, ours, others in compared},
        detail=detail,
    )
    return all_rise, less


def _progressive_helps(means: Means) -> tuple[Claim, Claim]:
    ratios = {
        (dataset, model, size): number / means[dataset, model, size, "PIDent"]
        for (dataset, model, size, method), number in means.items()
        if method == "IDent" and means.get((dataset, model, size, "PIDent"), 0.0) > 0
    }
    better = _generally(
        "PIDent has a lower mean test MSE than IDent, over the rows (data set, model, |S̄|).",
        {row: ratio > 1.0 for row, ratio in ratios.items()},
    )
    slight = _claim(
        "The difference is slight: at most 10 % of PIDent's mean test MSE, in at least two thirds of the rows.",
        {row: abs(ratio - 1.0) <= _SLIGHTLY for row, ratio in ratios.items()},
        _GENERALLY,
    )
    if ratios:
        median = 100 * (statistics.median(ratios.values()) - 1.0)
        slight = replace(slight, detail=f"Median difference {median:+.1f} %.")
    return better, slight


def _beside_baselines(
    numbers: Mapping[Any, float], places: Iterable[tuple[Any, ...]]
) -> list[tuple[tuple[Any, ...], float, list[float]]]:
    """Return, for each place that has both, the larger number of IDent and PIDent and those of the baselines."""
    found = []
    for place in places:
        ours, others = (
            [numbers[*place, method] for method in methods if (*place, method) in numbers]
            for methods in (_OURS, _BASELINES)
        )
        if len(ours) == len(_OURS) and others:
            found.append((place, max(ours), others))
    return found


def _rows(means: Means) -> list[tuple[str, str, int]]:
    return list(dict.fromkeys((dataset, model, size) for dataset, model, size, _ in means if size > 0))


def _wins(means: Means, pairs: Iterable[tuple[str, str, str]]) -> dict[tuple[Any, ...], bool]:
    """Return in which rows the first method of each pair has a lower mean than the second; its third part names it."""
    return {
        (*row, name): means[*row, first] < means[*row, second]
        for row in _rows(means)
        for first, second, name in pairs
        if (*row, first) in means and (*row, second) in means
    }


def _generally(statement: str, cases: Mapping[tuple[Any, ...], bool]) -> Claim:
    return _claim(f"{statement} Generally: in at least two thirds.", cases, _GENERALLY)


def _claim(statement: str, cases: Mapping[tuple[Any, ...], bool], share: float = 1.0, detail: str = "") -> Claim:
    """Return a statement that holds if that share of the cases are so; exceptions are named after the detail."""
    total, count = len(cases), sum(cases.values())
    exceptions = [" ".join(map(str, case)) for case, so in cases.items() if not so]
    if exceptions:
        more = f" and {len(exceptions) - 6} more" if len(exceptions) > 6 else ""
        detail = f"{detail} Exceptions: {'; '.join(exceptions[:6])}{more}.".strip()
    return Claim(statement, count >= share * total if total else None, count, total, detail)
