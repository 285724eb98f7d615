"""Can this data be learned from? Answered before anything is fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_integer
from plr.candidates import CandidateSets, as_candidate_sets
from plr.candidates.known import read_known
from plr.contracts import Task
from plr.diagnosis.ambiguity import (
    OutlyingValue,
    Relation,
    ValuePair,
    find_relations,
    further_relations,
    labelled_rows,
    outlying_values,
    values_together,
)
from plr.diagnosis.findings import ENOUGH_ROWS, NOT_MEASURED, Diagnosis
from plr.diagnosis.signal import Signal, is_plain, measure_signal
from plr.diagnosis.twins import always_one_side, follows_one_of_two, telling_rows
from plr.errors import CandidateError, LengthError, PlrError
from plr.folds import make_folds, row_weights, take_rows
from plr.preprocessing.features import learn_encoding
from plr.priors.dependence import Dependence, explain, intraclass_correlation
from plr.priors.learned import RowFeatures, check_match_score, teaching_rows
from plr.priors.logit import Alternatives
from plr.priors.smoothing import KernelSmoother

__all__ = [
    "Diagnosis",
    "OutlyingValue",
    "Relation",
    "Signal",
    "ValuePair",
    "check",
    "diagnose",
    "diagnose_fit",
    "find_dependence",
    "measured",
]

Floats = NDArray[np.float64]

# Rows that features are looked at on, and after a fit their number times that of the columns.
_ROWS, _MOST_CELLS = 5_000, 500_000
_FOLDS = 5
# Rows that pairs of values are counted in.
_MOST_ROWS = 20_000
# From this share of the rows with the commoner one on, two values always come together.
_ALWAYS = 0.95
# From this share of the rows on, a relation is one of the whole table.
_EVERYWHERE = 0.9
# Priors as near to each other say nothing; nor do those, or match scores, that differ in fewer rows.
_SAME_PRIOR, _FEW_PRIORS = 1e-3, 0.02


def check(
    X: Any,
    S: Any,
    known: Any = None,
    *,
    match_score: str | None = None,
    rows: int = _ROWS,
    random_state: int = 0,
) -> Diagnosis:
    """Look at candidate sets before fitting: how ambiguous they are, and whether features can tell which one is true.

    Parameters
    ----------
    X : array-like of shape (n, d)
        As `PartialLabelRegressor` takes it.
    S : candidate sets
        As `PartialLabelRegressor` takes them.
    known : array-like of shape (n,) or table of n rows, optional
        True labels of rows that somebody looked up, NaN elsewhere, as ``fit`` of `PartialLabelRegressor` takes them.
    match_score : str, optional
        The feature of the candidates that is a score, the larger the more believable, as `PartialLabelRegressor` takes
        it: it counts as a prior does.
    rows : int, default=5000
        Rows that the estimate of what features say is made on, drawn at random where there are more.
    random_state : int, default=0
        The same number gives the same answer.

    Returns
    -------
    Diagnosis
        Prints as a summary in words; fields and ``to_dict()`` have the figures.

    Examples
    --------
    >>> import numpy as np
    >>> import plr
    >>> X = np.random.default_rng(0).uniform(0, 1, size=(300, 1))
    >>> S = plr.make_candidates(3 * X[:, 0], 3, random_state=0)
    >>> plr.check(X, S).verdict
    'fine'
    """
    check_integer("rows", rows, low=50)
    check_integer("random_state", random_state)
    sets = as_candidate_sets(S)
    matrix, categorical = _as_matrix(X)
    if len(matrix) != len(sets):
        raise LengthError(f"X has {len(matrix)} rows and S {len(sets)}; they must agree.")
    if len(sets) == 0:
        raise CandidateError("There are no rows to look at; give at least one.")
    checked = read_known(known, sets)
    if match_score is not None:
        check_match_score(sets, match_score)
    task = replace(_task(matrix, sets, categorical, random_state), known=checked)
    dependence = _look_for_dependence(task, rows)
    task = task if checked is None else replace(task, S=checked.settle(sets))
    return diagnose(
        task,
        rows=rows,
        dependence=dependence,
        checked_rows=int(teaching_rows(sets, checked).sum()),
        has_score=match_score is not None and _score_differs(sets, match_score),
    )


def find_dependence(X: Any, S: CandidateSets, *, random_state: int = 0) -> Dependence:
    """Find out on some rows whether false candidates depend on the features.

    Parameters
    ----------
    X : array-like of shape (n, d)
    S : CandidateSets
    random_state : int, default=0
    """
    matrix, categorical = _as_matrix(X)
    return _look_for_dependence(_task(matrix, S, categorical, random_state), _ROWS)


def _look_for_dependence(task: Task, rows: int) -> Dependence:
    """Return whether false candidates depend on the features, found on at most so many rows."""
    from plr.learners import Density
    from plr.learners.starts import DensityStart, first_weights

    if len(task.S) > rows:
        task = take_rows(task, np.sort(np.random.default_rng(task.seed).permutation(len(task.S))[:rows]))
    given, known, weights = task.S, task.known, row_weights(task)
    dependence = Dependence(intraclass_correlation(Alternatives(given.offsets), given.values, weights))
    folds = [test for _, test in make_folds(task, _FOLDS)]
    if not dependence.needs_predictions or not folds:
        return dependence
    task = (task if known is None else replace(task, S=known.settle(given))).prepared()
    first, _ = first_weights(DensityStart.for_draws(len(given)), task, _FOLDS, Density())
    features = RowFeatures(None, learn_encoding(task.X, task.categorical))
    smoother = KernelSmoother(features.encode(task.X), folds, task.seed)
    return explain(dependence, given, task.S, task.preprocess().target, first, smoother, weights)


def diagnose(
    task: Task,
    *,
    rows: int = _ROWS,
    probabilities: Floats | None = None,
    quick: bool = False,
    dependence: Dependence | None = None,
    checked_rows: int = 0,
    has_score: bool = False,
    informed: bool = False,
) -> Diagnosis:
    """Look at a task: what `check` does before fitting, and the regressor after it.

    Parameters
    ----------
    task : Task
        Features as a matrix, and the candidate sets.
    rows : int
        Rows that features are looked at on, at most.
    probabilities : ndarray, one entry per candidate, optional
        What a fitted model makes of the candidates: it shows whether twins are always taken on the same side.
    quick : bool, default=False
        Whether to measure what features say only where nothing simpler shows that they say something, and where there
        are enough rows for the absence of it to mean something.
    dependence : Dependence, optional
        Whether false candidates depend on the features.
    checked_rows : int
        Rows of several candidates of which the true one is known.
    has_score : bool
        Whether a match score tells some candidates from others.
    informed : bool
        Whether it is known already that features say something.
    """
    sets, random = task.S, np.random.default_rng(task.seed)
    once = sets.unique()
    starts, sizes, several = once.offsets[:-1], once.sizes, float(np.mean(once.sizes > 1))
    low, high = np.quantile(once.values, [0.05, 0.95]).tolist()
    spread = high - low
    looked_at = once if len(once) <= _MOST_ROWS else once[np.sort(random.permutation(len(once))[:_MOST_ROWS])]
    together, recurring = values_together(looked_at)
    relations = find_relations(looked_at, spread, random)
    labelled = labelled_rows(once, spread)
    part = replace(task, S=once)
    if len(once) > rows:
        chosen = np.sort(random.permutation(len(once))[:rows])
        part = replace(task, X=task.X[chosen], S=once[chosen])
    # A relation by which every row has two candidates that fit equally well: both are functions of the features, or a
    # model always takes the same one of the two.
    everywhere = (each for each in relations if each.kind != "digit" and each.share * several >= _EVERYWHERE)
    twins = next(everywhere, None)
    if twins is not None and not follows_one_of_two(part, twins, spread):
        one_sided = probabilities is not None and always_one_side(sets, probabilities, twins, spread)
        twins = twins if one_sided else None
    alike = bool(sizes[0] > 1 and (sizes == sizes[0]).all())
    if alike:
        in_order = np.sort(once.values.reshape(len(once), -1), axis=1)
        alike = bool((in_order == in_order[0]).all())
    plain = not alike and (informed or is_plain(part))
    dependent = dependence is not None and dependence.found
    settled = twins is not None or alike or plain or dependent or len(sets) < ENOUGH_ROWS
    prior = once.prior_or_uniform
    differing = np.maximum.reduceat(prior, starts) - np.minimum.reduceat(prior, starts) > _SAME_PRIOR
    # The probability that a certain false label comes with a true one, where it is known by its value, or by how it
    # follows from the true one.
    by_value = max((pair.share for pair in together), default=0.0)
    by_relation = max((relation.share for relation in relations if relation.kind != "digit"), default=0.0)
    return Diagnosis(
        rows=len(sets),
        candidates=len(sets.values),
        sizes={
            "least": int(sets.sizes.min()),
            "median": float(np.median(sets.sizes)),
            "mean": float(sets.sizes.mean()),
            "most": int(sets.sizes.max()),
            "one": int((sets.sizes == 1).sum()),
        },
        labelled_rows=int(labelled.sum()),
        rows_with_duplicates=int((sizes < sets.sizes).sum()),
        rows_all_equal=int(((sizes == 1) & (sets.sizes > 1)).sum()),
        all_alike=alike,
        spread=spread,
        ambiguity_degree=max(by_value, by_relation * several),
        recurring_values=recurring,
        together=tuple(together[:5]),
        always_together=tuple([pair for pair in together if pair.share >= _ALWAYS][:5]),
        relations=tuple(relations),
        twins=twins,
        further_twins=() if twins is None else tuple(further_relations(looked_at, spread, twins, random)),
        telling_rows=0 if twins is None else telling_rows(once, labelled, twins, spread),
        odd_values=tuple(outlying_values(once, low, high)[:5]),
        has_prior=bool(np.mean(differing) >= _FEW_PRIORS),
        plain=plain,
        signal=None if quick and settled else measure_signal(part),
        dependence=dependence,
        checked_rows=checked_rows,
        has_score=has_score,
    )


def _score_differs(S: CandidateSets, name: str) -> bool:
    """Return whether a match score differs within enough rows to count."""
    score, starts = S.features[name], S.offsets[:-1]
    # Differences with what is missing or infinite do not count.
    score = np.where(np.isfinite(score), score, np.nan)
    differing = np.fmax.reduceat(score, starts) > np.fmin.reduceat(score, starts)
    return bool(np.mean(differing) >= _FEW_PRIORS)


def diagnose_fit(
    task: Task,
    prediction: Floats,
    probabilities: Floats,
    dependence: Dependence | None = None,
    checked_rows: int = 0,
    informed: bool = False,
) -> Diagnosis | None:
    """Look at what a model was fitted to; None where there was nothing to identify.

    Parameters
    ----------
    task : Task
        The rows, with the priors that the user gave.
    prediction, probabilities : ndarray
        The model's prediction of each row, and the probability of each candidate.
    dependence, checked_rows, informed
        As in `diagnose`.
    """
    counts = np.ones(len(task.S), dtype=bool) if task.sample_weight is None else task.sample_weight > 0
    if (task.S.unique().sizes[counts] == 1).all():
        return None
    try:
        is_matrix = isinstance(task.X, np.ndarray) and task.X.ndim == 2 and task.X.dtype == np.float64
        matrix, categorical = (task.X, task.categorical) if is_matrix else _as_matrix(task.X)
    except (PlrError, TypeError, ValueError):
        # Of texts and images, the prediction is what can be looked at: twins are functions of it too.
        matrix, categorical = prediction[:, None], ()
    sets = task.S
    if not counts.all():
        chosen = np.flatnonzero(counts)
        probabilities = probabilities[counts[sets.row_index]]
        matrix, sets = matrix[chosen], sets[chosen]
    known = task.preprocessing if task.sample_weight is None else None
    looked_at = replace(_task(matrix, sets, categorical, 0), preprocessing=known)
    rows = int(np.clip(_MOST_CELLS // max(matrix.shape[1], 1), 500, _ROWS))
    return diagnose(
        looked_at,
        rows=rows,
        probabilities=probabilities,
        quick=True,
        dependence=dependence,
        checked_rows=checked_rows,
        informed=informed,
    )


def measured(found: Diagnosis, X: Any, S: CandidateSets, *, rows: int = 1_000, random_state: int = 0) -> Diagnosis:
    """Return a diagnosis that a fit made, with what features say, which a fit measures only where it has to.

    Parameters
    ----------
    found : Diagnosis
    X : array-like of shape (n, d)
    S : CandidateSets
        The rows that it is about.
    rows : int
        Rows that are looked at, at most, drawn at random.
    random_state : int
    """
    if found.verdict != NOT_MEASURED:
        return found
    try:
        matrix, categorical = _as_matrix(X)
    except (PlrError, TypeError, ValueError):
        # Texts and images.
        return found
    task = _task(matrix, S.unique(), categorical, random_state)
    if len(S) > rows:
        task = take_rows(task, np.sort(np.random.default_rng(random_state).permutation(len(S))[:rows]))
    return replace(found, signal=measure_signal(task))


def _as_matrix(X: Any) -> tuple[Floats, tuple[int, ...]]:
    """Return features as numbers and codes of categories, and which columns are categories."""
    from plr._checks import check_features
    from plr.learners import Density

    probe: Any = Density()
    matrix = check_features(probe, X, probe, reset=True)
    return matrix, () if probe.columns_ is None else probe.columns_.categorical


def _task(X: Floats, S: CandidateSets, categorical: tuple[int, ...], seed: int) -> Task:
    from plr.losses import Squared
    from plr.weighting import Posterior
    from plr.weighting.rule import Rule

    return Task(X, S, Rule(Posterior(), Squared()), categorical=categorical, seed=seed)
