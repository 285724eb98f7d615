"""HTML in a few functions: whatever is text is escaped, whatever is HTML is marked as such by its type."""

from __future__ import annotations

import html
from collections.abc import Iterable

__all__ = ["Markup", "element", "join"]

_VOID = {"br", "meta", "input"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: str | float | bool | None) -> Markup:
    """Return an element; content that is not `Markup` is escaped, attributes always are.

    Attribute names lose a trailing underscore, and other underscores become hyphens. True is an attribute without a
    value; False and None leave it out.

    >>> element("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        parts.append(word if value is True else f'{word}="{html.escape(str(value))}"')
    start = f"<{' '.join(parts)}>"
    return Markup(start if name in _VOID else f"{start}{join(content)}</{name}>")


def join(parts: Iterable[str]) -> Markup:
    """Put parts one after the other, escaped unless they are `Markup`.

    >>> join(["a & b", element("br")])
    'a &amp; b<br>'
    """
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))
