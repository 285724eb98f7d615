"""Intervals: calibrated on candidate sets alone, and honest about it."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from plr import CandidateSets, PartialLabelRegressor, errors, make_candidates
from plr.intervals import Calibration, fit_distances, learn_calibration
from plr.learners import GaussianProcess, Linear, Refit
from plr.training import Recipe
from plr.weighting import Posterior


def made(rows, false_labels, seed=0, noise=1.0, heavy=False):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    scatter = random.standard_t(3, rows) if heavy else random.normal(size=rows)
    y = 5.0 + X @ [3.0, -2.0, 1.0] + noise * scatter
    return X, y, make_candidates(y, false_labels, random_state=seed) if false_labels else y


def share_inside(intervals, y):
    return np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1]))


@pytest.fixture(scope="module")
def fitted():
    X, y, S = made(400, 8)
    return X, y, S, PartialLabelRegressor("linear", random_state=0).fit(X, S)


@pytest.mark.parametrize(("false_labels", "heavy"), [(4, False), (16, True)])
def test_sharp_intervals_hold_the_truth_as_often_as_asked(false_labels, heavy):
    found = []
    for seed in range(3):
        X, _, S = made(400, false_labels, seed, heavy=heavy)
        X_new, y_new, _ = made(4000, 0, seed + 100, heavy=heavy)
        model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
        found.append([share_inside(model.predict_interval(X_new, level), y_new) for level in (0.5, 0.8, 0.9, 0.95)])
    beyond = np.mean(found, axis=0) - [0.5, 0.8, 0.9, 0.95]
    # Caution makes intervals a little too wide, the more so the more false labels there are.
    assert beyond.min() > -0.02
    assert beyond.max() < 0.06


def test_guaranteed_intervals_are_wider_and_hold_the_truth_more_often(fitted):
    X, y, _, model = fitted
    sharp, safe = (model.predict_interval(X, 0.8, method) for method in ("sharp", "guaranteed"))
    assert (safe[:, 1] > sharp[:, 1]).all()
    assert share_inside(safe, y) > max(0.8, share_inside(sharp, y))


def test_intervals_grow_with_coverage_around_the_prediction(fitted):
    X, _, _, model = fitted
    prediction = model.predict(X)
    for method in ("sharp", "guaranteed"):
        ends = np.stack([model.predict_interval(X, level, method) for level in np.linspace(0.01, 0.99, 60)])
        assert (np.diff(ends[:, :, 1], axis=0) >= 0).all()
        assert (ends[:, :, 0] <= prediction).all()
        np.testing.assert_allclose(ends.mean(axis=2), np.broadcast_to(prediction, ends.shape[:2]))


def test_one_candidate_per_row_is_ordinary_cross_conformal_prediction():
    X, y, _ = made(60, 0)
    cv = KFold(6)
    model = PartialLabelRegressor(Refit(LinearRegression()), cv=cv).fit(X, y)
    errors_of_rows = np.sort(np.abs(y - cross_val_predict(LinearRegression(), X, y, cv=cv)))
    for coverage in (0.5, 0.9, 0.95):
        width = errors_of_rows[int(np.ceil(coverage * 61)) - 1]
        for method in ("sharp", "guaranteed"):
            intervals = model.predict_interval(X, coverage, method)
            np.testing.assert_allclose(intervals[:, 1] - model.predict(X), width, rtol=1e-9)


def test_the_unit_of_the_labels_does_not_matter():
    X, _, S = made(150, 4)
    scaled = CandidateSets(1e-6 * S.values + 3.0, S.offsets)
    plain, small = (PartialLabelRegressor("linear", random_state=0).fit(X, sets) for sets in (S, scaled))
    np.testing.assert_allclose(1e-6 * plain.predict_interval(X) + 3.0, small.predict_interval(X), rtol=1e-6)


class TowardsTheMiddle:
    """A start whose weights depend on the candidates of all rows it is shown."""

    def weights(self, task, cv):
        S = task.S
        nearness = np.exp(-np.abs(S.values - np.median(S.values)))
        return nearness / np.add.reduceat(nearness, S.offsets[:-1])[S.row_index]


def test_a_row_has_no_say_in_what_it_is_judged_by(monkeypatch):
    X, _, S = made(80, 6)
    # Only the candidates of the first fold change; what is predicted for it must not.
    values = S.values.copy()
    values[: S.offsets[20] : 2] += 50.0
    folds = [(np.setdiff1d(np.arange(80), part), part) for part in np.array_split(np.arange(80), 4)]
    model = PartialLabelRegressor(
        Refit(LinearRegression(), cv=folds, max_rounds=2), start=TowardsTheMiddle(), cv=folds, random_state=0
    )
    seen = []
    original = Recipe.cross_fit_predict
    monkeypatch.setattr(Recipe, "cross_fit_predict", lambda *given: seen.append(original(*given)) or seen[-1])
    models = [clone(model).fit(X, sets) for sets in (S, CandidateSets(values, S.offsets))]
    for fitted in models:
        fitted.calibrate()
    (first, _), (second, _) = seen
    np.testing.assert_array_equal(first[:20], second[:20])
    assert (first[20:] != second[20:]).all()
    # What the learner itself calls out of fold does know the rows, which is why it will not do.
    assert (models[0].model_.out_of_fold[:20] != models[1].model_.out_of_fold[:20]).all()


def test_same_seed_same_interval_whatever_the_number_of_workers():
    X, _, S = made(80, 4)
    model = PartialLabelRegressor(Refit(ExtraTreeRegressor(min_samples_leaf=5), max_rounds=2), random_state=3)
    found = [clone(model).set_params(n_jobs=jobs).fit(X, S).predict_interval(X) for jobs in (1, 2)]
    np.testing.assert_array_equal(*found)


def test_calibrated_models_keep_it_when_pickled_and_others_say_so(fitted):
    X, _, S, model = fitted
    expected = model.predict_interval(X[:5])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_interval(X[:5]), expected)
    bare = pickle.loads(pickle.dumps(clone(model).fit(X, S)))
    with pytest.raises(errors.NotFittedError, match=r"calibrate\(\) before pickling"):
        bare.predict_interval(X[:5])


def test_fitting_again_forgets_the_calibration(fitted):
    X, _, S, _ = fitted
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    before = np.ptp(model.predict_interval(X[:1]))
    model.fit(X, CandidateSets(10.0 * S.values, S.offsets))
    assert np.ptp(model.predict_interval(X[:1])) == pytest.approx(10.0 * before, rel=1e-3)


def test_rows_without_weight_have_no_say_and_equal_weights_none_either():
    X, _, S = made(200, 3)
    extra = CandidateSets.from_labels(np.full(20, 1e3))
    weight = np.r_[np.full(200, 2.5), np.zeros(20)]
    padded = CandidateSets.from_lists([*S.to_lists(), *extra.to_lists()])
    rows = np.vstack([X, X[:20]])
    plain = PartialLabelRegressor("linear", random_state=0).fit(X, S).calibrate()
    weighted = PartialLabelRegressor("linear", random_state=0).fit(rows, padded, sample_weight=weight).calibrate()
    assert weighted.rows == pytest.approx(200)
    assert weighted.half_width(0.99, "guaranteed") < 100
    assert weighted.half_width() == pytest.approx(plain.half_width(), rel=0.1)


def test_heavy_rows_count_more():
    X, _, _ = made(200, 0)
    y = X @ [3.0, -2.0, 1.0] + np.where(np.arange(200) % 2, 5.0, 0.1) * np.random.default_rng(1).normal(size=200)
    widths = []
    for heavy in (0, 1):
        weight = np.where(np.arange(200) % 2 == heavy, 1.0, 0.05)
        model = PartialLabelRegressor("linear", random_state=0).fit(X, y, sample_weight=weight)
        widths.append(model.calibrate().half_width())
    assert widths[1] > 5 * widths[0]


def test_groups_stay_together():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 10)
    X = np.column_stack([groups, random.normal(size=300)]).astype(float)
    # A level for each group that no other group tells anything about: a tree learns it from the group's own rows.
    y = random.normal(size=30)[groups] + 0.01 * random.normal(size=300)
    model = PartialLabelRegressor(Refit(DecisionTreeRegressor(random_state=0)), cv=GroupKFold(5), random_state=0)
    apart = model.fit(X, y, groups=groups).calibrate().half_width()
    mixed = PartialLabelRegressor(Refit(DecisionTreeRegressor(random_state=0)), random_state=0).fit(X, y).calibrate()
    assert apart > 10 * mixed.half_width()


def test_truth_missing_from_some_rows_does_not_widen_intervals_without_bound():
    X, y, _ = made(400, 0)
    S = make_candidates(y, 3, set_size="fixed", missing=0.2, random_state=0)
    X_new, y_new, _ = made(4000, 0, 9)
    widths = {}
    for missing in (0.0, 0.2, "learned"):
        model = PartialLabelRegressor("linear", Posterior(missing_truth=missing), random_state=0).fit(X, S)
        widths[missing] = np.ptp(model.predict_interval(X_new[:1]))
        if missing:
            assert 0.85 < share_inside(model.predict_interval(X_new), y_new) < 0.97
    assert max(widths[0.2], widths["learned"]) < widths[0.0]


def test_rows_with_noise_scales_of_their_own_have_widths_of_their_own():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(400, 1))
    y = 10 * X[:, 0] + np.where(X[:, 0] > 0, 3.0, 0.5) * random.normal(size=400)
    S = make_candidates(y, 2, random_state=0)
    tree = DecisionTreeRegressor(min_samples_leaf=20, random_state=0)
    model = PartialLabelRegressor(Refit(tree, max_rounds=3), Posterior(scale="row"), random_state=0).fit(X, S)
    width = np.ptp(model.predict_interval([[-0.5], [0.5]]), axis=1)
    assert width[1] > 1.3 * width[0]
    new = random.uniform(-1, 1, size=(4000, 1))
    truth = 10 * new[:, 0] + np.where(new[:, 0] > 0, 3.0, 0.5) * random.normal(size=4000)
    assert 0.87 < share_inside(model.predict_interval(new), truth) < 0.96


def test_frames_with_categories_and_missing_values():
    X, _, S = made(60, 3)
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
    frame.loc[::7, "b"] = np.nan
    process = GaussianProcess(chains=1, rounds=2, features=20)
    model = PartialLabelRegressor(process, start=None, random_state=0).fit(frame, S)
    intervals = model.predict_interval(frame[:10])
    assert intervals.shape == (10, 2)
    assert np.isfinite(intervals).all()


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, np.nan, "0.9", None, True])
def test_coverage_is_a_number_between_0_and_1(fitted, coverage):
    with pytest.raises(errors.ParameterError, match="coverage"):
        fitted[3].predict_interval(fitted[0], coverage)


def test_bad_questions_are_answered_in_words(fitted):
    X, _, _, model = fitted
    with pytest.raises(errors.ParameterError, match=r"Unknown method|method must be"):
        model.predict_interval(X, method="narrow")
    with pytest.raises(errors.FeatureError):
        model.predict_interval(X[:, :2])
    with pytest.raises(errors.NotFittedError):
        PartialLabelRegressor().predict_interval(X)


def test_too_few_rows_for_a_coverage_names_how_many_are_needed():
    X, y, _ = made(30, 0)
    model = PartialLabelRegressor("linear", random_state=0).fit(X, y)
    assert np.isfinite(model.predict_interval(X, 30 / 31)).all()
    with pytest.raises(errors.ParameterError, match=r"at least 99 training rows.* there are 30.* at most 0\.967"):
        model.predict_interval(X, 0.99)
    alone = PartialLabelRegressor(Linear()).fit(X[:1], y[:1])
    with pytest.raises(errors.ParameterError, match="at least two rows"):
        alone.predict_interval(X[:1], 0.5)


def test_labels_without_noise_have_no_width():
    X = np.arange(40.0)[:, None]
    model = PartialLabelRegressor("linear", random_state=0).fit(X, np.zeros(40))
    np.testing.assert_allclose(model.predict_interval(X), 0.0, atol=1e-12)


def naive_probabilities(distances, S, edges, log_q, missing, rounds):
    """The same expectation-maximisation with loops over rows, candidates and steps."""
    shares = np.full(len(edges), 1 / len(edges))
    prior = S.prior_or_uniform
    for last in [False] * rounds + [True]:
        counts, there = np.zeros(len(edges)), np.zeros(len(distances))
        for row in range(len(S)):
            parts = {}
            for place in range(S.offsets[row], S.offsets[row + 1]):
                for k, edge in enumerate(edges):
                    if distances[place] <= edge:
                        density = shares[k] / (2 * edge)
                        parts[place, k] = (1 - missing) * prior[place] * density / np.exp(log_q[place])
            total = sum(parts.values()) + missing
            for (place, k), part in parts.items():
                counts[k] += part / total
                there[place] += part / total
        shares = shares if last else counts / counts.sum()
    return there


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_probabilities_agree_with_plain_loops(monkeypatch, missing):
    from plr import intervals as uncertainty

    random = np.random.default_rng(0)
    S = CandidateSets.from_lists([random.uniform(0, 4, size).tolist() for size in (1, 3, 2, 5, 1, 4)])
    distances, log_q = np.abs(S.values - 1.0), random.normal(size=S.values.size)
    edges = np.array([0.5, 1.0, 2.0, distances.max()])
    monkeypatch.setattr(uncertainty, "_ROUNDS", 20)
    monkeypatch.setattr(uncertainty, "_edges", lambda distances, S: edges)
    found = fit_distances(distances, S, np.ones(len(S)), log_q=log_q, missing=missing)
    np.testing.assert_allclose(found, naive_probabilities(distances, S, edges, log_q, missing, 20), rtol=1e-9)


def test_many_distances_are_kept_as_fewer_and_never_narrower(monkeypatch):
    from plr import intervals as uncertainty

    X, y, _ = made(2000, 0)
    task = PartialLabelRegressor("linear").fit(X, y)._training
    sets = CandidateSets.from_labels(y)
    full = learn_calibration(np.zeros(2000), sets, task)
    monkeypatch.setattr(uncertainty, "_MOST_KEPT", 100)
    few = learn_calibration(np.zeros(2000), sets, task)
    assert len(few.distances) <= 101
    for coverage in (0.1, 0.55, 0.9, 0.999):
        assert 0 <= few.half_width(coverage) - full.half_width(coverage) < 0.5 or coverage > 0.99


def test_a_calibration_is_plain_arrays():
    found = Calibration(np.array([1.0, 2.0]), np.array([0.5, 1.0]), np.array([3.0]), np.array([1.0]), 100.0)
    assert found.half_width(0.4) == 1.0
    assert found.half_width(0.9) == 2.0
    assert found.half_width(0.9, "guaranteed") == 3.0
    np.testing.assert_array_equal(found.intervals(np.array([10.0])), [[8.0, 12.0]])
