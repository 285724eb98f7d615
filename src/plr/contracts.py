"""What a learner is: something that fits a model to a task, and gives back something that predicts.

A learner sees features, candidate sets and a rule; it never sees a true label and need not know which weighting or loss
the rule was made of. Learners are small objects that do not change in ``fit``: all that is learned is in the `Fitted`
they return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from plr._fields import WITH_GAPS
from plr.candidates import CandidateSets
from plr.candidates.known import CheckedRows
from plr.errors import ParameterError
from plr.preprocessing import Preprocessing
from plr.preprocessing.scaling import Affine
from plr.progress import SILENT, Progress
from plr.weighting.base import Weighting
from plr.weighting.false_labels import FalseLabelDensity
from plr.weighting.rule import NOTHING, Rule

__all__ = ["START_SHARE", "Fitted", "Learner", "Report", "Start", "Task", "lists_rows"]

Floats = NDArray[np.float64]

START_SHARE = 3
"""One in so many epochs, the first ones, trains on the weights of a start, where there is one; so it is with trees."""

_nothing = partial(np.empty, 0)


@dataclass(frozen=True)
class Task:
    """What there is to learn from.

    Attributes
    ----------
    X : ndarray of shape (n, d), or what else the learner ``takes``
        In a matrix made from a table with categories these are whole numbers, NaN where missing or new.
    S : CandidateSets of n rows
    rule : Rule
        The weighting and the loss.
    sample_weight : ndarray of shape (n,) or None
    log_q : ndarray, one entry per candidate, or None
        Log density of false labels at each candidate, per unit of the labels; None where it is uniform, or still to be
        found.
    start : ndarray, one entry per candidate, or None
        Weights to begin with, from before any model existed.
    density : Estimate or None
        The density of labels that gave these weights, where one did (`plr.densities`).
    validation : (X, CandidateSets) or None
        Rows to choose the best epoch or round by.
    false_labels : FalseLabelDensity or None
        The density that ``log_q`` has the values of, for other rows; None where it is not known, or not needed.
    groups : ndarray of shape (n,) or None
        Rows of one group stay together wherever folds are made.
    categorical : tuple of int
        Which columns of a matrix are categories.
    names : tuple of str
        The columns' names; empty where they have none.
    seed : int
    n_jobs : int or None
        How many fits may run at the same time, for what is fitted more than once.
    callback : callable or None
        The user's, called now and then with ``(done, total, loss)``; learners call `tell`.
    known : CheckedRows or None
        What is known of rows that somebody looked at.
    preprocessing : Preprocessing or None
        Features encoded and labels scaled, where an earlier step has done so.
    progress : Progress
        The piece of the whole work that this task is.
    """

    X: Any
    S: CandidateSets
    rule: Rule
    sample_weight: Floats | None = None
    log_q: Floats | None = None
    start: Floats | None = None
    density: Any = field(default=None, repr=False, compare=False)
    validation: tuple[Any, CandidateSets] | None = None
    groups: NDArray[Any] | None = None
    categorical: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    seed: int = 0
    n_jobs: int | None = None
    callback: Callable[[int, int, float], object] | None = None
    false_labels: FalseLabelDensity | None = None
    known: CheckedRows | None = None
    preprocessing: Preprocessing | None = field(default=None, repr=False, compare=False)
    progress: Progress = field(default=SILENT, repr=False, compare=False)

    def tell(self, done: int, total: int, loss: float) -> None:
        """Say how far the fit is: to the user's callback, and to the progress of the whole."""
        if self.callback is not None:
            self.callback(done, total, loss)
        self.progress(done, total)

    def preprocess(self, scale_features: bool = True, scale_target: bool = True) -> Preprocessing:
        """Return features encoded and labels scaled: what is known already of these rows, or else made now."""
        known = self.preprocessing
        if known is not None and known.X is self.X and known.S is self.S and scale_features and scale_target:
            return known
        return Preprocessing(self.X, self.S, self.categorical, self.sample_weight, scale_features, scale_target)

    @property
    def counted_rows(self) -> int:
        """How many rows have weight."""
        return len(self.S) if self.sample_weight is None else int(np.count_nonzero(self.sample_weight))

    def prepared(self) -> Task:
        """Return the task with its preprocessing and the density of false labels that its weighting asks for.

        The density is estimated from the candidates where it is to be, by the start's weights where there is a start.
        """
        preprocessing = self.preprocess()
        # Labels that float64 cannot hold are refused here, before anything is fitted.
        _ = preprocessing.target
        found = self.rule.weighting.density(self.S, self.start, self.sample_weight)
        if found is None:
            return replace(self, preprocessing=preprocessing)
        return replace(self, preprocessing=preprocessing, false_labels=found, log_q=found.log(self.S.values))

    def scaled_log_q(self, target: Affine) -> Floats:
        """Return the log density of false labels at each candidate, per unit of scaled labels; empty where uniform."""
        if self.log_q is not None:
            return self.log_q + np.log(float(target.scale))
        density = self.rule.weighting.density(self.S, self.start, self.sample_weight)
        return NOTHING if density is None else density.log_scaled(self.S.values, target)

    def validation_log_q(self, target: Affine) -> Floats:
        """Return the same for the candidates of the validation rows."""
        if self.validation is None or not self.rule.weighting.needs_density:
            return NOTHING
        density = self.false_labels or self.rule.weighting.density(self.S, self.start, self.sample_weight)
        return NOTHING if density is None else density.log_scaled(self.validation[1].values, target)


@dataclass(frozen=True)
class Report:
    """How a fit went: rounds or epochs done, the loss after each, the noise scale after each in label units.

    ``movement`` is how far each round moved the weights: the mean over rows of the share that changed candidates.
    """

    rounds: int
    loss: Floats = field(metadata=WITH_GAPS)
    noise_scale: Floats = field(default_factory=_nothing, metadata=WITH_GAPS)
    validation: Floats = field(default_factory=_nothing, metadata=WITH_GAPS)
    best_round: int | None = None
    movement: Floats = field(default_factory=_nothing, metadata=WITH_GAPS)


class Fitted:
    """What a learner gives back.

    Attributes
    ----------
    report : Report
        How the fit went.
    out_of_fold : ndarray of shape (n,) or None
        Predictions of the training rows, each by models fitted without the row or its fold; None where the learner
        made none.
    held_out : ndarray of shape (n,) or None
        Predictions of the training rows by the whole procedure, fitted without the row's fold; None where the learner
        made none. No candidate of the fold has had a say in them, not even in which candidates of other rows are
        believed, which ``out_of_fold`` does not promise.
    out_of_fold_weights : ndarray, one entry per candidate of the training rows, or None
        How probable each candidate is, found without the row; None where that is not known.
    training_prediction : ndarray of shape (n,) or None
        What ``predict`` returns for the training rows, where it is known already.
    relative_scale : ndarray of shape (n,) or None
        Each training row's noise scale relative to the typical one, out of fold; None where all rows have the same.
    importance : ndarray, one entry per column, or None
        How much the model owes to each column, one in all; None where the model does not say.
    """

    report: Report
    out_of_fold: Floats | None = None
    held_out: Floats | None = None
    out_of_fold_weights: Floats | None = None
    training_prediction: Floats | None = None
    relative_scale: Floats | None = None
    importance: Floats | None = None

    def predict(self, X: Any) -> Floats:
        """Return one prediction per row, in the units of the labels."""
        raise NotImplementedError

    def predict_scale(self, X: Any) -> Floats | None:  # noqa: ARG002
        """Return each row's noise scale relative to the typical one; None where all rows have the same."""
        return None


class Learner(BaseEstimator):
    """Base of the learners."""

    takes = "matrix"
    """What X may be. ``"matrix"``: numbers, made into a float64 array. ``"table"``: that, or a frame with columns of
    categories, made into a float64 array of numbers and category codes. ``"rows"``: anything with rows (frames, texts,
    images, tensors), handed on as it is."""

    takes_missing = False
    """Whether X may contain NaN."""

    takes_datasets = False
    """Whether X may also be a torch dataset."""

    gives_row_scale = False
    """Whether it can give each row a noise scale of its own."""

    draws = False
    """Whether it draws which candidates are true; ``start="auto"`` then begins with a density."""

    has_folds = False
    """Whether it has a parameter ``cv``; where the learner goes by a name, it is the regressor's."""

    has_effort = False
    """Whether it has a parameter ``effort``; where the learner goes by a name, it is the regressor's."""

    minimises_loss = True
    """Whether it lowers the loss of a task's rule, whatever loss that is."""

    takes_weights = True
    """Whether rows and candidates may count for more or less."""

    few_rows = 0
    """With fewer rows of several candidates than this, a fit warns."""

    def fit(self, task: Task) -> Fitted:
        """Fit a model to the task."""
        raise NotImplementedError

    def check_weighting(self, weighting: Weighting) -> None:
        """Refuse a weighting that asks for what the learner cannot give."""
        if weighting.scale_by_row and not self.gives_row_scale:
            raise ParameterError(
                f"{type(self).__name__} cannot give each row a noise scale of its own, which Posterior(scale='row') "
                f"asks for. plr.learners.Refit can, around any scikit-learn regressor; or use scale='common'."
            )

    def for_folds(self, task: Task) -> Learner:  # noqa: ARG002
        """Return the learner that is fitted without each fold of a task, to predict the fold."""
        learner = clone(self)
        return learner.set_params(cv=5) if self.has_folds and lists_rows(learner.get_params()["cv"]) else learner

    def effort_of_folds(self, model: Fitted) -> str | None:  # noqa: ARG002
        """Return the effort of the models that intervals are calibrated on; None where it is that of the model."""
        return None

    def caveat(self, model: Fitted) -> str:  # noqa: ARG002
        """Return what to know about a model that was fitted to few rows; empty where there is nothing."""
        return ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.takes_missing
        return tags


class Start(BaseEstimator):
    """Base of the starts. One of your own is anything with this method."""

    trust: float = 0.0
    """The power of the weights that the learner's priors are multiplied by."""

    def weights(self, task: Task, cv: object) -> Floats:
        """Return one weight per candidate, flat; those of a row sum to one.

        Parameters
        ----------
        task : Task
            Its ``X`` is a float64 matrix, in which ``task.categorical`` columns are category codes and NaN is missing.
        cv : int, scikit-learn splitter or iterable of (train, test)
            The folds. A row's weights must be made without its fold, and without the other rows of its group.
        """
        raise NotImplementedError


def lists_rows(cv: object) -> bool:
    """Return whether folds are given row by row, which says nothing about a part of the rows."""
    return isinstance(cv, Iterable) and not hasattr(cv, "split")
