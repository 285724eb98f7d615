"""HTML pages from templates: each one file, which loads nothing and runs nothing but its own script.

A page NAME is made of ``NAME.html``, ``NAME.css`` and ``NAME.js`` in the folder ``templates`` of its package, and of
``base.html``, ``base.css``, ``base.js`` and the macros of ``parts.html``, which all pages share.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping

from plr.report.numbers import exact, shown, to_decimals

__all__ = ["render_page"]


def render_page(
    package: str,
    name: str,
    *,
    style: str = "",
    filters: Mapping[str, Callable[..., str]] | None = None,
    **values: object,
) -> str:
    """Return a page; every text among the values is escaped.

    Parameters
    ----------
    package : str
        The package whose folder ``templates`` has the page.
    name : str
        Its files' name.
    style : str
        More rules, beside those of the files.
    filters : mapping of str to callable, optional
        More filters for the templates, beside those that are always there: ``number``, ``exact``, ``decimals``,
        ``thousands``, ``percent`` and ``breakable``.
    **values
        What the templates show.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = ChoiceLoader([PackageLoader(package), PackageLoader("plr.report")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters |= {
        "number": shown,
        "exact": exact,
        "decimals": to_decimals,
        "breakable": _breakable,
        "thousands": "{:,.0f}".format,
        "percent": "{:.0%}".format,
        **(filters or {}),
    }
    read = {kind: loader.get_source(environment, f"{name}.{kind}")[0] for kind in ("css", "js")}
    shared = {kind: loader.get_source(environment, f"base.{kind}")[0] for kind in ("css", "js")}
    style, script = shared["css"] + read["css"] + style, shared["js"] + read["js"]
    # Nothing may be fetched, and no style or script applied but what is in these files.
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(style)}; script-src {_digest(script)}"
    )
    template = environment.get_template(f"{name}.html")
    return template.render(style=Markup(style), script=Markup(script), policy=policy, **values)


def _breakable(text: object) -> str:
    """Return a name that may go on in a new line behind its punctuation, so that no word in it is broken."""
    from markupsafe import Markup, escape

    # Not before digits: numbers stay whole.
    parts = re.split(r"(?<=[^\w\s]|_)(?=[^\W\d_])", str(text))
    return Markup("<wbr>").join(escape(part) for part in parts)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
