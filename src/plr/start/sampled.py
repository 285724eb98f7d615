"""The sampled start: draws of which candidates a Gaussian process can agree on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from plr.learners.base import Task
from plr.learners.gaussian_process import GaussianProcess
from plr.start.base import Start
from plr.start.density import Density

__all__ = ["Sampled"]

Floats = NDArray[np.float64]


class Sampled(Start):
    """Start from what a Gaussian process makes of the candidates.

    A candidate's weight is how often it was drawn as the true one (`plr.learners.GaussianProcess`), each time from what
    all other rows said. The draws begin with the density start. It takes longer than the density alone and is far surer
    of the truth where there are few rows; the learner keeps its weights as a prior.

    Parameters
    ----------
    trust : float, default=0.5
        The learner's priors are multiplied by the weights to this power. With 0 the learner begins with the weights and
        forgets them, with 1 it takes them for evidence as good as its own.
    process : GaussianProcess, optional

    Examples
    --------
    >>> from plr import PartialLabelRegressor
    >>> from plr.start import Sampled
    >>> PartialLabelRegressor("mlp", start=Sampled(trust=0.3))
    PartialLabelRegressor(learner='mlp', start=Sampled(trust=0.3))
    """

    def __init__(self, trust: float = 0.5, process: GaussianProcess | None = None) -> None:
        self.trust = trust
        self.process = process

    def weights(self, task: Task, cv: object) -> Floats:
        """Return the first weights of all candidates."""
        if (task.S.sizes == 1).all():
            return np.ones(len(task.S))
        process = GaussianProcess() if self.process is None else clone(self.process)
        task = replace(task, start=Density.for_draws(len(task.S)).weights(task, cv))
        return process.fit(task).weights
