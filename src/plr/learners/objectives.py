"""The weighted loss of candidate sets as boosting libraries want it: a derivative and a curvature per row, each round.

`plr.learners.Boosting` trains by these. They are public for those who keep their own call of LightGBM or XGBoost:
`for_lightgbm` and `for_xgboost` give an object with an ``objective``, a ``metric`` that needs no true labels, and an
``initial_score``, without which trees would spend their first rounds on the labels' mean.

Derivatives are handed over in units that make the mean curvature 1, as it is in the libraries' own squared error. A
round's trees do not change by it, and a library's settings in units of curvature (``lambda_l2``, ``min_child_weight``)
mean what they usually do, whatever the loss.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from plr._checks import check_sample_weight
from plr._codes import SCALE
from plr._parameters import check_choice, check_integer
from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import DivergenceError, LengthError, ParameterError
from plr.losses import Absolute, Squared, get_loss
from plr.preprocessing.scaling import label_scale
from plr.weighting import Average, Posterior, get_weighting
from plr.weighting.rule import NOTHING, Evaluation, Rule

__all__ = ["MONITORS", "LibraryObjective", "Metric", "Objective", "Round", "for_lightgbm", "for_xgboost"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

MONITORS = ("loss", "evidence")
"""How validation rows are scored: the rule's own loss, or the likelihood of their candidates under a noise model."""

# How near the best constant the first score has to be, in standard deviations of the labels; the trees do the rest.
_NEAR = 1e-6


class Round(NamedTuple):
    """What a round starts from: the mean loss, and each row's derivative and curvature, their mean curvature 1."""

    loss: float
    gradient: Singles
    hessian: Singles


class Objective:
    """A rule on the rows of one fit, round after round; it owns what the rule learns on the way.

    Parameters
    ----------
    S : CandidateSets
    rule : Rule
    sample_weight : ndarray of shape (n,), optional
    log_q : ndarray, one entry per candidate, optional
        Log density of false labels, per unit of the labels as they are in ``S``; empty or None where it is uniform.
    start : ndarray, one entry per candidate, optional
        Weights to begin with; the priors where there are none.
    start_rounds : int, default=0
        In so many rounds these are the weights, and the rule's afterwards.
    threads : int, default=1
        The result does not depend on it.
    scale : float, optional
        The candidates' standard deviation, where it is known already.

    Attributes
    ----------
    initial_score : float
        The constant with the least loss on average over the candidates, or over the start's weights.
    """

    def __init__(
        self,
        S: CandidateSets,
        rule: Rule,
        sample_weight: Floats | None = None,
        log_q: Floats | None = None,
        start: Floats | None = None,
        start_rounds: int = 0,
        threads: int = 1,
        scale: float | None = None,
    ) -> None:
        self.S, self.rule = S, rule
        self.weight = None if sample_weight is None else sample_weight / sample_weight.mean()
        self._log_q = NOTHING if log_q is None else log_q
        self._threads = threads
        # A start's weights are those of the average, with the start as prior.
        self._average = Rule(Average(), rule.loss)
        self._started = S if start is None else CandidateSets(S.values, S.offsets, start)
        self._start_rounds = start_rounds
        self._scale = label_scale(S, sample_weight) if scale is None else scale
        self.initial_score = self._best_constant()
        self._buffer: Evaluation | None = None
        self.begin()

    def begin(self) -> None:
        """Forget what was learned: a fit begins."""
        self.state = self.rule.initial_state(self._scale)
        self._rounds = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Objective:
        # LightGBM copies its parameters before it trains. The buffer alone is ever written to, so all else is shared.
        copied = copy.copy(self)
        copied._buffer = None
        return copied

    @property
    def noise_scale(self) -> float:
        """The noise scale after the last round."""
        return float(self.state[SCALE])

    def round(self, prediction: Floats) -> Round:
        """Weigh the candidates around the predictions, and learn the noise scale where the rule does."""
        self._rounds += 1
        started = self._rounds <= self._start_rounds
        rule, sets, log_q = (self._average, self._started, NOTHING) if started else (self.rule, self.S, self._log_q)
        found = rule.evaluate(prediction, sets, self.state, log_q, threads=self._threads, out=self._buffer)
        self._buffer = found
        if self.rule.learns_scale:
            self.state = self.rule.update_scale(
                prediction, self.S, self.state, found.weights, self.weight, threads=self._threads, own=not started
            )
        loss = float(np.average(found.loss, weights=self.weight))
        gradient, hessian = found.gradient, found.hessian
        if isinstance(self.rule.loss, Absolute):
            # Less than predictions typically are off, the absolute loss counts as smooth: its curvature 1/|r| would
            # otherwise let a row that happens to be met exactly hold a whole leaf in place. The mean of square roots is
            # neither moved much by outliers nor zero where many rows are met.
            typical = float(np.average(np.sqrt(found.loss), weights=self.weight)) ** 2
            hessian = np.minimum(hessian, 1.0 / max(typical, np.finfo(float).tiny))
        if self.weight is not None:
            gradient, hessian = gradient * self.weight, hessian * self.weight
        ready = Round(loss, np.empty(len(gradient), np.float32), np.empty(len(gradient), np.float32))
        with np.errstate(all="ignore"):
            factor = 1.0 / hessian.mean()
            np.multiply(gradient, factor, out=ready.gradient, casting="same_kind")
            np.multiply(hessian, factor, out=ready.hessian, casting="same_kind")
        if not (np.isfinite(ready.gradient).all() and factor > 0 and ready.hessian.min() >= 0):
            raise DivergenceError(
                f"In round {self._rounds} the loss's derivative is not finite, or its curvature is not above 0. A loss "
                f"of your own must have both; labels beyond 1e30 must be scaled."
            )
        return ready

    def _best_constant(self) -> float:
        """Find where the loss's slope, over all rows, changes its sign."""
        low, high = float(self.S.values.min()), float(self.S.values.max())
        state = self._average.initial_state()
        buffer = None

        def slope(constant: float) -> float:
            nonlocal buffer
            everywhere = np.full(len(self.S), constant)
            buffer = self._average.evaluate(everywhere, self._started, state, threads=self._threads, out=buffer)
            return float(np.average(buffer.gradient, weights=self.weight))

        if isinstance(self.rule.loss, Squared):
            middle = low / 2 + high / 2
            return middle - slope(middle) / 2
        if not slope(low) < 0:
            return low
        if not slope(high) > 0:
            return high
        return float(brentq(slope, low, high, xtol=_NEAR * self._scale))


class Metric:
    """Judge predictions for some rows by their candidates alone; lower is better.

    The noise scale of the evidence, and that of the loss where the rule learns one, moves one round towards the best at
    each call: it follows the model without being solved for anew each time.
    """

    def __init__(
        self,
        S: CandidateSets,
        rule: Rule,
        monitor: str,
        scale: float,
        weight: Floats | None = None,
        log_q: Floats = NOTHING,
    ) -> None:
        self._S, self._weight, self._monitor, self._log_q = S, weight, monitor, log_q
        # The common score assumes the same noise for every method, whatever the method itself assumes.
        by_noise = monitor == "evidence" and not rule.learns_scale
        self._rule = Rule(Posterior(), Squared()) if by_noise else rule
        self._state = self._rule.initial_state(scale)

    def score(self, prediction: Floats, state: Floats | None = None) -> float:
        """Return the mean over rows; with ``state``, the loss is taken at a noise scale learned elsewhere."""
        learned = self._state if state is None or self._monitor == "evidence" else state
        found = self._rule.evaluate(prediction, self._S, learned, self._log_q)
        if self._rule.learns_scale and learned is self._state:
            self._state = self._rule.update_scale(prediction, self._S, self._state, found.weights, self._weight)
        rows = found.loss
        if self._monitor == "evidence":
            rows = -self._rule.evidence(prediction, self._S, self._state, self._log_q)
        return float(np.average(rows, weights=self._weight))


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
    # A metric of LightGBM says besides that higher is not better.
    return LibraryObjective(S, weighting, loss, sample_weight, warm_up, (False,))


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
    S, weighting, loss, sample_weight, warm_up
        As in `for_lightgbm`. XGBoost does not apply a DMatrix's weights to an objective either.

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
    return LibraryObjective(S, weighting, loss, sample_weight, warm_up)


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
        S: object,
        weighting: object,
        loss: object,
        sample_weight: Any,
        warm_up: int,
        after_score: tuple[bool, ...] = (),
    ) -> None:
        sets = as_candidate_sets(S)
        rule = Rule(get_weighting(weighting), get_loss(loss))
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(sets))
        if rule.weighting.scale_by_row:
            raise ParameterError(
                "An objective cannot give each row a noise scale of its own, which Posterior(scale='row') asks for. "
                "plr.learners.Refit can, around any scikit-learn regressor; or use scale='common'."
            )
        rounds = check_integer("warm_up", warm_up)
        self._after_score, self._false_labels = after_score, rule.weighting.density(sets, sample_weight=weight)
        log_q = None if self._false_labels is None else self._false_labels.log(sets.values)
        self._core = Objective(sets, rule, weight, log_q, start_rounds=rounds)
        self.initial_score = self._core.initial_score
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
        if not varies:
            return self._varied
        # What the data say to begin with need not be one number.
        for name in ("get_init_score", "get_base_margin"):
            given = getattr(data, name, lambda: None)()
            if given is not None and np.size(given) == prediction.size:
                return np.array_equal(prediction, np.ravel(given).astype(np.float64))
        return False

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
        metric = Metric(sets, self._core.rule, by, label_scale(sets, weight), weight, log_q)
        name = "negative_evidence" if by == "evidence" else "loss"

        def evaluate(first: Any, second: Any) -> tuple[Any, ...]:
            return name, metric.score(_prediction(first, second, len(sets))), *self._after_score

        return evaluate


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
