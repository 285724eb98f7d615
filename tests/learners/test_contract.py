"""One contract for all learners: whatever is fitted, the same things can be asked of it and the same mistakes named."""

from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from threadpoolctl import threadpool_limits
from torch import nn

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import FeatureError, LengthError, NotFittedError, ParameterError
from plr.learners import LEARNERS, MLP, Boosting, Committee, Density, GaussianProcess, Module, Refit
from plr.weighting import WEIGHTINGS
from support.torch_nets import perceptron

pytestmark = pytest.mark.usefixtures("small_forests")
ROWS = 80


class Convolution(nn.Module):
    """Slides over the three features as over a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.slide, self.head = nn.Conv1d(1, 16, 2), nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.slide(x[:, None]).relu().flatten(1))


class Attention(nn.Module):
    """Lets the features attend to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(torch.randn(3, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, x):
        return self.head(self.layer(x[:, :, None] * self.place + self.place).flatten(1))[:, 0]


def module(net: Callable[[], nn.Module], **changed: object) -> Module:
    settings = {"epochs": 40, "batch_size": 32, "learning_rate": 0.03, "device": "cpu"}
    return Module(net, **(settings | changed))


GIVEN: dict[str, Callable[[], object]] = {
    "linear": lambda: "linear",
    "mlp": lambda: MLP(hidden=(16,), epochs=150),
    "boosting": lambda: Boosting(trees=60, rows_per_leaf=5),
    "committee": lambda: Committee(effort="low", cv=3),
    "density": lambda: Density(models="trees"),
    "gaussian_process": lambda: GaussianProcess(chains=2, rounds=6),
    "ridge": Ridge,
    "neighbours": lambda: KNeighborsRegressor(5),
    "forest": lambda: Refit(RandomForestRegressor(10, min_samples_leaf=4), cv=3, max_rounds=3),
    "extra trees": lambda: Refit(ExtraTreesRegressor(10, min_samples_leaf=4), cv=3, max_rounds=3),
    "gaussian process": lambda: GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.1), optimizer=None, normalize_y=True),
    "support vectors": lambda: SVR(C=10.0),
    "histogram boosting": lambda: Refit(HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=5), max_rounds=3),
    "kernel ridge": lambda: TransformedTargetRegressor(KernelRidge(kernel="rbf"), transformer=StandardScaler()),
    "bayesian ridge": BayesianRidge,
    "pipeline": lambda: make_pipeline(StandardScaler(), Ridge()),
    "perceptron": lambda: module(perceptron),
    "convolution": lambda: module(Convolution),
    "attention": lambda: module(Attention, learning_rate=0.01),
}

# Further models of a kind that is there already: the full run asks everything of them, each run what matters most.
FURTHER = {"extra trees", "histogram boosting", "bayesian ridge", "kernel ridge", "gaussian process", "support vectors"}
FURTHER |= {"pipeline", "convolution", "attention"}

STOPS_EARLY = {
    "mlp": lambda **more: MLP(hidden=(16,), epochs=400, **more),
    "boosting": lambda **more: Boosting(trees=400, learning_rate=0.3, rows_per_leaf=2, **more),
    "module": lambda **more: module(perceptron, epochs=300, **more),
}


@functools.cache
def made_up():
    random = np.random.default_rng(3)
    X = random.normal(size=(ROWS, 3))
    y = 20 + 4 * X[:, 0] - 2 * X[:, 1] + 0.2 * random.normal(size=ROWS)
    return X, y, make_candidates(y, 2, set_size="upto", random_state=0)


@pytest.fixture
def data():
    return made_up()


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in FURTHER)) for name in GIVEN])
def name(request):
    return request.param


@pytest.fixture
def given(name):
    return GIVEN[name]()


@pytest.fixture(autouse=True)
def quiet():
    # Regressors of others may say that they would have liked more data, and make threads that wait for each other.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.filterwarnings("ignore", module="sklearn")
        yield


def fitted(given, X, S, *, seed=0, fit=None, **parameters):
    return PartialLabelRegressor(given, random_state=seed, **parameters).fit(X, S, **(fit or {}))


@functools.cache
def fitted_once(name):
    """Return a model that tests ask and leave as it is."""
    X, _, S = made_up()
    given = GIVEN[name]()
    before = pickle.dumps(given) if not isinstance(given, str | Module) else None
    model = fitted(given, X, S)
    if before is not None:
        assert pickle.dumps(given) == before, "what was given is left alone"
    return model


@pytest.mark.parametrize("name", GIVEN, indirect=True)
def test_answers_all_questions(name, data):
    X, y, S = data
    model = fitted_once(name)
    prediction = model.predict(X)
    assert prediction.shape == (ROWS,)
    assert prediction.dtype == np.float64
    assert model.score(X, y) > 0.5
    assert np.isfinite(model.score(X, S))
    assert model.n_iter_ == model.model_.report.rounds >= 1
    assert model.noise_scale_ > 0
    found = model.identify(X, S)
    assert np.allclose(np.add.reduceat(found.probabilities, S.offsets[:-1]), 1)
    assert (found.value == S.values[S.offsets[:-1] + found.index]).all()
    assert np.mean(found.value == y) > 0.6


def test_identifies_training_rows_out_of_fold(data):
    X, y, S = data
    for given in ("linear", Ridge(), module(perceptron, epochs=30), Boosting(trees=40, rows_per_leaf=5)):
        found = fitted(given, X, S, cv=3).identify()
        assert np.mean(found.value == y) > 0.6


def test_clone_and_pickle(name, data):
    X, _, S = data
    model = fitted_once(name)
    assert repr(clone(model)) == repr(model)
    assert not hasattr(clone(model), "model_")
    again = pickle.loads(pickle.dumps(model))
    # A pickle may lay an array out in another order, and sums then round differently.
    assert np.allclose(again.predict(X), model.predict(X), rtol=1e-12)
    assert np.allclose(again.identify(X, S).probabilities, model.identify(X, S).probabilities, rtol=1e-9)


def test_same_seed_same_bits_whatever_the_workers(name, given, data):
    X, _, S = data
    assert np.array_equal(fitted(given, X, S, n_jobs=2).predict(X), fitted_once(name).predict(X))


@pytest.mark.parametrize("weighting", [weighting for weighting in WEIGHTINGS if weighting != "posterior"])
def test_other_weightings(given, data, weighting):
    X, y, S = data
    assert fitted(given, X, S, weighting=weighting).score(X, y) > 0.3


def test_single_candidates_are_supervision(given, data):
    X, y, _ = data
    plain = fitted(given, X, y).predict(X)
    sets = fitted(given, X, CandidateSets.from_lists([[label] for label in y])).predict(X)
    assert np.array_equal(plain, sets)


def test_weights_count(given, data):
    X, y, S = data
    if isinstance(given, KNeighborsRegressor | GaussianProcessRegressor):
        with pytest.raises(ParameterError, match="sample_weight"):
            fitted(given, X, S, fit={"sample_weight": np.arange(ROWS)})
        return
    # Rows whose labels are shifted count for nothing, or for everything.
    shifted = np.arange(ROWS) % 2 == 0
    labels = np.where(shifted, y + 30, y)
    low = fitted(given, X, labels, fit={"sample_weight": np.where(shifted, 1e-6, 1.0)}).predict(X).mean()
    high = fitted(given, X, labels, fit={"sample_weight": np.where(shifted, 1.0, 1e-6)}).predict(X).mean()
    assert high - low == pytest.approx(30, abs=6)


@pytest.mark.parametrize("kind", STOPS_EARLY)
@pytest.mark.parametrize("monitor", ["loss", "evidence"])
def test_stops_early_on_rows_without_labels(data, kind, monitor):
    X, y, S = data
    learner = STOPS_EARLY[kind](monitor=monitor, patience=8, validation_fraction=0.3)
    model = fitted(learner, X, S)
    report = model.model_.report
    assert report.best_round is not None
    assert len(report.validation) == report.rounds < 300
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("kind", STOPS_EARLY)
def test_patience_needs_rows_to_judge_by(data, kind):
    X, _, S = data
    with pytest.raises(ParameterError, match="validation_fraction"):
        fitted(STOPS_EARLY[kind](patience=5), X, S)


class TestBadInput:
    def test_rows_that_disagree(self, given, data):
        X, _, S = data
        with pytest.raises(LengthError, match="70 rows and the target 80"):
            fitted(given, X[:70], S)

    def test_missing_numbers(self, given, data):
        X, _, S = data
        holes = X.copy()
        holes[4, 1] = np.nan
        model = PartialLabelRegressor(given, random_state=0)
        if isinstance(given, Pipeline | TransformedTargetRegressor):
            # Only what is inside can tell whether it minds.
            with pytest.raises(ValueError, match="contains NaN"):
                model.fit(holes, S)
        elif model.__sklearn_tags__().input_tags.allow_nan:
            assert np.isfinite(model.fit(holes, S).predict(holes)).all()
        else:
            with pytest.raises(FeatureError, match="row 4, column 1"):
                model.fit(holes, S)

    def test_other_columns(self, name, data):
        with pytest.raises(ValueError, match="2 features"):
            fitted_once(name).predict(data[0][:, :2])

    def test_before_fit(self, given, data):
        with pytest.raises(NotFittedError):
            PartialLabelRegressor(given).predict(data[0])

    def test_failed_fit_leaves_the_model_as_it_was(self, name, data):
        X, _, S = data
        model = fitted_once(name)
        before = model.predict(X)
        with pytest.raises(ValueError, match="rows"):
            model.fit(X[:10], S)
        assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize("given", [object(), 3, {"a": 1}, nn.Linear])
def test_what_is_no_learner_is_refused(data, given):
    with pytest.raises(ParameterError, match="learner"):
        fitted(given, data[0], data[2])


def test_every_named_learner_is_swept():
    assert set(LEARNERS) <= set(GIVEN)
