"""HTML pages from templates: each one file, which loads nothing and runs nothing but its own script.

A page NAME is made of ``NAME.html``, ``NAME.css`` and ``NAME.js`` in the folder ``templates`` of its package, and of
``base.html``, ``base.css`` and the macros of ``parts.html``, which all pages share.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping

from plr.report.charts import shown

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
        More filters for the templates; ``number``, ``thousands`` and ``percent`` are always there.
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
        "thousands": "{:,.0f}".format,
        "percent": "{:.0%}".format,
        **(filters or {}),
    }
    read = {kind: loader.get_source(environment, f"{name}.{kind}")[0] for kind in ("css", "js")}
    style = loader.get_source(environment, "base.css")[0] + read["css"] + style
    # Nothing may be fetched, and no style or script applied but what is in these files.
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(style)}; script-src {_digest(read['js'])}"
    )
    template = environment.get_template(f"{name}.html")
    return template.render(style=Markup(style), script=Markup(read["js"]), policy=policy, **values)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
