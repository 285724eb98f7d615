"""Intervals around predictions, calibrated on candidate sets alone.

Rows are predicted by models that know nothing of them. How far their true labels are from these predictions is how far
a new row's will be from its own; but which candidate is true is not known. Two answers:

- *guaranteed*: take each row's farthest candidate. The true one is no farther.
- *sharp*: weigh each row's candidates by how probable each is to be the true one. If true labels are at a distance r
  from the prediction with density f(r), and false ones come from a density q, a candidate's weight is the share of its
  f(r) / q in its row. The density f is the likeliest of all that are symmetric and fall off from zero
  (`fit_distances`): a bell of given shape would decide by itself how many far candidates are true.

Notes
-----
Out-of-fold predictions that a learner made on the way (`Fitted.out_of_fold`) are no good for intervals: a row's
candidates have had a say in which candidates of other rows are believed, the predictions lean towards them, and
intervals come out too narrow whatever the estimator (coverage of about 0.82 where 0.9 was asked for, 0.88 with the true
labels of the same rows). So calibration goes by the whole procedure without each fold. The committee does that within
its own fit (`Fitted.held_out`): draws and trees of a fold know nothing of its candidates, the start and the kernel they
begin with do. That has not shown: on the paper's seven data sets (splits 80 and 81, at most 1,000 rows, 4 and 16 false
labels, 56 cases), held-out predictions were 1.07 times as far off as those of new rows, and the distance that holds
90 % of their true labels held 89.9 % of the new ones'. For other learners everything is fitted again, the start
included; for a committee under another weighting, with the next lower effort. A standard error of what not knowing the
labels adds is taken off the estimated coverage: without it, small data with many candidates fall short by one or two
points.

`identify()` of training rows uses the learner's own predictions, and its choices are better for knowing the row's own
candidates; the noise is that of held-out predictions, where there are some. Below 50 rows probabilities would be
over-confident (0.75 where 0.70 are right, and a noise scale of half the error): there they go by held-out predictions,
which bring both to 0.70 and the noise scale to three quarters of the error; how often each candidate was drawn still
counts.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plr._codes import MISSING
from plr._fields import require
from plr._parameters import check_choice, check_number
from plr.candidates import CandidateSets
from plr.contracts import Task
from plr.errors import ConvergenceWarning, DivergenceError, ParameterError
from plr.weighting.rule import row_sums

__all__ = ["METHODS", "Calibration", "check_coverage", "fit_distances", "learn_calibration"]

Floats = NDArray[np.float64]

METHODS = ("sharp", "guaranteed")
"""How intervals can be made."""

# The density of distances falls in steps at so many distances, at most.
_STEPS = 300
# The first step is as wide as the distance that this share of the rows has a candidate within: the likeliest falling
# density would otherwise rise without bound towards zero, for the sake of a few candidates that are near by chance.
_FIRST_STEP = 0.05
_ROUNDS = 1000
_SETTLED = 1e-5
# The shares of the steps go on moving for thousands of rounds where it makes no difference. After the last round they
# are near enough if no row could be likelier by more than this share.
_NEAR = 0.01
# A learned share of rows without their truth goes no higher, as in the weighting.
_MOST_MISSING = 0.5
# More distances than this are kept as so many, each with the share of several.
_MOST_KEPT = 10_000
# However little candidate sets tell, this much of the information on known labels counts as lost, at most.
_MOST_LOST = 0.98
# What rounding may take from a sum of shares.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How far true labels are from predictions, as far as candidate sets can tell.

    Attributes
    ----------
    distances : ndarray
        Distances of candidates from predictions of models that do not know them, increasing, in label units.
    covered : ndarray, of the same length
        The share of true labels that keep within each distance, estimated with caution: less one standard error of
        what not knowing the true labels adds to the uncertainty of it. It does not decrease, and ends at 1.
    worst_distances, worst_covered : ndarray
        The same of each row's farthest candidate, without need for caution.
    rows : float
        How many rows this was learned from; rows of unequal weight count as fewer.
    by_row : bool
        Whether distances are in units of each row's relative noise scale.
    """

    distances: Floats
    covered: Floats
    worst_distances: Floats
    worst_covered: Floats
    rows: float
    by_row: bool = False

    def __post_init__(self) -> None:
        require(len(self.distances) == len(self.covered) > 0, "distances and covered differ in length")
        require(
            len(self.worst_distances) == len(self.worst_covered) > 0, "worst distances and covered differ in length"
        )

    def __repr__(self) -> str:
        return f"Calibration(from {self.rows:.4g} rows)"

    def intervals(
        self, prediction: Floats, coverage: float = 0.9, method: str = "sharp", relative: Floats | None = None
    ) -> Floats:
        """Return lower and upper end around each prediction; ``relative`` is each row's noise scale, if it has one."""
        half = np.full(len(prediction), self.half_width(coverage, method))
        if self.by_row and relative is not None:
            half *= relative
        return np.column_stack([prediction - half, prediction + half])

    def half_width(self, coverage: float = 0.9, method: str = "sharp") -> float:
        """Return the distance from the prediction that a new row's true label keeps within, as often as asked.

        It is the smallest distance that the share ``coverage`` · (1 + 1 / rows) of the true labels keep within, as in
        conformal prediction: the new row counts as one more that is farther than all.
        """
        coverage, method = check_coverage(coverage, method)
        level = coverage * (1.0 + 1.0 / self.rows)
        if level > 1.0 + _ROUNDING:
            most = math.floor(1000 * self.rows / (self.rows + 1)) / 1000
            raise ParameterError(
                f"A coverage of {coverage:g} needs at least {math.ceil(coverage / (1.0 - coverage) - _ROUNDING)} "
                f"training rows to be calibrated on, and there are {self.rows:.4g}"
                f"{'' if self.rows.is_integer() else ', as rows of unequal weight count as fewer'}; ask for at most "
                f"{most:g}.",
                parameter="coverage",
                value=coverage,
            )
        distances, covered = self.distances, self.covered
        if method == "guaranteed":
            distances, covered = self.worst_distances, self.worst_covered
        return float(distances[min(int(np.searchsorted(covered, level - _ROUNDING)), len(distances) - 1)])


def check_coverage(coverage: object, method: object) -> tuple[float, str]:
    """Refuse what is no coverage between 0 and 1, or no known way to make intervals."""
    level = check_number("coverage", coverage, low=0.0, below=1.0, open_low=True)
    return level, check_choice("method", method, METHODS)


def learn_calibration(
    prediction: Floats,
    S: CandidateSets,
    task: Task,
    relative: Floats | None = None,
    probabilities: Floats | None = None,
) -> Calibration:
    """Learn how far true labels are from predictions of rows that the predicting models do not know.

    Parameters
    ----------
    prediction : ndarray of shape (n,)
    S : CandidateSets
        Of the same rows, with the priors that the user gave.
    task : Task
        Where the density of false labels, the share of rows without their truth and the rows' weights come from.
    relative : ndarray of shape (n,), optional
        Each row's noise scale relative to the typical one.
    probabilities : ndarray, one entry per candidate, optional
        How probable each candidate is to be the true one, where that does not go by its distance.
    """
    unit = np.ones(len(S)) if relative is None else relative
    distances = np.abs(S.values - prediction[S.row_index]) / unit[S.row_index]
    if not np.isfinite(distances).all():
        row = int(S.row_index[np.flatnonzero(~np.isfinite(distances))[0]])
        raise DivergenceError(
            f"Without the fold of row {row}, the model predicts {prediction[row]} for it; there is no distance to its "
            f"candidates to calibrate intervals by. Look at the features of that row.",
            row=row,
            value=prediction[row],
        )
    weight = np.ones(len(S)) if task.sample_weight is None else task.sample_weight
    log_q = np.zeros(S.values.size) if task.false_labels is None else task.false_labels.log(S.values)
    missing = float(task.rule.initial_state()[MISSING]) if task.rule.may_miss else 0.0
    if probabilities is None:
        probabilities = fit_distances(
            distances,
            S,
            weight,
            log_q=log_q + np.log(unit[S.row_index]),
            missing=missing,
            learn_missing=task.rule.learns_missing,
        )
    rows = float(weight.sum()) ** 2 / float(weight @ weight)
    worst = np.maximum.reduceat(np.where(S.prior_or_uniform > 0.0, distances, 0.0), S.offsets[:-1])
    labels = CandidateSets._of_checked(worst, np.arange(len(S) + 1))
    return Calibration(
        *_covered(distances, probabilities, S, weight, rows),
        *_covered(worst, np.ones(len(S)), labels, weight, rows),
        rows,
        relative is not None,
    )


def fit_distances(
    distances: Floats,
    S: CandidateSets,
    sample_weight: Floats,
    *,
    log_q: Floats,
    missing: float = 0.0,
    learn_missing: bool = False,
) -> Floats:
    """Return how probable each candidate is to be the true one, by its distance from the prediction.

    The density of the true ones' distances falls from zero on, in steps: a mixture of uniform densities, each from zero
    to one of the steps. Their shares are those under which the candidate sets are likeliest, found by
    expectation-maximisation: weigh the candidates, count how many lie within each step, repeat.

    Parameters
    ----------
    distances : ndarray, one entry per candidate
    S : CandidateSets
    sample_weight : ndarray of shape (n,)
    log_q : ndarray, one entry per candidate
        Log density of false labels; its level counts only where the truth may be missing.
    missing : float
        The share of rows whose truth is missing.
    learn_missing : bool
        Whether that is only a first guess.
    """
    prior = S.prior_or_uniform
    counts = sample_weight[S.row_index] > 0
    edges = _edges(np.where(counts & (prior > 0), distances, np.nan), S)
    if edges.size == 0:
        return np.array(prior)
    step = np.minimum(np.searchsorted(edges, distances), edges.size - 1)
    # In each row relative to the least q: only ratios matter within it, and exponentials stay finite.
    lowest = np.minimum.reduceat(log_q, S.offsets[:-1])
    odds = prior * np.exp(lowest[S.row_index] - log_q)
    weight = sample_weight / sample_weight.sum()
    # In a unit of their own, so that one over a distance is finite; a power of two changes no digit.
    exponent = int(np.frexp(edges[-1])[1])
    lowest = lowest + exponent * math.log(2.0)
    # A distance is met on both sides of a prediction.
    heights = 1.0 / (2.0 * np.ldexp(edges, -exponent))
    shares = np.full(edges.size, 1.0 / edges.size)
    for _ in range(_ROUNDS):
        evidence = _evidence(odds * _density(shares, heights)[step], S, lowest, missing)
        within = np.cumsum(np.bincount(step, odds * (weight / evidence)[S.row_index], edges.size))
        updated = shares * heights * within
        there = float(updated.sum())
        change = float(np.abs(updated / there - shares).sum())
        shares = updated / there
        if learn_missing:
            missing, before = min(max(1.0 - there, 0.0), _MOST_MISSING), missing
            change += abs(missing - before)
        if change <= _SETTLED:
            break
    else:
        # The slope of the log likelihood per row towards the best step; it is concave, so no more than that is left.
        left = float((heights * within).max()) / there - 1.0
        if left > _NEAR:
            warnings.warn(
                f"How far true labels are from predictions had not settled after {_ROUNDS} rounds: rows could be "
                f"likelier by {left:.1%}, and intervals may be too wide or too narrow. Give more rows, or rows with "
                f"fewer candidates.",
                ConvergenceWarning,
                stacklevel=2,
            )
    found = odds * _density(shares, heights)[step]
    return found / _evidence(found, S, lowest, missing)[S.row_index]


def _density(shares: Floats, heights: Floats) -> Floats:
    """Return the density within each step: the sum of all uniform densities that reach as far."""
    return np.cumsum((shares * heights)[::-1])[::-1]


def _evidence(found: Floats, S: CandidateSets, lowest: Floats, missing: float) -> Floats:
    """Return how likely each row's candidates are, with the chance that none of them is true."""
    absent = missing * np.exp(lowest) / (1.0 - missing) if missing > 0.0 else 0.0
    return np.maximum(row_sums(found, S) + absent, np.finfo(float).tiny)


def _edges(distances: Floats, S: CandidateSets) -> Floats:
    """Return where the density of distances may fall; nowhere if all candidates are at the predictions."""
    known = distances[~np.isnan(distances)]
    farthest = float(known.max(initial=0.0))
    if not farthest > 0.0:
        return np.empty(0)
    nearest = np.fmin.reduceat(distances, S.offsets[:-1])
    nearest = nearest[~np.isnan(nearest)]
    first = max(float(np.quantile(nearest, _FIRST_STEP)), farthest * np.finfo(float).eps)
    levels = np.linspace(0.0, 1.0, _STEPS // 2)
    places = np.concatenate([np.quantile(nearest, levels), np.quantile(known, levels), [first, farthest]])
    return np.unique(places[(places >= first) & (places > 0.0)])


def _covered(
    distances: Floats, probabilities: Floats, S: CandidateSets, weight: Floats, rows: float
) -> tuple[Floats, Floats]:
    """Return distances in order, and which share of the true labels keeps within each, less one standard error.

    Each row tells with which probability p its true label is within a distance. The mean of p is the share. Were the
    labels known, its variance would be share · (1 - share) / rows; not knowing them takes away the part of this
    information that the mean of p · (1 - p) is of share · (1 - share). What that adds to the variance is the error.
    """
    present = row_sums(probabilities, S)
    weight = weight * present / float(weight @ present)
    order = np.lexsort((distances, S.row_index))
    row = S.row_index[order]
    certain = probabilities[order] / np.maximum(present[row], np.finfo(float).tiny)
    until = np.cumsum(certain)
    before = until - certain
    before -= before[S.offsets[:-1]][row]
    doubt = weight[row] * certain * (1.0 - 2.0 * before - certain)

    by_distance = np.argsort(distances[order], kind="stable")
    distances = distances[order][by_distance]
    share = np.cumsum((weight[row] * certain)[by_distance])
    spread = np.maximum(share * (1.0 - share), 0.0)
    lost = np.clip(np.cumsum(doubt[by_distance]), 0.0, _MOST_LOST * spread)
    error = np.sqrt(np.divide(spread * lost, (spread - lost) * rows, out=np.zeros_like(spread), where=spread > lost))
    covered = np.clip(np.maximum.accumulate(share - error), 0.0, 1.0)
    covered[-1] = 1.0
    # Steps that add nothing are left out, and of very many all but some; what is left out counts as farther away.
    last = np.flatnonzero(np.append(True, np.diff(covered) > 0))
    if len(last) > _MOST_KEPT:
        last = last[np.flatnonzero(np.append(np.diff((covered[last] * _MOST_KEPT).astype(np.int64)) > 0, True))]
    return distances[last], covered[last]
