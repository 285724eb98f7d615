"""LightGBM's models: their own text, and what scikit-learn's interface to them keeps beside it."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

from plr.persistence.booster_text import check_booster_text, trees_of
from plr.persistence.kinds import Kind, MalformedError, a, flag, mapping, number, optional, text, whole

__all__ = ["BOOSTER_KINDS", "check_boosting"]

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
# What the fitted regressor keeps of its own, beside the trees.
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
        raise MalformedError("LightGBM cannot read its trees") from error
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
    parameters = regressor.get_params(deep=False)
    unknown = sorted(name for name in parameters if not _is_kept(name))
    if unknown:
        raise MalformedError(f"files do not hold LightGBM's parameter {unknown[0]!r}")
    for name, value in parameters.items():
        if not _is_plain(value):
            raise MalformedError(
                f"the {name} of LGBMRegressor is neither a number nor a name, and files hold nothing else"
            )
    fitted = bool(getattr(regressor, "fitted_", False))
    state = {name: vars(regressor)[name] for name in _STATE} if fitted else None
    return {"parameters": parameters, "booster": regressor.booster_ if fitted else None, "state": state}


def _make_regressor(fields: dict[str, Any]) -> Any:
    import lightgbm

    if not all(_is_kept(name) for name in fields["parameters"]):
        raise MalformedError("its LGBMRegressor has a parameter that files do not hold")
    regressor = lightgbm.LGBMRegressor(**fields["parameters"])
    if not _is_few(regressor.n_jobs) or (fields["booster"] is None) != (fields["state"] is None):
        raise MalformedError("its LGBMRegressor is none")
    if fields["booster"] is not None:
        state = fields["state"]
        if state.keys() != _STATE.keys() or not all(check(state[name]) for name, check in _STATE.items()):
            raise MalformedError("its LGBMRegressor is none")
        if not state["_n_features"] == state["_n_features_in"] == fields["booster"].num_feature():
            raise MalformedError("its LGBMRegressor has other columns than its trees")
        vars(regressor).update(state, _Booster=fields["booster"], fitted_=True)
    return regressor


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
        "lightgbm.sklearn:LGBMRegressor",
        {
            "parameters": mapping(text, _is_plain),
            "booster": optional(a(_BOOSTER)),
            "state": optional(mapping(text, lambda _: True)),
        },
        take=_take_regressor,
        make=_make_regressor,
    ),
)
