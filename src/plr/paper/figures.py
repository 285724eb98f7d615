"""Figure 1 and the summary picture, drawn so that they read in black and white and come out the same every time."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from plr.errors import DependencyError
from plr.paper.datasets.registry import REGISTRY
from plr.paper.methods import METHODS
from plr.paper.published import MISPRINTED_MEANS
from plr.paper.tables import dataset_title, in_paper_order, model_title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "INK",
    "Look",
    "draw_fractions",
    "draw_sizes",
    "drawing",
    "look_of",
    "require_matplotlib",
    "to_png",
    "to_svg",
]

INK = "#161616"
"""Colour of axes and text; a page may replace it by its own text colour."""

_PALETTE = ("#0b6bb5", "#c8501e", "#2d8a4e", "#8a4fb0", "#a8791b", "#c23b72", "#3f8fa3", "#6f6f6f")


class Look(NamedTuple):
    """How a method is drawn: any one of the three tells it from the others."""

    color: str
    marker: str
    dash: Any


_LOOKS = {
    "Supervised": Look(_PALETTE[7], "", (0, (1, 1.2))),
    "AVGL-MSE": Look(_PALETTE[4], "s", (0, (4, 1.5))),
    "AVGL-MAE": Look(_PALETTE[2], "^", (0, (4, 1.5))),
    "AVGL-Huber": Look(_PALETTE[6], "v", (0, (4, 1.5))),
    "AVGV-MSE": Look(_PALETTE[4], "D", (0, (1, 1.5))),
    "AVGV-MAE": Look(_PALETTE[2], "<", (0, (1, 1.5))),
    "AVGV-Huber": Look(_PALETTE[6], ">", (0, (1, 1.5))),
    "IDent": Look(_PALETTE[1], "o", "solid"),
    "PIDent": Look(_PALETTE[0], "P", "solid"),
    "Posterior": Look(_PALETTE[3], "*", (0, (6, 1.5, 1, 1.5))),
    "Default": Look(_PALETTE[5], "H", "solid"),
}
_OTHERS = ("X", "h", "p", "d", "8")


def require_matplotlib() -> None:
    """Raise `DependencyError` where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise DependencyError('Figures need matplotlib: pip install "plr[report]".') from error


def look_of(method: str, others: Iterable[str] = ()) -> Look:
    """Return how to draw a method; methods of the user's own take turns, in the order of ``others``."""
    if method in _LOOKS:
        return _LOOKS[method]
    place = [name for name in others if name not in _LOOKS].index(method) if method in set(others) else 0
    return Look(_PALETTE[(3 + place) % 7], _OTHERS[place % len(_OTHERS)], (0, (3, 1, 1, 1)))


@contextmanager
def drawing() -> Iterator[None]:
    """Set matplotlib up, for the block, so that the same numbers give the same bytes."""
    require_matplotlib()
    import matplotlib as mpl

    style = {
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.6,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "legend.frameon": False,
        "lines.linewidth": 1.1,
        "savefig.dpi": 160,
        "svg.fonttype": "none",
        "svg.hashsalt": "plr",
        "text.color": INK,
        "xtick.color": INK,
        "xtick.major.width": 0.6,
        "ytick.color": INK,
        "ytick.major.width": 0.6,
        "ytick.minor.width": 0.4,
    }
    with mpl.rc_context(style):
        yield


def draw_sizes(table: Iterable[Mapping[str, Any]], model: str) -> Figure | None:
    """Draw test MSE against the number of false labels, one panel per data set.

    Parameters
    ----------
    table : iterable of dict
        What `plr.paper.selection.tabulate` returns for one selection.
    model : str
        The model to show.

    Returns
    -------
    Figure or None
        None where the table has no model of that name with a number of false labels.
    """
    rows = [row for row in table if row["test_mse"] is not None and row["model"] == model and row["fraction"] == 1.0]
    if not any(row["false_labels"] for row in rows):
        return None
    datasets = in_paper_order((row["dataset"] for row in rows), REGISTRY)
    methods = in_paper_order((row["method"] for row in rows), METHODS)
    with drawing():
        figure, panels = _panels(len(datasets) + 1, columns=4, width=2.5, height=2.15)
        for axes, dataset in zip(panels, datasets, strict=False):
            here = [row for row in rows if row["dataset"] == dataset]
            _draw_dataset(axes, here, methods)
            axes.set_title(dataset_title(dataset), loc="left")
        _name_axes(panels[: len(datasets)], 4, "|S̄|, false labels", "test MSE")
        has_published = any(row["published_mse"] is not None for row in rows)
        _draw_legend(panels[len(datasets)], methods, has_published, model_title(model))
    return figure


def draw_fractions(table: Iterable[Mapping[str, Any]]) -> Figure | None:
    """Draw Figure 1: test MSE against the share of the training rows, one panel per data set and |S̄|.

    Returns
    -------
    Figure or None
        None where nothing was trained on more than one share.
    """
    rows = [row for row in table if row["test_mse"] is not None and row["false_labels"]]
    models = dict.fromkeys(row["model"] for row in rows)
    found: dict[tuple[str, int, str], list[tuple[float, float, float]]] = {}
    for row in rows:
        if row["model"] == ("mlp" if "mlp" in models else next(iter(models))):
            series = found.setdefault((row["dataset"], row["false_labels"], row["method"]), [])
            series.append((row["fraction"], row["test_mse"], row["test_mse_std"] or 0.0))
    found = {key: sorted(series) for key, series in found.items() if len(series) > 1}
    if not found:
        return None
    methods = in_paper_order((key[2] for key in found), METHODS)
    # By name, which is the order of the paper's figure.
    places = sorted({key[:2] for key in found})
    with drawing():
        columns = min(4, len(places))
        figure, panels = _panels(len(places), columns=columns, width=2.5, height=2.4)
        for axes, (dataset, size) in zip(panels, places, strict=False):
            for step, method in enumerate(methods):
                if (dataset, size, method) in found:
                    _draw_with_bars(axes, found[dataset, size, method], method, methods, step)
            axes.set_title(f"{dataset_title(dataset)}, |S̄| = {size}", loc="left")
            axes.set_xticks([20, 40, 60, 80, 100])
            axes.set_ylim(bottom=0)
        _name_axes(panels[: len(places)], columns, "training rows used (%)", "test MSE")
        # The axis begins at zero, so there is room below the curves.
        panels[0].legend(loc="lower left")
    return figure


def to_svg(figure: Figure) -> bytes:
    """Return a figure as SVG, without anything that changes from one run to the next."""
    return _save(figure, "svg", {"Date": None, "Creator": None})


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG, on white."""
    return _save(figure, "png", {"Software": None})


def _save(figure: Figure, form: str, metadata: dict[str, None]) -> bytes:
    target = io.BytesIO()
    with drawing():
        # Transparent where it is to lie on a page of any colour.
        figure.savefig(target, format=form, metadata=metadata, transparent=form == "svg")
    # Laid out once for all formats: they look alike, and what takes longest is not done again.
    figure.set_layout_engine("none")
    return target.getvalue()


def _panels(count: int, *, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    # The object, not pyplot: no global state and no window, whatever the machine.
    from matplotlib.figure import Figure

    columns = min(columns, count)
    lines = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    panels: list[Axes] = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in panels[count:]:
        axes.set_axis_off()
    return figure, panels


def _draw_dataset(axes: Axes, rows: list[Mapping[str, Any]], methods: list[str]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    sizes = sorted({row["false_labels"] for row in rows if row["false_labels"]})
    for method in methods:
        look = look_of(method, methods)
        series = sorted((row["false_labels"], row["test_mse"]) for row in rows if row["method"] == method)
        if not series:
            continue
        if method == "Supervised":
            axes.axhline(series[0][1], color=look.color, linestyle=look.dash, linewidth=1.3)
            continue
        axes.plot(*zip(*series, strict=True), color=look.color, marker=look.marker, linestyle=look.dash, markersize=3.6)
        published = sorted(
            (row["false_labels"], row["published_mse"])
            for row in rows
            if row["method"] == method
            and row["published_mse"] is not None
            and (row["dataset"], row["model"], row["false_labels"], method) not in MISPRINTED_MEANS
        )
        if published:
            axes.plot(*zip(*published, strict=True), look.marker, **_open_marker(look.color))
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.margins(x=0.08)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(LogLocator(base=2, subs=()))


def _open_marker(color: str) -> dict[str, Any]:
    return {"color": color, "markerfacecolor": "none", "markersize": 7.0, "markeredgewidth": 0.7, "alpha": 0.9}


def _draw_with_bars(
    axes: Axes, series: list[tuple[float, float, float]], method: str, methods: list[str], step: int
) -> None:
    look = look_of(method, methods)
    fractions, means, deviations = zip(*series, strict=True)
    # Side by side, or the bars of one method hide those of the other.
    aside = 1.2 * (step - (len(methods) - 1) / 2)
    axes.errorbar(
        [100 * fraction + aside for fraction in fractions],
        means,
        yerr=deviations,
        color=look.color,
        marker=look.marker,
        linestyle="solid" if step % 2 == 0 else (0, (4, 1.5)),
        markersize=4,
        capsize=2,
        elinewidth=0.7,
        label=method,
    )


def _name_axes(panels: list[Axes], columns: int, below: str, beside: str) -> None:
    """Name the axes once per row and column of panels."""
    for place, axes in enumerate(panels):
        if place % columns == 0:
            axes.set_ylabel(beside)
        if place + columns >= len(panels):
            axes.set_xlabel(below)


def _draw_legend(axes: Axes, methods: list[str], has_published: bool, title: str) -> None:
    from matplotlib.lines import Line2D

    axes.set_axis_off()
    handles = []
    for method in methods:
        look = look_of(method, methods)
        handles.append(
            Line2D([], [], color=look.color, marker=look.marker, linestyle=look.dash, markersize=4, label=method)
        )
    if has_published:
        handles.append(Line2D([], [], linestyle="none", marker="o", label="published", **_open_marker(INK)))
    axes.legend(handles=handles, loc="center left", title=title, handlelength=3.2, alignment="left")
