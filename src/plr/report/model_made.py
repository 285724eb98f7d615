"""What was done to make a model, and how to do it again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from plr.learners.committee import FittedCommittee
from plr.report.charts import shown
from plr.report.html import Markup, element, join
from plr.report.model_page import ModelContent

__all__ = ["command_of", "made"]


def made(content: ModelContent) -> Markup:
    """Return settings, versions, columns, and the command that does it again."""
    table, model = content.table, content.model
    options = table.get("options")
    options = options if isinstance(options, dict) else {}
    trained = "rows given in Python"
    if isinstance(table.get("rows"), int):
        trained = f"{table['rows']:,} rows of {table.get('source')}"
    facts = [
        ("Learner", _learner(model)),
        ("Module", str(options.get("module", ""))),
        ("Options", ", ".join(_spelled(options.get("option")))),
        ("Weighting", type(model.weighting_).__name__),
        ("Loss", type(model.loss_).__name__),
        ("Seed", str(options.get("seed", model.random_state))),
        ("Rounds", f"{model.n_iter_:,}"),
        ("Noise scale", shown(float(model.noise_scale_))),
        ("Features", f"{model.n_features_in_:,}" if hasattr(model, "n_features_in_") else "unknown"),
        ("Trained on", trained),
        ("Fingerprint of the rows", str(table.get("digest"))[:16] if table.get("digest") else ""),
        ("plr", str(content.manifest.get("plr"))),
        *((str(name), str(version)) for name, version in _packages(content.manifest)),
    ]
    listed = [element("div", element("dt", name), element("dd", value)) for name, value in facts if value]
    parts = [element("dl", *listed, class_="columns")]
    command = command_of(content)
    if command:
        parts += [element("h3", "The same model again"), element("pre", element("code", command), tabindex="0")]
    parts.append(_columns(table))
    return join(parts)


def _learner(model: Any) -> str:
    name = type(model.learner_).__name__
    few = isinstance(model.model_, FittedCommittee) and model.model_.trees is None
    return f"{name}, its Gaussian process alone: rows are few" if few else name


def command_of(content: ModelContent) -> str:
    """Return the command that fits the model, as far as the file tells."""
    table = content.table
    if not content.target or not isinstance(table.get("source"), str):
        return ""
    words = ["plr", "fit", table["source"], "--target", ",".join(content.target)]
    given = table.get("roles")
    for role in ("truth", "ignore", "prior", "weights", "groups"):
        value = given.get(role) if isinstance(given, dict) else table.get("truth") if role == "truth" else None
        if value:
            words += [f"--{role}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    options = table.get("options")
    for name, value in (options if isinstance(options, dict) else {}).items():
        if name == "drop_empty":
            words += ["--drop-empty"] if value else []
        elif name == "option":
            words += [word for each in _spelled(value) for word in ("--option", each)]
        elif isinstance(value, bool):
            words += [] if value else [f"--no-{name}"]
        else:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, "-o", content.name])


def _spelled(options: Any) -> list[str]:
    """Return the options of the parts as they were typed."""
    if not isinstance(options, dict):
        return []
    return [f"{name}={value if _is_bare(value) else json.dumps(value)}" for name, value in options.items()]


def _is_bare(value: Any) -> bool:
    """Return whether something is a text that would not be read as a number or a list."""
    if not isinstance(value, str):
        return False
    try:
        json.loads(value)
    except ValueError:
        return True
    return False


def _packages(manifest: dict[str, Any]) -> list[tuple[Any, Any]]:
    found = manifest.get("packages")
    return list(found.items()) if isinstance(found, dict) else []


def _columns(table: dict[str, Any]) -> Markup:
    features = table.get("features")
    columns = features.get("columns") if isinstance(features, dict) else None
    if not isinstance(columns, list):
        return Markup()
    lines = []
    for column in columns[:500]:
        if isinstance(column, dict):
            cells = [element("td", str(column.get(key, "")), class_="words") for key in ("kind", "note")]
            lines.append(element("tr", element("th", str(column.get("name")), scope="row"), *cells))
    heads = [element("th", word, scope="col", class_="words") for word in ("column", "taken as", "remark")]
    head = element("thead", element("tr", *heads))
    listed = element(
        "div",
        element("table", head, element("tbody", *lines)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Columns",
    )
    return element("details", element("summary", f"What was done with each of {len(columns):,} columns"), listed)
