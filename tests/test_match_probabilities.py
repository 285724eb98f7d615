"""Candidate sets with match probabilities: what they mean for training and for `identify`."""

import numpy as np
import pytest

from plr import CandidateSets, PartialLabelRegressor, errors

ROWS, LONE = 240, 60


@pytest.fixture(scope="module")
def data():
    """Two candidates in most rows, with probabilities about right; in the last ones a false one, of 0.02."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(ROWS, 1))
    truth = 10 * X[:, 0]
    pairs = np.column_stack([truth, random.uniform(0, 10, ROWS)]) + random.normal(scale=0.2, size=(ROWS, 2))
    pairs[-LONE:, 0] = np.nan
    probability = np.tile([0.9, 0.3], (ROWS, 1))
    probability[-LONE:] = 0.02
    return X, truth, pairs, probability


def regressor(**options):
    return PartialLabelRegressor("linear", random_state=0, **options)


@pytest.fixture(scope="module")
def fitted(data):
    X, _, pairs, probability = data
    S = CandidateSets.from_padded(pairs, probability, prior_is="probability")
    return regressor().fit(X, S), S


def test_rows_count_by_how_probable_their_truth_is(data, fitted):
    X, _, pairs, probability = data
    model, S = fitted
    shares = CandidateSets.from_padded(pairs, np.where(probability > 0.5, 9.0, 3 / 7))
    np.testing.assert_allclose(shares.prior, S.prior)
    same = regressor().fit(X, CandidateSets(S.values, S.offsets, S.prior), sample_weight=1 - S.missing)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    twice = regressor().fit(X, S, sample_weight=np.full(ROWS, 2.0))
    np.testing.assert_allclose(model.predict(X), twice.predict(X), rtol=1e-6)


def test_calibration_counts_rows_once(data, fitted):
    X = data[0]
    model, S = fitted
    same = regressor().fit(X, CandidateSets(S.values, S.offsets, S.prior), sample_weight=1 - S.missing)
    # The sets say of each row what the weights say here; only likelihoods of missing truths tell the two apart.
    np.testing.assert_allclose(model.predict_interval(X), same.predict_interval(X), atol=0.02)


def test_a_lone_candidate_of_low_probability_is_probably_missing(data, fitted):
    X = data[0]
    model, S = fitted
    for found in (model.identify(), model.identify(X, S)):
        lone, others = found.missing[-LONE:], found.missing[:-LONE]
        assert lone.mean() > 0.9
        assert np.median(lone) > 0.98
        assert others.mean() < 0.05
        np.testing.assert_allclose(np.add.reduceat(found.probabilities, S.offsets[:-1]) + found.missing, 1.0)
    # Even one that agrees with the model: agreement counts, but not that much.
    agrees = CandidateSets.from_lists([[5.0], [9.0]], [[0.02], [0.02]], prior_is="probability")
    found = model.identify([[0.5], [0.1]], agrees)
    assert found.missing[0] > 0.5
    assert found.missing[0] < 0.98 < found.missing[1]


def test_without_match_probabilities_nothing_is_missing(data, fitted):
    X, _, pairs, _ = data
    assert not regressor().fit(X, pairs).identify(X, pairs).missing.any()
    assert fitted[0].score(X, fitted[1]) > fitted[0].score(X, pairs)


def test_a_row_that_is_missing_for_sure_has_no_weight(data):
    X, _, pairs, probability = data
    wild, none = pairs.copy(), probability.copy()
    wild[-LONE:, 1], none[-LONE:] = 1e6, 0.0
    S = CandidateSets.from_padded(wild, none, prior_is="probability")
    model = regressor().fit(X, S)
    assert np.abs(model.predict([[0.5]]) - 5.0) < 0.5
    np.testing.assert_array_equal(model.identify().missing[-LONE:], 1.0)
    with pytest.raises(errors.PriorError, match="missing from every row"):
        regressor().fit(X[-LONE:], S[-LONE:])


def test_known_labels_overrule_them(data):
    X, _, pairs, probability = data
    S = CandidateSets.from_padded(pairs, probability, prior_is="probability")
    known = np.full(ROWS, np.nan)
    known[-1], known[-2] = pairs[-1, 1], -3.0
    found = regressor().fit(X, S, known=known).identify()
    assert found.missing[-1] == 0.0
    assert found.missing[-2] == 1.0
    assert found.missing[-3] > 0.5


@pytest.fixture(scope="module")
def near():
    random = np.random.default_rng(1)
    X = random.uniform(size=(200, 2))
    truth = 10 * X[:, 0] + random.normal(scale=0.5, size=200)
    values = np.column_stack([truth, truth + random.normal(scale=0.5, size=200)])
    values[-50:, 0] = np.nan
    probability = np.tile([0.8, 0.2], (200, 1))
    probability[-50:] = 0.02
    return X, truth, CandidateSets.from_padded(values, probability, prior_is="probability")


class TestFalseLabelsThatDependOnTheFeatures:
    """There, predictions say little, and the probabilities are taken as they are, or as checked rows correct them."""

    def test_without_checked_rows(self, near):
        X, _, S = near
        model = regressor(prior="learned").fit(X, S)
        assert model.prior_.agreement is not None
        np.testing.assert_allclose(model.identify().missing, S.missing, atol=1e-6)
        np.testing.assert_allclose(model.identify(X, S).missing, S.missing, atol=1e-6)
        with pytest.raises(errors.CandidateError, match="give prior and prior_is"):
            model.identify(X, CandidateSets(S.values, S.offsets, S.prior))

    def test_checked_rows_correct_them(self, near):
        X, _, S = near
        known = np.full(200, np.nan)
        # Of twenty lone candidates, ten are true, though each has a probability of 0.02.
        known[-20:-10] = S.values[-20:-10]
        known[-10:] = S.values[-10:] + 3.0
        known[:20] = S.to_padded()[:20, 0]
        model = regressor(prior="learned").fit(X, S, known=known)
        missing = model.identify().missing
        assert 0.3 < missing[-50:-20].mean() < 0.9
        assert missing[20:-50].mean() < 0.1
        np.testing.assert_array_equal(missing[-10:], 1.0)
        np.testing.assert_array_equal(missing[-20:-10], 0.0)
        np.testing.assert_allclose(
            model.identify(X[-50:-20], S[-50:-20]).missing.mean(), missing[-50:-20].mean(), atol=0.1
        )
