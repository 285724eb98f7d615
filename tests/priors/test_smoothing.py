"""The smoother: predictions without each row's fold, by weights, in little memory."""

import numpy as np
import pytest

from plr.preprocessing.scaling import Affine
from plr.priors import smoothing
from plr.priors.smoothing import KernelSmoother

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + RANDOM.normal(0, 0.1, 120)
FOLDS = np.array_split(RANDOM.permutation(120), 4)


def test_predictions_are_good_and_made_without_the_fold():
    predicted = KernelSmoother(X, FOLDS).out_of_fold(Y)
    assert np.mean((predicted - Y) ** 2) < 0.2 * Y.var()
    changed = Y.copy()
    changed[FOLDS[0]] += RANDOM.normal(0, 1e-6, len(FOLDS[0]))
    again = KernelSmoother(X, FOLDS).out_of_fold(changed)
    # The mean that labels are taken from, and nothing else, has seen all of them.
    np.testing.assert_allclose(again[FOLDS[0]], predicted[FOLDS[0]], atol=1e-6)


def test_the_function_for_new_rows_is_smooth_and_can_be_rescaled():
    smoother = KernelSmoother(X, FOLDS)
    function = smoother.fit(Y)
    np.testing.assert_allclose(function.predict(X), Y, atol=0.5)
    target = Affine(np.float64(100.0), np.float64(3.0))
    np.testing.assert_allclose(function.rescaled(target).predict(X), 100.0 + 3.0 * function.predict(X))


def test_rows_without_weight_are_as_good_as_absent():
    weights = np.where(np.arange(120) < 100, 1.0, 0.0)
    folds = [fold[fold < 100] for fold in FOLDS]
    absent = KernelSmoother(X[:100], folds, 3).out_of_fold(Y[:100])
    present = KernelSmoother(X, [np.append(folds[0], np.arange(100, 120)), *folds[1:]], 3, weights).out_of_fold(Y)
    np.testing.assert_allclose(present[:100], absent, atol=1e-9)


def test_blocks_and_a_sample_change_next_to_nothing(monkeypatch):
    whole = KernelSmoother(X, FOLDS)
    expected, function = whole.out_of_fold(Y), whole.fit(Y).predict(X)
    monkeypatch.setattr(smoothing, "_BLOCK", 1000)
    np.testing.assert_allclose(KernelSmoother(X, FOLDS).out_of_fold(Y), expected, atol=1e-9)
    np.testing.assert_allclose(KernelSmoother(X, FOLDS).fit(Y).predict(X), function, atol=1e-9)
    # Width and ridge chosen on half of the rows, with fewer landmarks.
    monkeypatch.setattr(smoothing, "_MOST_ROWS", 60)
    monkeypatch.setattr(smoothing, "_MOST_ENTRIES", 120 * 70)
    assert np.mean((KernelSmoother(X, FOLDS).out_of_fold(Y) - Y) ** 2) < 0.3 * Y.var()


@pytest.mark.parametrize("features", [np.zeros((20, 1)), np.ones((20, 0)), np.full((20, 3), 100.0)])
def test_features_that_say_nothing_give_the_mean(features):
    folds = np.array_split(np.arange(20), 2)
    found = KernelSmoother(features, folds).fit(Y[:20]).predict(features)
    np.testing.assert_allclose(found, Y[:20].mean(), atol=0.1)


def test_one_row():
    smoother = KernelSmoother(np.ones((1, 2)), [])
    np.testing.assert_allclose(smoother.fit(np.array([3.0])).predict(np.zeros((1, 2))), 3.0)


def test_trees_help_where_the_function_jumps():
    rows = np.random.default_rng(1).normal(size=(300, 12))
    labels = np.where(rows[:, 0] > 0.2, 1.0, -1.0)
    smoother = KernelSmoother(rows, np.array_split(np.arange(300), 5))
    smooth, mixed = (
        np.mean((predict(labels) - labels) ** 2) for predict in (smoother.out_of_fold, smoother.out_of_fold_with_trees)
    )
    assert mixed < 0.3 * smooth


@pytest.mark.parametrize("columns", [0, 1])
def test_trees_without_features_that_say_something(columns):
    smoother = KernelSmoother(np.ones((20, columns)), np.array_split(np.arange(20), 2))
    np.testing.assert_allclose(smoother.out_of_fold_with_trees(Y[:20]), smoother.out_of_fold(Y[:20]), atol=0.3)


def test_trees_are_fitted_to_a_sample_of_many_rows(monkeypatch):
    monkeypatch.setattr(smoothing, "_MOST_ROWS_OF_TREES", 60)
    first, second = (KernelSmoother(X, FOLDS, 5).out_of_fold_with_trees(Y) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.mean((first - Y) ** 2) < 0.2 * Y.var()
