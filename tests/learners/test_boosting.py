"""The boosting learner: against LightGBM itself, on candidate sets, and on the data it must survive."""

from __future__ import annotations

import copy
import functools
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import DivergenceError, FeatureError, ParameterError
from plr.learners import Boosting, Task
from plr.learners.boosting import FittedBoosting
from plr.losses import LOSSES, Pointwise, get_loss
from plr.weighting import WEIGHTINGS, Average, Rule, get_weighting

ROWS = 600


@functools.cache
def compiled(weighting: str, loss: str) -> Rule:
    return Rule(get_weighting(weighting), get_loss(loss))


def small(**changed: Any) -> Boosting:
    return Boosting(**({"trees": 60} | changed))


def fit(
    learner: Boosting, X: np.ndarray, S: Any, weighting: str = "average", loss: str = "squared", **more: Any
) -> FittedBoosting:
    sets = S if isinstance(S, CandidateSets) else CandidateSets.from_lists(np.asarray(S)[:, None])
    return learner.fit(Task(X, sets, compiled(weighting, loss), **({"n_jobs": 1} | more)))


def problem(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 3))
    return X, 10 * np.sin(X[:, 0]) + 5 * X[:, 1] + 0.1 * random.normal(size=rows) + 100


def candidates(y: np.ndarray, false_labels: int = 2) -> CandidateSets:
    others = np.random.default_rng(1).choice(y, size=(len(y), false_labels))
    return CandidateSets.from_padded(np.column_stack([others, y]))


def explained(fitted: FittedBoosting, X: np.ndarray, y: np.ndarray) -> float:
    return 1 - float(np.mean((fitted.predict(X) - y) ** 2) / np.var(y))


def by_lightgbm(X: np.ndarray, y: np.ndarray, objective: str, weight: np.ndarray | None = None) -> np.ndarray:
    settings = {"objective": objective, "num_leaves": 8, "verbosity": -1, "feature_pre_filter": False, "num_threads": 1}
    return lightgbm.train(settings, lightgbm.Dataset(X, y, weight=weight), 60).predict(X)


class TestParameters:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"trees": 0}, "trees must be at least 1, got 0"),
            ({"trees": "auto"}, "trees must be a whole number, got 'auto'"),
            ({"learning_rate": 0.0}, "learning_rate must be above 0"),
            ({"leaves": 1}, "leaves must be at least 2, got 1"),
            ({"rows_per_leaf": 0}, "rows_per_leaf must be at least 1"),
            ({"row_fraction": 1.5}, r"row_fraction must be above 0 and at most 1, got 1\.5"),
            ({"row_fraction": "all"}, "Unknown row_fraction 'all'"),
            ({"column_fraction": 0.0}, "column_fraction must be above 0 and at most 1"),
            ({"warm_up": 0.5}, "warm_up must be a whole number, got 0.5"),
            ({"warm_up": "long"}, "warm_up must be a whole number, got 'long'"),
            ({"penalty": -1.0}, "penalty must be at least 0"),
            ({"bins": 1}, "bins must be at least 2"),
            ({"validation_fraction": 0.95}, r"validation_fraction must be .* at most 0\.9"),
            ({"validation_fraction": 1e-6}, "validation_fraction=1e-06 of 600 rows leaves nothing"),
            ({"monitor": "los"}, "did you mean 'loss'"),
            ({"patience": 0}, "patience must be at least 1"),
            ({"patience": 5}, "patience needs validation rows"),
            ({"monotone": 1}, "monotone must be a sequence or a mapping of columns, got 1"),
            ({"monotone": "up"}, "monotone must be a sequence or a mapping of columns, got 'up'"),
            ({"monotone": (1, 0)}, "monotone has 2 entries for 3 columns"),
            ({"monotone": (1, 0, 2)}, "monotone must be -1, 0 or 1 for each column, got 2 for 2"),
            ({"monotone": {3: 1}}, "by number from 0 to 2, got 3"),
            ({"monotone": {"age": 1}}, "monotone names the column 'age', but X has no names"),
            ({"categorical": 1}, "categorical must be a sequence of columns, got 1"),
            ({"categorical": [7]}, "categorical must give columns by name, or by number from 0 to 2, got 7"),
            ({"params": [1]}, "params must be a mapping"),
            ({"params": {"objective": "l1"}}, "must not have 'objective': the weighting and the loss"),
            ({"params": {"application": "l1"}}, "must not have 'application': the weighting and the loss"),
            ({"params": {"boosting": "dart"}}, "must not have 'boosting': candidates are weighed"),
            ({"params": {"eta": 0.3}}, "'eta', which is learning_rate here"),
            ({"params": {"n_estimators": 3}}, "'n_estimators', which is trees here"),
            ({"params": {"nthread": 3}}, "'nthread', which is the estimator's n_jobs here"),
            ({"params": {"max_deth": 3}}, "parameter of LightGBM 'max_deth'; did you mean 'max_depth'"),
            ({"params": {"max_bin_by_feature": [9]}}, "LightGBM refuses to fit: .*max_bin_by_feature"),
        ],
        ids=str,
    )
    def test_out_of_range(self, changed: dict[str, Any], message: str) -> None:
        X, y = problem()
        with pytest.raises(ParameterError, match=message):
            fit(Boosting(**changed), X, y)

    def test_jobs(self) -> None:
        X, y = problem()
        with pytest.raises(ParameterError, match="n_jobs must be None or a whole number other than 0, got 0"):
            fit(small(), X, y, n_jobs=0)

    def test_further_parameters_win(self) -> None:
        """Under any of LightGBM's spellings, and over what is set here."""
        X, y = problem()
        assert fit(small(params={"max_depth": 1}), X, y).booster.dump_model()["tree_info"][0]["num_leaves"] == 2
        heavy = fit(small(params={"min_child_weight": 1e9}), X, y)
        assert heavy.importance.sum() == 0

    def test_learner_does_not_change(self) -> None:
        X, y = problem()
        learner = small(params={"max_depth": 3}, monotone={0: 1})
        before = copy.deepcopy(vars(learner))
        fit(learner, X, y)
        assert vars(learner) == before


class TestAgainstLightGBM:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_plain_labels_are_its_squared_error(self, weighted: bool) -> None:
        X, y = problem()
        weight = np.random.default_rng(2).uniform(0.5, 2.0, ROWS) if weighted else None
        ours = fit(small(row_fraction=1.0), X, y, "identification", sample_weight=weight).predict(X)
        assert_allclose(ours, by_lightgbm(X, y, "l2", weight), atol=1e-4)

    @pytest.mark.parametrize("tail", ["normal", "heavy"])
    def test_absolute_loss_comes_as_near_as_its_own(self, tail: str) -> None:
        """LightGBM's own sets each leaf to a median; a custom objective has derivative and curvature alone."""
        X, y = problem(2000)
        random = np.random.default_rng(3)
        noisy = y + 3 * (random.standard_t(1.5, len(y)) if tail == "heavy" else random.normal(size=len(y)))
        ours = fit(small(row_fraction=1.0), X, noisy, loss="absolute").predict(X)
        theirs = by_lightgbm(X, noisy, "l1")
        assert np.abs(ours - y).mean() < 1.15 * np.abs(theirs - y).mean()
        assert np.abs(ours - noisy).mean() < 1.02 * np.abs(theirs - noisy).mean()

    @pytest.mark.parametrize("loss", ["absolute", "huber"])
    def test_leaves_become_medians(self, loss: str) -> None:
        """Also where most rows are met exactly by the first score, 0, with curvature without bound."""
        group = np.repeat([0.0, 1.0, 2.0], 200)
        random = np.random.default_rng(0)
        busy = random.uniform(size=600) < np.array([0.1, 0.3, 0.9])[group.astype(int)]
        y = np.where(busy, random.exponential(5.0, 600), 0.0)
        learner = Boosting(row_fraction=1.0, scale_target=False)
        found = fit(learner, group[:, None], y, loss=loss).predict(np.array([[0.0], [1.0], [2.0]]))
        if loss == "absolute":
            assert_allclose(found, [np.median(y[group == g]) for g in range(3)], atol=0.15)
        else:
            assert 0 < found[0] < found[1] < found[2] < y[group == 2].mean()


class TestFit:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    def test_learns_from_candidates(self, weighting: str, loss: str) -> None:
        X, y = problem(1500)
        fitted = fit(small(trees=150), X, candidates(y), weighting, loss)
        assert explained(fitted, X, y) > {"average": 0.5, "posterior": 0.85}.get(weighting, 0.7)
        assert fitted.report.loss[-1] < fitted.report.loss[0]
        assert fitted.report.rounds == len(fitted.report.loss) == 150
        assert fitted.report.best_round is None

    def test_derivatives_follow_the_weights(self) -> None:
        """What was nearest at first is not what is nearest at last."""
        X, y = problem(1500)
        S = candidates(y)
        fitted = fit(small(trees=150), X, S, "identification")
        first, last = (
            np.abs(S.values - np.repeat(around, S.sizes)).reshape(-1, 3).argmin(axis=1)
            for around in (np.full(len(y), y.mean()), fitted.predict(X))
        )
        assert np.mean(first == 2) < 0.4
        assert np.mean(last == 2) > 0.8

    def test_warm_up(self) -> None:
        """Weights are the priors at first. Without, what happens to be near the first score is confirmed."""
        X, y = problem(1500)
        S = candidates(y)
        warm, cold, average = (
            fit(small(warm_up=warm_up), X, S, weighting)
            for warm_up, weighting in ((6, "identification"), (0, "identification"), (0, "average"))
        )
        assert_array_equal(warm.report.loss[:6], average.report.loss[:6])
        assert warm.report.loss[6] < 0.5 * average.report.loss[6]
        assert explained(warm, X, y) > explained(cold, X, y) + 0.1

    @pytest.mark.parametrize(
        ("loss", "wanted"), [("squared", 2.9), ("absolute", 0.5), ("huber", 2.5 / 3)], ids=["mean", "median", "between"]
    )
    def test_first_score(self, loss: str, wanted: float) -> None:
        """With nothing to split by, it is the model: the constant with the least loss."""
        y = np.array([0.0, 0.0, 0.5, 4.0, 10.0])
        nothing = np.zeros((5, 2))
        fitted = fit(small(scale_target=False), nothing, y, loss=loss)
        assert_allclose(fitted.predict(nothing), wanted, atol=1e-4)
        assert fitted.importance.tolist() == [0.0, 0.0]

    def test_first_score_counts_priors_and_sample_weights(self) -> None:
        S = CandidateSets.from_lists([[0.0, 10.0], [4.0]], prior=[[0.9, 0.1], [1.0]])
        fitted = fit(small(), np.zeros((2, 1)), S, sample_weight=np.array([3.0, 1.0]))
        assert_allclose(fitted.predict(np.zeros((1, 1))), (3 * 1.0 + 4.0) / 4)

    def test_start_is_used_for_a_third(self) -> None:
        """With weights on the truth the first third is supervised training, and then the rule takes over."""
        X, y = problem()
        S = candidates(y)
        start = np.tile([0.0, 0.0, 1.0], ROWS)
        told = fit(small(), X, S, "average", start=start).report.loss
        supervised = fit(small(scale_target=False), X, y).report.loss / np.var(S.values)
        assert_allclose(told[:20], supervised[:20], rtol=1e-5)
        assert (told[20:] > 3 * supervised[20:]).all()
        one, other = (fit(small(), X, S, "posterior", start=given) for given in (start, None))
        assert one.report.noise_scale[19] < 0.5 * other.report.noise_scale[19]
        assert explained(one, X, y) > 0.95

    def test_density_of_false_labels(self) -> None:
        X, y = problem()
        S = candidates(y)
        learner = small(warm_up=0, scale_target=False)
        told = fit(learner, X, S, "posterior", log_q=np.tile([9.0, 9.0, -9.0], ROWS)).report.loss
        assert_allclose(told[0], np.mean((S.values.mean() - y) ** 2), rtol=1e-2)

    def test_noise_scale_in_label_units(self) -> None:
        X, y = problem()
        one, ten = (fit(small(), X, candidates(f * y), "posterior").report.noise_scale for f in (1, 10))
        assert len(one) == 60
        assert one[-1] < 0.5 * one[0]
        assert_allclose(ten, 10 * one, rtol=1e-2)
        assert fit(small(), X, candidates(y)).report.noise_scale.size == 0

    def test_sample_weight(self) -> None:
        """Rows without weight might as well not be there, and a common factor changes nothing."""
        X, y = problem()
        S, half = candidates(y), np.arange(ROWS) % 2
        some = fit(small(), X, S, "posterior", sample_weight=half.astype(float))
        none = fit(small(), X[half == 1], S[half == 1], "posterior")
        assert_allclose(some.predict(X), none.predict(X), rtol=1e-9)
        assert some.training_prediction is None
        scaled = fit(small(penalty=5.0), X, S, sample_weight=np.full(ROWS, 1e6)).predict(X)
        assert_allclose(scaled, fit(small(penalty=5.0), X, S).predict(X), rtol=1e-6)
        group = np.repeat([0.0, 1.0], ROWS // 2)[:, None]
        y = np.tile([0.0, 1.0], ROWS // 2)
        found = fit(Boosting(row_fraction=1.0), group, y, sample_weight=1 + 8 * y).predict(group)
        assert_allclose(found, 0.9, atol=1e-3)

    @pytest.mark.parametrize(("factor", "offset"), [(1e-9, 0.0), (1.0, 1e7), (1e100, 0.0)])
    @pytest.mark.parametrize("loss", ["squared", "absolute"])
    def test_labels_of_any_size(self, factor: float, offset: float, loss: str) -> None:
        X, y = problem()
        plain, moved = (fit(small(), X, target, loss=loss).predict(X) for target in (y, y * factor + offset))
        assert_allclose((moved - offset) / factor, plain, atol=1e-2 * y.std())

    def test_raw_labels(self) -> None:
        X, y = problem()
        S = candidates(y)
        for loss in ("squared", "absolute"):
            raw, scaled = (fit(small(scale_target=on), X, S, loss=loss).predict(X) for on in (False, True))
            assert_allclose(raw, scaled, atol=1e-2 * y.std())
        with pytest.raises(DivergenceError, match="labels beyond 1e30 must be scaled"):
            fit(small(scale_target=False), X, 1e50 * y)

    def test_a_loss_that_leaves_the_numbers(self) -> None:
        X, y = problem()
        bent = Rule(Average(), Pointwise(lambda f, v: (f - v) ** 2, lambda f, v: 2 * (f - v), lambda f, v: -1.0))
        with pytest.raises(DivergenceError, match=r"In round 1 .* curvature is not above 0"):
            small().fit(Task(X, CandidateSets.from_labels(y), bent))

    def test_callback(self) -> None:
        heard: list[tuple[int, int, float]] = []
        X, y = problem()
        report = fit(small(), X, y, callback=lambda *told: heard.append(told)).report
        assert heard == [(done + 1, 60, loss) for done, loss in enumerate(report.loss)]

        def stop(done: int, *_: object) -> None:
            if done == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit(small(), X, y, callback=stop)

    @pytest.mark.parametrize("rows", [1, 2, 5, 41])
    def test_few_rows(self, rows: int) -> None:
        X, y = problem(rows)
        for weighting in ("identification", "posterior"):
            assert np.isfinite(fit(small(), X, candidates(y), weighting).predict(X)).all()

    @pytest.mark.parametrize("rows", [2, 6])
    def test_a_leaf_for_each_row(self, rows: int) -> None:
        X, y = np.arange(1.0 * rows)[:, None], np.random.default_rng(0).normal(size=rows)
        assert_allclose(fit(Boosting(rows_per_leaf=1), X, y).predict(X), y, atol=1e-6)

    def test_constant_labels_and_columns(self) -> None:
        X, y = problem()
        assert_allclose(fit(small(), X, np.full(ROWS, 1e5)).predict(X), 1e5)
        wide = np.column_stack([X, np.full(ROWS, 1e9), np.zeros(ROWS), np.full(ROWS, np.nan)])
        assert explained(fit(small(), wide, y), wide, y) > 0.9
        nothing = np.full((ROWS, 2), 3.0)
        assert_allclose(fit(small(), nothing, y).predict(nothing), y.mean())

    def test_a_leaf_of_one_far_row(self) -> None:
        """Its curvature under the absolute loss is next to nothing, and yet it may be a leaf."""
        X = np.arange(50.0)[:, None]
        y = np.r_[1e6, np.random.default_rng(0).normal(size=49)]
        far = fit(Boosting(rows_per_leaf=1), X, y, loss="absolute").predict(X)
        assert far[0] > 0.9e6
        assert np.abs(far[1:]).max() < 10

    def test_fitted(self) -> None:
        X, y = problem()
        fitted = fit(small(), X, candidates(y), "posterior")
        for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
            assert_array_equal(other.predict(X), fitted.predict(X))
        assert_allclose(fitted.training_prediction, fitted.predict(X), rtol=1e-12)
        assert pickle.loads(pickle.dumps(fitted)).training_prediction is None
        assert_allclose(fitted.importance.sum(), 1.0)
        assert fitted.importance.argmax() == 0
        assert fitted.importance[2] < 0.2


class TestSameBits:
    def test_seeds(self) -> None:
        X, y = problem()
        one, same, other = (fit(small(), X, candidates(y), "posterior", seed=s).predict(X) for s in (3, 3, 4))
        assert_array_equal(one, same)
        assert not np.allclose(one, other)

    def test_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("plr.learners.trees._ENTRIES_PER_THREAD", 1)
        X, y = problem(30_000)
        learner = small(trees=4, leaves=16, column_fraction=0.7, warm_up=2)
        one, two = (fit(learner, X, candidates(y, 4), "posterior", n_jobs=jobs) for jobs in (1, 2))
        assert_array_equal(two.predict(X), one.predict(X))
        assert_array_equal(two.report.loss, one.report.loss)

    def test_fits_in_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """LightGBM's threads are the process's; fits that ask for different numbers do not disturb each other."""
        monkeypatch.setattr("plr.learners.trees._ENTRIES_PER_THREAD", 1)
        X, y = problem(3000)

        def run(jobs: int) -> np.ndarray:
            return fit(small(trees=3), X, y, n_jobs=jobs).predict(X)

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(run, [1, 2, 1, 2]))
        for other in found[1:]:
            assert_array_equal(other, found[0])

    def test_folds(self) -> None:
        X, y = problem()
        model = PartialLabelRegressor(small(trees=10), random_state=0, cv=3)
        one, two = (model.set_params(n_jobs=n).fit(X, candidates(y)).identify().probabilities for n in (1, 2))
        assert_array_equal(one, two)


class TestColumns:
    def test_missing_entries(self) -> None:
        X, y = problem()
        gaps = X.copy()
        gaps[y > 105, 0] = np.nan
        fitted = fit(small(), gaps, y)
        assert explained(fitted, gaps, y) > 0.9
        assert fitted.predict(np.array([[np.nan, 0.0, 0.0]])) > 105

    def test_categories_have_no_order(self) -> None:
        random = np.random.default_rng(0)
        kind = random.integers(12, size=ROWS)
        effect, renumbered = random.permutation(12), random.permutation(12)
        y = 1.0 * effect[kind]
        learner = small(trees=20, leaves=3)
        named = small(trees=20, leaves=3, categorical=[0])
        before, after = kind[:, None].astype(float), renumbered[kind][:, None].astype(float)
        assert_allclose(fit(named, before, y).predict(before), fit(named, after, y).predict(after), atol=1e-6)
        assert explained(fit(named, before, y), before, y) > explained(fit(learner, before, y), before, y) + 0.1
        told = fit(learner, before, y, categorical=(0,))
        assert_array_equal(told.predict(before), fit(named, before, y).predict(before))

    @pytest.mark.parametrize("bad", [-1.0, 0.5, 1e10])
    def test_categories_are_numbered_from_zero(self, bad: float) -> None:
        X = np.zeros((5, 2))
        X[3, 1] = bad
        with pytest.raises(FeatureError, match=r"Column 1 is categorical and has .* in row 3; number its categories"):
            fit(small(categorical=[1]), X, np.arange(5.0))

    def test_a_frame_with_categories(self) -> None:
        random = np.random.default_rng(0)
        kind = random.choice(["a", "b", "c", None], ROWS)
        size = random.normal(size=ROWS)
        y = size + pd.Series(kind).map({"a": 5.0, "b": -5.0, "c": 5.0}).fillna(0).to_numpy()
        frame = pd.DataFrame({"kind": kind, "size": size})
        learner = Boosting(monotone={"size": 1})
        model = PartialLabelRegressor(learner, random_state=0).fit(frame, candidates(y))
        assert model.score(frame, y) > 0.95
        new = pd.DataFrame({"kind": ["a", "b", "c", None, "d"], "size": 0.0})
        found = model.predict(new)
        assert_allclose(found[:4], [5, -5, 5, 0], atol=1.0)
        assert found[4] == found[3]
        clash = PartialLabelRegressor(Boosting(monotone={"kind": 1}))
        with pytest.raises(ParameterError, match="an order in column 0, whose categories have none"):
            clash.fit(frame, y)

    @pytest.mark.parametrize("monotone", [(1, 0, 0), {0: 1}, np.array([1, 0, 0]), {0: np.int64(1), 2: 0}], ids=str)
    def test_monotone(self, monotone: Any) -> None:
        X, y = problem()
        line = np.column_stack([np.linspace(-3, 3, 200), np.zeros((200, 2))])
        assert np.diff(fit(small(), X, y).predict(line)).min() < -0.1
        assert np.diff(fit(small(monotone=monotone), X, y).predict(line)).min() >= 0
        falling = fit(small(monotone={0: -1}), X, y).predict(line)
        assert np.diff(falling).max() <= 0


class TestValidation:
    @pytest.mark.parametrize("monitor", ["loss", "evidence"])
    @pytest.mark.parametrize("weighting", ["progressive", "posterior"])
    def test_fraction(self, weighting: str, monitor: str) -> None:
        X, y = problem()
        learner = small(validation_fraction=0.25, monitor=monitor, learning_rate=0.5)
        fitted = fit(learner, X, candidates(y), weighting)
        report = fitted.report
        assert len(report.validation) == report.rounds == 60
        assert report.best_round == report.validation.argmin()
        assert fitted.booster.num_trees() == report.best_round + 1
        assert fitted.training_prediction is None

    def test_fraction_rows_are_not_trained_on(self) -> None:
        """Spoiling the labels of rows set aside changes the scores alone."""
        X, y = problem()
        held = np.sort(np.random.default_rng([7, 1]).permutation(ROWS)[:150])
        spoiled = y.copy()
        spoiled[held] = y[held][::-1]
        learner = small(validation_fraction=0.25)
        one, other = (fit(learner, X, labels, seed=7).report for labels in (y, spoiled))
        assert_array_equal(one.loss, other.loss)
        assert (other.validation > one.validation).all()

    def test_given_rows(self) -> None:
        """With plain labels as their target, the score is the squared error."""
        X, y = problem()
        V, v = X[:100] + 0.1, y[:100]
        fitted = fit(
            small(scale_target=False), X, candidates(y), "progressive", validation=(V, CandidateSets.from_labels(v))
        )
        report = fitted.report
        assert_allclose(report.validation[report.best_round], np.mean((fitted.predict(V) - v) ** 2), rtol=1e-6)

    def test_monitors_differ(self) -> None:
        X, y = problem()
        S = candidates(y)
        by_loss, by_evidence = (
            fit(small(monitor=m), X, S, validation=(X[:100], S[:100])).report for m in ("loss", "evidence")
        )
        assert_array_equal(by_loss.loss, by_evidence.loss)
        assert not np.allclose(by_loss.validation, by_evidence.validation)

    def test_patience(self) -> None:
        X, y = problem()
        judge = (X[:100], CandidateSets.from_labels(200 - y[:100]))
        report = fit(small(trees=500, patience=3), X, y, validation=judge).report
        assert report.rounds == report.best_round + 4 < 500

    @pytest.mark.parametrize(
        ("changed", "start", "first"),
        [({"warm_up": 12}, False, 12), ({}, False, 20), ({"learning_rate": 0.5}, False, 6), ({"warm_up": 0}, True, 20)],
        ids=["given", "auto, a third", "auto, by the rate", "start"],
    )
    def test_patience_begins_with_the_rule(self, changed: dict[str, Any], start: bool, first: int) -> None:
        X, y = problem()
        S = candidates(y)
        judge = (X[:100], CandidateSets.from_labels(200 - y[:100]))
        given = S.prior_or_uniform if start else None
        report = fit(small(patience=3, **changed), X, S, "posterior", validation=judge, start=given).report
        assert report.best_round == report.validation.argmin() < first
        assert report.rounds == first + report.validation[first:].argmin() + 4

    def test_not_both(self) -> None:
        X, y = problem()
        with pytest.raises(ParameterError, match="not both"):
            fit(small(validation_fraction=0.5), X, y, validation=(X, CandidateSets.from_labels(y)))

    def test_nothing_to_split_by(self) -> None:
        y = np.arange(40.0)
        fitted = fit(small(validation_fraction=0.5, patience=2), np.zeros((40, 1)), y)
        assert fitted.report.best_round == 0
        assert fitted.report.rounds == 3
