"""The refit learner: any scikit-learn regressor, by weighing candidates out of fold and refitting in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from plr._codes import EVEN, SCALE
from plr._fields import BY_ROW, require
from plr._parameters import check_choice, check_integer, check_number
from plr.contracts import Fitted, Learner, Report, Task
from plr.errors import DivergenceError, ParameterError
from plr.folds import Folds, check_folds, features_of, make_folds, predict_folds
from plr.learners.refit.fits import (
    FittedRegressor,
    WeightedFits,
    check_regressor,
    tags_of,
    takes_missing,
    weight_parameter,
)
from plr.learners.refit.row_scale import RowScale, fit_relative_scales, fit_row_scale, weighted_loss
from plr.noise import in_row_units
from plr.preprocessing.scaling import learn_target
from plr.progress import Progress

__all__ = ["FittedRefit", "Refit"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class FittedRefit(Fitted):
    """The regressors of the last fit.

    Attributes
    ----------
    models : tuple of FittedRegressor
        As many as the learner's ``last_fits``; predictions are their mean.
    report : Report
    out_of_fold : ndarray of shape (n,) or None
        The last predictions of the training rows, each by a regressor that was not fitted to the row; None where the
        weights never needed any.
    row_scale : RowScale or None
        How noisy rows are by their features, relative to the typical one, where the weighting asks for it.
    relative_scale : ndarray of shape (n,) or None
        The same for the training rows, out of fold.
    """

    models: tuple[FittedRegressor, ...]
    report: Report
    out_of_fold: Floats | None = field(default=None, metadata=BY_ROW)
    row_scale: RowScale | None = None
    relative_scale: Floats | None = field(default=None, metadata=BY_ROW)

    def __post_init__(self) -> None:
        require(len(self.models) > 0, "there is no regressor")

    @property
    def regressor(self) -> Any:
        """The fitted scikit-learn regressor; the first where there are several."""
        return self.models[0].regressor

    @property
    def importance(self) -> Floats | None:  # type: ignore[override]
        """The mean of what the regressors say; None where they do not say."""
        found = [shares for model in self.models if (shares := model.importance) is not None]
        return np.asarray(np.mean(found, axis=0)) if len(found) == len(self.models) else None

    def predict(self, X: Any) -> Floats:
        """Return one prediction per row."""
        parts = [model.predict(X) for model in self.models]
        return parts[0] if len(parts) == 1 else np.asarray(np.mean(parts, axis=0))

    def predict_scale(self, X: Any) -> Floats | None:
        """Return each row's noise scale relative to the typical one; None where all rows have the same."""
        return None if self.row_scale is None else self.row_scale.predict(X)


class Refit(Learner):
    """Any scikit-learn regressor, fitted again and again as the weights of the candidates move.

    Each round fits a clone of the regressor to every fold's complement under the current weights, predicts the fold,
    and weighs the candidates around these predictions. The regressor never weighs a row that it was fitted to: a
    flexible one would confirm its own mistakes. When the weights stop moving, or after ``max_rounds``, one last clone
    is fitted to all rows. Where weights cannot move, with ``average`` or one candidate in every set, that fit is the
    only one.

    Parameters
    ----------
    regressor : scikit-learn regressor
        Also a ``Pipeline``, a search over parameters, an ensemble. It sees X as it was given and labels in their own
        units; a regressor that wants scaled labels can be put into a ``TransformedTargetRegressor``. It is cloned,
        never fitted itself, and every ``random_state`` that is None is seeded.
    cv : int, scikit-learn splitter or iterable of (train, test), default=5
        The folds. They keep groups together.
    max_rounds : int, default=20
        A budget rather than a failure: the weights of a regressor with randomness inside never come to rest.
        ``report.movement`` has how far they moved.
    tol : float, default=1e-3
        Stop when a round moves less than this share of the weight, in the mean over rows.
    without_weights : {"error", "resample"}, default="error"
        What to do where weights are needed and the regressor takes no ``sample_weight``. With ``"resample"`` each row
        draws one candidate by its weight for every fit, and rows are drawn by their weight.
    last_fits : int, default=1
        Number of regressors fitted to all rows in the end, whose predictions are averaged. More than one is worth while
        for a regressor with randomness inside.
    scale_target : bool, default=True
        Whether weighting and loss see labels of mean 0 and standard deviation 1. It matters for those whose parameters
        have units. The regressor sees labels as they are.

    Notes
    -----
    With the squared loss, a fit is to one label per row, the weighted mean of its candidates; for the best regressor
    that is the same as all candidates with their weights. Otherwise it is to one row per candidate, weighted; what the
    regressor then minimises is its own loss, so that ``loss="absolute"`` wants a regressor of that loss too, such as
    ``HistGradientBoostingRegressor(loss="absolute_error")``.

    With ``Posterior(scale="row")`` a second clone of the regressor is fitted out of fold, in every round after the
    first, to the logarithm of each row's squared residual, weighted over its candidates. It says how noisy a row is
    relative to the typical one, whose scale is learned as always; differences that do not hold out of fold are shrunk.
    Fits take twice as long. It pays where noise differs much between rows and the regressor smooths: logarithms of
    single residuals are noisy labels.

    The result does not depend on ``n_jobs``, as far as that of the regressor does not depend on threads.

    Examples
    --------
    >>> from plr import PartialLabelRegressor
    >>> from plr.learners import Refit
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> S = [[5.0, 9.0], [5.0], [5.0, 1.0], [7.0, 3.0], [7.0], [7.0, 2.0]]
    >>> model = PartialLabelRegressor(Refit(KNeighborsRegressor(2), cv=3), random_state=0).fit(X, S)
    >>> model.predict([[0.0], [1.2]]).round()
    array([5., 7.])
    """

    takes = "rows"
    gives_row_scale = True
    has_folds = True

    def __init__(
        self,
        regressor: Any,
        cv: object = 5,
        max_rounds: int = 20,
        tol: float = 1e-3,
        without_weights: str = "error",
        last_fits: int = 1,
        scale_target: bool = True,
    ) -> None:
        self.regressor = regressor
        self.cv = cv
        self.max_rounds = max_rounds
        self.tol = tol
        self.without_weights = without_weights
        self.last_fits = last_fits
        self.scale_target = scale_target

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """Whether X may contain NaN, which the regressor says."""
        return takes_missing(self.regressor)

    @property
    def takes_weights(self) -> bool:  # type: ignore[override]
        """Whether rows and candidates may count for more or less."""
        return weight_parameter(self.regressor) is not None or self.without_weights == "resample"

    def fit(self, task: Task) -> FittedRefit:
        """Fit the regressor to the task."""
        check_regressor(self.regressor)
        check_folds(self.cv)
        most = check_integer("max_rounds", self.max_rounds, low=1)
        tolerance = check_number("tol", self.tol, low=0.0)
        last = check_integer("last_fits", self.last_fits, low=1)
        resample = check_choice("without_weights", self.without_weights, ("error", "resample")) == "resample"
        if task.validation is not None:
            raise ParameterError("Refit stops when the weights stop moving and has no use for validation rows.")
        name = type(self.regressor).__name__
        fits = WeightedFits(task, self.regressor, resample)
        rounds = _Rounds(task, self.scale_target, name)
        # All rows that count; None where all do.
        heavy = None if task.sample_weight is None or task.sample_weight.all() else np.flatnonzero(task.sample_weight)
        folds = [] if rounds.fixed else make_folds(task, self.cv)
        prediction = relative = row_scale = None
        slope = 0.0
        *of_rounds, at_last = task.progress.parts(1 if rounds.fixed else most + 1)
        for done in range(1, 1 if rounds.fixed else most + 1):
            prediction = self._predict_folds(fits, rounds.weights, folds, heavy, done, of_rounds[done - 1])
            if task.rule.weighting.scale_by_row and folds and done > 1:
                # The first weights tell how far candidates are apart, not how far the true one is off.
                with _noted(f"fitting {name} to the noise of rows in round {done}"):
                    relative, slope = fit_relative_scales(fits, prediction, rounds.weights, folds, done)
            rounds.weigh(prediction, most, relative)
            if rounds.movement[-1] <= tolerance:
                break
        weights = task.S.prior_or_uniform if rounds.fixed else rounds.weights
        # Rounds that were not needed count as done.
        task.progress(len(of_rounds), len(of_rounds) + 1)
        with _noted(f"fitting {name} to all rows"), at_last:
            models = Parallel(n_jobs=task.n_jobs, prefer="threads")(
                delayed(fits.fit)(heavy, weights, 0, number) for number in range(last)
            )
        if rounds.fixed:
            rounds.weigh(models[0].predict(task.X), 1)
        if prediction is not None and relative is not None:
            with _noted(f"fitting {name} to the noise of all rows"):
                row_scale = fit_row_scale(fits, prediction, weights, heavy, slope)
        report = Report(
            len(rounds.losses), np.array(rounds.losses), np.array(rounds.scales), movement=np.array(rounds.movement)
        )
        return FittedRefit(tuple(models), report, prediction if folds else None, row_scale, relative)

    def _predict_folds(
        self, fits: WeightedFits, weights: Floats, folds: Folds, heavy: Rows | None, done: int, progress: Progress
    ) -> Floats:
        """Predict each fold by a regressor fitted without it under given weights."""
        task = fits.task

        def run(fold: int, train: Rows, test: Rows) -> Floats:
            without = f", without fold {fold + 1} of {len(folds)}" if folds else ""
            with _noted(f"fitting {type(self.regressor).__name__} in round {done}{without}"):
                prediction = fits.fit(train, weights, done, fold).predict(features_of(task.X, test))
            progress.advance(1.0 / max(len(folds), 1))
            return prediction

        rows = np.arange(len(task.S))
        # A lone row, or a lone group: there is nothing else to learn from.
        return predict_folds(folds or [(rows if heavy is None else heavy, rows)], run, len(rows), task.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = tags_of(self.regressor)
        if inner is not None:
            tags.input_tags = replace(inner.input_tags, allow_nan=self.takes_missing)
            tags.target_tags.positive_only = inner.target_tags.positive_only
        return tags


class _Rounds:
    """Weights as they move from round to round, and what is to be reported about them."""

    def __init__(self, task: Task, scale_target: bool, name: str) -> None:
        self._task, self._name = task, name
        # Where no prediction can move the weights.
        self.fixed = task.rule.formula.shares == EVEN or (bool((task.S.sizes == 1).all()) and not task.rule.may_miss)
        prepared = task.preprocess(scale_target=scale_target)
        self._target, self._S = prepared.target, prepared.sets
        self._log_q = task.scaled_log_q(self._target)
        self._state = task.rule.initial_state(float(learn_target(self._S, task.sample_weight).scale))
        # A copy: kernels are compiled for weights that can be written to.
        self.weights: Floats = np.array(task.S.prior_or_uniform if task.start is None else task.start)
        self.movement: list[float] = []
        self.losses: list[float] = []
        self.scales: list[float] = []

    def weigh(self, prediction: Floats, most: int, relative: Floats | None = None) -> None:
        """Weigh the candidates around predictions in label units, with a scale for each row where it is given.

        The callback receives the round and the most there can be.
        """
        if not np.isfinite(prediction).all():
            row = int(np.flatnonzero(~np.isfinite(prediction))[0])
            raise DivergenceError(
                f"{self._name} predicted {prediction[row]} for row {row} in round {len(self.losses) + 1}; its labels "
                f"were finite, so look at its parameters and at the features of that row."
            )
        rule, S, weight = self._task.rule, self._S, self._task.sample_weight
        centre, log_q = self._target.apply(prediction), self._log_q
        if relative is not None:
            centre, S, log_q = in_row_units(centre, S, log_q if log_q.size else np.zeros(S.values.size), relative)
        if rule.learns_scale and not self.fixed:
            # By the weights that the predictions were learned under, and one step only: a scale followed to its end
            # is that of a model still poor, and decides too early.
            own = len(self.losses) > 0
            self._state = rule.update_scale(centre, S, self._state, self.weights, weight, own=own)
            self.scales.append(float(self._state[SCALE]) * float(self._target.scale))
        found = rule.evaluate(centre, S, self._state, log_q)
        moved = np.add.reduceat(np.abs(found.weights - self.weights), S.offsets[:-1]) / 2
        self.movement.append(float(np.average(moved, weights=weight)))
        losses = found.loss
        if relative is not None:
            losses = weighted_loss(rule, self._target.apply(prediction), self._S, found.weights)
        self.losses.append(float(np.average(losses, weights=weight)))
        self.weights = found.weights
        if self._task.callback is not None:
            self._task.callback(len(self.losses), most, self.losses[-1])


@contextmanager
def _noted(doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"This happened in plr.learners.Refit while {doing}.")
        raise
