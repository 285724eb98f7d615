"""Learners and weightings side by side on the same rows, by scores that need no true label."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import _num_samples

from plr._checks import check_groups, check_sample_weight, check_seed
from plr._parameters import check_choice
from plr.candidates import CandidateSets, as_candidate_sets
from plr.candidates.arrow import is_frame
from plr.candidates.known import CheckedRows, read_known
from plr.candidates.tables import columns_of
from plr.contracts import Task
from plr.diagnosis import find_dependence
from plr.errors import IdentifierWarning, LengthError, ParameterError, PlrError, PlrWarning
from plr.folds import check_folds, features_of, make_folds, predict_folds
from plr.learners.committee import EFFORTS
from plr.losses import Squared
from plr.metrics import candidate_likelihood, r2
from plr.regressor import PartialLabelRegressor
from plr.weighting import Posterior
from plr.weighting.rule import Rule

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COMPARED", "Compared", "Comparison", "compare", "with_error"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

COMPARED = ("linear", "boosting", "density", "auto")
"""The learners that are compared where none are named."""

# Where likelihoods prove little, so many checked rows are enough to go by.
_ENOUGH_CHECKED = 20
_FIGURES = ("likelihood", "likelihood_error", "behind", "behind_error", "mae", "mae_error", "rmse", "r2", "right")
_DEPENDS = (
    "False candidates depend on the features, so that being near to candidates proves little: likelihoods may prefer a "
    "model that agrees with the false ones."
)


@dataclass(frozen=True)
class Compared:
    """How one learner with one weighting did on rows that its models had not seen.

    Attributes
    ----------
    learner, weighting : str
    likelihood, likelihood_error : float
        The mean log likelihood of the candidate sets, and its standard error. Knowing nothing scores about 0.
    behind, behind_error : float
        How far that is behind the first in the table, and the standard error of this difference, which is mostly much
        smaller, since the rows are the same.
    mae, mae_error, rmse, r2 : float or None
        Errors on checked rows, whose labels the models had not seen either, and the standard error of the first; None
        without checked rows.
    right : float or None
        In what share of the checked rows with several candidates the likeliest was the true one.
    seconds : float
        How long one fit took, on average.
    """

    learner: str
    weighting: str
    likelihood: float
    likelihood_error: float
    behind: float
    behind_error: float
    mae: float | None
    mae_error: float | None
    rmse: float | None
    r2: float | None
    right: float | None
    seconds: float

    @property
    def name(self) -> str:
        """The learner, and the weighting where it is not that of ``auto``."""
        return self.learner if self.weighting == "auto" else f"{self.learner}, {self.weighting}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Learners and weightings side by side, the best first; prints as a table.

    Attributes
    ----------
    models : tuple of Compared
    rows, folds, checked : int
        Rows that were predicted, models fitted for each line, and rows whose label is known.
    ranked_by : str
        ``"likelihood"``; or ``"mae"``, where false candidates depend on the features and enough rows were checked.
    caution : str
        What to be careful of; empty where there is nothing.
    left_out : dict of str to str
        What could not be fitted, and why.
    predictions : ndarray of shape (n, number of models)
        Out of fold, in the order of ``models``.
    """

    models: tuple[Compared, ...]
    rows: int
    folds: int
    checked: int
    ranked_by: str
    caution: str
    left_out: dict[str, str]
    predictions: Floats = field(repr=False, compare=False)

    @property
    def best(self) -> Compared:
        """The first line."""
        return self.models[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        rest = ("rows", "folds", "checked", "ranked_by", "caution", "left_out")
        return {"models": [asdict(model) for model in self.models], **{name: getattr(self, name) for name in rest}}

    def to_table(self) -> pa.Table:
        """Return one line for each learner and weighting, the best first."""
        import pyarrow as pa

        columns: dict[str, Any] = {
            name: [getattr(one, name) for one in self.models] for name in ("learner", "weighting")
        }
        for name in (*_FIGURES, "seconds"):
            columns[name] = pa.array([getattr(one, name) for one in self.models], pa.float64())
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the table on, to frames of any kind: ``polars.DataFrame(comparison)``."""
        return self.to_table().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Comparison({len(self.models)} models, {self.best.name} first by {self.ranked_by})"

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """Return the table as text, and what it says, in words."""
        head = ["", "likelihood", "behind the first"]
        lines = [
            [
                one.name,
                with_error(one.likelihood, one.likelihood_error),
                "" if one is self.best else with_error(one.behind, one.behind_error),
            ]
            for one in self.models
        ]
        if self.checked:
            head += ["error on checked rows", "R²", *(["right choices"] if self.best.right is not None else [])]
            for line, one in zip(lines, self.models, strict=True):
                line += [with_error(one.mae, one.mae_error), "" if one.r2 is None else f"{one.r2:.2f}"]
                line += [] if one.right is None else [f"{one.right:.0%}"]
        head += ["a fit takes"]
        for line, one in zip(lines, self.models, strict=True):
            line.append(f"{one.seconds:.2g} s")
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        texts = [
            f"{line[0]:<{widths[0]}}"
            + "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
            for line in (head, *lines)
        ]
        return "\n".join([*(text.rstrip() for text in texts), "", *self.in_words()])

    def in_words(self) -> list[str]:
        """Return what the table says, a sentence each."""
        by = "how likely the candidate sets are" if self.ranked_by == "likelihood" else "errors on checked rows"
        checked = f", {self.checked:,} of them checked" if self.checked else ""
        words = [f"{self.rows:,} rows{checked}, each predicted by models that have not seen it; best first by {by}."]
        if self.ranked_by == "likelihood":
            near = [one.name for one in self.models[1:] if one.behind < 2.0 * one.behind_error]
            if near:
                words.append(
                    f"Not clearly behind {self.best.name}, by less than two standard errors: {'; '.join(near)}."
                )
        if self.caution:
            words.append(f"Caution: {self.caution}")
        words += [f"Left out: {name}. {why}" for name, why in self.left_out.items()]
        return words


def compare(
    X: Any,
    S: Any,
    learners: Sequence[Any] | Mapping[str, Any] = COMPARED,
    weightings: Sequence[Any] | Mapping[str, Any] = ("auto",),
    *,
    known: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    cv: object = 5,
    random_state: object = None,
    n_jobs: int | None = None,
    callback: Callable[[int, int, float], object] | None = None,
    **parameters: Any,
) -> Comparison:
    """Compare learners and weightings on rows that their models have not seen, by scores that need no true label.

    All are fitted to the same folds, from the beginning: start, weights and what checked rows teach included.

    Parameters
    ----------
    X : array-like of shape (n, d)
    S : candidate sets of n rows
        As `PartialLabelRegressor.fit` takes both.
    learners, weightings : sequence, or mapping of names, of what `PartialLabelRegressor` takes as such
        Every pair is compared; those that do not go together are left out.
    known : array-like of shape (n,) or table of n rows, optional
        True labels of rows that somebody looked up, NaN elsewhere. Models are given those of their own rows, and are
        scored on those of the others.
    sample_weight, groups : array-like of shape (n,), optional
        Rows of one group are predicted by models that have seen none of it.
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        The folds that are left out.
    random_state : int, RandomState or None, default=None
        The same number gives the same folds and models, and the same table but for the times.
    n_jobs : int or None, default=None
        How many fits may run at the same time. The result does not depend on it.
    callback : callable, optional
        Called with ``(fits done, fits in all, 0.0)``.
    **parameters
        Further parameters of `PartialLabelRegressor`, for all; ``effort`` for learners that have one.

    Returns
    -------
    Comparison

    Notes
    -----
    The likelihood is that of `plr.metrics.candidate_likelihood_scorer`, with one noise scale for all rows, and goes by
    predictions alone. Its differences say which model predicts better; where false candidates depend on the features
    they do not, and the table says so.

    Examples
    --------
    >>> import numpy as np
    >>> import plr
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(150, 2))
    >>> S = plr.make_candidates(3 * X[:, 0] + X[:, 1], 3, set_size="fixed", random_state=1)
    >>> found = plr.compare(X, S, ["linear", "boosting"], cv=3, random_state=0)
    >>> found.best.learner, found.to_table().column_names[:3]
    ('linear', ['learner', 'weighting', 'likelihood'])
    """
    sets = as_candidate_sets(S)
    if len(sets) != _num_samples(X):
        raise LengthError(f"X has {_num_samples(X)} rows and the target {len(sets)}; they must agree.")
    check_folds(cv)
    checked = read_known(known, sets)
    weight = None if sample_weight is None else check_sample_weight(sample_weight, len(sets))
    given_groups = None if groups is None else check_groups(groups, len(sets))
    seed = int(check_seed(random_state).randint(2**31 - 1))
    task = Task(X, sets, Rule(Posterior(), Squared()), sample_weight=weight, groups=given_groups, seed=seed)
    folds = make_folds(task, cv)
    if not folds:
        raise ParameterError("A comparison needs at least two rows, or two groups: each is predicted from the others.")
    makers = _regressors(learners, weightings, parameters)
    left_out, measured = {}, {}
    fits = _Progress(callback, len(makers) * len(folds))
    first_error: Exception | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for (learner, weighting), regressor in makers.items():
            run = _Run(regressor, X, sets, weight, given_groups, known, checked, seed, fits)
            try:
                if isinstance(regressor, PlrError):
                    raise regressor
                found = predict_folds(folds, run, len(sets), n_jobs)
                # Refused here where it is no number, and not when all are measured.
                candidate_likelihood(found[:, 0], sets, weight)
            except Exception as error:
                if error is fits.raised:
                    raise
                first_error = first_error or error
                name = "" if isinstance(error, PlrError) else f"{type(error).__name__}: "
                left_out[_pair(learner, weighting)] = name + " ".join(str(error).split())
                fits.skip(len(folds), run.done)
                continue
            measured[learner, weighting] = (*found.T, run.seconds / len(folds))
        dependent = _depends(X, sets)
    # A part of the rows may have texts that are nearly all different where all rows have not.
    _tell_once([one for one in caught if one.category is not IdentifierWarning])
    if not measured:
        assert first_error is not None
        raise first_error
    return _table(sets, checked, weight, given_groups, measured, left_out, len(folds), dependent)


class _Progress:
    """Tells how many fits are done."""

    def __init__(self, callback: Callable[[int, int, float], object] | None, total: int) -> None:
        self._callback, self._total, self._done = callback, total, 0
        self.raised: Exception | None = None

    def step(self, fits: int = 1) -> None:
        self._done += fits
        if self._callback is not None:
            try:
                self._callback(self._done, self._total, 0.0)
            except Exception as error:
                # Whoever follows the fits stops them in this way.
                self.raised = error
                raise

    def skip(self, fits: int, done: int) -> None:
        self.step(fits - done)


class _Run:
    """Fits one regressor without one fold, and predicts the fold."""

    def __init__(
        self,
        regressor: Any,
        X: Any,
        S: CandidateSets,
        weight: Floats | None,
        groups: NDArray[Any] | None,
        known: Any,
        checked: CheckedRows | None,
        seed: int,
        fits: _Progress,
    ) -> None:
        self.regressor, self.X, self.S, self.weight, self.groups = regressor, X, S, weight, groups
        self.known, self.checked, self.seed, self.fits = known, checked, seed, fits
        self.seconds, self.done = 0.0, 0

    def __call__(self, fold: int, train: Rows, test: Rows) -> Floats:
        """Return predictions, and whether the likeliest candidate is the true one, as far as that is known."""
        parameters = {**self.regressor.get_params(deep=False), "random_state": (self.seed + fold + 1) % 2**31}
        model = PartialLabelRegressor(**parameters)
        known = None if self.checked is None else _rows_of(self.known, train)
        started = time.perf_counter()
        model.fit(
            features_of(self.X, train),
            self.S[train],
            sample_weight=None if self.weight is None else self.weight[train],
            groups=None if self.groups is None else self.groups[train],
            known=known,
        )
        self.seconds += time.perf_counter() - started
        rest, sets, right = features_of(self.X, test), self.S[test], np.full(len(test), np.nan)
        if self.checked is not None:
            candidates = np.concatenate([np.arange(*self.S.offsets[row : row + 2]) for row in test])
            part = self.checked.take(test, candidates)
            chosen = sets.offsets[:-1] + model.identify(rest, sets).index
            found = part.found(sets) & (sets.unique().sizes > 1)
            right = np.where(found, part.true[chosen], np.nan)
        prediction = model.predict(rest)
        self.done += 1
        self.fits.step()
        return np.column_stack([prediction, right])


def _regressors(learners: Any, weightings: Any, parameters: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Return a regressor for each pair of names, or why there is none."""
    known = PartialLabelRegressor._get_param_names()
    for name in parameters:
        if name not in known or name in ("learner", "weighting", "cv", "random_state", "n_jobs"):
            raise ParameterError(f"compare takes no parameter {name!r} of PartialLabelRegressor; leave it out.")
    effort = parameters.pop("effort", None)
    if effort is not None:
        check_choice("effort", effort, EFFORTS)
    made: dict[tuple[str, str], Any] = {}
    pairs = itertools.product(_named("learners", learners), _named("weightings", weightings))
    for (learner_name, learner), (weighting_name, weighting) in pairs:
        if (learner_name, weighting_name) in made:
            raise ParameterError(f"{_pair(learner_name, weighting_name)} is there twice; give each a name of its own.")
        regressor = PartialLabelRegressor(learner, weighting, **parameters)
        found, rule, _ = regressor._resolve()
        if effort is not None and found.has_effort:
            regressor.set_params(effort=effort)
            regressor._resolve()
        try:
            found.check_weighting(rule)
        except ParameterError as error:
            made[learner_name, weighting_name] = error
        else:
            made[learner_name, weighting_name] = regressor
    return made


def _named(parameter: str, given: Any) -> list[tuple[str, Any]]:
    """Return the names and instances of an axis."""
    if isinstance(given, Mapping):
        return [(str(name), one) for name, one in given.items()]
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ParameterError(
            f"{{parameter}} must be a list of names or instances, or a mapping of names to them, got {given!r}.",
            parameter=parameter,
        )
    return [(one if isinstance(one, str) else " ".join(repr(one).split()), one) for one in given]


def _pair(learner: str, weighting: str) -> str:
    return learner if weighting == "auto" else f"{learner}, {weighting}"


def _rows_of(known: Any, rows: Rows) -> Any:
    """Return what is known of some rows, in the form in which it came."""
    if isinstance(known, Mapping) or (is_frame(known) and not hasattr(known, "iloc")):
        return {name: _cells(column)[rows] for name, column in columns_of(known)}
    return features_of(known if hasattr(known, "shape") else _cells(known), rows)


def _cells(column: Any) -> NDArray[Any]:
    cells = column.to_pylist() if hasattr(column, "to_pylist") else column
    return np.asarray(cells, dtype=object)


def _depends(X: Any, S: CandidateSets) -> bool:
    """Return whether false candidates depend on the features, as far as these can be looked at."""
    try:
        return find_dependence(X, S).found
    except (PlrError, TypeError, ValueError):
        return False


def _tell_once(caught: list[warnings.WarningMessage]) -> None:
    """Repeat warnings of the fits: of ours, the first of each kind."""
    seen = set()
    for one in caught:
        key: Any = one.category if issubclass(one.category, PlrWarning) else (one.category, str(one.message))
        if key not in seen:
            seen.add(key)
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _table(
    S: CandidateSets,
    checked: CheckedRows | None,
    weight: Floats | None,
    groups: NDArray[Any] | None,
    measured: dict[tuple[str, str], tuple[Floats, Floats, float]],
    left_out: dict[str, str],
    folds: int,
    dependent: bool,
) -> Comparison:
    counts = np.ones(len(S)) if weight is None else weight
    units = np.arange(len(S)) if groups is None else np.unique(groups, return_inverse=True)[1]
    labelled = np.zeros(len(S), dtype=bool) if checked is None else checked.labelled & (counts > 0)
    likelihoods = {pair: candidate_likelihood(found[0], S, weight) for pair, found in measured.items()}
    errors = {pair: _errors(found, checked, labelled, counts, units) for pair, found in measured.items()}
    ranked_by = "mae" if dependent and labelled.sum() >= _ENOUGH_CHECKED else "likelihood"

    def rank(pair: tuple[str, str]) -> float:
        likelihood = float(np.average(likelihoods[pair], weights=counts))
        return float(errors[pair]["mae"] or 0.0) if ranked_by == "mae" else -likelihood

    order = sorted(measured, key=rank)
    best, models = likelihoods[order[0]], []
    for pair in order:
        mean, error = _mean_and_error(likelihoods[pair], counts, units)
        behind, behind_error = _mean_and_error(best - likelihoods[pair], counts, units)
        models.append(Compared(*pair, mean, error, behind, behind_error, **errors[pair], seconds=measured[pair][2]))
    caution = ""
    if dependent:
        few = "" if ranked_by == "mae" else " Look up the true labels of 20 to 50 rows, and give them as known labels."
        caution = _DEPENDS + few
    predictions = np.column_stack([measured[pair][0] for pair in order])
    number = int(labelled.sum())
    return Comparison(tuple(models), len(S), folds, number, ranked_by, caution, left_out, predictions)


def _errors(
    found: tuple[Floats, Floats, float],
    checked: CheckedRows | None,
    labelled: NDArray[np.bool_],
    counts: Floats,
    units: Rows,
) -> dict[str, Any]:
    """Return the figures on checked rows; None each where there are none."""
    figures: dict[str, Any] = dict.fromkeys(("mae", "mae_error", "rmse", "r2", "right"))
    if checked is None:
        return figures
    prediction, right, _ = found
    weight = counts * checked.stands_for
    if labelled.any():
        labels, off = checked.value[labelled], np.abs(prediction - checked.value)[labelled]
        part = weight[labelled]
        figures["mae"], figures["mae_error"] = _mean_and_error(off, part, units[labelled])
        figures["rmse"] = float(np.sqrt(np.average(off**2, weights=part)))
        if labelled.sum() > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UndefinedMetricWarning)
                figures["r2"] = r2(labels, prediction[labelled], part)
    seen = ~np.isnan(right) & (weight > 0)
    if seen.any():
        figures["right"] = float(np.average(right[seen], weights=weight[seen]))
    return figures


def _mean_and_error(values: Floats, weight: Floats, units: Rows) -> tuple[float, float]:
    """Return a weighted mean and its standard error, rows of one group counting as one observation."""
    mean = float(np.average(values, weights=weight))
    sums = np.bincount(units, weight * (values - mean))
    many = np.count_nonzero(np.bincount(units, weight))
    spread = float(np.sqrt((sums**2).sum())) / float(weight.sum())
    return mean, spread * (many / (many - 1)) ** 0.5 if many > 1 else float("inf")


def with_error(value: float | None, error: float | None) -> str:
    """Return a figure with its standard error, to two digits of the latter.

    >>> with_error(1.23456, 0.0234), with_error(1234.56, 78.9), with_error(0.5, 0.0)
    ('1.235 ± 0.023', '1235 ± 79', '0.5 ± 0')
    """
    if value is None or error is None:
        return ""
    if not (np.isfinite(error) and error > 0):
        return f"{value:.4g} ± {error:.2g}"
    digits = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{digits}f} ± {error:.{digits}f}"
