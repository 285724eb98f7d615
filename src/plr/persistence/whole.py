"""What a fitted `PartialLabelRegressor` consists of, and what each attribute must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr.learners import Committee, Learner, Module
from plr.losses import Loss
from plr.persistence.kinds import (
    Check,
    MalformedError,
    a,
    digests,
    floats,
    home_of,
    number,
    optional,
    positive,
    require,
    strings,
    whole,
)
from plr.persistence.modules import StoredModule
from plr.persistence.parts import columns_of
from plr.persistence.registry import KINDS
from plr.regressor import PartialLabelRegressor
from plr.weighting.base import Weighting

__all__ = ["ATTRIBUTES", "OF_ROWS", "TRANSIENT", "make_regressor"]


def _is_model(value: Any) -> bool:
    return isinstance(value, StoredModule) or home_of(value) in {KINDS[name].home for name in _MODELS}


_MODELS = ("linear", "mlp", "boosting", "gaussian process", "refit", "committee", "density")

ATTRIBUTES: dict[str, Check] = {
    "learner_": lambda value: isinstance(value, Learner),
    "weighting_": lambda value: isinstance(value, Weighting),
    "loss_": lambda value: isinstance(value, Loss),
    "model_": _is_model,
    "n_iter_": whole(0),
    "noise_": a(KINDS["noise"].home),
    "noise_scale_": positive,
    "missing_share_": number,
    "n_features_in_": whole(0),
    "feature_names_in_": strings,
    "columns_": optional(a(KINDS["columns"].home)),
    "calibration_": optional(a(KINDS["calibration"].home)),
    "diagnosis_": optional(a(KINDS["diagnosis"].home)),
    "start_weights_": optional(floats(1)),
    "candidate_probabilities_": floats(1),
    "_identified": optional(a(KINDS["identification"].home)),
    "_out_of_fold": optional(floats(1)),
    "_row_digests": optional(digests),
}
"""What is kept of a fitted regressor, besides its parameters."""

OF_ROWS = ("start_weights_", "candidate_probabilities_", "_identified", "_out_of_fold")
"""What of it was found for the training rows."""

TRANSIENT = ("_training", "_given")
"""What no file holds: the training rows themselves."""

_NONE_UNLESS_GIVEN = ("start_weights_", "_identified", "_out_of_fold", "_row_digests", "calibration_", "diagnosis_")
_NOT_ALWAYS = {"n_features_in_", "feature_names_in_", "columns_", *_NONE_UNLESS_GIVEN, *OF_ROWS}


def make_regressor(parameters: dict[str, Any], attributes: dict[str, Any]) -> PartialLabelRegressor:
    """Return a fitted regressor from its parameters and attributes, once they are checked."""
    known = set(PartialLabelRegressor._get_param_names())
    require(parameters.keys() <= known, "it has parameters that plr does not know")
    require(attributes.keys() <= ATTRIBUTES.keys(), "it has attributes that plr does not know")
    require(attributes.keys() >= ATTRIBUTES.keys() - _NOT_ALWAYS, "it is not fitted")
    for name, value in attributes.items():
        require(ATTRIBUTES[name](value), f"its {name} is not what it should be")
    _check_columns(attributes)
    if parameters.get("effort") == "normal" and not isinstance(attributes["learner_"], Committee):
        # Files were once written with it for every learner; it means nothing to others than the committee.
        parameters = {**parameters, "effort": None}
    regressor = PartialLabelRegressor(**parameters)
    found = dict.fromkeys(_NONE_UNLESS_GIVEN) | attributes | dict.fromkeys(TRANSIENT)
    for name, value in found.items():
        setattr(regressor, name, value)
    return regressor


def _check_columns(attributes: dict[str, Any]) -> None:
    """Check that the model wants the columns that are let through to it."""
    model = attributes["model_"]
    encoding = getattr(model, "features", None) or getattr(model, "encoding", None)
    if hasattr(model, "mixture"):
        encoding = model.mixture.encoding
    wanted = getattr(model, "columns", None) if encoding is None else columns_of(encoding)
    if wanted is not None and attributes.get("n_features_in_") != wanted:
        raise MalformedError("its model wants other columns than it is given")
    learner = attributes["learner_"]
    is_module = isinstance(model, StoredModule)
    right = is_module == isinstance(learner, Module)
    if learner.takes == "rows" and not is_module:
        right = right and home_of(model) == KINDS["refit"].home
    require(right, "its learner is another than its model's")
    if is_module:
        _check_reader(model.reader, attributes)
    table, names = attributes.get("columns_"), attributes.get("feature_names_in_")
    if table is not None:
        require(len(table.names) == attributes.get("n_features_in_"), "its table has other columns")
    require(names is None or len(names) == attributes.get("n_features_in_"), "it has other names than columns")


def _check_reader(reader: Any, attributes: dict[str, Any]) -> None:
    """Check that features are scaled by as many columns as there are."""
    columns = attributes.get("n_features_in_")
    if reader.scaling is not None and columns is not None:
        require(np.shape(reader.scaling.centre) == (columns,), "its module's features are scaled by other columns")
