"""How a model was made, and the command that makes it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from plr.learners.committee import FittedCommittee
from plr.learners.transformed import FittedTransformed, TransformedTarget
from plr.regressor import PartialLabelRegressor
from plr.report.charts import shown

__all__ = ["columns_of", "command_of", "settings_of", "table_of"]

# Options of ``plr fit`` that are on unless switched off.
_ON_BY_DEFAULT = ("intervals", "page")
# Options of ``plr fit`` that name columns.
_ROLES = (
    "truth",
    "ignore",
    "text",
    "row",
    "prior",
    "candidate_features",
    "match_score",
    "record",
    "weights",
    "groups",
)


def table_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``plr fit`` wrote down about its table; empty for models that were saved from Python."""
    return _mapping(_mapping(manifest.get("extra")).get("table"))


def settings_of(model: PartialLabelRegressor, manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of settings, data and versions, as far as they are known."""
    table, used, fitted = table_of(manifest), model.learner_, model.model_
    if isinstance(used, TransformedTarget) and isinstance(fitted, FittedTransformed):
        used, fitted = used.learner, fitted.model
    learner = type(used).__name__
    if isinstance(fitted, FittedCommittee):
        shares = zip(fitted.members, fitted.shares, strict=True)
        learner += ": " + ", ".join(f"{member.name} {share:.0%}" for member, share in shares)
    options = _mapping(table.get("options"))
    trained = "rows given in Python"
    if isinstance(table.get("rows"), int):
        trained = f"{table['rows']:,} rows of {table.get('source')}"
    found = [
        ("Learner", learner),
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
        ("plr", manifest.get("plr")),
        *_mapping(manifest.get("packages")).items(),
    ]
    return [(str(name), str(value)) for name, value in found if str(value)]


def command_of(table: Mapping[str, Any], target: Sequence[str], out: str) -> str:
    """Return the command that fits the model of a table, as far as its file tells; empty where it does not."""
    if not target or not isinstance(table.get("source"), str):
        return ""
    words = ["plr", "fit", table["source"], "--target", ",".join(target)]
    options = _mapping(table.get("options"))
    roles = table.get("roles")
    roles = roles if isinstance(roles, dict) else {"truth": table.get("truth")}
    for role in _ROLES:
        if (value := roles.get(role)) and role not in options:
            option = role.replace("_", "-")
            words += [f"--{option}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    if table.get("prior_is", "share") != "share":
        words += ["--prior-is", str(table["prior_is"])]
    if isinstance(known := table.get("known"), list):
        words += [word for each in known for word in ("--known", str(each))]
    for name, value in options.items():
        option = str(name).replace("_", "-")
        if name == "option":
            words += [word for each in _spelled(value) for word in ("--option", each)]
        elif not isinstance(value, bool):
            words += [] if value is None else [f"--{option}", str(value)]
        elif value != (name in _ON_BY_DEFAULT):
            words.append(f"--{option}" if value else f"--no-{option}")
    return shlex.join([*words, "-o", out])


def columns_of(table: Mapping[str, Any]) -> list[Any] | None:
    """Return what ``plr fit`` wrote down about each column of its table; None where it did not."""
    found = _mapping(table.get("features")).get("columns")
    return found if isinstance(found, list) else None


def _mapping(found: Any) -> dict[Any, Any]:
    return found if isinstance(found, dict) else {}


def _spelled(options: Any) -> list[str]:
    """Return the options of the parts as they were typed."""
    return [f"{name}={_typed(value)}" for name, value in _mapping(options).items()]


def _typed(value: Any) -> str:
    """Return a value as it is typed: texts without quotes, unless they would be read as a number or a list."""
    if isinstance(value, str):
        with suppress(ValueError):
            json.loads(value)
            return json.dumps(value)
        return value
    return json.dumps(value)
