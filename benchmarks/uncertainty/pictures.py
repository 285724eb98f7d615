"""Two pictures: coverage by cell, and probabilities against what came true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from benchmarks.identification.results import mean_std, standard_error
from benchmarks.uncertainty.measuring import ASKED
from benchmarks.uncertainty.tables import Lines, calibration_error

from plr.paper.figures import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_coverage", "draw_reliability"]

_LOOKS = (("#0b6bb5", "o"), ("#c8501e", "s"), ("#2d8a4e", "^"), ("#8a4fb0", "D"))
_GREY = "#6f6f6f"
_WANTED = (0.85, 0.95)


def draw_coverage(lines: Lines) -> Figure:
    """Draw the coverage of each cell with its standard error: filled adaptive, hollow constant."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys((cell.name, cell.rows) for cell in lines.cells))
    hidings = list(dict.fromkeys((cell.set_size, cell.false_labels) for cell in lines.cells))
    with drawing():
        figure: Figure
        figure, axes = plt.subplots(figsize=(7, 0.45 * len(names) + 1.6), layout="constrained")
        axes.axvspan(*_WANTED, color=_GREY, alpha=0.12, linewidth=0)
        axes.axvline(ASKED, color=_GREY, linestyle=(0, (1, 1.2)))
        for (color, marker), hiding in zip(_LOOKS, hidings, strict=False):
            cells = [cell for cell in lines.cells if (cell.set_size, cell.false_labels) == hiding]
            # A little beside each other: bars on top of each other hide one another.
            shift = 0.18 * (hidings.index(hiding) - (len(hidings) - 1) / 2)
            height = [len(names) - 1 - names.index((cell.name, cell.rows)) - shift for cell in cells]
            for method in ("adaptive", "constant"):
                found = [lines.values(cell, "coverage", method) for cell in cells]
                axes.errorbar(
                    [mean_std(part)[0] for part in found],
                    height,
                    xerr=np.nan_to_num([standard_error(part) for part in found]),
                    color=color,
                    marker=marker,
                    markerfacecolor=color if method == "adaptive" else "white",
                    markersize=4,
                    linestyle="none",
                    capsize=2,
                    label=f"{hiding[0]} {hiding[1]}, {method}",
                )
        labels = [f"{name}, {rows} rows" if rows else name for name, rows in names]
        axes.set_yticks(np.arange(len(names))[::-1], labels)
        axes.set_xlabel(f"coverage ± standard error, {ASKED:.0%} asked for")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return figure


def draw_reliability(lines: Lines) -> Figure:
    """Draw the share of true candidates of new rows against the probability they were given."""
    import matplotlib.pyplot as plt

    sizes = sorted({cell.false_labels or 0 for cell in lines.cells})
    with drawing():
        figure: Figure
        figure, panels = plt.subplots(1, 2, figsize=(8, 4), layout="constrained", sharey=True)
        for axes, what, title in zip(
            panels, ("candidates", "top"), ("all candidates", "each row's most probable candidate"), strict=True
        ):
            axes.plot([0, 1], [0, 1], color=_GREY, linestyle=(0, (1, 1.2)), linewidth=1)
            for (color, marker), size in zip(_LOOKS, sizes, strict=False):
                cells = [cell for cell in lines.cells if cell.false_labels == size]
                for rows, style in (("new", "-"), ("training", "--")):
                    bins = lines.bins(rows, what, cells)
                    some = bins["count"] > 0
                    claimed, true = (bins[name][some] / bins["count"][some] for name in ("claimed", "true"))
                    label = f"{size} false labels, {rows} rows, error {calibration_error(bins):.3f}"
                    axes.plot(claimed, true, style, color=color, marker=marker, markersize=4, linewidth=1, label=label)
            axes.set_title(title, loc="left")
            axes.set_xlabel("probability")
            axes.set_aspect("equal")
            axes.legend(loc="upper left", fontsize="x-small")
        panels[0].set_ylabel("share true")
    return figure
