"""The charts on the page of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.contracts import Report
from plr.intervals import Calibration
from plr.report.charts import SHARE_TICKS, Chart, Drawing, ticks
from plr.report.facts import STATES, count_states, states_of
from plr.report.numbers import exact, shown
from plr.report.row_intervals import LEVELS, SHOWN, RowIntervals, reach, widths_differ
from plr.report.rows import Rows

__all__ = [
    "WORDS",
    "candidates_chart",
    "coverage_chart",
    "intervals_chart",
    "probability_chart",
    "reliability_chart",
    "rounds_charts",
    "stages_of",
    "state_bar",
    "strip",
    "truth_chart",
    "value_range",
    "width_chart",
]

Floats = NDArray[np.float64]

WORDS = {"settled": "settled", "likely": "likely", "doubtful": "in doubt"}
"""What a person reads for each of `STATES`."""

_MOST_DOTS = 700
_BINS = 20
# Rows whose intervals are drawn one beside the other, and parts of the band around the diagonal.
_MOST_INTERVALS, _PARTS = 160, 24
# What most of the intervals drawn are within.
_NEARLY_ALL = (0.02, 0.98)
# Standard errors that a share is drawn with.
_ERRORS = 2.0


def value_range(rows: Rows) -> tuple[float, float]:
    """Return where nearly all candidates and predictions are; what is beyond is drawn at the edge."""
    values = np.concatenate([rows.values, rows.prediction])
    low, high = np.quantile(values, [0.002, 0.998]).tolist()
    if not high > low:
        low, high = float(values.min()), float(values.max())
    spare = 0.03 * (high - low)
    return low - spare, high + spare


def candidates_chart(rows: Rows, intervals: RowIntervals | None, name: str) -> tuple[Chart, int]:
    """Draw all candidates of some rows over their predictions; return the number of these rows, too."""
    some = np.arange(len(rows))
    if len(rows) > _MOST_DOTS:
        random = np.random.default_rng(0)
        some = np.sort(random.choice(len(rows), _MOST_DOTS, replace=False, p=rows.weight / rows.weight.sum()))
    rows, band = rows.take(some), None if intervals is None else _band(rows.prediction, intervals.ends)
    low, high = value_range(rows)
    chart = Chart(
        f"Candidates of {len(rows)} rows over the predicted value; the likeliest of each row is near the diagonal.",
        (low, high),
        (low, high),
        x_label=f"predicted {name}",
        y_label="candidates",
        height=400,
    )
    if band is not None:
        chart.line(band, "band", "Z")
    chart.line([(low, low), (high, high)], "diagonal")
    others = np.setdiff1d(np.arange(len(rows.values)), rows.likeliest)
    chart.dots(zip(rows.prediction[rows.row_index[others]], rows.values[others], strict=True), "faint")
    states = np.where(rows.several, states_of(rows.top), 0)
    dots = zip(rows.prediction, rows.values[rows.likeliest], rows.top, rows.number, states, strict=True)
    for prediction, value, sure, number, state in sorted(dots, key=lambda dot: dot[-1]):
        words = f"Row {number}: {shown(value)} with probability {sure:.0%}, predicted {shown(prediction)}"
        chart.dot(prediction, value, 3.2, f"dot {STATES[state]}", words)
    return chart, len(rows)


def _band(prediction: Floats, ends: Floats) -> list[tuple[float, float]]:
    """Return the corners of the area between the mean lower and upper ends, over the predictions."""
    parts = [part for part in np.array_split(np.argsort(prediction, kind="stable"), _PARTS) if len(part)]
    places = [(float(prediction[part].mean()), *ends[part].mean(axis=0).tolist()) for part in parts]
    return [(at, low) for at, low, _ in places] + [(at, high) for at, _, high in reversed(places)]


def truth_chart(rows: Rows, name: str) -> Chart:
    """Draw true labels over predictions."""
    truth = np.asarray(rows.truth)
    some = np.flatnonzero(np.isfinite(truth))
    if len(some) > _MOST_DOTS:
        some = np.sort(np.random.default_rng(0).choice(some, _MOST_DOTS, replace=False))
    values = np.concatenate([truth[some], rows.prediction[some]])
    low, high = float(values.min()), float(values.max())
    chart = Chart(
        f"True values of {len(some)} rows over the predicted ones.",
        (low, high),
        (low, high),
        x_label=f"predicted {name}",
        y_label="true value",
        height=400,
    )
    chart.line([(low, low), (high, high)], "diagonal")
    for row in some:
        words = f"Row {rows.number[row]}: true {shown(truth[row])}, predicted {shown(rows.prediction[row])}"
        chart.dot(rows.prediction[row], truth[row], 3.0, "dot settled", words)
    return chart


def stages_of(rows: Rows) -> list[dict[str, Any]]:
    """Return how certain the rows with several candidates were before training, after the start and at the end.

    Each stage has a name, the median probability of the likeliest candidate, and the parts of a bar.
    """
    weight = rows.weight[rows.several]
    stages = {"prior": rows.top_prior, "start": rows.top_start, "fitted": rows.top}
    known = {name: top[rows.several] for name, top in stages.items() if top is not None}
    return [
        {"name": name, "median": _median(top, weight), "bar": state_bar(count_states(top, weight))}
        for name, top in known.items()
    ]


def state_bar(counts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the parts of a bar, 100 long, that shows how many rows are settled, likely and in doubt."""
    lengths = 100 * np.array(list(counts.values())) / max(sum(counts.values()), 1e-300)
    lefts = np.cumsum(lengths) - lengths
    return [
        {"state": state, "words": WORDS[state], "rows": count, "left": round(left, 2), "length": round(length, 2)}
        for (state, count), left, length in zip(counts.items(), lefts.tolist(), lengths.tolist(), strict=True)
    ]


def rounds_charts(report: Report) -> dict[str, Chart]:
    """Draw what a fit reported after each of several rounds."""
    reported = {
        "noise_scale": ("Noise scale", "noise scale", report.noise_scale),
        "movement": ("Change of weights", "share of weight moved", report.movement),
        "loss": ("Loss", "loss", report.loss),
    }
    return {
        name: _rounds_chart(np.asarray(values), title, label)
        for name, (title, label, values) in reported.items()
        if len(values) > 1 and np.isfinite(values).all()
    }


def _rounds_chart(values: Floats, title: str, label: str) -> Chart:
    """Draw a value over the rounds; the axis includes zero."""
    many = len(values)
    some = np.unique(np.linspace(0, many - 1, 400).astype(np.int64))
    chart = Chart(
        f"{title} after each of {many} rounds, from {shown(values[0])} to {shown(values[-1])}.",
        (1, max(many, 2)),
        (float(values.min(initial=0.0)), float(values.max(initial=0.0))),
        x_label="round",
        y_label=label,
        height=220,
        x_ticks=[(round_, str(round_)) for round_ in range(1, many + 1)] if many <= 8 else None,
    )
    chart.line([(place + 1, values[place]) for place in some], "line")
    for place in some if many <= 40 else ():
        chart.dot(place + 1, values[place], 3.5, "dot line-dot", f"Round {place + 1}: {shown(values[place])}")
    return chart


def probability_chart(rows: Rows) -> Chart:
    """Draw how the probabilities of the likeliest candidates are spread."""
    several, edges = rows.several, np.linspace(0.0, 1.0, _BINS + 1)
    place = np.minimum((rows.top[several] * _BINS + 1e-9).astype(np.int64), _BINS - 1)
    counts = np.bincount(place, rows.weight[several], _BINS)
    most = float(counts.max(initial=1.0))
    chart = Chart(
        "How many rows have a likeliest candidate of which probability.",
        (0.0, 1.0),
        (0.0, most * 1.05),
        x_label="probability of the likeliest candidate",
        y_label="rows",
        x_ticks=SHARE_TICKS,
        y_ticks=[(value, shown(value)) for value in ticks(0.0, most * 1.05, 5) if value == int(value)],
        height=280,
    )
    states = states_of((edges[:-1] + edges[1:]) / 2)
    for low, high, state, count in zip(edges[:-1], edges[1:], states, counts, strict=True):
        if count:
            words = f"{low:.0%} to {high:.0%}: {count:,.0f} rows"
            chart.bar((low + 0.004, 0.0, high - 0.004, count), f"part {STATES[state]}", words)
    return chart


def reliability_chart(reliability: Sequence[Mapping[str, Any]]) -> Chart:
    """Draw how often candidates are true over how probable they were said to be, with two standard errors."""
    chart = Chart(
        "Share of candidates that are true over the probability that the model gave them; the diagonal is perfect.",
        (0.0, 1.0),
        (0.0, 1.0),
        x_label="probability given",
        y_label="share that is true",
        x_ticks=SHARE_TICKS,
        y_ticks=SHARE_TICKS,
        height=280,
    )
    chart.line([(0, 0), (1, 1)], "diagonal")
    chart.line([(part["said"], part["true"]) for part in reliability], "line")
    most = max(part["candidates"] for part in reliability)
    for part in reliability:
        said, came, count = part["said"], part["true"], part["candidates"]
        _draw_errors(chart, said, came, part["true_error"])
        words = f"{count:,} candidates given {said:.0%} on average; {came:.0%} of them are true"
        chart.dot(said, came, 3.5 + 5 * (count / most) ** 0.5, "dot line-dot", words)
    return chart


def _draw_errors(chart: Chart, x: float, share: float, error: float) -> None:
    """Draw some standard errors of a share to both sides."""
    chart.line([(x, max(share - _ERRORS * error, 0.0)), (x, min(share + _ERRORS * error, 1.0))], "spread")


def coverage_chart(calibration: Calibration, measured: Sequence[Mapping[str, Any]] = ()) -> Chart:
    """Draw which share of true labels intervals of a width hold, adaptive ones and constant ones.

    The band around the former is two standard errors that as many known labels would leave. ``measured`` has the shares
    that were found in rows whose true labels are known, by the coverage asked for.
    """
    curves = {"line": calibration.adaptive, "line plain": calibration.constant}
    until = {
        kind: min(int(np.searchsorted(curve.covered, 0.985)), len(curve.covered) - 1) for kind, curve in curves.items()
    }
    far = max(float((curve.upper - curve.lower)[until[kind]]) for kind, curve in curves.items()) or 1.0
    of = " of a typical row" if widths_differ(calibration) else ""
    chart = Chart(
        "Share of true values within intervals, over how wide these are.",
        (0.0, far),
        (0.0, 1.0),
        x_label=f"width of the interval{of}",
        y_label="share of true values within it",
        y_ticks=SHARE_TICKS,
        height=280,
    )
    for kind, curve in reversed(curves.items()):
        some = np.unique(np.linspace(0, until[kind], 300).astype(np.int64))
        width = curve.upper - curve.lower
        if curve is calibration.adaptive:
            covered = curve.covered[some]
            error = _ERRORS * np.sqrt(covered * (1.0 - covered) / calibration.rows)
            above = list(zip(width[some].tolist(), (covered + error).tolist(), strict=True))
            below = list(zip(width[some].tolist(), (covered - error).tolist(), strict=True))
            chart.line([*above, *reversed(below)], "band", "Z")
        chart.line([(0.0, 0.0), *((float(width[at]), float(curve.covered[at])) for at in some)], kind)
    found = {part["asked"]: part for part in measured}
    for coverage in LEVELS:
        words = reach(calibration, coverage)
        if words is not None:
            low, high = calibration.ends(coverage)
            chart.dot(high - low, coverage, 4, "dot line-dot", f"{coverage:.0%}: {words}")
            chart.text_beside(high - low, coverage, f"{coverage:.0%}: {words}")
            if coverage in found:
                share = found[coverage]["coverage"]
                _draw_errors(chart, high - low, share, found[coverage]["coverage_error"])
                chart.dot(
                    high - low,
                    share,
                    4,
                    "dot likely",
                    f"{share:.1%} of the true values where {coverage:.0%} were asked for",
                )
    return chart


def width_chart(by_width: Sequence[Mapping[str, Any]]) -> Chart:
    """Draw how often intervals hold the true labels over how wide they are, with two standard errors."""
    far = max(part["mean_width"] for part in by_width)
    chart = Chart(
        f"Share of true values within their {SHOWN:.0%} intervals, by how wide these are.",
        (0.0, far * 1.05),
        (0.0, 1.0),
        x_label="width of the interval",
        y_label="share of true values within it",
        y_ticks=SHARE_TICKS,
        height=280,
    )
    chart.line([(0.0, SHOWN), (far * 1.05, SHOWN)], "diagonal")
    for part in by_width:
        at, share = part["mean_width"], part["coverage"]
        words = f"{part['rows']:,} rows with intervals {shown(at)} wide: {share:.0%} hold the true value"
        _draw_errors(chart, at, share, part["coverage_error"])
        chart.dot(at, share, 4, "dot line-dot", words)
    return chart


def intervals_chart(rows: Rows, intervals: RowIntervals, name: str) -> tuple[Chart, int]:
    """Draw the intervals of some rows by increasing prediction, with true labels where these are known.

    Also return how many rows they are.
    """
    some = np.arange(len(rows))
    if len(rows) > _MOST_INTERVALS:
        chosen = np.random.default_rng(0).choice(
            len(rows), _MOST_INTERVALS, replace=False, p=rows.weight / rows.weight.sum()
        )
        some = np.asarray(chosen)
    some = some[np.argsort(rows.prediction[some], kind="stable")]
    truth = np.full(len(rows), np.nan) if rows.truth is None else rows.truth
    ends = intervals.ends[some]
    low, high = np.quantile(ends, _NEARLY_ALL)
    low, high = min(low, rows.prediction[some[0]]), max(high, rows.prediction[some[-1]])
    spare = 0.05 * (high - low)
    chart = Chart(
        f"Intervals of {len(some)} rows, by increasing prediction.",
        (0.0, len(some) + 1.0),
        (float(low - spare), float(high + spare)),
        x_label="rows by increasing prediction",
        y_label=name,
        height=300,
    )
    for at, row in enumerate(some, 1):
        for lower, upper in intervals.pieces[row].tolist():
            chart.line([(at, lower), (at, upper)], "interval")
    chart.line([(at, rows.prediction[row]) for at, row in enumerate(some, 1)], "line")
    for at, row in enumerate(some, 1):
        if np.isfinite(truth[row]):
            pieces = intervals.pieces[row]
            held = bool(((pieces[:, 0] <= truth[row]) & (truth[row] <= pieces[:, 1])).any())
            words = f"Row {rows.number[row]}: true {shown(truth[row])}, predicted {shown(rows.prediction[row])}"
            chart.dot(at, truth[row], 2.6, f"dot {'likely' if held else 'doubtful'}", words)
    return chart, len(some)


def strip(
    values: Sequence[float],
    probabilities: Sequence[float],
    prediction: float,
    pieces: Sequence[Sequence[float]],
    ends: tuple[float, float],
) -> Drawing:
    """Draw a row's candidates and interval on a line; the script draws the same for other pages of the table."""

    def across(value: float) -> float:
        low, high = ends
        return round(6 + 188 * min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0), 1)

    label = ", ".join(f"{exact(value)} {share:.0%}" for value, share in zip(values[:8], probabilities[:8], strict=True))
    drawn = Drawing(f"Candidates: {label}", 200, 28, "strip")
    for piece in pieces:
        left, right = map(across, piece)
        drawn.add("rect", x=left, y=9, width=round(right - left, 1), height=10, class_="band")
    drawn.add("path", d="M6 14H194", class_="axis")
    drawn.add("path", d=f"M{across(prediction)} 4v20", class_="prediction")
    best = int(np.argmax(probabilities))
    for place in sorted(range(len(values)), key=lambda place: place == best):
        value, share = values[place], probabilities[place]
        kind, title = "chosen" if place == best else "other", f"{exact(value)}: {share:.0%}"
        drawn.add("circle", title, cx=across(value), cy=14, r=round(2.2 + 5 * share**0.5, 1), class_=kind)
    return drawn


def _median(values: Floats, weight: Floats) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    return float(values[order][int(np.searchsorted(reached, reached[-1] / 2))])
