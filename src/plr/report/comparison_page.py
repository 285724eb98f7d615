"""The page of a comparison: a picture of the scores, and the table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from plr.atomic_file import write_files
from plr.comparison import Comparison, with_error
from plr.errors import ParameterError
from plr.report.charts import Drawing, text_width, ticks
from plr.report.numbers import shown
from plr.report.pages import render_page

__all__ = ["render_comparison_page", "scores_chart", "write_comparison_page"]

_WIDTH, _SIDE, _LINE, _BOTTOM = 480, 14, 36, 46


def scores_chart(names: Sequence[str], scores: Sequence[tuple[float, float]], label: str) -> Drawing:
    """Draw scores as dots with a bar of two standard errors to each side, each below its name.

    Parameters
    ----------
    names : sequence of str
    scores : sequence of (float, float)
        Each score and its standard error.
    label : str
        What the scores are.
    """
    told = "; ".join(f"{name} {shown(score)}" for name, (score, _) in zip(names, scores, strict=True))
    drawing = Drawing(
        f"{label} of {len(names)} models: {told}.",
        _WIDTH,
        _LINE * len(names) + _BOTTOM,
        "chart",
    )
    low = min(score - 2 * error for score, error in scores)
    high = max(score + 2 * error for score, error in scores)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    bottom = _LINE * len(names) + 6

    def place(score: float) -> float:
        return round(_SIDE + (score - low) / (high - low) * (_WIDTH - 2 * _SIDE), 1)

    for tick in ticks(low, high):
        drawing.add("path", d=f"M{place(tick):g} 4V{bottom}", class_="grid")
        half = text_width(shown(tick)) / 2
        middle = min(max(place(tick), half), _WIDTH - half)
        drawing.add("text", text=shown(tick), x=middle, y=bottom + 18, text_anchor="middle")
    drawing.add("path", d=f"M{_SIDE} {bottom}H{_WIDTH - _SIDE}", class_="axis")
    drawing.add("text", text=label, x=_WIDTH / 2, y=bottom + 36, text_anchor="middle", class_="label")
    for line, (name, (score, error)) in enumerate(zip(names, scores, strict=True)):
        at = _LINE * line + 26
        words = f"{name}: {with_error(score, error)}"
        # On the side where there is room, as far as there is.
        left, room = place(score) < _WIDTH / 2, text_width(name)
        begin, end = place(max(score - 2 * error, low)), place(min(score + 2 * error, high))
        x = max(min(begin, _WIDTH - room), 0.0) if left else min(max(end, room), float(_WIDTH))
        drawing.add("text", text=name, x=x, y=at - 9, text_anchor="start" if left else "end", class_="label")
        drawing.add(
            "path", words, d=f"M{place(score - 2 * error):g} {at}H{place(score + 2 * error):g}", class_="spread"
        )
        drawing.add("circle", words, cx=place(score), cy=at, r=4, class_="dot settled")
    return drawing


def render_comparison_page(found: Comparison, source: str = "") -> str:
    """Return the page of a comparison as HTML.

    Parameters
    ----------
    found : Comparison
    source : str
        What the rows are of.
    """
    names = [one.name for one in found.models]
    drawn = [scores_chart(names, [(one.likelihood, one.likelihood_error) for one in found.models], "likelihood")]
    errors = [(one.mae, one.mae_error) for one in found.models if one.mae is not None and one.mae_error is not None]
    if found.checked > 1 and len(errors) == len(names):
        drawn.append(scores_chart(names, errors, "mean absolute error on checked rows"))
    return render_page(
        "plr.report", "comparison", filters={"with_error": with_error}, found=found, source=source, drawn=drawn
    )


def write_comparison_page(found: Comparison, out: str | os.PathLike[str], source: str = "") -> Path:
    """Write the page of a comparison; the file is replaced if it exists."""
    path = Path(out)
    if path.is_dir():
        raise ParameterError(f"{path} is a folder; name the file to write, such as {path / 'comparison.html'}.")
    page = render_comparison_page(found, source).encode("utf-8", "replace")
    (written,) = write_files(path.parent, {path.name: page})
    return written
