"""What makes a candidate believable, learned from checked rows and, where possible, from the others.

The probability that candidate j of a row is the true one is taken to be proportional to

    exp(coefficients · features of the candidate) · (p(j) / q(j)) ** exponent

with p the density of the truth around what the other rows predict, and q that of false candidates. Coefficients and
exponent are learned from the checked rows, shrunk towards what is known without any: the given prior with coefficient
1, everything else with 0.

Where false candidates have nothing to do with the features, the coefficients make the prior that learners go by, and p
and q are theirs. Where they depend on the features, a candidate near the prediction may well be a false one; q then is
the density of a row's candidates as its features predict them, and learners are fitted to these probabilities as they
are.
"""

from __future__ import annotations

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
from plr.priors.columns import CandidateColumns
from plr.priors.dependence import FREEDOM, Dependence, student_scale
from plr.priors.logit import Alternatives, fit_logit
from plr.priors.one_to_one import one_to_one_shares
from plr.priors.smoothing import KernelSmoother, SmoothFunction

__all__ = [
    "Agreement",
    "Belief",
    "LearnedPrior",
    "MissingTruth",
    "RowFeatures",
    "check_one_to_one",
    "given_prior",
    "learn_belief",
    "learn_coefficients",
    "one_to_one",
]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

# Penalties that are chosen from by evidence, for coefficients of columns that are scaled within rows.
_PENALTIES = {
    "own": (0.1, 0.3, 1.0),
    "log": (1.0, 5.0, 50.0),
    "order": (1.0, 3.0, 30.0, 100.0),
    "built_in": (3.0, 10.0, 30.0, 100.0),
    "prior": (0.1, 1.0, 10.0),
    "exponent": (4.0, 16.0),
}
# What the exponent is shrunk towards, and what it is without checked rows where there is a prior.
_EXPONENT = 0.5
_ROUNDS = 3
# Without checked rows, the exponent of a given prior: where to begin, the largest, and how it is shrunk towards 1.
_FIRST_POWER, _LARGEST_POWER, _POWER_PENALTY = 4.0, 20.0, 5.0
# Before rows are checked: the share of rows whose truth is missing, and how sure that is, on the scale of log odds.
_MISSING, _MISSING_PRECISION = 0.03, 0.5
_SLOPE_PRECISION = 4.0
_RULED_OUT = -1e3
# However sure it is that a row of training has a record, a new row may have it with this probability.
_LEAST_FREE = 1e-6


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

    def encode(self, X: Any) -> Floats:
        """Return the encoded rows."""
        return self.encoding.apply(np.asarray(X, dtype=float) if self.columns is None else self.columns.encode(X))


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

    def log_ratio(self, S: CandidateSets, prediction: Floats, X: Any) -> Floats:
        """Return the exponent times log p / q of each candidate of new rows."""
        rows = S.row_index
        middle = self.centre.predict(self.features.encode(X))
        near = t.logpdf(S.values - prediction[rows], FREEDOM, scale=self.noise)
        return np.asarray(self.exponent * (near - t.logpdf(S.values - middle[rows], FREEDOM, scale=self.spread)))


@dataclass(frozen=True)
class MissingTruth:
    """How probable it is that none of a row's candidates is true, by how believable they are together.

    Attributes
    ----------
    constant, slope : float
        The log odds are ``constant - slope * strength``.
    middle, spread : float
        How the log of the sum of a row's believabilities becomes its ``strength``.
    """

    constant: float
    slope: float
    middle: float
    spread: float

    def probability(self, total: Floats) -> Floats:
        """Return it for rows of which the log of the sum is known."""
        return np.asarray(expit(self.constant - self.slope * (total - self.middle) / self.spread))


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
    """

    columns: CandidateColumns
    coefficients: Floats
    checked: int
    dependence: Dependence
    agreement: Agreement | None = None
    missing: MissingTruth | None = None
    held: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.coefficients.shape == self.columns.scales.shape, "columns and coefficients differ in number")

    def weigh(self, S: CandidateSets) -> CandidateSets:
        """Return the sets with the prior that the features of their candidates give."""
        return S.with_prior(Alternatives(S.offsets).softmax(self.columns.matrix(S) @ self.coefficients))

    def probabilities(self, S: CandidateSets, prediction: Floats, X: Any) -> tuple[Floats, Floats]:
        """Return the probability of each candidate of new rows, and that none of a row's is true."""
        assert self.agreement is not None
        utility = self.columns.matrix(S) @ self.coefficients
        utility += self.agreement.log_ratio(S, prediction, X)
        return self.shares(S, utility)

    def shares(self, S: CandidateSets, utility: Floats) -> tuple[Floats, Floats]:
        """Return the probability of each candidate by its utility, and that none of a row's is true."""
        sets = Alternatives(S.offsets)
        shares = self.share_records(S, utility) if self.held else sets.softmax(utility)
        missing = np.zeros(len(S)) if self.missing is None else self.missing.probability(sets.log_sum_exp(utility))
        return shares * (1.0 - missing)[sets.rows], missing

    def share_records(self, S: CandidateSets, utility: Floats) -> Floats:
        """Return the probability of each candidate of new rows, where no two rows have the same record."""
        if S.record is None:
            raise CandidateError(
                "The model was fitted with one_to_one=True, so these candidates need records too: give record."
            )
        taken = np.array([self.held.get(name, 0.0) for name in S.record.tolist()])
        return one_to_one(S, utility + np.log(np.maximum(1.0 - taken, _LEAST_FREE)))

    def holding(self, S: CandidateSets, probabilities: Floats) -> LearnedPrior:
        """Return the same prior that remembers which records the candidates of training rows are."""
        assert S.record is not None
        names, codes = np.unique(S.record, return_inverse=True)
        held = np.minimum(np.bincount(codes, probabilities), 1.0)
        return replace(self, held={str(name): float(share) for name, share in zip(names, held, strict=True) if name})

    def describe(self) -> list[str]:
        """Return what was learned, in words."""
        columns, found = self.columns, []
        weight = dict(zip(columns.names, self.coefficients / columns.scales, strict=True))
        for name, (low, high) in columns.numbers.items():
            times = weight[name] * (high - low)
            if name in columns.logs:
                times += weight[f"{name}: log"] * float(np.diff(columns.bend(name, np.array([low, high])))[0])
            found.append(f"a candidate with {name} {high:.3g} is {_times(times)} one with {low:.3g}")
            if abs(weight[f"{name}: highest of the row"]) > 0.1:
                found.append(
                    f"the candidate with the highest {name} of its row is, beside that, "
                    f"{_times(weight[f'{name}: highest of the row'])} others"
                )
        found += [
            f"a candidate with {name} {level} is {_times(weight[f'{name} = {level}'])} others"
            for name, levels in columns.levels.items()
            for level in levels
        ]
        if columns.with_prior:
            found.append(f"the given prior counts with the power {weight['log prior']:.2g}")
        if columns.with_values and abs(weight["rank of the value"]) > 0.1:
            found.append(
                f"the highest value of a row is {_times(-weight['rank of the value'])} the lowest, by rank alone"
            )
        if self.agreement is not None:
            found.append(
                f"agreement with the model's prediction counts with the power {self.agreement.exponent:.2g} (1 would "
                f"be full trust in it)"
            )
        source = f"learned from {self.checked:,} checked rows" if self.checked else "without checked rows"
        return [f"{source}:", *found] if found else [f"{source}: every candidate is as believable as another"]

    def __str__(self) -> str:
        return "\n  ".join(self.describe())


def _times(log_ratio: float) -> str:
    ratio = float(np.exp(np.clip(log_ratio, -20.0, 20.0)))
    return f"{ratio:.2g} times as believable as"


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
    """

    prior: LearnedPrior
    probabilities: Floats
    missing: Floats
    labels: Floats


def one_to_one(S: CandidateSets, utility: Floats) -> Floats:
    """Return probabilities by utilities, where no two rows have the same record as their truth."""
    assert S.record is not None
    return one_to_one_shares(Alternatives(S.offsets), utility, check_records(S.record, S.offsets))


def learn_coefficients(
    S: CandidateSets, checked: CheckedRows | None, sample_weight: Floats | None, dependence: Dependence
) -> LearnedPrior | None:
    """Learn a prior from the users' own columns and checked rows alone; None where there is nothing to learn.

    The place of a value in its set does not count here: how likely a value is, is what the learner finds out.
    """
    columns = CandidateColumns.learn(S, with_values=False)
    if checked is None or not len(columns.scales):
        return None
    found, sets = checked.found(S) & (S.sizes > 1), Alternatives(S.offsets)
    if not found.any():
        return None
    part, chosen = sets.take(found)
    centre = np.array([float(group == "prior") for group in columns.groups])
    weights = np.ones(len(S)) if sample_weight is None else sample_weight
    coefficients = fit_logit(
        part, columns.matrix(S)[chosen], checked.true[chosen], columns.groups, centre, _PENALTIES, weights[found]
    )
    return LearnedPrior(columns, coefficients, int(found.sum()), dependence)


def learn_belief(
    S: CandidateSets,
    features: RowFeatures,
    smoother: KernelSmoother,
    dependence: Dependence,
    checked: CheckedRows | None = None,
    sample_weight: Floats | None = None,
    unique_records: bool = False,
) -> Belief:
    """Learn what to believe about candidates whose false ones depend on the features.

    Parameters
    ----------
    S : CandidateSets
    features : RowFeatures
    smoother : KernelSmoother
        Of the encoded rows.
    dependence : Dependence
    checked : CheckedRows, optional
    sample_weight : ndarray of shape (n,), optional
    unique_records : bool
        Whether no two rows have the same record as their truth.
    """
    sets, values = Alternatives(S.offsets), S.values
    rows, weights = sets.rows, np.ones(len(S)) if sample_weight is None else sample_weight
    columns = CandidateColumns.learn(S, with_values=True)
    matrix, is_prior = columns.matrix(S), np.array([group == "prior" for group in columns.groups])
    middle = sets.sum(values) / sets.sizes
    around = values - smoother.out_of_fold(middle)[rows]
    smallest = 1e-6 * float(values.std()) + float(np.finfo(float).tiny)
    spread = max(student_scale(around, weights[rows] / sets.sizes[rows]), smallest)
    log_q = t.logpdf(around, FREEDOM, scale=spread)
    found = np.zeros(len(S), dtype=bool) if checked is None else checked.found(S) & (sets.sizes > 1) & (weights > 0)
    settled = _settled(S, checked)
    weigh = (lambda utility: one_to_one(S, utility)) if unique_records else sets.softmax
    ratio, noise, exponent = np.zeros(len(values)), spread, 0.0
    coefficients = is_prior.astype(float) * (1.0 if found.any() else _FIRST_POWER)
    if found.any():
        assert checked is not None
        part, chosen = sets.take(found)
        coefficients = fit_logit(
            part, matrix[chosen], checked.true[chosen], columns.groups, coefficients, _PENALTIES, weights[found]
        )
    for _ in range(_ROUNDS):
        shares = weigh(matrix @ coefficients + exponent * ratio + settled)
        away = values - smoother.out_of_fold(_labels(sets, values, shares, checked))[rows]
        noise = max(student_scale(away, shares * weights[rows]), smallest)
        ratio = t.logpdf(away, FREEDOM, scale=noise) - log_q
        if found.any():
            assert checked is not None
            learned = fit_logit(
                part,
                np.column_stack([matrix, ratio])[chosen],
                checked.true[chosen],
                [*columns.groups, "exponent"],
                np.append(is_prior.astype(float), _EXPONENT),
                _PENALTIES,
                weights[found],
            )
            coefficients, exponent = learned[:-1], max(float(learned[-1]), 0.0)
        elif columns.with_prior:
            exponent = _EXPONENT
            coefficients = is_prior * _likeliest_power(sets, matrix[:, is_prior][:, 0], ratio, weights)
    utility = matrix @ coefficients + exponent * ratio
    prior = LearnedPrior(
        columns,
        coefficients,
        int(found.sum()),
        dependence,
        Agreement(exponent, noise, features, smoother.fit(middle), spread),
        _learn_missing(sets.log_sum_exp(utility), checked, weights),
    )
    shares = weigh(utility + settled)
    if unique_records:
        prior = prior.holding(S, shares * (weights > 0)[rows])
    missing = np.zeros(len(S)) if prior.missing is None else prior.missing.probability(sets.log_sum_exp(utility))
    probabilities = shares * (1.0 - missing)[rows]
    if checked is not None:
        probabilities, missing = checked.settle_probabilities(S, probabilities, missing)
    return Belief(prior, probabilities, missing, _labels(sets, values, shares, checked))


def _settled(S: CandidateSets, checked: CheckedRows | None) -> Floats:
    """Return what rules out the candidates of checked rows that are not the true one."""
    if checked is None:
        return np.zeros(len(S.values))
    return np.where(checked.found(S)[S.row_index] & ~checked.true, _RULED_OUT, 0.0)


def _labels(sets: Alternatives, values: Floats, shares: Floats, checked: CheckedRows | None) -> Floats:
    labels = sets.sum(shares * values)
    return labels if checked is None else np.where(checked.labelled, checked.value, labels)


def _likeliest_power(sets: Alternatives, log_prior: Floats, ratio: Floats, weights: Floats) -> float:
    """Return the power of a given prior under which the candidates are likeliest."""
    powers = np.linspace(0.5, _LARGEST_POWER, 40)
    gains = [
        float(weights @ (sets.log_sum_exp(power * log_prior + ratio) - sets.log_sum_exp(power * log_prior)))
        - _POWER_PENALTY * np.log(power) ** 2
        for power in powers
    ]
    return float(powers[int(np.argmax(gains))])


def _learn_missing(total: Floats, checked: CheckedRows | None, weights: Floats) -> MissingTruth | None:
    """Learn from the checked rows how probable it is that a row's truth is missing; None where none was checked."""
    if checked is None:
        return None
    looked_at = (checked.missing | checked.labelled) & (weights > 0)
    if not looked_at.any():
        return None
    middle, spread = float(total.mean()), float(total.std()) or 1.0
    strength, missing = (total[looked_at] - middle) / spread, checked.missing[looked_at]
    counts, centre = weights[looked_at], float(logit(_MISSING))

    def loss(parameters: Floats) -> float:
        constant, slope = parameters
        odds = constant - slope * strength
        likelihood = counts @ np.logaddexp(0.0, np.where(missing, -odds, odds))
        return float(
            likelihood + 0.5 * _MISSING_PRECISION * (constant - centre) ** 2 + 0.5 * _SLOPE_PRECISION * slope**2
        )

    constant, slope = minimize(loss, [centre, 0.5], bounds=[(-10.0, 10.0), (0.0, 10.0)]).x.tolist()
    return MissingTruth(constant, slope, middle, spread)


def given_prior(S: CandidateSets) -> LearnedPrior:
    """Return the prior that the sets have, as it is."""
    with_prior = S.prior is not None
    columns = CandidateColumns({}, {}, (), {}, False, with_prior, np.ones(int(with_prior)))
    return LearnedPrior(columns, np.ones(int(with_prior)), 0, Dependence(0.0))


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
