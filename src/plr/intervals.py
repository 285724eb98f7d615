"""Intervals around predictions, calibrated on candidate sets, and on checked rows where there are some.

Rows are predicted by models that know nothing of them. How far their true labels are from these predictions is how far
a new row's will be from its own; but which candidate is true is not known. Three estimates of the share of true labels
within given ends:

- *by likelihood*: each candidate counts by how probable it is to be the true one, under a density of residuals of any
  shape (`plr.residuals`). It varies little, and is off where residuals have another shape in some rows than in others.
- *by counting*: the candidates within the ends, less the false ones that belong there by their own density. Exactly one
  candidate a row is true, so this is right on average for any shape of residuals; but it varies much where there are
  many false labels.
- *by checked rows*: the share among rows whose truth is known, corrected by how the likelihood's shares of these rows
  differ from those of all rows (prediction-powered inference: Angelopoulos and others, 2023). It assumes nothing about
  false labels.

The first is corrected by the others as far as they differ by more than chance, and half a standard error of what not
knowing the labels adds is taken off.

Notes
-----
Out-of-fold predictions that a learner made on the way (`Fitted.out_of_fold`) are no good for intervals: a row's
candidates have had a say in which candidates of other rows are believed, the predictions lean towards them, and
intervals come out too narrow whatever the estimator (coverage of about 0.82 where 0.9 was asked for, 0.88 with the true
labels of the same rows). So calibration goes by the whole procedure without each fold. The committee does that within
its own fit (`Fitted.held_out`): what its members predict for the rows of a fold comes from draws, networks and trees
that know nothing of these rows' candidates, and with few rows from a start that does not either. The kernel of the
Gaussian process, the scale of labels, the columns that are left out and the shares of members come from all rows. With
a Gaussian process and trees alone, whose start also came from all rows, that had not shown: on the paper's seven data
sets (splits 80 and 81, at most 1,000 rows, 4 and 16 false labels, 56 cases), held-out predictions were 1.07 times as
far off as those of new rows, and the distance that holds 90 % of their true labels held 89.9 % of the new ones'. For
other learners everything is fitted again, the start
included; for a committee under another weighting, with the next lower effort.

`identify()` of training rows uses the learner's own predictions, and its choices are better for knowing the row's own
candidates; the noise is that of held-out predictions, where there are some. Below 50 rows probabilities would be
over-confident (0.75 where 0.70 are right, and a noise scale of half the error): there they go by held-out predictions,
which bring both to 0.70 and the noise scale to three quarters of the error; how often each candidate was drawn still
counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from sklearn.isotonic import isotonic_regression

from plr._fields import require
from plr._parameters import check_choice, check_number
from plr.candidates import CandidateSets
from plr.candidates.known import CheckedRows
from plr.contracts import Task
from plr.errors import DivergenceError, ParameterError
from plr.folds import Folds, features_of, row_weights
from plr.priors.learned import RowFeatures
from plr.residuals import ResidualDensity, fit_residuals
from plr.weighting.false_labels import FalseLabelDensity, GivenDensity
from plr.weighting.rule import row_sums
from plr.widths import RowWidths, fit_widths

__all__ = ["METHODS", "Calibration", "Coverage", "check_coverage", "learn_calibration"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

METHODS = ("adaptive", "constant", "guaranteed")
"""How intervals can be made."""

# Ends that are tried, at most; where labels are known, all residuals are.
_ENDS = 400
_MOST_ENDS = 10_000
# More rows than this are not needed to tell how wide intervals are.
_MOST_ROWS = 20_000
# Rows times intervals that are looked at at a time.
_BLOCK = 800_000
# Standard errors taken off the estimated coverage. Smoothing leans towards caution as well: with a whole one, intervals
# of 300 rows with 16 false labels cover 0.91 to 0.97 where 0.9 is asked for, 0.95 on average of nine laws of noise.
_CAUTION = 0.5
# Where estimates differ is looked at over these shares of true labels.
_LOOKED_AT = (0.6, 0.98)
# So many standard errors outside of what is possible refute the density of false labels.
_REFUTED = 5.0
# With fewer rows, the places where the density is highest are those where these rows happen to be.
_ENOUGH_FOR_SETS = 100
# With fewer checked rows, these alone do not say enough.
_FEWEST_CHECKED = 10
# How sure `guaranteed` is of its coverage, over the draw of checked rows.
_CONFIDENCE = 0.95
# However little candidate sets tell, this much of the information on known labels counts as lost, at most.
_MOST_LOST = 0.98
# What rounding may take from a sum of shares.
_ROUNDING = 1e-9
# Where the distribution of false labels is computed.
_PLACES = 2_000
_LEAST_VARIANCE = 1e-12
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Coverage:
    """Nested intervals, and which share of true labels each holds.

    Attributes
    ----------
    lower, upper : ndarray
        Ends relative to the prediction, farther and farther out.
    covered : ndarray of the same length
        The share of true labels within them; it does not decrease.
    """

    lower: Floats
    upper: Floats
    covered: Floats

    def __post_init__(self) -> None:
        require(len(self.lower) == len(self.upper) == len(self.covered) > 0, "ends and coverage differ in length")
        require(bool((self.lower <= self.upper).all()), "lower ends must not be above upper ones")

    def ends(self, share: float) -> tuple[float, float]:
        """Return the first ends that hold such a share."""
        place = min(int(np.searchsorted(self.covered, share - _ROUNDING)), len(self.covered) - 1)
        return float(self.lower[place]), float(self.upper[place])


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How far true labels are from predictions, as far as candidate sets and checked rows can tell.

    Attributes
    ----------
    adaptive : Coverage
        Ends in units of each row's width, learned by `widths`; they need not be equally far from the prediction.
    constant : Coverage
        Ends equally far from the prediction in all rows.
    farthest : Coverage
        Ends equally far from the prediction, and how often each row's farthest candidate is within them.
    tolerance : Coverage or None
        Ends in units of each row's width, and a share of true labels that they hold with 95 % confidence over the draw
        of checked rows; None without rows that were checked at random.
    sets : Coverage
        Steps of the density of residuals from the highest to the lowest, and which share of true labels is in these
        and all higher ones.
    density : ResidualDensity
        In units of each row's width.
    widths : RowWidths or None
        None where all rows are alike, or the learner gives rows a noise scale of their own.
    rows : float
        How many rows this was learned from; rows of unequal weight count as fewer.
    by_row : bool
        Whether the learner gives rows a noise scale of their own, in whose units all residuals then are.
    checked : float
        How many checked rows it was learned from; rows of unequal weight count as fewer.
    assumes : str
        What must hold for the coverage, beside that new rows are like those of training; empty where every row has one
        candidate.
    """

    adaptive: Coverage
    constant: Coverage
    farthest: Coverage
    tolerance: Coverage | None
    sets: Coverage
    density: ResidualDensity
    widths: RowWidths | None
    rows: float
    by_row: bool = False
    checked: float = 0.0
    assumes: str = ""

    def __repr__(self) -> str:
        checked = f" and {self.checked:.4g} checked rows" if self.checked else ""
        return f"Calibration(from {self.rows:.4g} rows{checked})"

    def row_widths(self, X: Any, prediction: Floats, relative: Floats | None = None) -> Floats:
        """Return each row's width relative to the typical one; ``relative`` is its noise scale by the learner."""
        if self.by_row and relative is not None:
            return relative
        return np.ones(len(prediction)) if self.widths is None else self.widths.predict(X, prediction)

    def intervals(
        self, prediction: Floats, coverage: float = 0.9, method: str = "adaptive", widths: Floats | None = None
    ) -> Floats:
        """Return lower and upper end around each prediction.

        Parameters
        ----------
        prediction : ndarray of shape (n,)
        coverage : float
        method : str
        widths : ndarray of shape (n,), optional
            Those of `row_widths`; without them rows are taken to be alike.
        """
        family, share = self._family(coverage, method)
        low, high = family.ends(share)
        unit = np.ones(len(prediction)) if widths is None or not self._by_width(family) else widths
        found = prediction[:, None] + unit[:, None] * [low, high]
        return (
            np.where(self._in_range(prediction)[:, None], self._clip(found), found)
            if family is self.adaptive
            else found
        )

    def label_sets(self, prediction: Floats, coverage: float = 0.9, widths: Floats | None = None) -> list[Floats]:
        """Return for each row the pieces, of shape (k, 2), that its label lies in."""
        share = self._share(check_coverage(coverage, "adaptive")[0])
        count = min(int(np.searchsorted(self.sets.covered, share - _ROUNDING)) + 1, len(self.sets.covered))
        order = np.argsort(self.sets.lower[:count])
        lower, upper = self.sets.lower[order], np.maximum.accumulate(self.sets.upper[order])
        gaps = np.flatnonzero(lower[1:] > upper[:-1])
        pieces = np.column_stack([lower[np.append(0, gaps + 1)], upper[np.append(gaps, count - 1)]])
        unit = np.ones(len(prediction)) if widths is None else widths
        found = []
        every = prediction[:, None, None] + unit[:, None, None] * pieces
        for piece, in_range in zip(every, self._in_range(prediction), strict=True):
            inside = self._clip(piece) if in_range else piece
            there = inside[:, 0] < inside[:, 1]
            found.append(inside[there] if there.any() else inside[:1])
        return found

    def ends(self, coverage: float = 0.9, method: str = "adaptive") -> tuple[float, float]:
        """Return the ends of an interval relative to the prediction, in units of the row's width where it has one.

        They are the first that hold the share ``coverage`` · (1 + 1 / rows) of the true labels, as in conformal
        prediction: the new row counts as one more that is farther than all.
        """
        family, share = self._family(coverage, method)
        return family.ends(share)

    def _family(self, coverage: float, method: str) -> tuple[Coverage, float]:
        """Return the intervals that a method stands for, and the share of true labels that they are to hold."""
        coverage, method = check_coverage(coverage, method)
        if method != "guaranteed":
            return getattr(self, method), self._share(coverage)
        if self.tolerance is not None and self.tolerance.covered[-1] >= coverage:
            return self.tolerance, coverage
        return self.farthest, self._share(coverage)

    def _in_range(self, prediction: Floats) -> NDArray[np.bool_]:
        """Return which rows have labels within the range of the candidates, where sets of several say what that is."""
        low, high = self.density.low, self.density.high
        return (prediction >= low) & (prediction <= high) & (low < high) & bool(self.assumes)

    def _clip(self, ends: Floats) -> Floats:
        return np.clip(ends, self.density.low, self.density.high)

    def _by_width(self, family: Coverage) -> bool:
        return self.by_row or family is self.adaptive or family is self.tolerance

    def _share(self, coverage: float) -> float:
        share = coverage * (1.0 + 1.0 / self.rows)
        if share > 1.0 + _ROUNDING:
            most = math.floor(1000 * self.rows / (self.rows + 1)) / 1000
            raise ParameterError(
                f"A coverage of {coverage:g} needs at least {math.ceil(coverage / (1.0 - coverage) - _ROUNDING)} "
                f"training rows to be calibrated on, and there are {self.rows:.4g}"
                f"{'' if self.rows.is_integer() else ', as rows of unequal weight count as fewer'}; ask for at most "
                f"{most:g}.",
                parameter="coverage",
                value=coverage,
            )
        return share


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
    *,
    features: RowFeatures | None = None,
    folds: Folds | None = None,
    known: CheckedRows | None = None,
    missing: float = 0.0,
) -> Calibration:
    """Learn how far true labels are from predictions of rows that the predicting models do not know.

    Parameters
    ----------
    prediction : ndarray of shape (n,)
    S : CandidateSets
        Of the same rows, with the priors that the user gave, or that were learned; checked rows have all of their
        candidates.
    task : Task
        Where the features, the density of false labels, the share of rows without their truth and the rows' weights
        come from.
    relative : ndarray of shape (n,), optional
        Each row's noise scale relative to the typical one, by the learner.
    probabilities : ndarray, one entry per candidate, optional
        How probable each candidate is to be the true one, where false candidates depend on the features, so that it
        does not go by its distance.
    features : RowFeatures, optional
        How features become numbers, where widths are to follow them.
    folds : list of (train, test)
        The folds that predictions were made by; without them all rows are as wide.
    known : CheckedRows, optional
        What is known of rows that somebody looked at.
    missing : float, default=0.0
        The share of rows whose truth is missing, by the noise model: with residuals of any shape, far ones and missing
        truths look the same.
    """
    bad = np.flatnonzero(~np.isfinite(prediction))
    if len(bad):
        raise DivergenceError(
            f"Without the fold of row {bad[0]}, the model predicts {prediction[bad[0]]} for it; there is no distance "
            f"to its candidates to calibrate intervals by. Look at the features of that row.",
            row=int(bad[0]),
            value=prediction[bad[0]],
        )
    used = _rows_used(task, known)
    problem = _Problem.of(prediction, S, task, used, relative, probabilities, known, missing)
    constant = density = problem.fit()
    widths, adaptive = None, problem
    if relative is None and probabilities is None:
        place = np.full(len(S), -1)
        place[used] = np.arange(len(used))
        parts = [tuple(place[rows[place[rows] >= 0]] for rows in pair) for pair in folds or ()]
        found = fit_widths(
            None if features is None else features_of(task.X, used),
            features,
            task.preprocess().target,
            problem.prediction,
            problem.settled,
            problem.weight,
            problem.log_q_settled,
            [(train, test) for train, test in parts if len(train) and len(test)],
            constant,
            problem.false,
            task.seed,
            missing,
            task.n_jobs,
        )
        if found is not None:
            widths, unit, density = found
            adaptive = replace(problem, unit=unit)
    even, hull, steps = _Hull.symmetric(problem), _Hull.of(density[0]), _Steps.of(density[0])
    alike, by_row = problem.shares(constant[0]), adaptive.shares(density[0])
    assumes, trusted = problem.check_assumptions(even, alike)
    worst = np.maximum.reduceat(
        np.where(problem.S.prior_or_uniform > 0.0, np.abs(problem.residual), 0.0), problem.S.offsets[:-1]
    )
    order = np.argsort(worst, kind="stable")
    farthest = np.cumsum(problem.weight[order])
    inner = hull.coverage(adaptive.covered(hull, by_row, trusted))
    return Calibration(
        adaptive=inner,
        constant=even.coverage(problem.covered(even, alike, trusted)),
        farthest=Coverage(-worst[order], worst[order], farthest / farthest[-1]),
        tolerance=adaptive.tolerance(),
        sets=steps.coverage(adaptive.covered(steps, by_row, trusted)) if problem.rows >= _ENOUGH_FOR_SETS else inner,
        density=density[0],
        widths=widths,
        rows=problem.rows,
        by_row=relative is not None,
        checked=problem.checked,
        assumes=assumes,
    )


def _rows_used(task: Task, known: CheckedRows | None) -> Integers:
    """Return the rows to learn from: all that count, or as many as it takes, at random, and all that were checked."""
    used = np.arange(len(task.S)) if task.sample_weight is None else np.flatnonzero(task.sample_weight)
    if len(used) <= _MOST_ROWS:
        return used
    chosen = np.random.default_rng(task.seed).permutation(used)[:_MOST_ROWS]
    return np.sort(chosen) if known is None else np.union1d(chosen, np.intersect1d(used, known.labelled.nonzero()))


@dataclass(frozen=True, eq=False)
class _Problem:
    """What is known of the rows to learn from.

    ``settled`` are the sets with the known labels of checked rows; ``unit`` is each row's width, ``probabilities`` what
    is believed where false candidates depend on the features, and ``label`` what is known of checked rows, which each
    stand for ``stands_for`` rows. ``false`` gives the share of false labels below some label.
    """

    prediction: Floats
    S: CandidateSets
    settled: CandidateSets
    weight: Floats
    log_q: Floats
    log_q_settled: Floats
    false: Callable[[Floats], Floats]
    law: str
    missing: float
    unit: Floats
    probabilities: Floats | None
    label: Floats
    stands_for: Floats
    at_random: bool

    @classmethod
    def of(
        cls,
        prediction: Floats,
        S: CandidateSets,
        task: Task,
        used: Integers,
        relative: Floats | None,
        probabilities: Floats | None,
        known: CheckedRows | None,
        missing: float,
    ) -> _Problem:
        weight = row_weights(task)[used]
        if probabilities is not None and len(used) < len(S):
            probabilities = CandidateSets._of_checked(probabilities, S.offsets)[used].values
        label, stands_for, at_random = np.full(len(used), np.nan), np.ones(len(used)), True
        settled = S
        if known is not None:
            settled = known.settle(S)
            label, stands_for = known.value[used], known.stands_for[used]
            chances = known.probability[known.labelled]
            at_random = bool(np.isnan(chances).all() or (chances == chances[:1]).all())
            if task.groups is not None:
                # Rows of one group are alike, and say less than as many others.
                checked = task.groups[known.labelled]
                at_random = at_random and len(np.unique(checked)) == len(checked)
        if len(used) < len(S):
            prediction, S, settled = prediction[used], S[used], settled[used]
        law = task.false_labels or FalseLabelDensity(float(S.values.min()), float(S.values.max()))
        uniform = type(law) is FalseLabelDensity
        words = "the given density" if isinstance(law, GivenDensity) else "the density estimated from the candidates"
        return cls(
            prediction,
            S,
            settled,
            weight / weight.sum(),
            law.log(S.values),
            law.log(settled.values),
            _distribution(law),
            "are spread evenly over the range of the candidates" if uniform else f"follow {words}",
            missing,
            np.ones(len(S)) if relative is None else relative[used],
            probabilities,
            label,
            stands_for,
            at_random,
        )

    @property
    def residual(self) -> Floats:
        """How far candidates are from predictions, in units of each row's width."""
        return (self.S.values - self.prediction[self.S.row_index]) / self.unit[self.S.row_index]

    @property
    def rows(self) -> float:
        """How many rows there are; rows of unequal weight count as fewer."""
        return 1.0 / float(self.weight @ self.weight)

    @property
    def checked(self) -> float:
        """The same of checked rows."""
        counts = np.where(np.isnan(self.label), 0.0, self.weight * self.stands_for)
        return float(counts.sum()) ** 2 / float(counts @ counts) if counts.any() else 0.0

    def fit(self) -> tuple[ResidualDensity, Floats]:
        """Estimate the density of residuals."""
        return fit_residuals(
            self.prediction,
            self.settled,
            self.weight,
            self.log_q_settled,
            self.unit,
            probabilities=self.probabilities,
            missing=self.missing,
        )

    def shares(self, density: ResidualDensity) -> Floats:
        """Return how probable each candidate is to be the true one, checked rows as if they were not."""
        if self.probabilities is not None:
            return self.probabilities
        return density.probabilities(self.prediction, self.S, self.log_q, self.unit)

    def check_assumptions(self, family: _Family, shares: Floats) -> tuple[str, bool]:
        """Return what the coverage rests on, and whether false labels can be counted by their density."""
        checked = self.checked >= _FEWEST_CHECKED
        by_checked = "checked rows are a random sample, or were chosen with the probabilities given"
        if self.S.values.size == len(self.S):
            return "", True
        if self.probabilities is not None:
            if checked:
                return by_checked, False
            return (
                "the truth is as probable as its prior says, or as what was learned, whichever makes intervals wider: "
                "false candidates depend on the features, and without checked rows nothing better is known",
                False,
            )
        found = _Shares.of(self, family, shares)
        error = _REFUTED * found.error_of_counting + 1e-3
        if ((found.counted > 1.0 + error) | (found.counted < -error)).any():
            if checked:
                return by_checked, False
            return (
                f"the truth is as probable as its prior says, or as what was learned, whichever makes intervals wider: "
                f"false labels do not {'lie evenly' if self.law.startswith('are') else self.law} around predictions, "
                f"and without checked rows nothing better is known",
                False,
            )
        by_law = f"false labels {self.law}, whatever the features and the truth"
        return (f"{by_checked}; as far as these do not tell, {by_law}" if checked else by_law), True

    def covered(self, family: _Family, shares: Floats, trusted: bool) -> Floats:
        """Return the share of true labels that each of some nested intervals holds, estimated with caution."""
        found = _Shares.of(self, family, shares)
        share, error = found.by_likelihood, found.error_of_likelihood
        if trusted:
            weight = _weight(found.correction, found.error_of_correction, share)
            share = share + weight * found.correction
            error = np.hypot((1.0 - weight) * error, weight * found.error_of_correction)
        else:
            share = np.minimum(share, _Shares.of(self, family, self.S.prior_or_uniform).by_likelihood)
        if self.checked >= _FEWEST_CHECKED:
            other, other_error = found.by_checked(self, family)
            weight = _weight(other - share, other_error, share) if trusted else 1.0
            share = share + weight * (other - share)
            error = np.hypot((1.0 - weight) * error, weight * other_error)
        # In order: the first ends that seem to hold enough would otherwise be those that do so by chance.
        share = isotonic_regression(share, y_min=0.0, y_max=1.0)
        share = np.clip(np.maximum.accumulate(share - _CAUTION * error), 0.0, 1.0)
        share[-1] = 1.0
        return share

    def tolerance(self) -> Coverage | None:
        """Return a share of true labels that each interval holds with confidence, by rows checked at random."""
        rows = np.flatnonzero(~np.isnan(self.label))
        if len(rows) == 0 or not self.at_random:
            return None
        far = np.abs(self.label[rows] - self.prediction[rows]) / self.unit[rows]
        order = np.argsort(far, kind="stable")
        within = np.cumsum(self.weight[rows][order])
        within *= self.checked / within[-1]
        return Coverage(-far[order], far[order], betaincinv(within, self.checked - within + 1.0, 1.0 - _CONFIDENCE))


@dataclass(frozen=True)
class _Shares:
    """Estimates of the share of true labels within each of some nested intervals, and their standard errors."""

    by_likelihood: Floats
    error_of_likelihood: Floats
    counted: Floats
    error_of_counting: Floats
    correction: Floats
    error_of_correction: Floats
    of_checked: Floats

    @classmethod
    def of(cls, problem: _Problem, family: _Family, shares: Floats) -> _Shares:
        """Estimate by the probabilities of candidates, and by counting."""
        S, weight = problem.S, problem.weight
        place, present = family.place(problem.residual), row_sums(shares, S)
        there = float(weight @ present)
        checked = ~np.isnan(problem.label)
        sums, of_checked = np.zeros((6, family.count)), []
        block = max(1, _BLOCK // family.count)
        for first in range(0, len(S), block):
            rows = slice(first, min(first + block, len(S)))
            part = slice(S.offsets[rows.start], S.offsets[rows.stop])
            shape = rows.stop - first, family.count + 1
            cell = (S.row_index[part] - first) * shape[1] + place[part]
            within = [
                np.cumsum(np.bincount(cell, each, shape[0] * shape[1]).reshape(shape), axis=1)[:, :-1]
                for each in (shares[part], None)
            ]
            likely, counted = within[0], within[1].astype(np.float64)
            false = family.measure(problem.prediction[rows], problem.unit[rows], problem.false)
            counted -= (S.sizes[rows] - present[rows])[:, None] * false
            differ = counted - likely
            for total, each in zip(sums, (likely, likely**2, counted, counted**2, differ, differ**2), strict=True):
                total += np.asarray(weight[rows] @ each, dtype=np.float64)
            of_checked.append((likely / np.maximum(present[rows], _TINY)[:, None])[checked[rows]])

        def error(mean: Floats, square: Floats) -> Floats:
            return np.sqrt(np.maximum(square - mean**2, 0.0) / problem.rows) / there

        # Were the labels known, the variance would be share · (1 - share) / rows; not knowing them takes away the part
        # of this information that probabilities leave open.
        share = sums[0] / there
        full = np.maximum(share * (1.0 - share), 0.0)
        known = np.divide(sums[1] / there - share**2, full, out=np.ones_like(full), where=full > _LEAST_VARIANCE)
        lost = np.clip(1.0 - known, 0.0, _MOST_LOST)
        return cls(
            share,
            np.sqrt(full * lost / (1.0 - lost) / problem.rows),
            sums[2] / there,
            error(sums[2], sums[3]),
            sums[4] / there,
            error(sums[4], sums[5]),
            np.concatenate(of_checked),
        )

    def by_checked(self, problem: _Problem, family: _Family) -> tuple[Floats, Floats]:
        """Return the shares among checked rows, corrected by how these differ from all, and their standard errors.

        The correction counts as far as the probabilities of candidates agree with what was found.
        """
        rows = np.flatnonzero(~np.isnan(problem.label))
        place = family.place((problem.label[rows] - problem.prediction[rows]) / problem.unit[rows])
        held = (place[:, None] <= np.arange(family.count)).astype(np.float64)
        weight = problem.weight[rows] * problem.stands_for[rows]
        weight = weight / weight.sum()
        share, likely = weight @ held, weight @ self.of_checked
        apart, other = held - share, self.of_checked - likely
        square, both = weight @ other**2, weight @ (apart * other)
        slope = np.clip(np.divide(both, square, out=np.zeros_like(both), where=square > _LEAST_VARIANCE), 0.0, 1.0)
        slope *= problem.rows / (problem.rows + problem.checked)
        found = share - slope * (likely - self.by_likelihood)
        left = weight**2 @ (apart - slope * other) ** 2
        return found, np.sqrt(left + slope**2 * square / problem.rows)


def _weight(difference: Floats, error: Floats, share: Floats) -> float:
    """Return how much of a difference is more than chance, over the ends that matter."""
    looked_at = (share > _LOOKED_AT[0]) & (share < _LOOKED_AT[1])
    if not looked_at.any():
        return 0.0
    size = float(np.mean(difference[looked_at] ** 2))
    return max(0.0, 1.0 - float(np.mean(error[looked_at] ** 2)) / size) if size > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class _Hull:
    """Intervals: from the places where the density of residuals is highest to where it is lowest."""

    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, density: ResidualDensity) -> _Hull:
        """Return intervals that all hold the prediction."""
        edges, heights = _fine(density)
        if np.array_equal(density.shares, density.shares[::-1]):
            return cls(-edges[edges > 0], edges[edges > 0])
        # Falling from its highest place on both sides: humps far out, which few rows make, would make intervals that
        # grow by much at once.
        wide, top = np.diff(edges), int(np.argmax(heights))
        heights = np.concatenate(
            [
                isotonic_regression(heights[:top], sample_weight=wide[:top]) if top else heights[:0],
                isotonic_regression(heights[top:], sample_weight=wide[top:], increasing=False),
            ]
        )
        order = np.lexsort((np.abs(np.arange(len(heights)) - top), -heights))
        lower = np.minimum.accumulate(np.minimum(edges[:-1][order], 0.0))
        upper = np.maximum.accumulate(np.maximum(edges[1:][order], 0.0))
        grows = np.append(np.diff(upper - lower) > 0, True)
        return cls(lower[grows], upper[grows])

    @classmethod
    def symmetric(cls, problem: _Problem) -> _Hull:
        """Return intervals that reach equally far to both sides."""
        S = problem.settled
        far = np.abs((S.values - problem.prediction[S.row_index]) / problem.unit[S.row_index])
        places = np.unique(far)
        if len(far) > len(S) or len(places) > _MOST_ENDS:
            nearest = np.minimum.reduceat(far, S.offsets[:-1])
            levels = np.linspace(0.0, 1.0, _ENDS // 2)
            places = np.unique(np.concatenate([np.quantile(nearest, levels), np.quantile(far, levels)]))
        return cls(-places, places)

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return len(self.lower)

    def place(self, residual: Floats) -> Integers:
        """Return the first interval that each residual is in; the number of intervals where it is in none."""
        return np.maximum(np.searchsorted(self.upper, residual), np.searchsorted(-self.lower, -residual))

    def measure(self, prediction: Floats, unit: Floats, false: Callable[[Floats], Floats]) -> Floats:
        """Return the share of false labels in each interval."""
        below, until = (false(prediction[:, None] + unit[:, None] * ends) for ends in (self.lower, self.upper))
        return until - below

    def coverage(self, covered: Floats) -> Coverage:
        """Return the intervals with their shares."""
        return Coverage(self.lower, self.upper, covered)


@dataclass(frozen=True, eq=False)
class _Steps:
    """Steps of the density of residuals, from the highest on; they need not touch each other."""

    edges: Floats
    order: Integers

    @classmethod
    def of(cls, density: ResidualDensity) -> _Steps:
        """Return the steps in order."""
        edges, heights = _fine(density)
        return cls(edges, np.argsort(-heights, kind="stable"))

    @property
    def count(self) -> int:
        """How many steps there are."""
        return len(self.order)

    def place(self, residual: Floats) -> Integers:
        """Return the place of each residual's step."""
        places = np.append(np.argsort(self.order), self.count)
        step = np.searchsorted(self.edges, residual, side="right") - 1
        return places[np.where((step < 0) | (step >= self.count), self.count, step)]

    def measure(self, prediction: Floats, unit: Floats, false: Callable[[Floats], Floats]) -> Floats:
        """Return the share of false labels in each step and all higher ones."""
        until = false(prediction[:, None] + unit[:, None] * self.edges)
        return np.cumsum(np.diff(until, axis=1)[:, self.order], axis=1)

    def coverage(self, covered: Floats) -> Coverage:
        """Return the steps with their shares."""
        return Coverage(self.edges[:-1][self.order], self.edges[1:][self.order], covered)


_Family = _Hull | _Steps
"""Nested sets of labels around a prediction, numbered from the smallest on."""


def _fine(density: ResidualDensity) -> tuple[Floats, Floats]:
    """Return narrower steps, which follow straight lines between the middles of the density's own."""
    count = max(1, _ENDS // len(density.heights))
    parts = np.arange(count) / count
    edges = np.append((density.edges[:-1, None] + np.diff(density.edges)[:, None] * parts).ravel(), density.edges[-1])
    middles = (density.edges[1:] + density.edges[:-1]) / 2
    return edges, np.interp((edges[1:] + edges[:-1]) / 2, middles, density.heights)


def _distribution(law: FalseLabelDensity) -> Callable[[Floats], Floats]:
    """Return the function that gives the share of false labels below some labels."""
    low, high = law.low, law.high
    if not high > low:
        return lambda labels: (labels >= low).astype(np.float64)
    if type(law) is FalseLabelDensity:
        return lambda labels: np.clip((labels - low) / (high - low), 0.0, 1.0)
    places = np.linspace(low, high, _PLACES)
    height = np.exp(law.log(places))
    until = np.concatenate([[0.0], np.cumsum((height[1:] + height[:-1]) / 2)])
    return lambda labels: np.interp(labels, places, until / until[-1])
