"""The density start: true labels pile up where features are alike, false ones do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plr.contracts import Start, Task
from plr.densities import FEW_ROWS, choose_models

__all__ = ["DensityStart"]

Floats = NDArray[np.float64]


class DensityStart(Start):
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
    def for_draws(cls, rows: int) -> DensityStart:
        """Return the density that draws begin with: they get over a wrong beginning, so for few rows trees will do."""
        return cls("trees") if rows < FEW_ROWS else cls()

    def weights(self, task: Task, cv: object) -> Floats:
        """Return the first weights of all candidates."""
        from plr.densities.mixture import estimate

        return estimate(task, cv, choose_models(self.models, len(task.S))).weights
