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
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from plr.errors import ModelFileError, ParameterError
from plr.learners import LEARNERS
from plr.learners.starts import STARTS
from plr.losses import LOSSES
from plr.persistence.file import ARRAY_TYPES
from plr.priors import PRIORS
from plr.weighting import WEIGHTINGS

__all__ = [
    "CHECKS",
    "KINDS",
    "REASONS",
    "REGISTRIES",
    "STAND_INS",
    "MalformedError",
    "RefusedError",
    "UntrustedError",
    "check_fields",
    "class_of",
    "fields_of",
    "hold",
    "home_of",
    "import_class",
    "in_one_line",
    "kind_of",
    "matches",
    "refusal",
    "require",
]


class MalformedError(Exception):
    """Something in a file is not what it should be. It becomes a `ModelFileError` where the path is known.

    Parameters
    ----------
    what : str
    packages : iterable of str
        Modules of other packages that wrote the part, and may write and read it otherwise in other versions.
    """

    def __init__(self, what: str, packages: Iterable[str] = ()) -> None:
        super().__init__(what)
        self.packages = packages


class RefusedError(MalformedError):
    """The file is whole, but needs something from whoever loads it, given as ``parameter``."""

    parameter: str | None = None


class UntrustedError(RefusedError):
    """The file needs types to be trusted."""

    parameter = "trusted"


def refusal(place: str, why: str) -> ModelFileError:
    """Make the error for what cannot be written."""
    return ModelFileError(f"The model cannot be written to a file because of its {place}: {why}.")


def in_one_line(error: BaseException) -> str:
    """Return the type of an error and what it says, without line breaks."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def require(holds: bool, what: str) -> None:
    """Raise `MalformedError` unless something holds."""
    if not holds:
        raise MalformedError(what)


def hold(what: str, *conditions: Any) -> None:
    """Raise `MalformedError` unless all conditions hold, and arrays everywhere."""
    require(all(bool(np.all(condition)) for condition in conditions), what)


REGISTRIES: dict[str, Mapping[str, Any]] = {
    "learner": LEARNERS,
    "weighting": WEIGHTINGS,
    "loss": LOSSES,
    "start": STARTS,
    "prior": PRIORS,
}
"""The classes that go by the names of their registries, such as ``"weighting posterior"``."""

KINDS = {
    "learner refit": "plr.learners.refit.learner:Refit",
    "regressor": "plr.persistence.models:FittedAttributes",
    "affine": "plr.preprocessing.scaling:Affine",
    "encoding": "plr.preprocessing.features:Encoding",
    "columns": "plr.preprocessing.features:Columns",
    "report": "plr.contracts:Report",
    "uniform false labels": "plr.weighting.false_labels:FalseLabelDensity",
    "smooth false labels": "plr.weighting.false_labels:SmoothDensity",
    "noise": "plr.noise:NoiseModel",
    "calibration": "plr.intervals:Calibration",
    "coverage": "plr.intervals:Coverage",
    "residual density": "plr.residuals:ResidualDensity",
    "row widths": "plr.widths:RowWidths",
    "identification": "plr.identification:Identification",
    "outlying value": "plr.diagnosis.ambiguity:OutlyingValue",
    "value pair": "plr.diagnosis.ambiguity:ValuePair",
    "relation": "plr.diagnosis.ambiguity:Relation",
    "signal": "plr.diagnosis.signal:Signal",
    "diagnosis": "plr.diagnosis.findings:Diagnosis",
    "learned prior": "plr.priors.learned:LearnedPrior",
    "candidate columns": "plr.priors.columns:CandidateColumns",
    "agreement": "plr.priors.learned:Agreement",
    "row features": "plr.priors.learned:RowFeatures",
    "smooth function": "plr.priors.smoothing:SmoothFunction",
    "missing truth": "plr.priors.learned:MissingTruth",
    "dependence": "plr.priors.dependence:Dependence",
    "boosted utility": "plr.priors.boosted:BoostedUtility",
    "linear": "plr.learners.linear:FittedLinear",
    "layout": "plr.network.layers:Layout",
    "network": "plr.network.network:Network",
    "mlp": "plr.learners.mlp:FittedNetwork",
    "boosting": "plr.learners.boosting:FittedBoosting",
    "normal scores": "plr.preprocessing.ranks:NormalScores",
    "kernel": "plr.learners.gaussian_process.chain:Kernel",
    "chain": "plr.learners.gaussian_process.chain:Chain",
    "gaussian process": "plr.learners.gaussian_process.learner:FittedGaussianProcess",
    "fitted regressor": "plr.learners.refit.fits:FittedRegressor",
    "row scale": "plr.learners.refit.row_scale:RowScale",
    "refit": "plr.learners.refit.learner:FittedRefit",
    "committee": "plr.learners.committee.learner:FittedCommittee",
    "member": "plr.learners.committee.members:Member",
    "label scale": "plr.preprocessing.label_scale:LabelScale",
    "power": "plr.preprocessing.label_scale:Power",
    "yeo-johnson": "plr.preprocessing.label_scale:YeoJohnson",
    "transformer": "plr.preprocessing.label_scale:Transformer",
    "transformed": "plr.learners.transformed:FittedTransformed",
    "learner transformed": "plr.learners.transformed:TransformedTarget",
    "bins": "plr.densities.bins:Bins",
    "forest": "plr.densities.forest:FittedForest",
    "networks": "plr.densities.network:FittedNetworks",
    "neighbours": "plr.densities.neighbours:FittedNeighbours",
    "background": "plr.densities.mixture:Background",
    "mixture": "plr.densities.mixture:Mixture",
    "density": "plr.learners.density:FittedDensity",
    "tree": "plr.persistence.compiled:StoredTree",
    "booster": "plr.persistence.boosters:StoredBooster",
    "lightgbm regressor": "plr.persistence.boosters:StoredRegressor",
    "module": "plr.persistence.modules:StoredModule",
    "module learner": "plr.persistence.modules:StoredLearner",
    "feature reader": "plr.persistence.modules:StoredReader",
    "tensor": "plr.persistence.modules:StoredTensor",
}
"""The other classes of parts, by the names that files have for them; imported when the first of its kind is read."""

_NAMES = {home: name for name, home in KINDS.items()}

_TREE, _LGBM = "sklearn.tree._tree:Tree", "lightgbm.sklearn:LGBMRegressor"
_BOOSTER = "lightgbm.basic:Booster"

STAND_INS = {
    _TREE: KINDS["tree"],
    _BOOSTER: KINDS["booster"],
    _LGBM: KINDS["lightgbm regressor"],
    "plr.learners.module.fitted:FittedModule": KINDS["module"],
    "plr.learners.module.learner:Module": KINDS["module learner"],
    "plr.learners.module.features:FeatureReader": KINDS["feature reader"],
}
"""What is kept in place of some objects: classes with ``of``, and ``restore`` if the object can come back."""

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


def home_of(part: object) -> str:
    """Return where the class of an object is, as ``module:name``."""
    return f"{type(part).__module__}:{type(part).__qualname__}"


def import_class(home: str) -> Any:
    """Return the class that is at a place; the places are those of this module alone."""
    module, _, name = home.partition(":")
    return getattr(importlib.import_module(module), name)


def kind_of(part: object) -> str | None:
    """Return the name that files have for the class of a part; None where they do not know it."""
    registered = ((axis, name, found) for axis, registry in REGISTRIES.items() for name, found in registry.items())
    kind = next((f"{axis} {name}" for axis, name, found in registered if found is type(part)), None)
    return _NAMES.get(home_of(part)) if kind is None else kind


def class_of(kind: str) -> Any:
    """Return the class that a kind stands for."""
    axis, _, name = kind.partition(" ")
    if name in REGISTRIES.get(axis, ()):
        return REGISTRIES[axis][name]
    if axis in REGISTRIES and kind not in KINDS:
        raise RefusedError(f"holds the {axis} {name[:40]!r}, which is not known; import the module that defines it")
    require(kind in KINDS, f"it holds a part of an unknown kind, {kind[:40]!r}")
    return import_class(KINDS[kind])


@dataclasses.dataclass(frozen=True)
class Field:
    """What a field may hold, and whether it is one of those for the training rows."""

    hint: Any
    ndim: int = 1
    finite: bool = True
    by_row: bool = False
    kept: bool = True


def _hints(found: Any) -> dict[str, Any]:
    """Return the type hints of a class, those with names that its module imports for type checkers only included."""
    names = dict(vars(sys.modules[found.__module__]))
    while True:
        try:
            return get_type_hints(found, localns=names)
        except NameError as error:
            # Not by a mapping that finds them when asked: Python 3.14 looks whether it has them first.
            name = str(error.name)
            home = next((home for home in _NAMES if home.endswith(f":{name}")), None)
            if home is None and name not in ("plr", "lightgbm"):
                raise
            names[name] = importlib.import_module(name) if home is None else import_class(home)


@functools.cache
def fields_of(found: Any) -> dict[str, Field] | None:
    """Return the fields of a dataclass or named tuple that files keep; None for a class that has parameters instead."""
    if dataclasses.is_dataclass(found):
        declared: dict[str, Any] = {each.name: each.metadata for each in dataclasses.fields(found)}
    elif hasattr(found, "_fields"):
        declared = {name: {} for name in found._fields}
    else:
        return None
    hints = _hints(found)
    fields = {name: Field(hints[name], **metadata) for name, metadata in declared.items()}
    return {name: field for name, field in fields.items() if field.kept}


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
        if not isinstance(value, np.ndarray) or value.ndim != ndim:
            return False
        dtype: Any = get_args(inside[1])[0]
        known = value.dtype.type in ARRAY_TYPES.values() if dtype is Any else value.dtype == np.dtype(dtype)
        return known and (not finite or value.dtype.kind != "f" or bool(np.isfinite(value).all()))
    if getattr(hint, "_is_protocol", False):
        members = [name for name in dir(hint) if not name.startswith("_")]
        known = home_of(value) in STAND_INS or kind_of(value) is not None
        return known and all(hasattr(value, name) for name in members)
    return isinstance(value, hint)


def _check_columns(columns: Any) -> None:
    for place, categories in columns.categories.items():
        require(0 <= place < len(columns.names), "it has categories of a column that it has not")
        for entry in categories:
            require(
                isinstance(entry, str | int | float | bool | np.generic),
                f"the column {columns.names[place]} has categories of the type {type(entry).__name__}, and files hold "
                f"texts and numbers only",
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
        if home_of(tree) != _TREE:
            require(kind_of(tree) == "tree", "a forest needs trees")
            require(tree.values.shape[1] == forest.bins.count, "leaves and bins differ in number")


def _check_mixture(mixture: Any) -> None:
    width = mixture.encoding.width
    for model in mixture.models:
        kind = kind_of(model)
        if kind == "forest":
            split_by = [int(tree.feature.max()) for tree in model.trees if home_of(tree) != _TREE]
            require(max(split_by, default=0) < width, "a forest splits by columns that there are not")
        elif kind == "networks":
            require(all(each.layout.sizes[0] == width for each in model.networks), "networks have other columns")
        else:
            require(kind == "neighbours" and model.rows.shape[1] == width, "neighbours have other columns")


def _check_regressor(model: Any) -> None:
    # Parts of scikit-learn's models predict as well, but look at no row before they do.
    found = type(model.regressor)
    predicts = hasattr(found, "predict") and (hasattr(found, "fit") or kind_of(model.regressor) == "lightgbm regressor")
    require(predicts, "its regressor is not one")


def _check_committee(committee: Any) -> None:
    width = committee.encoding.width
    for member in committee.members:
        columns = member.columns
        if columns is not None:
            inside = columns.size > 0 and int(columns.min()) >= 0 and int(columns.max()) < width
            require(inside, "a member of the committee takes columns that there are not")
        taken = width if columns is None else columns.size
        for model in member.models:
            require(_width_of(model) == taken, "a member of the committee takes other columns than it is given")


def _width_of(model: Any) -> int | None:
    """Return how many encoded columns a member's model takes; None for models that are no members."""
    match kind_of(model):
        case "gaussian process":
            return int(model.encoding.columns)
        case "density":
            return int(model.mixture.encoding.columns)
        case "mlp":
            return int(model.features.columns)
        case "refit":
            regressors = [fitted.regressor for fitted in model.models if fitted.columns is None]
            is_lightgbm = [home_of(each) == _LGBM or kind_of(each) == "lightgbm regressor" for each in regressors]
            require(
                len(regressors) == len(model.models) and all(is_lightgbm), "the trees of a committee are LightGBM's"
            )
            widths = {getattr(each, "n_features_in_", 0) for each in regressors}
            return widths.pop() if len(widths) == 1 else None
    return None


def _check_widths(widths: Any) -> None:
    require(np.ndim(widths.labels.centre) == 0, "labels need one centre and one scale")
    require(home_of(widths.trees) == _BOOSTER or kind_of(widths.trees) == "booster", "widths are predicted by trees")
    # Beside the features, trees are given the prediction.
    columns = 0 if widths.features is None else widths.features.encoding.width
    require(widths.trees.num_feature() == columns + 1, "trees and encoding differ in columns")


CHECKS: dict[str, Callable[[Any], None]] = {
    "columns": _check_columns,
    "noise": _check_noise,
    "forest": _check_forest,
    "mixture": _check_mixture,
    "fitted regressor": _check_regressor,
    "committee": _check_committee,
    "row widths": _check_widths,
}
"""What is asked of parts of some kinds beyond what their classes ask of themselves."""


def check_fields(kind: str, values: Mapping[str, Any]) -> None:
    """Raise `MalformedError` unless the fields of a part are of their types."""
    for name, field in (fields_of(class_of(kind)) or {}).items():
        right = matches(values[name], field.hint, field.ndim, field.finite)
        require(right, f"the {name} of a part of the kind {kind} has a wrong type or value")
