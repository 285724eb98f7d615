"""The refit learner: any scikit-learn regressor, by weighing candidates out of fold and refitting in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._codes import AVERAGE, PROGRESSIVE, SCALE
from plr._parameters import check_choice, check_integer, check_number
from plr.errors import DivergenceError, ParameterError
from plr.learners.base import Learner, Report, Task
from plr.learners.folds import Folds, check_folds, make_folds, predict_folds
from plr.learners.rows import features_of
from plr.learners.scaling import label_scale, learn_target, rescaled
from plr.learners.weighted import Model, WeightedFits
from plr.learners.wrapped import check_regressor, tags_of, takes_missing
from plr.weighting.rule import NOTHING

__all__ = ["FittedRefit", "Refit"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class FittedRefit:
    """The regressor of the last fit.

    Attributes
    ----------
    model : Model
    report : Report
    out_of_fold : ndarray of shape (n,) or None
        The last predictions of the training rows, each by a regressor that was not fitted to the row; None where the
        weights never needed any.
    """

    model: Model
    report: Report
    out_of_fold: Floats | None = None

    @property
    def regressor(self) -> Any:
        """The fitted scikit-learn regressor."""
        return self.model.regressor

    def predict(self, X: Any) -> Floats:
        """Return one prediction per row."""
        return self.model.predict(X)


class Refit(Learner):
    """Any scikit-learn regressor, fitted again and again as the weights of the candidates move.

    Each round fits a clone of the regressor to every fold's complement under the current weights, predicts the fold,
    and weighs the candidates around these predictions. The regressor never judges a row that it was fitted to: a
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
    scale_target : bool, default=True
        Whether weighting and loss see labels of mean 0 and standard deviation 1. It matters for those whose parameters
        have units. The regressor sees labels as they are.

    Notes
    -----
    With the squared loss, a fit is to one label per row, the weighted mean of its candidates; for the best regressor
    that is the same as all candidates with their weights. Otherwise it is to one row per candidate, weighted; what the
    regressor then minimises is its own loss, so that ``loss="absolute"`` wants a regressor of that loss too, such as
    ``HistGradientBoostingRegressor(loss="absolute_error")``.

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

    def __init__(
        self,
        regressor: Any,
        cv: object = 5,
        max_rounds: int = 20,
        tol: float = 1e-3,
        without_weights: str = "error",
        scale_target: bool = True,
    ) -> None:
        self.regressor = regressor
        self.cv = cv
        self.max_rounds = max_rounds
        self.tol = tol
        self.without_weights = without_weights
        self.scale_target = scale_target

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """Whether X may contain NaN, which the regressor says."""
        return takes_missing(self.regressor)

    def fit(self, task: Task) -> FittedRefit:
        """Fit the regressor to the task."""
        check_regressor(self.regressor)
        check_folds(self.cv)
        most = check_integer("max_rounds", self.max_rounds, low=1)
        tolerance = check_number("tol", self.tol, low=0.0)
        resample = check_choice("without_weights", self.without_weights, ("error", "resample")) == "resample"
        if task.validation is not None:
            raise ParameterError("Refit stops when the weights stop moving and has no use for validation rows.")
        fits = WeightedFits(task, self.regressor, resample)
        rounds = _Rounds(task, self.scale_target, type(self.regressor).__name__)
        if rounds.fixed:
            model = self._last_fit(fits, task, task.S.prior_or_uniform)
            rounds.weigh(model.predict(task.X))
            rounds.tell(1)
            return FittedRefit(model, rounds.report())
        folds = make_folds(task, self.cv)
        for done in range(1, most + 1):
            prediction = self._predict_unseen(fits, task, rounds.weights, folds, done)
            rounds.weigh(prediction)
            rounds.tell(most)
            if rounds.movement[-1] <= tolerance:
                break
        model = self._last_fit(fits, task, rounds.weights)
        return FittedRefit(model, rounds.report(), prediction if folds else None)

    def _predict_unseen(self, fits: WeightedFits, task: Task, weights: Floats, folds: Folds, done: int) -> Floats:
        def run(fold: int, train: Rows, test: Rows) -> Floats:
            with _noted(f"fitting {type(self.regressor).__name__} in round {done}, without fold {fold + 1} of {parts}"):
                return fits.fit(train, weights, done, fold).predict(features_of(task.X, test))

        parts = len(folds)
        if not folds:
            # A lone row, or a lone group: there is nothing else to learn from.
            with _noted(f"fitting {type(self.regressor).__name__} in round {done}"):
                return fits.fit(_rows_with_weight(task), weights, done, 0).predict(task.X)
        return predict_folds(folds, run, len(task.S), task.n_jobs)

    def _last_fit(self, fits: WeightedFits, task: Task, weights: Floats) -> Model:
        with _noted(f"fitting {type(self.regressor).__name__} to all rows"):
            return fits.fit(_rows_with_weight(task), weights, 0, 0)

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
        self.fixed = _are_fixed(task)
        self._target = learn_target(task.S, task.sample_weight, scale_target, single_precision=False)
        self._S = rescaled(task.S, self._target)
        self._state = task.rule.initial_state(label_scale(self._S, task.sample_weight))
        # A copy: kernels are compiled for weights that can be written to.
        self.weights: Floats = np.array(task.S.prior_or_uniform if task.start is None else task.start)
        self.movement: list[float] = []
        self._losses: list[float] = []
        self._scales: list[float] = []

    def weigh(self, prediction: Floats) -> None:
        """Weigh the candidates around predictions in label units."""
        if not np.isfinite(prediction).all():
            row = int(np.flatnonzero(~np.isfinite(prediction))[0])
            raise DivergenceError(
                f"{self._name} predicted {prediction[row]} for row {row} in round {len(self._losses) + 1}; its labels "
                f"were finite, so look at its parameters and at the features of that row."
            )
        rule, S, weight = self._task.rule, self._S, self._task.sample_weight
        centre = self._target.apply(prediction)
        if rule.learns_scale and not self.fixed:
            # By the weights that the predictions were learned under, and one step only: a scale followed to its end
            # is that of a model still poor, and decides too early.
            self._state = rule.update_scale(centre, S, self._state, self.weights, weight)
            self._scales.append(float(self._state[SCALE]) * float(self._target.scale))
        found = rule.evaluate(centre, S, self._state, NOTHING if self._task.log_q is None else self._task.log_q)
        moved = np.add.reduceat(np.abs(found.weights - self.weights), S.offsets[:-1]) / 2
        self.movement.append(float(np.average(moved, weights=weight)))
        self._losses.append(float(np.average(found.loss, weights=weight)))
        self.weights = found.weights

    def tell(self, most: int) -> None:
        """Tell the callback how far it is."""
        if self._task.callback is not None:
            self._task.callback(len(self._losses), most, self._losses[-1])

    def report(self) -> Report:
        """Return how it went."""
        return Report(
            len(self._losses), np.array(self._losses), np.array(self._scales), movement=np.array(self.movement)
        )


def _are_fixed(task: Task) -> bool:
    """Return whether no prediction can move the weights."""
    formula = task.rule.formula
    even = formula.weighting == AVERAGE or (formula.weighting == PROGRESSIVE and formula.second == 0.0)
    return even or bool((task.S.sizes == 1).all())


def _rows_with_weight(task: Task) -> Rows | None:
    """Return the rows that count; None for all of them."""
    if task.sample_weight is None or bool((task.sample_weight > 0).all()):
        return None
    return np.flatnonzero(task.sample_weight)


@contextmanager
def _noted(doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"This happened in plr.learners.Refit while {doing}.")
        raise
