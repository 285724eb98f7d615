"""How far off predictions are by the features of a row: what makes intervals wider where the model knows less.

Boosted trees learn from the features, and from the prediction, how large residuals are, each candidate counted by how
probable it is; then again, by probabilities under these widths, as long as candidate sets of rows that the trees have
not seen become likelier. What they say counts in full, by its square root, or not at all, unless the sets are clearly
likelier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from plr._fields import require
from plr.candidates import CandidateSets
from plr.folds import Folds, average_folds
from plr.preprocessing.scaling import Affine
from plr.priors.learned import RowFeatures
from plr.residuals import ResidualDensity, fit_residuals
from plr.threads import LIGHTGBM
from plr.weighting.rule import row_sums, thread_count

__all__ = ["RowWidths", "fit_widths"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Fit = tuple[ResidualDensity, Floats]

_TREES = {
    "objective": "regression",
    "num_leaves": 8,
    "max_bin": 63,
    "learning_rate": 0.05,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "feature_fraction": 0.7,
    "feature_pre_filter": False,
    "deterministic": True,
    "force_col_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
_COUNT = 80
# Rows that powers are tried on, at most.
_MOST_TRIED = 3_000
# With fewer rows there is nothing to be learned about differences between them.
_FEWEST = 60
_POWERS = (0.5, 1.0)
# Powers that are tried where wide intervals cover less by more than so many standard errors, and the share of true
# labels that they are to hold.
_EVENING, _DOUBT, _LOOKED_AT = (1.0, 1.25, 1.5, 1.75, 2.0), 1.5, 0.9
# By how much the sets must be likelier, in all: trees that had nothing to find gained up to five.
_GAIN, _MORE = 6.0, 2.0
_TURNS = 5
# Expected residuals are not below this share of their mean, and no row is so many times as wide as the typical one.
_LEAST, _FURTHEST = 0.1, 10.0


@dataclass(frozen=True)
class RowWidths:
    """How wide a row's interval is, relative to the typical one.

    Attributes
    ----------
    features : RowFeatures or None
        How features become numbers; None where only the prediction says something.
    labels : Affine
        How predictions are scaled before trees look at them.
    trees : lightgbm.Booster
        Predicts the size of a row's residual, in scaled labels.
    least : float
        No residual is expected to be smaller.
    level : float
        The logarithm of the typical one.
    power : float
        What is predicted is taken to this power.
    """

    features: RowFeatures | None
    labels: Affine
    trees: Any
    least: float
    level: float
    power: float

    def __post_init__(self) -> None:
        require(self.least > 0 and self.power > 0, "invalid widths")

    def predict(self, X: Any, prediction: Floats) -> Floats:
        """Return each row's width, relative to the typical one."""
        entries = _entries(self.features, self.labels, X, prediction)
        with LIGHTGBM.work(1):
            found = np.asarray(self.trees.predict(entries, num_threads=1), dtype=np.float64)
        return _relative(found, self.least, self.level, self.power)


def fit_widths(
    X: Any,
    features: RowFeatures | None,
    labels: Affine,
    prediction: Floats,
    S: CandidateSets,
    weight: Floats,
    log_q: Floats,
    folds: Folds,
    constant: Fit,
    false: Callable[[Floats], Floats],
    seed: int,
    missing: float = 0.0,
    n_jobs: int | None = 1,
) -> tuple[RowWidths, Floats, Fit] | None:
    """Learn how wide intervals are by row; None where rows do not clearly differ.

    Parameters
    ----------
    X : array-like of shape (n, d)
    features : RowFeatures or None
    labels : Affine
    prediction : ndarray of shape (n,)
        By models that have not seen the row.
    S : CandidateSets
    weight : ndarray of shape (n,)
    log_q : ndarray, one entry per candidate
    folds : list of (train, test)
        Rows of a fold are predicted by trees that have not seen them.
    constant : (ResidualDensity, ndarray)
        What `fit_residuals` finds where all rows are alike.
    false : callable
        The share of false labels below some labels.
    seed : int
    missing : float
        The share of rows whose truth is missing.
    n_jobs : int or None
        Threads that trees grow in, each without some fold; what they are does not depend on it.

    Returns
    -------
    tuple of RowWidths, ndarray of shape (n,), (ResidualDensity, ndarray)
        The widths, those of the training rows by trees that have not seen them, and the residuals in their units.
    """
    if len(S) < _FEWEST or len(folds) < 2:
        return None
    entries = _entries(features, labels, X, prediction)
    weight = weight / weight.mean()
    size = np.abs(S.values - prediction[S.row_index]) / float(labels.scale)
    tried = np.arange(len(S))
    if len(S) > _MOST_TRIED:
        tried = np.sort(np.random.default_rng(seed).choice(len(S), _MOST_TRIED, replace=False))
    logs = CandidateSets._of_checked(log_q, S.offsets)[tried].values
    some = _Some(prediction[tried], S[tried], weight[tried], logs, missing)
    shares, best = constant[1], None
    reached = some.log_likelihood(some.fit(np.ones(len(tried))), np.ones(len(tried)))
    for turn in range(_TURNS):
        there = row_sums(shares, S)
        expected = np.divide(row_sums(shares * size, S), there, out=np.zeros(len(S)), where=there > 0)
        mean = float(np.average(expected, weights=weight * there))
        if not (np.isfinite(mean) and mean > 0):
            return None
        out, trees = _grow(entries, expected, weight * there, folds, seed, n_jobs)
        least = _LEAST * mean
        level = float(np.average(np.log(np.maximum(out, least)), weights=weight))
        found = []
        for power in _POWERS:
            scale = _relative(out[tried], least, level, power)
            density = some.fit(scale)
            found.append((some.log_likelihood(density, scale) - reached, power, density))
        gain, power, density = max(found, key=lambda each: each[0])
        if gain < (_MORE if turn else _GAIN):
            break
        reached += gain
        widths = RowWidths(features, labels, trees, least, level, power)
        scale = _relative(out, least, level, power)
        best = widths, scale
        shares = density.probabilities(prediction, S, log_q, scale)
    if best is None:
        return None
    widths, scale = best
    power = _even_out(some, scale[tried], false)
    widths, scale = replace(widths, power=widths.power * power), np.clip(scale**power, 1.0 / _FURTHEST, _FURTHEST)
    return widths, scale, fit_residuals(prediction, S, weight, log_q, scale, missing=missing)


def _even_out(some: _Some, scale: Floats, false: Callable[[Floats], Floats]) -> float:
    """Return the power of widths under which wide intervals cover no less than narrow ones, by counting.

    Where there are many false labels, probabilities see residuals as more alike than they are: in noisy rows false
    labels near the prediction pass for the true one. Counting does not (see `plr.intervals`).
    """
    S, prediction = some.S, some.prediction
    logs = np.log(scale)
    logs -= np.average(logs, weights=some.weight)
    spread = float(some.weight @ logs**2)
    if not spread > 0.0:
        return 1.0
    for power in _EVENING:
        unit = np.clip(scale**power, 1.0 / _FURTHEST, _FURTHEST)
        shares = some.fit(unit).probabilities(prediction, S, some.log_q, unit)
        distance = np.abs(S.values - prediction[S.row_index])
        order = np.argsort(distance / unit[S.row_index])
        until = np.cumsum((shares * some.weight[S.row_index])[order])
        half = (distance / unit[S.row_index])[order][int(np.searchsorted(until, _LOOKED_AT * until[-1]))] * unit
        counted = row_sums((distance <= half[S.row_index]).astype(np.float64), S)
        counted -= (S.sizes - row_sums(shares, S)) * (false(prediction + half) - false(prediction - half))
        counted -= np.average(counted, weights=some.weight)
        slope = float(some.weight @ (counted * logs)) / spread
        error = float(np.sqrt(some.weight**2 @ (counted * logs) ** 2)) / spread
        if slope > -_DOUBT * error:
            break
    return power


@dataclass(frozen=True, eq=False)
class _Some:
    """The rows that powers are tried on."""

    prediction: Floats
    S: CandidateSets
    weight: Floats
    log_q: Floats
    missing: float

    def fit(self, scale: Floats) -> ResidualDensity:
        return fit_residuals(self.prediction, self.S, self.weight, self.log_q, scale, missing=self.missing)[0]

    def log_likelihood(self, density: ResidualDensity, scale: Floats) -> float:
        """Return the sum over rows."""
        return float(self.weight @ density.log_likelihood(self.prediction, self.S, self.log_q, scale))


def _entries(features: RowFeatures | None, labels: Affine, X: Any, prediction: Floats) -> Floats:
    scaled = labels.apply(prediction)[:, None]
    return scaled if features is None else np.column_stack([features.encode(X), scaled])


def _relative(found: Floats, least: float, level: float, power: float) -> Floats:
    width = np.exp(power * (np.log(np.maximum(found, least)) - level))
    return np.clip(width, 1.0 / _FURTHEST, _FURTHEST)


def _grow(
    entries: Floats, expected: Floats, counts: Floats, folds: Folds, seed: int, n_jobs: int | None
) -> tuple[Floats, Any]:
    """Return what trees that have not seen a row's fold predict for it, and trees that have seen all rows."""
    import lightgbm

    settings = {**_TREES, "seed": seed}

    def grow(rows: Rows) -> Any:
        rows = rows[counts[rows] > 0]
        with LIGHTGBM.work(1):
            data = lightgbm.Dataset(entries[rows], expected[rows], weight=counts[rows], params=settings)
            grown = lightgbm.train(settings, data, _COUNT)
            # Without the rows it grew on.
            return lightgbm.Booster(model_str=grown.model_to_string())

    rows = [*(train for train, _ in folds), np.arange(len(expected))]
    *of_folds, trees = Parallel(n_jobs=thread_count(n_jobs), prefer="threads")(delayed(grow)(each) for each in rows)
    with LIGHTGBM.work(1):
        tests = [each.predict(entries[test], num_threads=1) for each, (_, test) in zip(of_folds, folds, strict=True)]
    return average_folds(folds, tests, len(expected)), trees
