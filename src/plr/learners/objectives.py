"""The weighted loss of candidate sets as boosting libraries want it: a derivative and a curvature per row, each round.

`plr.learners.Boosting` trains by these. They are public for those who keep their own call of LightGBM or XGBoost:
`for_lightgbm` and `for_xgboost` give an object with an ``objective``, a ``metric`` that needs no true labels, and an
``initial_score``, without which trees would spend their first rounds on the labels' mean.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr._checks import check_sample_weight
from plr._parameters import check_choice, check_integer
from plr.candidates import as_candidate_sets
from plr.errors import LengthError, ParameterError
from plr.learners.boosting_objective import MONITORS, Metric, Objective
from plr.losses import get_loss
from plr.preprocessing.scaling import label_scale
from plr.weighting import get_weighting
from plr.weighting.false_labels import FalseLabelDensity
from plr.weighting.rule import NOTHING, Rule

__all__ = ["LibraryObjective", "for_lightgbm", "for_xgboost"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


def for_lightgbm(
    S: object,
    weighting: object = "posterior",
    loss: object = "squared",
    sample_weight: Any = None,
    warm_up: int = 20,
) -> LibraryObjective:
    """Make the objective for a fit by LightGBM: ``lightgbm.train`` or ``LGBMRegressor``.

    Parameters
    ----------
    S : CandidateSets or anything it can be made from
        The candidates of the rows that will be trained on, in the same order.
    weighting, loss : str or instance
        As in `plr.PartialLabelRegressor`, but on labels as they are: bring them to standard deviation 1 first where a
        parameter has units (``beta2`` of ``progressive``, ``delta`` of ``huber``).
        `Posterior` takes all its options but ``scale="row"``; a density of false labels to be estimated is so from the
        priors.
    sample_weight : array-like of shape (n,), optional
        LightGBM does not hand a Dataset's weights to objectives; give them here.
    warm_up : int, default=20
        In so many rounds the weights are the candidates' priors: a model that knows nothing yet would confirm whatever
        candidates are near its first score.

    Returns
    -------
    LibraryObjective

    Notes
    -----
    Hand ``initial_score`` to every Dataset, and add it to predictions: LightGBM does not keep it in the model. Switch
    LightGBM's own metrics off, which need true labels; a Dataset wants a label all the same, and none is looked at.
    ``LGBMRegressor(objective=made.objective)`` works as well, with ``init_score`` and ``eval_metric`` in its ``fit``.

    Examples
    --------
    >>> import lightgbm, numpy as np
    >>> from plr import make_candidates
    >>> from plr.learners import objectives
    >>> random = np.random.default_rng(0)
    >>> X = random.uniform(size=(600, 2))
    >>> y = 100 + 10 * X[:, 0]
    >>> S = make_candidates(y, 3, random_state=0)
    >>> made = objectives.for_lightgbm(S[:400], weighting="identification")
    >>> rows, more = (lightgbm.Dataset(X[part], np.zeros(n), init_score=np.full(n, made.initial_score))
    ...               for part, n in ((slice(400), 400), (slice(400, 600), 200)))
    >>> booster = lightgbm.train(
    ...     {"objective": made.objective, "metric": "none", "verbosity": -1},
    ...     rows, valid_sets=[more], feval=made.metric(S[400:]),
    ...     callbacks=[lightgbm.early_stopping(10, verbose=False)],
    ... )
    >>> prediction = booster.predict(X) + made.initial_score
    >>> bool(np.abs(prediction - y).mean() < 0.5)
    True
    """
    return _make(S, weighting, loss, sample_weight, warm_up, _lower_is_better)


def for_xgboost(
    S: object,
    weighting: object = "posterior",
    loss: object = "squared",
    sample_weight: Any = None,
    warm_up: int = 20,
) -> LibraryObjective:
    """Make the objective for a fit by XGBoost: ``xgboost.train`` or ``XGBRegressor``.

    Parameters
    ----------
    S : CandidateSets or anything it can be made from
        The candidates of the rows that will be trained on, in the same order.
    weighting, loss : str or instance
        As in `plr.PartialLabelRegressor`, but on labels as they are: bring them to standard deviation 1 first where a
        parameter has units (``beta2`` of ``progressive``, ``delta`` of ``huber``).
        `Posterior` takes all its options but ``scale="row"``; a density of false labels to be estimated is so from the
        priors.
    sample_weight : array-like of shape (n,), optional
        XGBoost does not apply a DMatrix's weights to an objective; give them here.
    warm_up : int, default=20
        In so many rounds the weights are the candidates' priors: a model that knows nothing yet would confirm whatever
        candidates are near its first score.

    Returns
    -------
    LibraryObjective

    Notes
    -----
    Give ``initial_score`` as ``base_score``; XGBoost keeps it in the model::

        made = objectives.for_xgboost(S)
        booster = xgboost.train(
            {"base_score": made.initial_score, "disable_default_eval_metric": True},
            xgboost.DMatrix(X), num_boost_round=300, obj=made.objective,
            evals=[(xgboost.DMatrix(X_more), "more")], custom_metric=made.metric(S_more), early_stopping_rounds=10,
        )
        booster.predict(xgboost.DMatrix(X))
    """
    return _make(S, weighting, loss, sample_weight, warm_up, _name_and_score)


class LibraryObjective:
    """What a library's training call needs, for one set of rows; made by `for_lightgbm` and `for_xgboost`.

    It may be used for several fits, one after another: that another has begun is seen from the data, or from
    predictions that are back at their beginning. Where neither can tell, call `begin`.

    Attributes
    ----------
    initial_score : float
        The constant with the least loss on average over the candidates, to start from.
    """

    def __init__(
        self,
        core: Objective,
        result: Callable[[str, float], tuple[Any, ...]],
        false_labels: FalseLabelDensity | None = None,
    ) -> None:
        self._core, self._result, self._false_labels = core, result, false_labels
        self.initial_score = core.initial_score
        self.begin()

    def begin(self) -> None:
        """Say that a new fit begins, so that nothing is left of an earlier one.

        It is needed in one case alone: two fits by XGBoost, on the same data, of which the first found no split.
        """
        self._data: weakref.ref[Any] | None = None
        self._first: Floats | None = None
        self._moved = self._varied = False

    def __getstate__(self) -> dict[str, Any]:
        # LightGBM copies its parameters before each fit: a copy begins anew.
        return vars(self) | {"_data": None, "_first": None}

    def objective(self, first: Any, second: Any) -> tuple[Singles, Singles]:
        """Return each row's derivative and curvature.

        Both libraries call an objective with predictions and data, and their scikit-learn classes call it with labels
        and predictions. Labels are not looked at.
        """
        prediction = _prediction(first, second, len(self._core.S))
        data = second if hasattr(second, "get_label") else None
        varies = bool(prediction.min() < prediction.max())
        if self._begins(prediction, varies, data):
            self._core.begin()
            self._first = prediction.copy()
            self._data = None if data is None else weakref.ref(data)
        self._moved = self._first is not None and not np.array_equal(prediction, self._first)
        self._varied = varies
        return self._core.round(prediction)[1:]

    def _begins(self, prediction: Floats, varies: bool, data: Any) -> bool:
        """Return whether these are the predictions of a fit's first round.

        Predictions that have not moved yet tell nothing: trees without a split leave them as they were.
        """
        if self._first is None or (data is not None and (self._data is None or self._data() is not data)):
            return True
        if not self._moved:
            return False
        if np.array_equal(prediction, self._first):
            return True
        return _is_initial(prediction, data) if varies else self._varied

    def metric(
        self, S: object = None, monitor: str = "evidence", sample_weight: Any = None
    ) -> Callable[[Any, Any], tuple[Any, ...]]:
        """Return a metric for early stopping that needs no true labels; lower is better.

        Parameters
        ----------
        S : CandidateSets or anything it can be made from, optional
            The candidates of the rows that the library will evaluate; by default those trained on. A library calls a
            metric with all rows that it evaluates, so let it evaluate these alone.
        monitor : {"evidence", "loss"}, default="evidence"
            How likely the candidates are under a noise model whose scale is learned on the way, negated; or the
            objective's own loss.
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        callable
            For one fit: the noise scale goes on from round to round.
        """
        by = check_choice("monitor", monitor, MONITORS)
        sets = self._core.S if S is None else as_candidate_sets(S)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(sets))
        if S is None and weight is None:
            weight = self._core.weight
        log_q = NOTHING if self._false_labels is None else self._false_labels.log(sets.values)
        judge = Metric(sets, self._core.rule, by, label_scale(sets, weight), weight, log_q)
        name = "negative_evidence" if by == "evidence" else "loss"

        def evaluate(first: Any, second: Any) -> tuple[Any, ...]:
            return self._result(name, judge.score(_prediction(first, second, len(sets))))

        return evaluate


def _lower_is_better(name: str, score: float) -> tuple[str, float, bool]:
    return name, score, False


def _name_and_score(name: str, score: float) -> tuple[str, float]:
    return name, score


def _make(
    S: object,
    weighting: object,
    loss: object,
    sample_weight: Any,
    warm_up: int,
    result: Callable[[str, float], tuple[Any, ...]],
) -> LibraryObjective:
    sets = as_candidate_sets(S)
    rule = Rule(get_weighting(weighting), get_loss(loss))
    weight = None if sample_weight is None else check_sample_weight(sample_weight, len(sets))
    if rule.weighting.scale_by_row:
        raise ParameterError(
            "An objective cannot give each row a noise scale of its own, which Posterior(scale='row') asks for. "
            "plr.learners.Refit can, around any scikit-learn regressor; or use scale='common'."
        )
    rounds = check_integer("warm_up", warm_up)
    density = rule.weighting.density(sets, sample_weight=weight)
    log_q = None if density is None else density.log(sets.values)
    return LibraryObjective(Objective(sets, rule, weight, log_q, start_rounds=rounds), result, density)


def _is_initial(prediction: Floats, data: Any) -> bool:
    """Return whether predictions are what the data say to begin with, which need not be one number."""
    for name in ("get_init_score", "get_base_margin"):
        given = getattr(data, name, lambda: None)()
        if given is not None and np.size(given) == prediction.size:
            return np.array_equal(prediction, np.ravel(given).astype(np.float64))
    return False


def _prediction(first: Any, second: Any, rows: int) -> Floats:
    """Return the predictions from what a library calls with, checked against the number of candidate sets."""
    data = second if hasattr(second, "get_label") else None
    prediction = np.asarray(second if data is None else first, dtype=np.float64)
    if prediction.ndim == 2 and prediction.shape[1] == 1:
        prediction = prediction[:, 0]
    if prediction.ndim != 1:
        raise ParameterError(
            f"The model has outputs of shape {prediction.shape}; candidate sets are for models with one output per row."
        )
    if len(prediction) != rows:
        raise LengthError(
            f"There are {len(prediction)} predictions and {rows} candidate sets: the data are not the rows that this "
            f"was made for. Make one from the candidate sets of the same rows, in the same order."
        )
    weight = None if data is None else data.get_weight()
    if weight is not None and len(weight) > 0:
        raise ParameterError(
            "The data carry weights, which libraries do not apply to objectives of one's own; give them as "
            "sample_weight when making the objective and its metric, and none to the data."
        )
    return prediction
