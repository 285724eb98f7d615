"""The boosting learner: LightGBM's trees, grown on candidate sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import NOT_KEPT, require
from plr._parameters import check_choice, check_integer, check_number
from plr.contracts import START_SHARE, Fitted, Learner, Report, Task
from plr.errors import FeatureError, ParameterError
from plr.folds import set_rows_aside, take_rows
from plr.learners.trees import Trees, join_params, worthwhile_threads
from plr.preprocessing.features import column_place
from plr.preprocessing.scaling import Affine, label_scale, rescaled
from plr.threads import LIGHTGBM
from plr.weighting.rule import thread_count

if TYPE_CHECKING:
    import lightgbm

    from plr.learners.objectives import Metric, Objective

__all__ = ["Boosting", "FittedBoosting"]

Floats = NDArray[np.float64]

# "auto" warms up for as many rounds as make so many full steps, and no longer than a start is used.
_AUTO_STEPS = 3
# "auto" lets a tree look at this share of the rows, but at no fewer than so many.
_AUTO_SHARE, _AUTO_ROWS = 0.3, 200


@dataclass(frozen=True)
class FittedBoosting(Fitted):
    """Trees, with what stands around them.

    ``training_prediction`` has the predictions for the rows of the task, where all of them were trained on and all
    trees are kept. Pickles do not contain it.
    """

    booster: lightgbm.Booster | None = field(repr=False)
    columns: int
    initial_score: float
    target: Affine
    report: Report
    n_jobs: int | None = None
    training_prediction: Floats | None = field(default=None, repr=False, metadata=NOT_KEPT)

    def __post_init__(self) -> None:
        right = self.booster is None or self.booster.num_feature() == self.columns
        require(right, "the trees have other columns than the model")

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"training_prediction": None}

    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row, in the units of the labels."""
        score = np.full(len(X), self.initial_score)
        if self.booster is not None:
            threads = worthwhile_threads(self.n_jobs, X.size)
            with LIGHTGBM.work(threads):
                score += self.booster.predict(X, num_threads=threads)
        return self.target.undo(score)

    @property
    def importance(self) -> Floats:  # type: ignore[override]
        """Each column's share in how much splits lowered the loss; zeros where there are no splits."""
        if self.booster is None:
            return np.zeros(self.columns)
        gain = np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)
        return gain / max(gain.sum(), np.finfo(float).tiny)


class Boosting(Learner):
    """Boosted trees, by LightGBM.

    Each round weighs the candidates around the current predictions and grows one tree on the weighted loss. The first
    score is the best constant. Missing entries, categories and columns of any scale are taken as they are. Below some
    hundred rows trees have little to say.

    Parameters
    ----------
    trees : int, default=300
    learning_rate : float, default=0.1
    leaves : int, default=8
        Leaves of a tree, at most.
    rows_per_leaf : int, default=20
        Rows in a leaf, at least, of those that the tree looks at.
    row_fraction : float or "auto", default="auto"
        Share of the rows that each tree looks at, drawn anew for each. ``"auto"`` is 0.3, but no fewer than 200 rows.
    column_fraction : float, default=1.0
        Share of the columns that each tree looks at.
    warm_up : int or "auto", default="auto"
        Number of trees that are first grown on the candidates' priors. Until a model knows something of the features,
        the nearest candidate is the one nearest to the first score, and trees would confirm it. ``"auto"`` is 3 divided
        by the learning rate, but at most a third of the trees. Where there is a start, a third of the trees are grown
        on its weights instead.
    penalty : float, default=0.0
        L2 penalty on the values of leaves, in rows: a leaf of as many rows is halved.
    bins : int, default=255
        Bins that a column's values are sorted into, at most.
    monotone : sequence or mapping, optional
        1 where predictions may only rise with a column, -1 where only fall, 0 for neither; one for each column, or a
        mapping from names or numbers of columns.
    categorical : sequence, optional
        Names or numbers of columns that are categories, numbered from 0. Columns of a frame that are not numbers are
        categories without being named here.
    validation_fraction : float, optional
        Share of the rows set aside to choose the best round by. None keeps all trees, unless ``fit`` is given
        validation rows.
    monitor : {"loss", "evidence"}, default="loss"
        How rounds are scored on validation rows: the rule's own loss on their candidates (with plain labels
        as validation target, on the labels), or the likelihood of their candidates under a noise model.
    patience : int, optional
        Stop after so many rounds without a better one; those of the warm-up do not count.
    scale_target : bool, default=True
        Whether to bring labels to mean 0 and standard deviation 1 inside. It matters for weightings and losses whose
        parameters have units.
    params : mapping, optional
        Further parameters of LightGBM, such as ``{"max_depth": 4, "lambda_l1": 0.1}``. They win over what is set here
        without being a parameter.

    Notes
    -----
    Boosting follows each row closely, and so tends to confirm the candidates that rows began with. The warm-up, and
    small trees that each look at part of the rows, do much against it: on the made-up data that these defaults were
    chosen on, LightGBM's usual 31 leaves and all rows had twice the error with ``posterior``, or more, and were no
    better on plain labels.

    With the same seed the trees are the same to the bit, whatever ``n_jobs`` is. Fits in threads of one process wait
    for each other where they use more than one thread: LightGBM's number of threads belongs to the process.

    Examples
    --------
    >>> from plr.learners import Boosting
    >>> Boosting(trees=500, validation_fraction=0.2, patience=30, monotone={"age": 1})
    Boosting(monotone={'age': 1}, patience=30, trees=500, validation_fraction=0.2)
    """

    takes = "table"
    takes_missing = True

    def __init__(
        self,
        trees: int = 300,
        learning_rate: float = 0.1,
        leaves: int = 8,
        rows_per_leaf: int = 20,
        row_fraction: float | str = "auto",
        column_fraction: float = 1.0,
        warm_up: int | str = "auto",
        penalty: float = 0.0,
        bins: int = 255,
        monotone: Sequence[int] | Mapping[Any, int] | None = None,
        categorical: Sequence[Any] | None = None,
        validation_fraction: float | None = None,
        monitor: str = "loss",
        patience: int | None = None,
        scale_target: bool = True,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        self.trees = trees
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.rows_per_leaf = rows_per_leaf
        self.row_fraction = row_fraction
        self.column_fraction = column_fraction
        self.warm_up = warm_up
        self.penalty = penalty
        self.bins = bins
        self.monotone = monotone
        self.categorical = categorical
        self.validation_fraction = validation_fraction
        self.monitor = monitor
        self.patience = patience
        self.scale_target = scale_target
        self.params = params

    def fit(self, task: Task) -> FittedBoosting:
        """Grow trees on the task."""
        from plr.learners.objectives import MONITORS, Metric, Objective

        most = check_integer("trees", self.trees, low=1)
        patience = None if self.patience is None else check_integer("patience", self.patience, low=1)
        monitor = check_choice("monitor", self.monitor, MONITORS)
        self.check_weighting(task.rule.weighting)
        categorical = self._categorical(task)
        rows = len(task.S)
        if task.sample_weight is not None and not task.sample_weight.all():
            # They would still count as rows of a leaf.
            task = take_rows(task, np.flatnonzero(task.sample_weight))
        task = set_rows_aside(task, self.validation_fraction)
        if task.validation is None and patience is not None:
            raise ParameterError("patience needs validation rows: set validation_fraction, or give validation to fit.")
        settings = self._settings(task, categorical)
        prepared = task.preprocess(scale_target=self.scale_target)
        target, sets = prepared.target, prepared.sets
        auto = self.warm_up == "auto"
        warm_up = _AUTO_STEPS / self.learning_rate if auto else check_integer("warm_up", self.warm_up)
        # In so many rounds weights are not the rule's.
        first = int(min(warm_up, most / START_SHARE)) if auto else int(warm_up)
        if task.S.values.size == len(task.S) and not task.rule.may_miss:
            # Plain labels leave nothing to weigh.
            first = 0
        elif task.start is not None:
            first = most // START_SHARE
        scale = 1.0 if self.scale_target else label_scale(sets, task.sample_weight)
        objective = Objective(
            sets,
            task.rule,
            task.sample_weight,
            task.scaled_log_q(target),
            task.start,
            start_rounds=first,
            threads=thread_count(task.n_jobs),
            scale=scale,
        )
        metric = None
        if task.validation is not None:
            sets = rescaled(task.validation[1], target)
            metric = Metric(sets, task.rule, monitor, scale, log_q=task.validation_log_q(target))
        with LIGHTGBM.work(settings["num_threads"]):
            trees = Trees(task, settings, categorical, objective.initial_score)
            kept, report = _grow(trees, objective, metric, first, most, patience, task.tell)
            booster = trees.model(kept)
            seen = target.undo(trees.scores()) if metric is None and len(task.S) == rows else None
        report = replace(report, noise_scale=report.noise_scale * float(target.scale))
        columns = task.X.shape[1]
        return FittedBoosting(booster, columns, objective.initial_score, target, report, task.n_jobs, seen)

    def _settings(self, task: Task, categorical: list[int]) -> dict[str, Any]:
        """Check the parameters and return them as LightGBM takes them."""
        rows_per_leaf = check_integer("rows_per_leaf", self.rows_per_leaf, low=1)
        if isinstance(self.row_fraction, str):
            check_choice("row_fraction", self.row_fraction, ("auto",))
            row_fraction = min(1.0, max(_AUTO_SHARE, _AUTO_ROWS / len(task.S)))
        else:
            row_fraction = check_number("row_fraction", self.row_fraction, low=0.0, high=1.0, open_low=True)
        settings = {
            "objective": "none",
            "metric": "none",
            "learning_rate": check_number("learning_rate", self.learning_rate, low=0.0, open_low=True),
            "num_leaves": check_integer("leaves", self.leaves, low=2),
            "min_data_in_leaf": rows_per_leaf,
            "bagging_fraction": row_fraction,
            "bagging_freq": int(row_fraction < 1),
            "feature_fraction": check_number("column_fraction", self.column_fraction, low=0.0, high=1.0, open_low=True),
            "lambda_l2": check_number("penalty", self.penalty, low=0.0),
            "max_bin": check_integer("bins", self.bins, low=2),
            # LightGBM's own values for the next three are made for more rows, or for labels of one certain scale.
            "min_data_in_bin": min(3, rows_per_leaf),
            "min_data_per_group": rows_per_leaf,
            "min_sum_hessian_in_leaf": 0.0,
            "feature_pre_filter": False,
            "deterministic": True,
            # A histogram of rows in parallel is a sum whose last bit depends on the number of threads.
            "force_col_wise": True,
            "seed": task.seed,
            "num_threads": worthwhile_threads(task.n_jobs, task.X.size),
            "verbosity": -1,
        }
        if self.monotone is not None:
            settings["monotone_constraints"] = self._monotone(task, categorical)
        return join_params(settings, self.params)

    def _categorical(self, task: Task) -> list[int]:
        columns = task.X.shape[1]
        given = () if self.categorical is None else self.categorical
        if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
            raise ParameterError(f"categorical must be a sequence of columns, got {given!r}.")
        places = [column_place("categorical", column, task.names, columns) for column in given]
        for place in places:
            column = task.X[:, place]
            bad = ~(np.isnan(column) | ((column >= 0) & (column < 2**31) & (column == np.floor(column))))
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise FeatureError(
                    f"Column {place} is categorical and has {column[row]:g} in row {row}; number its categories from "
                    f"0, for example with OrdinalEncoder."
                )
        return sorted({*places, *task.categorical})

    def _monotone(self, task: Task, categorical: list[int]) -> list[int]:
        columns = task.X.shape[1]
        directions = [0] * columns
        if isinstance(self.monotone, Mapping):
            for column, direction in self.monotone.items():
                directions[column_place("monotone", column, task.names, columns)] = direction
        elif isinstance(self.monotone, Sequence | np.ndarray) and not isinstance(self.monotone, str):
            directions = list(self.monotone)
            if len(directions) != columns:
                raise ParameterError(
                    f"monotone has {len(directions)} entries for {columns} columns; give one each, or a mapping."
                )
        else:
            raise ParameterError(f"monotone must be a sequence or a mapping of columns, got {self.monotone!r}.")
        for place, direction in enumerate(directions):
            if direction not in (-1, 0, 1):
                raise ParameterError(f"monotone must be -1, 0 or 1 for each column, got {direction!r} for {place}.")
            if direction != 0 and place in categorical:
                raise ParameterError(f"monotone asks for an order in column {place}, whose categories have none.")
        return [int(direction) for direction in directions]


def _grow(
    trees: Trees,
    objective: Objective,
    metric: Metric | None,
    first: int,
    most: int,
    patience: int | None,
    callback: Callable[[int, int, float], object],
) -> tuple[int, Report]:
    """Grow at most so many trees, and return how many to keep and how it went.

    Patience begins with the first tree after the ``first`` ones, which are grown on another objective.
    """
    losses: list[float] = []
    scales: list[float] = []
    scores: list[float] = []
    best, kept, improved = 0, 0, 0
    for done in range(most):
        losses.append(trees.grow(objective.round).loss)
        scales.append(objective.noise_scale)
        callback(done + 1, most, losses[-1])
        if metric is None:
            continue
        scores.append(trees.evaluate(lambda score: metric.score(score, objective.state)))
        if done == 0 or scores[-1] < scores[best]:
            best, kept = done, trees.count
        if done <= first or scores[-1] < scores[improved]:
            improved = done
        if patience is not None and done - improved >= patience:
            break
    report = Report(
        rounds=len(losses),
        loss=np.array(losses),
        noise_scale=np.array(scales) if objective.rule.learns_scale else np.empty(0),
        validation=np.array(scores),
        best_round=None if metric is None else best,
    )
    return trees.count if metric is None else kept, report
