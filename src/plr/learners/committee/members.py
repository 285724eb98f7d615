"""Members of a committee: what each predicts, and what held-out rows say of them.

A member is judged by predictions of rows that neither it nor anything before it has seen: the start, the kernel, the
weights that it began with. Such rows can tell members apart, and even functions that fit by chance from the true one,
which the rows that members have adapted to cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from plr._codes import MISSING
from plr._fields import require
from plr.candidates import CandidateSets
from plr.contracts import Task
from plr.learners.density import FittedDensity
from plr.learners.gaussian_process import Functions, without_rows
from plr.preprocessing import Preprocessing
from plr.preprocessing.label_scale import LabelScale, Power
from plr.weighting.rule import Rule, row_sums

__all__ = ["Candidate", "Member", "View", "choose_shares", "judge", "make_view", "mix_probabilities", "stack"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Rounds of learning the noise around held-out predictions, and the change that counts as none.
_ROUNDS, _SETTLED = 200, 1e-5
# A share of rows whose truth may be out of reach of the noise: one row must not decide.
_OUT_OF_REACH = 0.01
_LEAST_VARIANCE = 1e-12
# Farther away, no candidate is nearer than another, and squares would overflow.
_FARTHEST = 1e100
# Rounds of learning the shares of a mixture, and how many rows the even shares of the best of each kind count as.
_STACKING, _ROWS_OF_EVEN = 300, 10.0
# A member whose rows are less likely by this, as they are where its error is twice as large, has failed.
_FAR_BEHIND = 0.35
# How many rows the shares by likelihood count as, where shares are learned from expected labels.
_ROWS_OF_PRIOR = 5.0
# A smaller share is not worth the time that a member takes to predict.
_LEAST_SHARE = 0.03
# How many rows the agreement of a Gaussian process's functions with held-out predictions counts as.
_ROWS_OF_AGREEMENT = 30.0
_TINY = 1e-300


@dataclass(frozen=True)
class Member:
    """A model of a committee.

    Attributes
    ----------
    name : str
    models : tuple of Fitted
        Their mean predicts, from encoded columns and in scaled labels.
    columns : ndarray or None
        The encoded columns that they take; None where they take all.
    scale : LabelScale
    noise : float
        The standard deviation of scaled labels around held-out predictions.
    """

    name: str
    models: tuple[Any, ...]
    columns: Rows | None
    scale: LabelScale
    noise: float

    def __post_init__(self) -> None:
        require(len(self.models) > 0 and self.noise >= 0, "a member needs models and a noise")

    @property
    def kind(self) -> str:
        """What kind of model it is, by the name of the class."""
        return type(self.models[0]).__name__

    def predict(self, rows: Floats) -> Floats:
        """Return one label per row of encoded features."""
        return self.scale.mean(self.predict_scaled(rows), self.noise)

    def predict_scaled(self, rows: Floats) -> Floats:
        """Return the same as scaled labels."""
        return self.predict_part(rows if self.columns is None else np.ascontiguousarray(rows[:, self.columns]))

    def predict_part(self, rows: Floats) -> Floats:
        """Return the same for rows of the member's own columns."""
        return np.asarray(np.mean([model.predict(rows) for model in self.models], axis=0))


@dataclass(frozen=True)
class View:
    """A task as some members see it: some of the encoded columns, and labels on one scale.

    Attributes
    ----------
    task : Task
        With encoded features and scaled labels.
    scale : LabelScale
    columns : ndarray or None
        None where it has all columns.
    log_q : ndarray, one entry per candidate
        Log density of false labels, per unit of scaled labels.
    ranks : bool
        Whether columns are also seen by their ranks, by members that can.
    """

    task: Task
    scale: LabelScale
    columns: Rows | None
    log_q: Floats
    ranks: bool = True

    def with_columns(self, columns: Rows) -> View:
        """Return the view of some of the columns, which are numbered as in the view of all."""
        if self.columns is not None:
            raise ValueError("columns are chosen from the view of all")
        X = np.ascontiguousarray(self.task.X[:, columns])
        prepared = Preprocessing(X, self.task.S, (), self.task.sample_weight, scale_features=False)
        return replace(self, task=replace(self.task, X=X, density=None, preprocessing=prepared), columns=columns)

    def weigh(self, prediction: Floats, noise: float) -> Floats:
        """Return how probable each candidate is around scaled predictions."""
        S = self.task.S
        distance = np.clip((S.values - prediction[S.row_index]) / noise, -_FARTHEST, _FARTHEST)
        logs = np.log(np.maximum(S.prior_or_uniform, _TINY)) - self.log_q - 0.5 * distance * distance
        logs -= np.maximum.reduceat(logs, S.offsets[:-1])[S.row_index]
        odds: Floats = np.where(S.prior_or_uniform > 0, np.exp(logs), 0.0)
        return odds / row_sums(odds, S)[S.row_index]


def make_view(task: Task, power: Power | None, rule: Rule) -> View:
    """Return the view of all columns, encoded, with labels transformed and scaled."""
    prepared, S = task.preprocess(), task.S
    scale = LabelScale.of(power, S, task.sample_weight, prepared.robust[0] if power is None else None)
    sets = CandidateSets._of_checked(scale.apply(S.values), S.offsets, S.prior)
    log_q = task.log_q
    counted = S.values if task.sample_weight is None else S.values[task.sample_weight[S.row_index] > 0]
    span = float(counted.max() - counted.min())
    level = -np.log(span) if span > 0 else 0.0
    slope: Any = np.log(float(scale.target.scale))
    if power is not None:
        slope = slope - power.log_slope(S.values)
    scaled_log_q: Floats = np.broadcast_to((level if log_q is None else log_q) + slope, S.values.size)
    X = prepared.features
    told = replace(
        task,
        X=X,
        S=sets,
        rule=rule,
        # Uniform over the range of labels is not uniform over that of their powers.
        log_q=None if power is None and log_q is None else scaled_log_q,
        false_labels=None,
        categorical=(),
        names=(),
        preprocessing=Preprocessing(X, sets, (), task.sample_weight, scale_features=False),
    )
    return View(told, scale, None, scaled_log_q)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A member, and how it does on rows that it has not seen.

    Attributes
    ----------
    member : Member
    view : View
    held_out : ndarray of shape (n,)
        Labels predicted for each row by what was fitted without it.
    ratios : ndarray, one entry per candidate
        Prior times density around that, over the density of false labels.
    missing : float
        The share of rows whose truth is taken to be missing, or out of reach of the noise.
    weights : tuple of ndarray
        What it makes of the candidates: without each fold, and in the end with all rows.
    seconds : float
    functions : Functions or None
        Those that a Gaussian process is the mean of.
    """

    member: Member
    view: View
    held_out: Floats
    ratios: Floats
    missing: float
    weights: tuple[Floats, ...]
    seconds: float
    functions: Functions | None = None

    @cached_property
    def likelihoods(self) -> Floats:
        """Each row's log likelihood."""
        return log_likelihood(self.ratios, self.view.task.S, self.missing)

    def evidence(self, weight: Floats) -> float:
        """Return the mean log likelihood of rows."""
        return float(np.average(self.likelihoods, weights=weight))

    def agreeing(self, probability: Floats, weight: Floats) -> Candidate:
        """Return the candidate, its functions weighed by how well they agree with what held-out predictions say.

        A chain that sees all rows may settle on a function that is wrong for some of them, and what it makes of these
        rows does not show it. ``probability`` is how probable each candidate is by predictions that have not seen its
        row: where these are sure, a wrong function is far off; where they are not, all count nearly the same.
        """
        functions, S = self.functions, self.view.task.S
        if functions is None or len(functions.coefficients) == 1:
            return self
        if len(functions.rows) < len(S):
            probability = probability[np.isin(S.row_index, functions.rows)]
            S, weight = S[functions.rows], weight[functions.rows]
        noise = max(self.member.noise, _LEAST_VARIANCE)
        agreement = np.empty(len(functions.coefficients))
        for number, prediction in enumerate(functions.predictions):
            distance = np.clip((S.values - prediction[S.row_index]) / noise, -_FARTHEST, _FARTHEST)
            met = row_sums(probability * np.exp(-0.5 * distance * distance), S)
            agreement[number] = np.average(np.log(met + _OUT_OF_REACH), weights=weight)
        shares = functions.even_shares * np.exp(_ROWS_OF_AGREEMENT * (agreement - agreement.max()))
        (process,) = self.member.models
        chains = tuple(map(without_rows, functions.mixed(shares / shares.sum())))
        return replace(self, member=replace(self.member, models=(replace(process, chains=chains),)))


def judge(
    name: str,
    models: Sequence[Any],
    view: View,
    prediction: Floats,
    weights: Sequence[Floats] | None,
    seconds: float,
    of_folds: Sequence[Floats] = (),
) -> Candidate:
    """Return a candidate from scaled predictions of rows by what was fitted without them.

    What it makes of candidates are its ``weights``, or how probable they are around predictions ``of_folds`` of all
    rows, each without a fold and the last with all.
    """
    ratios, noise, missing = learn_noise(prediction, view.task, view.log_q)
    if weights is None:
        weights = [view.weigh(found, max(noise, _LEAST_VARIANCE)) for found in of_folds]
    member = Member(name, tuple(models), view.columns, view.scale, noise)
    held_out = view.scale.mean(prediction, noise)
    return Candidate(member, view, held_out, ratios, missing, tuple(weights), seconds)


def log_likelihood(ratios: Floats, S: CandidateSets, missing: float) -> Floats:
    """Return each row's log likelihood."""
    return np.log((1.0 - missing) * row_sums(ratios, S) + missing)


def learn_noise(prediction: Floats, task: Task, log_q: Floats) -> tuple[Floats, float, float]:
    """Return prior · p / q of each candidate around predictions, with the normal noise that makes rows likeliest.

    And the share of rows whose truth is missing, where that is to be learned.
    """
    S, weight, rule = task.S, task.sample_weight, task.rule
    missing = max(float(rule.initial_state()[MISSING]), _OUT_OF_REACH)
    squares = np.clip(S.values - prediction[S.row_index], -_FARTHEST, _FARTHEST) ** 2
    with np.errstate(divide="ignore"):
        base = np.log(S.prior_or_uniform) - log_q
    by_row = np.full(len(S), 1.0 / len(S)) if weight is None else weight / weight.sum()
    variance = 1.0
    for _ in range(_ROUNDS):
        odds = (1.0 - missing) * np.exp(base - squares / (2.0 * variance)) / np.sqrt(2.0 * np.pi * variance)
        total = row_sums(odds, S)
        odds *= (by_row / (total + missing))[S.row_index]
        met = float(odds.sum())
        updated = max(float(odds @ squares) / max(met, _TINY), _LEAST_VARIANCE)
        settled = abs(updated - variance) <= _SETTLED * variance
        variance = updated
        if rule.learns_missing:
            missing = min(max(1.0 - met, _OUT_OF_REACH), 0.9)
        if settled:
            break
    ratios: Floats = np.exp(base - squares / (2.0 * variance)) / np.sqrt(2.0 * np.pi * variance)
    return ratios, float(np.sqrt(variance)), missing


def choose_shares(candidates: Sequence[Candidate], weight: Floats) -> Floats:
    """Return the members' shares in the prediction; those that would have little to say have none.

    First those of the mixture of all that makes the rows likeliest (`stack`). Labels are then expected by this mixture,
    and the shares that come nearest to these, in squares, are kept near the first. A density that has failed has none:
    its wide tails make rows likelier whose truth is out of reach of the others, and its mean is far from all labels.
    """
    evidence = np.array([found.evidence(weight) for found in candidates])
    failed = evidence < evidence.max() - _FAR_BEHIND
    failed &= np.array([found.member.kind == FittedDensity.__name__ for found in candidates])
    if failed.any():
        shares = np.zeros(len(candidates))
        shares[~failed] = choose_shares(
            [found for found, out in zip(candidates, failed, strict=True) if not out], weight
        )
        return shares
    by_likelihood = stack(candidates, weight)
    if len(candidates) == 1:
        return by_likelihood
    S = candidates[0].view.task.S
    scale = candidates[0].view.scale
    labels = row_sums(mix_probabilities(candidates, by_likelihood) * scale.undo(S.values), S)
    # In a unit in which labels can be squared.
    unit = float(scale.target.scale)
    centre = float(np.average(labels, weights=weight))
    spread = unit * float(np.sqrt(np.average(((labels - centre) / unit) ** 2, weights=weight)))
    if not spread > 0:
        return by_likelihood
    away = np.column_stack([(found.held_out - labels) / spread for found in candidates])
    near, sums = np.sqrt(_ROWS_OF_PRIOR), 1e3 * np.sqrt(len(S))
    count = len(candidates)
    # With shares that sum to one, the error of the mixture is the mixture of errors.
    matrix = np.vstack([away * np.sqrt(weight / weight.mean())[:, None], near * np.eye(count), np.full(count, sums)])
    shares, _ = nnls(matrix, np.concatenate([np.zeros(len(S)), near * by_likelihood, [sums]]))
    shares = shares / shares.sum()
    shares = np.where(shares < _LEAST_SHARE, 0.0, shares)
    return np.asarray(shares / shares.sum())


def stack(candidates: Sequence[Candidate], weight: Floats) -> Floats:
    """Return the shares of the mixture that makes rows likeliest.

    Stacking of predictive distributions (Yao and others, 2018), by expectation-maximisation. A few rows more are
    counted for the best of each kind that is no further behind than chance may have it: models of different kinds err
    differently, and where candidates tell little, their mean is better than a choice between them.
    """
    rows = np.column_stack([found.likelihoods for found in candidates])
    by_row = weight / weight.sum()
    evidence = by_row @ rows
    behind = rows[:, [int(evidence.argmax())]] - rows
    by_chance = np.sqrt(by_row @ (behind - by_row @ behind) ** 2 / np.count_nonzero(weight))
    best: dict[str, int] = {}
    for number in np.argsort(evidence):
        if by_row @ behind[:, number] <= min(by_chance[number], _FAR_BEHIND):
            best[candidates[number].member.kind] = int(number)
    best.pop(FittedDensity.__name__, None)
    prior = np.zeros(len(candidates))
    prior[list(best.values())] = _ROWS_OF_EVEN / np.count_nonzero(weight) / max(len(best), 1)
    odds = np.exp(rows - rows.max(axis=1, keepdims=True))
    shares = np.full(len(candidates), 1.0 / len(candidates)) + prior
    for _ in range(_STACKING):
        shares /= shares.sum()
        shares = shares * (odds.T @ (by_row / (odds @ shares))) + prior
    return np.asarray(shares / shares.sum())


def mix_probabilities(candidates: Sequence[Candidate], shares: Floats) -> Floats:
    """Return how probable each candidate is by the mixture of what members say of rows that they have not seen."""
    S = candidates[0].view.task.S
    odds = np.asarray(sum(share * found.ratios for share, found in zip(shares, candidates, strict=True)))
    total = row_sums(odds, S)[S.row_index]
    return np.where(total > 0, odds / np.maximum(total, _TINY), S.prior_or_uniform)
