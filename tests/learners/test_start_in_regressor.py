"""The start as a user of `PartialLabelRegressor` meets it: which learners begin with it, and what it may be."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn

from plr import PartialLabelRegressor, make_candidates
from plr.errors import ParameterError
from plr.learners import MLP, Boosting, Linear, Module, Refit
from plr.learners.starts import DensityStart, Start, get_start
from plr.weighting import WEIGHTINGS, Posterior

pytestmark = pytest.mark.usefixtures("small_forests")
LEARNERS = {
    "linear": Linear(),
    "mlp": MLP(hidden=(8,), epochs=30),
    "boosting": Boosting(trees=9, rows_per_leaf=5),
    "refit": Refit(Ridge(), cv=3, max_rounds=1),
    "module": Module(lambda: nn.Linear(2, 1), epochs=6, device="cpu"),
}


class Known(Start):
    """Knows which candidate is true, and how it was asked."""

    def __init__(self, truth, asked=None):
        self.truth = truth
        self.asked = [] if asked is None else asked

    def weights(self, task, cv):
        self.asked.append((task, cv))
        weights = np.zeros(task.S.values.size)
        weights[task.S.offsets[:-1] + self.truth] = 1.0
        return weights


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 2))
    y = np.abs(X[:, 0]) + 0.05 * random.normal(size=150)
    S, truth = make_candidates(y, 3, set_size="fixed", random_state=0, return_index=True)
    return X, y, S, truth


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_every_learner_begins_with_it(data, learner):
    X, _, S, truth = data
    begun = [
        PartialLabelRegressor(learner, "posterior", start=start, random_state=0).fit(X, S)
        for start in (None, Known(truth), Known(3 - truth))
    ]
    predictions = [model.predict(X) for model in begun]
    assert not np.array_equal(predictions[1], predictions[2])
    assert not np.array_equal(predictions[0], predictions[1])
    assert begun[0].start_weights_ is None
    assert begun[1].start_weights_[S.offsets[:-1] + truth].min() == 1.0


@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning", "ignore::plr.errors.AmbiguousDataWarning")
def test_a_linear_model_stays_where_the_start_is():
    # Both lines explain all rows: only the start tells them apart.
    X = np.linspace(-1, 1, 60)[:, None]
    S = np.column_stack([X[:, 0], -X[:, 0]])
    for truth, slope in ((0, 1.0), (1, -1.0)):
        model = PartialLabelRegressor("linear", "posterior", start=Known(np.full(60, truth))).fit(X, S)
        assert_allclose(model.predict([[1.0]]), slope, atol=1e-3)


def test_density_by_name(data):
    X, _, S, truth = data
    model = PartialLabelRegressor(MLP(epochs=30), start="density", random_state=0).fit(X, S)
    assert model.start_weights_.shape == S.values.shape
    assert model.start_weights_[S.offsets[:-1] + truth].mean() > 0.4
    assert np.mean(model.identify().index == truth) > 0.5
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.start_weights_, model.start_weights_)


@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
def test_the_start_is_asked_once_with_folds_and_groups(data):
    X, _, S, truth = data
    groups = np.arange(150) // 3
    start = Known(truth)
    model = PartialLabelRegressor("linear", "posterior", start=start, cv=4, random_state=0)
    model.fit(X, S, groups=groups, sample_weight=np.arange(150.0)).identify()
    ((task, cv),) = start.asked
    assert cv == 4
    assert_array_equal(task.groups, groups)
    assert_array_equal(task.sample_weight, np.arange(150.0))


def test_the_density_of_false_labels_reaches_the_start(data):
    X, _, S, truth = data
    start = Known(truth)
    weighting = Posterior(false_labels=lambda labels: np.exp(-np.abs(labels)) / 2)
    PartialLabelRegressor("linear", weighting, start=start).fit(X, S)
    assert_allclose(start.asked[0][0].log_q, -np.abs(S.values) - np.log(2), atol=1e-6)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_auto_is_none_and_average_has_no_use_for_one(data, weighting):
    X, _, S, truth = data
    assert PartialLabelRegressor("linear", weighting, start="auto").fit(X, S).start_weights_ is None
    start = Known(truth)
    PartialLabelRegressor("linear", weighting, start=start).fit(X, S)
    assert len(start.asked) == (weighting != "average")


def test_plain_labels_are_plain_training(data):
    X, y, _, _ = data
    plain, started = (
        PartialLabelRegressor(MLP(epochs=9), start=start, random_state=0).fit(X, y) for start in (None, "density")
    )
    assert_array_equal(plain.predict(X), started.predict(X))
    assert_array_equal(started.start_weights_, 1.0)


@pytest.mark.parametrize("kind", ["array", "list", "frame", "categories", "sparse"])
def test_learners_that_take_rows_of_any_kind(data, kind):
    X, _, S, truth = data
    regressor = Ridge()
    rows = {"array": X, "list": X.tolist(), "frame": pd.DataFrame(X, columns=["a", "b"]), "sparse": sparse.csr_array(X)}
    if kind == "categories":
        rows[kind] = pd.DataFrame({"kind": np.where(X[:, 0] > 0, "high", "low")})
        regressor = make_pipeline(OneHotEncoder(), Ridge())
    learner = Refit(regressor, cv=2, max_rounds=1)
    model = PartialLabelRegressor(learner, start=DensityStart("trees"), random_state=0).fit(rows[kind], S)
    assert model.start_weights_[S.offsets[:-1] + truth].mean() > 0.25


def test_rows_that_are_no_table_are_refused(data):
    _, _, S, _ = data
    images = np.random.default_rng(0).normal(size=(150, 2, 2))
    learner = Module(lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 1)), epochs=1, device="cpu")
    with pytest.raises(ParameterError, match="start=None"):
        PartialLabelRegressor(learner, start="density").fit(images, S)


@pytest.mark.parametrize("start", ["densty", 3, DensityStart, object()], ids=["name", "number", "class", "object"])
def test_what_is_no_start_is_refused(data, start):
    X, _, S, _ = data
    with pytest.raises(ParameterError, match="start"):
        PartialLabelRegressor("linear", start=start).fit(X, S)


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.ones(3), "shape"), (np.full(600, 0.5), "sum to 1"), (np.tile([2.0, -1.0, 0, 0], 150), "at least 0")],
    ids=["length", "sum", "sign"],
)
def test_bad_weights_are_named(data, weights, message):
    class Bad:
        def weights(self, task, cv):
            return weights

    X, _, S, _ = data
    with pytest.raises(ParameterError, match=message):
        PartialLabelRegressor("linear", start=Bad()).fit(X, S)


def test_resolving():
    assert get_start(None) is None
    assert isinstance(get_start("density"), DensityStart)
    assert get_start(own := Known(0)) is own
    assert PartialLabelRegressor(start=DensityStart()).set_params(start__models="trees").start.models == "trees"
