"""LightGBM's part in boosting: its data, its parameters, its trees, one round at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr.contracts import Task
from plr.errors import ParameterError, unknown_name
from plr.weighting.rule import thread_count

if TYPE_CHECKING:
    import lightgbm

    from plr.learners.objectives import Round

__all__ = ["Trees", "join_params", "lightgbm_threads", "worthwhile_threads"]

Floats = NDArray[np.float64]


# With fewer entries of X than this for each, threads wait for each other longer than they work.
_ENTRIES_PER_THREAD = 250_000

_NAMED_HERE = {
    "num_iterations": "trees",
    "learning_rate": "learning_rate",
    "num_leaves": "leaves",
    "min_data_in_leaf": "rows_per_leaf",
    "bagging_fraction": "row_fraction",
    "feature_fraction": "column_fraction",
    "lambda_l2": "penalty",
    "max_bin": "bins",
    "monotone_constraints": "monotone",
    "categorical_feature": "categorical",
    "early_stopping_round": "patience",
    "num_threads": "the estimator's n_jobs",
    "seed": "the estimator's random_state",
}
_REFUSED = {
    "objective": "the weighting and the loss are the objective",
    "metric": "monitor says how rounds are scored",
    "num_class": "a model for candidate sets has one output",
    "boosting": "candidates are weighed around the sum of all trees, which other kinds change afterwards",
}


class Trees:
    """Trees that grow by one a round, on the rows of a task.

    Parameters
    ----------
    task : Task
    settings : dict
        Parameters of LightGBM.
    categorical : list of int
        Which columns are categories.
    initial_score : float
        What to start from.
    """

    def __init__(self, task: Task, settings: dict[str, Any], categorical: list[int], initial_score: float) -> None:
        import lightgbm

        def described(rows: int) -> dict[str, Any]:
            # LightGBM insists on labels; nothing looks at them.
            return {"label": np.zeros(rows), "init_score": np.full(rows, initial_score), "params": settings}

        try:
            data = lightgbm.Dataset(task.X, categorical_feature=categorical, **described(len(task.S)))
            self._booster = lightgbm.Booster(settings, data)
            if task.validation is not None:
                rows, sets = task.validation
                self._booster.add_valid(data.create_valid(rows, **described(len(sets))), "validation")
        except lightgbm.basic.LightGBMError as error:
            raise ParameterError(f"LightGBM refuses to fit: {error}.") from error
        # Where X is zero throughout there is nothing to split by, and LightGBM would fail rather than say so.
        self._no_splits = not self._booster.dump_model()["feature_infos"]
        self._constant = np.full(len(task.S), initial_score)
        self._validation_constant = np.full(0 if task.validation is None else len(task.validation[1]), initial_score)

    def grow(self, step: Callable[[Floats], Round]) -> Round:
        """Call ``step`` with each row's score so far, and grow the next tree on what it gives."""
        if self._no_splits:
            return step(self._constant)
        found: list[Round] = []

        def gradient(score: Floats, _data: object) -> tuple[Any, Any]:
            found.append(step(score))
            return found[0].gradient, found[0].hessian

        self._booster.update(fobj=gradient)
        return found[0]

    def evaluate(self, score: Callable[[Floats], float]) -> float:
        """Call ``score`` with each validation row's score so far, and return what it gives."""
        if self._no_splits:
            return score(self._validation_constant)
        found = self._booster.eval_valid(lambda total, _data: ("score", score(total), False))
        return float(found[0][2])

    def scores(self) -> Floats:
        """Return each row's score so far."""
        found = self._constant.copy()

        def keep(total: Floats, _data: object) -> tuple[str, float, bool]:
            found[:] = total
            return "score", 0.0, False

        if not self._no_splits:
            self._booster.eval_train(keep)
        return found

    @property
    def count(self) -> int:
        """How many trees there are: at most the number of rounds, since a tree without a split is not kept."""
        return int(self._booster.current_iteration())

    def model(self, count: int) -> lightgbm.Booster | None:
        """Return the first ``count`` trees without the data they grew on; None where nothing could grow."""
        import lightgbm

        if self._no_splits:
            return None
        return lightgbm.Booster(model_str=self._booster.model_to_string(num_iteration=count))


def lightgbm_threads(model: Any) -> int | None:
    """Return how many threads of LightGBM a scikit-learn model uses: 0 for none, None for an unknown number."""
    params = model.get_params(deep=True) if hasattr(model, "get_params") else {}
    boosted = [part for part in (model, *params.values()) if type(part).__module__.partition(".")[0] == "lightgbm"]
    if not boosted:
        return 0
    spellings = {spelling for spelling, name in _spellings().items() if name == "num_threads"} - {"n_jobs"}
    given = [part.get_params(deep=False) for part in boosted]
    return 1 if all(each.get("n_jobs") == 1 and not spellings & each.keys() for each in given) else None


def worthwhile_threads(n_jobs: int | None, entries: int) -> int:
    """Return how many threads to put to work on so many entries of X."""
    return max(1, min(thread_count(n_jobs), entries // _ENTRIES_PER_THREAD))


def join_params(settings: dict[str, Any], params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add a user's own parameters of LightGBM, which win, under whatever spelling; refuse those that cannot hold."""
    if params is None:
        return settings
    if not isinstance(params, Mapping):
        raise ParameterError(f"params must be a mapping of LightGBM's parameters, got {params!r}.")
    meaning = _spellings()
    joined = dict(settings)
    for spelling, value in params.items():
        if spelling not in meaning:
            raise unknown_name("parameter of LightGBM", spelling, meaning)
        name = meaning[spelling]
        if name in _NAMED_HERE:
            raise ParameterError(f"params has {spelling!r}, which is {_NAMED_HERE[name]} here; set that instead.")
        if name in _REFUSED:
            raise ParameterError(f"params must not have {spelling!r}: {_REFUSED[name]}.")
        joined[name] = value
    return joined


@functools.cache
def _spellings() -> dict[str, str]:
    """Return every spelling LightGBM knows of a parameter, with the name it stands for."""
    from lightgbm.basic import _ConfigAliases

    _ConfigAliases.get("objective")  # reads them
    known: dict[str, list[str]] = _ConfigAliases.aliases
    return {spelling: name for name, spellings in known.items() for spelling in (name, *spellings)}
