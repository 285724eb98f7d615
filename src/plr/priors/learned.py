"""What makes a candidate believable, learned from checked rows and, where possible, from the others.

The probability that candidate j of a row is the true one is taken to be proportional to

    exp(coefficients · features of the candidate) · (p(j) / q(j)) ** exponent

with p the density of the truth around what the other rows predict, and q that of false candidates. Coefficients and
exponent are learned from the checked rows, shrunk towards what is known without any: the given prior with coefficient
1, everything else with 0. Where false candidates depend on the features, q is the density of a row's candidates as its
features predict them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from plr.priors.columns import CandidateColumns
from plr.priors.dependence import FREEDOM, student_scale
from plr.priors.logit import Alternatives, fit_logit
from plr.priors.one_to_one import one_to_one_shares
from plr.priors.smoothing import KernelSmoother, SmoothFunction

__all__ = ["Checked", "LearnedPrior", "learn_prior"]

Floats = NDArray[np.float64]

# Penalties of coefficients of columns that are standardised within rows, to be chosen from by evidence.
_PENALTIES = {
    "own": (0.1, 0.3, 1.0),
    "order": (1.0, 3.0, 10.0, 100.0),
    "built_in": (3.0, 10.0, 30.0, 100.0),
    "prior": (0.1, 1.0, 10.0),
    "exponent": (4.0, 16.0),
}
_EXPONENT = 0.5
_ROUNDS = 3
_SHARPEST = 20.0


@dataclass(frozen=True)
class Checked:
    """Rows whose truth somebody looked up.

    Attributes
    ----------
    rows : ndarray of bool, one entry per row
        Which rows were checked.
    values : ndarray, one entry per row
        Their true labels; NaN elsewhere.
    true : ndarray of bool, one entry per candidate
        Which candidates of a checked row are the true one: none where the truth is not among them.
    """

    rows: NDArray[np.bool_]
    values: Floats
    true: NDArray[np.bool_]


@dataclass(frozen=True)
class LearnedPrior:
    """Coefficients of candidate features, the exponent of p / q, and both densities.

    Attributes
    ----------
    columns : CandidateColumns
    coefficients : ndarray
    exponent : float
    noise : float
        Scale of the truth around predictions, a Student's t.
    centre : SmoothFunction
        Where the candidates of a row lie, by its features.
    spread : float
        Their scale around it.
    checked : int
        How many checked rows it was learned from.
    """

    columns: CandidateColumns
    coefficients: Floats
    exponent: float
    noise: float
    centre: SmoothFunction
    spread: float
    checked: int


def learn_prior(
    X: Floats,
    sets: Alternatives,
    values: Floats,
    columns: CandidateColumns,
    matrix: Floats,
    folds: Sequence[NDArray[np.int64]],
    checked: Checked | None = None,
    records: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> tuple[LearnedPrior, Floats]:
    """Return the prior and each candidate's probability of being the true one."""
    rows, groups = sets.rows, columns.groups
    smoother = KernelSmoother(X, folds, seed)
    middle = sets.sum(values) / sets.sizes
    around = values - smoother.out_of_fold(middle)[rows]
    spread = student_scale(around, 1.0 / sets.sizes[rows])
    log_q = t.logpdf(around, FREEDOM, scale=spread)
    prior_column = np.array([group == "prior" for group in groups])
    coefficients, exponent = prior_column.astype(float), 0.0
    informed = None if checked is None else checked.rows & (sets.sum(checked.true.astype(float)) > 0)
    learns = informed is not None and bool(informed.any())
    names = sorted(set(groups))

    def fit(design: Floats, centre: Floats, kinds: list[str]) -> Floats:
        assert checked is not None and informed is not None
        part, chosen = sets.take(informed)
        found, _ = fit_logit(
            part,
            design[chosen],
            checked.true[chosen],
            [kinds.index(kind) for kind in kinds_of(design)],
            centre,
            [_PENALTIES[kind] for kind in kinds],
        )
        return found

    def kinds_of(design: Floats) -> list[str]:
        return [*groups, "exponent"][: design.shape[1]]

    if learns:
        coefficients = fit(matrix, coefficients, names)
    elif prior_column.any():
        coefficients = 4.0 * coefficients
    ratio = np.zeros(len(values))
    noise = spread
    for _ in range(_ROUNDS):
        shares = _shares(sets, matrix @ coefficients + exponent * ratio, records, checked)
        labels = sets.sum(shares * values)
        if checked is not None:
            labels = np.where(checked.rows, checked.values, labels)
        away = values - smoother.out_of_fold(labels)[rows]
        noise = student_scale(away, shares)
        ratio = t.logpdf(away, FREEDOM, scale=noise) - log_q
        if learns:
            found = fit(
                np.column_stack([matrix, ratio]), np.append(prior_column.astype(float), _EXPONENT), [*names, "exponent"]
            )
            coefficients, exponent = found[:-1], max(float(found[-1]), 0.0)
        elif prior_column.any():
            exponent = _EXPONENT
            grid = np.linspace(0.5, _SHARPEST, 40)
            column = matrix[:, prior_column][:, 0]
            gain = [
                float((sets.log_sum_exp(c * column + ratio) - sets.log_sum_exp(c * column)).sum())
                - 5.0 * np.log(c) ** 2
                for c in grid
            ]
            coefficients = grid[int(np.argmax(gain))] * prior_column
    shares = _shares(sets, matrix @ coefficients + exponent * ratio, records, checked)
    learned = LearnedPrior(
        columns, coefficients, exponent, noise, smoother.fit(middle), spread, int(informed.sum()) if learns else 0
    )
    return learned, shares


def _shares(sets: Alternatives, utility: Floats, records: NDArray[np.int64] | None, checked: Checked | None) -> Floats:
    """Return probabilities; those of checked rows are settled."""
    if checked is not None:
        known = checked.rows & (sets.sum(checked.true.astype(float)) > 0)
        utility = np.where(known[sets.rows] & ~checked.true, -1e3, utility)
    return sets.softmax(utility) if records is None else one_to_one_shares(sets, utility, records)
