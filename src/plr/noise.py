"""Label-free scores: how well predictions explain candidate sets, when nobody knows which candidate is true.

If true labels scatter around the prediction with density p and false ones come from a density q, a row's candidates
are as likely as Σ_j prior_j · p(y_j | prediction) / q(y_j), up to a factor that no model changes. The mean of its
logarithm, with a noise scale estimated once, compares weightings, learners and settings on the same held-out rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plr._codes import MISSING, SCALE
from plr.candidates import CandidateSets
from plr.errors import ConvergenceWarning, DivergenceError
from plr.losses import Squared
from plr.preprocessing import Preprocessing
from plr.preprocessing.scaling import Affine, rescaled
from plr.weighting.base import Weighting
from plr.weighting.false_labels import FalseLabelDensity, fit_false_labels
from plr.weighting.posterior import Posterior
from plr.weighting.rule import NOTHING, Rule, row_sums

__all__ = ["NoiseModel", "compare_predictions", "fit_noise", "in_row_units"]

Floats = NDArray[np.float64]

# A scale settles within tens of rounds, together with a share of missing truths within hundreds.
_ROUNDS = 1000
_SETTLED = 1e-6
# A share of missing truths, at most. Training has a lower limit: a model that believes in few rows learns from few.
_MOST_MISSING = 0.9
# Distances of scaled labels, at most.
_FARTHEST = 1e100
_RANGE = np.finfo(float).min, np.finfo(float).max


@dataclass(frozen=True)
class NoiseModel:
    """How true labels scatter around predictions, and false ones over the label range.

    Attributes
    ----------
    weighting : Posterior
        The family of the noise.
    scale : float
        Its scale, in label units; where rows have scales of their own, the typical one.
    target : Affine
        How labels are scaled before anything is computed, so that units of any size will do.
    false_labels : FalseLabelDensity
        The density of false labels, in label units.
    missing : float
        The share of rows whose truth is missing from their candidates.
    """

    weighting: Posterior
    scale: float
    target: Affine
    false_labels: FalseLabelDensity
    missing: float = 0.0

    @cached_property
    def _rule(self) -> Rule:
        return Rule(self.weighting, Squared())

    def probabilities(
        self,
        prediction: Floats,
        S: CandidateSets,
        threads: int = 1,
        relative: Floats | None = None,
        scaled: CandidateSets | None = None,
    ) -> Floats:
        """Return each candidate's probability of being the true one, flat; it does not depend on ``threads``.

        Those of a row sum to one, or to the probability that it has its truth, where that may be missing: by the share
        of such rows, or by what the sets say of each row. With ``relative``, each row has so many times the noise
        scale. ``scaled`` are the scaled sets, where they are known.
        """
        compared = self._compared(prediction, S, relative, scaled)
        shares = self._rule.evaluate(*compared, threads=threads).weights
        if S.missing is None:
            return shares
        with np.errstate(divide="ignore"):
            odds = np.log(S.missing) - np.log1p(-S.missing) - self._evidence(*compared)
        return np.asarray(shares * np.exp(-np.logaddexp(0.0, odds))[S.row_index])

    def missing_probabilities(self, probabilities: Floats, S: CandidateSets) -> Floats:
        """Return each row's probability that none of its candidates is true, from those of its candidates."""
        if self.missing == 0.0 and S.missing is None:
            return np.zeros(len(S))
        return np.clip(1.0 - row_sums(probabilities, S), 0.0, 1.0)

    def log_likelihood(
        self,
        prediction: Floats,
        S: CandidateSets,
        relative: Floats | None = None,
        scaled: CandidateSets | None = None,
    ) -> Floats:
        """Return each row's log Σ prior · p / q; ``scaled`` are the sets on the model's scale, where they are known.

        Where a share ε of the rows may lack their truth, log((1 - ε) · Σ prior · p / q + ε); ε is that of each row
        where the sets say it.
        """
        found = self._evidence(*self._compared(prediction, S, relative, scaled))
        if S.missing is None:
            return found
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log1p(-S.missing) + found, np.log(S.missing))

    def widened(
        self, prediction: Floats, S: CandidateSets, sample_weight: Floats | None = None, relative: Floats | None = None
    ) -> NoiseModel:
        """Return this noise, or a wider one where the candidates of some rows show that true labels scatter more.

        A model that comes nearer to the rows it was fitted to than to others has seen too little of its own errors.
        """
        wide = replace(self, scale=float(self.target.scale))
        vars(wide)["_rule"] = self._rule
        state = wide._settle(*wide._compared(prediction, S, relative), sample_weight, 1)
        scale = float(state[SCALE]) * float(self.target.scale)
        if scale <= self.scale:
            return self
        found = replace(self, scale=scale, missing=float(state[MISSING]))
        vars(found)["_rule"] = self._rule
        return found

    def _evidence(self, centre: Floats, sets: CandidateSets, state: Floats, log_q: Floats) -> Floats:
        found = self._rule.evidence(centre, sets, state, log_q)
        return found if log_q.size else found - self.false_labels.log_uniform(self.target)

    def _compared(
        self, prediction: Floats, S: CandidateSets, relative: Floats | None, scaled: CandidateSets | None = None
    ) -> tuple[Floats, CandidateSets, Floats, Floats]:
        """Return scaled predictions and candidates, the state of the rule, and log q where it counts."""
        if not np.isfinite(prediction).all():
            row = int(np.flatnonzero(~np.isfinite(prediction))[0])
            raise DivergenceError(
                f"The prediction for row {row} is {prediction[row]}, which no candidate can be compared with; look at "
                f"the features of that row, and at the parameters of the model.",
                row=row,
                value=prediction[row],
            )
        # Farther away, no candidate is nearer than another, and squares would overflow.
        centre = np.clip(self.target.apply(prediction), -_FARTHEST, _FARTHEST)
        sets, log_q = rescaled(S, self.target) if scaled is None else scaled, NOTHING
        if relative is not None or self.weighting.needs_density:
            log_q = self.false_labels.log_scaled(S.values, self.target)
        if relative is not None:
            centre, sets, log_q = in_row_units(centre, sets, log_q, relative)
        state = self._rule.initial_state(self.scale / float(self.target.scale))
        state[MISSING] = self.missing if S.missing is None else 0.0
        return centre, sets, state, log_q

    def _settle(
        self,
        centre: Floats,
        sets: CandidateSets,
        state: Floats,
        log_q: Floats,
        sample_weight: Floats | None,
        threads: int,
    ) -> Floats:
        """Return the state under which the candidates are likeliest, for scaled labels."""
        rule, found = self._rule, None
        for _ in range(_ROUNDS):
            found = rule.evaluate(centre, sets, state, log_q, threads=threads, out=found)
            updated = rule.update_scale(centre, sets, state, found.weights, sample_weight, threads=threads)
            if rule.learns_missing:
                there = float(np.average(row_sums(found.weights, sets), weights=sample_weight))
                updated[MISSING] = min(max(1.0 - there, 0.0), _MOST_MISSING)
            change = np.abs(updated - state)
            state = updated
            if change[SCALE] <= _SETTLED * float(state[SCALE]) and change[MISSING] <= _SETTLED:
                return state
        also = " and the share of rows whose truth is missing" if rule.learns_missing else ""
        advice = "give missing_truth as a number" if rule.learns_missing else "look at rows with far-off predictions"
        moved = max(change[SCALE] / state[SCALE], change[MISSING])
        warnings.warn(
            f"The noise scale{also} still moved by {moved:.1g} in the last of {_ROUNDS} rounds, so that "
            f"probabilities and scores are not final; {advice}, or give more rows.",
            ConvergenceWarning,
            stacklevel=3,
        )
        return state


def fit_noise(
    prediction: Floats,
    S: CandidateSets,
    weighting: Weighting | None = None,
    sample_weight: Floats | None = None,
    threads: int = 1,
    false_labels: FalseLabelDensity | None = None,
    relative: Floats | None = None,
    preprocessing: Preprocessing | None = None,
    rule: Rule | None = None,
) -> NoiseModel:
    """Estimate the noise scale that makes the candidates likeliest around given predictions.

    Expectation-maximisation from a wide scale: weigh the candidates, take the weighted spread, repeat until it settles;
    with the share of rows whose truth is missing, where it is to be learned. Family and density of false labels are
    what a posterior ``weighting`` asks for, unless the density is given; other weightings have none, and the noise is
    Student's. With ``relative``, each row has so many times the scale that is estimated. The result does not depend on
    ``threads``. Labels that are scaled already come as ``preprocessing``, and a ``rule`` of the same weighting is not
    compiled again.
    """
    labels = preprocessing or Preprocessing(None, S, sample_weight=sample_weight)
    family = weighting if isinstance(weighting, Posterior) else Posterior()
    density = false_labels or fit_false_labels(family.false_labels, S, sample_weight=sample_weight)
    if rule is None or rule.weighting is not family or not isinstance(rule.loss, Squared):
        rule = Rule(family, Squared())
    scale, missing = float(labels.target.scale), float(rule.initial_state()[MISSING])
    model = NoiseModel(family, scale, labels.target, density, missing)
    vars(model)["_rule"] = rule
    state = model._settle(*model._compared(prediction, S, relative, labels.sets), sample_weight, threads)
    found = replace(model, scale=float(state[SCALE]) * scale, missing=float(state[MISSING]))
    vars(found)["_rule"] = rule
    return found


def compare_predictions(
    predictions: Sequence[Floats],
    preprocessing: Preprocessing,
    weighting: Posterior,
    sample_weight: Floats | None = None,
    threads: int = 1,
    false_labels: FalseLabelDensity | None = None,
) -> list[float]:
    """Return the mean log likelihood of candidate sets around each of several predictions of the same rows.

    Each prediction has the noise scale that suits it best, as `fit_noise` finds it.
    """
    S, target = preprocessing.S, preprocessing.target
    density = false_labels or fit_false_labels(weighting.false_labels, S, sample_weight=sample_weight)
    model = NoiseModel(weighting, float(target.scale), target, density)
    found = []
    for prediction in predictions:
        centre, sets, state, log_q = model._compared(prediction, S, None, preprocessing.sets)
        state = model._settle(centre, sets, state, log_q, sample_weight, threads)
        rows = model._evidence(centre, sets, state, log_q)
        found.append(float(np.average(rows, weights=sample_weight)))
    return found


def in_row_units(
    centre: Floats, S: CandidateSets, log_q: Floats, relative: Floats
) -> tuple[Floats, CandidateSets, Floats]:
    """Return predictions, candidates and log density in units of each row's own scale.

    A scale for each row is the common one for labels so measured; densities are per unit, and rise with it.
    """
    unit = relative[S.row_index]
    # Labels that were not scaled may overflow.
    values = np.clip(S.values / unit, *_RANGE)
    return centre / relative, CandidateSets._of_checked(values, S.offsets, S.prior), log_q + np.log(unit)
