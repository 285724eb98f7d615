"""Fits of one scikit-learn regressor to a task's rows under given weights of their candidates."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples, has_fit_parameter

from plr.candidates import CandidateSets
from plr.contracts import Task
from plr.errors import ParameterError
from plr.folds import features_of, take_rows
from plr.learners.trees import lightgbm_threads
from plr.losses import Squared
from plr.threads import LIGHTGBM
from plr.weighting.rule import row_sums

__all__ = [
    "FittedRegressor",
    "WeightedFits",
    "check_regressor",
    "draw_candidates",
    "seeded_clone",
    "tags_of",
    "takes_missing",
    "trusted",
    "weight_parameter",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

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
    """Return whether X may contain NaN, as far as its tags say.

    A model made of others does not declare what its parts take; NaN is then left for the parts to check.
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


# No candidate's weight counts as less where weights become priors: who gave them may be wrong.
_LEAST = 1e-3
# A candidate with less than this share of the weight of its row's heaviest is not worth a row of its own.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class FittedRegressor:
    """A fitted regressor.

    Attributes
    ----------
    regressor : object
    columns : ndarray or None
        Where X is a matrix of distances or similarities between rows: the training rows it was fitted to.
    """

    regressor: Any
    columns: Rows | None = None

    @property
    def importance(self) -> Floats | None:
        """Each column's share in what the regressor says of their importance; None where it does not say."""
        # The number of splits, LightGBM's own answer, favours columns of many values.
        booster = getattr(self.regressor, "booster_", None)
        own = getattr(self.regressor, "feature_importances_", None)
        found = own if booster is None else booster.feature_importance("gain")
        if found is None:
            return None
        shares = np.asarray(found, dtype=np.float64)
        return shares / max(shares.sum(), np.finfo(float).tiny)

    def predict(self, X: Any) -> Floats:
        """Return one prediction per row."""
        rows = _num_samples(X)
        if rows == 0:
            # Which scikit-learn's refuse to predict.
            return np.empty(0)
        name = type(self.regressor).__name__
        with LIGHTGBM.work(lightgbm_threads(self.regressor)):
            found = self.regressor.predict(X if self.columns is None else _safe_indexing(X, self.columns, axis=1))
        try:
            values = np.asarray(found, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"{name} predicted something that is no number: {error}.") from error
        if values.shape == (rows, 1):
            return values[:, 0]
        if values.shape != (rows,):
            raise ParameterError(
                f"{name} predicted an array of shape {values.shape} for {rows} rows; expected ({rows},), one number "
                f"per row."
            )
        return values


class WeightedFits:
    """Fits a regressor to some rows of a task, under weights of the candidates.

    Parameters
    ----------
    task : Task
    regressor : object
        Never fitted itself, only its clones are.
    may_resample : bool
        Whether weights may be turned into draws where the regressor takes none.
    """

    def __init__(self, task: Task, regressor: Any, may_resample: bool) -> None:
        self.task, self.regressor, self.may_resample = task, regressor, may_resample
        self._parameter = weight_parameter(regressor)
        # The weighted squared losses of several labels and the squared loss of their mean differ by a constant.
        self._by_means = isinstance(task.rule.loss, Squared) or bool((task.S.sizes == 1).all())
        tags = tags_of(regressor)
        self._pairwise = tags is not None and bool(tags.input_tags.pairwise)
        if self._parameter is not None or may_resample:
            return
        reason, weight = "", task.sample_weight
        if not self._by_means:
            reason = f"the loss {type(task.rule.loss).__name__} needs one for each candidate (the squared does not)"
        elif weight is not None and not _all_equal(weight[weight > 0]):
            reason = "rows of different weight were given"
        elif task.rule.may_miss:
            reason = "rows count by how probable it is that they have their truth (missing_truth)"
        if reason:
            raise ParameterError(
                f"{type(regressor).__name__} takes no sample_weight, but {reason}. Choose a regressor that takes it, "
                f'or Refit({type(regressor).__name__}(...), without_weights="resample") to draw by the weights instead.'
            )

    def fit(self, rows: Rows | None, weights: Floats, *place: int) -> FittedRegressor:
        """Fit a clone to some rows, or all; ``place`` numbers the fit, so that each has its own seed."""
        random = np.random.default_rng([self.task.seed, *place])
        part = replace(self.task, start=weights)
        if self.task.rule.may_miss:
            part, rows = _counted_by_truth(part, weights, rows)
        if rows is not None:
            part = take_rows(part, rows)
        chosen, labels, importance = self._examples(part, np.asarray(part.start), random)
        X = part.X if chosen is None else features_of(part.X, chosen)
        columns = None
        if self._pairwise:
            columns = np.arange(len(self.task.S)) if rows is None else rows
            columns = columns if chosen is None else columns[chosen]
            X = _safe_indexing(X, columns, axis=1)
        regressor = seeded_clone(self.regressor, random)
        with LIGHTGBM.work(lightgbm_threads(regressor)):
            regressor.fit(X, labels, **({} if importance is None else {str(self._parameter): importance}))
        return FittedRegressor(regressor, columns)

    def _examples(
        self, part: Task, weights: Floats, random: np.random.Generator
    ) -> tuple[Rows | None, Floats, Floats | None]:
        """Return rows (None for each once), their labels, and weights where they are needed."""
        S, importance = part.S, part.sample_weight
        if self._by_means:
            labels = np.add.reduceat(S.values * weights, S.offsets[:-1])
        elif self._parameter is None:
            labels = S.values[draw_candidates(S, weights, random)]
        else:
            heaviest = np.maximum.reduceat(weights, S.offsets[:-1])
            kept = np.flatnonzero(weights > _NEGLIGIBLE * heaviest[S.row_index])
            chosen = S.row_index[kept]
            shares = weights[kept] if importance is None else weights[kept] * importance[chosen]
            return chosen, S.values[kept], shares
        if importance is None or self._parameter is not None:
            return None, labels, importance
        if _all_equal(importance):
            return None, labels, None
        drawn = np.sort(random.choice(len(S), size=len(S), p=importance / importance.sum()))
        return drawn, labels[drawn], None


def _counted_by_truth(task: Task, weights: Floats, rows: Rows | None) -> tuple[Task, Rows]:
    """Let rows count by the sum of their weights, and return those that count for anything."""
    S = task.S
    total = row_sums(weights, S)
    among = np.arange(len(S)) if rows is None else rows
    if not total[among].any():
        # No row is believed to have its truth; what is left to learn from is the priors.
        weights, total = S.prior_or_uniform, np.ones(len(S))
    counting = among[total[among] > _NEGLIGIBLE * total[among].max()]
    with np.errstate(invalid="ignore"):
        shares = weights / total[S.row_index]
    importance = total if task.sample_weight is None else total * task.sample_weight
    return replace(task, start=shares, sample_weight=importance), counting


def draw_candidates(S: CandidateSets, weights: Floats, random: np.random.Generator) -> Rows:
    """Draw one candidate of each row by its weight; return its place among all candidates."""
    until = np.cumsum(weights)
    first, last = S.offsets[:-1], S.offsets[1:] - 1
    before = until[first] - weights[first]
    aim = before + random.random(len(S)) * (until[last] - before)
    return np.clip(np.searchsorted(until, aim, side="right"), first, last)


def _all_equal(values: Floats) -> bool:
    return bool(values.min() == values.max())


def trusted(S: CandidateSets, weights: Floats, trust: float) -> CandidateSets:
    """Return the sets with their priors multiplied by weights to the power ``trust``."""
    if trust == 0.0:
        return S
    prior = S.prior_or_uniform * np.maximum(weights, _LEAST) ** trust
    return CandidateSets._of_checked(S.values, S.offsets, prior / row_sums(prior, S)[S.row_index])
