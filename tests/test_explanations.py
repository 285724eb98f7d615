"""What explains a model from outside: permutation importance, SHAP values, and the importances of trees."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import Ridge

from plr import CandidateSets, PartialLabelRegressor, load_model, save_model
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


def test_shap_values_add_up_to_predictions(data, boosted):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    X, _, _ = data
    shops = X["shop"].cat.categories

    def predict(coded):
        shop = pd.Categorical.from_codes(coded["shop"].astype(int), shops)
        return boosted.predict(coded.assign(shop=shop))

    coded = X.assign(shop=X["shop"].cat.codes)
    found = shap.Explainer(predict, coded)(coded[:4])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, boosted.predict(X[:4]), atol=1e-6)
    assert np.abs(found.values[:, 0]).mean() < np.abs(found.values[:, 2]).mean()
    numbers = PartialLabelRegressor(learner="linear").fit(X[["size"]], data[2])
    assert shap.Explainer(numbers.predict, X[["size"]])(X[["size"]][:2]).values.shape == (2, 1)


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
