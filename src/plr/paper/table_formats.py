"""Tables as Markdown, LaTeX (booktabs) and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from plr.paper.agreement import RULE_IN_SHORT, Verdict
from plr.paper.tables import Characteristics, Entry, ResultTable

__all__ = [
    "FORMATS",
    "SYMBOLS",
    "format_deviation",
    "format_number",
    "format_result",
    "table1_text",
    "table_text",
]

FORMATS = ("md", "tex", "csv")

SYMBOLS = {
    Verdict.AGREES: "✓",
    Verdict.BETTER: "▾",
    Verdict.HIGHER: "✗",
    Verdict.LOWER: "✗",
    Verdict.FAILED: "✗",
    Verdict.MISPRINT: "?",
}
"""A mark for each verdict that needs no colour."""

_LEGEND = (
    "Second line: the published mean (standard deviation), whether the measured mean agrees with it (✓ yes, ▾ better, "
    "✗ no, ? misprinted), and the difference in published standard deviations σ. A mean agrees if it lies "
    f"{RULE_IN_SHORT}, of the published one; Supervised, IDent and PIDent may also be lower (better)."
)
_TABLE1_CAPTION = (
    "Characteristics of the data sets: rows of each part as they are split, and features before one-hot encoding. "
    "Every table is checked by its SHA-256 when it is loaded."
)
_TABLE1_HEADS = ("Data set", "Train", "Test", "Validation", "Features")
_CSV_HEADS = (
    "dataset",
    "model",
    "method",
    "false_labels",
    "selection",
    "per",
    "trials",
    "failed_trials",
    "test_mse",
    "test_mse_std",
    "best",
    "p_value_against_best",
    "published_mse",
    "published_std",
    "deviation",
    "verdict",
)

_LATEX_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "≈": r"$\approx$",
        "✓": r"$\checkmark$",
        "▾": r"$\downarrow$",
        "✗": r"$\times$",
        "σ": r"$\sigma$",
        "−": "$-$",
        "–": "--",
        "|": r"\textbar{}",
    }
)


def format_number(value: float | None) -> str:
    """Return a number with two decimals, as the paper prints them, or a dash.

    >>> format_number(13.768), format_number(1234567.0), format_number(None)
    ('13.77', '1.23e+06', '–')
    """
    if value is None:
        return "–"
    return f"{value:.2f}" if abs(value) < 1e5 else f"{value:.3g}"


def format_result(mean: float | None, std: float | None) -> str:
    """Return ``mean (std)``.

    >>> format_result(13.77, 3.27)
    '13.77 (3.27)'
    """
    if mean is None:
        return "failed"
    return f"{format_number(mean)} ({format_number(std)})"


def format_deviation(value: float | None) -> str:
    """Return a difference in standard deviations, with its sign.

    >>> format_deviation(-0.25), format_deviation(0.04), format_deviation(None)
    ('−0.2 σ', '0.0 σ', '')
    """
    if value is None:
        return ""
    text = f"{value:+.1f}"
    return f"{'0.0' if float(text) == 0 else text.replace('-', '−')} σ"


def table1_text(table: Sequence[Characteristics], form: str) -> str:
    """Return Table 1 in one of `FORMATS`."""
    if form == "csv":
        heads = ["dataset", "train", "test", "validation", "features"]
        rows = [[row.dataset, *_published_beside(row)] for row in table]
        return _csv([*heads, *(f"published_{name}" for name in heads[1:])], rows)
    lines = [[row.title, *(_count(row, column) for column in range(4))] for row in table]
    if form == "md":
        return _markdown("Table 1: data sets", _TABLE1_CAPTION, _TABLE1_HEADS, lines)
    body = [_latex_line(line) for line in lines]
    return _latex("tab:datasets", _TABLE1_CAPTION, "lrrrr", [_latex_line(_TABLE1_HEADS)], body, wide=False)


def table_text(table: ResultTable, form: str) -> str:
    """Return a table of results in one of `FORMATS`."""
    if form == "csv":
        return _csv(_CSV_HEADS, _csv_rows(table))
    return _results_markdown(table) if form == "md" else _results_latex(table)


def _count(row: Characteristics, column: int) -> str:
    if row.counts is None or row.published is None:
        return "–"
    measured, published = row.counts[column], row.published[column]
    return str(measured) if measured == published else f"{measured} (published {published})"


def _published_beside(row: Characteristics) -> list[object]:
    return [*(row.counts or [""] * 4), *(row.published or [""] * 4)]


def _results_markdown(table: ResultTable) -> str:
    caption = f"{table.caption} {_LEGEND}" if table.has_published else table.caption
    lines = []
    for row in table.rows:
        cells = [_markdown_entry(row.entries.get(method)) for method in table.methods]
        lines.append([row.title, "–" if row.false_labels is None else str(row.false_labels), *cells])
    return _markdown(table.title, caption, ["Data set", "|S̄|", *table.methods], lines)


def _markdown_entry(entry: Entry | None) -> str:
    if entry is None:
        return "–"
    result = format_result(entry.mean, entry.std)
    text = f"**{result}**" if entry.best else result
    if entry.not_worse:
        text += " ≈"
    published = _published_line(entry)
    return f"{text}<br>{published}" if published else text


def _published_line(entry: Entry) -> str:
    found = entry.comparison
    if found is None:
        return ""
    published = format_result(found.published, found.published_std)
    parts = (published, SYMBOLS[found.verdict], format_deviation(found.deviation))
    return " ".join(part for part in parts if part)


def _results_latex(table: ResultTable) -> str:
    caption = f"{table.caption} {_LEGEND}" if table.has_published else table.caption
    body: list[str] = []
    previous = None
    for row in table.rows:
        if previous is not None:
            body.append(r"\addlinespace" if row.dataset == previous else r"\midrule")
        is_first = row.dataset != previous
        previous = row.dataset
        # Supervised is one number for all sizes: printed once.
        entries = [row.entries.get(method) if is_first or method != "Supervised" else None for method in table.methods]
        size = "--" if row.false_labels is None else str(row.false_labels)
        body.append(_latex_line([row.title if is_first else "", size], [_latex_entry(entry) for entry in entries]))
        if table.has_published:
            beside = [_latex_published(entry) for entry in entries]
            body.append(_latex_line(["", ""], beside))
    heads = [_latex_line(["Data set", r"$|\bar{S}|$"], [_escape_latex(method) for method in table.methods], raw=True)]
    return _latex(f"tab:{table.model}", caption, "lr" + "r" * len(table.methods), heads, body, wide=True)


def _latex_entry(entry: Entry | None) -> str:
    if entry is None:
        return ""
    result = _escape_latex(format_result(entry.mean, entry.std))
    if entry.best:
        return rf"\textbf{{{result}}}"
    return rf"{result}\rlap{{\,$\approx$}}" if entry.not_worse else result


def _latex_published(entry: Entry | None) -> str:
    if entry is None or entry.comparison is None:
        return ""
    return rf"{{\footnotesize\itshape {_escape_latex(_published_line(entry))}}}"


def _csv_rows(table: ResultTable) -> Iterable[list[object]]:
    seen = set()
    for row in table.rows:
        for method, entry in row.entries.items():
            size = 0 if method == "Supervised" else row.false_labels
            if (row.dataset, size, method) in seen:
                continue
            seen.add((row.dataset, size, method))
            found = entry.comparison
            yield [
                row.dataset,
                table.model,
                method,
                size,
                table.selection,
                table.per,
                entry.trials,
                entry.failed_trials,
                entry.mean,
                entry.std,
                int(entry.best),
                entry.p_value,
                *(
                    [None] * 4
                    if found is None
                    else [found.published, found.published_std, found.deviation, found.verdict.value]
                ),
            ]


def _csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()


def _markdown(title: str, caption: str, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    rule = "|" + "|".join([":--", *["--:"] * (len(heads) - 1)]) + "|"
    return "\n".join([f"## {title}", "", caption, "", line(heads), rule, *map(line, lines), ""])


def _latex(label: str, caption: str, columns: str, heads: Sequence[str], body: Sequence[str], *, wide: bool) -> str:
    environment = "table*" if wide else "table"
    lines = [
        r"% Needs \usepackage{amssymb,booktabs,graphicx}",
        rf"\begin{{{environment}}}[t]",
        r"\centering",
        rf"\caption{{{_escape_latex(caption)}}}",
        rf"\label{{{label}}}",
        r"\smallskip",
        r"\resizebox{\textwidth}{!}{%" if wide else "",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *heads,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}" + ("}" if wide else ""),
        rf"\end{{{environment}}}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _latex_line(cells: Sequence[str], more: Sequence[str] = (), *, raw: bool = False) -> str:
    """Join cells: the first are escaped unless ``raw``, what follows is LaTeX already."""
    escaped = cells if raw else [_escape_latex(cell) for cell in cells]
    return " & ".join([*escaped, *more]) + r" \\"


def _escape_latex(text: str) -> str:
    # The combining macron of |S̄| is beyond LaTeX's input encoding.
    return text.replace("|S̄|", "\0").translate(_LATEX_SPECIAL).replace("\0", r"$|\bar{S}|$")
