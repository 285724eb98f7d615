"""The density start: true labels pile up where features are alike, false ones do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_choice
from plr.errors import ParameterError
from plr.learners.base import Task
from plr.start.base import Start
from plr.start.models import DensityModel

__all__ = ["FEW_ROWS", "MODELS", "Density", "choose_models"]

Floats = NDArray[np.float64]

# Up to so many rows several estimates of each kind compete. From there on, one of each kind is enough, and networks
# can tell finer bins apart.
FEW_ROWS = 2_000
# From so many rows on, trees are fewer and see fewer rows each.
_MANY_ROWS = 20_000


def _trees(rows: int) -> list[DensityModel]:
    from plr.start.forest import Forest

    if rows < FEW_ROWS:
        return [Forest(rows_per_leaf=5), Forest(rows_per_leaf=30)]
    return [Forest(rows_per_leaf=30) if rows < _MANY_ROWS else Forest(rows_per_leaf=30, trees=40, most_rows=5_000)]


def _networks(rows: int) -> list[DensityModel]:
    from plr.start.network import Network

    if rows < FEW_ROWS:
        return [Network(bins=12, weight_decay=5.0), Network(bins=24, weight_decay=0.5)]
    return [Network(bins=24, weight_decay=0.5, steps=1500), Network(bins=48, weight_decay=0.2, steps=1500)]


def _neighbours(_: int) -> list[DensityModel]:
    from plr.start.neighbours import Neighbours

    return [Neighbours(count=10), Neighbours(count=40)]


MODELS: dict[str, Callable[[int], list[DensityModel]]] = {
    "trees": _trees,
    "network": _networks,
    "neighbours": _neighbours,
}
"""Kinds of estimates, each by the number of rows it is for."""


def choose_models(models: str | Sequence[str], rows: int) -> list[DensityModel]:
    """Return the estimates that a parameter ``models`` stands for."""
    if isinstance(models, str):
        name = check_choice("models", models, ("auto", *MODELS))
        names = ["trees", "network"] if name == "auto" else [name]
    elif isinstance(models, Sequence) and len(models):
        names = [check_choice("models", name, MODELS) for name in models]
    else:
        raise ParameterError(
            f"models must be 'auto', one of {', '.join(sorted(MODELS))}, or a sequence of these, got {models!r}."
        )
    return [model for name in dict.fromkeys(names) for model in MODELS[name](rows)]


class Density(Start):
    """Start from where candidates pile up.

    Rows that are alike share the place of their true labels, and false ones fall anywhere. So the density of candidates
    given the features has its bumps at the truth before any regression is fitted, and no first guess to be confirmed.
    Random forests over label bins and networks over label bins estimate it out of fold. Their mixture, weighed by the
    likelihood of held-out candidate sets, gives each candidate its first share. The density of false labels is part of
    the mixture: where features say nothing, it takes over, and the shares are the priors.

    Parameters
    ----------
    models : str or sequence of str, default="auto"
        ``"trees"``, ``"network"``, ``"neighbours"``, or several of these. ``"auto"`` is trees and network.

    Notes
    -----
    How much is computed depends on the number of rows alone, so the same seed gives the same weights, whatever
    ``n_jobs``. Bins are equally wide from the smallest candidate to the largest; where a few candidates lie far out,
    the shares say little and stay near the priors.

    Examples
    --------
    >>> import numpy as np
    >>> from plr import PartialLabelRegressor, make_candidates
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(200, 1))
    >>> S = make_candidates(np.abs(X[:, 0]), 3, set_size="fixed", random_state=0)
    >>> model = PartialLabelRegressor("linear", start="density", random_state=0).fit(X, S)
    >>> model.start_weights_.shape == S.values.shape
    True
    """

    def __init__(self, models: str | Sequence[str] = "auto") -> None:
        self.models = models

    @classmethod
    def for_draws(cls, rows: int) -> Density:
        """Return the density that draws begin with: they get over a wrong beginning, so for few rows trees will do."""
        return cls("trees") if rows < FEW_ROWS else cls()

    def weights(self, task: Task, cv: object) -> Floats:
        """Return the first weights of all candidates."""
        from plr.start.mixture import estimate

        models = choose_models(self.models, len(task.S))
        if (task.S.sizes == 1).all():
            return np.ones(len(task.S))
        return estimate(task, cv, models).weights
