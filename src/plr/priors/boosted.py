"""Utilities of candidates by boosted trees: a softmax within rows, grown on the checked rows from a logit on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr._parameters import check_integer, check_number
from plr.priors.logit import Alternatives
from plr.priors.utilities import CandidateTable, FittedUtility, UtilityModel
from plr.threads import LIGHTGBM

if TYPE_CHECKING:
    import lightgbm

__all__ = ["BoostedLogit", "BoostedUtility"]

Floats = NDArray[np.float64]

_FOLDS = 5
# Rounds without a better one after which no more trees are tried.
_PATIENCE = 20
# Trees must lower the log loss of rows that they have not seen by so many of its standard errors.
_ERRORS = 1.0
# Candidates in a leaf, at least, and the L2 penalty on its value.
_LEAST_IN_LEAF, _PENALTY = 20, 1.0
# Columns that are named in words, the most important first.
_MOST_NAMED = 3


@dataclass(frozen=True)
class BoostedUtility(FittedUtility):
    """Trees whose sum is added to the utilities of the conditional logit.

    Attributes
    ----------
    booster : lightgbm.Booster
    names : tuple of str
        The columns.
    """

    booster: lightgbm.Booster = field(repr=False)
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        require(self.booster.num_feature() == len(self.names), "the trees have other columns than they are given")

    def check_names(self, names: tuple[str, ...]) -> None:
        """Raise ValueError where it was fitted to columns of other names."""
        require(self.names == names, "the trees were grown on other columns")

    def utility(self, features: CandidateTable) -> Floats:
        """Return one number per candidate."""
        with LIGHTGBM.work(1):
            return features.logit + np.asarray(self.booster.predict(features.values, num_threads=1))

    def describe(self) -> list[str]:
        """Return how many trees there are, and what they go by most."""
        gain = np.asarray(self.booster.feature_importance("gain"), dtype=float)
        shares = gain / max(gain.sum(), np.finfo(float).tiny)
        first = [place for place in np.argsort(-shares, kind="stable")[:_MOST_NAMED] if shares[place] > 0]
        named = ", ".join(f"{self.names[place]} ({shares[place]:.0%})" for place in first)
        trees = self.booster.num_trees()
        return [f"{trees} boosted tree{'s' * (trees > 1)} correct this, mostly by: {named}"]


class BoostedLogit(UtilityModel):
    """Utilities by LightGBM's trees, which are grown on the checked rows and added to a conditional logit.

    Trees find what a weighted sum of features cannot say: thresholds, and features that count more for some candidates,
    or in some rows, than in others. They need many checked rows: some hundreds rather than some dozens. How many trees
    are grown is chosen by cross-validation over the checked rows; none are, and the conditional logit is left as it is,
    where they do not lower the log loss of the true candidates by more than its standard error.

    Parameters
    ----------
    n_estimators : int, default=200
        Trees, at most.
    learning_rate : float, default=0.05
    num_leaves : int, default=4
        Leaves of a tree, at most.
    min_checked_rows : int, default=50
        With fewer checked rows of several candidates no tree is tried.

    Examples
    --------
    >>> from plr import PartialLabelRegressor
    >>> from plr.priors import BoostedLogit
    >>> PartialLabelRegressor(prior=BoostedLogit(num_leaves=8))
    PartialLabelRegressor(prior=BoostedLogit(num_leaves=8))
    """

    def __init__(
        self,
        n_estimators: int = 200,
        learning_rate: float = 0.05,
        num_leaves: int = 4,
        min_checked_rows: int = 50,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_checked_rows = min_checked_rows

    def fit(
        self,
        features: CandidateTable,
        true: NDArray[np.bool_],
        weights: Floats,
        folds: NDArray[np.int64],
        seed: int,
    ) -> BoostedUtility | None:
        """Grow trees on checked rows; None where they do not help."""
        most = check_integer("n_estimators", self.n_estimators, low=1)
        least = check_integer("min_checked_rows", self.min_checked_rows, low=2)
        settings = {
            "objective": "none",
            "metric": "none",
            "learning_rate": check_number("learning_rate", self.learning_rate, low=0.0, open_low=True),
            "num_leaves": check_integer("num_leaves", self.num_leaves, low=2),
            "min_data_in_leaf": _LEAST_IN_LEAF,
            "min_data_per_group": _LEAST_IN_LEAF,
            "min_sum_hessian_in_leaf": 0.0,
            "lambda_l2": _PENALTY,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_col_wise": True,
            "seed": seed,
            "num_threads": 1,
            "verbosity": -1,
        }
        fold = np.unique(folds, return_inverse=True)[1] % _FOLDS
        if len(weights) < least or fold.max() == 0:
            return None
        with LIGHTGBM.work(1):
            parts = [
                _Trees(features, true, weights, settings, held_out=fold == number) for number in range(fold.max() + 1)
            ]
            # The logit has seen the rows held out, so that trees have to improve on more than they would on new rows.
            count = _best_count(parts, most, np.concatenate([weights[fold == n] for n in range(len(parts))]))
            if count == 0:
                return None
            trees = _Trees(features, true, weights, settings)
            for _ in range(count):
                trees.grow()
            return BoostedUtility(trees.model(), features.names)


def _best_count(parts: Sequence[_Trees], most: int, weights: Floats) -> int:
    """Return the number of trees with the lowest log loss of rows that they have not seen; 0 where none helps."""
    losses = [np.concatenate([part.losses() for part in parts])]
    means = [float(np.average(losses[0], weights=weights))]
    while len(losses) <= most and len(losses) - int(np.argmin(means)) <= _PATIENCE:
        for part in parts:
            part.grow()
        losses.append(np.concatenate([part.losses() for part in parts]))
        means.append(float(np.average(losses[-1], weights=weights)))
    best = int(np.argmin(means))
    gain = losses[0] - losses[best]
    shares = weights / weights.sum()
    error = np.sqrt(float(shares**2 @ (gain - shares @ gain) ** 2))
    return best if means[0] - means[best] > _ERRORS * error else 0


class _Trees:
    """Trees that grow by one a round on the candidates of some rows, and are tried on those of the others."""

    def __init__(
        self,
        features: CandidateTable,
        true: NDArray[np.bool_],
        weights: Floats,
        settings: dict[str, Any],
        held_out: NDArray[np.bool_] | None = None,
    ) -> None:
        import lightgbm

        kept = np.ones(len(weights), dtype=bool) if held_out is None else ~held_out
        part, lines = features.take(kept), kept[features.sets.rows]
        self._sets, self._each = part.sets, weights[kept][part.sets.rows]
        self._ruled_out = np.where(true[lines], 0.0, -np.inf)
        data = lightgbm.Dataset(
            part.values,
            np.zeros(len(part.logit)),
            init_score=part.logit,
            categorical_feature=list(features.categorical),
            params=settings,
        )
        self._booster = lightgbm.Booster(settings, data)
        self._held: tuple[Alternatives, Floats] | None = None
        if held_out is not None:
            other, lines = features.take(held_out), held_out[features.sets.rows]
            valid = data.create_valid(other.values, np.zeros(len(other.logit)), init_score=other.logit, params=settings)
            self._booster.add_valid(valid, "held out")
            self._held = other.sets, np.where(true[lines], 0.0, -np.inf)

    def grow(self) -> None:
        """Grow the next tree."""

        def objective(utility: Floats, _data: object) -> tuple[Floats, Floats]:
            share, of_true = self._sets.softmax(utility), self._sets.softmax(utility + self._ruled_out)
            return self._each * (share - of_true), self._each * share * (1.0 - share)

        self._booster.update(fobj=objective)

    def losses(self) -> Floats:
        """Return the log loss of the true candidate of each row that was held out."""
        assert self._held is not None
        sets, ruled_out = self._held
        found: list[Floats] = []

        def keep(utility: Floats, _data: object) -> tuple[str, float, bool]:
            found.append(sets.log_sum_exp(utility) - sets.log_sum_exp(utility + ruled_out))
            return "log loss", 0.0, False

        self._booster.eval_valid(keep)
        return found[0]

    def model(self) -> lightgbm.Booster:
        """Return the trees without the data they grew on."""
        import lightgbm

        return lightgbm.Booster(model_str=self._booster.model_to_string())
