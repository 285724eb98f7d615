"""Any scikit-learn regressor on candidate sets: one contract for all, rounds, folds and seeds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, QuantileRegressor, Ridge, SGDRegressor
from sklearn.model_selection import RepeatedKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import ParameterError
from plr.folds import make_folds, out_of_fold
from plr.learners import Refit, Task
from plr.losses import Squared
from plr.noise import fit_noise
from plr.weighting import Posterior, Rule
from support.refit_problem import ROWS, Recorder, problem

POSTERIOR = Rule(Posterior(), Squared())


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    # Threads that wait for each other on a busy machine would be most of the time.
    with threadpool_limits(limits=1):
        yield


@pytest.fixture
def recorded():
    Recorder.fits.clear()
    Recorder.seen.clear()
    return Recorder


REGRESSORS = {
    "ridge": Ridge(),
    "neighbours": KNeighborsRegressor(6, weights="distance"),
    "forest": RandomForestRegressor(10),
    "gaussian process": GaussianProcessRegressor(RBF(2.0) + WhiteKernel(0.1), normalize_y=True, optimizer=None),
    "support vectors": SVR(C=100.0),
    "histogram boosting": HistGradientBoostingRegressor(max_iter=10, learning_rate=0.3, min_samples_leaf=5),
    "tree": DecisionTreeRegressor(min_samples_leaf=4),
    "extra trees": ExtraTreesRegressor(10),
    "pipeline": make_pipeline(StandardScaler(), Ridge()),
    "network": TransformedTargetRegressor(
        MLPRegressor(hidden_layer_sizes=(8,), solver="lbfgs", max_iter=60), transformer=StandardScaler()
    ),
    "lasso": Lasso(0.1),
    "partial least squares": PLSRegression(2),
    "kernel ridge": make_pipeline(StandardScaler(), KernelRidge(0.1, kernel="poly", degree=2)),
    "lightgbm": LGBMRegressor(n_estimators=20, min_child_samples=5, n_jobs=1, verbosity=-1),
}
# One of its own, one in a pipeline and one of another library; the others are for the full run.
QUICK = ("partial least squares", "kernel ridge", "lightgbm")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "regressor",
    [pytest.param(one, id=name, marks=[pytest.mark.slow] * (name not in QUICK)) for name, one in REGRESSORS.items()],
)
def test_contract(regressor):
    X, y, S, truth = problem()
    before = {name: repr(value) for name, value in vars(regressor).items()}
    model = PartialLabelRegressor(Refit(regressor, max_rounds=6), random_state=0).fit(X, S)
    assert {name: repr(value) for name, value in vars(regressor).items()} == before
    prediction = model.predict(X)
    assert prediction.shape == (ROWS,)
    assert model.score(X, y) > 0.75
    assert np.mean(model.identify().index == truth) > 0.6

    report = model.model_.report
    assert 1 <= report.rounds == model.n_iter_ <= 6
    assert len(report.loss) == len(report.movement) == len(report.noise_scale) == report.rounds
    assert report.noise_scale[-1] < 0.5 * report.noise_scale[0] < y.std()

    workers = clone(model).set_params(n_jobs=2).fit(X, S)
    assert_array_equal(workers.predict(X), prediction)
    assert_array_equal(workers.model_.out_of_fold, model.model_.out_of_fold)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), prediction)


class TestRounds:
    def test_ridge_recovers_a_linear_truth(self) -> None:
        X, y, S, truth = problem(400, false_labels=4)
        model = PartialLabelRegressor(Ridge(1e-3), random_state=0).fit(X, S)
        supervised = Ridge(1e-3).fit(X, y)
        assert_allclose(model.model_.regressor.coef_, supervised.coef_, atol=0.2)
        assert_allclose(model.model_.regressor.intercept_, supervised.intercept_, atol=0.2)
        assert model.n_iter_ < 20, "the weights come to rest"
        assert model.model_.report.movement[-1] <= 1e-3
        assert_allclose(model.noise_scale_, 0.85, rtol=0.2)
        assert np.mean(model.identify().index == truth) > 0.95

    @pytest.mark.slow
    def test_weights_out_of_fold_beat_those_of_rows_the_model_has_seen(self) -> None:
        """A model that has seen a row agrees with whatever it was told about it."""
        gains = []
        for seed in range(8):
            X, y, S, _ = problem(300, false_labels=4, seed=seed)
            rows = np.arange(200)
            learner = Refit(DecisionTreeRegressor(), max_rounds=8)
            unseen, seen = (
                PartialLabelRegressor(learner.set_params(cv=cv), random_state=seed).fit(X[rows], S[rows])
                for cv in (5, [(rows, rows)])
            )
            errors_squared = [np.mean((model.predict(X[200:]) - y[200:]) ** 2) for model in (unseen, seen)]
            gains.append(np.log(errors_squared[1] / errors_squared[0]))
        assert np.mean(gains) > np.log(1.3)
        assert np.mean(gains) / (np.std(gains, ddof=1) / np.sqrt(8)) > 4

    def test_single_candidates_are_one_plain_fit(self, recorded) -> None:
        X, y, _, _ = problem()
        model = PartialLabelRegressor(Lasso(3.0), "posterior", "absolute").fit(X, y)
        assert_array_equal(model.predict(X), Lasso(3.0).fit(X, y).predict(X))
        assert model.model_.out_of_fold is None
        PartialLabelRegressor(recorded()).fit(X, y)
        assert len(recorded.fits) == 1

    def test_average_is_one_fit_to_the_means(self, recorded) -> None:
        X, _, S, _ = problem()
        model = PartialLabelRegressor(recorded(), "average", random_state=0).fit(X, S)
        assert len(recorded.fits) == 1
        assert_allclose(recorded.fits[0][1], S.mean())
        assert_array_equal(model.model_.report.movement, [0.0])
        # Out-of-fold predictions are then made when they are asked for.
        model.identify()
        assert len(recorded.fits) == 6

    def test_identify_asks_the_models_of_the_last_round(self, recorded) -> None:
        X, _, S, _ = problem()
        model = PartialLabelRegressor(Refit(recorded(), cv=3, max_rounds=2, tol=0.0), random_state=0).fit(X, S)
        assert len(recorded.fits) == 3 * 2 + 1
        model.identify()
        assert len(recorded.fits) == 3 * 2 + 1

    def test_noise_is_that_of_rows_not_seen(self) -> None:
        X, _, S, _ = problem()
        model = PartialLabelRegressor(KNeighborsRegressor(1), random_state=0).fit(X, S)
        seen, unseen = (fit_noise(given, S).scale for given in (model.predict(X), model.model_.out_of_fold))
        assert model.noise_scale_ == unseen
        assert unseen > 1.2 * seen, "the nearest neighbour of a row that was seen is the row"

    @pytest.mark.parametrize("loss", ["absolute", "huber"])
    def test_other_losses_fit_one_row_per_candidate(self, recorded, loss: str) -> None:
        X, _, S, _ = problem()
        weight = np.arange(ROWS) / 10.0
        PartialLabelRegressor(recorded(), "average", loss).fit(X, S, sample_weight=weight)
        features, labels, shares, *_ = recorded.fits[0]
        assert_array_equal(features, np.repeat(X[1:], 3, axis=0))
        assert_array_equal(labels, S.values[3:])
        assert_allclose(shares, np.repeat(weight[1:] / 3, 3))

    def test_candidates_without_weight_are_left_out(self, recorded) -> None:
        X, _, S, _ = problem()
        learner = Refit(recorded(), max_rounds=1)
        PartialLabelRegressor(learner, "identification", "absolute", random_state=0).fit(X, S)
        assert len(recorded.fits[-1][1]) == ROWS

    def test_rows_of_many_candidates_are_kept(self, recorded, monkeypatch) -> None:
        monkeypatch.setattr("plr.learners.refit.fits._NEGLIGIBLE", 0.5)
        X, _, S, _ = problem()
        PartialLabelRegressor(recorded(), "average", "absolute").fit(X, S)
        assert len(recorded.fits[0][1]) == 3 * ROWS

    def test_absolute_loss_learns(self) -> None:
        X, y, S, _ = problem(80)
        learner = Refit(QuantileRegressor(alpha=0.0), cv=3, max_rounds=8)
        model = PartialLabelRegressor(learner, loss="absolute", random_state=0).fit(X, S)
        assert model.score(X, y) > 0.99

    def test_start_is_the_first_weights(self, recorded) -> None:
        X, y, S, truth = problem()
        start = np.zeros(S.values.size)
        start[S.offsets[:-1] + truth] = 1.0
        Refit(recorded(), cv=2, max_rounds=1).fit(Task(X, S, POSTERIOR, start=start))
        (train, _), _ = make_folds(Task(X, S, POSTERIOR), 2)
        assert_allclose(recorded.fits[0][1], y[train])

    def test_density_of_false_labels(self) -> None:
        X, y, S, truth = problem()
        log_q = np.zeros(S.values.size)
        log_q[S.offsets[:-1] + truth] = -40.0
        fitted = Refit(Ridge(1e-9), max_rounds=2).fit(Task(X, S, POSTERIOR, log_q=log_q))
        assert_allclose(fitted.predict(X), Ridge(1e-9).fit(X, y).predict(X), rtol=1e-6)

    def test_callback(self) -> None:
        heard: list[tuple[int, int, float]] = []
        X, _, S, _ = problem()
        model = PartialLabelRegressor(Refit(Ridge(), max_rounds=4, tol=0.0))
        report = model.fit(X, S, callback=lambda *told: heard.append(told)).model_.report
        assert heard == [(done + 1, 4, report.loss[done]) for done in range(4)]

    def test_units_do_not_matter(self) -> None:
        X, _, S, _ = problem()
        sets = CandidateSets(S.values * 1e6, S.offsets)
        small, large = (
            PartialLabelRegressor(Ridge(), "progressive", random_state=0).fit(X, target) for target in (S, sets)
        )
        assert_allclose(large.predict(X), 1e6 * small.predict(X))
        raw = PartialLabelRegressor(Refit(Ridge(), scale_target=False), "progressive", random_state=0).fit(X, S)
        assert not np.allclose(raw.predict(X), small.predict(X))


class TestFolds:
    def test_groups_stay_together(self, recorded) -> None:
        X, _, S, _ = problem()
        groups = np.arange(ROWS) % 10
        X[:, 0] = groups
        PartialLabelRegressor(Refit(recorded(), cv=3, max_rounds=2)).fit(X, S, groups=groups)
        pairs = [(set(fitted[:, 0]), set(asked[:, 0])) for fitted, asked in recorded.seen if len(asked) < ROWS]
        assert len(pairs) == 6
        assert all(not fitted & asked for fitted, asked in pairs)

    def test_rows_without_weight_stay_with_their_group(self) -> None:
        X, _, S, _ = problem()
        groups, weight = np.arange(ROWS) // 5, (np.arange(ROWS) % 5 < 2).astype(float)
        weight[groups == 3] = 0.0
        folds = make_folds(Task(X, S, POSTERIOR, sample_weight=weight, groups=groups), 4)
        assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(ROWS))
        for train, test in folds:
            assert weight[train].all()
            assert not set(groups[train]) & set(groups[test])

    @pytest.mark.parametrize("groups", [None, np.arange(ROWS) % 7], ids=["rows", "groups"])
    def test_rows_without_weight_change_nothing(self, groups) -> None:
        X, _, S, _ = problem()
        weight = (np.arange(ROWS) % 3 > 0).astype(float)
        kept = weight > 0
        task = Task(X, S, POSTERIOR, sample_weight=weight, groups=groups)
        part = Task(X[kept], S[kept], POSTERIOR, groups=None if groups is None else groups[kept])
        learner = Refit(KNeighborsRegressor())
        fitted, alone = learner.fit(task), learner.fit(part)
        # Up to rounding: sums over all rows add zeros.
        assert_allclose(fitted.predict(X), alone.predict(X), rtol=1e-9)
        assert_allclose(fitted.out_of_fold[kept], alone.out_of_fold, rtol=1e-9)

    @pytest.mark.parametrize("weight", [[1.0, 0.0, 0.0], [1.0, 0.0, 2.0]], ids=["one row", "two rows"])
    def test_few_rows_of_weight(self, weight) -> None:
        S = CandidateSets.from_lists([[1.0, 5.0], [2.0, 9.0], [3.0]])
        fitted = Refit(Ridge()).fit(Task(np.eye(3), S, POSTERIOR, sample_weight=np.array(weight)))
        assert np.isfinite(fitted.predict(np.eye(3))).all()
        assert (fitted.out_of_fold is None) == (np.count_nonzero(weight) == 1)

    def test_rows_tested_more_than_once_get_the_mean(self) -> None:
        X, y, _, _ = problem()
        task = Task(X, CandidateSets.from_labels(y), POSTERIOR)
        learner = Refit(Ridge())
        together = out_of_fold(learner, task, RepeatedKFold(n_splits=3, n_repeats=2, random_state=0))
        folds = list(RepeatedKFold(n_splits=3, n_repeats=2, random_state=0).split(X))
        apart = [out_of_fold(learner, task, part) for part in (folds[:3], folds[3:])]
        assert_allclose(together, np.mean(apart, axis=0))

    def test_cv_of_the_regressor_holds_for_what_it_wraps(self, recorded) -> None:
        X, _, S, _ = problem()
        PartialLabelRegressor(Recorder(), cv=2, random_state=0).fit(X, S)
        assert {len(labels) for _, labels, *_ in recorded.fits} == {ROWS // 2, ROWS}
        recorded.fits.clear()
        PartialLabelRegressor(Refit(Recorder(), cv=3), cv=2, random_state=0).fit(X, S)
        assert {len(labels) for _, labels, *_ in recorded.fits} == {ROWS * 2 // 3, ROWS}


class TestSeeds:
    def test_open_seeds_are_set_and_all_differ(self, recorded) -> None:
        X, _, S, _ = problem()
        learner = Refit(recorded(inner=SGDRegressor()), cv=3, max_rounds=2, tol=0.0)
        PartialLabelRegressor(learner, random_state=0).fit(X, S)
        seeds = [seed for *_, outer, inner in recorded.fits for seed in (outer, inner)]
        assert len(set(seeds)) == len(seeds) == 2 * 7
        assert learner.regressor.random_state is learner.regressor.inner.random_state is None

    def test_given_seeds_are_kept(self, recorded) -> None:
        X, _, S, _ = problem()
        PartialLabelRegressor(recorded(7, SGDRegressor(random_state=8))).fit(X, S)
        assert {(outer, inner) for *_, outer, inner in recorded.fits} == {(7, 8)}

    def test_other_seed_other_forest(self) -> None:
        X, _, S, _ = problem()
        one, same, other = (
            PartialLabelRegressor(Refit(ExtraTreesRegressor(5), max_rounds=2), random_state=k).fit(X, S).predict(X)
            for k in (1, 1, 2)
        )
        assert_array_equal(one, same)
        assert not np.array_equal(one, other)


class TestLastFits:
    def test_predictions_are_the_mean_of_so_many_fits(self) -> None:
        X, y, S, _ = problem()
        learner = Refit(ExtraTreesRegressor(3), cv=2, max_rounds=2, last_fits=3)
        model, other = (PartialLabelRegressor(learner, random_state=0, n_jobs=k).fit(X, S) for k in (1, 2))
        # Such trees know their own rows by heart, whatever the seed.
        new = X + 0.1
        parts = [part.predict(new) for part in model.model_.models]
        assert len(parts) == 3
        assert not np.array_equal(parts[0], parts[1])
        assert_allclose(model.predict(new), np.mean(parts, axis=0))
        assert_array_equal(other.predict(new), model.predict(new))
        assert model.model_.regressor is model.model_.models[0].regressor
        # The rounds before are the same, and so is the first of the last fits.
        one = PartialLabelRegressor(clone(learner).set_params(last_fits=1), random_state=0).fit(X, S)
        assert_array_equal(one.predict(new), parts[0])
        assert_array_equal(one.model_.out_of_fold, model.model_.out_of_fold)
        assert len(PartialLabelRegressor(learner, random_state=0).fit(X, y).model_.models) == 3

    @pytest.mark.parametrize("last_fits", [0, 1.5, "three"])
    def test_bad_numbers_are_named(self, last_fits) -> None:
        X, y, _, _ = problem(20)
        with pytest.raises(ParameterError, match="last_fits"):
            PartialLabelRegressor(Refit(Ridge(), last_fits=last_fits)).fit(X, y)
