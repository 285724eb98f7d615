"""A noise scale for each row: a second regressor learns from the features how far true labels scatter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.folds import Folds, features_of, predict_folds
from plr.learners.refit.fits import FittedRegressor, WeightedFits
from plr.losses import Squared
from plr.weighting import Average
from plr.weighting.rule import Rule, row_sums

__all__ = ["RowScale", "fit_relative_scales", "fit_row_scale", "weighted_loss"]

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


def fit_relative_scales(
    fits: WeightedFits, prediction: Floats, weights: Floats, folds: Folds, done: int
) -> tuple[Floats, float]:
    """Return each row's relative scale, by a regressor that has not seen its residual, and the slope of `RowScale`."""
    of_logs, logs, importance = _fits_of_logs(fits, prediction, weights)
    ones = np.ones(len(logs))

    def run(fold: int, train: Rows, test: Rows) -> Floats:
        return of_logs.fit(train, ones, done, fold, _PLACE).predict(features_of(fits.task.X, test))

    found = predict_folds(folds, run, len(logs), fits.task.n_jobs)
    level = float(np.average(found, weights=importance))
    # The logarithm of a single residual is mostly chance; what a flexible regressor makes of it is shrunk to what
    # holds on rows that it has not seen.
    spread = float(np.average((found - level) ** 2, weights=importance))
    shared = float(np.average((found - level) * logs, weights=importance))
    slope = min(max(shared / spread, 0.0), 1.0) if spread > 0 else 0.0
    return _relative(found, level, slope), slope


def fit_row_scale(fits: WeightedFits, prediction: Floats, weights: Floats, rows: Rows | None, slope: float) -> RowScale:
    """Fit to some rows, or all, for the sake of new ones."""
    of_logs, logs, importance = _fits_of_logs(fits, prediction, weights)
    model = of_logs.fit(rows, np.ones(len(logs)), 0, 0, _PLACE)
    return RowScale(model, float(np.average(model.predict(fits.task.X), weights=importance)), slope)


def _fits_of_logs(
    fits: WeightedFits, prediction: Floats, weights: Floats
) -> tuple[WeightedFits, Floats, Floats | None]:
    """Return what fits to the logarithms of the rows' squared residuals, these, and what rows count."""
    task, S = fits.task, fits.task.S
    total = row_sums(weights, S)
    if not total.any():
        weights, total = S.prior_or_uniform, np.ones(len(S))
    residuals = S.values - prediction[S.row_index]
    # In a unit of their own, so that squares are finite; a power of two changes no digit.
    exponent = int(np.frexp(np.abs(residuals).max())[1])
    squares = row_sums(weights * np.ldexp(residuals, -exponent) ** 2, S)
    squares = np.divide(squares, total, out=np.zeros(len(S)), where=total > 0)
    importance = task.sample_weight
    if task.rule.may_miss:
        importance = total if importance is None else total * importance
    mean = float(np.average(squares, weights=importance))
    logs = np.log(squares + max(_FLOOR * mean, np.finfo(float).tiny)) + 2 * exponent * math.log(2.0)
    labels = CandidateSets._of_checked(logs, np.arange(len(logs) + 1))
    plain = Rule(Average(), Squared())
    part = replace(task, S=labels, rule=plain, sample_weight=importance, start=None, log_q=None, false_labels=None)
    return WeightedFits(part, fits.regressor, fits.may_resample), logs, importance


def _relative(logs: Floats, level: float, slope: float) -> Floats:
    return np.clip(np.exp(0.5 * slope * (logs - level)), 1.0 / _FURTHEST, _FURTHEST)
