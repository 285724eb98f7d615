"""Methods: what is given to the same learner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.real.cases import Part
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from plr import CandidateSets, PartialLabelRegressor

__all__ = ["CHECKED", "METHODS", "Method"]

Floats = NDArray[np.float64]

CHECKED = (50, 20, 10, 100)
"""How many rows are checked, the most telling number first."""

_LARGEST_COEFFICIENT = 100.0


@dataclass(frozen=True)
class Method:
    """One way to learn from a part of a table.

    Attributes
    ----------
    words : str
        What it is.
    labels : callable or None
        Makes one label a row; None where the sets are given.
    prior : str
        As the regressor's parameter.
    features : bool
        Whether what is known of the candidates is given.
    score : bool
        Whether the score is said to be one: the larger, the more believable.
    checked : int
        How many rows are checked.
    one_to_one : bool
    logit : bool
        A conditional logit on the score alone, which predicts nothing.
    """

    words: str
    labels: Callable[[Part], Floats] | None = None
    prior: str = "auto"
    features: bool = False
    score: bool = False
    checked: int = 0
    one_to_one: bool = False
    logit: bool = False

    def suits(self, part: Part) -> bool:
        """Return whether the table has what the method needs."""
        needs_score = self.score or self.logit or self.labels is best_match
        has_records = not self.one_to_one or part.S.record is not None
        return has_records and ("score" in part.S.features or not needs_score)

    def sets(self, part: Part) -> CandidateSets:
        """Return the candidate sets as the method is given them."""
        S = part.S
        return S if self.features or self.score else CandidateSets(S.values, S.offsets, record=S.record)

    def fit(self, part: Part, known: Floats | None, seed: int) -> PartialLabelRegressor:
        """Return a fitted model."""
        target: Any = self.sets(part) if self.labels is None else self.labels(part)
        model = PartialLabelRegressor(
            effort="low",
            prior=self.prior,
            match_score="score" if self.score else None,
            one_to_one=self.one_to_one,
            random_state=seed,
            n_jobs=1,
        )
        return model.fit(part.X, target, known=known)


def true_labels(part: Part) -> Floats:
    """Return the truth, which no other method sees."""
    return part.truth


def best_match(part: Part) -> Floats:
    """Return the candidate with the highest score of each row; of equals the first."""
    S, score = part.S, part.S.features["score"]
    best = np.lexsort((np.arange(len(score)), -score, S.row_index))[S.offsets[:-1]]
    return np.asarray(S.values[best])


def mean_of_candidates(part: Part) -> Floats:
    """Return the mean of each row's candidates."""
    return np.asarray(np.add.reduceat(part.S.values, part.S.offsets[:-1]) / part.S.sizes)


def score_logit(part: Part, known: Floats) -> float:
    """Return the coefficient of a conditional logit on the score alone, learned from the checked rows."""
    S, score = part.S, part.S.features["score"]
    counted = ~np.isnan(known) & np.logical_or.reduceat(part.is_true, S.offsets[:-1])

    def loss(coefficient: float) -> float:
        utility = coefficient * score
        every = np.logaddexp.reduceat(utility, S.offsets[:-1])
        true = np.logaddexp.reduceat(np.where(part.is_true, utility, -np.inf), S.offsets[:-1])
        return float((every - true)[counted].sum())

    return float(minimize_scalar(loss, bounds=(0.0, _LARGEST_COEFFICIENT), method="bounded").x)


METHODS: dict[str, Method] = {
    "true": Method("true labels", true_labels),
    "best": Method("best match", best_match),
    "mean": Method("mean of candidates", mean_of_candidates),
    "checked-50": Method("50 checked rows", features=True, checked=50),
    "score": Method("no checks, match score", score=True),
    "sets": Method("no checks, sets only"),
    "checked-20": Method("20 checked rows", features=True, checked=20),
    "checked-50-one-to-one": Method("50 checked rows, one-to-one", features=True, checked=50, one_to_one=True),
    "score-one-to-one": Method("no checks, match score, one-to-one", score=True, one_to_one=True),
    "given": Method('`prior="given"`, sets only', prior="given"),
    "checked-10": Method("10 checked rows", features=True, checked=10),
    "checked-100": Method("100 checked rows", features=True, checked=100),
    "checked-20-one-to-one": Method("20 checked rows, one-to-one", features=True, checked=20, one_to_one=True),
    "checked-10-one-to-one": Method("10 checked rows, one-to-one", features=True, checked=10, one_to_one=True),
    "checked-100-one-to-one": Method("100 checked rows, one-to-one", features=True, checked=100, one_to_one=True),
    **{
        f"logit-{count}": Method(f"logit on the score, {count} checked rows", checked=count, logit=True)
        for count in CHECKED
    },
}
"""Every method by name, those that bars are about first."""
