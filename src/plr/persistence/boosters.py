"""LightGBM's models: their own text, and what scikit-learn's interface to them says beside it.

Only what LightGBM documents is read, and nothing is set: a fitted regressor comes back as a `StoredRegressor`.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted

from plr._fields import require
from plr.persistence.booster_text import check_booster_text, trees_of
from plr.persistence.foreign import ForeignError
from plr.persistence.schema import MalformedError, matches

if TYPE_CHECKING:
    import lightgbm

__all__ = ["StoredBooster", "StoredRegressor", "keep_regressor"]

# Parameters that LightGBM knows besides those that the regressor names. Not all are kept: what is read from a file is
# handed to LightGBM with every prediction, and there are some that tell it to read other files, or not to look where it
# steps.
_MORE = (
    "alpha bagging_seed cat_l2 cat_smooth deterministic extra_trees feature_fraction_bynode feature_fraction_seed "
    "force_col_wise force_row_wise max_bin max_cat_threshold max_cat_to_onehot min_data_in_bin min_data_per_group "
    "path_smooth seed verbose verbosity"
)
# A name must be one word: LightGBM is given all parameters in one line.
_WORD = re.compile(r"[A-Za-z0-9_]{1,40}")
_MOST_JOBS = 1024


@dataclass(frozen=True)
class StoredBooster:
    """A booster as a file holds it: the text of its trees, and the categories of a frame that it was trained on."""

    trees: str
    categories: Any

    @classmethod
    def of(cls, booster: Any) -> StoredBooster:
        """Return what is kept of a booster."""
        trees = trees_of(booster.model_to_string())
        check_booster_text(trees)
        return cls(trees, booster.pandas_categorical)

    def __post_init__(self) -> None:
        plain = (str, int, float, bool, type(None))
        right = self.categories is None or (
            isinstance(self.categories, list)
            and all(
                isinstance(column, list) and all(isinstance(each, plain) for each in column)
                for column in self.categories
            )
        )
        require(right, "categories must be texts and numbers")

    def restore(self) -> Any:
        """Return a booster again, after a strict look at its text."""
        import lightgbm

        columns = check_booster_text(self.trees)
        given = f"{self.trees}\npandas_categorical:{json.dumps(self.categories)}\n"
        try:
            booster = lightgbm.Booster(model_str=given)
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise ForeignError("LightGBM cannot read its trees", {"lightgbm"}, error) from error
        if booster.num_feature() != columns:
            raise MalformedError("its trees have other columns than they say")
        return booster


def keep_regressor(regressor: Any) -> StoredRegressor:
    """Return what is kept of an ``LGBMRegressor``."""
    parameters = regressor.get_params(deep=False)
    if problem := _problem(parameters):
        raise MalformedError(problem)
    try:
        check_is_fitted(regressor)
    except NotFittedError:
        return StoredRegressor(parameters, None, 0, None, False)
    named = hasattr(regressor, "feature_names_in_")
    return StoredRegressor(parameters, regressor.booster_, int(regressor.best_iteration_), regressor.objective_, named)


def _problem(parameters: dict[str, Any]) -> str:
    """Return why parameters of an ``LGBMRegressor`` cannot be kept; empty where they can."""
    import lightgbm

    known = {*_MORE.split(), *inspect.signature(lightgbm.LGBMRegressor).parameters} - {"self", "kwargs"}
    for name, value in parameters.items():
        if name not in known:
            return f"files do not hold LightGBM's parameter {name!r}"
        plain = isinstance(value, bool | None) or matches(value, float)
        if not plain and not (isinstance(value, str) and _WORD.fullmatch(value)):
            return f"the {name} of LGBMRegressor is neither a number nor a name, and files hold nothing else"
    jobs = parameters.get("n_jobs")
    few = jobs is None or (matches(jobs, int) and abs(jobs) <= _MOST_JOBS)
    return "" if few else f"n_jobs must be at most {_MOST_JOBS}"


@dataclass(frozen=True, eq=False)
class StoredRegressor:
    """A fitted ``LGBMRegressor`` that was read from a file; it predicts what the one that was written did, to the bit.

    Attributes
    ----------
    parameters : dict
        Those of the ``LGBMRegressor``.
    booster_ : lightgbm.Booster or None
        None where it is not fitted; it then comes back as an ``LGBMRegressor``.
    best_iteration_ : int
    objective_ : str or None
    named : bool
        Whether it was fitted to columns with names.
    """

    parameters: dict[str, Any]
    booster_: lightgbm.Booster | None
    best_iteration_: int
    objective_: str | None
    named: bool

    def __post_init__(self) -> None:
        require(not (problem := _problem(self.parameters)), problem)
        require(self.objective_ is None or _WORD.fullmatch(self.objective_) is not None, "invalid objective")

    def restore(self) -> Any:
        """Return the regressor, or one of LightGBM's where it is not fitted."""
        import lightgbm

        return lightgbm.LGBMRegressor(**self.parameters) if self.booster_ is None else self

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        booster: Any = self.booster_
        return int(booster.num_feature())

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns."""
        if not self.named:
            raise AttributeError("It was fitted to columns without names.")
        booster: Any = self.booster_
        return np.array(booster.feature_name())

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return one prediction per row."""
        rows = X if hasattr(X, "columns") else check_array(X, accept_sparse=True, ensure_all_finite=False)
        jobs = self.parameters.get("n_jobs")
        threads = effective_n_jobs(jobs) if jobs is not None else 0
        booster: Any = self.booster_
        return booster.predict(rows, num_threads=threads)
