"""Multiple imputation: complete labels, drawn again and again as uncertain as they are.

Draws from fixed probabilities leave out that the probabilities are estimates: all draws go by one prediction and one
noise scale, so that what is computed from them differs too little from draw to draw, and intervals come out too
narrow. So both are drawn as well (data augmentation, Tanner and Wong 1987). The out-of-fold prediction f is corrected
by a linear function of the features, y = f + zδ + σ·noise, and in turn

- labels are drawn by the probabilities that ``identify`` gives, times how much likelier each candidate is under the
  drawn δ and σ than under 0 and the estimated scale;
- δ and σ are drawn given the labels, under a flat prior. Student's and Laplace's noise are normal given a precision for
  each row, which is drawn too;
- the density of false labels, where it is an estimate, is estimated anew from the candidates that were not drawn.

A linear correction is what an analysis by linear models can see of the uncertainty about f; and no model has to be
fitted anew. Where the learner is linear and the weighting a posterior, the draws are those of the exact posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from plr._codes import LAPLACE, STUDENT
from plr.candidates import CandidateSets
from plr.noise import NoiseModel
from plr.weighting.false_labels import fit_false_labels
from plr.weighting.families import NOISES

__all__ = ["Imputer", "align_folds", "correction_columns"]

Floats = NDArray[np.float64]

# Sweeps before the first draw, and from one draw to the next.
_FIRST, _BETWEEN = 30, 10
# Rows for each column of the correction, at least: with fewer, its own noise would count.
_ROWS_PER_COLUMN = 20
# Rows of a fold for each column, at least: with fewer, predictions would become those of the model that has seen them.
_ROWS_PER_ALIGNED = 4
_ROUNDING = 1e-10
# Distances in units of the noise scale, at most: squares of larger ones would overflow.
_FARTHEST = 1e100
# Tails that Student's noise may have.
_DEGREES = np.array([2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 100.0])


@dataclass(frozen=True)
class Imputer:
    """What labels are drawn from.

    Attributes
    ----------
    S : CandidateSets
    probabilities : ndarray, one entry per candidate
    missing : ndarray of shape (n,)
        How probable it is that a row's truth is not among its candidates.
    known : ndarray of shape (n,)
        True labels where they are known, and NaN.
    prediction : ndarray of shape (n,)
        Out-of-fold predictions, by which the probabilities are.
    centre : ndarray of shape (n,)
        The same, as `align_folds` returns them: what the correction is added to.
    noise : NoiseModel
        How true labels scatter around them.
    relative : ndarray of shape (n,) or None
        Each row's noise scale relative to the typical one.
    weight : ndarray of shape (n,)
        How much each row counts in learning, 1 on average.
    columns : ndarray of shape (n, d)
        What the correction of predictions is linear in.
    trust : float
        The power of how much likelier candidates are under the drawn parameters: 1, or less where agreement with
        predictions proves less. With 0 labels are independent draws from the probabilities.
    """

    S: CandidateSets
    probabilities: Floats
    missing: Floats
    known: Floats
    prediction: Floats
    centre: Floats
    noise: NoiseModel
    relative: Floats | None
    weight: Floats
    columns: Floats
    trust: float = 1.0

    def draw(self, n: int, random: np.random.Generator) -> Floats:
        """Return so many draws of all labels, of shape (n, rows)."""
        rows, unit = self.S.row_index, np.ones(len(self.S)) if self.relative is None else self.relative
        with np.errstate(divide="ignore"):
            base, missing = np.log(self.probabilities), np.log(self.missing)
        ratio = self._false_label_ratio(self.probabilities)
        at_first = self._log_density(
            (self.S.values - self.prediction[rows]) / unit[rows], self.noise.scale, self.noise.weighting.degrees
        )
        centre, scale, degrees = self.centre, self.noise.scale, self.noise.weighting.degrees
        labels = np.empty((n, len(self.S)))
        for sweep in range(_FIRST + n * _BETWEEN if self.trust > 0.0 else n):
            odds = base
            if self.trust > 0.0:
                now = self._log_density((self.S.values - centre[rows]) / unit[rows], scale, degrees)
                odds = base + ratio + self.trust * (now - at_first)
            chosen, absent = self._choose(odds, missing, random)
            label = self.S.values[chosen]
            label = np.where(absent, centre + scale * unit * self._noise(len(label), degrees, random), label)
            label = np.where(np.isnan(self.known), label, self.known)
            if self.trust == 0.0:
                labels[sweep] = label
                continue
            if sweep >= _FIRST and (sweep - _FIRST) % _BETWEEN == 0:
                labels[(sweep - _FIRST) // _BETWEEN] = label
            if sweep % _BETWEEN == _BETWEEN - 1:
                ratio = self._false_label_ratio(self._taken(chosen, absent))
            teaches = np.where(absent & np.isnan(self.known), 0.0, self.weight)
            away = (label - self.centre) / unit
            correction, scale = self._learn(away, centre - self.centre, unit, scale, degrees, teaches, random)
            centre = self.centre + correction
            degrees = self._learn_degrees(away - correction / unit, scale, degrees, teaches, random)
        return labels

    def _taken(self, chosen: NDArray[np.int64], absent: NDArray[np.bool_]) -> Floats:
        """Return 1 for the candidates that were drawn, or are known to be true, and 0 for all that are false."""
        taken = np.zeros(len(self.S.values))
        taken[chosen[~absent & np.isnan(self.known)]] = 1.0
        return np.where(self.S.values == self.known[self.S.row_index], 1.0, taken)

    def _false_label_ratio(self, taken: Floats) -> Floats:
        """Return log q of each candidate by the probabilities less what it is by other ones, where q is estimated.

        The estimate of training is in part uniform, for safety before anything is known. That takes candidates at the
        ends of the range for false ones too often, and so does one that goes by probabilities of which the noise is
        not drawn; regressions from draws would be too flat.
        """
        given = self.noise.weighting.false_labels
        if not isinstance(given, str) or given != "estimated" or self.trust == 0.0:
            return np.zeros(len(self.S.values))
        better = fit_false_labels("estimated", self.S, taken, self.weight, sharp=True)
        return self.trust * (self.noise.false_labels.log(self.S.values) - better.log(self.S.values))

    def _choose(
        self, odds: Floats, missing: Floats, random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Draw the place of a candidate of each row by its log odds, and whether it is none of them."""
        # The largest of logs with Gumbel noise is a draw by the odds.
        drawn = odds + random.gumbel(size=odds.size)
        best = np.maximum.reduceat(drawn, self.S.offsets[:-1])
        place = np.where(drawn == best[self.S.row_index], np.arange(drawn.size), drawn.size)
        chosen = np.minimum.reduceat(place, self.S.offsets[:-1])
        return chosen, missing + random.gumbel(size=missing.size) > best

    def _learn(
        self,
        away: Floats,
        before: Floats,
        unit: Floats,
        scale: float,
        degrees: float,
        weight: Floats,
        random: np.random.Generator,
    ) -> tuple[Floats, float]:
        """Draw the correction and the noise scale, given how far labels are from the centre in units of their rows."""
        count = float(weight.sum())
        if count < self.columns.shape[1] + 1:
            return before, scale
        precision = weight * self._precision(away - before / unit, scale, degrees, random)
        columns = self.columns / unit[:, None]
        gram = columns.T @ (precision[:, None] * columns)
        gram[np.diag_indices_from(gram)] += _ROUNDING * np.trace(gram)
        root = linalg.cholesky(gram, lower=True)
        mean = linalg.cho_solve((root, True), columns.T @ (precision * away))
        drawn = mean + scale * linalg.solve_triangular(root.T, random.normal(size=len(mean)))
        correction = self.columns @ drawn
        left = away - correction / unit
        if self.noise.weighting.noise == "laplace":
            spread = float(weight @ np.abs(left)) / random.gamma(count)
        else:
            spread = np.sqrt(float(precision @ left**2) / random.chisquare(count))
        # Labels that are met exactly would leave no noise.
        return correction, max(float(spread), self._least_scale)

    def _learn_degrees(
        self, away: Floats, scale: float, degrees: float, weight: Floats, random: np.random.Generator
    ) -> float:
        """Draw how heavy the tails of the noise are, given how far labels are from corrected predictions."""
        if self.noise.weighting.noise != "student":
            return degrees
        fit = np.array([weight @ self._log_density(away, scale, each) for each in _DEGREES])
        return float(_DEGREES[np.argmax(fit + random.gumbel(size=len(fit)))])

    @property
    def _least_scale(self) -> float:
        return 1e-9 * float(self.noise.target.scale)

    def _precision(self, away: Floats, scale: float, degrees: float, random: np.random.Generator) -> Floats:
        """Draw each row's precision, in units of the squared scale, under which its noise is normal."""
        family, ratio = self.noise.weighting.noise, np.abs(away) / scale
        if family == "student":
            return 2.0 * random.gamma((degrees + 1.0) / 2.0, size=len(away)) / (degrees + ratio**2)
        if family == "laplace":
            return random.wald(1.0 / np.maximum(ratio, 1e-6), 1.0)
        return np.ones(len(away))

    def _noise(self, count: int, degrees: float, random: np.random.Generator) -> Floats:
        family = self.noise.weighting.noise
        if family == "student":
            return random.standard_t(degrees, size=count)
        return random.laplace(size=count) if family == "laplace" else random.normal(size=count)

    def _log_density(self, away: Floats, scale: float, degrees: float) -> Floats:
        """Return the log density of the noise."""
        family, ratio = NOISES[self.noise.weighting.noise], np.clip(away / scale, -_FARTHEST, _FARTHEST)
        if family.code == STUDENT:
            found = -0.5 * (degrees + 1.0) * np.log1p(ratio**2 / degrees)
        else:
            found = -np.abs(ratio) if family.code == LAPLACE else -0.5 * ratio**2
        return found + family.log_constant(degrees) - np.log(scale)


def align_folds(prediction: Floats, fitted: Floats, columns: Floats, folds: Sequence[NDArray[np.int64]]) -> Floats:
    """Return out-of-fold predictions without the linear functions by which the models of the folds differ.

    The model of each fold has errors of its own. One correction for all rows cannot take them back, so that they would
    count as noise. In each fold, the linear part of what its predictions differ by from those of the model of all rows
    is taken out: a linear model is then that of all rows.

    Parameters
    ----------
    prediction : ndarray of shape (n,)
        Out of fold.
    fitted : ndarray of shape (n,)
        By the model that has seen all rows.
    columns : ndarray of shape (n, d)
    folds : sequence of ndarray of int
        The rows of each; of folds with few rows, predictions stay as they are.
    """
    centre = prediction.copy()
    for rows in folds:
        if len(rows) >= _ROWS_PER_ALIGNED * columns.shape[1]:
            share = linalg.lstsq(columns[rows], (prediction - fitted)[rows])[0]
            centre[rows] -= columns[rows] @ share
    return centre


def correction_columns(X: Floats | None, rows: int, weight: Floats) -> Floats:
    """Return what corrections are linear in: a constant and uncorrelated columns that span those of X.

    Of more columns than rows can tell about, the first principal components.
    """
    constant = np.ones((rows, 1))
    if X is None:
        return constant
    centred = X - np.average(X, axis=0, weights=weight)
    values, vectors = linalg.eigh((centred * weight[:, None]).T @ centred / weight.sum())
    most = max(1, int(np.count_nonzero(weight)) // _ROWS_PER_COLUMN)
    kept = np.flatnonzero(values > _ROUNDING * max(values.max(initial=0.0), 1e-300))[::-1][:most]
    return np.concatenate([constant, centred @ (vectors[:, kept] / np.sqrt(values[kept]))], axis=1)
