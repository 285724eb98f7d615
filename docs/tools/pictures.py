"""Pictures that pages show, drawn from small fits when the site is built.

Each is one or several SVG drawings that follow the page's colours, with a caption whose figures come from the same fit.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.learners import MLP
from plr.weighting import weigh

__all__ = ["PICTURES"]

# What each colour becomes on the page: that of its text, that of its links, and two that suit light and dark.
TEXT, ACCENT, QUIET, SECOND = "#111111", "#3f51b5", "#8a8a8a", "#d9660a"
ON_THE_PAGE = {TEXT: "currentColor", ACCENT: "var(--md-typeset-a-color)"}
STYLE = {
    "axes.edgecolor": QUIET,
    "axes.labelcolor": TEXT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": TEXT,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.size": 11,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "text.color": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
}
INCHES = (4.0, 2.8)


def sets_and_model() -> str:
    """Draw candidate sets as they come, and what a model makes of them."""
    x, truth, values = _waves()
    model = PartialLabelRegressor(effort="low", random_state=0).fit(x[:, None], values)
    found = model.identify()
    right = np.mean(found.value == truth)

    def as_they_come(axes: Any) -> None:
        axes.vlines(x, values.min(axis=1), values.max(axis=1), color=QUIET, linewidth=0.8, alpha=0.6)
        axes.plot(x, values, "o", color=QUIET, markersize=3.5)

    def learned(axes: Any) -> None:
        axes.plot(x, values, "o", color=QUIET, markersize=2, alpha=0.6)
        axes.plot(x, found.value, "o", color=ACCENT, markersize=3.5)
        grid = np.linspace(x.min(), x.max(), 200)
        axes.plot(grid, model.predict(grid[:, None]), color=SECOND)

    return _pictures(
        {"80 rows with three candidates each": as_they_come, "The model, and the candidate it chose": learned},
        "Left: each line is a row, and one of its three dots is the true label. Right: what the default learns from "
        "that alone (orange), and the candidate of each row that is most probably true (blue), which is the true one "
        f"in {right:.0%} of the rows.",
        ("x", "label"),
    )


def moving_weights() -> str:
    """Draw the weights of candidates after more and more epochs of one training."""
    x, _, values = _waves()
    panels: dict[str, Callable[[Any], None]] = {}
    told = []
    for epochs in (1, 10, 30, 300):
        learner = MLP(hidden=(30, 30), epochs=epochs, batch_size=20, learning_rate=0.003, schedule="constant")
        model = PartialLabelRegressor(learner, "posterior", start=None, random_state=0).fit(x[:, None], values)
        predicted = model.predict(x[:, None])
        weights = weigh(predicted, values, "posterior", scale=model.noise_scale_).reshape(values.shape)
        told.append(f"{weights[:, 0].mean():.0%}")

        def weighed(axes: Any, weights: Any = weights, predicted: Any = predicted) -> None:
            everywhere = np.repeat(x, values.shape[1])
            axes.scatter(everywhere, values, s=40 * weights.ravel(), color=QUIET, linewidth=0)
            axes.scatter(x, values[:, 0], s=40 * weights[:, 0], color=ACCENT, linewidth=0)
            axes.plot(x, predicted, color=SECOND)

        panels[f"After {epochs} epoch{'s' * (epochs > 1)}"] = weighed
    return _pictures(
        panels,
        "One training of a network with `posterior` weights. The area of a dot is the weight of a candidate, and true "
        "labels are blue, which the training does not know. Their share of the weight is "
        f"{', '.join(told[:-1])} and in the end {told[-1]}.",
        ("x", "label"),
    )


def intervals() -> str:
    """Draw adaptive and constant intervals where noise grows."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, 900)
    truth = 5 + 3 * np.sin(0.6 * x) + 0.15 * x * random.normal(size=900)
    model = PartialLabelRegressor(effort="low", random_state=0)
    model.fit(x[:600, None], make_candidates(truth[:600], 2, random_state=0))
    grid = np.linspace(0, 10, 200)
    new, label = x[600:], truth[600:]
    noisiest = new > 8
    panels: dict[str, Callable[[Any], None]] = {}
    held = {}
    for method in ("adaptive", "constant"):
        low, high = model.predict_interval(new[:, None], method=method).T
        inside = (low <= label) & (label <= high)
        held[method] = f"{inside.mean():.0%} of all and {inside[noisiest].mean():.0%} of the noisiest"

        def drawn(axes: Any, method: str = method) -> None:
            ends = model.predict_interval(grid[:, None], method=method)
            axes.fill_between(grid, *ends.T, color=ACCENT, alpha=0.2, linewidth=0)
            axes.plot(grid, model.predict(grid[:, None]), color=SECOND)
            axes.plot(new, label, "o", color=QUIET, markersize=2)
            axes.set_ylim(truth.min(), truth.max())

        panels[f"Intervals of 90 %, {method}"] = drawn
    return _pictures(
        panels,
        "Noise grows to the right. The model has seen candidate sets alone; the dots are true labels of new rows. "
        f"Adaptive intervals hold {held['adaptive']} fifth, constant ones {held['constant']} fifth.",
        ("x", "label"),
    )


def review_queue() -> str:
    """Draw the rows that a review puts first."""
    random = np.random.default_rng(1)
    X = random.normal(size=(200, 2))
    truth = 10 + 2 * X[:, 0] + X[:, 1] + random.normal(0, 0.3, 200)
    values = np.column_stack([truth, truth[:, None] + random.normal(1, 1.2, size=(200, 3))])
    scores = np.column_stack([random.normal(1.5, 1, 200), random.normal(0, 1, (200, 3))])
    S = CandidateSets(values.ravel(), np.arange(0, 801, 4), features={"score": scores.ravel()})
    model = PartialLabelRegressor("boosting", match_score="score", random_state=0).fit(X, S)
    review = model.review(8, random_state=0)
    predicted = model.predict(X[review.row])

    def queue(axes: Any) -> None:
        for place in range(len(review.row)):
            matches = review.candidates(place)
            where = [match["value"] for match in matches]
            axes.hlines(place, min(where), max(where), color=QUIET, linewidth=0.6)
            sizes = [90 * match["probability"] for match in matches]
            axes.scatter(where, [place] * len(where), s=sizes, color=ACCENT, linewidth=0, zorder=2)
            axes.plot(predicted[place], place, "|", color=SECOND, markersize=12)
        axes.set_yticks(range(len(review.row)), [f"row {row}" for row in review.row])
        axes.invert_yaxis()

    return _pictures(
        {"The first eight rows of a review": queue},
        "The area of a dot is the probability of a candidate, and the orange line is the prediction. A person looks "
        "these rows up; what the answers teach about the score of the candidates holds for all rows.",
        ("label", ""),
    )


def _waves() -> tuple[Any, Any, Any]:
    """Make rows with a true label, which comes first, and two false ones."""
    random = np.random.default_rng(3)
    x = np.sort(random.uniform(0, 10, 80))
    truth = 5 + 3 * np.sin(0.9 * x) + random.normal(0, 0.3, 80)
    return x, truth, np.column_stack([truth, random.uniform(0, 10, (80, 2))])


def _pictures(panels: dict[str, Callable[[Any], None]], caption: str, labels: tuple[str, str]) -> str:
    drawn = []
    with mpl.rc_context(STYLE):
        for title, draw in panels.items():
            figure = Figure(figsize=INCHES)
            axes = figure.subplots()
            draw(axes)
            axes.set(title=title, xlabel=labels[0], ylabel=labels[1])
            drawn.append(_svg(figure, title))
    words = re.sub(r"`(.*?)`", r"<code>\1</code>", html.escape(caption, quote=False))
    return f'<figure class="pictures">\n{"".join(drawn)}<figcaption>{words}</figcaption>\n</figure>'


def _svg(figure: Figure, title: str) -> str:
    made = io.StringIO()
    # Marks and clips have names by this salt, and several drawings stand on one page.
    with mpl.rc_context({"svg.hashsalt": title}):
        figure.savefig(made, format="svg", transparent=True, metadata={"Date": None})
    text = made.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text).replace(
        "<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1
    )
    for colour, meant in ON_THE_PAGE.items():
        text = text.replace(colour, meant)
    return "".join(f"{line}\n" for line in text.splitlines() if line.strip())


PICTURES: dict[str, Callable[[], str]] = {
    picture.__name__: picture for picture in (intervals, moving_weights, review_queue, sets_and_model)
}
"""What may stand in double braces on a page, as quotes do."""
