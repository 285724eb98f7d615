"""What makes a candidate believable, learned from checked rows and, where possible, from the others.

The probability that candidate j of a row is the true one is taken to be proportional to

    exp(coefficients · features of the candidate) · (p(j) / q(j)) ** exponent

with p the density of the truth around what the other rows predict, and q that of false candidates. Coefficients and
exponent are learned from the checked rows, shrunk towards what is known without any: the given prior with coefficient
1, a match score with 2 per standard deviation within rows, everything else with 0.

Where false candidates have nothing to do with the features, the coefficients make the prior that learners go by, and p
and q are theirs. Where they depend on the features, a candidate near the prediction may well be a false one; q then is
the density of a row's candidates as its features predict them, and learners are fitted to these probabilities as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import t

from plr._fields import require
from plr.candidates import CandidateSets
from plr.candidates.features import check_records
from plr.candidates.known import CheckedRows
from plr.errors import CandidateError, ParameterError
from plr.preprocessing.features import Columns, Encoding
from plr.preprocessing.scaling import Affine, rescaled
from plr.priors.columns import CandidateColumns, log_prior
from plr.priors.dependence import FREEDOM, Dependence, student_scale
from plr.priors.logit import Alternatives, fit_logit
from plr.priors.one_to_one import one_to_one_shares
from plr.priors.smoothing import KernelSmoother, SmoothFunction
from plr.priors.utilities import FittedUtility, Refinement, table_names, tabulate
from plr.threads import one_blas_thread

__all__ = [
    "Agreement",
    "Belief",
    "LearnedPrior",
    "MissingTruth",
    "RowFeatures",
    "check_match_score",
    "check_one_to_one",
    "given_prior",
    "learn_belief",
    "learn_coefficients",
    "log_shares",
    "one_to_one",
    "share_training_records",
    "teaching_rows",
    "unlearned_prior",
]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

# Penalties that are chosen from by evidence, for coefficients of columns that are scaled within rows.
_PENALTIES = {
    "own": (0.1, 0.3, 1.0),
    "score": (1.0, 4.0),
    "order": (1.0, 3.0, 10.0, 100.0),
    "built_in": (3.0, 10.0, 30.0, 100.0),
    "prior": (0.1, 1.0, 10.0),
    "exponent": (4.0, 16.0),
}
# What the exponent is shrunk towards, and what it is without checked rows where there is a prior or a match score.
_EXPONENT = 0.5
# How much a match score counts before rows are checked, per standard deviation within rows: where false candidates
# depend on the features; and where they do not, so that learners find the truth by its value.
_SCORE, _SCORE_BESIDE_VALUE = 2.0, 0.5
_ROUNDS = 3
# The variance of true labels that the doubt about a label is compared with, in squares of the scale of their Student's
# t: twice that distribution's variance, so that rows in doubt still count.
_NOISE_VARIANCE = 4.0
# Log ratios below this are not described.
_WORTH_SAYING = 0.2
# Without checked rows, the exponent of a given prior: where to begin, the largest, and how it is shrunk towards 1.
_FIRST_POWER, _LARGEST_POWER, _POWER_PENALTY = 4.0, 20.0, 5.0
# Before rows are checked: the share of rows whose truth is missing, and how sure that is, on the scale of log odds.
_MISSING, _MISSING_PRECISION = 0.03, 0.5
_SLOPE_PRECISION = 4.0
# Rows whose sums differ by no more than rounding are equally strong.
_SAME_TOTAL = 1e-9
# A probability that a truth is missing is kept this far from 0 and 1, so that checked rows can correct it.
_LEAST_MISSING = 1e-9
# Added to a log: what a prior of 0 rules out, and twice that, what is known to be false.
_RULED_OUT = -1e3
# The largest coefficient that a model file may have, of a column that is scaled within rows.
_LARGEST_COEFFICIENT = 1e6
# Encoded features are cut off here, in standard deviations.
_FARTHEST = 100.0
# Distances from predictions are cut off here, in units of the noise.
_FARTHEST_LABEL = 1e100
# Of the probabilities that records are shared by: what a model rules out, another row's claim to a record can undo.
_LEAST_PROBABILITY = 1e-6
# However sure it is that a row of training has a record, a new row may have it with this probability.
_LEAST_FREE = 1e-9


@dataclass(frozen=True)
class RowFeatures:
    """How the features of a row become numbers.

    Attributes
    ----------
    columns : Columns or None
        How columns that are not numbers become codes; None where that was done before.
    encoding : Encoding
    """

    columns: Columns | None
    encoding: Encoding

    def __post_init__(self) -> None:
        right = self.columns is None or len(self.columns.names) == self.encoding.columns
        require(right, "columns and encoding differ in number")

    def encode(self, X: Any) -> Floats:
        """Return the encoded rows; entries far out are cut off, so that squares of distances are numbers."""
        if self.columns is not None:
            X = self.columns.encode(X)
        elif hasattr(X, "toarray"):
            X = X.toarray()
        with np.errstate(over="ignore"):
            return np.clip(self.encoding.apply(np.asarray(X, dtype=float)), -_FARTHEST, _FARTHEST)


@dataclass(frozen=True)
class Agreement:
    """How agreement with predictions counts, where false candidates depend on the features.

    Attributes
    ----------
    exponent : float
        The power of p / q; 1 would be full trust in the model, 0 none.
    noise : float
        Scale of true labels around predictions, a Student's t.
    features : RowFeatures
    centre : SmoothFunction
        Where the candidates of a row lie, by its features.
    spread : float
        Their scale around it.
    """

    exponent: float
    noise: float
    features: RowFeatures
    centre: SmoothFunction
    spread: float

    def __post_init__(self) -> None:
        require(self.exponent >= 0.0 and self.noise > 0.0 and self.spread > 0.0, "exponent or scales out of range")
        right = self.centre.landmarks.shape[1] == self.features.encoding.width
        require(right, "landmarks and encoded features differ in columns")

    def log_ratio(self, S: CandidateSets, prediction: Floats, X: Any) -> Floats:
        """Return log p / q of each candidate of new rows."""
        rows, middle = S.row_index, self.centre.predict(self.features.encode(X))
        near = _log_density(S.values, prediction[rows], self.noise)
        return near - _log_density(S.values, middle[rows], self.spread)


@dataclass(frozen=True)
class MissingTruth:
    """How probable it is that none of a row's candidates is true, by how believable they are together.

    Attributes
    ----------
    constant, slope : float
        The log odds are ``constant - slope * strength``.
    middle, spread : float
        How the log of the sum of a row's believabilities becomes its ``strength``.
    with_given : bool
        Whether the log odds that the candidate sets say (`CandidateSets.missing`) are added to that.
    """

    constant: float
    slope: float
    middle: float
    spread: float
    with_given: bool = False

    def __post_init__(self) -> None:
        require(self.slope >= 0.0 and self.spread > 0.0, "slope or spread out of range")

    def probability(self, S: CandidateSets, total: Floats) -> Floats:
        """Return it for rows of which the log of the sum is known."""
        odds = self.constant - self.slope * (total - self.middle) / self.spread
        if not self.with_given:
            return np.asarray(expit(odds))
        if S.missing is None:
            raise CandidateError(
                "The model was fitted with probabilities of matches, so these candidates need them too: give prior and "
                "prior_is.",
                parameter="prior_is",
            )
        return np.asarray(expit(odds + _log_odds(S.missing)))


def _log_odds(missing: Floats) -> Floats:
    return np.asarray(logit(np.clip(missing, _LEAST_MISSING, 1.0 - _LEAST_MISSING)))


@dataclass(frozen=True)
class LearnedPrior:
    """What makes a candidate believable.

    Attributes
    ----------
    columns : CandidateColumns
        Which features of candidates count.
    coefficients : ndarray
        How much each counts.
    checked : int
        How many checked rows this was learned from.
    dependence : Dependence
        Whether false candidates depend on the features.
    agreement : Agreement or None
        How agreement with predictions counts; None where false candidates do not depend on the features, and it counts
        as the weighting says.
    missing : MissingTruth or None
        How probable it is that a row's truth is missing; None where nothing says that it may be.
    held : dict of str to float
        Where no two rows have the same record as their truth: how probable it is that each record is that of a row of
        training.
    model : FittedUtility or None
        What turns features of candidates into utilities in place of the coefficients, where a model does.
    model_sees_agreement : bool
        Whether agreement with predictions is one of these features.
    """

    columns: CandidateColumns
    coefficients: Floats
    checked: int
    dependence: Dependence
    agreement: Agreement | None = None
    missing: MissingTruth | None = None
    held: dict[str, float] = field(default_factory=dict)
    model: FittedUtility | None = None
    model_sees_agreement: bool = False

    def __post_init__(self) -> None:
        require(self.coefficients.shape == self.columns.scales.shape, "columns and coefficients differ in number")
        require(bool((np.abs(self.coefficients) <= _LARGEST_COEFFICIENT).all()), "coefficients out of range")
        require(self.checked >= 0, "number of checked rows out of range")
        require(all(0.0 <= share <= 1.0 for share in self.held.values()), "probabilities of records out of range")
        require(self.agreement is not None or not self.model_sees_agreement, "there is no agreement to be seen")
        if self.model is not None:
            self.model.check_names(table_names(self.columns, self.model_sees_agreement))

    @one_blas_thread()
    def weigh(self, S: CandidateSets) -> CandidateSets:
        """Return the sets with the prior that the features of their candidates give."""
        return S.with_prior(Alternatives(S.offsets).softmax(self._utility(S)))

    def _utility(self, S: CandidateSets, ratio: Floats | None = None) -> Floats:
        matrix = self.columns.matrix(S)
        with np.errstate(over="ignore", invalid="ignore"):
            # Features far beyond those of training.
            utility = np.nan_to_num(matrix @ self.coefficients, nan=0.0, posinf=-_RULED_OUT, neginf=_RULED_OUT)
        if ratio is not None and self.agreement is not None:
            utility = utility + self.agreement.exponent * ratio
        sees = self.model_sees_agreement
        # A model that goes by agreement with predictions has nothing to say where there are none.
        if self.model is not None and not (sees and ratio is None):
            utility = self.model.utility(tabulate(self.columns, S, matrix, utility, ratio if sees else None))
        utility = utility + _impossible(S)
        # How much a prior counts is not known where training rows had none; it then counts as it is.
        return utility if self.columns.with_prior or S.prior is None else utility + log_prior(S)

    @one_blas_thread()
    def probabilities(self, S: CandidateSets, prediction: Floats, X: Any) -> tuple[Floats, Floats]:
        """Return the probability of each candidate of new rows, and that none of a row's is true."""
        assert self.agreement is not None
        sets, utility = Alternatives(S.offsets), self._utility(S, self.agreement.log_ratio(S, prediction, X))
        shares = self.share_records(S, utility) if self.held else sets.softmax(utility)
        missing = np.zeros(len(S)) if self.missing is None else self.missing.probability(S, sets.log_sum_exp(utility))
        return shares * (1.0 - missing)[sets.rows], missing

    def share_records(self, S: CandidateSets, utility: Floats) -> Floats:
        """Return the probability of each candidate of new rows, where no two rows have the same record."""
        if S.record is None:
            raise CandidateError(
                "The model was fitted with one_to_one=True, so these candidates need records too: give record."
            )
        taken = np.array([self.held.get(name, 0.0) for name in S.record.tolist()])
        return one_to_one(S, utility + np.log(np.maximum(1.0 - taken, _LEAST_FREE)))

    def design(self, S: CandidateSets, prediction: Floats, X: Any) -> tuple[Floats, Floats, Floats]:
        """Return what coefficients and exponent multiply, both, and how sure they are without checked rows.

        The first has a line for each candidate. The last is the middle of the penalties that are chosen from.
        """
        matrix, groups, coefficients = self.columns.matrix(S), self.columns.groups, self.coefficients
        if self.agreement is not None:
            ratio = self.agreement.log_ratio(S, prediction, X)
            matrix, groups = np.column_stack([matrix, ratio]), (*groups, "exponent")
            coefficients = np.append(coefficients, self.agreement.exponent)
        return matrix, coefficients, np.array([np.exp(np.mean(np.log(_PENALTIES[group]))) for group in groups])

    def holding(self, S: CandidateSets, probabilities: Floats) -> LearnedPrior:
        """Return the same prior that remembers which records the candidates of training rows are."""
        assert S.record is not None
        names, codes = np.unique(S.record, return_inverse=True)
        held = np.minimum(np.bincount(codes, probabilities), 1.0)
        return replace(self, held={str(name): float(share) for name, share in zip(names, held, strict=True) if name})

    def without_agreement(self, features: RowFeatures, labels: Affine, noise: float) -> LearnedPrior:
        """Return the same prior, for sets whose false candidates depend on the features: agreement does not count.

        Parameters
        ----------
        features : RowFeatures
        labels : Affine
            The middle and the spread of the labels.
        noise : float
            Scale of true labels around predictions.
        """
        everywhere = SmoothFunction(np.empty((0, features.encoding.width)), 1.0, np.empty(0), float(labels.centre))
        return replace(self, agreement=Agreement(0.0, noise, features, everywhere, float(labels.scale)))

    def describe(self) -> list[str]:
        """Return what was learned, in words."""
        columns, found = self.columns, []
        weight = dict(zip(columns.names, self.coefficients / columns.scales, strict=True))
        for name, (low, high) in columns.numbers.items():
            times = weight[name] * (high - low)
            if abs(times) > _WORTH_SAYING:
                found.append(f"a candidate with {name} {high:.3g} is {_times(times)} one with {low:.3g}")
            if abs(weight[f"{name}: highest of the row"]) > _WORTH_SAYING:
                found.append(
                    f"the candidate with the highest {name} of its row is, beside that, "
                    f"{_times(weight[f'{name}: highest of the row'])} others"
                )
        for name, levels in columns.levels.items():
            named = [(f"{name} {level}" if level else f"no {name}", weight[f"{name} = {level}"]) for level in levels]
            named.sort(key=lambda level: -level[1])
            compared = [(level, times, "others") for level, times in named]
            if len(named) == 2:
                (first, more), (second, less) = named
                compared = [(first, more - less, f"one with {second}")]
            found += [
                f"a candidate with {level} is {_times(times)} {than}"
                for level, times, than in compared
                if abs(times) > _WORTH_SAYING
            ]
        if columns.with_prior:
            found.append(f"the given prior counts with the power {weight['log prior']:.2g}")
        if columns.with_values:
            # High and low are one and a half standard deviations of the row's values from their mean.
            above = weight["rank of the value"] + 3.0 * weight["distance from the middle"]
            outside = 1.5 * weight["absolute distance from the middle"]
            if abs(above) > _WORTH_SAYING:
                found.append(f"a high value of a row is {_times(above)} a low one")
            if abs(outside) > _WORTH_SAYING:
                found.append(f"a value far from the middle of its row is {_times(outside)} one in the middle")
        if self.agreement is not None:
            found.append(
                f"agreement with the model's prediction counts with the power {self.agreement.exponent:.2g} (1 would "
                f"be full trust in it)"
            )
        if self.model is not None:
            found += self.model.describe()
        rows = "row" if self.checked == 1 else "rows"
        source = f"learned from {self.checked:,} checked {rows}" if self.checked else "without checked rows"
        return [f"{source}:", *found] if found else [f"{source}: every candidate is as believable as another"]

    def __str__(self) -> str:
        return "\n  ".join(self.describe())


def _log_density(values: Floats, centre: Floats, scale: float) -> Floats:
    """Return the log density of a Student's t, also where predictions are far beyond all labels."""
    with np.errstate(over="ignore"):
        away = np.clip((values - centre) / scale, -_FARTHEST_LABEL, _FARTHEST_LABEL)
    return np.asarray(t.logpdf(away, FREEDOM) - np.log(scale))


def _times(log_ratio: float) -> str:
    ratio = float(np.exp(np.clip(log_ratio, -20.0, 20.0)))
    return f"{ratio:.2g} times as believable as" if ratio < 10 else f"{ratio:,.0f} times as believable as"


@dataclass(frozen=True)
class Belief:
    """What is believed about the candidates of training rows, where false ones depend on the features.

    Attributes
    ----------
    prior : LearnedPrior
        For other rows.
    probabilities : ndarray, one entry per candidate
    missing : ndarray of shape (n,)
        How probable it is that a row's truth is not among its candidates.
    labels : ndarray of shape (n,)
        The expected label of each row: the known one, or the mean of the candidates by their probabilities.
    certainty : ndarray of shape (n,)
        How much each label says: the variance of true labels around predictions, as a share of that of this label.
    """

    prior: LearnedPrior
    probabilities: Floats
    missing: Floats
    labels: Floats
    certainty: Floats


def one_to_one(S: CandidateSets, utility: Floats, counted: Booleans | None = None) -> Floats:
    """Return probabilities by utilities, where no two rows have the same record as their truth.

    Rows that are not ``counted`` take no record from others.
    """
    assert S.record is not None
    records = check_records(S.record, S.offsets)
    if counted is not None:
        records[~counted[S.row_index]] = -1
    return one_to_one_shares(Alternatives(S.offsets), utility, records)


def log_shares(probabilities: Floats) -> Floats:
    """Return the logs of probabilities, as utilities that records are shared by."""
    return np.log(np.maximum(probabilities, _LEAST_PROBABILITY))


def share_training_records(
    S: CandidateSets, probabilities: Floats, checked: CheckedRows | None, sample_weight: Floats | None
) -> tuple[Floats, Booleans]:
    """Return probabilities of training rows where no two have the same record as their truth, and which can have one.

    Those can that count, and whose truth is not known to be missing.
    """
    counted = np.ones(len(S), dtype=bool) if sample_weight is None else sample_weight > 0
    if checked is not None:
        counted &= ~checked.missing
    utility = log_shares(probabilities) + _known_false(S, checked)
    return one_to_one(S, utility, counted), counted


@one_blas_thread()
def learn_coefficients(
    S: CandidateSets,
    checked: CheckedRows | None,
    weights: Floats,
    dependence: Dependence,
    match_score: str | None = None,
    refinement: Refinement | None = None,
    with_values: bool = False,
) -> LearnedPrior | None:
    """Learn a prior from the users' own columns and checked rows alone; None where there is nothing to learn.

    The place of a value in its set does not count here, unless with ``with_values``: how likely a value is, is what
    the learner finds out. Without checked rows, the match score and the given prior count as they are shrunk towards.

    Parameters
    ----------
    S : CandidateSets
    checked : CheckedRows or None
    weights : ndarray of shape (n,)
        How much each row counts, 1 on average.
    dependence : Dependence
    match_score : str, optional
        The feature that is a score.
    refinement : Refinement, optional
        A model of utilities in place of the coefficients.
    with_values : bool, default=False
        Whether the place of a value in its set counts.
    """
    found = teaching_rows(S, checked, weights)
    if not found.any() and match_score is None:
        return None
    columns = CandidateColumns.learn(S, weights, with_values)
    if not len(columns.scales):
        return None
    centre = _centre(columns, match_score, _SCORE_BESIDE_VALUE)
    if checked is None or not found.any():
        return LearnedPrior(columns, centre, 0, dependence)
    part, chosen = Alternatives(S.offsets).take(found)
    matrix = columns.matrix(S)
    coefficients = fit_logit(
        part,
        matrix[chosen],
        checked.true[chosen],
        _groups(columns, match_score),
        centre,
        _PENALTIES,
        weights[found],
    )
    model = None
    if refinement is not None:
        table = tabulate(columns, S, matrix, matrix @ coefficients, None)
        model = refinement.fit(table, checked.true, found, weights)
    return LearnedPrior(columns, coefficients, int(found.sum()), dependence, model=model)


def _centre(columns: CandidateColumns, match_score: str | None, score: float) -> Floats:
    """Return what coefficients are shrunk towards."""
    by_group = {"prior": 1.0, "score": score}
    return np.array([by_group.get(group, 0.0) for group in _groups(columns, match_score)])


def _groups(columns: CandidateColumns, match_score: str | None) -> tuple[str, ...]:
    """Return the group of each column: of a match score it is known roughly how much it counts."""
    if match_score is None:
        return columns.groups
    place = columns.names.index(match_score)
    return (*columns.groups[:place], "score", *columns.groups[place + 1 :])


def teaching_rows(S: CandidateSets, checked: CheckedRows | None, weights: Floats | None = None) -> Booleans:
    """Return the rows that say which of several candidates is true: these teach what makes one believable."""
    if checked is None:
        return np.zeros(len(S), dtype=bool)
    found = checked.found(S) & (S.sizes > 1)
    return found if weights is None else found & (weights > 0)


@one_blas_thread()
def learn_belief(
    S: CandidateSets,
    target: Affine,
    features: RowFeatures,
    smoother: KernelSmoother,
    dependence: Dependence,
    weights: Floats,
    checked: CheckedRows | None = None,
    match_score: str | None = None,
    unique_records: bool = False,
    refinement: Refinement | None = None,
) -> Belief:
    """Learn what to believe about candidates whose false ones depend on the features.

    Parameters
    ----------
    S : CandidateSets
    target : Affine
        How labels are scaled.
    features : RowFeatures
    smoother : KernelSmoother
        Of the encoded rows.
    dependence : Dependence
    weights : ndarray of shape (n,)
        How much each row counts, 1 on average.
    checked : CheckedRows, optional
    match_score : str, optional
        The feature that is a score.
    unique_records : bool
        Whether no two rows have the same record as their truth.
    refinement : Refinement, optional
        A model of utilities in place of the coefficients.
    """
    sets, values = Alternatives(S.offsets), rescaled(S, target).values
    rows, counted = sets.rows, (weights > 0) if checked is None else (weights > 0) & ~checked.missing
    columns = CandidateColumns.learn(S, weights, with_values=True)
    matrix, is_prior = columns.matrix(S), np.array([group == "prior" for group in columns.groups])
    possible, known = _impossible(S), _known_false(S, checked)
    given = _Labels(sets, values, checked, target)
    middle = sets.sum(values) / sets.sizes
    around = values - smoother.out_of_fold(middle)[rows]
    spread = student_scale(around, weights[rows] / sets.sizes[rows])
    log_q = t.logpdf(around, FREEDOM, scale=spread)
    found = teaching_rows(S, checked, weights)
    part, chosen = sets.take(found)

    def weigh(utility: Floats) -> Floats:
        total = utility + possible + known
        return one_to_one(S, total, counted) if unique_records else sets.softmax(total)

    def learn(matrix: Floats, groups: Sequence[str], centre: Floats) -> Floats:
        assert checked is not None
        return fit_logit(part, matrix[chosen], checked.true[chosen], groups, centre, _PENALTIES, weights[found])

    ratio, noise, exponent = np.zeros(len(values)), spread, 0.0
    centre, groups = _centre(columns, match_score, _SCORE), _groups(columns, match_score)
    coefficients = np.where(is_prior, _FIRST_POWER, centre)
    if found.any():
        coefficients = learn(matrix, groups, centre)
    for number in range(_ROUNDS):
        shares = weigh(matrix @ coefficients + exponent * ratio)
        # Trees are slower, and the first labels far from the last.
        predict = smoother.out_of_fold_with_trees if number else smoother.out_of_fold
        away = values - predict(given.expected(shares))[rows]
        noise = student_scale(away, shares * weights[rows])
        ratio = t.logpdf(away, FREEDOM, scale=noise) - log_q
        if found.any():
            learned = learn(np.column_stack([matrix, ratio]), (*groups, "exponent"), np.append(centre, _EXPONENT))
            coefficients, exponent = learned[:-1], max(float(learned[-1]), 0.0)
        elif columns.with_prior or match_score is not None:
            exponent = _EXPONENT
            if columns.with_prior:
                power = _likeliest_power(sets, matrix[:, is_prior][:, 0], ratio, weights)
                coefficients = np.where(is_prior, power, centre)
    utility, model = matrix @ coefficients + exponent * ratio, None
    if refinement is not None and checked is not None and found.any():
        table = tabulate(columns, S, matrix, utility, ratio)
        model = refinement.fit(table, checked.true, found, weights)
        utility = utility if model is None else model.utility(table)
    total, shares = sets.log_sum_exp(utility + possible), weigh(utility)
    unit = float(target.scale)
    prior = LearnedPrior(
        columns,
        coefficients,
        int(found.sum()),
        dependence,
        Agreement(exponent, noise * unit, features, smoother.fit(middle).rescaled(target), spread * unit),
        _learn_missing(S, total, checked, weights),
        model=model,
        model_sees_agreement=model is not None,
    )
    if unique_records:
        prior = prior.holding(S, shares * counted[rows])
    missing = np.zeros(len(S)) if prior.missing is None else prior.missing.probability(S, total)
    probabilities = shares * (1.0 - missing)[rows]
    if checked is not None:
        probabilities, missing = checked.settle_probabilities(S, probabilities, missing)
    expected = given.expected(shares)
    labels, doubt = target.undo(expected), sets.sum(shares * (values - expected[rows]) ** 2)
    if checked is not None:
        labels, doubt = np.where(checked.labelled, checked.value, labels), np.where(checked.labelled, 0.0, doubt)
    return Belief(prior, probabilities, missing, labels, certainty=1.0 / (1.0 + doubt / (_NOISE_VARIANCE * noise**2)))


@dataclass(frozen=True)
class _Labels:
    """Scaled labels of training rows: the known ones, and elsewhere the mean of the candidates by their shares."""

    sets: Alternatives
    values: Floats
    checked: CheckedRows | None
    target: Affine

    def expected(self, shares: Floats) -> Floats:
        """Return one label per row."""
        mean = self.sets.sum(shares * self.values)
        if self.checked is None:
            return mean
        return np.where(self.checked.labelled, self.target.apply(self.checked.value), mean)


def _impossible(S: CandidateSets) -> Floats:
    """Return what rules out candidates whose prior is 0."""
    return np.zeros(len(S.values)) if S.prior is None else np.where(S.prior == 0.0, _RULED_OUT, 0.0)


def _known_false(S: CandidateSets, checked: CheckedRows | None) -> Floats:
    """Return what rules out the candidates of checked rows that are not the true one."""
    if checked is None:
        return np.zeros(len(S.values))
    return np.where(checked.found(S)[S.row_index] & ~checked.true, 2.0 * _RULED_OUT, 0.0)


def _likeliest_power(sets: Alternatives, log_prior: Floats, ratio: Floats, weights: Floats) -> float:
    """Return the power of a given prior under which the candidates are likeliest."""
    powers = np.linspace(0.5, _LARGEST_POWER, 40)
    gains = [
        float(weights @ (sets.log_sum_exp(power * log_prior + ratio) - sets.log_sum_exp(power * log_prior)))
        - _POWER_PENALTY * np.log(power) ** 2
        for power in powers
    ]
    return float(powers[int(np.argmax(gains))])


def _learn_missing(
    S: CandidateSets, total: Floats, checked: CheckedRows | None, weights: Floats
) -> MissingTruth | None:
    """Learn from the checked rows how probable it is that a row's truth is missing.

    Where none was checked it is what the candidate sets say of it, and None where they say nothing.
    """
    given = S.missing is not None
    nothing = MissingTruth(0.0, 0.0, 0.0, 1.0, with_given=True) if given else None
    if checked is None:
        return nothing
    looked_at = (checked.missing | checked.labelled) & (weights > 0)
    if not looked_at.any():
        return nothing
    middle = float(np.average(total, weights=weights))
    spread = float(np.sqrt(np.average((total - middle) ** 2, weights=weights)))
    spread = spread if spread > _SAME_TOTAL else 1.0
    strength, missing = (total[looked_at] - middle) / spread, checked.missing[looked_at]
    # How often truths are missing is to hold for all rows, however these were chosen.
    counts, stands_for = weights[looked_at], checked.stands_for[looked_at]
    counts, centre = counts * stands_for / stands_for.mean(), 0.0 if given else float(logit(_MISSING))
    offset = np.zeros(len(counts)) if S.missing is None else _log_odds(S.missing[looked_at])

    def loss(parameters: Floats) -> float:
        constant, slope = parameters
        odds = offset + constant - slope * strength
        likelihood = counts @ np.logaddexp(0.0, np.where(missing, -odds, odds))
        return float(
            likelihood + 0.5 * _MISSING_PRECISION * (constant - centre) ** 2 + 0.5 * _SLOPE_PRECISION * slope**2
        )

    constant, slope = minimize(loss, [centre, 0.5], bounds=[(-10.0, 10.0), (0.0, 10.0)]).x.tolist()
    return MissingTruth(constant, slope, middle, spread, given)


def given_prior(S: CandidateSets) -> LearnedPrior:
    """Return the prior that the sets have, as it is."""
    with_prior = S.prior is not None
    columns = CandidateColumns({}, (), {}, False, with_prior, np.ones(int(with_prior)))
    return LearnedPrior(columns, np.ones(int(with_prior)), 0, Dependence(0.0))


def unlearned_prior(S: CandidateSets) -> LearnedPrior:
    """Return a prior for the features that candidates have, of which nothing has been learned yet."""
    columns = CandidateColumns.learn(S, np.ones(len(S)), with_values=False)
    return LearnedPrior(columns, np.zeros(len(columns.scales)), 0, Dependence(0.0))


def check_match_score(S: CandidateSets, name: str) -> None:
    """Refuse a match score that is no feature of the candidates, or not a number."""
    held = ", ".join(map(repr, S.features)) or "none"
    if name not in S.features:
        raise ParameterError(
            f"{{parameter}} {name!r} is none of the features of the candidates ({held}); give it as one of the "
            f"features of the candidate sets.",
            parameter="match_score",
            value=name,
        )
    if S.features[name].dtype.kind != "f":
        raise ParameterError(
            f"{{parameter}} must be a feature of numbers, and {name!r} holds texts.",
            parameter="match_score",
            value=name,
        )


def check_one_to_one(S: CandidateSets, checked: CheckedRows | None) -> None:
    """Refuse sets without records, a record twice in a row, and two checked rows with the same record as truth."""
    if S.record is None:
        raise ParameterError(
            "one_to_one=True needs to know which record each candidate is: give record to the candidate sets, as in "
            "CandidateSets.from_long(table, row=..., value=..., record=...).",
            parameter="one_to_one",
            value=True,
        )
    check_records(S.record, S.offsets)
    if checked is None:
        return
    true = np.flatnonzero(checked.true & (S.record != ""))
    # Where several candidates of a row have the known value, it is not known which record is the true one.
    alone = np.add.reduceat(checked.true.astype(np.int64), S.offsets[:-1])[S.row_index[true]] == 1
    true = true[alone]
    names, times = np.unique(S.record[true], return_counts=True)
    if (times > 1).any():
        name = names[times > 1][0]
        rows = S.row_index[true[S.record[true] == name]]
        raise CandidateError(
            f"The known labels say that rows {rows[0]} and {rows[1]} both are the record {str(name)!r}, and one_to_one "
            f"that no two rows are the same; correct one of them.",
            row=int(rows[1]),
            value=str(name),
        )
