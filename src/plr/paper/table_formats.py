"""Tables as Markdown, LaTeX (booktabs) and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from plr.paper.agreement import RULE_IN_SHORT, Verdict
from plr.paper.tables import Characteristics, Entry, ResultTable, dataset_title

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
        rows = [[row.dataset, *(row.counts or [""] * 4), *(row.published or [""] * 4)] for row in table]
        return _csv([*heads, *(f"published_{name}" for name in heads[1:])], rows)
    lines = []
    for row in table:
        pairs = zip(row.counts, row.published, strict=True) if row.counts and row.published else [("–", "–")] * 4
        cells = [f"{found}" if found == published else f"{found} (published {published})" for found, published in pairs]
        lines.append([dataset_title(row.dataset), *cells])
    if form == "md":
        return _markdown("Table 1: data sets", _TABLE1_CAPTION, _TABLE1_HEADS, lines)
    head, *body = [_latex_line(map(_escape_latex, line)) for line in [_TABLE1_HEADS, *lines]]
    return _latex("tab:datasets", _TABLE1_CAPTION, "lrrrr", head, body, wide=False)


def table_text(table: ResultTable, form: str) -> str:
    """Return a table of results in one of `FORMATS`."""
    if form == "csv":
        return _csv(_CSV_HEADS, _csv_rows(table))
    caption = f"{table.caption} {_LEGEND}" if table.has_published else table.caption
    if form == "tex":
        return _results_latex(table, caption)
    lines = []
    for row in table.rows:
        size = "–" if row.false_labels is None else str(row.false_labels)
        lines.append(
            [dataset_title(row.dataset), size, *(_markdown_entry(row.entries.get(method)) for method in table.methods)]
        )
    return _markdown(table.title, caption, ["Data set", "|S̄|", *table.methods], lines)


def _markdown_entry(entry: Entry | None) -> str:
    if entry is None:
        return "–"
    result = format_result(entry.mean, entry.std)
    text = f"**{result}**" if entry.best else result
    published = _published_line(entry)
    return text + (" ≈" if entry.not_worse else "") + (f"<br>{published}" if published else "")


def _published_line(entry: Entry) -> str:
    found = entry.comparison
    if found is None:
        return ""
    published = format_result(found.published, found.published_std)
    return f"{published} {SYMBOLS[found.verdict]} {format_deviation(found.deviation)}".strip()


def _results_latex(table: ResultTable, caption: str) -> str:
    body: list[str] = []
    previous = None
    for row in table.rows:
        is_first = row.dataset != previous
        if previous is not None:
            body.append(r"\midrule" if is_first else r"\addlinespace")
        previous = row.dataset
        # Supervised is one number for all sizes: printed once.
        entries = [row.entries.get(method) if is_first or method != "Supervised" else None for method in table.methods]
        size = "--" if row.false_labels is None else str(row.false_labels)
        title = _escape_latex(dataset_title(row.dataset)) if is_first else ""
        body.append(_latex_line([title, size, *(_latex_entry(entry) for entry in entries)]))
        if table.has_published:
            lines = [_escape_latex(_published_line(entry)) if entry else "" for entry in entries]
            body.append(
                _latex_line(["", "", *(rf"{{\footnotesize\itshape {line}}}" if line else "" for line in lines)])
            )
    heads = _latex_line(["Data set", r"$|\bar{S}|$", *map(_escape_latex, table.methods)])
    return _latex(f"tab:{table.model}", caption, "lr" + "r" * len(table.methods), heads, body, wide=True)


def _latex_entry(entry: Entry | None) -> str:
    if entry is None:
        return ""
    result = _escape_latex(format_result(entry.mean, entry.std))
    if entry.best:
        return rf"\textbf{{{result}}}"
    return rf"{result}\rlap{{\,$\approx$}}" if entry.not_worse else result


def _csv_rows(table: ResultTable) -> Iterable[list[object]]:
    seen = set()
    for row in table.rows:
        for method, entry in row.entries.items():
            size = 0 if method == "Supervised" else row.false_labels
            if (row.dataset, size, method) in seen:
                continue
            seen.add((row.dataset, size, method))
            found = entry.comparison
            published = (found.published, found.published_std, found.deviation, found.verdict.value) if found else ()
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
                *(published or [None] * 4),
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


def _latex(label: str, caption: str, columns: str, heads: str, body: Sequence[str], *, wide: bool) -> str:
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
        heads,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}" + ("}" if wide else ""),
        rf"\end{{{environment}}}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escape_latex(text: str) -> str:
    # The combining macron of |S̄| is beyond LaTeX's input encoding.
    return text.replace("|S̄|", "\0").translate(_LATEX_SPECIAL).replace("\0", r"$|\bar{S}|$")
