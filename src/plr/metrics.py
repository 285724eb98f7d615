"""How good predictions and choices are: against true labels, and against candidate sets alone.

The scorers are what scikit-learn's ``cross_val_score``, ``GridSearchCV`` and ``HalvingGridSearchCV`` take as scoring.
`candidate_likelihood_scorer` needs no true label; the others go by the rows whose label is known. The classes add up
figures over one table, or over many batches of one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.utils.metadata_routing import MetadataRequest

from plr._checks import check_sample_weight, is_plain_target
from plr.candidates import CandidateSets, as_candidate_sets
from plr.candidates.known import read_known
from plr.candidates.matching import Precision, precision_of, true_candidates
from plr.errors import LengthError, ParameterError
from plr.weighting.posterior import Posterior

__all__ = [
    "MOST_KEPT",
    "NEVER_AMONG",
    "CandidateLikelihoodScorer",
    "ChoiceMetrics",
    "CoverageMetrics",
    "ErrorMetrics",
    "KnownLabelsScorer",
    "candidate_likelihood",
    "candidate_likelihood_scorer",
    "is_overconfident",
    "known_neg_mean_absolute_error_scorer",
    "known_neg_root_mean_squared_error_scorer",
    "known_r2_scorer",
    "r2",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

MOST_KEPT = 1_000_000
"""Rows that medians are taken from, where there are more."""

_BINS = 10
# How many decimals candidates are printed with can be seen from so many rows.
_ENOUGH = 5

NEVER_AMONG = "cannot be scored: the truth is never among the candidates"
"""What is said of choices where nothing says whether they are right."""

# How far accuracy may fall short of the mean probability, besides so many standard errors.
_SLACK, _ERRORS = 0.05, 3.0


class _Sample:
    """Which of very many rows are kept one by one: `MOST_KEPT`, chosen at random."""

    def __init__(self, rows: int) -> None:
        self._chosen: Integers | None = None
        if rows > MOST_KEPT:
            self._chosen = np.sort(np.random.default_rng(0).choice(rows, MOST_KEPT, replace=False, shuffle=False))

    def among(self, numbers: Integers | None) -> Any:
        """Return the places of the rows to keep among those of increasing numbers."""
        if self._chosen is None or numbers is None or not len(numbers):
            return slice(None)
        low, high = np.searchsorted(self._chosen, [numbers[0], numbers[-1] + 1])
        return np.isin(numbers, self._chosen[low:high], assume_unique=True)


class ErrorMetrics:
    """Errors of predictions (RMSE, MAE, R²), beside those of the best constant.

    Parameters
    ----------
    rows : int
        Rows that may come; of more than `MOST_KEPT`, medians are taken from as many, chosen at random.

    Examples
    --------
    >>> errors = ErrorMetrics()
    >>> errors.add(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 2.0]))
    >>> errors.figures()["mae"].__round__(3)
    1.333
    """

    def __init__(self, rows: int = 0) -> None:
        self._sample = _Sample(rows)
        self.rows = 0
        self._weight = self._squared = self._absolute = self._mean = self._spread = 0.0
        self._kept: list[tuple[Floats, Floats]] = []

    def add(
        self, prediction: Floats, y: Floats, *, weight: Floats | None = None, numbers: Integers | None = None
    ) -> None:
        """Take in some rows.

        Parameters
        ----------
        prediction, y : ndarray of shape (n,)
        weight : ndarray of shape (n,), optional
            How much each row counts; medians do not go by it.
        numbers : ndarray of shape (n,), optional
            The rows' numbers among all, needed where not all are kept.
        """
        if not len(y):
            return
        weight = np.ones(len(y)) if weight is None else weight
        added = float(weight.sum())
        total = self._weight + added
        with np.errstate(over="ignore"):
            off = np.abs(prediction - y)
            mean = float(weight @ y) / added
            apart = mean - self._mean
            self._spread += float(weight @ (y - mean) ** 2) + apart**2 * self._weight * added / total
            self._squared += float(weight @ off**2)
        self._mean = mean if self.rows == 0 else self._mean + apart * added / total
        self._absolute += float(weight @ off)
        self.rows, self._weight = self.rows + len(y), total
        kept = self._sample.among(numbers)
        self._kept.append((off[kept], y[kept]))

    def figures(self) -> dict[str, Any]:
        """Return the figures, as plain values."""
        off, y = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        mse, baseline = self._squared / self._weight, self._spread / self._weight
        found = {
            "mse": mse,
            "rmse": mse**0.5,
            "mae": self._absolute / self._weight,
            "median_absolute_error": float(np.median(off)),
            "r2": 1.0 - mse / baseline if baseline > 0 else None,
            "baseline_mse": baseline,
            "baseline_mae": float(np.mean(np.abs(y - np.median(y)))),
        }
        return found if len(off) == self.rows else {**found, "medians_from_rows": len(off)}


class CoverageMetrics:
    """The share of true labels that intervals hold, and how wide the intervals are.

    Parameters
    ----------
    asked : float
        The share of true labels that they are to hold.
    rows : int
        As of `ErrorMetrics`: of very many rows, figures by width are those of a sample.

    Examples
    --------
    >>> coverage = CoverageMetrics(0.9)
    >>> coverage.add(np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([0.5, 2.1]))
    >>> figures = coverage.figures()
    >>> figures["coverage"], figures["mean_width"], round(figures["interval_score"], 3)
    (0.5, 1.5, 2.5)
    """

    def __init__(self, asked: float, rows: int = 0) -> None:
        self._asked, self._sample = asked, _Sample(rows)
        self._sums, self._squared = np.zeros(4), 0.0
        self._kept: list[tuple[Floats, Booleans, Floats]] = []

    def add(
        self, intervals: Floats, y: Floats, *, weight: Floats | None = None, numbers: Integers | None = None
    ) -> None:
        """Take in the intervals of some rows, of shape (n, 2), and their truths.

        Parameters
        ----------
        intervals : ndarray of shape (n, 2)
        y : ndarray of shape (n,)
            The true labels.
        weight : ndarray of shape (n,), optional
            How much each row counts.
        numbers : ndarray of shape (n,), optional
            As of `ErrorMetrics.add`.
        """
        weight = np.ones(len(y)) if weight is None else weight
        lower, upper = intervals.T
        width, inside = upper - lower, (lower <= y) & (y <= upper)
        outside = np.maximum(np.maximum(lower - y, y - upper), 0.0)
        score = width + 2.0 / (1.0 - self._asked) * outside
        self._sums += [weight.sum(), weight @ inside, weight @ width, weight @ score]
        self._squared += float(weight @ weight)
        kept = self._sample.among(numbers)
        self._kept.append((width[kept], inside[kept], weight[kept]))

    def figures(self) -> dict[str, Any]:
        """Return the figures, as plain values.

        ``coverage`` with its standard error, ``mean_width``, ``interval_score`` (the width, and 2 / (1 - asked) times
        how far outside a truth is: the lower, the better), and ``by_width``: the same for each tenth of the rows, from
        the narrowest intervals to the widest; empty where all are as wide.
        """
        rows, inside, width, score = (float(total) for total in self._sums)
        coverage = inside / rows
        return {
            "coverage": coverage,
            "coverage_error": _error_of_share(coverage, rows**2 / self._squared),
            "mean_width": width / rows,
            "interval_score": score / rows,
            "by_width": self._by_width(),
        }

    def _by_width(self) -> list[dict[str, Any]]:
        width, inside, weight = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        # Widths that differ by rounding alone are the same.
        size = np.round(width / (width.max() or 1.0), 9)
        place = np.searchsorted(np.quantile(size, np.arange(1, _BINS) / _BINS, method="lower"), size)
        parts = [place == part for part in np.unique(place)]
        found: list[dict[str, Any]] = []
        for part in parts if len(parts) > 1 else ():
            counts = weight[part]
            share = float(np.average(inside[part], weights=counts))
            found.append(
                {
                    "rows": round(float(counts.sum())),
                    "mean_width": float(np.average(width[part], weights=counts)),
                    "coverage": share,
                    "coverage_error": _error_of_share(share, float(counts.sum() ** 2 / (counts @ counts))),
                }
            )
        return found


def _error_of_share(share: float, rows: float) -> float:
    """Return the standard error of a share among so many rows; with one more of each, as all of few is not for sure."""
    expected = (share * rows + 1.0) / (rows + 2.0)
    return (expected * (1.0 - expected) / rows) ** 0.5


class ChoiceMetrics:
    """How often the likeliest candidate is the true one, and the calibration of its probability.

    Only rows whose truth is among their candidates are scored: the nearest is the true one if it differs by no more
    than a millionth, or if it alone equals the truth to as many decimals as truths, or candidates, are printed with.

    Parameters
    ----------
    precision : Precision, optional
        How exact the truths are, where not all come at once.
    """

    def __init__(self, precision: Precision | None = None) -> None:
        self._precision = precision
        self._counts = np.zeros(4)
        self._right = np.zeros(2)
        self._chance = self._expected = self._squared = 0.0
        self._bins = np.zeros((5, _BINS))

    def add(self, found: Any, sets: CandidateSets, y: Floats) -> None:
        """Take in the `Identification` of some rows, and their truths."""
        likeliest = sets.offsets[:-1] + found.index
        several = sets.unique().sizes > 1
        self.add_candidates(sets.values, sets.offsets, found.probabilities, likeliest, y, several=several)

    def add_candidates(
        self,
        values: Floats,
        offsets: Integers,
        probabilities: Floats,
        likeliest: Integers,
        y: Floats,
        *,
        several: Booleans,
        weight: Floats | None = None,
        given: Integers | None = None,
    ) -> None:
        """Take in the candidates of some rows, and their truths.

        Parameters
        ----------
        values, probabilities : ndarray, one entry per candidate
        offsets : ndarray of shape (n + 1,)
            Where each row's candidates begin.
        likeliest : ndarray of shape (n,)
            Where each row's likeliest candidate is among all.
        y : ndarray of shape (n,)
        several : ndarray of shape (n,)
            Whether a row has candidates that differ.
        weight : ndarray of shape (n,), optional
            How much each row counts.
        given : ndarray of shape (n,), optional
            How many candidates each row has, where unlikely ones are left out here.
        """
        sizes = np.diff(offsets)
        weight = np.ones(len(y)) if weight is None else weight
        decimals = precision_of(values).decimals if len(y) >= _ENOUGH else None
        is_true = true_candidates(values, offsets, y, self._precision, decimals)
        scored = np.logical_or.reduceat(is_true, offsets[:-1])
        if given is not None and scored.any():
            # The truth may be among those that were left out, and then the choice is wrong.
            scored |= given > sizes
        ambiguous = several & scored
        right = is_true[likeliest]
        share = np.repeat(weight * scored, sizes)
        bins = np.minimum((probabilities * _BINS).astype(np.int64), _BINS - 1)
        self._counts += [weight.sum(), weight @ several, weight @ scored, weight @ ambiguous]
        self._right += [weight @ (right & scored), weight @ (right & ambiguous)]
        self._chance += float(weight[ambiguous] @ (1.0 / (sizes if given is None else given)[ambiguous]))
        self._expected += float(weight[ambiguous] @ probabilities[likeliest][ambiguous])
        self._squared += float(weight[ambiguous] @ weight[ambiguous])
        spread = np.maximum(probabilities * (1.0 - probabilities), 0.0)
        parts = (share, share * probabilities, share * is_true, share**2, share**2 * spread)
        self._bins += [np.bincount(bins, part, _BINS) for part in parts]

    def figures(self) -> dict[str, Any]:
        """Return the figures, as plain values.

        Those that end in ``error`` beside a share are its standard error. ``calibration_error_by_chance`` is the
        calibration error that so few candidates would be expected to have if all probabilities were right.
        """
        rows, several, scored, ambiguous = (round(float(count)) for count in self._counts)
        _, _, among, among_several = map(float, self._counts)
        counts, said, came, squared, spread = self._bins
        filled = counts > 0
        right = float(self._right[1] / among_several) if ambiguous else None
        return {
            "rows": rows,
            "rows_with_several": several,
            "rows_with_truth_among_candidates": scored,
            "rows_scored_with_several": ambiguous,
            "accuracy": float(self._right[0] / among) if scored else None,
            "accuracy_with_several": right,
            "accuracy_with_several_error": None
            if right is None
            else _error_of_share(right, among_several**2 / self._squared),
            "by_chance_with_several": self._chance / among_several if ambiguous else None,
            "expected_with_several": self._expected / among_several if ambiguous else None,
            "calibration_error": float(np.abs(said - came).sum() / counts.sum()) if scored else None,
            # The mean size of a normal error is its standard deviation times the root of 2 / π.
            "calibration_error_by_chance": float(np.sqrt(2.0 / np.pi * spread).sum() / counts.sum())
            if scored
            else None,
            "calibration": [
                {
                    "candidates": round(float(count)),
                    "said": float(one / count),
                    "true": float(other / count),
                    "true_error": _error_of_share(float(other / count), float(count**2 / square)),
                }
                for count, one, other, square in zip(
                    counts[filled], said[filled], came[filled], squared[filled], strict=True
                )
            ],
        }


def is_overconfident(expected: float, right: float, rows: int) -> bool:
    """Whether choices are right far less often than their probabilities say, beyond chance.

    >>> is_overconfident(0.99, 0.4, 50), is_overconfident(0.99, 0.93, 50), is_overconfident(0.5, 0.0, 50)
    (True, False, True)
    """
    error = (expected * (1.0 - expected) / max(rows, 1)) ** 0.5
    return expected - right > _SLACK + _ERRORS * error


def r2(labels: Floats, prediction: Floats, weight: Floats | None = None) -> float:
    """Return R², also where squares of the labels would overflow or vanish: a power of two changes no digit of it.

    NaN, with scikit-learn's warning, where there are fewer than two labels.

    >>> r2(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0])).__round__(3)
    0.5
    """
    if len(labels) < 2:
        warnings.warn(
            f"R² needs at least two rows with a known label, and there are {len(labels)}.",
            UndefinedMetricWarning,
            stacklevel=3,
        )
        return float("nan")
    exponent = -int(np.frexp(np.abs(labels).max())[1])
    with np.errstate(over="ignore"):
        scaled = np.ldexp(prediction, exponent)
        if not np.isfinite(scaled).all():
            return -np.inf
        return float(r2_score(np.ldexp(labels, exponent), scaled, sample_weight=weight))


def candidate_likelihood(
    prediction: Floats, S: CandidateSets, sample_weight: Floats | None = None, weighting: Posterior | None = None
) -> Floats:
    """Return each row's log Σ prior · p / q, with the noise scale under which all candidates are likeliest.

    Parameters
    ----------
    prediction : ndarray of shape (n,)
        Of models that have not seen the rows.
    S : CandidateSets of n rows
    sample_weight : ndarray of shape (n,), optional
    weighting : Posterior, optional
        The family of the noise p, and the density of false labels q: Student's and uniform, unless given.

    Examples
    --------
    >>> S = CandidateSets.from_lists([[1.0, 9.0], [2.0, 5.0], [7.0, 3.0], [4.0, 0.0]])
    >>> good, poor = np.array([1.1, 2.0, 2.9, 4.0]), np.full(4, 2.5)
    >>> bool(candidate_likelihood(good, S).mean() > candidate_likelihood(poor, S).mean())
    True
    """
    # The scorers for known labels need nothing that is compiled.
    from plr.noise import fit_noise

    return fit_noise(prediction, S, weighting, sample_weight).log_likelihood(prediction, S)


class _Scorer:
    """What scikit-learn asks of a scorer besides the call: which metadata it wants to be handed."""

    # What is handed on where nobody says otherwise: True, or None, which is an error if it is given.
    _requests: dict[str, bool | None]

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what is routed to the scorer, as scikit-learn asks for it."""
        request = MetadataRequest(owner=self)
        for name, wanted in self._requests.items():
            request.score.add_request(param=name, alias=wanted)
        return request


class CandidateLikelihoodScorer(_Scorer):
    """Score predictions by how likely the candidate sets of held-out rows are around them; no true label is needed.

    The score is the mean of log Σ prior · p / q: p is noise around the prediction, with the scale that suits these rows
    best, q the density of false labels. It goes by predictions alone, so that models of any kind compare, in pipelines
    too. Knowing nothing scores about 0; higher is better.

    Parameters
    ----------
    weighting : Posterior, optional
        The family of the noise, the density of false labels and the share of missing truths: Student's, uniform and
        none, unless given. Scores compare where it is the same.

    Notes
    -----
    Rows are to be new to the model, as those that cross-validation holds out are, and many enough to see a noise scale,
    twenty at least. Where false candidates depend on the features, as after a join by similarity, being near to
    candidates proves little: go by known labels there.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> import plr
    >>> from plr.metrics import candidate_likelihood_scorer
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> S = plr.make_candidates(X @ [3.0, 1.0], 3, set_size="fixed", random_state=1)
    >>> model = plr.PartialLabelRegressor("linear", random_state=0)
    >>> scores = cross_val_score(model, X, S, scoring=candidate_likelihood_scorer)
    >>> bool(scores.mean() > 1.0)
    True
    """

    _requests = {"sample_weight": True}  # noqa: RUF012

    def __init__(self, weighting: Posterior | None = None) -> None:
        self.weighting = weighting

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.weighting is None else self.weighting!r})"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of a fitted estimator on the candidate sets ``y``."""
        S = as_candidate_sets(y)
        prediction = _predict(estimator, X, len(S))
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(S))
        rows = candidate_likelihood(prediction, S, weight, self.weighting)
        return float(np.average(rows, weights=weight))


class KnownLabelsScorer(_Scorer):
    """Score predictions on the rows whose true label is known; higher is better.

    Called with ``known``, it is for candidate sets as target: scikit-learn's metadata routing hands known labels on,
    and no request need be set. Without, the target is the labels themselves, NaN where they are not known.

    Parameters
    ----------
    name : str
    figure : callable
        Of ``(labels, prediction, weight)``.
    sign : {1, -1}, default=1
        -1 where less is better.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.model_selection import cross_val_score
    >>> import plr
    >>> from plr.metrics import known_neg_mean_absolute_error_scorer as scorer
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> truth = X @ [3.0, 1.0]
    >>> S = plr.make_candidates(truth, 3, random_state=1)
    >>> known = np.where(np.arange(200) % 10 == 0, truth, np.nan)
    >>> model = plr.PartialLabelRegressor("linear", random_state=0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     model = model.set_fit_request(known=True)
    ...     scores = cross_val_score(model, X, S, scoring=scorer, params={"known": known})
    >>> bool(scores.mean() > -0.01)
    True
    >>> bool(scorer(model.fit(X, S), X, known) > -0.01)
    True
    """

    _requests = {"known": True, "sample_weight": True}  # noqa: RUF012

    def __init__(self, name: str, figure: Callable[[Floats, Floats, Floats | None], float], sign: int = 1) -> None:
        self.name, self.figure, self.sign = name, figure, sign

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __call__(self, estimator: Any, X: Any, y: Any, known: Any = None, sample_weight: Any = None) -> float:
        """Return the score of a fitted estimator; NaN, with a warning, where too few labels are known.

        Parameters
        ----------
        estimator : object
        X : array-like of shape (n, d)
        y : candidate sets, or labels of shape (n,), NaN where not known
        known : array-like of shape (n,) or table of n rows, optional
            As ``fit`` of `plr.PartialLabelRegressor` takes it. Rows that were chosen with known probabilities count by
            their inverses.
        sample_weight : array-like of shape (n,), optional
        """
        counts = None
        if known is None:
            if isinstance(y, CandidateSets) or not is_plain_target(y):
                raise ParameterError(
                    f"{self.name} needs known labels, and the target is candidate sets: hand them on by metadata "
                    "routing, sklearn.set_config(enable_metadata_routing=True) and params={'known': labels}, or call "
                    "it with labels as y, NaN where they are not known.",
                    parameter="known",
                )
            labels = np.asarray(y, dtype=np.float64).ravel()
        else:
            S = as_candidate_sets(y)
            checked = read_known(known, S)
            labels = np.full(len(S), np.nan) if checked is None else checked.value
            counts = None if checked is None else checked.stands_for
        prediction = _predict(estimator, X, len(labels))
        rows = np.flatnonzero(~np.isnan(labels))
        if sample_weight is not None:
            given = check_sample_weight(sample_weight, len(labels))
            counts = given if counts is None else counts * given
        if not len(rows):
            warnings.warn("None of these rows has a known label.", UndefinedMetricWarning, stacklevel=2)
            return float("nan")
        weight = None if counts is None else counts[rows]
        return self.sign * float(self.figure(labels[rows], prediction[rows], weight))


def _predict(estimator: Any, X: Any, rows: int) -> Floats:
    prediction = np.asarray(estimator.predict(X), dtype=np.float64).ravel()
    if len(prediction) != rows:
        raise LengthError(f"X has {len(prediction)} rows and the target {rows}; they must agree.")
    return prediction


def _mean_absolute_error(labels: Floats, prediction: Floats, weight: Floats | None) -> float:
    return float(mean_absolute_error(labels, prediction, sample_weight=weight))


def _root_mean_squared_error(labels: Floats, prediction: Floats, weight: Floats | None) -> float:
    return float(root_mean_squared_error(labels, prediction, sample_weight=weight))


candidate_likelihood_scorer = CandidateLikelihoodScorer()
"""How likely candidate sets of held-out rows are; no true label is needed."""

known_r2_scorer = KnownLabelsScorer("known_r2_scorer", r2)
"""R² on the rows whose label is known."""

known_neg_mean_absolute_error_scorer = KnownLabelsScorer(
    "known_neg_mean_absolute_error_scorer", _mean_absolute_error, -1
)
"""The mean absolute error on the rows whose label is known, with a minus sign, so that higher is better."""

known_neg_root_mean_squared_error_scorer = KnownLabelsScorer(
    "known_neg_root_mean_squared_error_scorer", _root_mean_squared_error, -1
)
"""The root of the mean squared error on the rows whose label is known, with a minus sign."""
