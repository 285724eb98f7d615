"""Intervals: calibrated on candidate sets alone, and honest about it."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from plr import CandidateSets, PartialLabelRegressor, errors, intervals, make_candidates
from plr.candidates.known import read_known
from plr.intervals import METHODS, Calibration, Coverage, learn_calibration
from plr.learners import GaussianProcess, Linear, Refit, Task
from plr.losses import LOSSES
from plr.metrics import ChoiceMetrics, CoverageMetrics
from plr.residuals import ResidualDensity
from plr.training import Recipe
from plr.weighting import Posterior
from plr.weighting.rule import Rule

NOISE = {
    "bell": lambda random, rows: random.normal(size=rows),
    "heavy tails": lambda random, rows: random.standard_t(3, rows),
    "two humps": lambda random, rows: random.choice([-2.0, 2.0], rows) + 0.3 * random.normal(size=rows),
    "skewed": lambda random, rows: random.exponential(1.5, rows) - 1.5,
    "as wide as the range": lambda random, rows: random.uniform(-6, 6, rows),
}


def made(rows, false_labels, seed=0, noise="bell"):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    y = 5.0 + X @ [3.0, -2.0, 1.0] + NOISE[noise](random, rows)
    return X, y, make_candidates(y, false_labels, random_state=seed) if false_labels else y


def linear(X, S, **given):
    return PartialLabelRegressor("linear", random_state=0).fit(X, S, **given)


def some_known(y, count, seed=0):
    """Return the labels of some rows, chosen at random, and NaN for the others."""
    known = np.full(len(y), np.nan)
    rows = np.random.default_rng(seed).choice(len(y), count, replace=False)
    known[rows] = y[rows]
    return known


def half_width(model):
    """Return how far constant intervals of 90 % reach."""
    return model.calibrate().ends(0.9, "constant")[1]


def share_inside(intervals, y):
    return np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1]))


@pytest.fixture(scope="module")
def fitted():
    X, y, S = made(400, 8)
    return X, y, S, linear(X, S)


@pytest.mark.filterwarnings("ignore::plr.errors.AmbiguousDataWarning")
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("false_labels", [4, pytest.param(16, marks=pytest.mark.slow)])
def test_intervals_hold_the_truth_as_often_as_asked(noise, false_labels):
    levels, found = (0.5, 0.8, 0.9, 0.95), []
    for seed in range(3):
        X, _, S = made(400, false_labels, seed, noise)
        X_new, y_new, _ = made(4000, 0, seed + 100, noise)
        model = linear(X, S)
        found.append(
            [
                [share_inside(model.predict_interval(X_new, level, method), y_new) for level in levels]
                for method in ("adaptive", "constant")
            ]
        )
    beyond = np.mean(found, axis=0) - levels
    # Caution makes intervals a little too wide, the more so the more false labels there are.
    assert beyond.min() > -0.02
    assert beyond.max() < (0.07 if false_labels < 16 else 0.12)


def cut_off(rows, seed):
    """Labels of a third of the rows are at the lower end of their range, where noise cannot pass."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    return X, np.maximum(X @ [3.0, -2.0, 1.0] + random.normal(size=rows) + 2.0, 0.0)


def test_intervals_end_where_labels_end():
    X, y = cut_off(400, 0)
    model = linear(X, make_candidates(y, 4, random_state=0))
    X_new, y_new = cut_off(4000, 1)
    found = model.predict_interval(X_new)
    prediction = model.predict(X_new)
    assert 0.86 < share_inside(found, y_new) < 0.99
    assert found[prediction > 0, 0].min() >= 0.0
    assert ((found[:, 0] <= prediction) & (prediction <= found[:, 1])).all()
    assert model.predict_interval(X_new, method="constant")[:, 0].min() < -1.0
    assert all(
        pieces.min() >= 0.0 for pieces, middle in zip(model.predict_set(X_new), prediction, strict=True) if middle > 0
    )


def test_skewed_noise_has_ends_of_its_own():
    X, _, S = made(400, 4, noise="skewed")
    model = linear(X, S)
    low, high = model.calibrate().ends(0.9)
    assert high > 1.15 * -low
    adaptive, constant = (np.ptp(model.predict_interval(X, 0.9, method), axis=1).mean() for method in METHODS[:2])
    assert adaptive < 0.95 * constant


def test_guaranteed_intervals_are_wider_and_hold_the_truth_more_often(fitted):
    X, y, _, model = fitted
    adaptive, safe = (model.predict_interval(X, 0.8, method) for method in ("adaptive", "guaranteed"))
    assert (safe[:, 1] > adaptive[:, 1]).all()
    assert share_inside(safe, y) > max(0.8, share_inside(adaptive, y))


def test_intervals_grow_with_coverage_around_the_prediction(fitted):
    X, _, S, model = fitted
    prediction = model.predict(X)
    for method in METHODS:
        ends = np.stack([model.predict_interval(X, level, method) for level in np.linspace(0.01, 0.99, 60)])
        assert (np.diff(ends[:, :, 1], axis=0) >= 0).all()
        assert (np.diff(ends[:, :, 0], axis=0) <= 0).all()
        assert (ends[:, :, 0] <= prediction).all()
        assert (ends[:, :, 1] >= prediction).all()
        if method == "adaptive":
            assert ends.min() >= min(S.values.min(), prediction.min())
            assert ends.max() <= max(S.values.max(), prediction.max())
        else:
            np.testing.assert_allclose(ends.mean(axis=2), np.broadcast_to(prediction, ends.shape[:2]))


def fan(rows, seed):
    """Labels whose noise grows with the first feature, from a seventh of the mean to twice of it."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(rows, 3))
    return X, 3.0 * X[:, 1] + X[:, 2] + 0.5 * np.exp(0.8 * X[:, 0]) * random.normal(size=rows)


def test_adaptive_intervals_are_wider_where_noise_is():
    X, y = fan(600, 0)
    model = linear(X, make_candidates(y, 4, random_state=0))
    X_new, y_new = fan(4000, 1)
    worst, score = {}, {}
    for method in ("adaptive", "constant"):
        found = model.predict_interval(X_new, 0.9, method)
        noisy = X_new[:, 0] > np.quantile(X_new[:, 0], 0.9)
        worst[method] = share_inside(found[noisy], y_new[noisy])
        coverage = CoverageMetrics(0.9)
        coverage.add(found, y_new)
        score[method] = coverage.figures()["interval_score"]
        assert 0.86 < share_inside(found, y_new) < 0.96
    assert worst["adaptive"] > 0.8 > worst["constant"] + 0.1
    assert score["adaptive"] < 0.85 * score["constant"]


def test_rows_that_are_alike_have_intervals_of_one_width(fitted):
    X, _, _, model = fitted
    assert model.calibrate().widths is None
    width = np.ptp(model.predict_interval(X), axis=1)
    np.testing.assert_allclose(np.quantile(width, 0.3), width.max())


def test_two_humps_give_sets_of_two_pieces():
    X, _, S = made(400, 4, noise="two humps")
    model = linear(X, S)
    X_new, y_new, _ = made(2000, 0, 1, "two humps")
    found, whole = model.predict_set(X_new), model.predict_interval(X_new)
    assert np.mean([len(pieces) == 2 for pieces in found]) > 0.9
    for pieces in found:
        assert (np.diff(pieces.ravel()) >= 0).all()
    inside = [((pieces[:, 0] <= y) & (y <= pieces[:, 1])).any() for pieces, y in zip(found, y_new, strict=True)]
    assert 0.87 < np.mean(inside) < 0.98
    assert np.mean([np.ptp(pieces, axis=1).sum() for pieces in found]) < 0.7 * np.ptp(whole, axis=1).mean()
    # More of them hold more.
    less = model.predict_set(X_new, 0.5)
    assert all(np.ptp(some, axis=1).sum() <= np.ptp(more, axis=1).sum() for some, more in zip(less, found, strict=True))


def in_the_middle(rows, seed):
    """False labels that crowd in the middle of the range, where the weighting believes that they lie evenly."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    y = 5.0 + X @ [3.0, -2.0, 1.0] + random.normal(size=rows)
    false = 5.0 + random.normal(scale=1.5, size=(rows, 6))
    false[0, :2] = -15.0, 25.0
    return X, y, CandidateSets.from_padded(np.column_stack([y, false]))


@pytest.mark.parametrize("seed", [0, 1])
def test_checked_rows_correct_a_wrong_density_of_false_labels(seed):
    X, y, S = in_the_middle(400, seed)
    X_new, y_new, _ = in_the_middle(4000, seed + 50)
    blind, seeing = linear(X, S), linear(X, S, known=some_known(y, 100, seed))
    covered = [share_inside(model.predict_interval(X_new), y_new) for model in (blind, seeing)]
    assert covered[0] < 0.7
    assert 0.84 < covered[1] < 0.97
    assert "false labels do not lie evenly" in blind.calibration_.assumes
    assert "checked rows are a random sample" in seeing.calibration_.assumes


def near_the_truth(rows, noise, seed=0):
    """Predictions, labels and sets whose false labels are near the truth, which nothing is known of."""
    random = np.random.default_rng(seed)
    prediction = random.uniform(0, 20, rows)
    y = prediction + noise(random)
    S = CandidateSets.from_padded(np.column_stack([y, y[:, None] + random.normal(scale=4.0, size=(rows, 2))]))
    return prediction, y, S, Task(prediction[:, None], S, Rule(Posterior(), LOSSES["squared"]()))


def test_a_tolerance_interval_covers_with_confidence_over_the_draw_of_checked_rows():
    prediction, y, S, task = near_the_truth(400, lambda random: random.standard_t(4, 400))
    covered = []
    for seed in range(60):
        found = learn_calibration(prediction, S, task, known=read_known(some_known(y, 50, seed), S))
        low, high = found.ends(0.9, "guaranteed")
        covered.append(np.mean((low <= y - prediction) & (y - prediction <= high)))
    # 95 % are promised, and of 60 draws fewer than 51 would be by chance once in two hundred times.
    assert np.sum(np.array(covered) >= 0.9) >= 51
    assert np.ptp(found.ends(0.9, "guaranteed")) < np.ptp(found.farthest.ends(0.9))


def test_a_tolerance_interval_needs_29_rows_for_90_percent():
    X, y, S = made(300, 4)
    for count, is_enough in ((28, False), (29, True)):
        found = linear(X, S, known=some_known(y, count)).calibrate()
        assert (found.tolerance.covered[-1] >= 0.9) == is_enough
        assert (found.ends(0.9, "guaranteed")[1] < 0.7 * found.farthest.ends(0.9)[1]) == is_enough


def test_rows_that_a_review_chose_count_by_inverse_probabilities():
    noisy = np.random.default_rng(1).uniform(size=600) > 0.8
    prediction, y, S, task = near_the_truth(600, lambda random: np.where(noisy, 3.0, 0.3) * random.normal(size=600))
    # Noisy rows are looked at more often.
    chance = np.where(noisy, 0.5, 0.1)
    checked = np.random.default_rng(2).uniform(size=600) < chance
    known = np.where(checked, y, np.nan)
    by_chance = pd.DataFrame({"value": known, "probability": np.where(checked, chance, np.nan)})
    weighed, as_if_random = (
        learn_calibration(prediction, S, task, known=read_known(table, S)) for table in (by_chance, known)
    )
    right = np.quantile(np.abs(y - prediction), 0.8)
    assert weighed.ends(0.8, "constant")[1] < 1.5 * right
    assert as_if_random.ends(0.8, "constant")[1] > 2.5 * right
    # A tolerance interval is for rows that were chosen at random.
    assert weighed.tolerance is None
    assert as_if_random.tolerance is not None
    assert weighed.checked < as_if_random.checked == pytest.approx(checked.sum())


def test_what_intervals_assume_is_said_in_words(fitted):
    X, y, S, model = fitted
    assumed = {
        "": linear(X, y),
        "false labels are spread evenly over the range of the candidates, whatever": model,
        "false labels follow the density estimated from the candidates, whatever": PartialLabelRegressor(
            "linear", Posterior(false_labels="estimated"), random_state=0
        ).fit(X, S),
        "false labels follow the given density, whatever": PartialLabelRegressor(
            "linear", Posterior(false_labels=lambda labels: np.full(len(labels), 0.05)), random_state=0
        ).fit(X, S),
    }
    for words, each in assumed.items():
        told = each.calibrate().assumes
        assert told.startswith(words)
        assert bool(told) == bool(words)
    beside = y[:, None] + np.random.default_rng(0).normal(scale=2.5, size=(400, 5))
    near = CandidateSets.from_padded(np.column_stack([y, beside]))
    with pytest.warns(errors.DependentLabelsWarning):
        alone = linear(X, near)
    assert "false candidates depend on the features, and without checked rows" in alone.calibrate().assumes
    helped = linear(X, near, known=some_known(y, 50))
    assert helped.calibrate().assumes.startswith("checked rows are a random sample, or were chosen")
    X_new, y_new, _ = made(4000, 0, 7)
    assert share_inside(alone.predict_interval(X_new), y_new) > 0.97
    assert 0.87 < share_inside(helped.predict_interval(X_new), y_new) < 0.98


@pytest.mark.parametrize("noise", ["bell", "two humps", "skewed"])
def test_probabilities_of_new_rows_are_calibrated(noise):
    off = []
    for seed in range(2):
        X, _, S = made(400, 16, seed, noise)
        X_new, y_new, S_new = made(2000, 16, seed + 50, noise)
        model = linear(X, S)
        model.calibrate()
        choices = ChoiceMetrics()
        choices.add(model.identify(X_new, S_new), S_new, y_new)
        off.append(choices.figures()["calibration_error"])
    assert np.mean(off) < 0.04


def test_one_candidate_per_row_is_ordinary_cross_conformal_prediction():
    X, y, _ = made(60, 0)
    cv = KFold(6)
    model = PartialLabelRegressor(Refit(LinearRegression()), cv=cv).fit(X, y)
    errors_of_rows = np.sort(np.abs(y - cross_val_predict(LinearRegression(), X, y, cv=cv)))
    for coverage in (0.5, 0.9, 0.95):
        width = errors_of_rows[int(np.ceil(coverage * 61)) - 1]
        for method in ("constant", "guaranteed"):
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
    before = half_width(model)
    model.fit(X, CandidateSets(10.0 * S.values, S.offsets))
    assert half_width(model) == pytest.approx(10.0 * before, rel=1e-3)


def test_rows_without_weight_have_no_say_and_equal_weights_none_either():
    X, _, S = made(200, 3)
    extra = CandidateSets.from_labels(np.full(20, 1e3))
    weight = np.r_[np.full(200, 2.5), np.zeros(20)]
    padded = CandidateSets.from_lists([*S.to_lists(), *extra.to_lists()])
    rows = np.vstack([X, X[:20]])
    plain, weighted = linear(X, S), linear(rows, padded, sample_weight=weight)
    assert half_width(weighted) == pytest.approx(half_width(plain), rel=0.1)
    assert weighted.calibration_.rows == pytest.approx(200)
    assert weighted.calibration_.ends(0.99, "guaranteed")[1] < 100


def test_heavy_rows_count_more():
    X, _, _ = made(200, 0)
    y = X @ [3.0, -2.0, 1.0] + np.where(np.arange(200) % 2, 5.0, 0.1) * np.random.default_rng(1).normal(size=200)
    widths = []
    for heavy in (0, 1):
        weight = np.where(np.arange(200) % 2 == heavy, 1.0, 0.05)
        widths.append(half_width(linear(X, y, sample_weight=weight)))
    assert widths[1] > 5 * widths[0]


def test_groups_stay_together():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 10)
    X = np.column_stack([groups, random.normal(size=300)]).astype(float)
    # A level for each group that no other group tells anything about: a tree learns it from the group's own rows.
    y = random.normal(size=30)[groups] + 0.01 * random.normal(size=300)
    model = PartialLabelRegressor(Refit(DecisionTreeRegressor(random_state=0)), cv=GroupKFold(5), random_state=0)
    mixed = PartialLabelRegressor(Refit(DecisionTreeRegressor(random_state=0)), random_state=0).fit(X, y)
    assert half_width(model.fit(X, y, groups=groups)) > 10 * half_width(mixed)


def test_truth_missing_from_some_rows_does_not_widen_intervals_without_bound():
    X, y, _ = made(400, 0)
    S = make_candidates(y, 3, set_size="fixed", missing=0.2, random_state=0)
    X_new, y_new, _ = made(4000, 0, 9)
    widths = {}
    for missing in (0.0, 0.2, "learned"):
        model = PartialLabelRegressor("linear", Posterior(missing_truth=missing), random_state=0).fit(X, S)
        widths[missing] = half_width(model)
        # With noise of any shape, a missing truth looks like one that is far off: too wide rather than too narrow.
        assert share_inside(model.predict_interval(X_new), y_new) > 0.85
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
    np.testing.assert_allclose(model.predict_interval(X), 0.0, atol=1e-11)


def naive_shares(density, prediction, S, log_q, scale):
    """How probable candidates are, with loops over rows and candidates; the last entry of a row is for none of them."""
    found = []
    for row in range(len(S)):
        steps = list(zip(density.edges[:-1], density.edges[1:], density.heights, strict=True))
        low, high = ((end - prediction[row]) / scale[row] for end in (density.low, density.high))
        inside = sum(height * max(0.0, min(right, high) - max(left, low)) for left, right, height in steps)
        parts = []
        for place in range(S.offsets[row], S.offsets[row + 1]):
            away = (S.values[place] - prediction[row]) / scale[row]
            height = next((height for left, right, height in steps if left <= away < right), 0.0)
            mixed = (1 - density.floor) * height / scale[row] / inside + density.floor / (density.high - density.low)
            parts.append((1 - density.missing) * S.prior_or_uniform[place] * mixed / math.exp(log_q[place]))
        found.append([*parts, density.missing])
    return found


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_probabilities_agree_with_plain_loops(missing):
    random = np.random.default_rng(0)
    S = CandidateSets.from_lists([random.uniform(0, 4, size).tolist() for size in (1, 3, 2, 5, 1, 4)])
    prediction, scale, log_q = random.uniform(0, 4, 6), random.uniform(0.5, 2, 6), random.normal(size=S.values.size)
    edges = np.array([-3.0, -1.0, 0.2, 0.9, 6.0])
    heights = np.array([0.1, 0.4, 0.3, 0.02])
    heights /= heights @ np.diff(edges)
    density = ResidualDensity(edges, heights * np.diff(edges), 0.0, 4.0, 0.05, missing)
    expected = naive_shares(density, prediction, S, log_q, scale)
    found = density.probabilities(prediction, S, log_q, scale)
    np.testing.assert_allclose(found, np.concatenate([np.array(row[:-1]) / sum(row) for row in expected]), rtol=1e-9)
    likelihood = density.log_likelihood(prediction, S, log_q, scale)
    np.testing.assert_allclose(likelihood, [math.log(sum(row)) for row in expected], rtol=1e-9)
    twice = density.mirrored().mirrored()
    np.testing.assert_allclose(twice.shares.sum(), 1.0)


def test_more_rows_than_it_takes_are_not_looked_at(monkeypatch):
    X, y, _ = made(2000, 0)
    task = linear(X, y)._training
    sets = CandidateSets.from_labels(y)
    full = learn_calibration(np.zeros(2000), sets, task)
    monkeypatch.setattr(intervals, "_MOST_ROWS", 300)
    few = learn_calibration(np.zeros(2000), sets, task)
    assert (full.rows, few.rows) == (pytest.approx(2000), pytest.approx(300))
    for coverage in (0.5, 0.9):
        assert few.ends(coverage, "constant")[1] == pytest.approx(full.ends(coverage, "constant")[1], rel=0.1)


def test_a_calibration_is_plain_arrays():
    near, far = (Coverage(-np.array(ends), np.array(ends), np.array([0.5, 1.0])) for ends in ([1.0, 2.0], [3.0, 4.0]))
    density = ResidualDensity(np.array([-1.0, 1.0]), np.array([1.0]), 0.0, 11.5)
    pieces = Coverage(np.array([-1.0, 0.5]), np.array([-0.5, 1.0]), np.array([0.5, 1.0]))
    found = Calibration(near, far, far, None, pieces, density, None, 100.0, assumes="false labels lie evenly")
    assert found.ends(0.4) == (-1.0, 1.0)
    assert found.ends(0.9) == (-2.0, 2.0)
    assert found.ends(0.9, "guaranteed") == (-4.0, 4.0)
    middle, widths = np.array([10.0]), np.array([0.5])
    # Adaptive intervals end where candidates end, and are as wide as their row; constant ones do neither.
    np.testing.assert_array_equal(found.intervals(middle), [[8.0, 11.5]])
    np.testing.assert_array_equal(found.intervals(middle, widths=widths), [[9.0, 11.0]])
    np.testing.assert_array_equal(found.intervals(middle, 0.9, "constant", widths), [[6.0, 14.0]])
    np.testing.assert_array_equal(found.label_sets(middle)[0], [[9.0, 9.5], [10.5, 11.0]])
    np.testing.assert_array_equal(found.label_sets(middle, 0.4)[0], [[9.0, 9.5]])
    # Rows predicted beyond that have labels beyond it.
    np.testing.assert_array_equal(found.intervals(middle + 3.0), [[11.0, 15.0]])
    np.testing.assert_array_equal(found.label_sets(middle + 3.0, 0.4)[0], [[12.0, 12.5]])


@pytest.mark.parametrize("ends", [([0.0], [1.0, 2.0]), ([], []), ([1.0], [0.0])], ids=["lengths", "none", "order"])
def test_ends_must_go_together(ends):
    with pytest.raises(ValueError, match="ends"):
        Coverage(*map(np.array, ends), np.full(len(ends[0]), 1.0))


def test_sets_of_few_rows_are_the_intervals():
    X, y, _ = made(30, 0)
    model = linear(X, y)
    for pieces, ends in zip(model.predict_set(X), model.predict_interval(X), strict=True):
        np.testing.assert_allclose(pieces, [ends])


def test_checked_rows_of_one_group_promise_nothing():
    X, y, S = made(120, 3)
    known = np.where(np.arange(120) < 60, y, np.nan)
    groups = np.arange(120) // 2
    alone = PartialLabelRegressor("linear", random_state=0).fit(X, S, known=known)
    together = PartialLabelRegressor("linear", random_state=0).fit(X, S, known=known, groups=groups)
    assert alone.calibrate().tolerance is not None
    assert together.calibrate().tolerance is None
