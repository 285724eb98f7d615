"""The picture of the theory's experiments: excess risk against the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plr.paper.figures import drawing, look_of
from plr.paper.theory import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_theory"]

# Exact up to rounding: drawn on this line, or the picture would be mostly empty.
_LEAST = 1e-12

_TITLES = {"linear": "Linear truth", "network": "Network as the truth", "ambiguity": "Ambiguity degree γ"}
_DASHES: tuple[Any, ...] = ((0, (1, 1.5)), (0, (4, 1.5)), "solid")


def draw_theory(curves: Sequence[Curve]) -> Figure:
    """Draw the three experiments side by side, both axes logarithmic."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10.5, 4.4), layout="constrained")
        panels = figure.subplots(1, 3)
        for axes, experiment in zip(panels, _TITLES, strict=True):
            found = [curve for curve in curves if curve.experiment == experiment]
            _draw_panel(axes, found)
            axes.set_title(_TITLES[experiment], loc="left")
            axes.set_xlabel("training rows n")
            if experiment != "network":
                place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 4), "textcoords": "offset points"}
                axes.annotate("exact up to rounding", (0.98, _LEAST), ha="right", va="bottom", fontsize=6.5, **place)
        panels[0].set_ylabel("excess risk / variance of the truth")
    return figure


def _draw_panel(axes: Axes, curves: list[Curve]) -> None:
    degrees = sorted({curve.ambiguity for curve in curves})
    for curve in curves:
        look = look_of(curve.method)
        is_ambiguous = curve.experiment == "ambiguity"
        axes.plot(
            curve.sizes,
            [max(value, _LEAST) for value in curve.excess],
            color=look.color,
            marker=look.marker or "x",
            linestyle=_DASHES[degrees.index(curve.ambiguity) % 3] if is_ambiguous else look.dash,
            # Methods that do equally well would hide each other.
            markersize=6.5 if curve.method == "IDent" else 3.8,
            markerfacecolor="none" if curve.method == "IDent" else None,
            label=_label(curve),
        )
        if curve.limit is not None:
            axes.axhline(curve.limit, color=look.color, linewidth=0.6)
    _draw_reference(axes, curves)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(curves[0].sizes[::2], [str(size) for size in curves[0].sizes[::2]])
    # Below the panel: above it, every corner has a curve in it.
    axes.legend(fontsize=7, handlelength=3, loc="upper left", bbox_to_anchor=(0, -0.19), borderaxespad=0)


def _draw_reference(axes: Axes, curves: list[Curve]) -> None:
    """Draw the slope −1/2 that the theorems promise, from the first point of IDent."""
    start = next(curve for curve in curves if curve.method == "IDent")
    first, last = start.sizes[0], start.sizes[-1]
    height = max(start.excess[0], _LEAST)
    axes.plot([first, last], [height, height * (first / last) ** 0.5], color="#9a9a9a", linewidth=0.8)
    axes.annotate("$n^{-1/2}$", (last, height * (first / last) ** 0.5), ha="right", va="top", fontsize=6.5)


def _label(curve: Curve) -> str:
    if curve.experiment == "ambiguity":
        return f"{curve.method}, γ = {curve.ambiguity:g}"
    if curve.slope is None:
        return curve.method
    error = "" if curve.slope_error is None else f" ± {curve.slope_error:.2f}"
    return f"{curve.method}, slope {f'{curve.slope:.2f}'.replace('-', '−')}{error}"
