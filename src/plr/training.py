"""From a task to a fitted model: the start's weights, then the learner; for all rows, or once for each fold."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from plr._checks import check_features
from plr._parameters import check_choice, check_number
from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import LengthError, ParameterError
from plr.folds import columns_of, features_of, make_folds, predict_folds, take_rows
from plr.learners import MLP, Committee, Density, Fitted, Learner, Refit, Task, get_learner
from plr.learners.committee import EFFORTS, FittedCommittee
from plr.learners.refit.fits import trusted
from plr.learners.starts import choose_start, first_weights
from plr.losses import Loss, Squared, get_loss
from plr.weighting import Posterior, Weighting, get_weighting

__all__ = [
    "Recipe",
    "Trained",
    "check_validation",
    "effort_of_folds",
    "resolve_parts",
    "row_scale",
    "tell",
    "unseen",
    "unseen_scale",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# What folds are fitted with, where there are trees: the next lower level of effort. Five more models then cost about as
# much as the first.
_LOWER = {"high": "normal", "normal": "low", "low": "low"}
# Instead of folds that the user listed row by row, which say nothing about a part of the rows.
_INNER_FOLDS = 5


@dataclass(frozen=True)
class Trained:
    """A fitted model, the task as the learner saw it, and the start's weights, None where there was no start."""

    model: Fitted
    task: Task
    first: Floats | None


@dataclass(frozen=True)
class Recipe:
    """All that is needed to turn a task into a fitted model.

    Attributes
    ----------
    learner : Learner
    start : object
        As the regressor's parameter.
    cv : object
        The folds.
    """

    learner: Learner
    start: Any
    cv: object

    def train(self, task: Task) -> Trained:
        """Ask the start for first weights, and fit the learner."""
        task = task.with_density()
        S = task.S
        start = choose_start(self.start, task.rule.weighting, self.learner, len(S))
        first = None if start is None else first_weights(start, task, self.cv, self.learner)
        if first is not None and not (S.sizes == 1).all():
            # Where the density of false labels is estimated, it is estimated better now.
            trust = check_number("trust", getattr(start, "trust", 0.0), low=0.0)
            task = replace(task, start=first, S=trusted(S, first, trust)).with_density()
        return Trained(self.learner.fit(task), task, first)

    def predict_strangers(self, task: Task) -> tuple[Floats, Floats | None]:
        """Predict each row by a model that has no trace of it; with the row's noise scale where there is one.

        Everything is done again without the row's fold, the start included. What learners predict out of fold on the
        way is not enough: there, a row's candidates have had a say in which candidates of other rows are believed, and
        are nearer to such predictions than a new row's would be.
        """
        folds = make_folds(task, self.cv)
        if not folds:
            raise ParameterError(
                "Intervals need at least two rows, or two groups, with a sample_weight above 0: each is predicted from "
                "the others."
            )
        recipe = self._for_folds(task)
        pairwise = get_tags(self.learner).input_tags.pairwise
        scales: dict[int, Floats] = {}

        def run(fold: int, train: Rows, test: Rows) -> Floats:
            part = replace(take_rows(task, train), seed=(task.seed + fold + 1) % 2**31)
            rest = features_of(task.X, test)
            if pairwise:
                part, rest = replace(part, X=columns_of(part.X, train)), columns_of(rest, train)
            model = recipe.train(part).model
            scale = row_scale(model, rest)
            if scale is not None:
                scales[fold] = scale
            return model.predict(rest)

        prediction = predict_folds(folds, run, len(task.S), task.n_jobs)
        if len(scales) < len(folds):
            return prediction, None
        return prediction, predict_folds(folds, lambda fold, _, __: scales[fold], len(task.S))

    def _for_folds(self, task: Task) -> Recipe:
        """Return the recipe for a part of the task's rows."""
        learner = clone(self.learner)
        if isinstance(learner, Committee) and learner.has_trees(task):
            # Folds of fewer rows are to have trees as well: a model of another kind would say nothing of this one.
            learner.set_params(effort=_LOWER[learner.effort], fewest_rows=0)
        if _is_list(getattr(learner, "cv", None)):
            learner.cv = _INNER_FOLDS
        if getattr(learner, "checkpoint", None) is not None:
            # A checkpoint is of the training on all rows.
            learner.set_params(checkpoint=None)
        return Recipe(learner, self.start, _INNER_FOLDS if _is_list(self.cv) else self.cv)


def _is_list(cv: object) -> bool:
    return isinstance(cv, Iterable) and not hasattr(cv, "split")


def resolve_parts(
    learner: Any, weighting: Any, loss: Any, effort: str | None, cv: object, validated: bool = False
) -> tuple[Learner, Weighting, Loss]:
    """Return what the regressor's parameters stand for; ``validated`` says whether there are validation rows."""
    # Compared as names only: an estimator given as learner has its own idea of equality.
    names = [part if isinstance(part, str) else "" for part in (learner, weighting)]
    counted = get_loss(loss)
    if effort is not None:
        effort = check_choice("effort", effort, EFFORTS)
    if names[0] == "auto":
        # The network does what the committee cannot.
        found = Committee() if isinstance(counted, Squared) and not validated else MLP()
    else:
        found = get_learner(learner)
    if isinstance(found, Committee | Density | Refit) and found is not learner:
        found.cv = cv
    if effort is not None:
        if not isinstance(found, Committee) or found is learner:
            raise _unused_effort(effort, found, names[0] == "auto")
        found.effort = effort
    return found, Posterior() if names[1] == "auto" else get_weighting(weighting), counted


def _unused_effort(effort: str, learner: Learner, chosen: bool) -> ParameterError:
    """Make the error for an effort that nothing would come of; ``chosen`` says whether "auto" chose the learner."""
    if isinstance(learner, Committee):
        return ParameterError(
            f"{{parameter}} {effort!r} does not apply to a Committee of your own, which has its own; give "
            f"Committee(effort={effort!r}) and leave the regressor's out, or learner='committee'.",
            parameter="effort",
            value=effort,
        )
    reason = ", which auto is with validation rows or a loss other than the squared" if chosen else ""
    return ParameterError(
        f"{{parameter}} {effort!r} is for the committee, and the learner is {type(learner).__name__}{reason}; leave it "
        f"out, and set parameters of the learner instead.",
        parameter="effort",
        value=effort,
    )


def effort_of_folds(learner: Learner, model: Fitted) -> str | None:
    """Return the effort of the models that intervals are calibrated on; None where it is that of the model itself."""
    if not isinstance(learner, Committee) or not isinstance(model, FittedCommittee) or model.trees is None:
        return None
    if not model.process.drawn and (model.process.weights == 1).all():
        # Plain labels: what was predicted on the way will do.
        return None
    lower = _LOWER[learner.effort]
    return lower if lower != learner.effort else None


def unseen(model: Fitted) -> Floats | None:
    """Return the predictions of the training rows that a learner made out of fold, if it made any."""
    return getattr(model, "out_of_fold", None)


def unseen_scale(model: Fitted) -> Floats | None:
    """Return each training row's noise scale relative to the typical one, if the learner found some out of fold."""
    return getattr(model, "relative_scale", None)


def row_scale(model: Fitted, X: Any) -> Floats | None:
    """Return the same for any rows."""
    found = getattr(model, "row_scale", None)
    return None if found is None else np.asarray(found.predict(X))


def check_validation(probe: Any, validation: object, learner: Learner) -> tuple[Any, CandidateSets] | None:
    """Return validation rows as the learner takes them, by the columns that ``probe`` has recorded."""
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ParameterError("validation must be a pair (X, S) of rows and their candidate sets.")
    X = check_features(probe, validation[0], learner, reset=False)
    S = as_candidate_sets(validation[1])
    if _num_samples(X) != len(S):
        raise LengthError(f"The validation X has {_num_samples(X)} rows and its target {len(S)}; they must agree.")
    return X, S


def tell(done: int, total: int, loss: float) -> None:
    """Write on stderr how far training is."""
    sys.stderr.write(f"\rplr: round {done} of at most {total}, loss {loss:.6g}")
    sys.stderr.flush()
