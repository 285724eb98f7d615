"""Tables 1 to 3 from a store: measured beside published, the best marked, the others tested against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr

from plr.paper.agreement import Comparison, compare
from plr.paper.datasets import split
from plr.paper.datasets.registry import REGISTRY
from plr.paper.methods import METHODS
from plr.paper.published import Place
from plr.paper.selection import parse_selection

__all__ = [
    "DEFAULT",
    "FEWEST_TRIALS",
    "LEVEL",
    "TEST_IN_WORDS",
    "Characteristics",
    "Entry",
    "ResultTable",
    "TableRow",
    "beside_models",
    "build_table1",
    "build_tables",
    "dataset_title",
    "describe_selection",
    "in_paper_order",
    "model_title",
    "paired_p_value",
]

FEWEST_TRIALS = 5
"""Below this no test is made."""

LEVEL = 0.05

# Trials are overlapping splits of the same rows, so their differences vary less than those of fresh data would.
# Nadeau and Bengio's correction adds the ratio of test to training rows, here 20 % to 60 %.
_TEST_TO_TRAINING = 1.0 / 3.0

TEST_IN_WORDS = (
    "two-sided paired t-test over the common trials, corrected for overlapping splits (Nadeau and Bengio 2003), at the "
    f"level {100 * LEVEL:g} %"
)

_NUMBERS = {"mlp": 2, "linear": 3}
_MODEL_TITLES = {
    "mlp": "MLP",
    "mlp-relu": "MLP with ReLU after every layer",
    "linear": "linear model",
    "default": "library's default",
}
# Sees the truth, so it is no competitor of the others.
_REFERENCE = "Supervised"

DEFAULT = "Default"
"""The method that is the library's default; it brings its own model, and is shown beside the methods of every other."""

_EPOCHS = {
    "last": "the last epoch",
    "loss": "the best epoch by the method's own loss on validation candidates",
    "evidence": "the best epoch by the evidence of the validation candidates",
    "truth": "the best epoch by true validation labels",
}
_SETTINGS = {
    "loss": "the method's own loss on validation candidates",
    "evidence": "the evidence of the validation candidates",
    "truth": "true validation labels",
}


@dataclass(frozen=True)
class Characteristics:
    """A row of Table 1: rows of the training, test and validation part, and features; None for the user's own data."""

    dataset: str
    counts: tuple[int, int, int, int] | None
    published: tuple[int, int, int, int] | None


@dataclass(frozen=True)
class Entry:
    """One method's result in one row of a table.

    Attributes
    ----------
    mean, std : float or None
    trials, failed_trials : int
    comparison : Comparison or None
        Beside the published number, where there is one.
    best : bool
        Whether the mean is the least of the row, Supervised aside.
    p_value : float or None
        Of the paired test against the best method; None for the best, for Supervised, and where no test is made.
    """

    mean: float | None
    std: float | None
    trials: int
    failed_trials: int
    comparison: Comparison | None
    best: bool
    p_value: float | None

    @property
    def not_worse(self) -> bool:
        """Whether the test finds no difference to the best method."""
        return self.p_value is not None and self.p_value >= LEVEL


@dataclass(frozen=True)
class TableRow:
    """A data set and a number of false labels, with the methods' entries; None is a number the mechanism decides."""

    dataset: str
    false_labels: int | None
    entries: Mapping[str, Entry]


@dataclass(frozen=True)
class ResultTable:
    """A table of test errors of one model.

    Attributes
    ----------
    name : str
        For files and links: ``table2``, ``table3``, or ``table-`` and the model.
    title, caption : str
    model, selection, per : str
    methods : tuple of str
        The columns, Supervised first where it was run.
    rows : tuple of TableRow
    """

    name: str
    title: str
    caption: str
    model: str
    selection: str
    per: str
    methods: tuple[str, ...]
    rows: tuple[TableRow, ...]

    @property
    def has_published(self) -> bool:
        """Whether any entry has a published number beside it."""
        return any(entry.comparison is not None for row in self.rows for entry in row.entries.values())


def build_table1(datasets: Iterable[str]) -> list[Characteristics]:
    """Return Table 1: how many rows `plr.paper.datasets.split` puts into each part, and the features before encoding.

    The data need not be there: a table whose rows or columns are not those of the registry does not pass its checksum.
    """
    table = []
    for name in in_paper_order(datasets, REGISTRY):
        counts = published = None
        if name in REGISTRY:
            info = REGISTRY[name]
            train, validation, test = (len(part) for part in split(info.rows, seed=0))
            counts, published = (train, test, validation, len(info.features)), info.table1
        table.append(Characteristics(name, counts, published))
    return table


def beside_models(chosen: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return fits with those of `DEFAULT` once for each other model, to be shown beside its methods."""
    fits = list(chosen)
    models = dict.fromkeys(row["model"] for row in fits if row["method"] != DEFAULT)
    return [
        {**row, "model": model}
        for row in fits
        for model in (models if row["method"] == DEFAULT and models else (row["model"],))
    ]


def build_tables(
    chosen: Iterable[dict[str, Any]],
    summary: Iterable[dict[str, Any]],
    *,
    per: str = "trial",
    notes: Mapping[Place, str] | None = None,
) -> list[ResultTable]:
    """Build the result tables: Table 2 (MLP) and Table 3 (linear), then one for each other model of the store.

    Parameters
    ----------
    chosen, summary : iterable of dict
        What `plr.paper.selection.choose` and ``summarise`` returned under one rule.
    per : {"trial", "cell"}, default="trial"
        As it was given to ``choose``.
    notes : mapping, optional
        Reasons for disagreements, see `plr.paper.agreement.read_notes`.
    """
    fits, cells = list(chosen), list(summary)
    largest = max((row["fraction"] for row in cells), default=1.0)
    return [
        _build(
            [row for row in fits if row["model"] == model and row["fraction"] == largest],
            [row for row in cells if row["model"] == model and row["fraction"] == largest],
            per,
            notes,
        )
        for model in in_paper_order((row["model"] for row in cells), _NUMBERS)
    ]


def paired_p_value(first: Mapping[int, float], second: Mapping[int, float]) -> float | None:
    """Return how likely so large a mean difference would be if two methods were equally good.

    Parameters
    ----------
    first, second : mapping
        Test error by trial.

    Returns
    -------
    float or None
        None with fewer than `FEWEST_TRIALS` common trials.

    References
    ----------
    Nadeau, C. and Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52, 239-281.

    Examples
    --------
    >>> worse = dict(enumerate([5.1, 5.0, 5.2, 5.1, 5.0]))
    >>> best = dict(enumerate([4.1, 4.0, 4.1, 4.1, 4.1]))
    >>> paired_p_value(worse, best) < 0.001
    True
    """
    common = sorted(first.keys() & second.keys())
    if len(common) < FEWEST_TRIALS:
        return None
    difference = np.array([first[trial] - second[trial] for trial in common])
    mean, variance = float(difference.mean()), float(difference.var(ddof=1))
    # Differences equal up to rounding have no spread that could be measured against.
    if variance <= (1e-12 * max(abs(first[trial]) for trial in common)) ** 2:
        return 1.0 if np.isclose(mean, 0.0, atol=1e-12) else 0.0
    statistic = mean / np.sqrt((1.0 / len(common) + _TEST_TO_TRAINING) * variance)
    return float(2.0 * stdtr(len(common) - 1, -abs(statistic)))


def describe_selection(selection: str, per: str = "trial") -> str:
    """Say in words how epoch and hyper-parameters were chosen.

    >>> describe_selection("last")
    "the last epoch; hyper-parameters, in each trial, by the method's own loss on validation candidates"
    """
    epoch, score = parse_selection(selection)
    together = "in each trial" if per == "trial" else "for all trials of a cell together"
    return f"{_EPOCHS[epoch]}; hyper-parameters, {together}, by {_SETTINGS[score]}"


def dataset_title(name: str) -> str:
    """Return a data set's name as the paper spells it; the name itself for the user's own."""
    return REGISTRY[name].title if name in REGISTRY else name


def model_title(model: str) -> str:
    """Return a model's name in words."""
    return _MODEL_TITLES.get(model, model)


def in_paper_order(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return names in the order of those known, such as the paper's data sets or methods, then the others by name."""
    places = {name: place for place, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (places.get(name, len(places)), name))


def _build(
    chosen: list[dict[str, Any]], cells: list[dict[str, Any]], per: str, notes: Mapping[Place, str] | None
) -> ResultTable:
    model, selection = cells[0]["model"], cells[0]["selection"]
    errors: dict[tuple[str, int | None, str], dict[int, float]] = {}
    for row in chosen:
        trials = errors.setdefault((row["dataset"], row["false_labels"], row["method"]), {})
        if row["test_mse"] is not None:
            trials[row["trial"]] = row["test_mse"]
    summary = {(row["dataset"], row["false_labels"], row["method"]): row for row in cells}
    methods = tuple(in_paper_order((key[2] for key in summary), METHODS))
    rows = []
    for dataset in in_paper_order((key[0] for key in summary), REGISTRY):
        sizes = {key[1] for key in summary if key[0] == dataset and key[2] != _REFERENCE} or {0}
        for size in sorted(sizes, key=lambda number: -1 if number is None else number):
            # Supervised is one number for all sizes, kept under none.
            keys = {method: (dataset, 0 if method == _REFERENCE else size, method) for method in methods}
            found = {method: summary[key] for method, key in keys.items() if key in summary}
            means = {method: row["test_mse"] for method, row in found.items() if method != _REFERENCE and row["trials"]}
            best = min(means, key=lambda method: means[method], default="")
            entries = {}
            for method, row in found.items():
                tested = method in means and method != best
                entries[method] = Entry(
                    mean=row["test_mse"],
                    std=row["test_mse_std"],
                    trials=row["trials"],
                    failed_trials=row["failed_trials"],
                    comparison=compare(row, notes),
                    best=method == best,
                    p_value=paired_p_value(errors[keys[method]], errors[keys[best]]) if tested else None,
                )
            rows.append(TableRow(dataset, size, entries))
    number = _NUMBERS.get(model)
    return ResultTable(
        name=f"table-{model}" if number is None else f"table{number}",
        title=f"Results with the {model_title(model)}" if number is None else f"Table {number}: {model_title(model)}",
        caption=_caption(chosen, errors, model, selection, per),
        model=model,
        selection=selection,
        per=per,
        methods=methods,
        rows=tuple(rows),
    )


def _caption(
    chosen: list[dict[str, Any]], errors: Mapping[Any, Mapping[int, float]], model: str, selection: str, per: str
) -> str:
    first, methods = chosen[0], {row["method"] for row in chosen}
    trials = sorted({len(found) for found in errors.values()})
    count = str(trials[0]) if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    how_many = {"upto": "up to |S̄| of them per row", "fixed": "|S̄| of them per row"}.get(first["set_size"], "")
    sets = f"{first['mechanism']} false labels" + (
        f", {how_many}" if any(row["false_labels"] for row in chosen) else ""
    )
    share = "" if first["fraction"] == 1.0 else f" on {100 * first['fraction']:g} % of the training rows"
    tested = (
        f"Bold: the least mean of the row, Supervised aside; ≈: not significantly worse than it ({TEST_IN_WORDS})."
        if trials[-1] >= FEWEST_TRIALS
        else f"Bold: the least mean of the row, Supervised aside. No test is made on fewer than {FEWEST_TRIALS} trials."
    )
    default = f" {DEFAULT}: this library's default, which brings its own model." if DEFAULT in methods else ""
    return (
        f"Mean (standard deviation) of the test MSE of the {model_title(model)}{share} over {count} "
        f"{'trial' if count == '1' else 'trials'}; {sets}. Chosen: {describe_selection(selection, per)}. {tested}"
        f"{default}"
    )
