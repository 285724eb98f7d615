"""Multiple imputation: complete labels, drawn again and again as uncertain as they are.

Draws from fixed probabilities leave out that the probabilities are estimates: all draws go by one prediction and one
noise scale, so that what is computed from them differs too little from draw to draw, and intervals come out too
narrow. So both are drawn as well (data augmentation, Tanner and Wong 1987). The out-of-fold prediction f is corrected
by a linear function of the features, y = f + zδ + σ·noise, and in turn

- labels are drawn by the probabilities that ``identify`` gives, times how much likelier each candidate is under the
  drawn δ and σ than under 0 and the estimated scale;
- δ and σ are drawn given the labels, under a flat prior. Student's and Laplace's noise are normal given a precision for
  each row, which is drawn too.

A linear correction is what an analysis by linear models can see of the uncertainty about f; and no model has to be
fitted anew. Where the learner is linear and the weighting a posterior, the draws are those of the exact posterior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from plr._codes import LAPLACE, STUDENT
from plr.candidates import CandidateSets
from plr.noise import NoiseModel
from plr.weighting.false_labels import fit_false_labels
from plr.weighting.families import NOISES

__all__ = ["Imputer", "correction_columns"]

Floats = NDArray[np.float64]

# Sweeps before the first draw, and from one draw to the next.
_FIRST, _BETWEEN = 30, 10
# Rows for each column of the correction, at least: with fewer, its own noise would count.
_ROWS_PER_COLUMN = 20
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
        Out-of-fold predictions.
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
    noise: NoiseModel
    relative: Floats | None
    weight: Floats
    columns: Floats
    trust: float = 1.0

    def draw(self, n: int, random: np.random.Generator) -> Floats:
        """Return so many draws of all labels, of shape (n, rows)."""
        rows, unit = self.S.row_index, np.ones(len(self.S)) if self.relative is None else self.relative
        with np.errstate(divide="ignore"):
            base, missing = np.log(self.probabilities) + self._false_label_ratio(), np.log(self.missing)
        at_first = self._log_density(
            (self.S.values - self.prediction[rows]) / unit[rows], self.noise.scale, self.noise.weighting.degrees
        )
        centre, scale, degrees = self.prediction, self.noise.scale, self.noise.weighting.degrees
        labels = np.empty((n, len(self.S)))
        for sweep in range(_FIRST + n * _BETWEEN if self.trust > 0.0 else n):
            odds = base
            if self.trust > 0.0:
                now = self._log_density((self.S.values - centre[rows]) / unit[rows], scale, degrees)
                odds = base + self.trust * (now - at_first)
            label, absent = self._choose(odds, missing, random)
            label = np.where(absent, centre + scale * unit * self._noise(len(label), degrees, random), label)
            label = np.where(np.isnan(self.known), label, self.known)
            if self.trust == 0.0:
                labels[sweep] = label
                continue
            if sweep >= _FIRST and (sweep - _FIRST) % _BETWEEN == 0:
                labels[(sweep - _FIRST) // _BETWEEN] = label
            teaches = np.where(absent & np.isnan(self.known), 0.0, self.weight)
            away = (label - self.prediction) / unit
            correction, scale = self._learn(away, centre, unit, scale, degrees, teaches, random)
            centre = self.prediction + correction
            degrees = self._learn_degrees(away - correction / unit, scale, degrees, teaches, random)
        return labels

    def _false_label_ratio(self) -> Floats:
        """Return log q of each candidate less what it is by the probabilities, where q is estimated.

        The estimate of training is in part uniform, for safety before anything is known. That takes candidates at the
        ends of the range for false ones too often, and regressions from draws would be too flat.
        """
        given = self.noise.weighting.false_labels
        if not isinstance(given, str) or given != "estimated" or self.trust == 0.0:
            return np.zeros(len(self.S.values))
        better = fit_false_labels("estimated", self.S, self.probabilities, self.weight, sharp=True)
        return self.trust * (self.noise.false_labels.log(self.S.values) - better.log(self.S.values))

    def _choose(self, odds: Floats, missing: Floats, random: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """Draw a candidate of each row by its log odds, or none of them."""
        # The largest of logs with Gumbel noise is a draw by the odds.
        drawn = odds + random.gumbel(size=odds.size)
        best = np.maximum.reduceat(drawn, self.S.offsets[:-1])
        place = np.where(drawn == best[self.S.row_index], np.arange(drawn.size), drawn.size)
        chosen = np.minimum.reduceat(place, self.S.offsets[:-1])
        return self.S.values[chosen], missing + random.gumbel(size=missing.size) > best

    def _learn(
        self,
        away: Floats,
        centre: Floats,
        unit: Floats,
        scale: float,
        degrees: float,
        weight: Floats,
        random: np.random.Generator,
    ) -> tuple[Floats, float]:
        """Draw the correction and the noise scale, given how far labels are from predictions in units of their rows."""
        count = float(weight.sum())
        if count < self.columns.shape[1] + 1:
            return centre - self.prediction, scale
        precision = weight * self._precision(away - (centre - self.prediction) / unit, scale, degrees, random)
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
