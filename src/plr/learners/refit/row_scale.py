"""A noise scale for each row: a second regressor learns from the features how far true labels scatter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.contracts import Task
from plr.folds import Folds, features_of, predict_folds
from plr.learners.refit.fits import FittedRegressor, WeightedFits
from plr.losses import Squared
from plr.weighting import Average
from plr.weighting.rule import Rule, row_sums

__all__ = ["RowScale", "RowScales", "weighted_loss"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# This share of the mean squared residual is added to each: the logarithm of one near zero would outweigh all others.
_FLOOR = 0.01
# No row is held to be so many times noisier, or quieter, than the typical one.
_FURTHEST = 10.0
# Sets the seeds of these fits apart from those of the predictions.
_PLACE = 1


def weighted_loss(rule: Rule, centre: Floats, S: CandidateSets, weights: Floats) -> Floats:
    """Return each row's loss under given weights."""
    total = row_sums(weights, S)
    known = np.where(total[S.row_index] > 0, weights, 1.0)
    average = Rule(Average(), rule.loss)
    sets = CandidateSets(S.values, S.offsets, known)
    return total * average.evaluate(centre, sets, average.initial_state()).loss


@dataclass(frozen=True)
class RowScale:
    """How noisy rows are, relative to the typical one.

    Attributes
    ----------
    model : FittedRegressor
        Predicts the logarithm of a row's squared residual.
    level : float
        That of the typical row.
    slope : float
        How much of a predicted difference held true on rows that the regressor had not seen, from 0 to 1.
    """

    model: FittedRegressor
    level: float
    slope: float

    def predict(self, X: Any) -> Floats:
        """Return each row's scale, relative to the typical one."""
        return _relative(self.model.predict(X), self.level, self.slope)


class RowScales:
    """Fits clones of a regressor to the logarithm of squared residuals.

    Parameters
    ----------
    task : Task
    regressor : object
        Never fitted itself, only its clones are.
    may_resample : bool
        Whether weights may be turned into draws where the regressor takes none.
    """

    def __init__(self, task: Task, regressor: Any, may_resample: bool) -> None:
        self._task, self._regressor, self._may_resample = task, regressor, may_resample
        self._slope = 0.0

    def out_of_fold(self, prediction: Floats, weights: Floats, folds: Folds, done: int) -> Floats:
        """Return each row's relative scale, by a regressor that was not fitted to the row's residual."""
        fits, logs, importance = self._fits(prediction, weights)
        ones = np.ones(len(logs))

        def run(fold: int, train: Rows, test: Rows) -> Floats:
            return fits.fit(train, ones, done, fold, _PLACE).predict(features_of(self._task.X, test))

        found = predict_folds(folds, run, len(self._task.S), self._task.n_jobs)
        level = float(np.average(found, weights=importance))
        # The logarithm of a single residual is mostly chance; what a flexible regressor makes of it is shrunk to what
        # holds on rows that it has not seen.
        spread = float(np.average((found - level) ** 2, weights=importance))
        shared = float(np.average((found - level) * logs, weights=importance))
        self._slope = min(max(shared / spread, 0.0), 1.0) if spread > 0 else 0.0
        return _relative(found, level, self._slope)

    def last(self, prediction: Floats, weights: Floats, rows: Rows | None) -> RowScale:
        """Fit to some rows, or all, for the sake of new ones."""
        fits, logs, importance = self._fits(prediction, weights)
        model = fits.fit(rows, np.ones(len(logs)), 0, 0, _PLACE)
        return RowScale(model, float(np.average(model.predict(self._task.X), weights=importance)), self._slope)

    def _fits(self, prediction: Floats, weights: Floats) -> tuple[WeightedFits, Floats, Floats | None]:
        """Return what fits to the logarithms of the rows' squared residuals, these, and what rows count."""
        task, S = self._task, self._task.S
        total = row_sums(weights, S)
        if not total.any():
            weights, total = S.prior_or_uniform, np.ones(len(S))
        squares = row_sums(weights * (S.values - prediction[S.row_index]) ** 2, S)
        squares = np.divide(squares, total, out=np.zeros(len(S)), where=total > 0)
        importance = task.sample_weight
        if task.rule.may_miss:
            importance = total if importance is None else total * importance
        mean = float(np.average(squares, weights=importance))
        logs = np.log(squares + max(_FLOOR * mean, np.finfo(float).tiny))
        plain = Rule(Average(), Squared())
        labels = CandidateSets._of_checked(logs, np.arange(len(logs) + 1))
        part = replace(task, S=labels, rule=plain, sample_weight=importance, start=None, log_q=None, false_labels=None)
        return WeightedFits(part, self._regressor, self._may_resample), logs, importance


def _relative(logs: Floats, level: float, slope: float) -> Floats:
    return np.clip(np.exp(0.5 * slope * (logs - level)), 1.0 / _FURTHEST, _FURTHEST)
