"""Label-free scores: how well predictions explain candidate sets, when nobody knows which candidate is true.

If true labels scatter around the prediction with density p and false ones come from a density q, a row's candidates
are as likely as Σ_j prior_j · p(y_j | prediction) / q(y_j), up to a factor that no model changes. The mean of its
logarithm, with a noise scale estimated once, compares weightings, learners and settings on the same held-out rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr.candidates import CandidateSets
from plr.learners.scaling import Affine, learn_target, rescaled
from plr.losses import Squared
from plr.weighting.posterior import Posterior
from plr.weighting.rule import Rule

__all__ = ["NoiseModel", "fit_noise"]

Floats = NDArray[np.float64]

_ROUNDS = 100
_SETTLED = 1e-6
# Narrower than this share of the labels' standard deviation, noise counts as absent.
_NARROWEST = 1e-9


@dataclass(frozen=True)
class NoiseModel:
    """How true labels scatter around predictions, and false ones over the label range.

    Attributes
    ----------
    weighting : Posterior
        The family of the noise.
    scale : float
        Its scale, in label units.
    target : Affine
        How labels are scaled before anything is computed, so that units of any size will do.
    log_q : float
        Log density of false labels, the same everywhere, for scaled labels.
    """

    weighting: Posterior
    scale: float
    target: Affine
    log_q: float

    def probabilities(self, prediction: Floats, S: CandidateSets, threads: int = 1) -> Floats:
        """Return each candidate's probability of being the true one, flat; it does not depend on ``threads``."""
        rule = Rule(self.weighting, Squared())
        centre, sets = self.target.apply(prediction), rescaled(S, self.target)
        return rule.evaluate(centre, sets, self._state(rule), threads=threads).weights

    def log_likelihood(self, prediction: Floats, S: CandidateSets) -> Floats:
        """Return each row's log Σ prior · p / q."""
        rule = Rule(self.weighting, Squared())
        return rule.evidence(self.target.apply(prediction), rescaled(S, self.target), self._state(rule)) - self.log_q

    def _state(self, rule: Rule) -> Floats:
        return rule.initial_state(self.scale / float(self.target.scale))


def fit_noise(
    prediction: Floats,
    S: CandidateSets,
    weighting: Posterior | None = None,
    sample_weight: Floats | None = None,
    threads: int = 1,
) -> NoiseModel:
    """Estimate the noise scale that makes the candidates likeliest around given predictions.

    Expectation-maximisation from a wide scale: weigh the candidates, take the weighted spread, repeat until it settles.
    The result does not depend on ``threads``.
    """
    family = weighting if weighting is not None else Posterior()
    rule = Rule(family, Squared())
    target = learn_target(S, sample_weight, active=True, single_precision=False)
    centre, sets = target.apply(prediction), rescaled(S, target)
    state = rule.initial_state(1.0)
    found = None
    for _ in range(_ROUNDS):
        found = rule.evaluate(centre, sets, state, threads=threads, out=found)
        updated = rule.update_scale(centre, sets, state, found.weights, sample_weight, threads=threads)
        updated[0] = max(updated[0], _NARROWEST)
        change = abs(float(updated[0]) - float(state[0]))
        state = updated
        if change <= _SETTLED * float(state[0]):
            break
    span = float(sets.values.max() - sets.values.min())
    return NoiseModel(family, float(state[0]) * float(target.scale), target, -float(np.log(span)) if span > 0 else 0.0)
