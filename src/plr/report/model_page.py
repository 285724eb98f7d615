"""The page of a model: one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from plr.regressor import PartialLabelRegressor
from plr.report.facts import Facts, find_facts, half_width
from plr.report.html import Markup, element, join
from plr.report.importance import Importance
from plr.report.rows import Rows

__all__ = ["ModelContent", "render_model_page"]

_MOST_NAMES, _LONGEST_NAME = 8, 60


@dataclass(frozen=True)
class ModelContent:
    """What the page of a model shows.

    Attributes
    ----------
    name : str
        What the model file is called.
    model : PartialLabelRegressor
    manifest : dict
        What the model file says about itself.
    rows : Rows or None
        The rows to show; None where there are none.
    new : bool
        Whether they are rows that the model was not fitted to.
    source : str
        Where they come from.
    importance : Importance or None
    trained : Rows or None
        The training rows, where ``rows`` are new ones.
    """

    name: str
    model: PartialLabelRegressor
    manifest: dict[str, Any]
    rows: Rows | None = None
    new: bool = False
    source: str = ""
    importance: Importance | None = None
    trained: Rows | None = None

    @property
    def table(self) -> dict[str, Any]:
        """What ``plr fit`` wrote down about its table; empty for models that were saved from Python."""
        found = (self.manifest.get("extra") or {}).get("table")
        return found if isinstance(found, dict) else {}

    @property
    def target(self) -> tuple[str, ...]:
        """The columns that the candidates are in."""
        found = self.table.get("target")
        return tuple(str(name) for name in found) if isinstance(found, list) else ()

    @property
    def label(self) -> str:
        """What is predicted, in a word."""
        return self.target[0] if len(self.target) == 1 and len(self.target[0]) <= 30 else "value"

    @property
    def predicted(self) -> str:
        """What is predicted, in a sentence."""
        names = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in self.target]
        if not names:
            return "The model predicts a value."
        if len(names) == 1:
            return f"The model predicts {names[0]}."
        if len(names) <= _MOST_NAMES:
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
        else:
            listed = f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more columns"
        return f"The model predicts the true value, for which {listed} hold the candidates."

    @property
    def facts(self) -> Facts | None:
        """The figures about the rows."""
        return None if self.rows is None else find_facts(self.rows, self.model.calibration_, new=self.new)

    @property
    def half(self) -> float | None:
        """Half the width of a 90 % interval."""
        return half_width(self.model.calibration_)


def render_model_page(content: ModelContent) -> str:
    """Return the page of a model.

    Parameters
    ----------
    content : ModelContent
    """
    from plr.report.model_sections import sections_of
    from plr.report.model_table import rows_as_json

    sections = sections_of(content)
    links = [element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections]
    style, script = _resource("page.css") + _resource("model.css"), _resource("model.js")
    skip = "rows" if any(name == "rows" for name, _, _ in sections) else sections[0][0]
    parts = [
        element("a", "Skip to the rows" if skip == "rows" else "Skip to the content", href=f"#{skip}", class_="skip"),
        element(
            "header",
            element("h1", "The model ", element("code", content.name)),
            element("nav", element("ul", *links), aria_label="Sections"),
        ),
        element("main", *(element("section", element("h2", title), body, id=name) for name, title, body in sections)),
        element("footer", element("p", "Made by ", element("code", "plr report"), ". Nothing on it is fetched.")),
    ]
    if content.rows is not None:
        data = Markup(rows_as_json(content.rows, content.half, content.target))
        parts.append(element("script", data, type="application/json", id="rows-data"))
    parts.append(element("script", Markup(script)))
    # Forbids the page to fetch anything, and to run or look like anything but what stands here.
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    )
    head = join(
        [
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name_="color-scheme", content="light dark"),
            element("title", f"The model {content.name}"),
            element("style", Markup(style)),
        ]
    )
    return f"<!DOCTYPE html>\n{element('html', element('head', head), element('body', *parts), lang='en')}\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _resource(name: str) -> str:
    return resources.files("plr.report").joinpath(name).read_text(encoding="utf-8")
