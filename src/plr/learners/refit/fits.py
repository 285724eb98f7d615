"""Fits of one scikit-learn regressor to a task's rows under given weights of their candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from plr.candidates import CandidateSets
from plr.contracts import Task
from plr.errors import ParameterError
from plr.folds import features_of, take_rows
from plr.learners.refit.regressors import seeded_clone, tags_of, weight_parameter
from plr.learners.trees import LIGHTGBM, lightgbm_threads
from plr.losses import Squared
from plr.weighting.rule import row_sums

__all__ = ["FittedRegressor", "WeightedFits", "draw_candidates", "trusted"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

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
