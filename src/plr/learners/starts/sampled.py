"""The sampled start: draws of which candidates a Gaussian process can agree on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from plr.contracts import Start, Task
from plr.folds import out_of_fold
from plr.learners.gaussian_process import GaussianProcess
from plr.learners.starts.density import DensityStart
from plr.losses import Squared
from plr.noise import fit_noise
from plr.weighting.posterior import Posterior
from plr.weighting.rule import Rule

__all__ = ["SampledStart"]

Floats = NDArray[np.float64]


class SampledStart(Start):
    """Start from what a Gaussian process makes of the candidates.

    A candidate's weight is how often it was drawn as the true one (`plr.learners.GaussianProcess`), each time from what
    all other rows said. The draws begin with the density start. It takes longer than the density alone and is far more
    confident where there are few rows; the learner keeps its weights as a prior.

    Parameters
    ----------
    trust : float, default=0.5
        The learner's priors are multiplied by the weights to this power. With 0 the learner begins with the weights and
        forgets them, with 1 it takes them for evidence as good as its own.
    process : GaussianProcess, optional

    Examples
    --------
    >>> from plr import PartialLabelRegressor
    >>> from plr.learners.starts import SampledStart
    >>> PartialLabelRegressor("mlp", start=SampledStart(trust=0.3))
    PartialLabelRegressor(learner='mlp', start=SampledStart(trust=0.3))
    """

    def __init__(self, trust: float = 0.5, process: GaussianProcess | None = None) -> None:
        self.trust = trust
        self.process = process

    def weights(self, task: Task, cv: object) -> Floats:
        """Return the first weights of all candidates."""
        process = GaussianProcess() if self.process is None else clone(self.process)
        # Draws have a noise of their own; whatever the learner goes by, they are what it begins with.
        given = task.rule.weighting
        weighting = clone(given).set_params(scale="common") if isinstance(given, Posterior) else Posterior()
        task = replace(task, rule=Rule(weighting, Squared()))
        task = replace(task, start=DensityStart.for_draws(len(task.S)).weights(task, cv))
        if task.groups is None:
            return process.fit(task).weights
        # The other rows of a group would speak for each other, so each group is judged by the noise around predictions
        # without it.
        prediction = out_of_fold(process, task, cv)
        noise = fit_noise(prediction, task.S, None, task.sample_weight, false_labels=task.false_labels)
        return noise.probabilities(prediction, task.S)
