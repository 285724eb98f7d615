"""The figures of a report, each with a name and a caption."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plr.paper.figures import INK, draw_fractions, draw_sizes
from plr.paper.tables import describe_selection, model_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from plr.paper.report.content import Content

__all__ = ["Picture", "draw_pictures", "for_page"]


@dataclass(frozen=True)
class Picture:
    """A figure with the name of its files, a title and a caption."""

    name: str
    title: str
    caption: str
    figure: Figure


def draw_pictures(content: Content) -> list[Picture]:
    """Draw what the store has numbers for: Figure 1, and test error against the number of false labels by model."""
    view = content.chosen
    chosen = f"Chosen: {describe_selection(view.selection, view.agreement.per)}."
    pictures = []
    fractions = draw_fractions(content.summary)
    if fractions is not None:
        caption = f"Test MSE against the share of the training rows used; bars are one standard deviation. {chosen}"
        pictures.append(Picture("figure1", "Figure 1: more training data", caption, fractions))
    for table in view.tables:
        sizes = draw_sizes(content.summary, table.model)
        if sizes is not None:
            beside = " Large open markers: published." if table.has_published else ""
            caption = f"Test MSE against the number of false labels; both axes are logarithmic.{beside} {chosen}"
            title = f"Test error and false labels: {model_title(table.model)}"
            pictures.append(Picture(f"sizes-{table.model}", title, caption, sizes))
    return pictures


def for_page(svg: str, name: str) -> tuple[str, str]:
    """Return an SVG to be put into a page beside others, and its natural width.

    It has ids of its own, the page's text colour, and attributes instead of styles, which the page's policy forbids;
    its size is left to the page.

    >>> for_page('<svg width="9pt" height="9pt"><g id="a" style="fill: red; stroke: none"/></svg>', "f")
    ('<svg stroke-linejoin="round" stroke-linecap="butt"><g id="f-a" fill="red" stroke="none"/></svg>', '9pt')
    """
    head, body = svg[svg.index("<svg") :].rstrip().split(">", 1)
    width = head.split(' width="', 1)[1].split('"', 1)[0]
    # The one rule of matplotlib's style element, which is removed, as attributes that all elements inherit.
    head = re.sub(r' (?:width|height)="[^"]*"', "", head) + ' stroke-linejoin="round" stroke-linecap="butt">'
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r'style="([^"]*)"', lambda found: _attributes(found[1]), body)
    body = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", body)
    return head + body.replace(INK, "currentColor"), width


def _attributes(style: str) -> str:
    rules = (rule.split(":", 1) for rule in style.split(";") if rule.strip())
    return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in rules)
