"""Docstrings as Markdown: what they say in another markup is put into this one before pages are made of them."""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Docstrings"]

_EXAMPLES = re.compile(r"^Examples\n-+$", flags=re.MULTILINE)
_DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> )\S.*\n?|^>>> .*\n?)*)", flags=re.MULTILINE)
# Roles of reStructuredText, such as :func:`load`.
_ROLE = re.compile(r":(?:func|data|class|mod|meth):(?=`)")


class Docstrings(griffe.Extension):
    """Fence examples that stand outside a section of examples, and leave out roles."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Mend the docstring of a module, class, function or attribute."""
        if obj.docstring is None:
            return
        text = _ROLE.sub("", obj.docstring.value)
        found = _EXAMPLES.search(text)
        before, after = (text, "") if found is None else (text[: found.start()], text[found.start() :])
        obj.docstring.value = _DOCTEST.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", before) + after
