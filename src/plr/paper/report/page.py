"""The page: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from plr.paper.report.content import Content
from plr.paper.report.pictures import Picture
from plr.paper.report.sections import (
    agreement_section,
    figures_section,
    observations_section,
    run_section,
    summary_section,
    table1_section,
    tables_section,
)
from plr.report.html import Markup, element, join

__all__ = ["render_page"]

_TITLE = "Partial-label regression: the experiments, measured beside published"

# Forbids the page to fetch anything, whatever it contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def render_page(content: Content, figures: Sequence[tuple[Picture, str]]) -> str:
    """Return the page of a report.

    Parameters
    ----------
    content : Content
    figures : sequence of (Picture, str)
        Each picture and its SVG.
    """
    sections = [
        ("summary", "In short", summary_section(content)),
        ("run", "What was run", run_section(content)),
        ("table1", "Table 1", table1_section(content.table1)),
        ("results", "Results", tables_section(content)),
        ("agreement", "Agreement", agreement_section(content)),
        ("observations", "Observations", observations_section(content)),
        ("figures", "Figures", figures_section(figures)),
    ]
    links = [element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections]
    body = join(
        [
            element("a", "Skip to the results", href="#results", class_="skip"),
            element("header", element("h1", _TITLE), element("nav", element("ul", *links), aria_label="Sections")),
            _selector(content),
            element("main", *(_section(*section) for section in sections)),
            element("footer", element("p", "Made by ", element("code", "plr report"), " from stored results alone.")),
            element("script", _resource("page.js")),
        ]
    )
    head = join(
        [
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name_="color-scheme", content="light dark"),
            element("title", _TITLE),
            element("style", _resource("page.css")),
        ]
    )
    return f"<!DOCTYPE html>\n{element('html', element('head', head), element('body', body), lang='en')}\n"


def _section(name: str, title: str, content: Markup) -> Markup:
    return element("section", element("h2", title), content, id=name)


def _selector(content: Content) -> Markup:
    """Return the choice of a rule; the script shows it, since it does nothing without."""
    options = [
        element("option", _option_text(content, place), value=view.selection)
        for place, view in enumerate(content.views)
    ]
    label = element("label", "Selection rule ", element("select", *options, id="rule"))
    return element("div", label, class_="selector", hidden=True)


def _option_text(content: Content, place: int) -> str:
    agreement = content.views[place].agreement
    counted = f": {agreement.agreeing} of {agreement.counted} agree" if agreement.counted else ""
    return f"{agreement.selection}{counted}"


def _resource(name: str) -> Markup:
    return Markup(resources.files("plr.report").joinpath(name).read_text(encoding="utf-8"))
