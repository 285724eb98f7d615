"""Can this data be learned from? Answered before anything is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from plr._parameters import check_integer
from plr.candidates import CandidateSets, as_candidate_sets
from plr.diagnosis.ambiguity import (
    Odd,
    Together,
    always_together,
    labelled_rows,
    odd_values,
    spread_of,
    values_together,
)
from plr.diagnosis.findings import Diagnosis
from plr.diagnosis.relations import Relation, find_relations
from plr.diagnosis.signal import Signal, follows_one_of_two, measure_signal
from plr.errors import CandidateError, LengthError
from plr.learners.base import Task

__all__ = ["Diagnosis", "Odd", "Relation", "Signal", "Together", "check"]

# Rows that pairs of values are counted in.
_MOST_ROWS = 20_000
# From this share of the rows on, a relation is one of the whole table.
_EVERYWHERE = 0.9


def check(X: Any, S: Any, *, rows: int = 5_000, random_state: int = 0) -> Diagnosis:
    """Look at candidate sets before fitting: how ambiguous they are, and whether features can tell which one is true.

    Parameters
    ----------
    X : array-like of shape (n, d)
        As `PartialLabelRegressor` takes it.
    S : candidate sets
        As `PartialLabelRegressor` takes them.
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
    task = _task(X, sets, random_state)
    random = np.random.default_rng(random_state)
    once = sets.unique()
    spread = spread_of(once)
    looked_at = once if len(once) <= _MOST_ROWS else once[np.sort(random.permutation(len(once))[:_MOST_ROWS])]
    together, recurring = values_together(looked_at)
    relations = find_relations(looked_at, spread, random)
    labelled = labelled_rows(once, spread)
    part = _sample(task, once, rows, random)
    several = once.sizes > 1
    twins = _twins(part, relations, float(np.mean(several)))
    return Diagnosis(
        rows=len(sets),
        candidates=len(sets.values),
        sizes=_sizes(sets),
        labelled_rows=int(labelled.sum()),
        rows_with_duplicates=int((once.sizes < sets.sizes).sum()),
        rows_all_equal=int(((once.sizes == 1) & (sets.sizes > 1)).sum()),
        spread=spread,
        ambiguity_degree=_degree(together, relations, float(np.mean(several))),
        recurring_values=recurring,
        together=tuple(together[:5]),
        always_together=tuple(always_together(together)[:5]),
        relations=tuple(relations),
        twins=twins,
        odd_values=tuple(odd_values(once)[:5]),
        has_prior=sets.prior is not None,
        signal=measure_signal(part),
    )


def _task(X: Any, S: CandidateSets, seed: int) -> Task:
    from plr._checks import check_features
    from plr.learners import Density
    from plr.losses import Squared
    from plr.regressor import PartialLabelRegressor
    from plr.weighting import Posterior
    from plr.weighting.rule import Rule

    probe = PartialLabelRegressor()
    matrix = check_features(probe, X, Density(), reset=True)
    if len(matrix) != len(S):
        raise LengthError(f"X has {len(matrix)} rows and S {len(S)}; they must agree.")
    if len(S) == 0:
        raise CandidateError("There are no rows to look at; give at least one.")
    columns = getattr(probe, "columns_", None)
    categorical = () if columns is None else columns.categorical
    return Task(matrix, S, Rule(Posterior(), Squared()), categorical=categorical, seed=seed)


def _sample(task: Task, S: CandidateSets, rows: int, random: np.random.Generator) -> Task:
    from dataclasses import replace

    if len(S) <= rows:
        return replace(task, S=S)
    chosen = np.sort(random.permutation(len(S))[:rows])
    return replace(task, X=task.X[chosen], S=S[chosen])


def _sizes(S: CandidateSets) -> dict[str, float]:
    sizes = S.sizes
    return {
        "least": int(sizes.min()),
        "median": float(np.median(sizes)),
        "mean": float(sizes.mean()),
        "most": int(sizes.max()),
        "one": int((sizes == 1).sum()),
    }


def _degree(together: list[Together], relations: list[Relation], several: float) -> float:
    """Return the largest probability that a certain false label comes with a true one: the paper's γ, estimated.

    A false label may be told by its value, or by how it follows from the true one.
    """
    by_value = max((pair.share for pair in together), default=0.0)
    by_relation = max((relation.share for relation in relations if relation.kind != "digit"), default=0.0)
    return max(by_value, by_relation * several)


def _twins(task: Task, relations: list[Relation], several: float) -> Relation | None:
    """Return the relation by which every row has two candidates that both are functions of the features, if any."""
    for relation in relations:
        if relation.kind != "digit" and relation.share * several >= _EVERYWHERE and len(task.S) >= 20:
            return relation if follows_one_of_two(task, relation) else None
    return None
