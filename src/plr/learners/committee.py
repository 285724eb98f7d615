"""The committee: a Gaussian process and boosted trees, the one telling the other where to begin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from plr._codes import SQUARED
from plr._fields import BY_ROW, require
from plr._parameters import check_choice, check_integer
from plr.contracts import Fitted, Learner, Report, Task
from plr.errors import ParameterError
from plr.folds import check_folds, make_folds, out_of_fold
from plr.learners.gaussian_process import FittedGaussianProcess, GaussianProcess
from plr.learners.refit.fits import trusted
from plr.learners.refit.learner import FittedRefit, Refit
from plr.preprocessing.encoding import Encoding, learn_encoding
from plr.preprocessing.scaling import Affine, learn_steady_target, rescaled
from plr.weighting.posterior import Posterior
from plr.weighting.rule import Rule, thread_count

__all__ = ["EFFORTS", "Committee", "FittedCommittee", "boosted_trees"]

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

# Columns that a tree looks at, at most. Where there are more, others have their turn in the next tree; thousands of
# columns in each of thousands of trees would take minutes for a hundred rows.
_MOST_COLUMNS = 1000
# The trees weigh candidates by their own noise and by the square root of the Gaussian process's weights.
_TRUST = 0.5
# The Gaussian process's share in the prediction, and what is tried on plain labels. Their mistakes differ, so that
# neither is left out unless the sets are so much likelier around the other: half the error, in each row.
_EVEN, _SHARES, _OUT_OF_DEPTH = 0.5, (0.25, 0.5, 0.75), 0.35


@dataclass(frozen=True)
class _Trees:
    """Trees fitted to scaled labels: LightGBM holds labels in single precision."""

    fitted: FittedRefit
    target: Affine

    @property
    def report(self) -> Report:
        """How the rounds went, with the noise in the units of the labels."""
        report = self.fitted.report
        return replace(report, noise_scale=report.noise_scale * float(self.target.scale))

    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row, in the units of the labels."""
        return self.target.undo(self.fitted.predict(X))


@dataclass(frozen=True)
class FittedCommittee:
    """Both models, and the Gaussian process's share in the prediction; the rest is the trees'.

    Attributes
    ----------
    process : FittedGaussianProcess
    trees : Fitted or None
        None where rows were too few for trees; the share is then 1.
    share : float
    out_of_fold : ndarray of shape (n,)
    report : Report
        Of the trees' rounds, or of the Gaussian process's where there are none.
    """

    process: FittedGaussianProcess
    trees: _Trees | None
    share: float
    encoding: Encoding
    out_of_fold: Floats = field(metadata=BY_ROW)
    report: Report

    def __post_init__(self) -> None:
        require(self.process.encoding.columns == self.encoding.width, "its members have other columns")
        require(0 <= self.share <= 1, "the share must be within 0 and 1")
        require(self.trees is not None or self.share == 1, "without trees the share must be 1")

    @property
    def unseen_weights(self) -> Floats | None:
        """How often each candidate of the training rows was drawn as the true one, each time from other rows."""
        return self.process.unseen_weights

    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row, in the units of the labels."""
        rows = self.encoding.apply(X)
        if self.trees is None:
            return self.process.predict(rows)
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
    fewest_rows : int, default=50
        With fewer rows than this there are no trees, which have nothing to say then, and the Gaussian process predicts
        alone. Rows without weight do not count.

    Notes
    -----
    The loss is squared.

    Examples
    --------
    >>> from plr.learners import Committee
    >>> Committee(effort="high")
    Committee(effort='high')
    """

    takes = "table"
    takes_missing = True
    draws = True

    def __init__(self, effort: str = "normal", cv: object = 5, fewest_rows: int = 50) -> None:
        self.effort = effort
        self.cv = cv
        self.fewest_rows = fewest_rows

    def has_trees(self, task: Task) -> bool:
        """Return whether the task has rows enough for trees."""
        return _counted(task) >= check_integer("fewest_rows", self.fewest_rows)

    def fit(self, task: Task) -> FittedCommittee:
        """Fit both models to the task, or the Gaussian process alone where it has few rows."""
        effort = EFFORTS[check_choice("effort", self.effort, EFFORTS)]
        check_folds(self.cv)
        self.check_weighting(task.rule.weighting)
        if task.rule.formula.loss != SQUARED:
            raise ParameterError("Committee has the squared loss only; for others there are mlp and boosting.")
        if task.validation is not None:
            raise ParameterError("Committee has no epochs to choose from, and no use for validation rows.")
        counted, has_trees = _counted(task), self.has_trees(task)
        encoding = learn_encoding(task.X, task.categorical, task.sample_weight)
        # Trees stop splitting where weights are small numbers, so it must not matter what a weight of one means.
        weight = None if task.sample_weight is None else task.sample_weight / (task.sample_weight.sum() / counted)
        task = replace(
            task,
            X=encoding.apply(task.X),
            sample_weight=weight,
            categorical=(),
            names=(),
            n_jobs=thread_count(task.n_jobs),
        )
        learner = self._process(effort, counted)
        process = learner.fit(task)
        unseen = process.out_of_fold
        if unseen is None or not isinstance(self.cv, Integral):
            # Rows of a group must not speak for each other, nor rows that the user's folds keep apart.
            unseen = self._left_out(learner, task, process)
            process = replace(process, out_of_fold=None)
        elif not has_trees and task.S.values.size > len(task.S):
            # With few rows a row's candidates have much say in which candidates of others are believed.
            unseen = self._left_out(self._process(EFFORTS["low"], counted), task, process)
        if not has_trees:
            return FittedCommittee(process, None, 1.0, encoding, unseen, process.report)
        trees, unseen_by_trees = self._fit_trees(effort, task, process)
        share = self._share(task, unseen, unseen_by_trees)
        mixed = share * unseen + (1 - share) * unseen_by_trees
        return FittedCommittee(process, trees, share, encoding, mixed, trees.report)

    @staticmethod
    def _process(effort: _Effort, rows: int) -> GaussianProcess:
        chains, plan = GaussianProcess()._plan(rows)
        return GaussianProcess(
            chains=max(1, round(chains * effort.chains)), rounds=max(2, round(plan.rounds * effort.rounds))
        )

    def _fit_trees(self, effort: _Effort, task: Task, process: FittedGaussianProcess) -> tuple[_Trees, Floats]:
        trees = boosted_trees(task.X.shape[1])
        learner = Refit(trees, cv=self.cv, max_rounds=effort.refits, last_fits=effort.last_fits)
        target = learn_steady_target(task.S, task.sample_weight)
        log_q = None if task.log_q is None else task.scaled_log_q(target)
        task = replace(_informed(task, process.weights), log_q=log_q)
        task = replace(task, S=rescaled(task.S, target))
        fitted = learner.fit(task)
        unseen = fitted.out_of_fold
        if unseen is None:
            unseen = self._left_out(clone(learner).set_params(last_fits=1), task, fitted)
        return _Trees(fitted, target), target.undo(unseen)

    def _left_out(self, learner: Learner, task: Task, fitted: Fitted) -> Floats:
        """Predict the training rows out of fold; a lone group as it is, since there is nothing else to learn from."""
        if not make_folds(task, self.cv):
            return fitted.predict(task.X)
        return out_of_fold(learner, replace(task, callback=None), self.cv)

    @staticmethod
    def _share(task: Task, process: Floats, trees: Floats) -> float:
        """Return the Gaussian process's share in the prediction, given what both predict for unseen rows.

        On plain labels it is the one with the least error. Candidate sets cannot tell that closely: draws and kernel
        have adapted to each other, so that sets look likelier around the process's predictions than new rows' sets
        would. Where one of the two is out of its depth, as trees are on a straight line, either can tell.
        """
        # Imported late: the scores themselves measure labels as learners do.
        from plr.noise import fit_noise

        def likelihood(share: float) -> float:
            prediction = share * process + (1 - share) * trees
            noise = fit_noise(prediction, task.S, family, task.sample_weight, task.n_jobs or 1, task.false_labels)
            return float(np.average(noise.log_likelihood(prediction, task.S), weights=task.sample_weight))

        # Gaussian, because a far miss costs the squared loss more than it costs a noise with heavy tails.
        family = Posterior(noise="gaussian")
        plain = task.S.values.size == len(task.S)
        best = max(_SHARES, key=likelihood) if plain else _EVEN
        alone = max((1.0, 0.0), key=likelihood)
        return alone if likelihood(alone) > likelihood(best) + _OUT_OF_DEPTH else best


def _counted(task: Task) -> int:
    """Return how many rows have weight."""
    return len(task.S) if task.sample_weight is None else int(np.count_nonzero(task.sample_weight))


def boosted_trees(columns: int = 1) -> Any:
    """Return the trees, not yet fitted, for so many columns."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        n_estimators=300,
        num_leaves=12,
        learning_rate=0.05,
        min_child_samples=8,
        subsample=0.8,
        subsample_freq=1,
        colsample_bytree=min(0.8, _MOST_COLUMNS / max(columns, 1)),
        deterministic=True,
        force_col_wise=True,
        n_jobs=1,
        verbosity=-1,
    )


def _informed(task: Task, weights: Floats) -> Task:
    """Return the task as the trees see it: the process's weights to begin with, and as a prior."""
    rule = task.rule
    if not rule.learns_scale:
        return task
    if isinstance(rule.weighting, Posterior):
        # Trees fitted to means of candidates want weights that fall off as the squared loss does.
        rule = Rule(clone(rule.weighting).set_params(noise="gaussian"), rule.loss)
    return replace(task, rule=rule, S=trusted(task.S, weights, _TRUST), start=weights)
