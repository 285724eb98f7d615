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


def for_page(svg: str, name: str) -> str:
    """Return an SVG to be put into a page beside others: ids of its own, the page's text colour, a size that adapts.

    Its width is left to the page's style, as the variable ``--natural``.

    >>> for_page('<?xml version="1.0"?><svg width="9pt" height="9pt"><g id="a" clip-path="url(#a)"/></svg>', "f")
    '<svg style="--natural: 9pt" ><g id="f-a" clip-path="url(#f-a)"/></svg>'
    """
    body = svg[svg.index("<svg") :].rstrip()
    head, rest = body.split(">", 1)
    head = re.sub(r'height="[^"]*"\s*', "", head)
    head = re.sub(r'width="([^"]*)"', r'style="--natural: \1"', head)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    body = f"{head}>{rest}"
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    return body.replace(INK, "currentColor")
