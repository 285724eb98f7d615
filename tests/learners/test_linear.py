"""The linear learner against scikit-learn's solvers, and on candidates it should see through."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, special
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge

from plr import CandidateSets
from plr.errors import ConvergenceWarning, ParameterError
from plr.learners import Linear, Task
from plr.learners.linear import FittedLinear
from plr.losses import LOSSES, Huber, get_loss
from plr.weighting import WEIGHTINGS, Rule, get_weighting
from support.pairs import all_pairs

ROWS = 120


@functools.cache
def compiled(weighting: str, loss: str) -> Rule:
    return Rule(get_weighting(weighting), get_loss(loss))


def fit(
    learner: Linear, X: np.ndarray, S: Any, weighting: str = "average", loss: str = "squared", **more: Any
) -> FittedLinear:
    sets = S if isinstance(S, CandidateSets) else CandidateSets.from_lists(np.asarray(S)[:, None])
    return learner.fit(Task(X, sets, compiled(weighting, loss), **more))


def problem(rows: int = ROWS, heavy: bool = False) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 3)) * [1.0, 50.0, 0.01] + [3.0, -200.0, 0.0]
    noise = random.standard_t(2, rows) if heavy else random.normal(size=rows)
    return X, X @ [2.0, -0.1, 100.0] + 7.0 + noise


def candidates(y: np.ndarray, false_labels: int = 3, spread: float = 30.0) -> CandidateSets:
    """The truth first, then false labels anywhere in the range."""
    random = np.random.default_rng(1)
    others = y.mean() + spread * random.uniform(-1, 1, size=(len(y), false_labels))
    return CandidateSets.from_padded(np.column_stack([y, others]))


SAMPLE_WEIGHT = np.random.default_rng(2).integers(0, 4, ROWS).astype(float)


class TestSupervised:
    @all_pairs(
        weighting=WEIGHTINGS,
        learner=[
            pytest.param(Linear(), id="scaled"),
            pytest.param(Linear(scale_features=False, scale_target=False), id="raw"),
        ],
        sample_weight=[pytest.param(None, id="plain"), pytest.param(SAMPLE_WEIGHT, id="weighted")],
    )
    def test_least_squares(self, weighting: str, learner: Linear, sample_weight: np.ndarray | None) -> None:
        X, y = problem()
        wanted = LinearRegression().fit(X, y, sample_weight)
        found = fit(learner, X, y, weighting, sample_weight=sample_weight)
        assert_allclose(found.coefficients, wanted.coef_, rtol=1e-6)
        assert_allclose(found.intercept, wanted.intercept_, rtol=1e-6)
        assert_allclose(found.predict(X), wanted.predict(X), rtol=1e-7)
        assert found.report.rounds <= 3

    @pytest.mark.parametrize("sample_weight", [None, SAMPLE_WEIGHT], ids=["plain", "weighted"])
    def test_collinear_and_constant_columns(self, sample_weight: np.ndarray | None) -> None:
        X, y = problem()
        wide = np.column_stack([X, X[:, 0] * 2 + 1, np.full(ROWS, 5.0), np.zeros(ROWS), X[:, 1] - X[:, 0]])
        wanted = LinearRegression().fit(X, y, sample_weight).predict(X)
        found = fit(Linear(), wide, y, sample_weight=sample_weight)
        assert_allclose(found.predict(wide), wanted, rtol=1e-7)
        assert_allclose(found.coefficients[[4, 5]], 0, atol=1e-20)
        assert np.abs(found.coefficients[3]) > 0.1, "twins share"

    def test_more_columns_than_rows(self) -> None:
        random = np.random.default_rng(3)
        X, y = random.normal(size=(10, 40)), random.normal(size=10)
        assert_allclose(fit(Linear(), X, y).predict(X), y, rtol=1e-8)

    def test_one_row(self) -> None:
        found = fit(Linear(), np.array([[2.0, 3.0]]), [4.0])
        assert_allclose(found.predict(np.array([[2.0, 3.0], [9.0, 9.0]])), [4.0, 4.0])

    def test_constant_labels(self) -> None:
        X, _ = problem()
        assert_allclose(fit(Linear(), X, np.full(ROWS, -3.5)).predict(X), -3.5)

    def test_units_do_not_matter(self) -> None:
        X, y = problem()
        S = candidates(y)
        plain = fit(Linear(), X, S, "progressive").predict(X)
        moved = CandidateSets(S.values * 1e6 + 1e9, S.offsets)
        assert_allclose(fit(Linear(), X * 1e-5 + 1e4, moved, "progressive").predict(X * 1e-5 + 1e4), plain * 1e6 + 1e9)

    @pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
    @pytest.mark.parametrize("sample_weight", [None, SAMPLE_WEIGHT], ids=["plain", "weighted"])
    def test_ridge(self, alpha: float, sample_weight: np.ndarray | None) -> None:
        """The penalty is per row and on the coefficients of scaled features: scikit-learn's, over all rows, is n times
        as large and on features scaled by hand."""
        X, y = problem()
        weight = np.ones(ROWS) if sample_weight is None else sample_weight / sample_weight.mean()
        centre = np.average(X, axis=0, weights=weight)
        scaled = (X - centre) / np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weight))
        wanted = Ridge(alpha=alpha * ROWS).fit(scaled, y, weight).predict(scaled)
        assert_allclose(fit(Linear(alpha=alpha), X, y, sample_weight=sample_weight).predict(X), wanted, rtol=1e-7)

    def test_ridge_on_raw_features(self) -> None:
        X, y = problem()
        wanted = Ridge(alpha=0.05 * ROWS).fit(X, y)
        for scale_target in (False, True):
            found = fit(Linear(alpha=0.05, scale_features=False, scale_target=scale_target), X, y)
            assert_allclose(found.coefficients, wanted.coef_, rtol=1e-7)

    @pytest.mark.parametrize("loss", ["absolute", "huber"])
    def test_penalty_means_the_same_for_every_loss(self, loss: str) -> None:
        """Mean loss plus alpha times the squared coefficients, as it is for the squared loss."""
        X, y = problem(heavy=True)
        scaled, target = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
        cost = np.abs if loss == "absolute" else lambda r: special.huber(1.0, r)

        def objective(p: np.ndarray) -> float:
            return float(cost(scaled @ p[:-1] + p[-1] - target).mean() + 0.1 * (p[:-1] ** 2).sum())

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = fit(Linear(alpha=0.1), X, y, loss=loss)
        ours = np.append(found.coefficients * X.std(0), found.predict(X.mean(0)[None])[0] - y.mean()) / y.std()
        best = optimize.minimize(objective, ours, method="Powell", options={"xtol": 1e-9, "ftol": 1e-12}).fun
        assert_allclose(objective(ours), best, rtol=1e-2)


class TestOtherLosses:
    @pytest.mark.parametrize("sample_weight", [None, SAMPLE_WEIGHT], ids=["plain", "weighted"])
    def test_absolute_is_median_regression(self, sample_weight: np.ndarray | None) -> None:
        X, y = problem(heavy=True)
        scaled = (X - X.mean(0)) / X.std(0)
        wanted = QuantileRegressor(quantile=0.5, alpha=0).fit(scaled, y, sample_weight).predict(scaled)
        # The minimum is flat along some directions, and the last digits there take thousands of rounds.
        found = fit(Linear(tol=1e-4), X, y, loss="absolute", sample_weight=sample_weight).predict(X)
        best = np.average(np.abs(wanted - y), weights=sample_weight)
        assert_allclose(np.average(np.abs(found - y), weights=sample_weight), best, rtol=5e-4)
        assert_allclose(found, wanted, atol=0.1 * y.std())
        least_squares = LinearRegression().fit(X, y, sample_weight).predict(X)
        assert np.average(np.abs(least_squares - y), weights=sample_weight) > 1.002 * best

    def test_absolute_without_features_is_the_weighted_median(self) -> None:
        values = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
        X = np.zeros((5, 1))
        assert_allclose(fit(Linear(tol=1e-7), X, values, loss="absolute").intercept, 3.0, atol=1e-4)
        weight = np.array([1.0, 1.0, 1.0, 1.0, 10.0])
        found = fit(Linear(tol=1e-7), X, values, loss="absolute", sample_weight=weight).intercept
        assert_allclose(found, 100.0, atol=1e-3)

    def test_average_absolute_on_candidates(self) -> None:
        """As median regression on all candidates, each as a row that counts its prior."""
        X, y = problem(heavy=True)
        S = candidates(y, 2)
        rows = np.repeat(np.arange(ROWS), S.sizes)
        scaled = (X - X.mean(0)) / X.std(0)
        wanted = QuantileRegressor(quantile=0.5, alpha=0).fit(scaled[rows], S.values).predict(scaled)
        found = fit(Linear(tol=1e-4), X, S, loss="absolute").predict(X)
        costs = [np.abs(prediction[rows] - S.values).mean() for prediction in (found, wanted)]
        assert_allclose(costs[0], costs[1], rtol=1e-4)

    @pytest.mark.parametrize("delta", [0.1, 1.0])
    def test_huber(self, delta: float) -> None:
        X, y = problem(heavy=True)
        S = CandidateSets.from_lists(y[:, None])
        learner = Linear(scale_target=False, tol=1e-8)
        found = learner.fit(Task(X, S, Rule(get_weighting("average"), Huber(delta))))
        scaled = (X - X.mean(0)) / X.std(0)

        def objective(p: np.ndarray) -> float:
            return float(special.huber(delta, scaled @ p[:-1] + p[-1] - y).mean())

        best = optimize.minimize(objective, np.append(found.coefficients * X.std(0), y.mean()), method="BFGS")
        assert_allclose(special.huber(delta, found.predict(X) - y).mean(), best.fun, rtol=1e-6)
        assert_allclose(found.predict(X), scaled @ best.x[:-1] + best.x[-1], atol=1e-3)


class TestCandidates:
    def test_average_squared_is_least_squares_on_the_mean(self) -> None:
        X, y = problem()
        S = CandidateSets(candidates(y).values, candidates(y).offsets, np.tile([3.0, 1.0, 1.0, 2.0], ROWS))
        wanted = LinearRegression().fit(X, S.mean())
        assert_allclose(fit(Linear(), X, S).predict(X), wanted.predict(X), rtol=1e-8)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("weighting", ["identification", "progressive", "posterior"])
    def test_finds_the_truth(self, weighting: str, loss: str) -> None:
        random = np.random.default_rng(4)
        X = random.normal(size=(400, 3))
        y = X @ [3.0, -2.0, 1.0] + 0.01 * random.normal(size=400)
        S = candidates(y, 2, 8.0)
        found = fit(Linear(tol=1e-3), X, S, weighting, loss).predict(X)
        assert np.abs(found - y).max() < 0.1
        nearest = np.abs(np.asarray(S) - found[:, None]).argmin(1)
        assert (nearest == 0).mean() > 0.98
        average = fit(Linear(), X, S).predict(X)
        assert np.abs(average - y).mean() > 10 * np.abs(found - y).mean()

    def test_identification_never_gets_worse(self) -> None:
        X, y = problem()
        losses = fit(Linear(), X, candidates(y), "identification").report.loss
        assert (np.diff(losses) <= 1e-12).all()
        assert losses[-1] < losses[0]

    @pytest.mark.parametrize("weighting", ["identification", "progressive"])
    def test_settled(self, weighting: str) -> None:
        """At the end the coefficients are least squares on the weighted candidates, the weights those of the fit."""
        X, y = problem()
        S = candidates(y)
        found = fit(Linear(scale_target=False, tol=1e-9), X, S, weighting)
        rule = compiled(weighting, "squared")
        weights = rule.evaluate(found.predict(X), S, rule.initial_state()).weights
        target = np.add.reduceat(weights * S.values, S.offsets[:-1])
        assert_allclose(found.predict(X), LinearRegression().fit(X, target).predict(X), rtol=1e-6)

    def test_noise_scale(self) -> None:
        random = np.random.default_rng(4)
        X = random.normal(size=(2000, 2))
        y = X @ [30.0, -20.0] + 1.5 * random.standard_t(3, 2000)
        report = fit(Linear(), X, candidates(y, 2, 60.0), "posterior").report
        assert_allclose(report.noise_scale[-1], 1.5, rtol=0.1)
        assert len(report.noise_scale) == len(report.loss) == report.rounds
        assert report.noise_scale[0] > report.noise_scale[-1]
        assert fit(Linear(), X, candidates(y), "average").report.noise_scale.size == 0

    def test_start(self) -> None:
        """Identification stays with what the start points at."""
        random = np.random.default_rng(5)
        X = random.normal(size=(300, 2))
        truth, rival = X @ [1.0, 2.0], X @ [1.0, -2.0] + 1.0
        S = CandidateSets.from_padded(np.column_stack([truth, rival]))
        for start, wanted in (([1.0, 0.0], truth), ([0.0, 1.0], rival)):
            found = fit(Linear(), X, S, "identification", start=np.tile(start, 300))
            assert_allclose(found.predict(X), wanted, atol=1e-6)

    def test_density_of_false_labels(self) -> None:
        """Only the posterior asks for it, and it favours candidates where false labels are rare."""
        X, y = problem()
        S = candidates(y)
        log_q = np.tile([-4.0, 4.0, 4.0, 4.0], ROWS)
        told = fit(Linear(), X, S, "posterior", log_q=log_q).predict(X)
        untold = fit(Linear(), X, S, "posterior").predict(X)
        supervised = LinearRegression().fit(X, y).predict(X)
        assert np.abs(told - supervised).max() < 0.05
        assert np.abs(untold - supervised).max() > 0.2
        same = fit(Linear(), X, S, "progressive", log_q=log_q).predict(X)
        assert_array_equal(same, fit(Linear(), X, S, "progressive").predict(X))

    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    def test_sample_weight_is_repetition(self, weighting: str) -> None:
        X, y = problem()
        S = candidates(y)
        rows = np.repeat(np.arange(ROWS), SAMPLE_WEIGHT.astype(int))
        weighted = fit(Linear(tol=1e-9), X, S, weighting, sample_weight=SAMPLE_WEIGHT)
        repeated = fit(Linear(tol=1e-9), X[rows], S[rows], weighting)
        assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-5)

    def test_same_bits(self) -> None:
        X, y = problem()
        one, other = (fit(Linear(), X, candidates(y), "posterior") for _ in range(2))
        assert_array_equal(one.coefficients, other.coefficients)


class TestMessages:
    def test_convergence_warning(self) -> None:
        X, y = problem()
        with pytest.warns(ConvergenceWarning, match=r"after 2 rounds; raise max_rounds, or tol \(now 1e-06\)"):
            found = fit(Linear(max_rounds=2), X, candidates(y), "progressive")
        assert found.report.rounds == 2
        assert np.isfinite(found.predict(X)).all()

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    def test_ordinary_data_settles(self, weighting: str, loss: str) -> None:
        """With defaults, but for the absolute loss, whose last digits come slowly."""
        X, y = problem()
        learner = Linear(tol=1e-3) if loss == "absolute" else Linear()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit(learner, X, candidates(y), weighting, loss)

    @pytest.mark.parametrize(
        ("learner", "message"),
        [
            (Linear(alpha=-0.1), "alpha must be at least 0, got -0.1"),
            (Linear(alpha=np.nan), "alpha must be a finite number"),
            (Linear(alpha="strong"), "alpha must be a finite number, got 'strong'"),
            (Linear(max_rounds=0), "max_rounds must be at least 1, got 0"),
            (Linear(max_rounds=2.5), "max_rounds must be a whole number, got 2.5"),
            (Linear(tol=0.0), "tol must be above 0, got 0.0"),
            (Linear(tol=True), "tol must be a finite number, got True"),
        ],
    )
    def test_parameters(self, learner: Linear, message: str) -> None:
        X, y = problem()
        with pytest.raises(ParameterError, match=message):
            fit(learner, X, y)

    def test_learner_does_not_change(self) -> None:
        X, y = problem()
        learner = Linear()
        before = dict(vars(learner))
        fit(learner, X, y)
        assert vars(learner) == before
