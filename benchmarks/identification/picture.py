"""The picture of a protocol: test error over supervised by number of false labels, one small panel per data set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.identification.cases import Plan
from benchmarks.identification.results import Results, cells_of, compare, mean_std, standard_error

from plr.paper.figures import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

_SUPERVISED = "default-supervised"
_LOOKS = {
    "default-progressive": ("progressive", "#0b6bb5", "P", (0, (4, 1.5))),
    "default": ("default", "#c8501e", "o", "solid"),
    "oracle": ("oracle", "#2d8a4e", "^", (0, (1, 1.2))),
}
_GREY = "#6f6f6f"
_COLUMNS = 4


def draw(results: Results, plan: Plan, set_size: str) -> Figure:
    """Draw the error of each method over that of the same learner told the true labels, with standard errors."""
    import matplotlib.pyplot as plt

    rows = -(-(len(plan.datasets) + 1) // _COLUMNS)
    with drawing():
        figure: Figure
        figure, grid = plt.subplots(rows, _COLUMNS, figsize=(10, 2.35 * rows), layout="constrained", squeeze=False)
        panels = list(grid.flat)
        trials: set[int] = set()
        for axes, dataset in zip(panels, plan.datasets, strict=False):
            trials |= _panel(axes, results, replace(plan, datasets=(dataset,), set_sizes=(set_size,)))
            axes.set_title(dataset, loc="left")
        for axes in panels[len(plan.datasets) :]:
            axes.axis("off")
        for axes in panels[max(0, len(plan.datasets) - _COLUMNS) : len(plan.datasets)]:
            axes.set_xlabel("|S̄|, false labels")
        for axes in panels[: len(plan.datasets) : _COLUMNS]:
            axes.set_ylabel("test MSE over supervised")
        handles, labels = panels[0].get_legend_handles_labels()
        how = "up to" if set_size == "upto" else "exactly"
        # What is not measured yet must not pass for what is.
        counted = "–".join(str(number) for number in sorted({min(trials), max(trials)}))
        title = f"{how} |S̄| false labels\n± one standard error,\n{counted} trials"
        panels[len(plan.datasets)].legend(handles, labels, loc="center", title=title)
    return figure


def _panel(axes: Axes, results: Results, plan: Plan) -> set[int]:
    """Draw a data set; return how many trials its points have."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    cells = list(cells_of(plan))
    places = np.arange(len(cells))
    supervised = results.errors(_SUPERVISED, cells[0], plan.trials)
    spread = standard_error(supervised) / mean_std(supervised)[0]
    axes.axhline(1.0, color=_GREY, linestyle=(0, (1, 1.2)), label="supervised")
    if np.isfinite(spread):
        axes.axhspan(1.0 - spread, 1.0 + spread, color=_GREY, alpha=0.15, linewidth=0)
    trials = set()
    for shift, (method, (label, color, marker, dash)) in enumerate(_LOOKS.items()):
        pairs = [compare(results.errors(method, cell, plan.trials), supervised) for cell in cells]
        trials |= {pair.trials for pair in pairs}
        ratios = np.array([pair.ratio for pair in pairs])
        errors = np.nan_to_num([pair.ratio_error for pair in pairs])
        # Drawn a little beside each other: bars on top of each other hide one another.
        axes.errorbar(
            places + 0.08 * (shift - 1),
            ratios,
            yerr=errors,
            label=label,
            color=color,
            marker=marker,
            linestyle=dash,
            markersize=4,
            elinewidth=0.9,
            capsize=2,
        )
    axes.set_xticks(places, [str(cell.false_labels) for cell in cells])
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    # Panels of narrow range would otherwise show no labelled tick at all.
    axes.set_ylim(min(low, 0.8), max(high, 1.6))
    wide = axes.get_ylim()[1] > 12
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3) if wide else (1, 1.5, 2, 3, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return trials
