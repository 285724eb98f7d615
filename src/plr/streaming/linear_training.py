"""A linear model solved over rows that are read again in each round.

A sample gives the first solution. Each further round weighs all candidates around the current predictions and adds up
one least-squares problem, as `plr.learners.Linear` does in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from plr._codes import SCALE
from plr.contracts import Report, Task
from plr.errors import ConvergenceWarning, DivergenceError
from plr.learners.linear import Linear, pseudo_inverse, solve
from plr.preprocessing.scaling import label_scale
from plr.streaming.ahead import ahead
from plr.streaming.shuffled import EncodedRows, ShuffledCopy, TrainingOrder, read_rounds
from plr.threads import one_blas_thread
from plr.weighting.rule import NOTHING, Rule, row_sums

__all__ = ["solve_in_passes"]

Floats = NDArray[np.float64]

# Passes over all rows, and how little a typical prediction moves in the last, in standard deviations of the labels. A
# pass takes as long as reading the rows; what is left to gain beyond is far below what the rows themselves leave open.
_MOST_PASSES, _SETTLED = 30, 1e-4
# The sample's solution is only where passes begin.
_SAMPLE_TOLERANCE = 1e-5


def solve_in_passes(
    learner: Linear,
    rule: Rule,
    sample: EncodedRows,
    copy: ShuffledCopy,
    seed: int,
    callback: Callable[[int, int, float], object] | None = None,
) -> tuple[Floats, Report]:
    """Return coefficients for scaled features, the intercept last, and how it went.

    Parameters
    ----------
    learner : Linear
    rule : Rule
    sample : EncodedRows
        Rows for the first solution.
    copy : ShuffledCopy
        All rows.
    seed : int
    callback : callable, optional
        Called with ``(chunks done, chunks in all, loss)``.
    """
    task = Task(sample.features, sample.S, rule, sample_weight=sample.weight, start=sample.start)
    log_q = NOTHING if sample.log_q is None else sample.log_q
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution, report = solve(
            sample.features, sample.S, task, log_q, learner.alpha, learner.max_rounds, _SAMPLE_TOLERANCE
        )
    scale = label_scale(sample.S, sample.weight)
    state = rule.initial_state(scale)
    if report.noise_scale.size:
        state[SCALE] = report.noise_scale[-1]
    order = TrainingOrder(copy.sizes, 1, 1, seed)
    most, tolerance = min(learner.max_rounds, _MOST_PASSES), max(learner.tol, _SETTLED)
    penalty = np.diag([*np.full(len(solution) - 1, learner.alpha), 0.0])
    losses: list[float] = []
    scales: list[float] = []
    for done in range(1, most + 1):
        sums = [np.zeros(())] * 4
        for turn, (rows, *_) in ahead(read_rounds(copy, order)):
            # One thread, so that sums come out the same whatever number there is.
            with one_blas_thread():
                found = _round_sums(rule, rows, solution, state)
            sums = [before + part for before, part in zip(sums, found, strict=True)]
            if callback is not None:
                loss = float(sums[3][0] / sums[3][1]) if sums[3][1] > 0 else np.nan
                callback((done - 1) * order.rounds + turn.number + 1, most * order.rounds, loss)
        count = sums[3][1]
        gram, curved, aims, (loss, _, spread, met) = (part / count for part in sums)
        with one_blas_thread():
            change = pseudo_inverse(curved + penalty) @ aims - solution
        solution = solution + change
        if rule.learns_scale:
            state = rule.next_state(state, float(spread), float(met))
        losses.append(float(loss))
        scales.append(float(state[SCALE]))
        moved = abs(float(change @ gram @ change)) ** 0.5 / scale
        settled = len(scales) < 2 or abs(scales[-1] - scales[-2]) <= tolerance * scales[-2]
        if moved <= tolerance and settled:
            break
    else:
        warnings.warn(
            f"The linear model still moved by {moved:.1g} standard deviations in the last of {most} passes over the "
            "rows.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return solution, Report(len(losses), np.array(losses), np.array(scales if rule.learns_scale else []))


def _round_sums(rule: Rule, rows: EncodedRows, solution: Floats, state: Floats) -> list[Floats]:
    """Return what some rows add to a round.

    The products of their features, counted by weight; the same counted by curvature; those of features and aims; and
    the rows' losses, weights, spreads and sums of candidates' weights.
    """
    S = rows.S
    weight = np.ones(len(S)) if rows.weight is None else rows.weight
    design = np.column_stack([rows.features, np.ones(len(S))])
    prediction = design @ solution
    found = rule.evaluate(prediction, S, state, NOTHING if rows.log_q is None else rows.log_q)
    met = row_sums(found.weights, S) if rule.may_miss else np.ones(len(S))
    with np.errstate(divide="ignore", invalid="ignore"):
        aim = np.where(met > 0, prediction - found.gradient / found.hessian, prediction)
    if not np.isfinite(aim).all():
        raise DivergenceError("The loss's derivative or curvature is not finite, or the curvature is 0.")
    spread = rule.spread(prediction, S, state, found.weights) if rule.learns_scale else np.zeros(len(S))
    weighted = (design * weight[:, None]).T
    curved = (design * (weight * found.hessian / 2)[:, None]).T
    totals = weight @ np.column_stack([found.loss, np.ones(len(S)), spread, met])
    return [weighted @ design, curved @ design, curved @ aim, totals]
