"""What explains a model from outside: permutation importance, SHAP values, and the importances of trees."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import Ridge

from plr import CandidateSets, PartialLabelRegressor, load_model, save_model
from plr.errors import NotFittedError
from plr.learners import Committee

ROWS = 120


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "idle": rng.normal(size=ROWS),
            "size": rng.normal(size=ROWS),
            "shop": pd.Categorical(rng.choice(["a", "b", "c"], size=ROWS)),
        }
    )
    y = X["size"] + 2.0 * (X["shop"] == "a")
    return X, y.to_numpy(), np.column_stack([y, rng.uniform(-3, 4, ROWS)])


@pytest.fixture(scope="module")
def boosted(data):
    X, _, S = data
    return PartialLabelRegressor(learner="boosting", start="density", cv=2, random_state=0).fit(X, S)


def test_permutation_importance_with_categories(data, boosted):
    X, y, S = data
    for target in (y, CandidateSets.from_padded(S)):
        found = permutation_importance(boosted, X, target, n_repeats=2, random_state=0).importances_mean
        assert found[0] < min(found[1:])
    effect = partial_dependence(boosted, X, ["shop"], categorical_features=["shop"])["average"][0]
    assert effect[0] > effect[1] + 1


def test_permutation_importance_with_texts_as_categories(data, boosted):
    X, _, S = data
    texts = X.assign(shop=X["shop"].astype(str), size=X["size"].where(X["size"] < 2))
    model = PartialLabelRegressor(learner="boosting", start="density", cv=2, random_state=0).fit(texts, S)
    found = permutation_importance(model, texts, CandidateSets.from_padded(S), n_repeats=2, random_state=0)
    assert found.importances_mean[0] < min(found.importances_mean[1:])


@pytest.mark.parametrize("learner", ["boosting", "linear", "gaussian_process", "mlp"])
def test_shap_takes_the_model_itself(data, learner):
    shap = pytest.importorskip("shap")
    X, _, S = data
    model = PartialLabelRegressor(learner, random_state=0).fit(X, S)
    numbers = model.to_numbers(X)
    assert numbers.columns.tolist() == X.columns.tolist()
    for algorithm in ("auto", "permutation"):
        found = shap.Explainer(model, numbers, algorithm=algorithm)(numbers[:3])
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:3]), atol=1e-6)
        assert found.feature_names == ["idle", "size", "shop"]
        assert np.abs(found.values[:, 0]).mean() < np.abs(found.values[:, 2]).mean()


def test_shap_takes_frames_and_arrays_of_numbers_as_they_are(data):
    shap = pytest.importorskip("shap")
    X, _, S = data
    for rows in (X[["idle", "size"]], X[["idle", "size"]].to_numpy()):
        model = PartialLabelRegressor(learner="linear").fit(rows, S)
        found = shap.Explainer(model, rows)(rows[:2])
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(rows[:2]), atol=1e-6)


def test_a_call_takes_categories_and_their_codes(data, boosted):
    X, _, _ = data
    expected = boosted.predict(X)
    numbers = boosted.to_numbers(X)
    for rows in (X, X.assign(shop=X["shop"].astype(str)), numbers, numbers.to_numpy()):
        np.testing.assert_array_equal(boosted(rows), expected)
    # Numbers may be categories themselves: then as a frame of categories has them.
    sizes = pd.DataFrame({"size": pd.Categorical([30, 20, 30, 10] * 10), "x": np.arange(40.0)})
    model = PartialLabelRegressor("boosting", random_state=0).fit(sizes, np.arange(40.0) % 4)
    np.testing.assert_array_equal(model.to_numbers(sizes)["size"][:4], [2.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(model(sizes), model.predict(sizes))
    with pytest.raises(NotFittedError):
        PartialLabelRegressor()(X)
    with pytest.raises(ValueError, match="feature names should match"):
        boosted(numbers[["size", "idle", "shop"]])
    with pytest.raises(ValueError, match="2 features"):
        boosted(numbers.to_numpy()[:, :2])


@pytest.mark.parametrize("learner", ["boosting", Committee(effort="low"), RandomForestRegressor(20)], ids=str)
def test_importances_where_there_are_trees(data, learner):
    X, _, S = data
    if isinstance(learner, RandomForestRegressor):
        X = X.assign(shop=X["shop"].cat.codes)
    model = PartialLabelRegressor(learner, start="density", cv=2, random_state=0).fit(X, S)
    found = model.feature_importances_
    assert found.shape == (3,)
    assert found.sum() == pytest.approx(1.0)
    assert found[0] < min(found[1:])


def test_importances_outlive_the_model_file(data, boosted, tmp_path):
    save_model(boosted, tmp_path / "m.plr")
    np.testing.assert_allclose(load_model(tmp_path / "m.plr").feature_importances_, boosted.feature_importances_)


def test_no_importances_without_trees(data):
    X, _, S = data
    assert not hasattr(PartialLabelRegressor(), "feature_importances_")
    for learner in ("linear", Ridge()):
        model = PartialLabelRegressor(learner).fit(X[["size"]], S)
        assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match="permutation_importance"):
        _ = model.feature_importances_
