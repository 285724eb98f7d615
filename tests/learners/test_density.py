"""The density learner: whole densities, what they predict, and a score that compares with others'."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from plr import PartialLabelRegressor, make_candidates
from plr.errors import LengthError, ParameterError
from plr.learners import Density

pytestmark = pytest.mark.usefixtures("small_forests")
FAST = "trees"


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(400, 2))
    y = 1000 + 50 * X[:, 0] + 2 * random.normal(size=400)
    return X, y, make_candidates(y, 2, set_size="upto", random_state=0)


@pytest.fixture(scope="module")
def model(data):
    X, _, S = data
    return PartialLabelRegressor(Density(models=FAST), random_state=0).fit(X[:300], S[:300])


@pytest.mark.parametrize("point", ["mean", "median", "mode"])
def test_predicts(data, point):
    X, y, S = data
    model = PartialLabelRegressor(Density(point, models=FAST), random_state=0).fit(X[:300], S[:300])
    assert model.score(X[300:], y[300:]) > 0.85
    assert model.model_.out_of_fold.shape == (300,)
    assert 1 - np.mean((model.model_.out_of_fold - y[:300]) ** 2) / np.var(y[:300]) > 0.85


@pytest.mark.slow
def test_the_default_beats_trees_alone(data):
    X, y, S = data
    both = PartialLabelRegressor("density", random_state=0).fit(X[:300], S[:300])
    trees = PartialLabelRegressor(Density(models=FAST), random_state=0).fit(X[:300], S[:300])
    assert both.model_.log_likelihood > trees.model_.log_likelihood
    assert both.score(X[300:], y[300:]) > 0.95


def test_densities_have_area_one(data, model):
    X, _, S = data
    low, high = S[:300].values.min(), S[:300].values.max()
    grid = np.linspace(low, high, 4001)
    inside = model.model_.predict_density(X[300:320], grid).sum(axis=1) * (grid[1] - grid[0])
    # What is left lies outside of all candidates seen.
    assert_allclose(inside, 1 - 1 / 301, rtol=2e-3)
    far = high + (high - low) * np.geomspace(1e-9, 1e9, 200_000)
    outside = np.trapezoid(model.model_.predict_density(X[300:301], far)[0], far)
    assert_allclose(outside, 0.5 / 301, rtol=1e-2)


def test_densities_for_each_row(data, model):
    X = data[0][300:303]
    labels = np.array([[980.0, 1000.0], [990.0, 1e6], [-1e300, 1010.0]])
    found = model.model_.predict_density(X, labels)
    assert found.shape == (3, 2)
    assert (found > 0).all()
    for row in range(3):
        assert_array_equal(found[row], model.model_.predict_density(X[row : row + 1], labels[row])[0])
    with pytest.raises(LengthError, match="one for each row"):
        model.model_.predict_density(X, labels[:2])


def test_quantiles_cover(data, model):
    X, y, _ = data
    low, middle, high = model.model_.predict_quantiles(X[300:], [0.05, 0.5, 0.95]).T
    assert ((low <= middle) & (middle <= high)).all()
    assert np.mean((low <= y[300:]) & (y[300:] <= high)) > 0.85
    with pytest.raises(ParameterError, match="levels"):
        model.model_.predict_quantiles(X, [5, 95])


def test_the_score_is_the_one_that_other_models_have(data):
    X, _, S = data
    train, rows = slice(0, 300), slice(300, 400)
    held = S[rows]
    span = S[train].values.max() - S[train].values.min()

    def score(density):
        return np.log(np.add.reduceat(held.prior_or_uniform * density * span, held.offsets[:-1])).mean()

    line = PartialLabelRegressor("linear", "posterior").fit(X[train], S[train])
    residual = held.values - line.predict(X[rows])[held.row_index]
    wider = line.noise_.widened(line.predict(X[rows]), held)
    noise = stats.t(line.weighting_.degrees, scale=wider.scale)
    assert line.score(X[rows], held) == pytest.approx(score(noise.pdf(residual)), abs=1e-6)

    density = PartialLabelRegressor(Density(models=FAST), random_state=0).fit(X[train], S[train]).model_
    flat = np.concatenate(
        [
            density.predict_density(X[rows][row : row + 1], held.values[held.offsets[row] : held.offsets[row + 1]])[0]
            for row in range(100)
        ]
    )
    assert density.score(X[rows], held) == pytest.approx(score(flat), abs=1e-6)
    # Out of fold on the training rows and on new ones it is about the same; a straight line knows this data better.
    assert density.log_likelihood == pytest.approx(density.score(X[rows], held), abs=0.25)
    assert density.log_likelihood < line.score(X[rows], held)


def test_the_score_does_not_depend_on_units(data):
    X, _, S = data
    scores = [
        PartialLabelRegressor(Density(models=FAST), random_state=0).fit(X, factor * S.to_padded()).model_.log_likelihood
        for factor in (1.0, 1e-6)
    ]
    assert_allclose(*scores, rtol=1e-6)


def test_two_branches_are_seen():
    # The mean of two branches is on neither; the density has both.
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(500, 1))
    y = np.where(random.uniform(size=500) < 0.5, 3.0, -3.0) + X[:, 0]
    fitted = PartialLabelRegressor(Density(models=FAST), random_state=0).fit(X, y).model_
    at = fitted.predict_density(np.zeros((1, 1)), [-3.0, 0.0, 3.0])[0]
    assert min(at[0], at[2]) > 10 * at[1]
    line = PartialLabelRegressor("linear", "posterior").fit(X, y)
    assert fitted.log_likelihood > line.score(X, y[:, None].tolist()) + 0.5


def test_constant_labels_and_lone_rows():
    for X, S in [(np.eye(4), [[3.0, 3.0]] * 4), (np.ones((1, 2)), [[7.0]])]:
        model = PartialLabelRegressor(Density(models=FAST), random_state=0).fit(X, S)
        assert_allclose(model.predict(X), S[0][0])
        assert np.isfinite(model.model_.predict_density(X, [1.0, 3.0, 7.0])).all()
    one = PartialLabelRegressor(Density(models=FAST), random_state=0).fit([[1.0]], [[2.0, 4.0]])
    assert 2.0 < one.predict([[1.0]])[0] < 4.0
    assert one.model_.out_of_fold is None


def test_it_pickles_and_tells_how_far_it_is(data):
    X, _, S = data
    told = []
    model = PartialLabelRegressor(Density(models=(FAST, "neighbours")), random_state=0)
    model.fit(X, S, callback=lambda *progress: told.append(progress))
    assert [done for done, _, _ in told] == [1, 2, 3, 4]
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))


def test_folds_of_the_regressor_are_its_folds():
    model = PartialLabelRegressor("density", cv=3)
    assert model._resolve()[0].cv == 3
    assert PartialLabelRegressor(Density(cv=4), cv=3)._resolve()[0].cv == 4


@pytest.mark.parametrize(
    ("changed", "message"), [({"point": "middle"}, "point"), ({"models": "oak"}, "models"), ({"cv": 1}, "cv")]
)
def test_bad_parameters(data, changed, message):
    X, _, S = data
    with pytest.raises(ParameterError, match=message):
        PartialLabelRegressor(Density(**changed)).fit(X, S)
    with pytest.raises(ParameterError, match="validation rows"):
        PartialLabelRegressor(Density()).fit(X, S, validation=(X, S))
