"""LightGBM's models: their own text, and what scikit-learn's interface to them says beside it.

Only what LightGBM documents is read, and nothing is set: a fitted regressor comes back as a `StoredRegressor`.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted

from plr.persistence.booster_text import check_booster_text, trees_of
from plr.persistence.foreign import ForeignError
from plr.persistence.kinds import Kind, MalformedError, a, flag, mapping, number, optional, text, whole

__all__ = ["BOOSTER_KINDS", "LIGHTGBM_HOMES", "StoredRegressor", "check_boosting"]

# Parameters that LightGBM knows besides those that the regressor names. Not all are kept: what is read from a file is
# handed to LightGBM with every prediction, and there are some that tell it to read other files, or not to look where it
# steps.
_MORE = {
    "alpha",
    "bagging_seed",
    "cat_l2",
    "cat_smooth",
    "deterministic",
    "extra_trees",
    "feature_fraction_bynode",
    "feature_fraction_seed",
    "force_col_wise",
    "force_row_wise",
    "max_bin",
    "max_cat_threshold",
    "max_cat_to_onehot",
    "min_data_in_bin",
    "min_data_per_group",
    "path_smooth",
    "seed",
    "verbose",
    "verbosity",
}
_WORD = re.compile(r"[A-Za-z0-9_]{1,40}")
_MOST_JOBS = 1024
# What the fitted regressor says beside the trees, by the names that files have for it.
_STATE = {
    "_best_iteration": whole(-1),
    "_fitted_with_feature_names": flag,
    "_n_features": whole(-1),
    "_n_features_in": whole(-1),
    "_objective": optional(lambda value: text(value) and _WORD.fullmatch(value) is not None),
}


def _take_booster(booster: Any) -> dict[str, Any]:
    trees = trees_of(booster.model_to_string())
    check_booster_text(trees)
    return {"trees": trees, "categories": booster.pandas_categorical}


def _make_booster(fields: dict[str, Any]) -> Any:
    import lightgbm

    columns = check_booster_text(fields["trees"])
    given = f"{fields['trees']}\npandas_categorical:{json.dumps(fields['categories'])}\n"
    try:
        booster = lightgbm.Booster(model_str=given)
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise ForeignError("LightGBM cannot read its trees", {"lightgbm"}, error) from error
    if booster.num_feature() != columns:
        raise MalformedError("its trees want other columns than they say")
    return booster


def _are_categories(value: Any) -> bool:
    if value is None:
        return True
    plain = (str, int, float, bool, type(None))
    return isinstance(value, list) and all(
        isinstance(entries, list) and all(isinstance(entry, plain) for entry in entries) for entries in value
    )


def _take_regressor(regressor: Any) -> dict[str, Any]:
    stored = isinstance(regressor, StoredRegressor)
    parameters = regressor.parameters if stored else regressor.get_params(deep=False)
    unknown = sorted(name for name in parameters if not _is_kept(name))
    if unknown:
        raise MalformedError(f"files do not hold LightGBM's parameter {unknown[0]!r}")
    for name, value in parameters.items():
        if not _is_plain(value):
            raise MalformedError(
                f"the {name} of LGBMRegressor is neither a number nor a name, and files hold nothing else"
            )
    if not stored and not _is_fitted(regressor):
        return {"parameters": parameters, "booster": None, "state": None}
    state = {
        "_best_iteration": int(regressor.best_iteration_),
        "_fitted_with_feature_names": hasattr(regressor, "feature_names_in_"),
        "_n_features": int(regressor.n_features_),
        "_n_features_in": int(regressor.n_features_in_),
        "_objective": regressor.objective_,
    }
    return {"parameters": parameters, "booster": regressor.booster_, "state": state}


def _is_fitted(regressor: Any) -> bool:
    try:
        check_is_fitted(regressor)
    except NotFittedError:
        return False
    return True


def _make_regressor(fields: dict[str, Any]) -> Any:
    import lightgbm

    if not all(_is_kept(name) for name in fields["parameters"]):
        raise MalformedError("its LGBMRegressor has a parameter that files do not hold")
    if not _is_few(fields["parameters"].get("n_jobs")) or (fields["booster"] is None) != (fields["state"] is None):
        raise MalformedError("its LGBMRegressor is none")
    if fields["booster"] is None:
        return lightgbm.LGBMRegressor(**fields["parameters"])
    state = fields["state"]
    if state.keys() != _STATE.keys() or not all(check(state[name]) for name, check in _STATE.items()):
        raise MalformedError("its LGBMRegressor is none")
    if not state["_n_features"] == state["_n_features_in"] == fields["booster"].num_feature():
        raise MalformedError("its LGBMRegressor has other columns than its trees")
    return StoredRegressor(
        fields["parameters"],
        fields["booster"],
        state["_best_iteration"],
        state["_objective"],
        state["_fitted_with_feature_names"],
    )


@dataclass(frozen=True, eq=False)
class StoredRegressor:
    """A fitted ``LGBMRegressor`` that was read from a file; it predicts what the one that was written did, to the bit.

    Attributes
    ----------
    parameters : dict
        Those of the ``LGBMRegressor``.
    booster_ : lightgbm.Booster
    best_iteration_ : int
    objective_ : str or None
    named : bool
        Whether it was fitted to columns with names.
    """

    parameters: dict[str, Any]
    booster_: Any
    best_iteration_: int
    objective_: str | None
    named: bool

    @property
    def n_features_(self) -> int:
        """Number of columns."""
        return int(self.booster_.num_feature())

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return self.n_features_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns."""
        if not self.named:
            raise AttributeError("It was fitted to columns without names.")
        return np.array(self.booster_.feature_name())

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return one prediction per row."""
        rows = X if hasattr(X, "columns") else check_array(X, accept_sparse=True, ensure_all_finite=False)
        jobs = self.parameters.get("n_jobs")
        threads = effective_n_jobs(jobs) if jobs is not None else 0
        return self.booster_.predict(rows, num_threads=threads)


def _is_kept(name: str) -> bool:
    import lightgbm

    return name in _MORE or name in inspect.signature(lightgbm.LGBMRegressor).parameters.keys() - {"self", "kwargs"}


def _is_plain(value: Any) -> bool:
    # A name must be one word: LightGBM is given all parameters in one line.
    return value is None or isinstance(value, bool) or number(value) or (text(value) and bool(_WORD.fullmatch(value)))


def _is_few(jobs: Any) -> bool:
    return jobs is None or whole(-_MOST_JOBS, _MOST_JOBS)(jobs)


def check_boosting(fields: dict[str, Any]) -> None:
    """Check that trees have the columns that the model has."""
    if fields["booster"] is not None and fields["booster"].num_feature() != fields["columns"]:
        raise MalformedError("its trees want other columns than the model has")
    if not _is_few(fields["n_jobs"]):
        raise MalformedError("its n_jobs is none")


_BOOSTER = "lightgbm.basic:Booster"

LIGHTGBM_HOMES = ("lightgbm.sklearn:LGBMRegressor", f"{__name__}:StoredRegressor")
"""Where regressors of LightGBM's are: as they were fitted, and as they were read."""

BOOSTER_KINDS = (
    Kind(
        "booster",
        _BOOSTER,
        {"trees": text, "categories": _are_categories},
        take=_take_booster,
        make=_make_booster,
    ),
    Kind(
        "lightgbm regressor",
        LIGHTGBM_HOMES[0],
        {
            "parameters": mapping(text, _is_plain),
            "booster": optional(a(_BOOSTER)),
            "state": optional(mapping(text, lambda _: True)),
        },
        take=_take_regressor,
        make=_make_regressor,
    ),
)
