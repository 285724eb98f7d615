"""The page of a benchmark, from what it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from plr.paper.agreement import COUNTED_CELLS, RULE_IN_SHORT, RULE_IN_WORDS, Verdict
from plr.paper.display import describe_seconds
from plr.paper.report.content import Content
from plr.paper.report.pictures import Picture, for_page
from plr.paper.table_formats import SYMBOLS, format_deviation, format_number, format_result
from plr.paper.tables import dataset_title, describe_selection
from plr.report.pages import render_page

__all__ = ["render_benchmark_page"]


class Mark(NamedTuple):
    """How a verdict is shown: a symbol, words, and a class for its colour."""

    symbol: str
    words: str
    kind: str


_MARKS = {
    verdict: Mark(SYMBOLS[verdict], words, kind)
    for verdict, words, kind in (
        (Verdict.AGREES, "agrees", "agrees"),
        (Verdict.BETTER, "better than published", "better"),
        (Verdict.HIGHER, "higher than published", "apart"),
        (Verdict.LOWER, "lower than published", "apart"),
        (Verdict.FAILED, "failed to train", "apart"),
        (Verdict.MISPRINT, "published number misprinted", "open"),
    )
}


def render_benchmark_page(content: Content, figures: Sequence[tuple[Picture, str]]) -> str:
    """Return the page of a report.

    Parameters
    ----------
    content : Content
    figures : sequence of (Picture, str)
        Each picture and its SVG.
    """
    drawn = [(picture, *for_page(svg, picture.name)) for picture, svg in figures]
    settings = content.protocol.settings().items()
    return render_page(
        "plr.paper.report",
        "benchmark",
        style="".join(f"#{picture.name} {{ --natural: {width}; }}\n" for picture, _, width in drawn),
        filters={
            "result_number": format_number,
            "deviation": format_deviation,
            "duration": describe_seconds,
            "dataset_title": dataset_title,
        },
        content=content,
        views=content.views,
        done=content.states.get("done", 0),
        total=sum(content.states.values()),
        settings=[(name.replace("_", " "), _show(value)) for name, value in settings if value != []],
        agreements={(agreement.selection, agreement.per): agreement for agreement in content.agreements},
        figures=drawn,
        marks=_MARKS,
        counted_cells=COUNTED_CELLS,
        rule_in_short=RULE_IN_SHORT,
        rule_in_words=RULE_IN_WORDS,
        lower=Verdict.LOWER,
        describe_selection=describe_selection,
        format_result=format_result,
    )


def _show(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_show, value))
    return value if isinstance(value, str) else json.dumps(value)
