"""Tables for notebooks: small, escaped, and without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

__all__ = ["SHOWN_ROWS", "as_html", "listed_candidates"]

SHOWN_ROWS = 8
"""So many rows are shown, at most."""

_SHOWN_CANDIDATES = 6


def as_html(caption: str, rows: Sequence[str], columns: Mapping[str, Sequence[str]], count: int) -> str:
    """Return an HTML table of texts.

    Parameters
    ----------
    caption : str
    rows : sequence of str
        What the rows that are shown are called.
    columns : mapping of str to sequence of str
    count : int
        How many rows there are in all.

    Examples
    --------
    >>> print(as_html("Two rows", ["a", "<b>"], {"value": ["1", "2"]}, 2))
    <p>Two rows</p>
    <table>
    <tr><th></th><th>value</th></tr>
    <tr><th>a</th><td>1</td></tr>
    <tr><th>&lt;b&gt;</th><td>2</td></tr>
    </table>
    """
    lines = [f"<p>{escape(caption)}</p>", "<table>", _line("th", ["", *columns])]
    for name, *cells in zip(rows, *columns.values(), strict=True):
        lines.append(f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    if count > len(rows):
        lines.append(f'<tr><td colspan="{len(columns) + 1}">… {count - len(rows):,} more rows</td></tr>')
    return "\n".join([*lines, "</table>"])


def _line(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def listed_candidates(values: Iterable[float], shares: Iterable[float] | None) -> str:
    """Return candidates in words, with a share behind each; of many the first ones.

    >>> listed_candidates([12.5, 13.1], [0.75, 0.25]), listed_candidates(range(9), None)
    ('12.5 (0.75), 13.1 (0.25)', '0, 1, 2, 3, 4, 5, … 3 more')
    """
    texts = [f"{value:.6g}" for value in values]
    if shares is not None:
        texts = [f"{text} ({share:.2g})" for text, share in zip(texts, shares, strict=True)]
    more = [f"… {len(texts) - _SHOWN_CANDIDATES} more"] if len(texts) > _SHOWN_CANDIDATES else []
    return ", ".join([*texts[:_SHOWN_CANDIDATES], *more])
