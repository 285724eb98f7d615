"""Several estimates of the density of labels, mixed by how likely they make held-out candidate sets.

Each kind of estimate turns rows and candidate sets into something that gives a density over label bins for new rows,
and gives one for each training row that was made without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr.candidates import CandidateSets
from plr.contracts import Task
from plr.densities.bins import Bins
from plr.errors import ConvergenceWarning
from plr.folds import Folds, make_folds
from plr.preprocessing.features import Encoding
from plr.preprocessing.scaling import Affine
from plr.progress import timed
from plr.threads import one_blas_thread
from plr.weighting.rule import row_sums, thread_count

__all__ = ["Background", "DensityModel", "DensityTask", "Estimate", "FittedModel", "Mixture", "estimate"]

Floats = NDArray[np.float64]

# Expectation-maximisation of the shares: rounds at most, and the change that counts as none.
_ROUNDS, _SETTLED = 300, 1e-5
# After the last round the shares are near enough if no row could be likelier by more than this share.
_NEAR = 0.01
# Encoded features reach this far in no training data; new rows beyond count as being there.
_FARTHEST = 1e4
# A candidate is at least this likely a false label, relative to the likeliest: ratios stay within what squares hold.
_LEAST_LOG_Q, _MOST_LOG_Q = -100.0, 600.0
# Rows that weigh less than this share of the heaviest count as rows without weight: in sums they have no digits left.
_NO_WEIGHT = 1e-9
_KNOTS = 200
_TINY = 1e-300


@dataclass(frozen=True)
class Background:
    """The density of false labels, which also stands for knowing nothing: straight between labels where it is known.

    Outside, where no candidate has been seen, it goes on as it ends.
    """

    labels: Floats
    log_density: Floats

    def __post_init__(self) -> None:
        require(len(self.labels) == len(self.log_density) > 0, "labels and densities differ in number")

    def log(self, labels: Floats) -> Floats:
        """Return the log density at any label."""
        return np.interp(labels, self.labels, self.log_density)


@dataclass(frozen=True)
class DensityTask:
    """What densities are learned from: encoded features, scaled candidate sets, and what goes with each row.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    S : CandidateSets of n rows
    weight : ndarray of shape (n,)
        With mean 1 over the rows that count.
    folds : list of (train, test)
    units : ndarray of shape (n,) or None
        What is left out as a whole where rows are left out at random: numbers of rows, or of groups of rows. None where
        only the folds may be left out.
    ratio : ndarray, one entry per candidate
        One over the density of false labels at each candidate, up to a common factor; all 1 where it is uniform.
    background : Background
        The density of false labels at any label.
    seed, threads : int
    """

    X: Floats
    S: CandidateSets
    weight: Floats
    folds: Folds
    units: NDArray[np.int64] | None
    ratio: Floats
    background: Background
    seed: int
    threads: int

    def excess(self, bins: Bins) -> tuple[Floats, Floats]:
        """Return each row's histogram of candidates less what false ones add to it, and how much to trust the row.

        A row's candidates, counted by their priors, are to a share of Σ prior² draws from the density of true labels
        given its features, and otherwise from that of false ones. Less these, and divided by the share, what is left
        is on average over rows that are alike the density of true labels. The noise of a row grows with one over the
        share.
        """
        prior = self.S.prior_or_uniform
        share = row_sums(prior**2, self.S)[:, None]
        histogram = bins.spread(self.S, prior) / bins.areas
        false = np.exp(self.background.log(bins.centres))
        return (histogram - (1.0 - share) * false) / share, self.weight * share[:, 0]


class FittedModel(Protocol):
    """Densities for new rows."""

    @property
    def bins(self) -> Bins:
        """Where the heights stand."""

    def heights(self, X: Floats) -> Floats:
        """Return each row's density at the bin centres."""


class DensityModel(Protocol):
    """One way to estimate densities."""

    def fit(self, problem: DensityTask) -> tuple[FittedModel, Floats]:
        """Fit; also return each training row's density, at the bin centres, by what was fitted without the row."""


@dataclass(frozen=True)
class Mixture:
    """Densities of labels given features. Labels are scaled here, features are as they were given.

    Attributes
    ----------
    models : tuple of FittedModel
    shares : ndarray
        Of the models, and last of the background.
    background : Background
    low, high : float
        The range of the candidates.
    outside : float
        How probable a label out of this range is: among n + 1 labels the last is the outermost with probability
        2 / (n + 1), and half of that is taken. There the density falls with the third power of the distance.
    encoding : Encoding
    target : Affine
    """

    models: tuple[FittedModel, ...]
    shares: Floats
    background: Background
    low: float
    high: float
    outside: float
    encoding: Encoding
    target: Affine

    def __post_init__(self) -> None:
        require(len(self.shares) == len(self.models) + 1, "shares and models differ in number")
        require(self.low <= self.high, "the range of the labels is empty")

    @property
    def knots(self) -> Floats:
        """The labels between which every density is straight."""
        found = [np.clip(model.bins.centres, self.low, self.high) for model in self.models]
        if len(self.background.labels) > 2:
            found.append(np.linspace(self.low, self.high, _KNOTS))
        every = np.unique(np.concatenate([[self.low, self.high], *found]))
        # Two that differ by rounding are one.
        return every[np.concatenate([[True], np.diff(every) > 1e-9 * (self.high - self.low)])]

    @one_blas_thread()
    def heights(self, X: Floats) -> Floats:
        """Return each row's density at the knots, of area one between them."""
        rows = np.clip(self.encoding.apply(X), -_FARTHEST, _FARTHEST)
        return self.mix([model.heights(rows) for model in self.models], len(rows))

    def mix(self, heights: Sequence[Floats], rows: int) -> Floats:
        """Return densities at the knots from those of the models at their bin centres."""
        knots = self.knots
        false = np.exp(self.background.log(knots))
        total = np.tile(self.shares[-1] * false / max(float(np.trapezoid(false, knots)), _TINY), (rows, 1))
        for model, share, height in zip(self.models, self.shares, heights, strict=False):
            total += share * model.bins.at(height, slice(None), knots)
        return total

    def at(self, heights: Floats, rows: NDArray[np.int64], labels: Floats) -> Floats:
        """Return the density of row ``rows[j]`` at ``labels[j]``, given the heights at the knots."""
        knots = self.knots
        span = self.high - self.low
        if span <= 0:
            return np.exp(self.background.log(labels))
        place = np.clip(np.searchsorted(knots, labels, side="right") - 1, 0, len(knots) - 2)
        fraction = np.clip((labels - knots[place]) / (knots[place + 1] - knots[place]), 0.0, 1.0)
        inside = (1 - fraction) * heights[rows, place] + fraction * heights[rows, place + 1]
        beyond = np.maximum(self.low - labels, labels - self.high) / span
        with np.errstate(over="ignore"):
            tail = self.outside / span / (1 + np.maximum(beyond, 0.0)) ** 3
        density = np.where(beyond > 0, tail, (1 - self.outside) * inside)
        return np.maximum(density, _TINY)


@dataclass(frozen=True)
class Estimate:
    """A mixture, and what it says of the training rows by models that have not seen them.

    Attributes
    ----------
    mixture : Mixture
    weights : ndarray, one entry per candidate
        Each candidate's share; those of a row sum to one.
    log_likelihood : float
        Mean of log Σ prior · p / q over the training rows; 0 where nothing could be held out.
    out_of_fold : tuple of ndarray, or None
        Each model's densities of the training rows at its bin centres; None where nothing could be held out.
    models : tuple of DensityModel
        What was fitted.
    """

    mixture: Mixture
    weights: Floats
    log_likelihood: float
    out_of_fold: tuple[Floats, ...] | None
    models: tuple[DensityModel, ...] = ()


@one_blas_thread()
def estimate(task: Task, cv: object, models: Sequence[DensityModel]) -> Estimate:
    """Fit several estimates of the density, and weigh them by how likely they make held-out candidate sets."""
    weight = np.ones(len(task.S)) if task.sample_weight is None else task.sample_weight
    weight = np.where(weight > _NO_WEIGHT * weight.max(), weight, 0.0)
    heavy = np.flatnonzero(weight)
    weight = weight / weight[heavy].mean()
    prepared = task.preprocess()
    task = replace(task, sample_weight=None if task.sample_weight is None else weight)
    S, target = prepared.sets, prepared.target
    low, high = float(S.values.min()), float(S.values.max())
    log_q, background = _false_labels(task, S, target, high - low)
    folds = make_folds(task, cv)
    units = None
    if folds and isinstance(cv, Integral):
        # Rows or groups may be left out at random, unless the user says which folds are to be left out.
        units = np.arange(len(S)) if task.groups is None else np.unique(task.groups, return_inverse=True)[1]
    problem = DensityTask(
        X=np.clip(prepared.features, -_FARTHEST, _FARTHEST),
        S=S,
        weight=weight,
        folds=folds or [(heavy, np.arange(len(S)))],
        units=units,
        ratio=np.ones(S.values.size) if log_q is None else np.exp(log_q.max() - log_q),
        background=background,
        seed=task.seed,
        threads=thread_count(task.n_jobs),
    )
    # Relative to false labels, a density says how a candidate compares with them.
    prior, false = S.prior_or_uniform, np.exp(background.log(S.values) if log_q is None else log_q)
    fitted, held_out, ratios, likelihoods, losses, seconds = [], [], [], [], [], []
    # Where all candidates are equal there is no density to speak of.
    for number, model in enumerate(models if high > low else ()):
        taken, (fit, heights) = timed(model.fit)(problem)
        seconds.append(taken)
        fitted.append(fit)
        held_out.append(heights)
        ratios.append(fit.bins.at(heights, S.row_index, S.values) / false)
        likelihoods.append(row_sums(prior * ratios[-1], S))
        losses.append(-float(np.average(np.log(np.maximum(likelihoods[-1], _TINY)), weights=weight)))
        task.tell(number + 1, len(models), losses[-1])
    outside = 1.0 / (len(heavy) + 1)
    weights, score = np.array(prior), 0.0
    if folds and fitted:
        shares = _shares(np.array(likelihoods), weight)
        mixed = prior * sum((share * ratio for share, ratio in zip(shares, ratios, strict=False)), shares[-1])
        total = row_sums(mixed, S)
        weights = mixed / total[S.row_index]
        score = float(np.average(np.log(total), weights=weight) + np.log1p(-outside))
    else:
        # One row, or one group: no model may weigh its candidates.
        trust = (1.0 - outside) / len(fitted) if fitted else 0.0
        shares = np.array([*[trust] * len(fitted), 1.0 - trust * len(fitted)])
    for model, share, loss, taken in zip(models, shares, losses, seconds, strict=False):
        task.progress.record(str(model), -loss if folds else None, float(share), taken)
    mixture = Mixture(tuple(fitted), shares, background, low, high, outside, prepared.encoding, target)
    return Estimate(mixture, weights, score, tuple(held_out) if folds and fitted else None, tuple(models))


def _false_labels(task: Task, S: CandidateSets, target: Affine, span: float) -> tuple[Floats | None, Background]:
    """Return the log density of false labels at each candidate, and at any label; both for scaled labels."""
    if task.log_q is None or span <= 0:
        level = -np.log(span) if span > 0 else 0.0
        ends = np.array([S.values.min(), S.values.max() if span > 0 else S.values.min() + 1.0])
        return None, Background(ends, np.full(2, level))
    log_q = task.log_q + np.log(float(target.scale))
    top = float(np.clip(log_q.max(), -_MOST_LOG_Q, _MOST_LOG_Q))
    log_q = np.clip(log_q, top + _LEAST_LOG_Q, top)
    labels, places = np.unique(S.values, return_index=True)
    if len(labels) > 10 * _KNOTS:
        places = places[np.linspace(0, len(labels) - 1, 10 * _KNOTS).astype(np.int64)]
    return log_q, Background(S.values[places], log_q[places])


def _shares(likelihoods: Floats, weight: Floats) -> Floats:
    """Return the shares under which the mixture makes the rows likeliest, the background's last.

    Likelihoods are relative to the background's. It counts for one row more than speaks for it, so that it never goes
    out: with few rows the others cannot be trusted, and no candidate is ever impossible.
    """
    rows = np.concatenate([likelihoods, np.ones((1, likelihoods.shape[1]))])
    shares = np.full(len(rows), 1.0 / len(rows))
    one_more = np.zeros(len(rows))
    one_more[-1] = 1.0
    for _ in range(_ROUNDS):
        parts = shares[:, None] * rows
        updated: Floats = (parts / parts.sum(axis=0)) @ weight + one_more
        updated /= updated.sum()
        if np.abs(updated - shares).max() < _SETTLED:
            return updated
        # The slope of the log likelihood per row towards each estimate; it is concave, so no more than that is left.
        left = float(np.max(np.divide(updated, shares, out=np.zeros_like(shares), where=shares > 0))) - 1.0
        shares = updated
    if left > _NEAR:
        warnings.warn(
            f"The shares of the estimates that a start mixes had not settled after {_ROUNDS} rounds: rows could be "
            f"likelier by {left:.1%}. Its weights are usable, but give more rows, or another start, if results vary.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return shares
