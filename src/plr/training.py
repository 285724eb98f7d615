"""From a task to a fitted model: the start's weights, then the learner; for all rows, or once for each fold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from plr._parameters import check_choice, check_number
from plr.candidates import CandidateSets
from plr.candidates.known import CheckedRows
from plr.contracts import lists_rows
from plr.densities import FEW_ROWS
from plr.errors import ParameterError, PlrError, PriorError
from plr.folds import cross_fit, make_folds, row_weights
from plr.learners import MLP, Committee, Fitted, Learner, Task, get_learner
from plr.learners.committee import EFFORTS
from plr.learners.refit.fits import trusted
from plr.learners.starts import DensityStart, as_matrix, choose_start, first_weights, name_start
from plr.learners.transformed import TransformedTarget
from plr.losses import Loss, Squared, get_loss
from plr.preprocessing.features import learn_columns, learn_encoding
from plr.preprocessing.label_scale import check_transform
from plr.priors.dependence import Dependence, explain, intraclass_correlation
from plr.priors.learned import Belief, LearnedPrior, RowFeatures, learn_belief, learn_coefficients
from plr.priors.logit import Alternatives
from plr.priors.smoothing import KernelSmoother
from plr.priors.utilities import Refinement, UtilityModel
from plr.progress import SILENT, Progress
from plr.weighting import Average, Posterior, Weighting, get_weighting
from plr.weighting.rule import Rule, row_sums

__all__ = [
    "Recipe",
    "Trained",
    "count_rows",
    "encode_rows",
    "encoded_features",
    "may_depend",
    "part_name",
    "resolve_parts",
    "settle_known",
]

Floats = NDArray[np.float64]

# Instead of folds that the user listed row by row, which say nothing about a part of the rows.
_INNER_FOLDS = 5
# What a start takes compared with the learner, with few rows and with many; for the bar alone.
_START_COSTS = (0.07, 0.3)


@dataclass(frozen=True)
class Trained:
    """What training came to.

    Attributes
    ----------
    model : Fitted
    task : Task
        As the learner saw it.
    first : ndarray, one entry per candidate, or None
        The start's weights.
    prior : LearnedPrior or None
        What makes a candidate believable, where it was learned.
    belief : Belief or None
        What the learner was fitted to, where false candidates depend on the features.
    dependence : Dependence or None
        Whether false candidates depend on the features; None where that was not looked for.
    """

    model: Fitted
    task: Task
    first: Floats | None = None
    prior: LearnedPrior | None = None
    belief: Belief | None = None
    dependence: Dependence | None = None


@dataclass(frozen=True)
class Recipe:
    """All that is needed to turn a task into a fitted model.

    Attributes
    ----------
    learner : Learner
    start, prior : object
        As the regressor's parameters.
    cv : object
        The folds.
    match_score : str or None
        The feature of candidates that is a score.
    one_to_one : bool
        Whether no two rows have the same record as their truth.
    """

    learner: Learner
    start: Any
    cv: object
    prior: object = "given"
    match_score: str | None = None
    one_to_one: bool = False

    def train(self, task: Task) -> Trained:
        """Return a fitted model, and what it was fitted to."""
        given, weights, progress = task.S, row_weights(task), task.progress
        # Only what has a piece of it may say how much is done.
        task = replace(settle_known(task).prepared(), progress=SILENT)
        dependence = self._look_for_dependence(task, given, weights)
        learned = None
        if self.prior != "given" and (task.known is not None or self.match_score is not None):
            refinement = self._refinement(task)
            learned = learn_coefficients(
                given, task.known, weights, dependence or Dependence(0.0), self.match_score, refinement
            )
            if learned is not None:
                task = replace(task, S=task.S.with_prior(learned.weigh(given).prior_or_uniform)).prepared()
        start = choose_start(self.start, task.rule.weighting, self.learner, len(task.S))
        starting, learning = progress.split(
            {
                name_start(start): 0.0 if start is None else _START_COSTS[len(task.S) >= FEW_ROWS],
                # The committee has stages of its own.
                "" if isinstance(self.learner, Committee) else f"fitting {part_name(self.learner)}": 1.0,
            }
        )
        first = density = None
        if start is not None:
            with starting:
                first, density = first_weights(start, replace(task, progress=starting), self.cv, self.learner)
        if dependence is not None and (dependence.needs_predictions or self.prior == "learned"):
            dependence, belief = self._believe(task, given, weights, first, dependence)
            if belief is not None:
                task = _on_belief(task, belief, self.learner)
                return Trained(self._fit(task, learning), task, first, belief.prior, belief, dependence)
        if first is not None and task.S.values.size > len(task.S):
            # Where the density of false labels is estimated, it is estimated better now.
            trust = check_number("trust", getattr(start, "trust", 0.0), low=0.0)
            task = replace(task, start=first, density=density, S=trusted(task.S, first, trust)).prepared()
        return Trained(self._fit(task, learning), task, first, learned, dependence=dependence)

    def _fit(self, task: Task, progress: Progress) -> Fitted:
        with progress:
            return self.learner.fit(replace(task, progress=progress))

    def _look_for_dependence(self, task: Task, S: CandidateSets, weights: Floats) -> Dependence | None:
        """Return how alike the candidates of a row are; None where the weighting goes by no density of false labels.

        Nor is it looked for where that density is given.
        """
        if not may_depend(self.prior, task.rule.weighting):
            return None
        return Dependence(intraclass_correlation(Alternatives(S.offsets), S.values, weights))

    def _believe(
        self, task: Task, S: CandidateSets, weights: Floats, first: Floats | None, dependence: Dependence
    ) -> tuple[Dependence, Belief | None]:
        """Return whether false candidates depend on the features; and if so, what to fit the learner to."""
        X, columns, categorical = task.X, None, task.categorical
        if self.learner.takes == "rows":
            try:
                columns = learn_columns(X)
                X, categorical = as_matrix(X)
            except (PlrError, TypeError, ValueError):
                # Texts and images: nothing smooth can be fitted to them.
                return dependence, None
        folds = [test for _, test in make_folds(task, self.cv)]
        if not folds or not isinstance(X, np.ndarray) or X.ndim != 2:
            return dependence, None
        if first is None:
            first, _ = first_weights(DensityStart.for_draws(len(S)), task, self.cv, self.learner)
        features = RowFeatures(columns, learn_encoding(X, categorical, task.sample_weight))
        smoother = KernelSmoother(features.encode(task.X), folds, task.seed, row_weights(task))
        target = task.preprocess().target
        dependence = explain(dependence, S, task.S, target, first, smoother, weights)
        if not dependence.found and self.prior != "learned":
            return dependence, None
        refinement = self._refinement(task)
        belief = learn_belief(
            S,
            target,
            features,
            smoother,
            dependence,
            weights,
            task.known,
            self.match_score,
            self.one_to_one,
            refinement,
        )
        return dependence, belief

    def _refinement(self, task: Task) -> Refinement | None:
        """Return the model of utilities, where there is one to be fitted to checked rows."""
        if not isinstance(self.prior, UtilityModel) or task.known is None:
            return None
        folds = np.zeros(len(task.S), dtype=np.int64)
        for number, (_, test) in enumerate(make_folds(task, self.cv)):
            folds[test] = number
        return Refinement(self.prior, folds, task.seed)

    def believe_without_known(self, task: Task, S: CandidateSets, first: Floats | None) -> Belief | None:
        """Return what would be believed about candidates, if false ones depend on the features and no row was checked.

        Parameters
        ----------
        task : Task
        S : CandidateSets
            Those of the task, as they were given.
        first : ndarray or None
            The start's weights.
        """
        plain = replace(task, S=S, known=None, preprocessing=None).prepared()
        always = replace(self, prior="learned")
        return always._believe(plain, S, row_weights(plain), first, Dependence(0.0))[1]

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
        recipe = replace(self, learner=self.learner.for_folds(task), cv=cv)
        return cross_fit(self.learner, task, folds, lambda part: recipe.train(part).model)


def part_name(learner: Learner) -> str:
    """Return the name of a learner's class, or of the regressor's or learner's that it wraps."""
    if isinstance(learner, TransformedTarget):
        return part_name(learner.learner)
    return type(getattr(learner, "regressor", learner)).__name__


def may_depend(prior: object, weighting: Weighting) -> bool:
    """Whether it matters if false candidates depend on the features: weights go by a density that is only assumed."""
    assumed = isinstance(getattr(weighting, "false_labels", None), str)
    return prior != "given" and weighting.learns_scale and assumed


def count_rows(S: CandidateSets, sample_weight: Floats | None, known: CheckedRows | None) -> Floats | None:
    """Return how much each row counts: the less, the more probable its sets say it is that its truth is missing."""
    if S.missing is None:
        return sample_weight
    present = 1.0 - S.missing if known is None else np.where(known.labelled | known.missing, 1.0, 1.0 - S.missing)
    weight = present if sample_weight is None else sample_weight * present
    if not weight.any():
        raise PriorError(
            "By the given probabilities the truth is missing from every row, so that there is nothing to learn from.",
            parameter="prior",
        )
    return weight


def encode_rows(X: Any, learner: Learner, categorical: tuple[int, ...]) -> Floats | None:
    """Return the features of rows as numbers of similar scale; None where they are no table."""
    if learner.takes == "rows":
        try:
            X, categorical = as_matrix(X)
        except ParameterError:
            return None
    return learn_encoding(X, categorical).apply(X)


def encoded_features(task: Task, learner: Learner) -> RowFeatures | None:
    """Return how features of rows become numbers of similar scale; None where they are no table."""
    if learner.takes != "rows":
        return RowFeatures(None, task.preprocess().encoding)
    try:
        columns = learn_columns(task.X)
        X, categorical = as_matrix(task.X)
    except (PlrError, TypeError, ValueError):
        return None
    return RowFeatures(columns, learn_encoding(X, categorical, task.sample_weight))


def settle_known(task: Task) -> Task:
    """Return the task with known labels in place of the candidates of their rows.

    A row whose truth is known to be missing, and not known, has nothing to learn from, and no weight.
    """
    known = task.known
    if known is None:
        return task
    weight, lost = task.sample_weight, known.missing & ~known.labelled
    if lost.any():
        weight = np.where(lost, 0.0, 1.0 if weight is None else weight)
    return replace(task, S=known.settle(task.S), sample_weight=weight)


def _on_belief(task: Task, belief: Belief, learner: Learner) -> Task:
    """Return the task of lowering the expected loss.

    Rows whose truth may be missing, or whose label is in doubt, count for less. For the squared loss, and for learners
    that have a loss of their own, that is to fit the expected labels. A learner that takes no weights is fitted to the
    expected labels of rows that count alike.
    """
    weight = np.ones(len(belief.labels)) if task.sample_weight is None else task.sample_weight
    if learner.takes_weights:
        weight = weight * belief.certainty
    if task.known is not None and learner.takes_weights:
        present = 1.0 - belief.missing
        if task.S.missing is not None:
            # What the sets say of it is in the weights already.
            present = np.divide(present, 1.0 - task.S.missing, out=present, where=task.S.missing < 1.0)
        # The label of such a row is known, though it is none of the candidates.
        weight = weight * np.where(task.known.labelled, 1.0, present)
    plain = bool((weight == 1.0).all())
    sets, rule = CandidateSets.from_labels(belief.labels), task.rule
    if learner.minimises_loss and learner.takes_weights and not isinstance(rule.loss, Squared):
        total = row_sums(belief.probabilities, task.S)[task.S.row_index]
        share = np.divide(belief.probabilities, total, out=task.S.prior_or_uniform.copy(), where=total > 0.0)
        sets, rule = CandidateSets._of_checked(task.S.values, task.S.offsets, share), Rule(Average(), rule.loss)
    return replace(
        task,
        S=sets,
        rule=rule,
        sample_weight=None if plain else weight,
        log_q=None,
        start=None,
        density=None,
        false_labels=None,
        known=None,
        preprocessing=None,
    ).prepared()


def resolve_parts(
    learner: Any,
    weighting: Any,
    loss: Any,
    effort: str | None,
    cv: object,
    validated: bool = False,
    target_transform: object = "auto",
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
    check_transform(target_transform)
    if not isinstance(target_transform, str) or target_transform != "auto":
        if isinstance(found, Committee):
            found = clone(found).set_params(scales=False)
        if target_transform is not None:
            found = TransformedTarget(found, target_transform)
    return found, Posterior() if auto_weighting else get_weighting(weighting), pointwise
