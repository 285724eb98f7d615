"""From a task to a fitted model: the start's weights, then the learner; for all rows, or once for each fold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._parameters import check_choice, check_number
from plr.contracts import lists_rows
from plr.errors import ParameterError
from plr.folds import cross_fit, make_folds
from plr.learners import MLP, Committee, Fitted, Learner, Task, get_learner
from plr.learners.committee import EFFORTS
from plr.learners.refit.fits import trusted
from plr.learners.starts import choose_start, first_weights
from plr.losses import Loss, Squared, get_loss
from plr.weighting import Posterior, Weighting, get_weighting

__all__ = ["Recipe", "resolve_parts"]

Floats = NDArray[np.float64]

# Instead of folds that the user listed row by row, which say nothing about a part of the rows.
_INNER_FOLDS = 5


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

    def train(self, task: Task) -> tuple[Fitted, Task, Floats | None]:
        """Return a fitted model, the task as the learner saw it, and the start's weights, None where there is none."""
        task = task.prepared()
        S = task.S
        start = choose_start(self.start, task.rule.weighting, self.learner, len(S))
        first = None if start is None else first_weights(start, task, self.cv, self.learner)
        if first is not None and S.values.size > len(S):
            # Where the density of false labels is estimated, it is estimated better now.
            trust = check_number("trust", getattr(start, "trust", 0.0), low=0.0)
            task = replace(task, start=first, S=trusted(S, first, trust)).prepared()
        return self.learner.fit(task), task, first

    def cross_fit_predict(self, task: Task) -> tuple[Floats, Floats | None]:
        """Predict each row by a model fitted without the row's fold; with its noise scale where there is one.

        Everything is done again without the fold, the start included. What learners predict out of fold on the way is
        not enough: there, a row's candidates have had a say in which candidates of other rows are believed, and are
        nearer to such predictions than a new row's would be.
        """
        folds = make_folds(task, self.cv)
        if not folds:
            raise ParameterError(
                "Intervals need at least two rows, or two groups, with a sample_weight above 0: each is predicted from "
                "the others."
            )
        cv = _INNER_FOLDS if lists_rows(self.cv) else self.cv
        recipe = Recipe(self.learner.for_folds(task), self.start, cv)
        return cross_fit(self.learner, task, folds, lambda part: recipe.train(part)[0])


def resolve_parts(
    learner: Any, weighting: Any, loss: Any, effort: str | None, cv: object, validated: bool = False
) -> tuple[Learner, Weighting, Loss]:
    """Return what the regressor's parameters stand for; ``validated`` says whether there are validation rows."""
    # Compared as names only: an estimator given as learner has its own idea of equality.
    auto, auto_weighting = (isinstance(part, str) and part == "auto" for part in (learner, weighting))
    pointwise = get_loss(loss)
    if effort is not None:
        check_choice("effort", effort, EFFORTS)
    if auto:
        # The network does what the committee cannot.
        found: Learner = Committee() if isinstance(pointwise, Squared) and not validated else MLP()
    else:
        found = get_learner(learner)
    if found is not learner and found.has_folds:
        found.set_params(cv=cv)
    if effort is not None:
        if not found.has_effort:
            reason = ", which auto is with validation rows or a loss other than the squared" if auto else ""
            raise ParameterError(
                f"{{parameter}} {effort!r} is for the committee, and the learner is {type(found).__name__}{reason}; "
                f"leave it out, and set parameters of the learner instead.",
                parameter="effort",
                value=effort,
            )
        if found is learner:
            raise ParameterError(
                f"{{parameter}} {effort!r} does not apply to a Committee of your own, which has its own; give "
                f"Committee(effort={effort!r}) and leave the regressor's out, or learner='committee'.",
                parameter="effort",
                value=effort,
            )
        found.set_params(effort=effort)
    return found, Posterior() if auto_weighting else get_weighting(weighting), pointwise
