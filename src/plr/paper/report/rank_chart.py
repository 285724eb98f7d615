"""The picture of mean ranks: a dot for each method, and lines below that join those which cannot be told apart."""

from __future__ import annotations

import math

from plr.paper.ranks import Ranking
from plr.report.charts import Drawing, text_width

__all__ = ["rank_chart"]

_WIDTH, _LINE, _GROUP, _SIDE = 480, 26, 14, 14


def rank_chart(ranking: Ranking) -> Drawing:
    """Draw mean ranks on an axis from 1, the best, with a method in each line and its name on the left."""
    many = len(ranking.methods)
    told = ", ".join(f"{method} {rank:.2f}" for method, rank in zip(ranking.methods, ranking.ranks, strict=True))
    critical = ranking.critical_difference
    top = 12 if critical is None else 40
    bottom = top + _LINE * many
    height = bottom + 28 + _GROUP * len(ranking.groups) + 36
    drawing = Drawing(f"Mean ranks: {told}.", _WIDTH, height, "chart")
    left = math.ceil(max(text_width(method) for method in ranking.methods)) + _SIDE
    right = _WIDTH - _SIDE

    def place(rank: float) -> float:
        return round(left + (rank - 1.0) / (many - 1.0) * (right - left), 1)

    if critical is not None:
        begin, end = place(1.0), place(min(1.0 + critical, float(many)))
        drawing.add("path", d=f"M{begin:g} 26H{end:g}M{begin:g} 21v10M{end:g} 21v10", class_="bracket")
        drawing.add("text", text=f"critical difference {critical:.2f}", x=right, y=14, text_anchor="end")
    for tick in range(1, many + 1):
        drawing.add("path", d=f"M{place(tick):g} {top - 6}V{bottom}", class_="grid")
        drawing.add("text", text=str(tick), x=place(tick), y=bottom + 18, text_anchor="middle")
    drawing.add("path", d=f"M{left} {bottom}H{right}", class_="axis")
    for line, (method, rank) in enumerate(zip(ranking.methods, ranking.ranks, strict=True)):
        at = top + _LINE * line + _LINE / 2
        drawing.add("text", text=method, x=left - 12, y=at + 5, text_anchor="end", class_="label")
        drawing.add("path", d=f"M{place(rank):g} {at:g}V{bottom}", class_="stem")
        drawing.add("circle", cx=place(rank), cy=at, r=5, class_="dot settled")
        beside = place(rank) + 10 + text_width("0.00") <= _WIDTH
        x, anchor = (place(rank) + 10, "start") if beside else (place(rank) - 10, "end")
        drawing.add("text", text=f"{rank:.2f}", x=x, y=at + 5, text_anchor=anchor)
    for line, (first, last) in enumerate(ranking.groups):
        below = bottom + 30 + _GROUP * line
        words = f"Cannot be told apart: {', '.join(ranking.methods[first : last + 1])}"
        ends = f"M{place(ranking.ranks[first]):g} {below}H{place(ranking.ranks[last]):g}"
        drawing.add("path", words, d=ends, class_="group")
    drawing.add("text", text="mean rank", x=(left + right) / 2, y=height - 8, text_anchor="middle", class_="label")
    return drawing
