"""The weighted loss of candidate sets as boosting takes it: a derivative and a curvature per row, round after round.

Derivatives are handed over in units that make the mean curvature 1, as it is in the libraries' own squared error. A
round's trees do not change by it, and a library's settings in units of curvature (``lambda_l2``, ``min_child_weight``)
mean what they usually do, whatever the loss.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from plr._codes import SCALE
from plr.candidates import CandidateSets
from plr.errors import DivergenceError
from plr.losses import Absolute, Squared
from plr.preprocessing.scaling import label_scale
from plr.weighting import Average, Posterior
from plr.weighting.rule import NOTHING, Evaluation, Rule

__all__ = ["MONITORS", "Metric", "Objective", "Round"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

MONITORS = ("loss", "evidence")
"""What rows can be judged by: the rule's own loss, or the likelihood of their candidates under a noise model."""

# How near the best constant the first score has to be, in standard deviations of the labels; the trees do the rest.
_NEAR = 1e-6


class Round(NamedTuple):
    """What a round starts from: the mean loss, and each row's derivative and curvature, their mean curvature 1."""

    loss: float
    gradient: Singles
    hessian: Singles


class Objective:
    """A rule on the rows of one fit, round after round; it owns what the rule learns on the way.

    Parameters
    ----------
    S : CandidateSets
    rule : Rule
    sample_weight : ndarray of shape (n,), optional
    log_q : ndarray, one entry per candidate, optional
        Log density of false labels, per unit of the labels as they are in ``S``; empty or None where it is uniform.
    start : ndarray, one entry per candidate, optional
        Weights to begin with; the priors where there are none.
    start_rounds : int, default=0
        In so many rounds these are the weights, and the rule's afterwards.
    threads : int, default=1
        The result does not depend on it.
    scale : float, optional
        The candidates' standard deviation, where it is known already.

    Attributes
    ----------
    initial_score : float
        The constant with the least loss on average over the candidates, or over the start's weights.
    """

    def __init__(
        self,
        S: CandidateSets,
        rule: Rule,
        sample_weight: Floats | None = None,
        log_q: Floats | None = None,
        start: Floats | None = None,
        start_rounds: int = 0,
        threads: int = 1,
        scale: float | None = None,
    ) -> None:
        self.S, self.rule = S, rule
        self.weight = None if sample_weight is None else sample_weight / sample_weight.mean()
        self._log_q = NOTHING if log_q is None else log_q
        self._threads = threads
        # A start's weights are those of the average, with the start as prior.
        self._average = Rule(Average(), rule.loss)
        self._started = S if start is None else CandidateSets(S.values, S.offsets, start)
        self._start_rounds = start_rounds
        self._scale = label_scale(S, sample_weight) if scale is None else scale
        self.initial_score = self._best_constant()
        self._buffer: Evaluation | None = None
        self.begin()

    def begin(self) -> None:
        """Forget what was learned: a fit begins."""
        self.state = self.rule.initial_state(self._scale)
        self._rounds = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Objective:
        # LightGBM copies its parameters before it trains. The buffer alone is ever written to, so all else is shared.
        copied = copy.copy(self)
        copied._buffer = None
        return copied

    @property
    def noise_scale(self) -> float:
        """The noise scale after the last round."""
        return float(self.state[SCALE])

    def round(self, prediction: Floats) -> Round:
        """Weigh the candidates around the predictions, and learn the noise scale where the rule does."""
        self._rounds += 1
        started = self._rounds <= self._start_rounds
        if started:
            found = self._average.evaluate(
                prediction, self._started, self.state, threads=self._threads, out=self._buffer
            )
        else:
            found = self.rule.evaluate(
                prediction, self.S, self.state, self._log_q, threads=self._threads, out=self._buffer
            )
        self._buffer = found
        if self.rule.learns_scale:
            self.state = self.rule.update_scale(
                prediction, self.S, self.state, found.weights, self.weight, threads=self._threads, own=not started
            )
        loss = float(np.average(found.loss, weights=self.weight))
        hessian = found.hessian
        if isinstance(self.rule.loss, Absolute):
            hessian = np.minimum(hessian, 1.0 / _typical(found.loss, self.weight))
        return self._in_mean_curvature(loss, found.gradient, hessian)

    def _in_mean_curvature(self, loss: float, gradient: Floats, hessian: Floats) -> Round:
        if self.weight is not None:
            gradient, hessian = gradient * self.weight, hessian * self.weight
        ready = Round(loss, np.empty(len(gradient), np.float32), np.empty(len(gradient), np.float32))
        with np.errstate(all="ignore"):
            factor = 1.0 / hessian.mean()
            np.multiply(gradient, factor, out=ready.gradient, casting="same_kind")
            np.multiply(hessian, factor, out=ready.hessian, casting="same_kind")
        if not (np.isfinite(ready.gradient).all() and factor > 0 and ready.hessian.min() >= 0):
            raise DivergenceError(
                f"In round {self._rounds} the loss's derivative is not finite, or its curvature is not above 0. A loss "
                f"of your own must have both; labels beyond 1e30 must be scaled."
            )
        return ready

    def _best_constant(self) -> float:
        """Find where the loss's slope, over all rows, changes its sign."""
        low, high = float(self.S.values.min()), float(self.S.values.max())
        state = self._average.initial_state()
        buffer = None

        def slope(constant: float) -> float:
            nonlocal buffer
            everywhere = np.full(len(self.S), constant)
            buffer = self._average.evaluate(everywhere, self._started, state, threads=self._threads, out=buffer)
            return float(np.average(buffer.gradient, weights=self.weight))

        if isinstance(self.rule.loss, Squared):
            middle = low / 2 + high / 2
            return middle - slope(middle) / 2
        if not slope(low) < 0:
            return low
        if not slope(high) > 0:
            return high
        return float(brentq(slope, low, high, xtol=_NEAR * self._scale))


class Metric:
    """Judge predictions for some rows by their candidates alone; lower is better.

    The noise scale of the evidence, and that of the loss where the rule learns one, moves one round towards the best at
    each call: it follows the model without being solved for anew each time.
    """

    def __init__(
        self,
        S: CandidateSets,
        rule: Rule,
        monitor: str,
        scale: float,
        weight: Floats | None = None,
        log_q: Floats = NOTHING,
    ) -> None:
        self._S, self._weight, self._monitor, self._log_q = S, weight, monitor, log_q
        # The common score judges every method by the same noise, whatever the method itself assumes.
        by_noise = monitor == "evidence" and not rule.learns_scale
        self._rule = Rule(Posterior(), Squared()) if by_noise else rule
        self._state = self._rule.initial_state(scale)

    def score(self, prediction: Floats, state: Floats | None = None) -> float:
        """Return the mean over rows; with ``state``, the loss is taken at a noise scale learned elsewhere."""
        if state is not None and self._monitor == "loss":
            found = self._rule.evaluate(prediction, self._S, state, self._log_q)
            return float(np.average(found.loss, weights=self._weight))
        found = self._rule.evaluate(prediction, self._S, self._state, self._log_q)
        if self._rule.learns_scale:
            self._state = self._rule.update_scale(prediction, self._S, self._state, found.weights, self._weight)
        rows = found.loss
        if self._monitor == "evidence":
            rows = -self._rule.evidence(prediction, self._S, self._state, self._log_q)
        return float(np.average(rows, weights=self._weight))


def _typical(loss: Floats, weight: Floats | None) -> float:
    """Return how far predictions typically are off: less than this, the absolute loss counts as smooth.

    Its curvature 1/|r| would otherwise let a row that happens to be met exactly hold a whole leaf in place. The mean of
    square roots is neither moved much by outliers nor zero where many rows are met.
    """
    root = float(np.average(np.sqrt(loss), weights=weight))
    return max(root * root, np.finfo(float).tiny)
