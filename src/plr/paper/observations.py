"""The five observations of the paper's "Experimental Performance", each as statements to be counted on a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from plr.paper.published import MISPRINTED_MEANS, Place, published_cells

__all__ = ["GENERALLY", "Claim", "Observation", "check_observations", "measured_means", "published_means"]

Means = Mapping[Place, float]

GENERALLY = 2 / 3
"""The share of cases from which on something is generally so."""

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
        None where the table has nothing to judge it by.
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
        """False where any claim fails, True where all hold, None where some cannot be judged and none fails."""
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
    return [
        Observation(
            1,
            "IDent and PIDent do better than every baseline, and here and there as well as full supervision.",
            (_ours_beat_baselines(means), _ours_match_supervised(means)),
        ),
        Observation(
            2,
            "More false labels make every method worse: the baselines much, IDent and PIDent only a little.",
            (_all_degrade(means), _ours_degrade_less(means)),
        ),
        Observation(
            3,
            "The MLP mostly does better than the linear model.",
            (_mlp_beats_linear(means),),
        ),
        Observation(4, "PIDent does slightly better than IDent.", _progressive_helps(means)),
        Observation(
            5,
            "AVGL mostly does better than AVGV, and MAE and Huber clearly better than MSE.",
            (_loss_beats_value(means), _robust_beats_squared(means, "AVGL"), _robust_beats_squared(means, "AVGV")),
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
    cases = {}
    for dataset, model, size in _rows(means):
        ours = [means.get((dataset, model, size, method)) for method in _OURS]
        others = [means[place] for method in _BASELINES if (place := (dataset, model, size, method)) in means]
        if None not in ours and others:
            cases[dataset, model, size] = max(number for number in ours if number is not None) < min(others)
    return _everywhere(
        "IDent and PIDent both have a lower mean test MSE than every baseline, in every row (data set, model, |S̄|).",
        cases,
    )


def _ours_match_supervised(means: Means) -> Claim:
    cases = {
        place: number <= _PAR * means[dataset, model, 0, "Supervised"]
        for place, number in means.items()
        for dataset, model, _, method in [place]
        if method in _OURS and (dataset, model, 0, "Supervised") in means
    }
    count = sum(cases.values())
    statement = "Somewhere IDent or PIDent comes within 5 % of the mean test MSE of Supervised, or below it."
    return Claim(statement, count > 0 if cases else None, count, len(cases))


def _all_degrade(means: Means) -> Claim:
    methods = (*_BASELINES, *_OURS)
    cases = {key: rise > 0 for key, rise in _rises(means).items() if key[2] in methods}
    return _everywhere(
        "Mean test MSE is higher with the most false labels than with the fewest, in every series (data set, model, "
        "method).",
        cases,
    )


def _ours_degrade_less(means: Means) -> Claim:
    rises = _rises(means)
    cases = {}
    shares = []
    for dataset, model in dict.fromkeys(key[:2] for key in rises):
        ours = [rises.get((dataset, model, method)) for method in _OURS]
        others = [rises[key] for method in _BASELINES if (key := (dataset, model, method)) in rises]
        if None in ours or not others:
            continue
        largest = max(number for number in ours if number is not None)
        cases[dataset, model] = largest < min(others)
        # Barely trained models need not rise at all.
        if (typical := statistics.median(others)) > 0:
            shares.append(largest / typical)
    claim = _everywhere(
        "Mean test MSE rises less for IDent and for PIDent than for any baseline, from the fewest false labels to the "
        "most, in every pair of data set and model.",
        cases,
    )
    if not shares:
        return claim
    words = f"The larger of the two rises is {_percent(statistics.median(shares))} of the baselines' median rise."
    return replace(claim, detail=f"{words} {claim.detail}".strip())


def _mlp_beats_linear(means: Means) -> Claim:
    cases = {
        place: number < means[place[0], "linear", place[2], place[3]]
        for place, number in means.items()
        if place[1] == "mlp" and (place[0], "linear", place[2], place[3]) in means
    }
    return _generally("The MLP has a lower mean test MSE than the linear model, by data set, method and |S̄|.", cases)


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
    statement = "The difference is slight: at most 10 % of PIDent's mean test MSE, in at least two thirds of the rows."
    slight = {row: abs(ratio - 1.0) <= _SLIGHTLY for row, ratio in ratios.items()}
    claim = _share_claim(statement, slight)
    if ratios:
        median = _percent(statistics.median(ratios.values()) - 1.0, signed=True)
        claim = replace(claim, detail=f"Median difference {median}.")
    return better, claim


def _loss_beats_value(means: Means) -> Claim:
    # With the squared loss both have the same gradient, so only chance could tell them apart.
    cases = {
        (*row, loss): means[*row, f"AVGL-{loss}"] < means[*row, f"AVGV-{loss}"]
        for row in _rows(means)
        for loss in ("MAE", "Huber")
        if _have(means, row, f"AVGL-{loss}", f"AVGV-{loss}")
    }
    return _generally(
        "AVGL has a lower mean test MSE than AVGV with the same loss, MAE or Huber (with MSE the two are one method).",
        cases,
    )


def _robust_beats_squared(means: Means, kind: str) -> Claim:
    cases = {
        (*row, loss): means[*row, f"{kind}-{loss}"] < means[*row, f"{kind}-MSE"]
        for row in _rows(means)
        for loss in ("MAE", "Huber")
        if _have(means, row, f"{kind}-{loss}", f"{kind}-MSE")
    }
    return _generally(f"{kind}-MAE and {kind}-Huber have a lower mean test MSE than {kind}-MSE.", cases)


def _rows(means: Means) -> list[tuple[str, str, int]]:
    return list(dict.fromkeys((dataset, model, size) for dataset, model, size, _ in means if size > 0))


def _have(means: Means, row: tuple[str, str, int], *methods: str) -> bool:
    return all((*row, method) in means for method in methods)


def _rises(means: Means) -> dict[tuple[str, str, str], float]:
    """Return by how much each series rises from its fewest false labels to its most."""
    series: dict[tuple[str, str, str], dict[int, float]] = {}
    for (dataset, model, size, method), number in means.items():
        if size > 0:
            series.setdefault((dataset, model, method), {})[size] = number
    return {key: sizes[max(sizes)] - sizes[min(sizes)] for key, sizes in series.items() if len(sizes) > 1}


def _everywhere(statement: str, cases: Mapping[tuple[Any, ...], bool]) -> Claim:
    return _make(statement, cases, lambda count, total: count == total)


def _generally(statement: str, cases: Mapping[tuple[Any, ...], bool]) -> Claim:
    return _share_claim(f"{statement} Generally: in at least two thirds.", cases)


def _share_claim(statement: str, cases: Mapping[tuple[Any, ...], bool]) -> Claim:
    return _make(statement, cases, lambda count, total: count >= GENERALLY * total)


def _make(statement: str, cases: Mapping[tuple[Any, ...], bool], judge: Callable[[int, int], bool]) -> Claim:
    total, count = len(cases), sum(cases.values())
    exceptions = [" ".join(map(str, case)) for case, so in cases.items() if not so]
    named = "; ".join(exceptions[:6]) + (f" and {len(exceptions) - 6} more" if len(exceptions) > 6 else "")
    return Claim(
        statement, judge(count, total) if total else None, count, total, f"Exceptions: {named}." if named else ""
    )


def _percent(share: float, *, signed: bool = False) -> str:
    return f"{100 * share:{'+' if signed else ''}.1f} %"
