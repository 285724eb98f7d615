"""What a model file may name, and what each part must look like.

A file names kinds, never classes to import: which class a kind stands for is in `KINDS`. What a part consists of are
the fields of its class, what each may be their type hints, and what they must be together its ``__post_init__``. So a
new fitted class, or a new name of one, is one line here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import sys
import types
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from plr.errors import ParameterError
from plr.learners import LEARNERS
from plr.learners.starts import STARTS
from plr.losses import LOSSES
from plr.persistence.file import ARRAY_TYPES
from plr.weighting import WEIGHTINGS

__all__ = [
    "CHECKS",
    "KINDS",
    "NAMES",
    "REASONS",
    "STAND_INS",
    "Field",
    "MalformedError",
    "check_part",
    "class_of",
    "fields_of",
    "home_of",
    "matches",
    "require",
]


class MalformedError(Exception):
    """Something in a file is not what it should be. It becomes a `ModelFileError` where the path is known."""


def require(holds: bool, what: str) -> None:
    """Raise `MalformedError` unless something holds."""
    if not holds:
        raise MalformedError(what)


def home_of(part: object) -> str:
    """Return where the class of an object is, as ``module:name``."""
    return f"{type(part).__module__}:{type(part).__qualname__}"


def _homes(kind: str, registry: dict[str, Any]) -> dict[str, str]:
    return {f"{kind} {name}": f"{made.__module__}:{made.__qualname__}" for name, made in registry.items()}


KINDS = {
    **_homes("learner", LEARNERS),
    **_homes("weighting", WEIGHTINGS),
    **_homes("loss", LOSSES),
    **_homes("start", STARTS),
    "learner refit": "plr.learners.refit.learner:Refit",
    "regressor": "plr.persistence.regressor_schema:FittedAttributes",
    "affine": "plr.preprocessing.scaling:Affine",
    "encoding": "plr.preprocessing.features:Encoding",
    "columns": "plr.preprocessing.features:Columns",
    "report": "plr.contracts:Report",
    "uniform false labels": "plr.weighting.false_labels:FalseLabelDensity",
    "smooth false labels": "plr.weighting.false_labels:SmoothDensity",
    "noise": "plr.noise:NoiseModel",
    "calibration": "plr.intervals:Calibration",
    "identification": "plr.identification:Identification",
    "odd value": "plr.diagnosis.ambiguity:Odd",
    "value pair": "plr.diagnosis.ambiguity:ValuePair",
    "relation": "plr.diagnosis.relations:Relation",
    "signal": "plr.diagnosis.signal:Signal",
    "diagnosis": "plr.diagnosis.findings:Diagnosis",
    "linear": "plr.learners.linear:FittedLinear",
    "layout": "plr.network.layers:Layout",
    "network": "plr.network.network:Network",
    "mlp": "plr.learners.mlp:FittedNetwork",
    "boosting": "plr.learners.boosting:FittedBoosting",
    "kernel": "plr.learners.gaussian_process.chain:Kernel",
    "chain": "plr.learners.gaussian_process.chain:Chain",
    "gaussian process": "plr.learners.gaussian_process.learner:FittedGaussianProcess",
    "fitted regressor": "plr.learners.refit.fits:FittedRegressor",
    "row scale": "plr.learners.refit.row_scale:RowScale",
    "refit": "plr.learners.refit.learner:FittedRefit",
    "committee": "plr.learners.committee:FittedCommittee",
    "bins": "plr.densities.bins:Bins",
    "forest": "plr.densities.forest:FittedForest",
    "networks": "plr.densities.network:FittedNetworks",
    "neighbours": "plr.densities.neighbours:FittedNeighbours",
    "background": "plr.densities.mixture:Background",
    "mixture": "plr.densities.mixture:Mixture",
    "density": "plr.learners.density:FittedDensity",
    "tree": "plr.persistence.trees:StoredTree",
    "booster": "plr.persistence.boosters:StoredBooster",
    "lightgbm regressor": "plr.persistence.boosters:StoredRegressor",
    "module": "plr.persistence.modules:StoredModule",
    "module learner": "plr.persistence.modules:StoredLearner",
    "feature reader": "plr.persistence.modules:StoredReader",
    "tensor": "plr.persistence.modules:StoredTensor",
}
"""The classes of parts, by the names that files have for them; imported when the first of its kind is read."""

NAMES = {home: name for name, home in KINDS.items()}
"""The names of the kinds, by their classes."""

STAND_INS = {
    "sklearn.tree._tree:Tree": KINDS["tree"],
    "lightgbm.basic:Booster": KINDS["booster"],
    "lightgbm.sklearn:LGBMRegressor": "plr.persistence.boosters:keep_regressor",
    "plr.learners.module.fitted:FittedModule": KINDS["module"],
    "plr.learners.module.learner:Module": KINDS["module learner"],
    "plr.learners.module.features:FeatureReader": KINDS["feature reader"],
}
"""What is kept in place of some objects: what makes a part of one, with ``restore`` if it can come back."""

_CODE = "a function of one's own is code, and a model file holds none; keep the script that fits the model instead"

REASONS = {
    "plr.weighting.custom:Custom": _CODE,
    "plr.losses:Pointwise": _CODE,
    "plr.weighting.false_labels:GivenDensity": (
        "a density given as a function or a distribution is code, and a model file holds none; give false_labels as an "
        "array of draws from it"
    ),
}
"""Why some parts cannot be kept."""


def class_of(home: str) -> Any:
    """Return the class that is at a place; the places are those of this module alone."""
    module, _, name = home.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclasses.dataclass(frozen=True)
class Field:
    """What a field may hold, and whether it is one of those for the training rows."""

    hint: Any
    ndim: int
    finite: bool
    by_row: bool

    def allows(self, value: Any) -> bool:
        """Whether the value is what the field may hold."""
        return matches(value, self.hint, self.ndim, self.finite)

    @property
    def without_rows(self) -> Any:
        """What stands for the entries of the training rows where they are left out."""
        return None if matches(None, self.hint) else np.empty(0)


class _Names(dict[str, Any]):
    """The names in the type hints of a module, with those that it imports for type checkers only."""

    def __missing__(self, name: str) -> Any:
        if name in ("plr", "lightgbm"):
            return importlib.import_module(name)
        home = next((home for home in NAMES if home.endswith(f":{name}")), None)
        if home is None:
            raise KeyError(name)
        return class_of(home)


@functools.cache
def fields_of(found: Any) -> dict[str, Field] | None:
    """Return the fields of a dataclass or named tuple that files keep; None for a class that has parameters instead."""
    if not dataclasses.is_dataclass(found) and not hasattr(found, "_fields"):
        return None
    hints = get_type_hints(found, localns=_Names(vars(sys.modules[found.__module__])))
    if dataclasses.is_dataclass(found):
        declared = {each.name: each.metadata for each in dataclasses.fields(found)}
    else:
        declared = dict.fromkeys(found._fields, types.MappingProxyType({}))
    return {
        name: Field(hints[name], told.get("ndim", 1), told.get("finite", True), told.get("by_row", False))
        for name, told in declared.items()
        if told.get("kept", True)
    }


def matches(value: Any, hint: Any, ndim: int = 1, finite: bool = True) -> bool:
    """Whether a value is what a type hint says; numbers are finite, arrays have ``ndim`` dimensions."""
    origin, inside = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):
        # NDArray is an alias by name where NumPy and Python are new enough.
        return matches(value, origin.__value__[inside], ndim, finite)
    if hint in (Any, object):
        return True
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool) and -(2**63) <= int(value) < 2**63
    if hint in (float, np.float64):
        is_number = isinstance(value, float | np.floating) or matches(value, int)
        return is_number and (not finite or math.isfinite(value))
    if origin in (Union, types.UnionType):
        return any(matches(value, each, ndim, finite) for each in inside)
    if origin is Literal:
        return isinstance(value, str) and value in inside
    if origin is tuple:
        return isinstance(value, tuple) and all(matches(entry, inside[0]) for entry in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            matches(key, inside[0]) and matches(entry, inside[1], ndim, finite) for key, entry in value.items()
        )
    if origin is np.ndarray:
        return _is_array(value, get_args(inside[1])[0], ndim, finite)
    if getattr(hint, "_is_protocol", False):
        members = [name for name in dir(hint) if not name.startswith("_")]
        return home_of(value) in {*NAMES, *STAND_INS} and all(hasattr(value, name) for name in members)
    return isinstance(value, hint)


def _is_array(value: Any, dtype: Any, ndim: int, finite: bool) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim != ndim:
        return False
    known = value.dtype.type in ARRAY_TYPES.values() if dtype is Any else value.dtype == np.dtype(dtype)
    return known and (not finite or value.dtype.kind != "f" or bool(np.isfinite(value).all()))


def _check_columns(columns: Any) -> None:
    for place, categories in columns.categories.items():
        require(0 <= place < len(columns.names), "it has categories of a column that it has not")
        odd = [entry for entry in categories if not isinstance(entry, str | int | float | bool | np.generic)]
        if odd:
            raise MalformedError(
                f"the column {columns.names[place]} has categories of the type {type(odd[0]).__name__}, and files hold "
                f"texts and numbers only"
            )


def _check_noise(noise: Any) -> None:
    require(np.ndim(noise.target.centre) == 0 and noise.target.scale > 0, "labels need one centre and one scale")
    require(noise.scale > 0 and 0 <= noise.missing < 1, "scale or share of missing truths out of range")
    try:
        noise.weighting.encode()
    except (ParameterError, TypeError, ValueError) as error:
        raise MalformedError(f"invalid parameters of the weighting ({error})") from error


def _check_forest(forest: Any) -> None:
    for tree in forest.trees:
        if home_of(tree) != "sklearn.tree._tree:Tree":
            require(home_of(tree) == KINDS["tree"], "a forest needs trees")
            require(tree.values.shape[1] == forest.bins.count, "leaves and bins differ in number")


def _check_mixture(mixture: Any) -> None:
    width = mixture.encoding.width
    for model in mixture.models:
        kind = NAMES[home_of(model)]
        if kind == "forest":
            columns = {int(tree.feature.max()) + 1 for tree in model.trees if home_of(tree) == KINDS["tree"]}
            require(max(columns, default=0) <= width, "a forest splits by columns that there are not")
        elif kind == "networks":
            require(all(each.layout.sizes[0] == width for each in model.networks), "networks have other columns")
        else:
            require(kind == "neighbours" and model.rows.shape[1] == width, "neighbours have other columns")


def _check_model(model: Any) -> None:
    # Parts of scikit-learn's models predict as well, but look at no row before they do.
    found = type(model.regressor)
    predicts = hasattr(found, "predict") and (hasattr(found, "fit") or home_of(model.regressor) == KINDS[_LIGHTGBM])
    require(predicts, "its regressor is not one")


def _check_committee(committee: Any) -> None:
    for model in () if committee.trees is None else committee.trees.models:
        require(model.columns is None, "the trees of a committee take all columns")
        require(home_of(model.regressor) in (_LGBM, KINDS[_LIGHTGBM]), "the trees of a committee are LightGBM's")
        require(
            getattr(model.regressor, "n_features_in_", 0) == committee.encoding.width,
            "trees and encoding differ in columns",
        )


_LGBM, _LIGHTGBM = "lightgbm.sklearn:LGBMRegressor", "lightgbm regressor"

CHECKS: dict[str, Callable[[Any], None]] = {
    KINDS["columns"]: _check_columns,
    KINDS["noise"]: _check_noise,
    KINDS["forest"]: _check_forest,
    KINDS["mixture"]: _check_mixture,
    KINDS["fitted regressor"]: _check_model,
    KINDS["committee"]: _check_committee,
}
"""What is asked of parts beyond what their classes ask of themselves."""


def check_part(kind: str, values: Mapping[str, Any], part: Any = None) -> None:
    """Raise `MalformedError` unless a part's fields, and the part itself once it is made, are as files want them."""
    for name, field in (fields_of(class_of(KINDS[kind])) or {}).items():
        require(field.allows(values[name]), f"the {name} of a part of the kind {kind} has a wrong type or value")
    if part is not None and KINDS[kind] in CHECKS:
        CHECKS[KINDS[kind]](part)
