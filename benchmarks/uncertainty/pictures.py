"""Two pictures: coverage and width by cell, and probabilities against what came true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from benchmarks.identification.results import geometric_mean, mean_std, standard_error
from benchmarks.uncertainty.tables import ASKED, Lines, calibration_error

from plr.paper.figures import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_intervals", "draw_reliability"]

_LOOKS = (("#0b6bb5", "o"), ("#c8501e", "s"), ("#2d8a4e", "^"), ("#8a4fb0", "D"))
_GREY = "#6f6f6f"


def draw_intervals(lines: Lines) -> Figure:
    """Draw the coverage of each cell with its standard error, and how much wider it is than with true labels."""
    import matplotlib.pyplot as plt

    places = np.arange(len(lines.datasets))[::-1]
    with drawing():
        figure: Figure
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9, 0.45 * len(places) + 1.6), layout="constrained", sharey=True
        )
        left.axvspan(0.85, 0.96, color=_GREY, alpha=0.12, linewidth=0)
        left.axvline(ASKED, color=_GREY, linestyle=(0, (1, 1.2)))
        right.axvline(1.0, color=_GREY, linestyle=(0, (1, 1.2)))
        for shift, size in enumerate((*lines.sizes, None)):
            color, marker = _LOOKS[shift] if size is not None else (_GREY, "x")
            label = f"up to {size} false labels" if size is not None else "true labels"
            # A little beside each other: bars on top of each other hide one another.
            height = places + 0.2 * (1 - shift)
            found = [lines.coverages(dataset, size) for dataset in lines.datasets]
            means = [mean_std(part)[0] for part in found]
            errors = np.nan_to_num([standard_error(part) for part in found])
            left.errorbar(
                means, height, xerr=errors, color=color, marker=marker, linestyle="none", capsize=2, label=label
            )
            if size is not None:
                ratios = [list(lines.width_ratios(dataset, size).values()) for dataset in lines.datasets]
                middle = np.array([geometric_mean(part) for part in ratios])
                ends = np.array([[min(part), max(part)] if part else [np.nan, np.nan] for part in ratios])
                spread = np.abs(ends.T - middle)
                right.errorbar(middle, height, xerr=spread, color=color, marker=marker, linestyle="none", capsize=2)
        left.set_yticks(places, lines.datasets)
        left.set_xlabel(f"coverage ± standard error, {ASKED:.0%} asked for")
        right.set_xlabel("width over that with true labels, least to most of trials")
        left.legend(loc="best", fontsize="small")
    return figure


def draw_reliability(lines: Lines) -> Figure:
    """Draw the share of true candidates against the probability they were given."""
    import matplotlib.pyplot as plt

    with drawing():
        figure: Figure
        figure, panels = plt.subplots(1, 2, figsize=(8, 4), layout="constrained", sharey=True)
        for axes, what, title in zip(
            panels, ("candidates", "top"), ("all candidates", "each row's most probable candidate"), strict=True
        ):
            axes.plot([0, 1], [0, 1], color=_GREY, linestyle=(0, (1, 1.2)), linewidth=1)
            for (color, marker), size in zip(_LOOKS, lines.sizes, strict=False):
                bins = lines.bins(what, [cell for cell in lines.cells if cell[1] == size])
                some = bins["count"] > 0
                claimed, true = (bins[name][some] / bins["count"][some] for name in ("claimed", "true"))
                label = f"up to {size} false labels, error {calibration_error(bins):.3f}"
                axes.plot(claimed, true, color=color, marker=marker, markersize=4, linewidth=1, label=label)
            axes.set_title(title, loc="left")
            axes.set_xlabel("probability")
            axes.set_aspect("equal")
            axes.legend(loc="upper left", fontsize="small")
        panels[0].set_ylabel("share true")
    return figure
