"""Lines put together: coverage and width of intervals by cell, and calibration of probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.identification.results import geometric_mean, mean_std, standard_error
from benchmarks.identification.sheets import Bar, Section, Sheet, number, plus_minus, ratio_text
from benchmarks.uncertainty.measuring import BINS, LEVELS, NAIVE, Fit, planned

from plr.intervals import METHODS

__all__ = ["ASKED", "Lines", "calibration_error", "calibration_sheet", "interval_sheet"]

ASKED = 0.9
"""The coverage that bars are about."""

_POOLED = (0.88, 0.94)
_IN_EACH_CELL = (0.85, 0.96)
_WIDEST = 1.5
_MOST_ERROR = 0.05


@dataclass(frozen=True)
class Lines:
    """The lines of planned fits; ``missing`` says how many fits have none."""

    by_key: dict[str, dict[str, Any]]
    datasets: tuple[str, ...]
    sizes: tuple[int, ...]
    trials: int
    effort: str
    missing: int

    @classmethod
    def of(
        cls,
        lines: Iterable[dict[str, Any]],
        datasets: tuple[str, ...],
        sizes: tuple[int, ...],
        trials: int,
        effort: str,
    ) -> Lines:
        """Take those that belong to the plan; of several for one fit, the last."""
        keys = {fit.key for fit in planned(datasets, sizes, trials, effort)}
        kept = {line["key"]: line for line in lines if "error" not in line and line["key"] in keys}
        return cls(kept, datasets, sizes, trials, effort, len(keys) - len(kept))

    @property
    def cells(self) -> list[tuple[str, int]]:
        """Data sets and numbers of false labels."""
        return [(dataset, size) for dataset in self.datasets for size in self.sizes]

    def cell(self, dataset: str, size: int | None) -> dict[int, dict[str, Any]]:
        """Return a cell's lines by trial; the fits to true labels where ``size`` is None."""
        found = {trial: self.by_key.get(Fit(dataset, size, trial, self.effort).key) for trial in range(self.trials)}
        return {trial: line for trial, line in found.items() if line is not None}

    def coverages(
        self, dataset: str, size: int | None, method: str = "sharp", level: float = ASKED
    ) -> dict[int, float]:
        """Return the share of test rows whose interval holds the truth, by trial."""
        return {trial: _of(line, method, level)["coverage"] for trial, line in self.cell(dataset, size).items()}

    def width_ratios(self, dataset: str, size: int, method: str = "sharp", level: float = ASKED) -> dict[int, float]:
        """Return widths over those of the same model told the true labels, by trial."""
        told = self.cell(dataset, None)
        return {
            trial: _of(line, method, level)["width"] / _of(told[trial], "sharp", level)["width"]
            for trial, line in self.cell(dataset, size).items()
            if trial in told
        }

    def bins(self, what: str, cells: Iterable[tuple[str, int]]) -> dict[str, np.ndarray]:
        """Return counts, sums of probabilities and numbers of true ones by bin, over all trials of some cells."""
        total = {name: np.zeros(BINS) for name in ("count", "claimed", "true")}
        for dataset, size in cells:
            for line in self.cell(dataset, size).values():
                for name, sums in total.items():
                    sums += np.array(line[what][name])
        return total


def _of(line: dict[str, Any], method: str, level: float) -> dict[str, float]:
    return next(found for found in line["intervals"] if found["method"] == method and found["level"] == level)


def _mean(values: dict[int, float]) -> tuple[float, float]:
    """Return the mean over trials, and its standard error."""
    return mean_std(values)[0], standard_error(values)


def interval_sheet(lines: Lines) -> Sheet:
    """Tabulate coverage and width of intervals."""
    complete = lines.missing == 0
    mean = {cell: _mean(lines.coverages(*cell))[0] for cell in lines.cells}
    ratio = {cell: geometric_mean(lines.width_ratios(*cell).values()) for cell in lines.cells}
    rows_met, rows = 0.0, 0
    for cell in lines.cells:
        for line in lines.cell(*cell).values():
            rows_met += _of(line, "sharp", ASKED)["coverage"] * line["test_rows"]
            rows += line["test_rows"]
    pooled = rows_met / rows if rows else float("nan")
    known = [value for value in mean.values() if np.isfinite(value)] or [float("nan")]
    low, high = min(mean, key=mean.__getitem__), max(mean, key=mean.__getitem__)
    bars = [
        Bar(f"coverage, mean of cells, {ASKED:.0%} asked for", float(np.mean(known)), _POOLED[0], True, complete),
        Bar("the same, from above", float(np.mean(known)), _POOLED[1], False, complete),
        Bar("coverage over all test rows", pooled, _POOLED[0], True, complete),
        Bar("the same, from above", pooled, _POOLED[1], False, complete),
        Bar(f"lowest coverage of a cell ({low[0]}, {low[1]})", min(known), _IN_EACH_CELL[0], True, complete),
        Bar(f"highest coverage of a cell ({high[0]}, {high[1]})", max(known), _IN_EACH_CELL[1], False, complete),
        Bar(
            "width over conformal with true labels, geometric mean",
            geometric_mean(ratio.values()),
            _WIDEST,
            False,
            complete,
        ),
    ]
    header = ("data set", "false labels", "trials", "sharp", "width", "guaranteed", "width", "naive", "width", "told")
    table = []
    for dataset, size in lines.cells:
        cells = [dataset, f"up to {size}", str(len(lines.cell(dataset, size)))]
        for method in (*METHODS, NAIVE):
            widths = geometric_mean(lines.width_ratios(dataset, size, method).values())
            cells += [plus_minus(*_mean(lines.coverages(dataset, size, method))), ratio_text(widths)]
        table.append([*cells, plus_minus(*_mean(lines.coverages(dataset, None)))])
    levels = []
    for level in LEVELS:
        by_size = [
            [_mean(lines.coverages(*cell, level=level))[0] for cell in lines.cells if cell[1] == size]
            for size in lines.sizes
        ]
        told = [_mean(lines.coverages(dataset, None, level=level))[0] for dataset in lines.datasets]
        levels.append([f"{level:g}", *(number(float(np.nanmean(found))) for found in (*by_size, told))])
    return Sheet(
        "Coverage and width of intervals",
        [
            "Test rows whose true label is in its interval, mean over trials ± standard error. Widths are over those "
            "of ordinary cross-conformal intervals around the same model fitted to the true labels (`told`), geometric "
            "mean over trials. `naive` takes the learner's own out-of-fold predictions and its noise model's weights.",
        ],
        (
            "dataset",
            "false_labels",
            "trial",
            "method",
            "level",
            "coverage",
            "width",
            "test_rows",
            "test_mse",
            "fit_seconds",
            "calibrate_seconds",
        ),
        [
            (
                dataset,
                size,
                trial,
                found["method"],
                found["level"],
                found["coverage"],
                found["width"],
                line["test_rows"],
                line["test_mse"],
                line["fit_seconds"],
                line["calibrate_seconds"],
            )
            for dataset in lines.datasets
            for size in (*lines.sizes, None)
            for trial, line in lines.cell(dataset, size).items()
            for found in line["intervals"]
        ],
        bars,
        [
            Section(f"{ASKED:.0%} asked for", header, table),
            Section(
                "Other coverages, sharp, mean of data sets",
                ("asked", *(f"up to {size} false labels" for size in lines.sizes), "told"),
                levels,
            ),
        ],
    )


def calibration_error(bins: dict[str, np.ndarray]) -> float:
    """Return the expected calibration error: how far claims are from the truth, each bin by its size."""
    total = bins["count"].sum()
    return float(np.abs(bins["claimed"] - bins["true"]).sum() / total) if total else float("nan")


def calibration_sheet(lines: Lines) -> Sheet:
    """Tabulate how far probabilities of candidates can be believed."""
    complete = lines.missing == 0
    kinds = {"candidates": "all candidates", "top": "each row's most probable candidate"}
    bars, sections = [], []
    for what, words in kinds.items():
        bins = lines.bins(what, lines.cells)
        bars.append(Bar(f"expected calibration error, {words}", calibration_error(bins), _MOST_ERROR, False, complete))
        count = np.maximum(bins["count"], 1)
        rows = [
            [
                f"{place / BINS:.1f} to {(place + 1) / BINS:.1f}",
                f"{bins['count'][place]:.0f}",
                number(bins["claimed"][place] / count[place]),
                number(bins["true"][place] / count[place]),
            ]
            for place in range(BINS)
            if bins["count"][place]
        ]
        sections.append(
            Section(words.capitalize(), ("probability", "how many", "mean probability", "share true"), rows)
        )
    rows = []
    for dataset, size in lines.cells:
        errors = [calibration_error(lines.bins(what, [(dataset, size)])) for what in kinds]
        right = _mean({trial: line["accuracy"] for trial, line in lines.cell(dataset, size).items()})[0]
        rows.append([dataset, f"up to {size}", *map(number, errors), number(right)])
    header = ("data set", "false labels", "error, all candidates", "error, most probable", "most probable is true")
    sections.append(Section("By data set", header, rows))
    return Sheet(
        "Calibration of probabilities",
        [
            "Training rows, judged by `identify()`. Among candidates given a probability of about 0.8, about 80 % "
            f"should be true. The expected calibration error is the mean difference of the two over {BINS} equal bins, "
            "each by the number of its candidates.",
        ],
        ("dataset", "false_labels", "trial", "what", "bin", "count", "claimed", "true"),
        [
            (dataset, size, trial, what, place, *(line[what][name][place] for name in ("count", "claimed", "true")))
            for dataset, size in lines.cells
            for trial, line in lines.cell(dataset, size).items()
            for what in kinds
            for place in range(BINS)
        ],
        bars,
        sections,
    )
