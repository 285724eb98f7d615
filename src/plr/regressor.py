"""`PartialLabelRegressor`: a scikit-learn regressor whose target is a set of candidates per row."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from plr._checks import check_features, check_groups, check_sample_weight, check_seed, is_plain_target
from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import CandidateError, LengthError, NotFittedError, ParameterError
from plr.learners import MLP, Fitted, Learner, Refit, Task, get_learner
from plr.learners.columns import Columns
from plr.learners.folds import check_folds, out_of_fold
from plr.losses import get_loss
from plr.selection import NoiseModel, fit_noise
from plr.weighting import Posterior, Weighting, get_weighting
from plr.weighting.rule import Rule, thread_count

__all__ = ["Identification", "PartialLabelRegressor"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """Which candidate is the true one, row by row.

    Attributes
    ----------
    index : ndarray of shape (n,)
        Position of the most probable candidate in its row.
    value : ndarray of shape (n,)
        That candidate.
    probability : ndarray of shape (n,)
        How probable it is that it is the true one.
    probabilities : ndarray, one entry per candidate
        The same for every candidate, flat, aligned with ``S.offsets``.
    """

    index: NDArray[np.int64]
    value: Floats
    probability: Floats
    probabilities: Floats

    def __repr__(self) -> str:
        sure = float(np.mean(self.probability > 0.95)) if len(self.probability) else 0.0
        return f"Identification({len(self.index)} rows, {sure:.0%} of them above 0.95 sure)"


class PartialLabelRegressor(RegressorMixin, BaseEstimator):
    """Regression from candidate sets.

    Each row of the target is a set of values, exactly one of which is the true label. Fitting weighs the candidates of
    each row by how well they agree with what the other rows say, and trains on the weighted loss. A plain 1-D target is
    the case of one candidate per row, and fitting is then plain supervised training.

    Parameters
    ----------
    learner : str, Learner, scikit-learn regressor or torch module, default="auto"
        What model is fitted: ``linear``, ``mlp``, ``boosting`` or an instance from `plr.learners`. ``auto`` is ``mlp``.
        A regressor of scikit-learn's kind is wrapped in `plr.learners.Refit`, a torch module in `plr.learners.Module`.
    weighting : str, callable or Weighting, default="auto"
        What share each candidate gets: ``average``, ``identification``, ``progressive``, ``posterior``, an instance
        from `plr.weighting`, or a compiled function ``score(prediction, value, loss)``. ``auto`` is ``posterior``.
    loss : str or Loss, default="squared"
        What missing a candidate costs: ``squared``, ``absolute``, ``huber`` or an instance from `plr.losses`.
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        The folds for what is computed out of fold: ``identify()`` of the training rows, and the weights where
        ``learner`` is a scikit-learn regressor. An instance of `Refit` has its own.
    random_state : int, RandomState or None, default=None
        The same number gives the same model, bit for bit.
    n_jobs : int or None, default=None
        Number of folds fitted at the same time. The result does not depend on it.
    verbose : int, default=0
        With 1, training tells how far it is, on stderr.

    Attributes
    ----------
    model_ : Fitted
        What the learner learned.
    learner_, weighting_, loss_ : object
        What was used, names resolved.
    noise_ : NoiseModel
        How true labels scatter around predictions; what ``identify`` and ``score`` go by. Estimated from the learner's
        out-of-fold predictions where it made some, and otherwise from the fitted model's.
    noise_scale_ : float
        How far true labels scatter around the predictions, in label units, estimated from the candidates.
    candidate_probabilities_ : ndarray, one entry per candidate of the training rows
        How probable each is to be the true one by the fitted model, flat. The model has seen these rows; ``identify()``
        asks models that have not.
    n_iter_ : int
        Rounds or epochs done.
    n_features_in_, feature_names_in_ : as in scikit-learn
    columns_ : Columns
        How categories became numbers; only where X is a frame with columns that are not numbers.

    Notes
    -----
    There is no ``warm_start``: a second fit that begins where the first ended would begin with the first's beliefs
    about which candidates are true, and confirm them.

    Parameters of the parts can be searched where the parts are instances: ``weighting__beta2`` needs
    ``weighting=Progressive()``, not ``weighting="progressive"``.

    A fitted model keeps a reference to its training data for ``identify()``; pickles do not contain it.

    Examples
    --------
    >>> import numpy as np
    >>> from plr import PartialLabelRegressor
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> wrong = np.random.default_rng(0).uniform(0, 3, size=100)
    >>> S = np.column_stack([3 * X[:, 0], wrong])        # one true value, one false
    >>> model = PartialLabelRegressor(learner="linear").fit(X, S)
    >>> model.predict([[0.5]]).round(2)
    array([1.5])
    >>> model.identify(X[:2], S[:2]).index
    array([0, 0])
    """

    def __init__(
        self,
        learner: object = "auto",
        weighting: object = "auto",
        loss: object = "squared",
        cv: object = 5,
        random_state: object = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.learner = learner
        self.weighting = weighting
        self.loss = loss
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        validation: tuple[Any, Any] | None = None,
        callback: Callable[[int, int, float], object] | None = None,
    ) -> PartialLabelRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : CandidateSets, list of lists, list column, NaN-padded 2-D array, or plain 1-D labels
            The candidate sets; a column of texts such as ``12.5|13.1`` will do.
        sample_weight : array-like of shape (n,), optional
        groups : array-like of shape (n,), optional
            Rows of one group stay together wherever folds are made: by `Refit`, and by ``identify()``.
        validation : (X, y), optional
            Rows to choose the best epoch by; with plain labels as ``y``, by the labels.
        callback : callable, optional
            Called about ten times a second with ``(rounds done, rounds at most, loss)``; stops training by raising.

        Returns
        -------
        self
        """
        learner, weighting, loss = self._resolve()
        rule = Rule(weighting, loss)
        check_folds(self.cv)
        threads = thread_count(self.n_jobs)
        S = as_candidate_sets(y)
        # Columns are recorded on a copy, so that a fit that fails leaves this model as it was.
        probe = type(self)(**self.get_params(deep=False))
        X = check_features(probe, X, learner, reset=True)
        columns: Columns | None = getattr(probe, "columns_", None)
        if len(S) != _num_samples(X):
            raise LengthError(f"X has {_num_samples(X)} rows and the target {len(S)}; they must agree.")
        if len(S) == 0:
            raise CandidateError("There are no rows to fit; give at least one.")
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(S))
        seed = int(check_seed(self.random_state).randint(2**31 - 1))
        task = Task(
            X,
            S,
            rule,
            sample_weight=weight,
            validation=_check_validation(probe, validation, learner),
            groups=check_groups(groups, len(S)),
            categorical=() if columns is None else columns.categorical,
            names=tuple(getattr(probe, "feature_names_in_", ())),
            seed=seed,
            n_jobs=self.n_jobs,
            callback=callback or (_tell if self.verbose else None),
        )
        model = learner.fit(task)
        if self.verbose and callback is None:
            sys.stderr.write("\n")
        # Some learners know these already, and predicting takes them long.
        known = getattr(model, "training_prediction", None)
        prediction = model.predict(X) if known is None else known
        unseen = _unseen(model)
        family = weighting if isinstance(weighting, Posterior) else None
        noise = fit_noise(prediction if unseen is None else unseen, S, family, weight, threads)

        for name in ("n_features_in_", "feature_names_in_", "columns_"):
            if hasattr(probe, name):
                setattr(self, name, getattr(probe, name))
            elif hasattr(self, name):
                delattr(self, name)
        self.learner_, self.weighting_, self.loss_ = learner, weighting, loss
        self.model_: Fitted = model
        self.n_iter_ = model.report.rounds
        self.noise_: NoiseModel = noise
        self.noise_scale_ = noise.scale
        self.candidate_probabilities_ = noise.probabilities(prediction, S, threads)
        self._training: Task | None = replace(task, callback=None)
        self._identified: Identification | None = None
        return self

    def predict(self, X: Any) -> Floats:
        """Return one prediction per row.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        self._check_fitted()
        return self.model_.predict(check_features(self, X, self.learner_, reset=False))

    def identify(self, X: Any = None, S: Any = None) -> Identification:
        """Say which candidate of each row is the true one, and how sure that is.

        Parameters
        ----------
        X, S : array-like and candidate sets, optional
            New rows. Without them, the training rows, each judged by a model fitted to the other folds: those that
            the learner fitted to weigh the candidates (`Refit`), or else by folds that are fitted on the first call.

        Returns
        -------
        Identification
        """
        self._check_fitted()
        if (X is None) != (S is None):
            raise ParameterError("Give both X and S to identify new rows, or neither to identify the training rows.")
        if X is None:
            if self._identified is None:
                self._identified = self._identify_training_rows()
            return self._identified
        sets = as_candidate_sets(S)
        prediction = self.predict(X)
        if len(sets) != len(prediction):
            raise LengthError(f"X has {len(prediction)} rows and S {len(sets)}; they must agree.")
        return identification(self.noise_.probabilities(prediction, sets), sets)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² on plain labels, and the mean log likelihood on candidate sets; higher is better in both.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : plain 1-D labels, or candidate sets
            On candidate sets the score is the mean of log Σ prior · p / q: p is the noise around the prediction with
            the scale learned in ``fit``, q the uniform density of false labels. It compares weightings and learners
            on the same rows without knowing a true label.
        sample_weight : array-like of shape (n,), optional
        """
        prediction = self.predict(X)
        S = as_candidate_sets(y)
        if len(S) != len(prediction):
            raise LengthError(f"X has {len(prediction)} rows and the target {len(S)}; they must agree.")
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(S))
        if is_plain_target(y):
            return float(r2_score(S.values, prediction, sample_weight=weight))
        return float(np.average(self.noise_.log_likelihood(prediction, S), weights=weight))

    def _resolve(self) -> tuple[Learner, Weighting, Any]:
        # Compared as names only: an estimator given as learner has its own idea of equality.
        names = [part if isinstance(part, str) else "" for part in (self.learner, self.weighting)]
        learner = MLP() if names[0] == "auto" else get_learner(self.learner)
        if isinstance(learner, Refit) and learner is not self.learner:
            learner.cv = self.cv
        weighting = Posterior() if names[1] == "auto" else get_weighting(self.weighting)
        return learner, weighting, get_loss(self.loss)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with X and candidate sets first."
            )

    def _identify_training_rows(self) -> Identification:
        if self._training is None:
            raise NotFittedError(
                "The training rows are not kept in a pickled model. Call identify() before pickling, or give the rows: "
                "identify(X, S)."
            )
        task = self._training
        unseen = _unseen(self.model_)
        prediction = out_of_fold(self.learner_, task, self.cv) if unseen is None else unseen
        family = self.weighting_ if isinstance(self.weighting_, Posterior) else None
        noise = fit_noise(prediction, task.S, family, task.sample_weight)
        return identification(noise.probabilities(prediction, task.S), task.S)

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        if "_training" in state:
            state["_training"] = None
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            learner = self._resolve()[0]
        except ParameterError:
            return tags
        given = get_tags(learner)
        tags.input_tags = given.input_tags
        tags.target_tags.positive_only = given.target_tags.positive_only
        return tags


def _unseen(model: Fitted) -> Floats | None:
    """Return the predictions of the training rows that a learner made out of fold, if it made any."""
    return getattr(model, "out_of_fold", None)


def identification(probabilities: Floats, S: CandidateSets) -> Identification:
    """Take the most probable candidate of each row; of equals, the first."""
    best = np.maximum.reduceat(probabilities, S.offsets[:-1])
    is_best = probabilities == best[S.row_index]
    place = np.where(is_best, np.arange(probabilities.size), probabilities.size)
    flat = np.minimum.reduceat(place, S.offsets[:-1])
    return Identification(flat - S.offsets[:-1], S.values[flat], best, probabilities)


def _check_validation(
    probe: PartialLabelRegressor, validation: object, learner: Learner
) -> tuple[Any, CandidateSets] | None:
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise ParameterError("validation must be a pair (X, S) of rows and their candidate sets.")
    X = check_features(probe, validation[0], learner, reset=False)
    S = as_candidate_sets(validation[1])
    if _num_samples(X) != len(S):
        raise LengthError(f"The validation X has {_num_samples(X)} rows and its target {len(S)}; they must agree.")
    return X, S


def _tell(done: int, total: int, loss: float) -> None:
    sys.stderr.write(f"\rplr: round {done} of at most {total}, loss {loss:.6g}")
    sys.stderr.flush()
