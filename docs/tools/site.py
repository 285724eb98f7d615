"""Hooks of the site's build: quotes from results, pictures, notebooks, the command line's help, formulas."""

from __future__ import annotations

import ast
import re
from typing import Any

from commands import command_line
from maths import Maths
from measured import QUOTES
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from notebooks import all_notebooks, page_of
from pictures import PICTURES

__all__ = ["on_config", "on_files", "on_page_markdown"]

_QUOTE = re.compile(r"\{\{ (\w+)\((.*?)\) \}\}")


def on_config(config: Any) -> Any:
    """Let formulas be written in dollar signs."""
    config.markdown_extensions.append(Maths())
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Give each notebook a page."""
    for path in all_notebooks():
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page_of(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fill in what stands in double braces."""
    return _QUOTE.sub(lambda found: _quote(found, page.file.src_uri), markdown)


def _quote(found: re.Match[str], where: str) -> str:
    name, arguments = found.groups()
    known = {**QUOTES, **PICTURES, "command_line": command_line}
    if name not in known:
        raise PluginError(f"{where} shows {name}(), which docs/tools does not know; it has {', '.join(sorted(known))}.")
    return known[name](*ast.literal_eval(f"({arguments},)" if arguments else "()"))
