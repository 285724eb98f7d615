"""The committee: a Gaussian process and boosted trees, the one telling the other where to begin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from plr._codes import SQUARED
from plr._parameters import check_choice
from plr.candidates import CandidateSets
from plr.errors import ParameterError
from plr.learners.base import Fitted, Learner, Report, Task
from plr.learners.encoding import Encoding, learn_encoding
from plr.learners.folds import check_folds, out_of_fold
from plr.learners.gaussian_process import FittedGaussianProcess, GaussianProcess
from plr.learners.mlp import MLP
from plr.learners.refit import FittedRefit, Refit
from plr.weighting.posterior import Posterior
from plr.weighting.rule import Rule, row_sums, thread_count

__all__ = ["EFFORTS", "Committee", "FittedCommittee"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Effort:
    """How much is computed: a factor for chains and rounds of the Gaussian process, rounds and fits of the trees."""

    chains: float
    rounds: float
    refits: int
    last_fits: int


EFFORTS = {
    "low": _Effort(0.34, 0.5, 2, 1),
    "normal": _Effort(1.0, 1.0, 4, 3),
    "high": _Effort(3.0, 1.5, 8, 6),
}
"""What each level of effort stands for."""

# With fewer rows than this, folds and trees have nothing to say.
_FEWEST_ROWS = 50
# The trees weigh candidates by their own noise and by the square root of the Gaussian process's weights.
_TRUST, _LEAST = 0.5, 1e-3
# The Gaussian process's share in the prediction, and what is tried on plain labels. Neither model is ever left out:
# their mistakes differ.
_EVEN, _SHARES = 0.5, (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class FittedCommittee:
    """Both models, and the Gaussian process's share in the prediction; the rest is the trees'.

    Attributes
    ----------
    process, trees : Fitted
    share : float
    out_of_fold : ndarray of shape (n,)
    report : Report
        Of the trees' rounds.
    """

    process: Fitted
    trees: Fitted
    share: float
    encoding: Encoding
    out_of_fold: Floats
    report: Report

    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row, in the units of the labels."""
        rows = self.encoding.apply(X)
        return self.share * self.process.predict(rows) + (1 - self.share) * self.trees.predict(rows)


class Committee(Learner):
    """A Gaussian process and boosted trees: what ``auto`` stands for.

    The Gaussian process finds out which candidates agree with a smooth function, by draws in which no row judges
    itself (`GaussianProcess`). Boosted trees, which find steps and interactions, are then fitted out of fold in a few
    rounds (`Refit`), beginning with its weights and keeping them as a prior. The prediction is the mean of the two; on
    plain labels, a mean whose shares are chosen out of fold.

    Parameters
    ----------
    effort : {"low", "normal", "high"}, default="normal"
        How many chains, rounds and trees are fitted. It is a plan by the number of rows, not a time: the same seed
        gives the same model.
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        The folds. They keep groups together.

    Notes
    -----
    Below 50 rows it is `MLP`. The loss is squared.

    Examples
    --------
    >>> from plr.learners import Committee
    >>> Committee(effort="high")
    Committee(effort='high')
    """

    takes = "table"
    takes_missing = True

    def __init__(self, effort: str = "normal", cv: object = 5) -> None:
        self.effort = effort
        self.cv = cv

    def fit(self, task: Task) -> Fitted:
        """Fit both models to the task."""
        effort = EFFORTS[check_choice("effort", self.effort, EFFORTS)]
        check_folds(self.cv)
        self.check_weighting(task.rule.weighting)
        if task.rule.formula.loss != SQUARED:
            raise ParameterError("Committee has the squared loss only; for others there are mlp and boosting.")
        if task.validation is not None:
            raise ParameterError("Committee has no epochs to choose from, and no use for validation rows.")
        counted = len(task.S) if task.sample_weight is None else int(np.count_nonzero(task.sample_weight))
        if counted < _FEWEST_ROWS:
            return MLP().fit(task)
        encoding = learn_encoding(task.X, task.categorical, task.sample_weight)
        task = replace(
            task, X=encoding.apply(task.X), categorical=(), names=(), n_jobs=thread_count(task.n_jobs), callback=None
        )
        process = self._process(effort, len(task.S)).fit(task)
        trees, unseen = self._fit_trees(effort, task, process)
        share = self._share(task, process.out_of_fold, unseen)
        mixed = share * process.out_of_fold + (1 - share) * unseen
        return FittedCommittee(process, trees, share, encoding, mixed, trees.report)

    @staticmethod
    def _process(effort: _Effort, rows: int) -> GaussianProcess:
        chains, plan = GaussianProcess()._plan(rows)
        return GaussianProcess(
            chains=max(1, round(chains * effort.chains)), rounds=max(2, round(plan.rounds * effort.rounds))
        )

    def _fit_trees(self, effort: _Effort, task: Task, process: FittedGaussianProcess) -> tuple[FittedRefit, Floats]:
        from lightgbm import LGBMRegressor

        regressor = LGBMRegressor(
            n_estimators=300,
            num_leaves=12,
            learning_rate=0.05,
            min_child_samples=8,
            subsample=0.8,
            subsample_freq=1,
            colsample_bytree=0.8,
            deterministic=True,
            force_col_wise=True,
            n_jobs=1,
            verbosity=-1,
        )
        learner = Refit(regressor, cv=self.cv, max_rounds=effort.refits, last_fits=effort.last_fits)
        task = _informed(task, process.weights)
        fitted = learner.fit(task)
        unseen = fitted.out_of_fold
        return fitted, out_of_fold(clone(learner).set_params(last_fits=1), task, self.cv) if unseen is None else unseen

    @staticmethod
    def _share(task: Task, process: Floats, trees: Floats) -> float:
        """Return the Gaussian process's share in the prediction, given what both predict for unseen rows.

        On plain labels it is the one with the least error. Candidate sets cannot tell: draws and kernel have adapted to
        each other, so that sets look likelier around the process's predictions than new rows' sets would.
        """
        if task.S.values.size > len(task.S):
            return _EVEN
        miss_process, miss_trees = task.S.values - process, task.S.values - trees

        def error(share: float) -> float:
            return float(np.average((share * miss_process + (1 - share) * miss_trees) ** 2, weights=task.sample_weight))

        return min(_SHARES, key=error)


def _informed(task: Task, weights: Floats) -> Task:
    """Return the task as the trees see it: the process's weights to begin with, and as a prior."""
    rule, S = task.rule, task.S
    if not rule.learns_scale:
        return replace(task, start=None)
    if isinstance(rule.weighting, Posterior):
        # Trees fitted to means of candidates want weights that fall off as the squared loss does.
        rule = Rule(clone(rule.weighting).set_params(noise="gaussian"), rule.loss)
    prior = S.prior_or_uniform * np.maximum(weights, _LEAST) ** _TRUST
    prior /= row_sums(prior, S)[S.row_index]
    return replace(task, rule=rule, S=CandidateSets(S.values, S.offsets, prior), start=weights)
