"""The parts of the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plr.paper.agreement import COUNTED_CELLS, RULE_IN_WORDS, Agreement, Verdict
from plr.paper.display import describe_seconds
from plr.paper.observations import Claim, Observation
from plr.paper.report.content import Content, View
from plr.paper.report.pictures import Picture, for_page
from plr.paper.report.results_table import VERDICT_WORDS, render_results, scroll_box
from plr.paper.table_formats import SYMBOLS, format_deviation, format_result
from plr.paper.tables import Characteristics, dataset_title, describe_selection
from plr.report.html import Markup, element, join

__all__ = [
    "agreement_section",
    "figures_section",
    "observations_section",
    "run_section",
    "summary_section",
    "table1_section",
    "tables_section",
]

_NOTHING_SHOWN = 40


def summary_section(content: Content) -> Markup:
    """Return what came out, in three lines."""
    cards = [_by_rule(content, _agreement_card), _by_rule(content, _observations_card), _cells_card(content)]
    return element("div", *cards, class_="cards")


def run_section(content: Content) -> Markup:
    """Return what was run, by what and on what."""
    protocol = content.protocol
    settings = [(name.replace("_", " "), _show(value)) for name, value in protocol.settings().items() if value != []]
    settings.append(("selection", _by_rule(content, lambda view: join([view.selection]))))
    settings.append(("hyper-parameters chosen", f"per {content.chosen.agreement.per}"))
    parts = [element("h3", "Settings"), element("div", _definitions(settings), class_="columns")]
    for run in content.runs:
        parts += [element("h3", f"Run {run['id']}"), _definitions(_describe_run(run))]
    if content.failures:
        parts.append(element("h3", "Cells that could not be done"))
        shown = content.failures[:_NOTHING_SHOWN]
        lines = [
            f"{cell['dataset']} {cell['model']} {cell['method']} {cell['false_labels']} trial {cell['trial']}: "
            f"{cell['error']}"
            for cell in shown
        ]
        parts.append(element("ul", *(element("li", line) for line in lines)))
        if len(content.failures) > len(shown):
            parts.append(element("p", f"… and {len(content.failures) - len(shown)} more."))
    return join(parts)


def table1_section(table: Sequence[Characteristics]) -> Markup:
    """Return Table 1."""
    rows = []
    for row in table:
        counts = [_count_cell(row, column) for column in range(4)]
        rows.append(element("tr", element("th", row.title, scope="row"), *counts))
    caption = (
        "Rows of each part as they are split, and features before one-hot encoding; ✓: as published. Every table is "
        "checked by its SHA-256 when it is loaded."
    )
    heads = {"Data set": "", "Train": "", "Test": "", "Validation": "", "Features": ""}
    return _table("Table 1", caption, heads, rows)


def tables_section(content: Content) -> Markup:
    """Return the tables of results, under every rule."""

    def tables(view: View) -> Markup:
        return join(render_results(table) for table in view.tables)

    note = element(
        "noscript",
        element(
            "p",
            "Shown is the rule ",
            element("code", content.chosen.selection),
            "; ",
            element("code", "plr report --selection NAME"),
            " shows another.",
        ),
    )
    return join([note, _by_rule(content, tables)])


def agreement_section(content: Content) -> Markup:
    """Return how many published cells agree, under each rule, and which do not."""
    parts = [element("p", RULE_IN_WORDS)]
    if content.best is None:
        parts.append(element("p", "The paper has no number for anything that was run here."))
        return join(parts)
    parts.append(
        element(
            "p",
            "The most agree when chosen by ",
            element("strong", content.best.selection),
            f" ({describe_selection(content.best.selection, content.best.per)}): {_counted(content.best)}.",
        )
    )
    parts.append(_agreement_table(content))
    parts.append(element("h3", "Cells that do not agree"))
    parts.append(_by_rule(content, _disagreeing))
    return join(parts)


def observations_section(content: Content) -> Markup:
    """Return the paper's five observations, measured and on the published tables."""
    intro = element(
        "p",
        "The five observations of the paper's “Experimental Performance”, each as statements that can be counted: over "
        "what was measured here, and over the tables as published.",
    )

    def observations(view: View) -> Markup:
        pairs = zip(view.observations, content.published_observations, strict=True)
        return join(_observation(measured, published) for measured, published in pairs)

    return join([intro, _by_rule(content, observations)])


def figures_section(figures: Sequence[tuple[Picture, str]]) -> Markup:
    """Return the figures."""
    if not figures:
        return element("p", "Nothing to draw.")
    parts = []
    for picture, svg in figures:
        drawing = Markup(for_page(svg, picture.name))
        box = element("div", drawing, class_="picture", tabindex=0, role="region", aria_label=picture.title)
        caption = element("figcaption", element("strong", f"{picture.title}. "), picture.caption)
        parts.append(element("figure", box, caption))
    return join(parts)


def _by_rule(content: Content, render: Callable[[View], Markup]) -> Markup:
    """Return something rendered for each rule; only the chosen one is shown until the reader chooses another."""
    parts = [
        element("div", render(view), class_="by-rule", data_rule=view.selection, hidden=place > 0)
        for place, view in enumerate(content.views)
    ]
    return join(parts)


def _card(number: str, text: str, detail: str) -> Markup:
    return element(
        "div", element("p", number, class_="number"), element("p", text), element("p", detail, class_="muted")
    )


def _agreement_card(view: View) -> Markup:
    agreement = view.agreement
    if not agreement.counted:
        return _card("–", "published means to compare with", "The paper did not run this.")
    percent = f"{100 * agreement.agreeing / agreement.counted:.1f} %"
    detail = f"{_counted(agreement)}, by the rule {agreement.selection}"
    return _card(percent, "of the published means agree", detail)


def _observations_card(view: View) -> Markup:
    verdicts = [observation.holds for observation in view.observations]
    open_ones = verdicts.count(None)
    detail = f"{verdicts.count(False)} do not" + (f", {open_ones} cannot be judged from this run" if open_ones else "")
    return _card(f"{verdicts.count(True)} of {len(verdicts)}", "of the paper's observations hold", detail)


def _cells_card(content: Content) -> Markup:
    done, total = content.states.get("done", 0), sum(content.states.values())
    others = [f"{content.states[state]} {state}" for state in ("failed", "waiting") if content.states.get(state)]
    others += [f"{content.diverged} fits diverged"] if content.diverged else []
    seconds = describe_seconds(sum(run["seconds"] for run in content.runs))
    return _card(f"{done} of {total}", "cells done", ", ".join([*others, f"{seconds} of one core"]))


def _describe_run(run: dict[str, Any]) -> list[tuple[str, str]]:
    machine = ", ".join(f"{name} {value}" if name == "cores" else str(value) for name, value in run["machine"].items())
    return [
        ("command", run["command"] or "not recorded"),
        ("begun", run["created"]),
        ("revision", run["revision"] or "not from a checkout"),
        ("device", run["device"]),
        ("machine", machine),
        ("versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
        ("cells done", f"{run['cells']}, in {describe_seconds(run['seconds'])} of one core"),
    ]


def _definitions(pairs: Sequence[tuple[str, str]]) -> Markup:
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs))


def _show(value: object) -> str:
    return (
        ", ".join(map(_show, value))
        if isinstance(value, list)
        else value
        if isinstance(value, str)
        else json.dumps(value)
    )


def _count_cell(row: Characteristics, column: int) -> Markup:
    if row.counts is None or row.published is None:
        return element("td", "–")
    count, published = row.counts[column], row.published[column]
    if count == published:
        return element("td", f"{count} ", element("span", "✓", class_="agrees"))
    return element("td", f"{count} ", element("span", f"✗ published {published}", class_="apart"))


def _counted(agreement: Agreement) -> str:
    text = f"{agreement.agreeing} of {agreement.counted}"
    return text if not agreement.unmeasured else f"{text} measured ({COUNTED_CELLS} published)"


def _agreement_table(content: Content) -> Markup:
    counts = {(agreement.selection, agreement.per): agreement for agreement in content.agreements}
    heads = {"Rule": "", "In words": "words", "Trials choose each": "", "Trials choose together": ""}
    lines = []
    for selection in dict.fromkeys(name for name, _ in counts):
        words = describe_selection(selection).replace(", in each trial,", "")
        cells = [element("th", selection, scope="row"), element("td", words, class_="words")]
        for per in ("trial", "cell"):
            agreement = counts.get((selection, per))
            is_best = agreement is not None and agreement is content.best
            text = (
                "–"
                if agreement is None or agreement.share is None
                else f"{agreement.agreeing} ({100 * agreement.share:.1f} %)"
            )
            cells.append(element("td", element("strong", f"{text} most") if is_best else text))
        lines.append(element("tr", *cells, data_rule=selection))
    caption = f"Agreeing cells, of {content.chosen.agreement.counted} measured, under each selection rule."
    return _table("Agreement by rule", caption, heads, lines)


def _disagreeing(view: View) -> Markup:
    apart = view.agreement.disagreeing()
    if not apart:
        return element("p", f"None, by the rule {view.selection}.")
    words = ("Model", "Method", "Verdict", "Reason")
    names = ("Data set", "Model", "Method", "|S̄|", "Measured", "Published", "Difference", "Verdict", "Reason")
    heads = {name: "words" if name in words else "" for name in names}
    lines = []
    for item in apart:
        percent = (
            "" if item.measured is None else f"{100 * (item.measured / item.published - 1):+.0f} %".replace("-", "−")
        )
        verdict = f"{SYMBOLS[item.verdict]} {VERDICT_WORDS[item.verdict]}"
        cells = [
            element("th", dataset_title(item.dataset), scope="row"),
            *(element("td", text, class_="words") for text in (item.model, item.method)),
            element("td", str(item.false_labels)),
            element("td", format_result(item.measured, item.measured_std)),
            element("td", format_result(item.published, item.published_std)),
            element("td", ", ".join(filter(None, (percent, format_deviation(item.deviation))))),
            element("td", element("span", verdict, class_="apart"), class_="words"),
            element("td", item.reason or "–", class_="words" if item.reason else "words muted"),
        ]
        lines.append(element("tr", *cells))
    lower = sum(item.verdict is Verdict.LOWER for item in apart)
    caption = f"{len(apart)} cells by the rule {view.selection}: {lower} lower, {len(apart) - lower} higher or failed."
    return _table("Cells that do not agree", caption, heads, lines)


def _table(name: str, caption: str, heads: Mapping[str, str], rows: Sequence[Markup]) -> Markup:
    """Return a table in its box; ``heads`` maps each column's head to the class of the head."""
    head = element("tr", *(element("th", text, scope="col", class_=kind or None) for text, kind in heads.items()))
    body = element("table", element("caption", caption), element("thead", head), element("tbody", *rows))
    return scroll_box(body, name)


def _observation(measured: Observation, published: Observation) -> Markup:
    lines = []
    for claim, printed in zip(measured.claims, published.claims, strict=True):
        counts = element("p", "Measured: ", _claim(claim), ". As published: ", _claim(printed), ".", class_="counts")
        details = [
            f"Measured: {claim.detail}" if claim.detail else "",
            f"As published: {printed.detail}" if printed.detail else "",
        ]
        small = [element("p", detail, class_="muted") for detail in details if detail]
        lines.append(element("li", element("p", claim.statement), counts, *small))
    title = element("h3", f"{measured.number}. ", _verdict(measured.holds))
    return element("article", title, element("p", element("em", measured.summary)), element("ul", *lines))


def _claim(claim: Claim) -> Markup:
    counts = f" {claim.count} of {claim.total}" if claim.total else ""
    return join([_verdict(claim.holds), counts])


def _verdict(holds: bool | None) -> Markup:
    if holds is None:
        return element("span", "? not measured", class_="open")
    return element("span", "✓ true", class_="agrees") if holds else element("span", "✗ false", class_="apart")
