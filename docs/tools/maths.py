"""Formulas in dollar signs become MathML when the site is built, so that pages need no script to show them."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

__all__ = ["Maths"]

# After code, which may hold dollar signs, and before anything that would read underscores and stars.
_PRIORITY = 185


class _Formula(InlineProcessor):
    def __init__(self, pattern: str, md: Markdown, display: str) -> None:
        super().__init__(pattern, md)
        self.display = display

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: ARG002, N802
        """Turn one formula into MathML and keep it out of reach of other rules."""
        made = convert(" ".join(m.group(1).split()), display=self.display)
        return self.md.htmlStash.store(made), m.start(0), m.end(0)


class Maths(Extension):
    """``$…$`` within a line and ``$$…$$`` on lines of their own."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register both kinds of formula."""
        own_line = _Formula(r"\$\$(.+?)\$\$", md, "block")
        in_line = _Formula(r"\$(?!\s)([^$\n]+?)(?<!\s)\$", md, "inline")
        md.inlinePatterns.register(own_line, "formula_on_its_own", _PRIORITY + 1)
        md.inlinePatterns.register(in_line, "formula_in_line", _PRIORITY)
