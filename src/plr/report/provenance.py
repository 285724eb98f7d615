"""How a model was made, and the command that makes it again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from plr.learners.committee import FittedCommittee
from plr.report.charts import shown
from plr.report.content import ModelContent

__all__ = ["columns_of", "command_of", "settings_of"]


def settings_of(content: ModelContent) -> list[tuple[str, str]]:
    """Return names and values of settings, data and versions, as far as they are known."""
    table, model = content.table, content.model
    options = _mapping(table.get("options"))
    trained = "rows given in Python"
    if isinstance(table.get("rows"), int):
        trained = f"{table['rows']:,} rows of {table.get('source')}"
    found = [
        ("Learner", _learner(model)),
        ("Module", options.get("module", "")),
        ("Options", ", ".join(_spelled(options.get("option")))),
        ("Weighting", type(model.weighting_).__name__),
        ("Loss", type(model.loss_).__name__),
        ("Seed", options.get("seed", model.random_state)),
        ("Rounds", f"{model.n_iter_:,}"),
        ("Noise scale", shown(float(model.noise_scale_))),
        ("Features", f"{model.n_features_in_:,}" if hasattr(model, "n_features_in_") else "unknown"),
        ("Trained on", trained),
        ("Fingerprint of the rows", str(table.get("digest") or "")[:16]),
        ("plr", content.manifest.get("plr")),
        *_mapping(content.manifest.get("packages")).items(),
    ]
    return [(str(name), str(value)) for name, value in found if str(value)]


def command_of(content: ModelContent) -> str:
    """Return the command that fits the model, as far as the file tells."""
    table = content.table
    if not content.target or not isinstance(table.get("source"), str):
        return ""
    words = ["plr", "fit", table["source"], "--target", ",".join(content.target)]
    roles = table.get("roles")
    roles = roles if isinstance(roles, dict) else {"truth": table.get("truth")}
    for role in ("truth", "ignore", "prior", "weights", "groups"):
        if value := roles.get(role):
            words += [f"--{role}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    for name, value in _mapping(table.get("options")).items():
        if name == "drop_empty":
            words += ["--drop-empty"] if value else []
        elif name == "option":
            words += [word for each in _spelled(value) for word in ("--option", each)]
        elif isinstance(value, bool):
            words += [] if value else [f"--no-{name}"]
        else:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, "-o", content.name])


def columns_of(content: ModelContent) -> list[Any] | None:
    """Return what ``plr fit`` wrote down about each column of its table; None where it did not."""
    found = _mapping(content.table.get("features")).get("columns")
    return found if isinstance(found, list) else None


def _learner(model: Any) -> str:
    name = type(model.learner_).__name__
    few = isinstance(model.model_, FittedCommittee) and model.model_.trees is None
    return f"{name}: Gaussian process only, as there are few rows" if few else name


def _mapping(found: Any) -> dict[Any, Any]:
    return found if isinstance(found, dict) else {}


def _spelled(options: Any) -> list[str]:
    """Return the options of the parts as they were typed."""
    return [f"{name}={value if _is_bare(value) else json.dumps(value)}" for name, value in _mapping(options).items()]


def _is_bare(value: Any) -> bool:
    """Return whether something is a text that would not be read as a number or a list."""
    if not isinstance(value, str):
        return False
    try:
        json.loads(value)
    except ValueError:
        return True
    return False
