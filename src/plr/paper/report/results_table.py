"""A table of results as HTML: measured above, published below, a mark and a colour for agreement."""

from __future__ import annotations

from plr.paper.agreement import RULE_IN_SHORT, Verdict
from plr.paper.table_formats import SYMBOLS, format_deviation, format_number
from plr.paper.tables import Entry, ResultTable
from plr.report.html import Markup, element, join

__all__ = ["VERDICT_WORDS", "render_results", "scroll_box"]

VERDICT_WORDS = {
    Verdict.AGREES: "agrees",
    Verdict.BETTER: "better than published",
    Verdict.HIGHER: "higher than published",
    Verdict.LOWER: "lower than published",
    Verdict.FAILED: "failed to train",
    Verdict.MISPRINT: "published number misprinted",
}

_CLASSES = {
    Verdict.AGREES: "agrees",
    Verdict.BETTER: "better",
    Verdict.HIGHER: "apart",
    Verdict.LOWER: "apart",
    Verdict.FAILED: "apart",
    Verdict.MISPRINT: "open",
}

_LEGEND = (
    " Below each: published mean (standard deviation), ✓ agrees, ▾ better than published, "
    "✗ disagrees or ? published number misprinted, and the difference in published standard deviations. A mean agrees "
    f"if it lies {RULE_IN_SHORT}, of the published one; Supervised, IDent and PIDent may also be lower (better)."
)


def scroll_box(table: Markup, label: str) -> Markup:
    """Put a table into a box of its own that scrolls, by keyboard too."""
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def render_results(table: ResultTable) -> Markup:
    """Return a table of results with its title."""
    caption = table.caption + (_LEGEND if table.has_published else "")
    heads = [element("th", "|S̄|", scope="col"), *(element("th", method, scope="col") for method in table.methods)]
    groups = []
    for dataset in dict.fromkeys(row.dataset for row in table.rows):
        rows = [row for row in table.rows if row.dataset == dataset]
        # The name in a box of its own stays in sight when the table is scrolled sideways.
        name = element("th", element("span", rows[0].title), colspan=len(heads), scope="rowgroup")
        lines = [element("tr", name, class_="group")]
        for place, row in enumerate(rows):
            cells = [element("th", "–" if row.false_labels is None else str(row.false_labels), scope="row")]
            for method in table.methods:
                entry = row.entries.get(method)
                if method != "Supervised":
                    cells.append(_cell(entry))
                elif place == 0:
                    cells.append(_cell(entry, rows=len(rows)))
            lines.append(element("tr", *cells))
        groups.append(element("tbody", *lines))
    body = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        *groups,
        class_="results",
    )
    return join([element("h3", table.title), scroll_box(body, table.title)])


def _cell(entry: Entry | None, rows: int = 1) -> Markup:
    span = rows if rows > 1 else None
    if entry is None:
        return element("td", "–", rowspan=span)
    mean = element("b" if entry.best else "span", "failed" if entry.mean is None else format_number(entry.mean))
    parts: list[str] = [mean]
    if entry.std is not None:
        parts.append(element("small", f" ({format_number(entry.std)})"))
    if entry.not_worse:
        parts.append(element("abbr", " ≈", title=f"not significantly worse than the best, p = {entry.p_value:.2f}"))
    if entry.failed_trials:
        parts.append(element("abbr", f" −{entry.failed_trials}", title=f"{entry.failed_trials} trials failed to train"))
    return element("td", *parts, _published(entry), rowspan=span)


def _published(entry: Entry) -> Markup:
    found = entry.comparison
    if found is None:
        return Markup("")
    numbers = f"{format_number(found.published)} ({format_number(found.published_std)}) "
    words = VERDICT_WORDS[found.verdict]
    mark = element("abbr", SYMBOLS[found.verdict], title=words, class_=_CLASSES[found.verdict])
    # The caption names the unit once for all cells, which are many and narrow.
    deviation = format_deviation(found.deviation).removesuffix(" σ")
    return element("div", numbers, mark, f" {deviation}" if deviation else "", class_="pub")
