"""Categories and gaps as numbers: what a network or a linear model sees of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from plr import PartialLabelRegressor
from plr.learners import MLP, Linear
from plr.preprocessing.features import MOST_CATEGORIES, learn_encoding
from plr.preprocessing.scaling import learn_features

NAN = np.nan


def table(rows: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(0)
    kind = random.choice(["a", "b", "c"], rows)
    size = random.normal(size=rows)
    y = np.select([kind == "a", kind == "b"], [0.0, 5.0], 20.0) + size
    return pd.DataFrame({"kind": kind, "size": size}), y


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("weight", [None, np.arange(50.0)], ids=["plain", "weighted"])
def test_numbers_without_gaps_are_scaled_as_ever(scale, weight):
    X = np.random.default_rng(0).normal(3.0, 7.0, size=(50, 4))
    expected = learn_features(X, weight, scale).apply(X)
    encoding = learn_encoding(X, (), weight, scale)
    assert_array_equal(encoding.apply(X), expected)
    assert encoding.expand(X) is X


def test_a_gap_is_the_mean_and_marked():
    X = np.array([[1.0, 5.0], [NAN, 6.0], [3.0, 7.0], [NAN, 6.0]])
    encoding = learn_encoding(X, scale=False)
    assert_array_equal(encoding.apply(X), [[1, 5, 0], [2, 6, 1], [3, 7, 0], [2, 6, 1]])
    # A gap where training had none is filled alone.
    assert_array_equal(encoding.apply(np.array([[1.0, NAN]])), [[1, 6, 0]])


def test_gaps_do_not_widen_what_is_there():
    random = np.random.default_rng(0)
    column = random.normal(size=(1000, 1))
    holes = np.where(np.arange(1000)[:, None] % 10 == 0, column, NAN)
    there = learn_encoding(holes).apply(holes)[::10, 0]
    assert_allclose([there.mean(), there.std()], [0, 1], atol=1e-12)


def test_categories_get_a_column_each():
    X = np.array([[0.0], [2.0], [2.0], [NAN]])
    encoding = learn_encoding(X, (0,), scale=False)
    # Code 1 was not seen, and neither missing nor new codes belong to a category.
    assert_array_equal(
        encoding.apply(np.array([[0.0], [1.0], [2.0], [NAN], [7.0]])), [[1, 0], [0, 0], [0, 1], [0, 0], [0, 0]]
    )


def test_rare_categories_and_gaps_stay_small():
    codes = np.zeros((10_000, 2))
    codes[17] = 1.0, NAN
    scaled = learn_encoding(codes, (0,)).apply(codes)
    assert np.abs(scaled).max() <= 2.0
    # One of half the rows is scaled as a number would be.
    half = np.arange(100.0)[:, None] % 2
    assert_allclose(np.abs(learn_encoding(half, (0,)).apply(half)), 1.0)


def test_of_many_categories_the_frequent_have_columns():
    codes = np.repeat(np.arange(300.0), np.where(np.arange(300) % 3 == 0, 2, 1))[:, None]
    kept = learn_encoding(codes, (0,)).categories[0]
    assert_array_equal(kept, np.arange(0.0, 300.0, 3))
    assert len(kept) == MOST_CATEGORIES


def test_rows_without_weight_teach_nothing():
    X = np.array([[1.0, 0.0], [NAN, 0.0], [3.0, 0.0], [1e6, 1.0]])
    weight = np.array([1.0, 1.0, 1.0, 0.0])
    encoding = learn_encoding(X, (1,), weight, scale=False)
    assert encoding.fill[0] == 2.0
    assert_array_equal(encoding.categories[1], [0.0])


@pytest.mark.parametrize("learner", [Linear(), MLP(hidden=(16,), epochs=150)], ids=["linear", "mlp"])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_learners_learn_from_categories(learner, kind):
    frame, y = table()
    model = PartialLabelRegressor(learner, random_state=0).fit(kind(frame), y)
    assert model.score(kind(frame), y) > 0.98
    unknown = kind(pd.DataFrame({"kind": ["never seen", None], "size": [0.0, NAN]}))
    assert np.isfinite(model.predict(unknown)).all()


@pytest.mark.parametrize("learner", [Linear(), MLP(hidden=(16,), epochs=150)], ids=["linear", "mlp"])
def test_learners_learn_what_a_gap_means(learner):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    X[random.uniform(size=300) < 0.3, 0] = NAN
    y = np.where(np.isnan(X[:, 0]), 10.0, X[:, 0]) + X[:, 1]
    assert PartialLabelRegressor(learner, random_state=0).fit(X, y).score(X, y) > 0.98


def test_validation_rows_are_encoded_too():
    frame, y = table()
    model = PartialLabelRegressor(MLP(hidden=(8,), epochs=400), random_state=0)
    model.fit(frame[:150], y[:150], validation=(frame[150:], y[150:]))
    assert model.score(frame, y) > 0.9
