"""`PartialLabelRegressor`: a scikit-learn regressor whose target is a set of candidates per row."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from plr._checks import (
    check_codes,
    check_features,
    check_groups,
    check_sample_weight,
    check_seed,
    check_validation,
    is_plain_target,
)
from plr._parameters import check_choice, check_integer
from plr.candidates import CandidateSets, as_candidate_sets
from plr.candidates.known import CheckedRows, read_known
from plr.diagnosis import Diagnosis, diagnose_fit
from plr.diagnosis.signal import is_clear
from plr.errors import (
    AmbiguousDataWarning,
    CandidateError,
    DependentLabelsWarning,
    FewRowsWarning,
    IdentifierWarning,
    LengthError,
    NotFittedError,
    ParameterError,
)
from plr.fit_report import FitReport
from plr.folds import check_folds, make_folds, out_of_fold
from plr.identification import Identification, choose, identification, shared
from plr.imputation import Imputer, align_folds, correction_columns
from plr.intervals import Calibration, check_coverage, learn_calibration
from plr.learners import Committee, Density, Fitted, GaussianProcess, Learner, Refit, Task
from plr.losses import Loss
from plr.metrics import r2
from plr.noise import NoiseModel, fit_noise
from plr.preprocessing.features import Columns, find_identifiers
from plr.priors.learned import (
    Belief,
    LearnedPrior,
    check_match_score,
    check_one_to_one,
    given_prior,
    log_shares,
    share_training_records,
    teaching_rows,
    unlearned_prior,
)
from plr.priors.utilities import UtilityModel
from plr.progress import SILENT, Progress, begin
from plr.review import Review, choose_rows
from plr.training import Recipe, count_rows, encode_rows, encoded_features, part_name, resolve_parts, settle_known
from plr.weighting import Weighting
from plr.weighting.rule import Rule, row_sums, thread_count

__all__ = ["Identification", "PartialLabelRegressor"]

Floats = NDArray[np.float64]

_PARTS = ("learner", "weighting", "loss")
_PRIOR_NAMES = ("auto", "given", "learned")
# The stage in which everything is fitted once more for each fold.
_AGAIN = "fitting without each fold"

# What scikit-learn's checks of X leave on an estimator, and ours.
_RECORDED = ("n_features_in_", "feature_names_in_", "columns_")


class PartialLabelRegressor(RegressorMixin, BaseEstimator):
    """Regression from candidate sets.

    Each row of the target is a set of values, exactly one of which is the true label. Fitting weighs the candidates of
    each row by how well they agree with what the other rows say, and trains on the weighted loss. A plain 1-D target is
    the case of one candidate per row, and fitting is then plain supervised training.

    Parameters
    ----------
    learner : str, Learner, scikit-learn regressor or torch module, default="auto"
        What model is fitted: ``committee``, ``gaussian_process``, ``boosting``, ``mlp``, ``linear``, ``density`` or an
        instance from `plr.learners`. ``auto`` is ``committee``, several kinds of models, mixed by how likely they make
        candidate sets that they have not seen; with validation rows, or a loss other than the squared, it is ``mlp``. A
        regressor of scikit-learn's kind is wrapped in `plr.learners.Refit`, a torch module in `plr.learners.Module`.
    weighting : str, callable or Weighting, default="auto"
        What share each candidate gets: ``average``, ``identification``, ``progressive``, ``posterior``, an instance
        from `plr.weighting`, or a compiled function ``score(prediction, value, loss)``. ``auto`` is ``posterior``.
    loss : str or Loss, default="squared"
        What missing a candidate costs: ``squared``, ``absolute``, ``huber`` or an instance from `plr.losses`.
    start : "auto", None, "density", "sampled" or Start, default="auto"
        First weights of the candidates, from before any model exists; learners begin with them and go on by the
        weighting. ``density`` looks where candidates of rows that are alike pile up
        (`plr.learners.starts.DensityStart`), ``sampled`` draws from there which candidates agree with a smooth function
        (`plr.learners.starts.SampledStart`). None begins with the priors, as the paper's methods do. ``auto`` is
        ``density`` where the learner is the committee or a Gaussian process and the weighting ``posterior``, and else
        None. The weights of ``average`` never move, so it has no use for a start.
    prior : {"auto", "given", "learned"} or UtilityModel, default="auto"
        What makes a candidate believable beside its value. ``given`` is the prior of the candidate sets, if any.
        ``auto`` learns from checked rows (``known``) how much the features of candidates and the given prior count;
        and where false candidates depend on the features, so that agreement with the model proves little, it learns
        how much that counts, and fits the learner to the probabilities that result. ``learned`` does so in any case.
        `plr.priors.BoostedLogit`, for some hundred checked rows and many features, or a class of your own that derives
        from `plr.priors.UtilityModel`, does what ``auto`` does with another model of how features of candidates become
        probabilities than its conditional logit.
    match_score : str or None, default=None
        Name of a feature of the candidates that is a score: numbers of any scale, of which the larger are the more
        believable, such as the similarity of two names. It then counts before any row is checked, by how far it differs
        within rows; checked rows teach how much.
    one_to_one : bool, default=False
        Whether no two rows can have the same record as their truth. Needs candidate sets with ``record``; rows of one
        call to ``identify`` are decided together, and records that rows of training hold count against new rows.
    effort : {"low", "normal", "high"} or None, default=None
        How much the committee computes: a fixed plan by the number of rows, never a time, so that the same seed gives
        the same model. None is ``normal``. Other learners, and a `Committee` instance, have parameters of their own;
        with them an effort is refused.
    target_transform : {"auto", "log", "yeo-johnson"}, None or scikit-learn transformer, default="auto"
        The scale that labels are learned on. Candidates and the density of false labels are transformed; predictions
        are mean labels again, and intervals are wider where the scale is flatter. ``auto``: the committee tries
        logarithms and powers where the distribution of the candidates suggests them, and goes by the likelihood of rows
        that it has not seen; other learners take labels as they are, as all do with None. For a transformation of your
        own before anything else there is ``S.map(np.log)``.
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        The folds for what is computed out of fold: ``identify()`` of the training rows, the start, and the weights
        where ``learner`` is a scikit-learn regressor or ``density``. Instances of `Refit` and `Density` have their own.
    random_state : int, RandomState or None, default=None
        The same number gives the same model, bit for bit.
    n_jobs : int or None, default=None
        Number of folds fitted at the same time. The result does not depend on it.
    verbose : int, default=0
        With 1, ``fit``, ``identify`` and ``predict_interval`` tell on stderr how far they are: the stage, the share of
        the whole that is done and the time left, on one bar, or a line for each stage where stderr is no terminal.
        What is found about members of the model goes to the logger ``plr`` at the level INFO, whatever this is.

    Attributes
    ----------
    model_ : Fitted
        What the learner learned.
    learner_, weighting_, loss_ : object
        What was used, names resolved.
    prior_ : LearnedPrior or None
        What makes a candidate believable, where that was learned; prints in words.
    noise_ : NoiseModel
        How true labels scatter around predictions; what ``identify`` and ``score`` go by. Estimated from the learner's
        out-of-fold predictions where it made some, and otherwise from the fitted model's.
    noise_scale_ : float
        How far true labels scatter around the predictions, in label units, estimated from the candidates.
    missing_share_ : float
        The share of rows whose truth is missing from their candidates: 0 unless the weighting allows for it.
    start_weights_ : ndarray, one entry per candidate of the training rows, or None
        The start's weights, flat, each by models that have not seen its row; None where there was no start.
    candidate_probabilities_ : ndarray, one entry per candidate of the training rows
        How probable each is to be the true one by the fitted model, flat. The model has seen these rows; ``identify()``
        asks models that have not.
    diagnosis_ : Diagnosis or None
        Whether the data can tell which candidates are true, by a quick look; None where no row has several. Where it
        cannot, ``fit`` warns, and candidates that fit equally well get probabilities by their prior. `plr.check` looks
        more closely. Where false candidates depend on the features, and there are neither checked rows nor a prior,
        the model is fitted to the means of the candidates.
    report_ : FitReport or None
        What the model is made of: a table of members, each with how likely it makes candidate sets of rows that it has
        not seen (``evidence``), its share and the seconds it took. The committee has the models of its start and all
        members that it has tried; the last line, the only one of most learners, is the model. None with models that
        were loaded or fitted in batches: files are the same whatever the time a fit took.
    calibration_ : Calibration or None
        How far true labels are from predictions. `fit` learns it where the learner has held out rows on the way, as the
        default does; otherwise None until `calibrate` or `predict_interval` is called.
    n_iter_ : int
        Rounds or epochs done.
    n_features_in_, feature_names_in_ : as in scikit-learn
    feature_importances_ : ndarray of shape (n_features_in_,)
        Each column's share. With the committee, in how much the prediction changes, in squares, where the column is
        shuffled; with boosting and `Refit` of regressors that have it, in how much splits of trees lowered the loss.
        Other models have none.
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

    learner_: Learner
    report_: FitReport | None
    start_weights_: Floats | None
    _training: Task | None
    _given: CandidateSets | None
    _belief: Belief | None
    _identified: Identification | None

    def __init__(
        self,
        learner: object = "auto",
        weighting: object = "auto",
        loss: object = "squared",
        start: object = "auto",
        prior: object = "auto",
        match_score: str | None = None,
        one_to_one: bool = False,
        effort: str | None = None,
        target_transform: object = "auto",
        cv: object = 5,
        random_state: object = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.learner = learner
        self.weighting = weighting
        self.loss = loss
        self.start = start
        self.prior = prior
        self.match_score = match_score
        self.one_to_one = one_to_one
        self.effort = effort
        self.target_transform = target_transform
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
        known: Any = None,
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
            Called with ``(done, at most, loss)`` of the learner about ten times a second, or after each chain or round
            where those are slow; stops training by raising. A bar over the whole fit is ``verbose``.
        known : array-like of shape (n,) or table of n rows, optional
            True labels of rows that somebody looked up, NaN elsewhere. One that is none of its row's candidates says
            that the truth was missing there. A table has the column ``value`` and may have ``record``, ``answer``
            (``"none of these"`` or ``"cannot tell"``) and ``probability``, with which the row was chosen to be looked
            at; without it, checked rows are taken for a random sample. Where five or more labels are known, candidates
            are rounded to as many decimals as these have before the two are compared; otherwise they may differ by a
            millionth.

        Returns
        -------
        self
        """
        learner, weighting, loss = self._resolve(validation is not None)
        learner.check_weighting(weighting)
        _check_prior(self.prior)
        check_folds(self.cv)
        if callback is not None and not callable(callback):
            raise ParameterError(f"callback must be a function of (done, at most, loss), got {callback!r}.")
        threads = thread_count(self.n_jobs)
        S = as_candidate_sets(y).named_like(X)
        # Columns are recorded on a copy, so that a fit that fails leaves this model as it was.
        probe = type(self)(**self.get_params(deep=False))
        probe.learner_ = learner
        frame, X = X, check_features(probe, X, learner, reset=True)
        columns: Columns | None = getattr(probe, "columns_", None)
        if len(S) != _num_samples(X):
            raise LengthError(f"X has {_num_samples(X)} rows and the target {len(S)}; they must agree.")
        if len(S) == 0:
            raise CandidateError("There are no rows to fit; give at least one.")
        # What a model of rows of any kind makes of texts is its own business.
        if learner.takes != "rows" and hasattr(frame, "columns") and (odd := find_identifiers(frame, columns)):
            listed = "; ".join(f"{name!r} {why}" for name, why in odd.items())
            warnings.warn(
                f"These columns look like identifiers, which say nothing of new rows: {listed}. Leave them out of X, "
                "or fit plr.TableModel, which does so.",
                IdentifierWarning,
                stacklevel=2,
            )
        checked = read_known(known, S)
        if self.match_score is not None:
            if self.prior == "given":
                raise ParameterError(
                    "{parameter} counts with prior='auto' and prior='learned', and prior is 'given'; leave out one.",
                    parameter="match_score",
                    value=self.match_score,
                )
            check_match_score(S, self.match_score)
        if self.one_to_one:
            check_one_to_one(S, checked)
        if self.prior == "learned" and not (
            S.prior is not None or self.match_score is not None or teaching_rows(S, checked).any()
        ):
            raise ParameterError(
                "{parameter}='learned' has nothing to learn from: there are no rows of several candidates of which the "
                "true one is known, and neither a prior nor a match_score. Give the true labels of some rows as known "
                "(NaN elsewhere), candidate sets with a prior, or {parameter}='auto'.",
                parameter="prior",
                value=self.prior,
            )
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(S))
        task = Task(
            X,
            S,
            Rule(weighting, loss),
            sample_weight=count_rows(S, weight, checked),
            validation=None if validation is None else check_validation(probe, validation, learner),
            groups=None if groups is None else check_groups(groups, len(S)),
            categorical=() if columns is None else columns.categorical,
            names=tuple(getattr(probe, "feature_names_in_", ())),
            seed=int(check_seed(self.random_state).randint(2**31 - 1)),
            n_jobs=self.n_jobs,
            callback=callback,
            known=checked,
        )
        if task.counted_rows < learner.few_rows and S.values.size > len(S):
            warnings.warn(
                f"{task.counted_rows} rows are few to tell which of their candidates are true: predictions may be no "
                f"better than a mean, and probabilities and intervals far off. More rows help, or rows with one "
                f"candidate.",
                FewRowsWarning,
                stacklevel=2,
            )
        with begin(self.verbose) as progress:
            return self._fit(task, learner, probe, threads, progress)

    def _fit(
        self, task: Task, learner: Learner, probe: PartialLabelRegressor, threads: int, progress: Progress
    ) -> PartialLabelRegressor:
        """Become what a task teaches; the probe has what was recorded of its columns."""
        X, S, checked, weighting, loss = task.X, task.S, task.known, task.rule.weighting, task.rule.loss
        members = progress.collect()
        training, judging = progress.split({"": 30.0, "noise and diagnosis": 1.0})
        with training:
            result = self._recipe(learner).train(replace(task, progress=training))
        judging.start()
        model, trained, belief = result.model, result.task, result.belief
        prediction = model.training_prediction
        if prediction is None:
            prediction = model.predict(X)
        # Probabilities go by the priors that the user gave, or that were learned, without what a start added.
        learned = result.prior
        weighed = S if learned is None else learned.weigh(S)
        settled = weighed if checked is None else checked.settle(weighed)
        task = replace(settle_known(task) if belief is not None else trained, S=settled)
        labels = task.preprocess()
        unseen = model.out_of_fold if model.held_out is None else model.held_out
        noise = fit_noise(
            prediction if unseen is None else unseen,
            task.S,
            weighting,
            task.sample_weight,
            threads,
            task.false_labels,
            model.relative_scale,
            labels,
            task.rule,
        )
        if belief is not None and belief.prior.agreement is not None:
            noise = replace(noise, scale=belief.prior.agreement.noise, missing=0.0)
        relative = None if model.relative_scale is None else model.predict_scale(X)
        if belief is None:
            probabilities = noise.probabilities(prediction, task.S, threads, relative, labels.sets)
        else:
            probabilities = belief.probabilities
        taught = 0 if checked is None else int(teaching_rows(S, checked, task.sample_weight).sum())
        informed = model.held_out is not None and _says_something(noise, model.held_out, model.relative_scale, task)
        diagnosis = diagnose_fit(task, prediction, probabilities, result.dependence, taught, informed)
        probabilities = shared(probabilities, task.S, diagnosis)
        if checked is not None:
            probabilities, _ = checked.settle_probabilities(S, probabilities, np.zeros(len(S)))
        if self.one_to_one and belief is None:
            shares, counted = share_training_records(S, probabilities, checked, task.sample_weight)
            present = np.where(counted, row_sums(probabilities, S), 0.0)
            probabilities = shares * present[S.row_index]
            learned = (learned or given_prior(S)).holding(S, probabilities)
        evidence = None
        if unseen is not None and belief is None:
            likelihood = noise.log_likelihood(unseen, task.S, model.relative_scale, labels.sets)
            with np.errstate(invalid="ignore"):
                evidence = float(np.average(likelihood, weights=task.sample_weight))
        progress.record(part_name(learner), evidence, None, training.seconds)
        recorded = {name: getattr(probe, name) for name in _RECORDED if hasattr(probe, name)}
        self._take_parts(learner, weighting, loss, model, noise, diagnosis, prior=learned, **recorded)
        self.start_weights_ = result.first
        self.report_ = FitReport(tuple(members))
        self.candidate_probabilities_ = probabilities
        kept = trained if belief is None else task
        self._training, self._given = replace(kept, callback=None, density=None, preprocessing=None, progress=SILENT), S
        if belief is not None:
            self._belief = belief
            found = choose(belief.probabilities, S, belief.missing, diagnosis)
            self._identified = replace(found if checked is None else self._settle(found, S, checked), sets=S)
        elif model.held_out is not None:
            self.calibrate()
        return self

    def _take_parts(
        self,
        learner: Learner,
        weighting: Weighting,
        loss: Loss,
        model: Fitted,
        noise: NoiseModel,
        diagnosis: Diagnosis | None,
        calibration: Calibration | None = None,
        prior: LearnedPrior | None = None,
        **recorded: Any,
    ) -> None:
        """Become a fitted regressor of these parts, without training rows, and warn where the data cannot tell."""
        for name in (*_RECORDED, "candidate_probabilities_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(recorded)
        self.learner_, self.weighting_, self.loss_ = learner, weighting, loss
        self.model_, self.n_iter_ = model, model.report.rounds
        self.noise_, self.noise_scale_, self.missing_share_ = noise, noise.scale, noise.missing
        self.diagnosis_, self.calibration_, self.prior_ = diagnosis, calibration, prior
        self.start_weights_ = self._training = self._given = self._belief = None
        self._identified = self.report_ = None
        # Of the training rows, out of fold, where the learner has none of its own; set when folds are fitted.
        self._out_of_fold: Floats | None = None
        # What training rows are recognised by in other tables; set by ``plr fit``.
        self._row_digests: NDArray[np.uint64] | None = None
        if diagnosis is not None and diagnosis.caution:
            category = DependentLabelsWarning if diagnosis.dependent else AmbiguousDataWarning
            warnings.warn(diagnosis.caution, category, stacklevel=4)

    @property
    def feature_importances_(self) -> Floats:
        """Each column's share; one in all.

        With the committee, the share in how much the prediction changes where the column is shuffled; with trees, in
        how much splits lowered the loss. For every model there is scikit-learn's ``permutation_importance``.
        """
        self._check_fitted()
        found = self.model_.importance
        if found is None:
            raise AttributeError(
                f"This {type(self.learner_).__name__} has no feature_importances_; "
                "sklearn.inspection.permutation_importance takes any model."
            )
        return found

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

    def __call__(self, X: Any) -> Floats:
        """Return `predict` of X, for tools that call a model, as SHAP does: ``shap.Explainer(model, X)``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows as `predict` takes them, or as `to_numbers` returns them.

        Returns
        -------
        ndarray of shape (n,)
        """
        self._check_fitted()
        coded = check_codes(self, X, self.learner_)
        return self.predict(X) if coded is None else self.model_.predict(coded)

    def to_numbers(self, X: Any) -> Any:
        """Return X as numbers alone, for tools that compute with features, as SHAP does.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        frame of pandas' where X is one, or ndarray, of shape (n, d)
            A category is its place among those of training, and NaN where it is missing or new. Calling the model
            predicts from these: ``shap.Explainer(model, model.to_numbers(X))``.

        Examples
        --------
        >>> import pandas as pd
        >>> from plr import PartialLabelRegressor
        >>> X = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "shop": ["south", "north"] * 2})
        >>> model = PartialLabelRegressor(learner="linear").fit(X, [1.0, 3.0, 3.0, 5.0])
        >>> model.to_numbers(X[:2])
           size  shop
        0   1.0   1.0
        1   2.0   0.0
        >>> model(model.to_numbers(X[:2])).round(2)
        array([1., 3.])
        """
        self._check_fitted()
        found = check_features(self, X, self.learner_, reset=False)
        return type(X)(found, index=X.index, columns=X.columns) if hasattr(X, "iloc") else found

    def _predict_with_scale(self, X: Any) -> tuple[Floats, Floats | None]:
        """Return the predictions for some rows and, where there is one, each row's relative noise scale."""
        self._check_fitted()
        rows = check_features(self, X, self.learner_, reset=False)
        return self.model_.predict(rows), self.model_.predict_scale(rows)

    def _identify_rows(
        self,
        X: Any,
        sets: CandidateSets,
        by: tuple[Floats, Floats | None] | None = None,
        trained: NDArray[np.bool_] | None = None,
    ) -> Identification:
        """Say which candidates of new rows are true.

        Parameters
        ----------
        X : array-like of shape (n, d)
        sets : CandidateSets
        by : (ndarray, ndarray or None), optional
            Predictions and noise scales to go by, in place of the model's own.
        trained : ndarray of bool of shape (n,), optional
            Rows of training, whose records do not count against themselves.
        """
        rows = check_features(self, X, self.learner_, reset=False)
        prediction, relative = (self.model_.predict(rows), self.model_.predict_scale(rows)) if by is None else by
        if len(sets) != len(prediction):
            raise LengthError(f"X has {len(prediction)} rows and S {len(sets)}; they must agree.")
        prior = self.prior_
        if trained is not None and prior is not None and sets.record is not None:
            own = set(sets.record[trained[sets.row_index]].tolist())
            prior = replace(prior, held={name: 0.0 if name in own else share for name, share in prior.held.items()})
        if prior is not None and prior.agreement is not None:
            probabilities, missing = prior.probabilities(sets, prediction, rows)
            return choose(probabilities, sets, missing, self.diagnosis_)
        found = self._by_residuals(rows, prediction, relative, self._weigh(sets))
        if prior is None or not prior.held:
            return found
        shares = prior.share_records(sets, log_shares(found.probabilities))
        return choose(shares * (1.0 - found.missing)[sets.row_index], sets, found.missing, self.diagnosis_)

    def _by_residuals(self, rows: Any, prediction: Floats, relative: Floats | None, S: CandidateSets) -> Identification:
        """Say which candidates are true by the density of residuals, or by the noise where that was not learned."""
        calibration = self.calibration_
        if calibration is None:
            return identification(self.noise_, prediction, S, relative, diagnosis=self.diagnosis_)
        widths = calibration.row_widths(rows, prediction, relative)
        probabilities = calibration.density.probabilities(prediction, S, self.noise_.false_labels.log(S.values), widths)
        missing = np.clip(1.0 - row_sums(probabilities, S), 0.0, 1.0)
        return choose(probabilities, S, missing, self.diagnosis_)

    def identify(self, X: Any = None, S: Any = None) -> Identification:
        """Say which candidate of each row is the true one, and how sure that is.

        Parameters
        ----------
        X, S : array-like and candidate sets, optional
            New rows. Without them, the training rows, out of fold: by what the learner predicted without each row's
            fold on the way, or else by models that are fitted without each fold on the first call.

        Returns
        -------
        Identification

        Notes
        -----
        Probabilities of new rows go by how far true labels of rows that models had not seen were from predictions,
        whatever the shape of that noise, where this is known: with the default, or after `calibrate`. Other learners go
        by the noise of the weighting, at a scale that training rows may have made too small.
        """
        self._check_fitted()
        if (X is None) != (S is None):
            raise ParameterError("Give both X and S to identify new rows, or neither to identify the training rows.")
        if X is not None:
            sets = as_candidate_sets(S).named_like(X)
            return replace(self._identify_rows(X, sets), sets=sets)
        if self._identified is None:
            task, given = self._training_rows("Call identify() before pickling, or give the rows: identify(X, S).")
            sets = self._weigh(given, task.known)
            model, noise, out = self.model_, self.noise_, self.model_.out_of_fold
            if out is None:
                # Folds take over the start's weights: a row's were made without its fold. That other rows' were made
                # with its candidates in sight is a trace at second hand, not worth a start for each fold.
                with begin(self.verbose) as progress, progress.split({_AGAIN: 1.0})[0] as folds:
                    out = out_of_fold(self.learner_, replace(task, progress=folds), self.cv)
                self._out_of_fold = out
                noise = self._noise_around(out, task, sets)
            found = identification(noise, out, sets, model.relative_scale, model.out_of_fold_weights, self.diagnosis_)
            if self.one_to_one:
                shares, _ = share_training_records(given, found.probabilities, task.known, task.sample_weight)
                again = choose(shares * (1.0 - found.missing)[given.row_index], given, found.missing)
                found = replace(again, caution=found.caution)
            found = found if task.known is None else self._settle(found, given, task.known)
            self._identified = replace(found, sets=given)
        return self._identified

    def impute(self, n: int = 20, random_state: object = None) -> Floats:
        """Draw the labels of all training rows several times, as uncertain as they are.

        For multiple imputation: do an analysis once with each draw and pool the results by Rubin's rules, and what is
        not known about the labels is in its standard errors. Candidates are drawn by the probabilities of `identify`;
        a truth that is missing is drawn from the noise around the out-of-fold prediction; known labels stay. How far
        predictions are off, as a linear function of the features, the noise and an estimated density of false labels
        are drawn as well, since none of them is known exactly.

        Parameters
        ----------
        n : int, default=20
            How many draws.
        random_state : int, RandomState or None, default=None
            The same number gives the same draws.

        Returns
        -------
        ndarray of shape (n, rows)

        Notes
        -----
        All variables of the analysis must be among the features: what the model has not seen, the draws do not vary
        with. An analysis should be one that linear functions of the features have a say in; of how uncertain the model
        is about its other functions, the draws know what the probabilities say. Where the data cannot tell which
        candidates are true (``diagnosis_``), rows are drawn independently of each other; so are records under
        ``one_to_one``.

        Examples
        --------
        >>> import numpy as np
        >>> from plr import PartialLabelRegressor
        >>> X = np.linspace(0, 1, 100)[:, None]
        >>> S = np.column_stack([3 * X[:, 0], np.random.default_rng(0).uniform(0, 3, size=100)])
        >>> labels = PartialLabelRegressor(learner="linear").fit(X, S).impute(5, random_state=0)
        >>> labels.shape, bool(np.isin(labels, S).all())
        ((5, 100), True)
        """
        check_integer("n", n, low=1)
        random = np.random.default_rng(check_seed(random_state).randint(2**31 - 1))
        self._check_fitted()
        task, given = self._training_rows("Call impute() before pickling, or fit again.")
        found, model, noise = self.identify(), self.model_, self.noise_
        prediction = self._out_of_fold if model.out_of_fold is None else model.out_of_fold
        if prediction is None:
            prediction = model.predict(task.X)
        elif model.out_of_fold is None:
            noise = self._noise_around(prediction, task, self._weigh(given, task.known))
        agreement = None if self.prior_ is None else self.prior_.agreement
        trust = 1.0 if agreement is None else min(agreement.exponent, 1.0)
        weight = np.ones(len(given)) if task.sample_weight is None else task.sample_weight / task.sample_weight.mean()
        columns = correction_columns(encode_rows(task.X, self.learner_, task.categorical), len(given), weight)
        centre = prediction
        if folds := make_folds(task, self.cv):
            centre = align_folds(prediction, model.predict(task.X), columns, [test for _, test in folds])
        return Imputer(
            given,
            found.probabilities,
            found.missing,
            np.full(len(given), np.nan) if task.known is None else task.known.value,
            prediction,
            centre,
            noise,
            model.relative_scale,
            weight,
            columns,
            0.0 if found.caution else trust,
        ).draw(n, random)

    def _noise_around(self, prediction: Floats, task: Task, sets: CandidateSets) -> NoiseModel:
        """Return how true labels of the training rows scatter around other predictions than the fit's own."""
        return fit_noise(
            prediction,
            sets,
            self.weighting_,
            task.sample_weight,
            false_labels=task.false_labels,
            relative=self.model_.relative_scale,
            rule=task.rule,
        )

    def review(
        self, n: int = 20, X: Any = None, S: Any = None, known: Any = None, random_state: object = None
    ) -> Review:
        """Choose the rows that are most worth checking next.

        Those whose answer would change most: it settles the row itself, and where candidates have features, or false
        ones depend on the features of rows, it teaches what makes a candidate believable in all rows. The choice is
        spread over the features of rows, and about a fifth of it is a random sample, the first ten rows at least. Give
        what was found to ``fit`` as ``known``, with the probability of each row, and ask again.

        Parameters
        ----------
        n : int, default=20
            How many; fewer where there are not as many left.
        X : array-like of shape (m, d), optional
        S : candidate sets of m rows, optional
            Rows to choose from. Without them, the rows of training that have not been checked.
        known : array-like of shape (m,) or table of m rows, optional
            What is known of these rows, as ``fit`` takes it; rows that somebody looked at are not chosen again.
        random_state : int, RandomState or None, default=None
            The same number gives the same rows.

        Returns
        -------
        Review
            Rows with several candidates, in random order: their candidates and probabilities, and with what
            probability each was chosen.

        Examples
        --------
        >>> import numpy as np
        >>> from plr import PartialLabelRegressor
        >>> X = np.linspace(0, 1, 100)[:, None]
        >>> S = np.column_stack([3 * X[:, 0], np.random.default_rng(0).uniform(0, 3, size=100)])
        >>> model = PartialLabelRegressor(learner="linear").fit(X, S)
        >>> review = model.review(5, random_state=0)
        >>> len(review.row), {candidate["value"] for candidate in review.candidates(0)} == set(S[review.row[0]])
        (5, True)
        """
        check_integer("n", n, low=1)
        rng = np.random.default_rng(check_seed(random_state).randint(2**31 - 1))
        if X is None and known is not None:
            raise ParameterError(
                "{parameter} says what is known of the rows given as X and S; those of training are known from fit.",
                parameter="known",
            )
        found = self.identify(X, S)
        weight = np.ones(len(found.index))
        if X is None:
            task, sets = self._training_rows("Give the rows: review(n, X, S).")
            rows, checked, categorical = task.X, task.known, task.categorical
            prediction = self._out_of_fold if self.model_.out_of_fold is None else self.model_.out_of_fold
            weight = weight if task.sample_weight is None else task.sample_weight
        else:
            sets, rows, prediction = as_candidate_sets(S), check_features(self, X, self.learner_, reset=False), None
            checked = read_known(known, sets)
            columns: Columns | None = getattr(self, "columns_", None)
            categorical = () if columns is None else columns.categorical
        if prediction is None:
            prediction = self.model_.predict(rows)
        prior = self.prior_ or unlearned_prior(sets)
        features, coefficients, precision = prior.design(sets, prediction, rows)
        nobody = np.zeros(len(sets), dtype=bool)
        taught = teaching_rows(sets, checked)
        several = (sets.unique() if sets.record is None else sets).sizes > 1
        row, chosen, probability = choose_rows(
            n,
            sets,
            found.probabilities,
            several & (weight > 0) & ~(nobody if checked is None else checked.looked_at),
            features,
            coefficients,
            precision,
            taught,
            encode_rows(rows, self.learner_, categorical),
            rng,
            max(prior.checked - int(taught.sum()), 0),
        )
        flat = CandidateSets(found.probabilities, sets.offsets)[row].values
        return Review(row, sets[row], flat, found.missing[row], chosen, probability)

    def _identify_without_known(self) -> Identification | None:
        """Say what the training rows' likeliest candidates would be without checked rows; None where that is not known.

        It takes a fit of its own where false candidates do not depend on the features.
        """
        if self._belief is None or self._training is None or self._given is None or self._training.known is None:
            return None
        belief = self._recipe(self.learner_).believe_without_known(self._training, self._given, self.start_weights_)
        return None if belief is None else choose(belief.probabilities, self._given, belief.missing, self.diagnosis_)

    def _weigh(self, S: CandidateSets, known: CheckedRows | None = None) -> CandidateSets:
        """Return sets with the learned prior, where there is one, and known labels in place of candidates."""
        weighed = S if self.prior_ is None else self.prior_.weigh(S)
        return weighed if known is None else known.settle(weighed)

    @staticmethod
    def _settle(found: Identification, S: CandidateSets, known: CheckedRows) -> Identification:
        """Return an identification that is certain about checked rows."""
        probabilities, missing = known.settle_probabilities(S, found.probabilities, found.missing)
        certain = choose(probabilities, S, missing)
        # Among equals, the choices of all other rows stay as they are.
        rows = known.found(S) | known.missing
        index = np.where(rows, certain.index, found.index)
        return replace(certain, index=index, value=S.values[S.offsets[:-1] + index], caution=found.caution)

    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "adaptive") -> Floats:
        """Return an interval around each prediction that holds the true label as often as asked.

        The first call calibrates (see `calibrate`), which takes about as long as the fit did, and next to no time where
        the model is the default; later ones only predict.

        Parameters
        ----------
        X : array-like of shape (n, d)
        coverage : float, default=0.9
            The share of new rows whose true label is to be in its interval, above 0 and below 1.
        method : {"adaptive", "constant", "guaranteed"}, default="adaptive"
            ``adaptive`` intervals are wider in rows whose labels are harder to predict, as far as the training rows
            clearly differ; their ends need not be equally far from the prediction. Where candidate sets say what labels
            there can be, those of rows predicted within that range stay within it. ``constant`` ones reach equally far
            in all rows and to both sides, unless the learner gives rows noise scales of their own. ``guaranteed`` is
            for those who need a promise: with enough rows that were checked at random (29 for 0.9), a tolerance
            interval, which covers as asked with 95 % confidence over the draw of these rows; without them it counts
            each row's farthest candidate as its label, and is very wide where sets are large.

        Returns
        -------
        ndarray of shape (n, 2)

        Notes
        -----
        All assume that new rows come from where the training rows came from (exchangeable rows, or groups), and go by
        distances to predictions of models fitted without the row's fold. What else the coverage rests on is in
        ``calibration_.assumes``, once the model is calibrated:

        - Without checked rows ``adaptive`` and ``constant`` rest on the density of false labels that the weighting
          assumes. Candidates are counted by how probable they are, corrected by what counting those near predictions
          shows; half a standard error of what not knowing the labels adds is taken off. The coverage is measured, not
          guaranteed. Where false labels cannot have that density, or depend on the features, intervals are the cautious
          ones that priors and probabilities of candidates give.
        - With ten or more checked rows (``known`` of `fit`) the coverage among them corrects the other estimates, as
          far as they differ by more than chance. With many checked rows it is right whatever the false labels are.
        - ``guaranteed`` without checked rows needs every set to hold its truth. If leaving out a fold hardly moves a
          prediction, the theory of cross-conformal prediction gives it a coverage of at least 2 · ``coverage`` - 1,
          less a term that vanishes with many rows; in practice it is more than ``coverage``.

        With one candidate in every set, ``constant`` and ``guaranteed`` are ordinary cross-conformal prediction.
        """
        check_coverage(coverage, method)
        calibration = self.calibrate()
        prediction, relative = self._predict_with_scale(X)
        found = calibration.intervals(prediction, coverage, method, self._row_widths(X, prediction, relative))
        # What has a logarithm is positive.
        on_logarithms = isinstance(self.target_transform, str) and self.target_transform == "log"
        return np.maximum(found, 0.0) if on_logarithms else found

    def predict_set(self, X: Any, coverage: float = 0.9) -> list[Floats]:
        """Return the most probable labels of each row: one interval, or several where labels have several humps.

        Parameters
        ----------
        X : array-like of shape (n, d)
        coverage : float, default=0.9
            The share of new rows whose true label is to be in its set.

        Returns
        -------
        list of ndarray of shape (k, 2)
            The lower and upper ends of each row's pieces, in order. They rest on what ``adaptive`` intervals rest on
            (see `predict_interval`).

        Examples
        --------
        >>> import numpy as np
        >>> from plr import PartialLabelRegressor
        >>> random = np.random.default_rng(0)
        >>> X = random.uniform(size=(400, 1))
        >>> y = X[:, 0] + random.choice([-2, 2], size=400) + 0.1 * random.normal(size=400)
        >>> model = PartialLabelRegressor(learner="linear").fit(X, y)
        >>> model.predict_set([[0.5]])[0].shape
        (2, 2)
        """
        check_coverage(coverage, "adaptive")
        calibration = self.calibrate()
        prediction, relative = self._predict_with_scale(X)
        return calibration.label_sets(prediction, coverage, self._row_widths(X, prediction, relative))

    def calibrate(self) -> Calibration:
        """Learn how far true labels are from predictions, on candidate sets and on rows that were checked.

        The committee has fitted everything without each fold of ``cv`` on the way; for other learners, and where false
        candidates depend on the features, that is done now. On plain labels, any learner's out-of-fold predictions will
        do. What was learned is kept in ``calibration_``; call this before a model is pickled that is to give intervals
        later.

        Returns
        -------
        Calibration
        """
        self._check_fitted()
        if self.calibration_ is None:
            task, S = self._training_rows("Call calibrate() before pickling, or fit again.")
            prediction, relative = self.model_.held_out, self.model_.relative_scale
            if prediction is None and S.values.size == len(S) and not task.rule.may_miss:
                prediction = self.model_.out_of_fold
            with begin(self.verbose) as progress:
                again, learning = progress.split({_AGAIN: 20.0 if prediction is None else 0.0, "calibrating": 1.0})
                if prediction is None:
                    fresh = replace(task, S=S, start=None, log_q=None, false_labels=None, progress=again)
                    with again:
                        prediction, relative = self._recipe(self.learner_).cross_fit_predict(fresh)
                    if self._out_of_fold is None and self.model_.out_of_fold is None:
                        self._out_of_fold = prediction
                shares = None if self._belief is None else self._belief.probabilities
                with learning:
                    self.calibration_ = learn_calibration(
                        prediction,
                        self._weigh(S),
                        task,
                        relative,
                        shares,
                        features=encoded_features(task, self.learner_),
                        folds=make_folds(task, self.cv),
                        known=task.known,
                        missing=self.missing_share_,
                    )
        return self.calibration_

    def _row_widths(self, X: Any, prediction: Floats, relative: Floats | None) -> Floats | None:
        """Return the widths of some rows' intervals, relative to the typical one; None before calibration."""
        if self.calibration_ is None:
            return None
        rows = check_features(self, X, self.learner_, reset=False)
        return self.calibration_.row_widths(rows, prediction, relative)

    def score(self, X: Any, y: Any, sample_weight: Any = None, known: Any = None) -> float:
        """Return R² on labels that are known, and else the mean log likelihood of candidate sets; higher is better.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : plain 1-D labels, or candidate sets
            On candidate sets the score is the mean of log Σ prior · p / q: p is the noise around the prediction, with
            the scale learned in ``fit`` or, where these rows scatter more, with theirs; q is the density of false
            labels, uniform unless the weighting has another. It compares weightings and learners of the same q on the
            same rows without knowing a true label. Where a share ε of the rows may lack their truth,
            log((1 - ε) · Σ prior · p / q + ε), by the row where the sets say it.
        sample_weight : array-like of shape (n,), optional
        known : array-like of shape (n,) or table of n rows, optional
            True labels of rows that somebody looked up, as in ``fit``. The score then is R² on these rows, and all
            others are ignored; NaN, with a warning, where there are fewer than two. Rows that were chosen with known
            probabilities count by their inverses, so that the score is an estimate for all rows.

        Notes
        -----
        Candidate sets say nothing about a model that has seen them: it comes near whichever candidates it believed in.
        If X and y are the rows of training, all of them and in the same order, the likelihood therefore goes by
        predictions made out of fold; where the learner made none on the way, models are fitted without each fold, once.
        R² is that of the model itself, as in scikit-learn. Pickled and loaded models do not know their training rows.
        """
        S = as_candidate_sets(y)
        plain = is_plain_target(y)
        self._check_fitted()
        rows = check_features(self, X, self.learner_, reset=False)
        prediction, relative = None, None
        if not plain and known is None and self._is_training(rows, S):
            prediction, relative = self._out_of_fold_predictions(), self.model_.relative_scale
        if prediction is None:
            prediction, relative = self.model_.predict(rows), self.model_.predict_scale(rows)
        if len(S) != len(prediction):
            raise LengthError(f"X has {len(prediction)} rows and the target {len(S)}; they must agree.")
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(S))
        if known is not None:
            checked = read_known(known, S)
            if checked is None:
                return r2(prediction[:0], prediction[:0])
            labelled = np.flatnonzero(checked.labelled)
            counts = checked.stands_for if weight is None else weight * checked.stands_for
            return r2(checked.value[labelled], prediction[labelled], counts[labelled])
        if plain:
            return r2(S.values, prediction, weight)
        sets, noise = self._weigh(S), self.noise_
        if self.prior_ is None or self.prior_.agreement is None:
            noise = noise.widened(prediction, sets, weight, relative)
        return float(np.average(noise.log_likelihood(prediction, sets, relative), weights=weight))

    def _is_training(self, X: Any, S: CandidateSets) -> bool:
        """Return whether these are the rows that were learned from, as far as they are kept."""
        if self._training is None or self._given is None:
            return False
        mine, given = self._training.X, self._given
        if len(S) != len(given) or not np.array_equal(S.offsets, given.offsets):
            return False
        if not np.array_equal(S.values, given.values):
            return False
        if isinstance(mine, np.ndarray) and isinstance(X, np.ndarray) and mine.dtype.kind in "biuf":
            return mine.shape == X.shape and np.array_equal(mine, X, equal_nan=X.dtype.kind == "f")
        return mine is X

    def _out_of_fold_predictions(self) -> Floats | None:
        """Return predictions of the training rows that have not seen them; None where there is no fold to leave out."""
        found = self._out_of_fold
        if found is None and self._belief is None:
            found = self.model_.out_of_fold if self.model_.held_out is None else self.model_.held_out
        if found is None and self._training is not None and make_folds(self._training, self.cv):
            if self._belief is None or self._given is None:
                found = out_of_fold(self.learner_, self._training, self.cv)
            else:
                # What the learner was fitted to came from all rows, and is found again without each fold.
                fresh = replace(self._training, S=self._given, start=None, log_q=None, false_labels=None)
                found, _ = self._recipe(self.learner_).cross_fit_predict(fresh)
            self._out_of_fold = found
        return found

    def _recipe(self, learner: Learner) -> Recipe:
        return Recipe(learner, self.start, self.cv, self.prior, self.match_score, self.one_to_one)

    def _expected_costs(self) -> tuple[float, float]:
        """Return what ``identify()`` and ``calibrate()`` may take, compared with ``fit``; for the bar alone."""
        learner = self._resolve()[0]
        if isinstance(learner, Committee):
            return 0.01, 0.05
        folds = 0.8 * (float(self.cv) if isinstance(self.cv, Integral) else 5.0)
        return (0.01 if isinstance(learner, GaussianProcess | Refit | Density) else folds), folds

    def _resolve(self, validated: bool = False) -> tuple[Learner, Weighting, Loss]:
        return resolve_parts(
            self.learner, self.weighting, self.loss, self.effort, self.cv, validated, self.target_transform
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with X and candidate sets first."
            )

    def _training_rows(self, instead: str) -> tuple[Task, CandidateSets]:
        """Return what was learned from, and the sets by the priors that the user gave, without what a start added."""
        if self._training is None:
            raise NotFittedError(
                f"The training rows are not kept with a model that was pickled, loaded or fitted in batches. {instead}"
            )
        return self._training, self._training.S if self._given is None else self._given

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state |= {name: None for name in ("_training", "_given", "_belief") if name in state}
        if state.get("_identified") is not None:
            state["_identified"] = replace(state["_identified"], sets=None)
        return state

    def _sk_visual_block_(self) -> Any:
        """Return the parts for scikit-learn's diagram, names resolved."""
        # Its class is private, and has moved; every pipeline makes one.
        block = type(Pipeline([("part", "passthrough")])._sk_visual_block_())
        found = self._resolve()
        if hasattr(self, "model_"):
            found = self.learner_, self.weighting_, self.loss_
        names = [f"{name}: {type(part).__name__}" for name, part in zip(_PARTS, found, strict=True)]
        return block("parallel", list(found), names=names, name_details=[str(part) for part in found])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        learner = getattr(self, "learner_", None)
        if learner is None:
            try:
                learner = self._resolve()[0]
            except ParameterError:
                return tags
        given = get_tags(learner)
        tags.input_tags = given.input_tags
        tags.target_tags.positive_only = given.target_tags.positive_only
        return tags


def _says_something(noise: NoiseModel, held_out: Floats, relative: Floats | None, task: Task) -> bool:
    """Return whether sets are clearly likelier around what was predicted for their own row than for another."""
    counted = np.arange(len(task.S)) if task.sample_weight is None else np.flatnonzero(task.sample_weight)
    other = held_out.copy()
    other[counted] = held_out[np.random.default_rng(task.seed).permutation(counted)]
    sets = task.preprocess().sets
    own, others = (noise.log_likelihood(found, task.S, relative, sets) for found in (held_out, other))
    with np.errstate(invalid="ignore"):
        return is_clear((own - others)[counted])


def _check_prior(prior: object) -> None:
    if isinstance(prior, UtilityModel):
        return
    if isinstance(prior, str):
        check_choice("prior", prior, _PRIOR_NAMES)
        return
    what = f"the class {prior.__name__}; give an instance" if isinstance(prior, type) else f"{prior!r}"
    raise ParameterError(
        f"{{parameter}} must be one of {', '.join(map(repr, _PRIOR_NAMES))}, or an instance of a class that derives "
        f"from plr.priors.UtilityModel, such as BoostedLogit(); got {what}.",
        parameter="prior",
        value=prior,
    )
