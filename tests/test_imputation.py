"""Multiple imputation: what draws are, what they keep, and that they vary as the posterior does."""

import numpy as np
import pytest
from scipy import stats

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import NotFittedError, ParameterError
from plr.folds import make_folds
from plr.imputation import Imputer, align_folds, correction_columns
from plr.weighting import Posterior
from support.refusals import refused

ROWS = 150


def line(false_labels=2, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 2))
    y = X[:, 0] + noise * rng.normal(size=ROWS)
    return X, y, np.column_stack([y, rng.uniform(-3, 3, size=(ROWS, false_labels))])


@pytest.fixture(scope="module")
def fitted():
    X, _, S = line()
    return PartialLabelRegressor(learner="linear", random_state=0).fit(X, S)


def test_draws_are_candidates_and_repeat_with_the_seed(fitted):
    labels = fitted.impute(6, random_state=1)
    assert labels.shape == (6, ROWS)
    sets = fitted.identify().sets
    assert all(np.isin(draw, row).all() for draw, row in zip(labels.T, sets, strict=True))
    np.testing.assert_array_equal(labels, fitted.impute(6, random_state=1))
    assert (labels != fitted.impute(6, random_state=2)).any()


def test_candidates_are_drawn_about_as_often_as_they_are_probable(fitted):
    found, labels = fitted.identify(), fitted.impute(200, random_state=0)
    chosen = (labels == found.value).mean(axis=0)
    assert np.abs(chosen - found.probability).mean() < 0.05
    assert chosen.mean() == pytest.approx(found.probability.mean(), abs=0.03)


@pytest.mark.parametrize("noise", ["student", "gaussian", "laplace"])
def test_slopes_vary_as_the_posterior_does(noise):
    """On plain labels but for one, the exact posterior of that one label is known."""
    X, y, _ = line(noise=0.3)
    S = CandidateSets.from_lists([[0.5, -0.4], *([value] for value in y[1:])])
    X[0] = 0.0
    model = PartialLabelRegressor(learner="linear", weighting=Posterior(noise=noise), random_state=0).fit(X, S)
    share = (model.impute(400, random_state=0)[:, 0] == 0.5).mean()
    expected = stats.norm.pdf(0.5, 0, 0.3) / (stats.norm.pdf(0.5, 0, 0.3) + stats.norm.pdf(0.4, 0, 0.3))
    assert share == pytest.approx(expected, abs=0.12)


def test_known_labels_stay_and_plain_labels_do_not_vary():
    X, y, S = line()
    known = np.full(ROWS, np.nan)
    known[:20] = y[:20]
    known[20] = 17.0
    labels = PartialLabelRegressor(learner="linear", random_state=0).fit(X, S, known=known).impute(5, random_state=0)
    np.testing.assert_array_equal(labels[:, :21], np.tile(known[:21], (5, 1)))
    plain = PartialLabelRegressor(learner="linear").fit(X, y).impute(3, random_state=0)
    np.testing.assert_array_equal(plain, np.tile(y, (3, 1)))


def test_truths_that_are_missing_are_drawn_around_the_prediction():
    X, y, S = line()
    S[:30, 0] = np.where(y[:30] > 0, -1.0, 1.0) * np.random.default_rng(1).uniform(1, 3, size=30)
    S[:30, 1:] = S[:30, :1] * [0.5, 0.8]
    model = PartialLabelRegressor(learner="linear", weighting=Posterior(missing_truth=0.2), random_state=0).fit(X, S)
    labels = model.impute(40, random_state=0)
    absent = ~(labels[:, :, None] == S[None]).any(axis=2)
    assert absent[:, :30].mean() > 0.5
    assert absent[:, 30:].mean() < 0.15
    away = labels[:, :30][absent[:, :30]] - np.broadcast_to(model.predict(X)[:30], (40, 30))[absent[:, :30]]
    assert np.median(np.abs(away)) == pytest.approx(0.3 * stats.norm.ppf(0.75), rel=0.5)


def test_pooled_intervals_are_wider_than_those_of_the_best_match(fitted):
    X, *_ = line()

    def slope(labels):
        return np.polyfit(X[:, 0], labels, 1)[0]

    between = np.std([slope(draw) for draw in fitted.impute(40, random_state=0)], ddof=1)
    assert 0.005 < between < 0.1


def test_any_features_will_do():
    import pandas as pd

    X, _, S = line()
    frame = pd.DataFrame({"x": X[:, 0], "shop": np.where(X[:, 1] > 0, "a", "b")})
    frame.loc[3, "x"] = np.nan
    model = PartialLabelRegressor(learner="boosting", start="density", cv=2, random_state=0).fit(frame, S)
    assert model.impute(2, random_state=0).shape == (2, ROWS)


def test_linear_models_of_folds_are_taken_for_one(fitted):
    X, _, _ = line()
    fitted.identify()
    folds = [test for _, test in make_folds(fitted._training, fitted.cv)]
    columns = correction_columns(X, ROWS, np.ones(ROWS))
    apart = fitted._out_of_fold - fitted.predict(X)
    assert np.abs(apart).max() > 0.001
    found = align_folds(fitted._out_of_fold, fitted.predict(X), columns, folds)
    np.testing.assert_allclose(found, fitted.predict(X), atol=1e-9)
    # What is not linear in the features stays out of fold, and so do folds of few rows.
    wave = np.sin(9 * X[:, 0])
    np.testing.assert_allclose(np.std(align_folds(wave, 0 * wave, columns, folds)), np.std(wave), rtol=0.1)
    one_each = list(np.arange(ROWS)[:, None])
    np.testing.assert_array_equal(align_folds(wave, 0 * wave, columns, one_each), wave)


def test_an_estimated_density_of_false_labels_is_drawn(monkeypatch):
    X, y, _ = line()
    false = 2 + 0.3 * np.random.default_rng(1).normal(size=ROWS)
    S = CandidateSets.from_padded(np.column_stack([y, false]))
    given, imputers = [], []
    plain = Imputer._false_label_ratio

    def watched(self, taken):
        given.append(taken)
        imputers.append(self)
        return plain(self, taken)

    monkeypatch.setattr(Imputer, "_false_label_ratio", watched)
    known = np.where(np.arange(ROWS) < 30, y, np.nan)
    model = PartialLabelRegressor("linear", Posterior(false_labels="estimated"), random_state=0).fit(X, S, known=known)
    model.impute(5, random_state=0)
    assert len(given) > 5
    assert any((taken != given[1]).any() for taken in given[2:])
    for taken in given[1:]:
        assert set(taken) == {0.0, 1.0}
        assert (taken.reshape(ROWS, 2).sum(axis=1) == 1.0).all()
        assert (taken[:60:2] == 1.0).all()
    # Where candidates are not drawn, false labels abound, and a candidate there proves less.
    first, second = (plain(imputers[0], np.tile(taken, ROWS)) for taken in ([1.0, 0.0], [0.0, 1.0]))
    ratio = first - second
    assert np.median(ratio[1::2]) < -0.5 < 0.5 < np.median(ratio[::2])


def test_columns_of_the_correction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)) * [1.0, 5.0, 0.0]
    columns = correction_columns(X, 100, np.ones(100))
    assert columns.shape == (100, 3)
    np.testing.assert_allclose(columns.T @ columns, 100 * np.eye(3), atol=1e-8)
    assert correction_columns(rng.normal(size=(100, 40)), 100, np.ones(100)).shape == (100, 6)
    assert correction_columns(None, 4, np.ones(4)).shape == (4, 1)


def test_what_it_refuses(fitted):
    import pickle

    with refused(ParameterError, {"parameter": "n"}):
        fitted.impute(0)
    with pytest.raises(NotFittedError, match="impute"):
        pickle.loads(pickle.dumps(fitted)).impute(1)
    with pytest.raises(NotFittedError):
        PartialLabelRegressor().impute(1)
