"""The options of the posterior weighting in every learner: density of false labels, missing truth."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import ParameterError
from plr.learners import MLP, Boosting, Learner, Linear, Module, Refit, Task, objectives
from plr.losses import Absolute, Squared
from plr.weighting import Posterior, Rule

ROWS = 300
LEARNERS: dict[str, Learner] = {
    "linear": Linear(),
    "mlp": MLP((16,), epochs=150),
    "boosting": Boosting(60, leaves=4, rows_per_leaf=10),
    "refit": Refit(Ridge(1e-3), max_rounds=8),
    "module": Module(lambda: torch.nn.Linear(2, 1), learning_rate=0.1, epochs=40, device="cpu"),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


def rows(*, even: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Labels that are common in one place and rare in others, or more evenly spread."""
    random = np.random.default_rng(0)
    X = random.uniform(0, 4, size=(ROWS, 2)) if even else random.gamma(1.0, size=(ROWS, 2))
    return X, 3 * X[:, 0] + X[:, 1] + 0.1 * random.normal(size=ROWS)


def lost(y: np.ndarray, share: float, seed: int = 0) -> tuple[CandidateSets, np.ndarray]:
    """Sets of three, a share of them without the truth."""
    random = np.random.default_rng(seed)
    table = random.uniform(y.min(), y.max(), (len(y), 3))
    gone = random.random(len(y)) < share
    table[~gone, 0] = y[~gone]
    return CandidateSets.from_padded(table), gone


class TestEveryLearner:
    @every_learner
    def test_other_rows_labels_as_false_ones(self, name: str) -> None:
        """After a wrong join a uniform q believes in common labels; the estimated one does not."""
        X, y = rows()
        S = make_candidates(y, 3, set_size="fixed", mechanism="marginal", random_state=0)
        errors = {}
        for q in ("uniform", "estimated"):
            model = PartialLabelRegressor(LEARNERS[name], Posterior(false_labels=q), random_state=0).fit(X, S)
            errors[q] = float(np.mean((model.predict(X) - y) ** 2))
        assert errors["estimated"] < 0.7 * errors["uniform"]

    @every_learner
    def test_rows_without_their_truth(self, name: str) -> None:
        X, y = rows(even=True)
        S, gone = lost(y, 0.25)
        plain, told, learned = (
            PartialLabelRegressor(LEARNERS[name], Posterior(missing_truth=share), random_state=0).fit(X, S)
            for share in (0.0, 0.25, "learned")
        )
        error = [float(np.abs(model.predict(X) - y).mean()) for model in (plain, told, learned)]
        assert max(error[1:]) < error[0]
        assert (plain.missing_share_, told.missing_share_) == (0.0, 0.25)
        assert_allclose(learned.missing_share_, 0.25, atol=0.12)
        for model in (told, learned):
            found = model.identify(X, S)
            assert_allclose(found.missing + np.add.reduceat(found.probabilities, S.offsets[:-1]), 1.0)
            assert found.missing[gone].mean() > 1.5 * found.missing[~gone].mean()
        assert_array_equal(plain.identify(X, S).missing, 0.0)

    @pytest.mark.parametrize(
        ("name", "q"),
        [
            *((name, "estimated") for name in LEARNERS),
            *(pytest.param(name, "uniform", marks=[pytest.mark.slow] * (name != "linear")) for name in LEARNERS),
        ],
    )
    def test_units_do_not_matter(self, name: str, q: str) -> None:
        """Where p is held against q, both must be per the same unit, whatever the labels are measured in."""
        X, y = rows()
        S, _ = lost(y, 0.1)
        options = Posterior(false_labels=q, missing_truth="learned")
        plain, moved = (
            PartialLabelRegressor(LEARNERS[name], options, random_state=0).fit(
                X, CandidateSets(S.values * unit, S.offsets)
            )
            for unit in (1.0, 2.0**12)
        )
        assert_allclose(moved.predict(X) / 2.0**12, plain.predict(X), rtol=1e-3, atol=1e-3)
        assert_allclose(moved.missing_share_, plain.missing_share_, rtol=1e-3)

    @every_learner
    def test_plain_labels_are_weighed_too(self, name: str) -> None:
        """With one candidate each and some of them wrong, fitting is robust regression."""
        X, y = rows()
        wrong = np.random.default_rng(1).random(ROWS) < 0.1
        noisy = np.where(wrong, y.max() + 20.0, y)
        plain, told = (
            PartialLabelRegressor(LEARNERS[name], Posterior(missing_truth=share), random_state=0).fit(X, noisy)
            for share in (0.0, 0.1)
        )
        errors = [np.abs(model.predict(X) - y).mean() for model in (plain, told)]
        assert errors[1] < 0.75 * errors[0]
        assert told.identify(X, CandidateSets.from_labels(noisy)).missing[wrong].min() > 0.5

    @every_learner
    def test_a_task_by_hand_finds_its_density(self, name: str) -> None:
        """The regressor hands the density over; a learner that is called directly makes the same."""
        X, y = rows()
        S, _ = lost(y, 0.1)
        task = Task(X, S, Rule(Posterior(false_labels="estimated", missing_truth=0.1), Squared()), seed=1)
        alone, told = (LEARNERS[name].fit(given).predict(X) for given in (task, task.prepared()))
        assert_allclose(alone, told, rtol=1e-6)

    @pytest.mark.parametrize("name", ["mlp", "boosting", "module"])
    @pytest.mark.parametrize("monitor", ["loss", "evidence"])
    def test_validation_rows_have_the_density_too(self, name: str, monitor: str) -> None:
        """Scaling the density by a constant is a change of evidence by its logarithm, and no other."""
        X, y = rows()
        S, _ = lost(y, 0.0)
        learner = clone(LEARNERS[name]).set_params(validation_fraction=0.3, monitor=monitor)
        low, high = (
            learner.fit(Task(X, S, Rule(Posterior(false_labels=_Even(height)), Squared()), seed=1)).report.validation
            for height in (0.01, 0.02)
        )
        assert_allclose(high - low, np.log(2) if monitor == "evidence" else 0.0, atol=1e-4)


class _Even:
    def __init__(self, height: float) -> None:
        self.height = height

    def __call__(self, values: Any) -> Any:
        return np.full(len(values), self.height)


class TestRegressor:
    def test_score_and_new_rows_go_by_the_same_density(self) -> None:
        X, y = rows()
        S, _ = lost(y, 0.0)
        q = stats.norm(4, 5)
        model = PartialLabelRegressor("linear", Posterior("gaussian", false_labels=q)).fit(X[:200], S[:200])
        new, T = X[200:], S[200:]

        def log_densities(scale: float) -> tuple[Any, Any]:
            terms = stats.norm(np.repeat(model.predict(new), 3), scale).logpdf(T.values) - q.logpdf(T.values)
            return terms, np.logaddexp.reduceat(terms, T.offsets[:-1])

        # These rows scatter a little more than those of training.
        wider = model.noise_.widened(model.predict(new), T).scale
        assert model.noise_scale_ < wider < 1.2 * model.noise_scale_
        assert_allclose(model.score(new, T), (log_densities(wider)[1] - np.log(3)).mean())
        terms, whole = log_densities(model.noise_scale_)
        assert_allclose(model.identify(new, T).probabilities, np.exp(terms - np.repeat(whole, 3)), atol=1e-9)

    def test_identify_training_rows(self) -> None:
        X, y = rows()
        S, gone = lost(y, 0.2)
        model = PartialLabelRegressor("linear", Posterior(missing_truth="learned"), random_state=0).fit(X, S)
        found = model.identify()
        assert found.missing[gone].mean() > 0.6
        assert found.missing[~gone].mean() < 0.3

    def test_pickle_and_clone(self) -> None:
        X, y = rows()
        S, _ = lost(y, 0.1)
        options = Posterior(false_labels=y, missing_truth=0.1)
        model = PartialLabelRegressor("linear", options, random_state=0).fit(X, S)
        again = pickle.loads(pickle.dumps(model))
        assert again.score(X[1:], S[1:]) == model.score(X[1:], S[1:])
        assert clone(model).fit(X, S).score(X, S) == model.score(X, S)

    @pytest.mark.parametrize("name", [name for name in LEARNERS if name != "refit"])
    def test_a_scale_for_each_row_is_refused_by_name(self, name: str) -> None:
        X, y = rows()
        with pytest.raises(ParameterError, match=r"plr\.learners\.Refit can"):
            PartialLabelRegressor(LEARNERS[name], Posterior(scale="row")).fit(X, y)


class TestRefit:
    def test_labels_are_means_and_rows_count_by_their_weight(self) -> None:
        """The last fit, by hand: weighted least squares on the mean label of the weights that add up."""
        X, y = rows()
        S, _ = lost(y, 0.3)
        rule = Rule(Posterior(missing_truth=0.3), Squared())
        fitted = Refit(LinearRegression(), cv=[(np.arange(ROWS), np.arange(ROWS))], max_rounds=1).fit(Task(X, S, rule))
        flat = CandidateSets.from_lists(S.to_lists())
        task = Task(X, flat, rule)
        first = LinearRegression().fit(X, S.mean()).predict(X)
        state = rule.initial_state(float(S.values.std()))
        log_q = np.full(S.values.size, -np.log(np.ptp(S.values)))
        state = rule.update_scale(first, S, state, S.prior_or_uniform.copy(), own=False)
        weights = rule.evaluate(first, S, state, log_q).weights
        total = np.add.reduceat(weights, S.offsets[:-1])
        labels = np.add.reduceat(weights * S.values, S.offsets[:-1]) / total
        wanted = LinearRegression().fit(X, labels, total).predict(X)
        assert total.min() < 0.5
        assert_allclose(fitted.predict(X), wanted, rtol=1e-6)
        assert_allclose(task.scaled_log_q(_unit()), log_q)

    @pytest.mark.parametrize("loss", [Squared(), Absolute()])
    def test_resampling_draws_rows_that_have_their_truth(self, loss: Any) -> None:
        X, y = rows()
        noisy = np.where(np.arange(ROWS) % 5 == 0, y.max() + 50.0, y)
        rule = Rule(Posterior(missing_truth=0.2), loss)
        task = Task(X, CandidateSets.from_labels(noisy), rule)
        with pytest.raises(ParameterError, match="takes no sample_weight"):
            Refit(KNeighborsRegressor(5)).fit(task)
        learner = Refit(KNeighborsRegressor(5), without_weights="resample", max_rounds=5)
        assert np.abs(learner.fit(task).predict(X) - y).mean() < 2.0

    def test_hopeless_rows_are_left_out(self) -> None:
        """Rows whose weight underflows, here all of one fold's, do not reach the regressor as NaN."""
        X, y = rows()
        y = np.where(np.arange(ROWS) < 30, 1e9, y)
        folds = [(np.arange(30, ROWS), np.arange(30)), (np.arange(30), np.arange(30, ROWS))]
        rule = Rule(Posterior("gaussian", missing_truth="learned"), Absolute())
        learner = Refit(ExtraTreesRegressor(5, random_state=0), cv=folds, max_rounds=3)
        assert np.isfinite(learner.fit(Task(X, CandidateSets.from_labels(y), rule)).predict(X)).all()


class TestScaleByRow:
    LEARNER = Refit(make_pipeline(PolynomialFeatures(2), Ridge(1e-3)), max_rounds=8)

    @staticmethod
    def uneven(noise: float) -> tuple[np.ndarray, np.ndarray, CandidateSets, np.ndarray]:
        """Rows whose noise grows with the first feature, by a factor of exp(4 · noise) in all."""
        random = np.random.default_rng(0)
        X = random.uniform(-1, 1, (800, 2))
        deviation = 0.5 * np.exp(2 * noise * X[:, 0])
        y = 3 * X.sum(1) + deviation * random.normal(size=800)
        return X, y, make_candidates(y, 3, set_size="fixed", random_state=0), deviation

    def fitted(self, noise: float, scale: str, **more: Any) -> PartialLabelRegressor:
        X, _, S, _ = self.uneven(noise)
        weighting = Posterior("gaussian", scale=scale, **more)
        return PartialLabelRegressor(self.LEARNER, weighting, random_state=0).fit(X[:500], S[:500])

    @pytest.mark.parametrize("missing", [0.0, "learned"])
    def test_noisy_rows_are_known_by_their_features(self, missing: Any) -> None:
        X, _, S, deviation = self.uneven(1.0)
        common, by_row = (self.fitted(1.0, scale, missing_truth=missing) for scale in ("common", "row"))
        assert by_row.score(X[500:], S[500:]) > common.score(X[500:], S[500:]) + 0.1
        fitted = by_row.model_
        assert fitted.row_scale is not None
        relative = fitted.row_scale.predict(X[500:])
        assert np.corrcoef(np.log(relative), np.log(deviation[500:]))[0, 1] > 0.4
        # The common one is that of the typical row.
        assert 0.25 < by_row.noise_scale_ < 1.0
        assert len(by_row.identify().index) == 500

    def test_even_noise_is_left_alone(self) -> None:
        X, _, S, _ = self.uneven(0.0)
        common, by_row = (self.fitted(0.0, scale) for scale in ("common", "row"))
        assert abs(by_row.score(X[500:], S[500:]) - common.score(X[500:], S[500:])) < 0.05

    def test_likelihood_of_new_rows(self) -> None:
        """By hand: each row's own scale in the density, and its unit in the ratio to q."""
        X, _, S, _ = self.uneven(1.0)
        model = self.fitted(1.0, "row")
        new, T = X[500:], S[500:]
        scale = model.noise_scale_ * model.model_.row_scale.predict(new)
        terms = stats.norm(np.repeat(model.predict(new), 4), np.repeat(scale, 4)).logpdf(T.values)
        whole = np.logaddexp.reduceat(terms, T.offsets[:-1])
        span = np.ptp(S[:500].values)
        assert_allclose(model.score(new, T), (whole - np.log(4) + np.log(span)).mean())
        assert_allclose(model.identify(new, T).probabilities, np.exp(terms - np.repeat(whole, 4)), atol=1e-9)

    def test_refit_without_folds_or_sets(self) -> None:
        """A lone row, and plain labels, leave nothing to learn about noise."""
        for X, S in (([[1.0]], [[1.0, 2.0]]), ([[1.0], [2.0], [3.0]], [1.0, 2.0, 4.0])):
            model = PartialLabelRegressor(Refit(Ridge()), Posterior(scale="row")).fit(X, S)
            assert model.model_.row_scale is None
            assert np.isfinite(model.predict(X)).all()


def _unit() -> Any:
    from plr.preprocessing.scaling import Affine

    return Affine(np.float64(0.0), np.float64(1.0))


class TestObjectives:
    def test_options_reach_objective_and_metric(self) -> None:
        _, y = rows()
        S, _ = lost(y, 0.1)
        made = objectives.for_lightgbm(S[:200], Posterior(false_labels="estimated", missing_truth=0.1), warm_up=0)
        rule, q = Rule(Posterior(missing_truth=0.1), Squared()), Posterior(false_labels="estimated").density(S[:200])
        assert q is not None
        prediction = np.linspace(0, 5, 200)
        state = rule.initial_state(float(S[:200].values.std()))
        wanted = rule.evaluate(prediction, S[:200], state, q.log(S[:200].values))
        gradient, hessian = made.objective(np.zeros(200), prediction)
        assert_allclose(gradient, wanted.gradient / wanted.hessian.mean(), rtol=1e-4, atol=1e-6)
        assert_allclose(hessian, wanted.hessian / wanted.hessian.mean(), rtol=1e-4)
        held = S[200:]
        guess = np.linspace(0, 5, 100)
        state = rule.initial_state(float(held.values.std()))
        log_q = q.log(held.values)
        state = rule.update_scale(guess, held, state, rule.evaluate(guess, held, state, log_q).weights)
        found = made.metric(held)(np.zeros(100), guess)[1]
        assert_allclose(found, -rule.evidence(guess, held, state, log_q).mean(), rtol=1e-6)

    def test_a_scale_for_each_row_is_refused(self) -> None:
        with pytest.raises(ParameterError, match="scale='common'"):
            objectives.for_xgboost([[1.0, 2.0]], Posterior(scale="row"))


def test_module_on_a_dataset_that_brings_its_candidates() -> None:
    from plr.torch import PartialLabelDataset

    X, y = rows()
    S, _ = lost(y, 0.2)
    data = PartialLabelDataset(torch.tensor(X, dtype=torch.float32), S)
    learner = LEARNERS["module"]
    assert isinstance(learner, Module)
    plain, told = (
        np.abs(learner.fit_dataset(data, Posterior(missing_truth=share)).predict(X) - y).mean() for share in (0.0, 0.2)
    )
    assert told < plain
    with pytest.raises(ParameterError, match=r"plr\.learners\.Refit can"):
        learner.fit_dataset(data, Posterior(scale="row"))
