"""The objectives for people who keep their own call of LightGBM or XGBoost."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import lightgbm
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from plr import CandidateSets, make_candidates
from plr.errors import LengthError, ParameterError
from plr.learners import Boosting, Task, objectives
from plr.learners.objectives import Metric, Objective
from plr.losses import LOSSES, get_loss
from plr.weighting import Posterior, Rule, get_weighting
from plr.weighting.rule import thread_count

ROWS, ROUNDS = 600, 60
SETTINGS = {"num_leaves": 8, "verbosity": -1, "num_threads": 1, "metric": "none"}


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, CandidateSets]:
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, 3))
    y = 50 + 10 * np.sin(X[:, 0]) + 5 * X[:, 1] + 0.1 * random.normal(size=ROWS)
    return X, y, make_candidates(y, 2, random_state=0)


def dataset(X: np.ndarray, made: Any, **more: Any) -> lightgbm.Dataset:
    return lightgbm.Dataset(X, np.zeros(len(X)), init_score=np.full(len(X), made.initial_score), **more)


def train(X: np.ndarray, made: Any, **more: Any) -> np.ndarray:
    booster = lightgbm.train(SETTINGS | {"objective": made.objective}, dataset(X, made), ROUNDS, **more)
    return booster.predict(X) + made.initial_score


def close(prediction: np.ndarray, y: np.ndarray, least: float = 0.9) -> bool:
    return bool(1 - np.mean((prediction - y) ** 2) / np.var(y) > least)


class TestLightGBM:
    @pytest.mark.parametrize("loss", ["squared", "absolute"])
    def test_same_trees_as_the_learner(self, data, loss):
        """It is the same code, so the learner's trees are those of one's own call."""
        X, y, S = data
        rule = Rule(Posterior(), get_loss(loss))
        learner = Boosting(
            trees=ROUNDS,
            row_fraction=1.0,
            warm_up=20,
            scale_target=False,
            params={"min_data_in_bin": 3, "min_sum_hessian_in_leaf": 1e-3},
        )
        ours = learner.fit(Task(X, S, rule, n_jobs=1)).predict(X)
        theirs = train(X, objectives.for_lightgbm(S, "posterior", loss))
        assert_allclose(theirs, ours, rtol=1e-9)
        assert close(theirs, y)

    def test_regressor(self, data):
        X, y, S = data
        made = objectives.for_lightgbm(S, "identification")
        model = lightgbm.LGBMRegressor(objective=made.objective, n_estimators=ROUNDS, **SETTINGS)
        model.fit(X, y, init_score=np.full(ROWS, made.initial_score))
        found = model.predict(X) + made.initial_score
        assert_allclose(found, train(X, made), rtol=1e-9)

    def test_labels_of_the_data_are_not_looked_at(self, data):
        X, y, S = data
        made = objectives.for_lightgbm(S)
        settings = SETTINGS | {"objective": made.objective}
        score = np.full(ROWS, made.initial_score)
        one, other = (
            lightgbm.train(settings, lightgbm.Dataset(X, label, init_score=score), 5).predict(X)
            for label in (y, np.zeros(ROWS))
        )
        assert_array_equal(one, other)

    def test_a_second_fit_is_the_first_again(self, data):
        X, _, S = data
        made = objectives.for_lightgbm(S)
        assert_array_equal(train(X, made), train(X, made))
        for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert_array_equal(train(X, copied), train(X, made))

    @pytest.mark.parametrize("monitor", ["loss", "evidence"])
    def test_early_stopping_on_other_rows(self, data, monitor):
        X, _, S = data
        made = objectives.for_lightgbm(S[:400])
        train_rows = dataset(X[:400], made)
        seen: dict[str, Any] = {}
        booster = lightgbm.train(
            SETTINGS | {"objective": made.objective, "learning_rate": 0.5},
            train_rows,
            300,
            valid_sets=[dataset(X[400:], made, reference=train_rows)],
            feval=made.metric(S[400:], monitor),
            callbacks=[lightgbm.early_stopping(10, verbose=False), lightgbm.record_evaluation(seen)],
        )
        (scores,) = seen["valid_0"].values()
        assert booster.best_iteration == np.argmin(scores) + 1 < 300

    def test_metric_of_the_rows_trained_on(self, data):
        X, _, S = data
        made = objectives.for_lightgbm(S, "progressive")
        seen: dict[str, Any] = {}
        rows = dataset(X, made)
        settings = SETTINGS | {"objective": made.objective}
        lightgbm.train(
            settings, rows, 30, valid_sets=[rows], feval=made.metric(), callbacks=[lightgbm.record_evaluation(seen)]
        )
        scores = seen["training"]["negative_evidence"]
        assert len(scores) == 30
        assert scores[-1] < scores[0]

    def test_sample_weight(self, data):
        X, y, _ = data
        spoiled, weight = np.where(np.arange(ROWS) % 2, y, -y), 1.0 * (np.arange(ROWS) % 2)
        assert close(train(X, objectives.for_lightgbm(spoiled, sample_weight=weight)), y)


class TestXGBoost:
    def test_train(self, data):
        xgboost = pytest.importorskip("xgboost")
        X, y, S = data
        made = objectives.for_xgboost(S[:400], "posterior")
        seen: dict[str, Any] = {}
        settings = {"base_score": made.initial_score, "disable_default_eval_metric": True, "nthread": 1}

        def run() -> np.ndarray:
            booster = xgboost.train(
                settings | {"max_depth": 3, "eta": 0.1},
                xgboost.DMatrix(X[:400]),
                300,
                obj=made.objective,
                evals=[(xgboost.DMatrix(X[400:]), "more")],
                custom_metric=made.metric(S[400:]),
                early_stopping_rounds=10,
                evals_result=seen,
                verbose_eval=False,
            )
            assert booster.best_iteration == np.argmin(seen["more"]["negative_evidence"])
            return booster.predict(xgboost.DMatrix(X))

        first = run()
        assert close(first, y, 0.8)
        assert_array_equal(run(), first)

    def test_regressor(self, data):
        xgboost = pytest.importorskip("xgboost")
        X, y, S = data
        made = objectives.for_xgboost(S, "identification")
        settings = {"n_estimators": ROUNDS, "max_depth": 3, "learning_rate": 0.1, "n_jobs": 1}
        model = xgboost.XGBRegressor(objective=made.objective, base_score=made.initial_score, **settings)
        assert close(model.fit(X, y).predict(X), y, 0.8)

    def test_weights_in_the_data(self, data):
        xgboost = pytest.importorskip("xgboost")
        X, _, S = data
        made = objectives.for_xgboost(S)
        with pytest.raises(ParameterError, match="The data carry weights"):
            xgboost.train({}, xgboost.DMatrix(X, weight=np.ones(ROWS)), 1, obj=made.objective)


class TestWhenAFitBegins:
    """A fit begins with its first round, and goes on until another begins, whatever its predictions look like."""

    def rounds(self, made: Any, predictions: list[np.ndarray], data: Any) -> list[np.ndarray]:
        return [made.objective(prediction, data)[0] for prediction in predictions]

    @pytest.fixture
    def given(self, data) -> Any:
        return dataset(data[0], objectives.for_lightgbm(data[2])).construct()

    def test_a_fit_that_cannot_split_leaves_its_warm_up(self, data, given):
        _, _, S = data
        made = objectives.for_lightgbm(S, "identification", warm_up=3)
        still = np.full(ROWS, made.initial_score)
        found = self.rounds(made, [still] * 5, given)
        warm = Objective(S, Rule(get_weighting("average"), get_loss("squared"))).round(still).gradient
        own = Objective(S, Rule(get_weighting("identification"), get_loss("squared"))).round(still).gradient
        for gradient, wanted in zip(found, [warm, warm, warm, own, own], strict=True):
            assert_array_equal(gradient, wanted)

    def test_trees_of_a_fit_that_cannot_split(self, data):
        """LightGBM goes on asking while trees find no split; the scale is learned all the same."""
        X, _, S = data
        seen = []
        made = objectives.for_lightgbm(S, warm_up=2)

        def objective(score: np.ndarray, rows: Any) -> Any:
            seen.append(made.objective(score, rows))
            return seen[-1]

        booster = lightgbm.Booster(SETTINGS | {"min_data_in_leaf": ROWS}, dataset(X, made))
        for _ in range(4):
            booster.update(fobj=objective)
        assert_array_equal(seen[0][0], seen[1][0])
        assert not np.array_equal(seen[1][0], seen[2][0])
        assert made._core._rounds == 4

    @pytest.mark.parametrize("varying", [False, True])
    @pytest.mark.parametrize("same_data", [False, True])
    def test_two_fits_are_as_two_objects(self, data, varying, same_data):
        X, y, S = data
        score = y + 3.0 if varying else np.full(ROWS, objectives.for_lightgbm(S).initial_score)

        def grow(made: Any, rows: Any) -> np.ndarray:
            booster = lightgbm.Booster(SETTINGS, rows)
            for _ in range(30):
                booster.update(fobj=made.objective)
            return booster.predict(X)

        made = objectives.for_lightgbm(S, "posterior", warm_up=5)
        rows = lightgbm.Dataset(X, np.zeros(ROWS), init_score=score)
        again = rows if same_data else lightgbm.Dataset(X, np.zeros(ROWS), init_score=score)
        first, second = grow(made, rows), grow(made, again)
        fresh = grow(objectives.for_lightgbm(S, "posterior", warm_up=5), rows)
        assert_array_equal(first, fresh)
        assert_array_equal(second, fresh)

    def test_fits_on_the_same_data_from_other_scores(self, data, given):
        _, y, S = data
        made = objectives.for_lightgbm(S, "posterior", warm_up=1)
        begun, moved = np.full(ROWS, 50.0), np.linspace(40, 60, ROWS)
        wanted = self.rounds(objectives.for_lightgbm(S, "posterior", warm_up=1), [begun, moved], given)
        for first in ([begun, moved], [begun + 1, begun + 2, moved], [y, moved]):
            self.rounds(made, first, given)
            for gradient, fresh in zip(self.rounds(made, [begun, moved], given), wanted, strict=True):
                assert_array_equal(gradient, fresh)

    def test_it_can_be_said(self, data, given):
        _, _, S = data
        made = objectives.for_xgboost(S, "identification", warm_up=2)
        still = [np.full(ROWS, made.initial_score)] * 3
        first = self.rounds(made, still, given)
        made.begin()
        for gradient, wanted in zip(self.rounds(made, still, given), first, strict=True):
            assert_array_equal(gradient, wanted)

    def test_xgboost(self, data):
        xgboost = pytest.importorskip("xgboost")
        X, y, S = data

        def grow(made: Any, rows: Any) -> np.ndarray:
            return xgboost.train(
                {"base_score": made.initial_score, "max_depth": 3, "disable_default_eval_metric": True},
                rows,
                15,
                obj=made.objective,
            ).predict(rows)

        constant, varying = xgboost.DMatrix(X), xgboost.DMatrix(X, base_margin=y + 3.0)
        made = objectives.for_xgboost(S, warm_up=5)
        for rows in (constant, constant, varying, varying, constant):
            assert_array_equal(grow(made, rows), grow(objectives.for_xgboost(S, warm_up=5), rows))

    def test_a_regressor_of_xgboost_that_cannot_split(self, data):
        xgboost = pytest.importorskip("xgboost")
        _, y, S = data
        made = objectives.for_xgboost(S, warm_up=5)
        settings = {"n_estimators": 12, "base_score": 40.0, "objective": made.objective}
        model = xgboost.XGBRegressor(**settings)
        model.fit(np.ones((ROWS, 1)), y)
        assert made._core._rounds == 12
        # Trees without a split are one leaf, and predictions come back to where they began.
        model.fit(np.ones((ROWS, 1)), y)
        assert made._core._rounds == 12


class TestErrors:
    def test_other_rows(self, data):
        X, _, S = data
        made = objectives.for_lightgbm(S[:100])
        with pytest.raises(LengthError, match="There are 600 predictions and 100 candidate sets"):
            train(X, made)
        with pytest.raises(LengthError, match="There are 3 predictions and 600 candidate sets"):
            objectives.for_lightgbm(S).metric()(np.zeros(3), np.zeros(3))

    def test_several_outputs(self, data):
        _, y, S = data
        made = objectives.for_lightgbm(S)
        with pytest.raises(ParameterError, match=r"outputs of shape \(600, 2\); .* one output per row"):
            made.objective(y, np.zeros((ROWS, 2)))
        one, column = (made.objective(y, np.full(shape, 50.0))[0] for shape in (ROWS, (ROWS, 1)))
        assert_array_equal(one, column)

    def test_weights_in_the_data(self, data):
        X, _, S = data
        made = objectives.for_lightgbm(S)
        with pytest.raises(ParameterError, match="give them as sample_weight when making the objective"):
            lightgbm.train(SETTINGS | {"objective": made.objective}, dataset(X, made, weight=np.full(ROWS, 2.0)), 1)

    def test_parameters(self, data):
        _, _, S = data
        with pytest.raises(ParameterError, match="did you mean 'evidence'"):
            objectives.for_lightgbm(S).metric(monitor="evidenc")
        with pytest.raises(ParameterError, match="did you mean 'posterior'"):
            objectives.for_xgboost(S, "posteriour")
        with pytest.raises(LengthError, match="sample_weight has shape"):
            objectives.for_lightgbm(S, sample_weight=np.ones(3))
        with pytest.raises(ParameterError, match="warm_up must be at least 0"):
            objectives.for_lightgbm(S, warm_up=-1)


class TestObjective:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("weighted", [False, True])
    def test_mean_curvature_is_one(self, data, loss, weighted):
        """In any units, with any weights: what a library counts in curvature counts rows."""
        _, _, S = data
        weight = np.random.default_rng(0).uniform(0, 1e3, ROWS) if weighted else None
        for factor in (1e-6, 1.0, 1e6):
            sets = CandidateSets(factor * S.values, S.offsets)
            objective = Objective(sets, Rule(get_weighting("posterior"), get_loss(loss)), weight)
            assert_allclose(objective.round(np.full(ROWS, 50 * factor)).hessian.mean(), 1.0, rtol=1e-5)

    def test_a_step_leads_to_the_weighted_mean(self, data):
        _, _, S = data
        prediction = np.linspace(30, 70, ROWS)
        found = Objective(S, Rule(get_weighting("average"), get_loss("squared"))).round(prediction)
        assert_allclose(prediction - found.gradient / found.hessian, S.mean(), rtol=1e-5)
        assert_allclose(found.loss, np.mean([np.mean((p - s) ** 2) for p, s in zip(prediction, S, strict=True)]))

    @pytest.mark.parametrize("loss", LOSSES)
    def test_initial_score_has_the_least_loss(self, data, loss):
        _, _, S = data
        rule = Rule(get_weighting("average"), get_loss(loss))
        objective = Objective(S, rule, np.linspace(0, 2, ROWS))
        best = objective.initial_score
        least, *others = (objective.round(np.full(ROWS, best + step)).loss for step in (0.0, -0.1, 0.1))
        assert least < min(others)

    def test_initial_score_of_a_start(self, data):
        _, _, S = data
        first = np.zeros(S.values.size)
        first[S.offsets[:-1]] = 1.0
        rule = Rule(get_weighting("posterior"), get_loss("squared"))
        objective = Objective(S, rule, start=first, start_rounds=1)
        assert_allclose(objective.initial_score, S.values[S.offsets[:-1]].mean())
        given, ruled = (objective.round(np.full(ROWS, 50.0)).loss for _ in range(2))
        assert_allclose(given, np.mean((S.values[S.offsets[:-1]] - 50) ** 2))
        assert ruled != pytest.approx(given, rel=1e-3)

    def test_the_absolute_loss_of_rows_met_exactly_is_bounded(self):
        S = CandidateSets.from_labels(np.r_[np.zeros(90), np.ones(10)])
        found = Objective(S, Rule(get_weighting("average"), get_loss("absolute"))).round(np.zeros(100))
        # One step of the ten rows that are off, were they a leaf with ten of those that are met.
        step = -found.gradient[80:].sum() / found.hessian[80:].sum()
        assert 0.001 < step < 1

    def test_copies_share_what_never_changes(self, data):
        _, _, S = data
        objective = Objective(S, Rule(get_weighting("posterior"), get_loss("squared")))
        objective.round(np.full(ROWS, 50.0))
        copied = copy.deepcopy(objective)
        assert copied.S is S
        scale = objective.noise_scale
        copied.round(np.full(ROWS, 40.0))
        assert objective.noise_scale == scale != copied.noise_scale


class TestMetric:
    @pytest.mark.parametrize("monitor", ["loss", "evidence"])
    @pytest.mark.parametrize("weighting", ["average", "posterior"])
    def test_better_predictions_score_lower(self, data, weighting, monitor):
        _, y, S = data
        rule = Rule(get_weighting(weighting), get_loss("squared"))
        scores = []
        for off in (0.0, 1.0, 5.0):
            metric = Metric(S, rule, monitor, 10.0)
            scores.append([metric.score(y + off) for _ in range(20)][-1])
        assert scores == sorted(scores)

    def test_sample_weight(self, data):
        _, y, S = data
        made = objectives.for_lightgbm(S, "average")
        spoiled = np.where(np.arange(ROWS) < 300, y, 0.0)
        half = 1.0 * (np.arange(ROWS) < 300)
        name, value, higher = made.metric(monitor="loss", sample_weight=half)(y, spoiled)
        assert_allclose(value, made.metric(S[:300], "loss")(y[:300], y[:300])[1])
        assert (name, higher) == ("loss", False)


class TestThreads:
    @pytest.mark.parametrize(
        ("n_jobs", "limit", "threads"), [(None, "", 5), (None, "2", 2), (None, "none", 5), (3, "2", 3), (-1, "2", 5)]
    )
    def test_how_many(self, monkeypatch, n_jobs, limit, threads):
        monkeypatch.setattr("joblib.cpu_count", lambda: 5)
        monkeypatch.setattr("joblib.effective_n_jobs", lambda n: n if n > 0 else 5)
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
        assert thread_count(n_jobs) == threads

    @pytest.mark.parametrize("weighting", ["identification", "posterior"])
    def test_rows_are_shared_out(self, weighting):
        """Also where one set has more candidates than a thread's part."""
        random = np.random.default_rng(0)
        sizes = random.integers(1, 9, 50_000)
        sizes[777] = 200_000
        S = CandidateSets(random.normal(size=sizes.sum()), np.r_[0, np.cumsum(sizes)])
        rule = Rule(get_weighting(weighting), get_loss("squared"))
        prediction, state = random.normal(size=50_000), rule.initial_state(0.3)
        alone = rule.evaluate(prediction, S, state)
        shared = rule.evaluate(prediction, S, state, threads=5, out=rule.evaluate(-prediction, S, state))
        for one, other in zip(alone, shared, strict=True):
            assert_array_equal(one, other)
        one, other = (rule.update_scale(prediction, S, state, alone.weights, threads=n) for n in (1, 5))
        assert_array_equal(one, other)
