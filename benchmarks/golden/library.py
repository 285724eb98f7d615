"""What the library answers: every learner with every weighting, start, loss and kind of source, at small sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plr import CandidateSets, PartialLabelRegressor, make_candidates

__all__ = ["LEARNERS", "cases"]

Floats = NDArray[np.float64]

ROWS, NEW_ROWS, SHOWN = 80, 12, 10
WEIGHTINGS = ("average", "identification", "progressive", "posterior")
STARTS = (None, "density", "sampled")
LOSSES = ("absolute", "huber")


def _module() -> Any:
    import torch

    from plr.learners import Module

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    return Module(net, epochs=20)


def _ridge() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge()


def _named(name: str) -> Callable[[], Any]:
    return lambda: name


LEARNERS: dict[str, Callable[[], Any]] = {
    **{name: _named(name) for name in ("linear", "mlp", "boosting", "density", "gaussian_process", "committee")},
    "ridge": _ridge,
    "module": _module,
}
"""Every learner by name, and a scikit-learn regressor and a torch module."""

_DRAWN = ("gaussian_process", "committee")


@dataclass(frozen=True)
class Case:
    """One fit, and whether it goes by draws, which rounding may turn."""

    learner: str
    data: str = "array"
    rows: int = ROWS
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the record calls it."""
        chosen = {"learner": self.learner, "data": self.data, "rows": self.rows, **self.options}
        return " ".join(f"{key}={value}" for key, value in chosen.items())

    @property
    def drawn(self) -> bool:
        """Whether labels are drawn at random on the way."""
        return self.learner in _DRAWN or self.options.get("start") == "sampled"

    def answer(self) -> dict[str, Any]:
        """Fit, ask everything there is to ask, and return the answers as plain numbers."""
        options = {key: _part(key, value) for key, value in self.options.items()}
        model = PartialLabelRegressor(LEARNERS[self.learner](), random_state=0, **options)
        train, new = _DATA[self.data](self.rows)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(train.X, train.S, **train.more)
            except Exception as error:
                return {"error": type(error).__name__, "words": str(error)}
            answers = _ask(model, new, plain=self.data == "labels")
        told = sorted({type(one.message).__name__ for one in caught if type(one.message).__module__ == "plr.errors"})
        return {**answers, "warnings": told}


def cases() -> Iterator[Case]:
    """Return all of them."""
    for learner, weighting, start in product(LEARNERS, WEIGHTINGS, STARTS):
        yield Case(learner, options={"weighting": weighting, "start": start})
    for learner, loss in product(LEARNERS, LOSSES):
        yield Case(learner, options={"loss": loss})
    for learner, data in product(LEARNERS, _DATA):
        if data != "array":
            yield Case(learner, data)
    for learner, option in product(LEARNERS, _POSTERIORS):
        yield Case(learner, options={"weighting": option})
    for learner, rows in product(("committee", "gaussian_process", "linear"), (5, 10, 30, 49)):
        yield Case(learner, rows=rows)


@dataclass(frozen=True)
class _Rows:
    X: Any
    S: Any
    more: dict[str, Any] = field(default_factory=dict)


def _raw(rows: int) -> tuple[Floats, Floats, CandidateSets]:
    random = np.random.default_rng(7)
    X = random.normal(size=(rows + NEW_ROWS, 4))
    y = 3 * X[:, 0] + 2 * np.sin(2 * X[:, 1]) + 0.1 * random.normal(size=len(X))
    return X, y, make_candidates(y, 3, set_size="fixed", random_state=3)


def _halves(X: Any, S: Any, rows: int, **more: Any) -> tuple[_Rows, _Rows]:
    return _Rows(X[:rows], S[:rows], {key: value[:rows] for key, value in more.items()}), _Rows(X[rows:], S[rows:])


def _array(rows: int) -> tuple[_Rows, _Rows]:
    X, _, S = _raw(rows)
    return _halves(X, S, rows)


def _padded(rows: int) -> tuple[_Rows, _Rows]:
    X, y, S = _raw(rows)
    padded = np.column_stack([np.asarray(S), np.full(len(y), np.nan)])
    padded[::3, 2] = np.nan
    return _halves(X, padded, rows)


def _labels(rows: int) -> tuple[_Rows, _Rows]:
    X, y, _ = _raw(rows)
    return _halves(X, y, rows)


def _prior(rows: int) -> tuple[_Rows, _Rows]:
    X, _, S = _raw(rows)
    prior = np.random.default_rng(5).uniform(0.5, 1.5, size=S.values.size)
    return _halves(X, CandidateSets(S.values, S.offsets, prior), rows)


def _weighted(rows: int) -> tuple[_Rows, _Rows]:
    X, _, S = _raw(rows)
    return _halves(X, S, rows, sample_weight=np.random.default_rng(6).integers(1, 4, size=len(X)).astype(float))


def _grouped(rows: int) -> tuple[_Rows, _Rows]:
    X, _, S = _raw(rows)
    return _halves(X, S, rows, groups=np.arange(len(X)) // 4)


def _frame(rows: int) -> tuple[_Rows, _Rows]:
    import pandas as pd

    X, _, S = _raw(rows)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["c"] = pd.Categorical(np.where(X[:, 2] > 0.3, "high", np.where(X[:, 2] < -0.3, "low", "middle")))
    frame.loc[frame.index[::7], "d"] = np.nan
    sets = pd.Series(S.to_lists())
    return _Rows(frame.iloc[:rows], sets.iloc[:rows]), _Rows(frame.iloc[rows:], sets.iloc[rows:])


def _polars(rows: int) -> tuple[_Rows, _Rows]:
    import polars as pl

    X, _, S = _raw(rows)
    return _halves(pl.DataFrame(X, schema=["a", "b", "c", "d"]), pl.Series(S.to_lists()), rows)


def _texts(rows: int) -> tuple[_Rows, _Rows]:
    import pandas as pd

    X, _, S = _raw(rows)
    column = pd.Series(["|".join(map(str, row)) for row in S.to_lists()])
    return _Rows(X[:rows], column.iloc[:rows]), _Rows(X[rows:], column.iloc[rows:])


def _arrow(rows: int) -> tuple[_Rows, _Rows]:
    X, _, S = _raw(rows)
    column = S.to_arrow()
    return _Rows(X[:rows], column[:rows]), _Rows(X[rows:], column[rows:])


_DATA: dict[str, Callable[[int], tuple[_Rows, _Rows]]] = {
    "array": _array,
    "padded": _padded,
    "labels": _labels,
    "prior": _prior,
    "weighted": _weighted,
    "grouped": _grouped,
    "frame": _frame,
    "polars": _polars,
    "texts": _texts,
    "arrow": _arrow,
}

_POSTERIORS = {
    "laplace": {"noise": "laplace"},
    "gaussian": {"noise": "gaussian"},
    "estimated": {"false_labels": "estimated"},
    "missing": {"missing_truth": "learned"},
}


def _part(key: str, value: Any) -> Any:
    if key == "weighting" and value in _POSTERIORS:
        from plr.weighting import Posterior

        return Posterior(**_POSTERIORS[value])
    return value


def _ask(model: PartialLabelRegressor, new: _Rows, *, plain: bool) -> dict[str, Any]:
    """Return all answers; of the training rows, those of the first few."""

    def first(flat: Floats | None) -> list[float] | None:
        return None if flat is None else _numbers(flat[: 4 * SHOWN])

    def known(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            return {"error": type(error).__name__, "words": str(error)}

    answers: dict[str, Any] = {
        "prediction": _numbers(model.predict(new.X)),
        "noise_scale": float(model.noise_scale_),
        "missing_share": float(model.missing_share_),
        "weights": first(model.candidate_probabilities_),
        "start_weights": first(model.start_weights_),
        "score": known(lambda: float(model.score(new.X, new.S))),
        "identified": known(lambda: first(model.identify().probabilities)),
        "interval": known(lambda: _numbers(model.predict_interval(new.X))),
        "guaranteed": known(lambda: _numbers(model.predict_interval(new.X, 0.7, "guaranteed"))),
    }
    if not plain:
        answers["identified_new"] = known(lambda: _numbers(model.identify(new.X, new.S).probabilities))
    return answers


def _numbers(found: Any) -> list[float]:
    return [float(f"{number:.12g}") for number in np.ravel(np.asarray(found, dtype=np.float64))]
