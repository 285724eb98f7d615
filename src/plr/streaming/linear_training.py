"""A linear model solved over rows that are read again in each round.

A sample gives the first solution. Each further round weighs all candidates around the current predictions and adds up
one least-squares problem, as `plr.learners.Linear` does in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr._codes import MISSING, SCALE
from plr.candidates import CandidateSets
from plr.contracts import Report, Task
from plr.errors import ConvergenceWarning, DivergenceError
from plr.learners.linear import pseudo_inverse, solve
from plr.preprocessing.scaling import label_scale
from plr.streaming.ahead import ahead
from plr.streaming.shuffled import EncodedRows, ShuffledCopy
from plr.streaming.training_rounds import RoundRows, TrainingOrder, read_rounds
from plr.threads import one_blas_thread
from plr.weighting._noise import next_missing, next_scale, spread
from plr.weighting.rule import Rule, row_sums

__all__ = ["LinearJob", "LinearSums"]

Floats = NDArray[np.float64]

# Passes over all rows, and how little a typical prediction moves in the last, in standard deviations of the labels. A
# pass takes as long as reading the rows; what is left to gain beyond is far below what the rows themselves leave open.
_MOST_PASSES, _SETTLED = 30, 1e-4
# The sample's solution is only where passes begin.
_SAMPLE_TOLERANCE = 1e-5


@dataclass(frozen=True)
class LinearJob:
    """A linear model to be solved.

    Attributes
    ----------
    rule : Rule
    alpha : float
        Strength of the L2 penalty.
    most : int
        Rounds at most.
    tolerance : float
    sample : EncodedRows
        Rows for the first solution.
    seed : int
    """

    rule: Rule
    alpha: float
    most: int
    tolerance: float
    sample: EncodedRows
    seed: int

    def solve(
        self, copy: ShuffledCopy, callback: Callable[[int, int, float], object] | None = None
    ) -> tuple[Floats, Report]:
        """Return coefficients for scaled features, the intercept last, and how it went."""
        solution, report = self._first()
        scale = label_scale(self.sample.S, self.sample.weight)
        state = self.rule.initial_state(scale)
        if report.noise_scale.size:
            state[SCALE] = report.noise_scale[-1]
        order = TrainingOrder(copy.sizes, 1, 1, self.seed)
        most = min(self.most, _MOST_PASSES)
        tolerance = max(self.tolerance, _SETTLED)
        losses: list[float] = []
        scales: list[float] = []
        moved = np.inf
        for done in range(1, most + 1):
            sums = LinearSums(self.rule, len(solution))
            for turn, rows in ahead(read_rounds(copy, order)):
                sums.add(rows, solution, state)
                if callback is not None:
                    callback((done - 1) * order.rounds + turn.number + 1, most * order.rounds, sums.mean_loss)
            change = sums.solve(self.alpha) - solution
            solution = solution + change
            state = sums.next_state(state)
            losses.append(sums.mean_loss)
            scales.append(float(state[SCALE]))
            moved = abs(float(change @ sums.gram @ change)) ** 0.5 / scale
            settled = len(scales) < 2 or abs(scales[-1] - scales[-2]) <= tolerance * scales[-2]
            if moved <= tolerance and settled:
                break
        else:
            warnings.warn(
                f"The linear model still moved by {moved:.1g} standard deviations in the last of {most} passes over "
                f"the rows.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return solution, Report(len(losses), np.array(losses), np.array(scales if self.rule.learns_scale else []))

    def _first(self) -> tuple[Floats, Report]:
        sample = self.sample
        task = Task(sample.features, sample.S, self.rule, sample_weight=sample.weight, start=sample.start)
        log_q = np.empty(0) if sample.log_q is None else sample.log_q
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return solve(sample.features, sample.S, task, log_q, self.alpha, self.most, _SAMPLE_TOLERANCE)


class LinearSums:
    """What all rows add up to in one round."""

    def __init__(self, rule: Rule, size: int) -> None:
        self._rule = rule
        self.gram = np.zeros((size, size))
        """Of the features, each row counted by its weight."""
        self._weighted = np.zeros((size, size))
        self._aims = np.zeros(size)
        self._totals = np.zeros(4)

    @property
    def mean_loss(self) -> float:
        """Of the rows so far."""
        return float(self._totals[0] / self._totals[1]) if self._totals[1] > 0 else np.nan

    def add(self, rows: RoundRows, solution: Floats, state: Floats) -> None:
        """Add some rows."""
        rule = self._rule
        S = CandidateSets(rows.values, rows.offsets, rows.prior if rows.prior.size else None)
        weight = rows.weight if rows.weight.size else np.ones(len(S))
        # One thread, so that sums come out the same whatever number there is.
        with one_blas_thread():
            design = np.column_stack([rows.features, np.ones(len(S))])
            prediction = design @ solution
            found = rule.evaluate(prediction, S, state, rows.log_q)
            with np.errstate(divide="ignore", invalid="ignore"):
                aim = prediction - found.gradient / found.hessian
            if rule.may_miss:
                aim = np.where(row_sums(found.weights, S) > 0, aim, prediction)
            if not np.isfinite(aim).all():
                raise DivergenceError("The loss's derivative or curvature is not finite, or the curvature is 0.")
            counted = weight * found.hessian / 2
            self.gram += (design * weight[:, None]).T @ design
            weighted = design * counted[:, None]
            self._weighted += weighted.T @ design
            self._aims += weighted.T @ aim
        self._totals[:2] += float(weight @ found.loss), float(weight.sum())
        if rule.learns_scale:
            parts = np.empty(len(S))
            spread(rule.formula, prediction, S.values, S.offsets, state, found.weights, parts)
            met = float(weight @ row_sums(found.weights, S)) if rule.may_miss else float(weight.sum())
            self._totals[2:] += float(weight @ parts), met

    def solve(self, alpha: float) -> Floats:
        """Return the solution of the round, and leave the mean of the features' products in ``gram``."""
        count = self._totals[1]
        penalty = np.full(len(self._aims), alpha)
        penalty[-1] = 0.0
        self.gram /= count
        with one_blas_thread():
            inverse = pseudo_inverse(self._weighted / count + np.diag(penalty))
            solution: Floats = inverse @ self._aims / count
        return solution

    def next_state(self, state: Floats) -> Floats:
        """Return the state after a round of learning the noise."""
        new = state.copy()
        if self._rule.learns_scale and self._totals[3] > 0:
            new[SCALE] = next_scale(self._rule.formula, self._totals[2] / self._totals[3], state)
        if self._rule.learns_missing:
            new[MISSING] = next_missing(self._totals[3] / self._totals[1])
        return new
