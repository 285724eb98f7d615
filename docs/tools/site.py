"""Hooks of the site's build: quotes from results, the command line's help, formulas."""

from __future__ import annotations

import ast
import re
from typing import Any

from commands import command_line
from maths import Maths
from measured import QUOTES
from mkdocs.exceptions import PluginError

__all__ = ["on_config", "on_page_markdown"]

_QUOTE = re.compile(r"\{\{ (\w+)\((.*?)\) \}\}")


def on_config(config: Any) -> Any:
    """Let formulas be written in dollar signs."""
    config.markdown_extensions.append(Maths())
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fill in what stands in double braces."""
    return _QUOTE.sub(lambda found: _quote(found, page.file.src_uri), markdown)


def _quote(found: re.Match[str], where: str) -> str:
    name, arguments = found.groups()
    known = {**QUOTES, "command_line": command_line}
    if name not in known:
        raise PluginError(
            f"{where} quotes {name}(), which docs/tools does not know; it has {', '.join(sorted(known))}."
        )
    return known[name](*ast.literal_eval(f"({arguments},)" if arguments else "()"))
