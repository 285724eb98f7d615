"""A table as Markdown and as CSV, with what was measured, how, and which bars it meets."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Bar", "Section", "Sheet", "number", "plus_minus", "ratio_text"]


@dataclass(frozen=True)
class Bar:
    """Something a table is to show.

    Attributes
    ----------
    words : str
        What is measured.
    value, limit : float
    at_least : bool
        Whether the limit is to be reached, rather than kept.
    complete : bool
        Whether everything it needs has been measured; a bar is neither met nor missed before.
    shown : str
        The value in words, where a number alone does not say it.
    """

    words: str
    value: float
    limit: float
    at_least: bool = False
    complete: bool = True
    shown: str = ""

    @property
    def verdict(self) -> str:
        """``met``, ``missed`` or ``not all measured``."""
        if not self.complete or not math.isfinite(self.value):
            return "not all measured"
        met = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "met" if met else "missed"

    def __str__(self) -> str:
        value = f"{self.value:.3f}" if isinstance(self.value, float) else str(self.value)
        value = value if math.isfinite(self.value) else "–"
        wanted = f"{'at least' if self.at_least else 'at most'} {self.limit:g}"
        return f"- {self.words}: **{self.shown or value}** ({wanted}: {self.verdict})"


@dataclass(frozen=True)
class Section:
    """A part of a table under a heading."""

    heading: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes
    ----------
    title : str
    notes : list of str
        Paragraphs: what is shown and how to read it.
    bars : list of Bar
    sections : list of Section
        For people.
    header, rows : sequences
        For programs: every cell, unrounded.
    """

    title: str
    notes: list[str]
    header: Sequence[str]
    rows: list[Sequence[object]]
    bars: list[Bar] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def to_markdown(self, made: str) -> bytes:
        """Return the table for people; ``made`` says how it came about."""
        lines = [f"# {self.title}", "", made, ""]
        for note in self.notes:
            lines += [note, ""]
        if self.bars:
            lines += [*(str(bar) for bar in self.bars), ""]
        for section in self.sections:
            lines += [f"## {section.heading}", ""]
            lines += [_row(section.header), "|---|" + "---:|" * (len(section.header) - 1)]
            lines += [*(_row(row) for row in section.rows), ""]
        return "\n".join(lines).encode()

    def to_csv(self, made: str) -> bytes:
        """Return the table for programs; comment lines come first."""
        out = io.StringIO()
        out.writelines(f"# {line}\n" for line in made.splitlines() if line)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_plain(value) for value in row] for row in self.rows)
        return out.getvalue().encode()


def number(value: float | None) -> str:
    """Write a number with three digits that count.

    >>> number(0.87654), number(12.345), number(1234.5), number(float("nan"))
    ('0.877', '12.3', '1234', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}"


def plus_minus(value: float, spread: float) -> str:
    """Write a number with its spread.

    >>> plus_minus(12.345, 1.2), plus_minus(3.0, float("nan"))
    ('12.3 ± 1.20', '3.00')
    """
    return number(value) if not math.isfinite(spread) else f"{number(value)} ± {number(spread)}"


def ratio_text(ratio: float, error: float = math.nan) -> str:
    """Write a ratio with its standard error, with as many places for all, so that a column can be compared by eye.

    >>> ratio_text(0.8765, 0.0123), ratio_text(1.0)
    ('0.88 ± 0.01', '1.00')
    """
    if not math.isfinite(ratio):
        return "–"
    return f"{ratio:.2f} ± {error:.2f}" if math.isfinite(error) else f"{ratio:.2f}"


def _row(cells: Sequence[str]) -> str:
    # A bar inside a cell, as in |S̄|, would end it.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.8g}" if math.isfinite(value) else ""
    return "" if value is None else value
