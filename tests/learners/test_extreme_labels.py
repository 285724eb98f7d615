"""Labels near the ends of what floating point holds work in every learner, or are refused by name."""

import warnings
from functools import cache, partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import CandidateError, DivergenceError, TargetScaleError
from plr.learners import LEARNERS, MLP, Boosting, Committee, Density, GaussianProcess, Linear, Module, Refit
from plr.weighting import Posterior

pytestmark = pytest.mark.usefixtures("small_forests")
ROWS = 60
QUICK = {
    "boosting": lambda: Boosting(trees=10),
    "committee": lambda: Committee(effort="low", cv=2),
    "density": lambda: Density(models="trees"),
    "gaussian_process": lambda: GaussianProcess(chains=1, rounds=2),
    "mlp": lambda: MLP(hidden=(8,), epochs=5),
    "wrapped": lambda: Refit(Ridge(), max_rounds=3),
    "module": lambda: Module(_net, epochs=3),
}
EVERY = sorted({*LEARNERS, *QUICK})


def _net():
    torch = pytest.importorskip("torch")
    return torch.nn.Linear(2, 1)


def learner_of(name):
    if name == "module":
        pytest.importorskip("torch")
    return QUICK[name]() if name in QUICK else LEARNERS[name]()


def problem(unit):
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, 2))
    shares = 0.1 + 0.8 * (X[:, 0] - X[:, 0].min()) / np.ptp(X[:, 0])
    values = np.stack([shares, random.permutation(shares)], axis=1) * unit
    return X, CandidateSets(values.ravel(), np.arange(0, 2 * ROWS + 1, 2))


def answers(model, X, S):
    found = model.identify(X, S)
    yield found.probabilities
    yield found.value
    yield model.identify().probabilities
    yield np.array([model.score(X, S), model.score(X, S.values[::2])])


@cache
def usual_fit(name):
    return PartialLabelRegressor(learner_of(name), random_state=0).fit(*problem(1.0))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "unit", [1e-306, pytest.param(1e-160, marks=pytest.mark.slow), pytest.param(1e160, marks=pytest.mark.slow), 1e305]
)
def test_small_and_large_labels_work(name, unit):
    X, S = problem(unit)
    model = PartialLabelRegressor(learner_of(name), random_state=0).fit(X, S)
    usual = usual_fit(name)
    prediction = model.predict(X)
    assert np.isfinite(prediction).all()
    for one, other in zip(answers(model, X, S), answers(usual, *problem(1.0)), strict=True):
        assert np.isfinite(one).all()
        assert one.shape == other.shape
    if name in ("linear", "wrapped"):
        # Without draws or trees, the unit changes nothing but rounding.
        np.testing.assert_allclose(prediction / unit, usual.predict(X), rtol=1e-6)
        np.testing.assert_allclose(model.score(X, S.values[::2]), usual.score(X, problem(1.0)[1].values[::2]))
        assert np.isfinite(model.predict_interval(X)).all()


SMALLEST = 5e-324
REFUSED = {
    "smallest": (lambda row: [0.0, SMALLEST * (row % 2)], r"from 0 in row 0 to 4.94066e-324 in row 1; .* Multiply"),
    "subnormal": (lambda row: [1e-310 * row, 1e-310], "no digits left for such small differences"),
    "span": (lambda row: [-1.7e308, 1.7e308] if row == 7 else [float(row)], r"1.7e\+308 in row 7, a span beyond"),
    "sum": (lambda row: [1.5e308, 1e308 + 1e300 * row], "cannot be added up in float64; divide them all"),
    "sentinel": (lambda row: [1.7e308, 1.0] if row == 7 else [float(row)], r"to 1.7e\+308 in row 7, and 61 of them"),
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_is_refused(name, case):
    make, message = REFUSED[case]
    X = problem(1.0)[0]
    with pytest.raises(TargetScaleError, match=message):
        PartialLabelRegressor(learner_of(name), random_state=0).fit(X, [make(row) for row in range(ROWS)])


@pytest.mark.parametrize("learner", [Linear, partial(MLP, (4,), epochs=2), partial(Boosting, 3)])
@pytest.mark.parametrize("case", ["smallest", "sum"])
def test_raw_labels_are_refused_as_well(learner, case):
    X = problem(1.0)[0]
    sets = [REFUSED[case][0](row) for row in range(ROWS)]
    with pytest.raises(TargetScaleError, match=REFUSED[case][1]):
        PartialLabelRegressor(learner(scale_target=False), random_state=0).fit(X, sets)


def test_equal_labels_may_be_the_smallest_there_is():
    X = problem(1.0)[0]
    S = CandidateSets.from_lists([[SMALLEST, SMALLEST]] * ROWS)
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    np.testing.assert_allclose(model.identify().probabilities, 0.5)
    assert (np.abs(model.predict(X)) < 1e-12).all()


@pytest.mark.parametrize("mixed", [[1e-300, 1e300], [1e300], [-1e300, 0.0]])
def test_mixed_sizes(mixed):
    X, S = problem(1.0)
    sets = [mixed, *list(S)[1:]]
    model = PartialLabelRegressor("linear", Posterior(), random_state=0).fit(X, sets)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.identify().probabilities).all()


def test_new_rows_far_from_those_fitted():
    X, S = problem(1e-3)
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    for ask in (model.identify, model.score):
        with pytest.raises(CandidateError, match=r"1.7e\+308 in row 1 is too far from the labels .* around 0\.000"):
            ask(X[:2], [[0.0], [1.0, 1.7e308]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.score(X[:2], np.array([SMALLEST, 0.0])) == -np.inf


class Constant(RegressorMixin, BaseEstimator):
    """Predicts a given number for rows whose first feature is large, and 0 for others."""

    def __init__(self, value=0.0):
        self.value = value

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.where(np.asarray(X)[:, 0] > 10, self.value, 0.0)


@pytest.mark.parametrize("value", [1e155, 1e300, -1e300])
def test_candidates_of_absurd_predictions_have_their_priors(value):
    X, S = problem(1.0)
    X[5, 0] = 100.0
    model = PartialLabelRegressor(Refit(Constant(value), max_rounds=1), random_state=0).fit(X, S)
    for found in (model.identify(), model.identify(X, S)):
        assert_allclose(found.probabilities[10:12], 0.5)
        assert np.isfinite(found.probabilities).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_predictions_that_are_no_numbers_are_refused(value):
    X, S = problem(1.0)
    model = PartialLabelRegressor(Refit(Constant(value), max_rounds=1), random_state=0).fit(X, S)
    X[5, 0] = 100.0
    with pytest.raises(DivergenceError, match=r"prediction for row 5 is (nan|inf)") as error:
        model.identify(X, S)
    assert error.value.row == 5


@pytest.mark.parametrize("unit", [1e-250, 1e250])
def test_noise_of_rows_whose_squares_overflow(unit):
    X, S = problem(1.0)
    plain, scaled = (
        PartialLabelRegressor(Refit(Ridge(1e-6)), Posterior(scale="row"), random_state=0).fit(
            X, CandidateSets(S.values * factor, S.offsets)
        )
        for factor in (1.0, unit)
    )
    assert_allclose(scaled.model_.predict_scale(X), plain.model_.predict_scale(X), rtol=1e-4)
    assert_allclose(scaled.identify().probabilities, plain.identify().probabilities, rtol=1e-4, atol=1e-6)
