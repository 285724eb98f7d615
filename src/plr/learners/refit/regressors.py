"""A scikit-learn regressor as a part to be fitted many times: what it takes, and its seeds.

The regressor a user hands over is never fitted itself; every fit is of a clone.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from plr.errors import ParameterError

__all__ = [
    "check_regressor",
    "seeded_clone",
    "tags_of",
    "takes_missing",
    "weight_parameter",
]

Floats = NDArray[np.float64]

_LARGEST_SEED = 2**31 - 1


def check_regressor(regressor: Any) -> None:
    """Refuse what cannot be cloned, fitted and asked for numbers."""
    name = type(regressor).__name__
    if isinstance(regressor, type):
        raise ParameterError(f"regressor got the class {regressor.__name__}; give an instance, {regressor.__name__}().")
    tags = tags_of(regressor)
    kind = getattr(regressor, "_estimator_type", None) if tags is None else tags.estimator_type
    missing = [method for method in ("fit", "predict", "get_params", "set_params") if not hasattr(regressor, method)]
    if missing == ["predict"] and kind == "regressor" and hasattr(type(regressor), "predict"):
        # Some hide it until they are fitted.
        missing = []
    if missing:
        raise ParameterError(
            f"regressor must be a scikit-learn regressor, but {name} has no {', '.join(missing)}; derive it from "
            f"sklearn.base.BaseEstimator and RegressorMixin."
        )
    if kind not in (None, "regressor"):
        raise ParameterError(f"regressor must predict numbers, but {name} is a {str(kind).replace('_', ' ')}.")


def tags_of(regressor: Any) -> Any:
    """Return what the regressor declares about itself; None where it declares nothing."""
    if isinstance(regressor, type):
        return None
    try:
        return get_tags(regressor)
    except (AttributeError, TypeError, ValueError):
        return None


def takes_missing(regressor: Any) -> bool:
    """Return whether X may contain NaN, as far as can be told beforehand.

    A model made of others does not declare what its parts take; NaN is then left for the parts to judge.
    """
    if _parts(regressor) or isinstance(regressor, Pipeline):
        return True
    tags = tags_of(regressor)
    return tags is not None and bool(tags.input_tags.allow_nan)


def weight_parameter(regressor: Any) -> str | None:
    """Return what the regressor's ``fit`` calls its sample weights; None where it takes none.

    A pipeline wants them under the name of its last step; a model around others hands on what they understand.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> weight_parameter(make_pipeline(Ridge())), weight_parameter(KNeighborsRegressor())
    ('ridge__sample_weight', None)
    """
    if isinstance(regressor, Pipeline):
        name, last = regressor.steps[-1]
        inner = weight_parameter(last)
        # Under metadata routing, scikit-learn finds the way by itself.
        return inner if inner is None or get_config()["enable_metadata_routing"] else f"{name}__{inner}"
    if has_fit_parameter(regressor, "sample_weight"):
        return "sample_weight"
    parts = _parts(regressor)
    handed_on = {weight_parameter(part) for part in parts}
    taken = inspect.signature(regressor.fit).parameters.values()
    if len(handed_on) != 1 or all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in taken):
        return None
    name = handed_on.pop()
    # Ensembles of named models hand on nothing but plain weights.
    wraps = any(part is value for part in parts for value in regressor.get_params(deep=False).values())
    return name if name == "sample_weight" or wraps else None


def _parts(regressor: Any) -> list[Any]:
    """Return the models that a model is directly made of; ensembles name them in pairs."""
    if isinstance(regressor, type) or not hasattr(regressor, "get_params"):
        return []
    values = list(regressor.get_params(deep=False).values())
    lists = [value for value in values if isinstance(value, list)]
    named = [pair[1] for pairs in lists for pair in pairs if isinstance(pair, tuple) and len(pair) == 2]
    return [part for part in (*values, *named) if hasattr(part, "fit") and hasattr(type(part), "predict")]


def seeded_clone(regressor: Any, random: np.random.Generator) -> Any:
    """Return an unfitted clone in which every ``random_state`` that was left open is set, those of splitters too."""
    copy = clone(regressor)
    open_seeds = sorted(
        name
        for name, value in copy.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    )
    seeds = random.integers(_LARGEST_SEED, size=len(open_seeds))
    copy.set_params(**{name: int(seed) for name, seed in zip(open_seeds, seeds, strict=True)})
    for _, value in sorted(copy.get_params(deep=True).items()):
        # A splitter is no estimator: its parameters are not among these, and the clone has a copy of its own.
        if hasattr(value, "split") and getattr(value, "random_state", 0) is None:
            value.random_state = int(random.integers(_LARGEST_SEED))
    return copy
