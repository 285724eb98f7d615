"""The Gaussian process on candidate sets: its draws against a slow twin, and what it promises on data."""

from __future__ import annotations

import functools
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, optimize
from threadpoolctl import threadpool_limits

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import DivergenceError, ParameterError
from plr.folds import make_folds
from plr.learners import GaussianProcess, Task
from plr.learners.gaussian_process._sampling import sweep
from plr.learners.gaussian_process.chain import (
    ChainSettings,
    ChainTask,
    Kernel,
    _Sampler,
    _System,
    _Systems,
    cholesky,
    run_chain,
)
from plr.learners.gaussian_process.learner import _agreeing, _deal, _likely
from plr.losses import Absolute, Squared
from plr.weighting import WEIGHTINGS, Posterior, Rule, get_weighting

# These compile most kernels; in one process, so that it is done once.
pytestmark = [pytest.mark.xdist_group("kernels"), pytest.mark.usefixtures("small_forests")]

SMALL = GaussianProcess(chains=2, rounds=6)
LONG = GaussianProcess(chains=2, rounds=24)


@functools.cache
def posterior(**options):
    return Rule(Posterior(**options), Squared())


def made_up(rows=150, false_labels=3, set_size="fixed", seed=0):
    """Return features, labels of a known function, their candidate sets, and where the true ones are."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(rows, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * random.normal(size=rows)
    S, truth = make_candidates(y, false_labels, set_size=set_size, random_state=seed + 100, return_index=True)
    return X, y, S, S.offsets[:-1] + truth


def fit(X, S, learner=SMALL, rule=None, **more):
    sets = S if isinstance(S, CandidateSets) else CandidateSets.from_lists(S)
    return learner.fit(Task(X, sets, rule or posterior(), **more))


def check_weights(weights, S):
    assert weights.shape == S.values.shape
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert_allclose(np.add.reduceat(weights, S.offsets[:-1]), 1.0)


# The draws


def uneven_sets():
    """Return sets of one to six candidates, their odds, and how probable it is that the truth is not among them."""
    random = np.random.default_rng(2)
    sizes = np.r_[1, 1, 3, 2, random.integers(1, 7, 36)]
    S = CandidateSets(random.normal(size=sizes.sum()), np.r_[0, np.cumsum(sizes)])
    odds = random.uniform(0.5, 2.0, S.values.size)
    odds[random.uniform(size=odds.size) < 0.1] = 0.0
    missing = np.where(sizes > 1, 0.05, 0.0)
    # One candidate that may be wrong; a row that none can explain; a row where nothing may be drawn at all.
    missing[1], missing[3] = 0.2, 0.0
    odds[S.offsets[2] : S.offsets[3]] = 0.0
    odds[S.offsets[3] : S.offsets[4]] = 0.0
    return S, odds, missing


def a_system(dtype=np.float64, rows=40):
    random = np.random.default_rng(1)
    X = random.normal(size=(rows, 2))
    S, odds, missing = uneven_sets()
    problem = ChainTask(X, S, random.uniform(0.2, 2.0, rows), odds, missing, None)
    kernel = Kernel.prior(2)
    return problem, kernel, _System.of(kernel, X[:15], problem, dtype)


def without_row(system, problem, kernel, labels, row):
    """Return the mean and the variance that all other rows predict for one row's label, from scratch."""
    features, weight = system.features.astype(np.float64), problem.weight
    others = np.arange(len(labels)) != row
    precision = (features[others].T * weight[others]) @ features[others] + kernel.noise * np.eye(features.shape[1])
    mean = features[row] @ np.linalg.solve(precision, features[others].T @ (weight[others] * labels[others]))
    spread = kernel.noise * features[row] @ np.linalg.solve(precision, features[row])
    return mean, spread + kernel.noise / weight[row]


class Splitmix:
    """The generator, in Python's integers."""

    def __init__(self, state):
        self.state = int(state)

    def uniform(self):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) * 2.0**-53

    def normal(self):
        radius = math.sqrt(-2.0 * math.log(1.0 - self.uniform()))
        return radius * math.cos(2.0 * math.pi * self.uniform())


def slow_sweep(system, problem, kernel, labels, order, random, sums):
    """Draw every label once, refitting without each row."""
    S, (shares, expected, evidence) = problem.S, sums
    for a in range(len(order) - 1, 0, -1):
        b = int(random.uniform() * (a + 1))
        order[a], order[b] = order[b], order[a]
    for row in order:
        span = slice(S.offsets[row], S.offsets[row + 1])
        values, missing = S.values[span], problem.missing[row]
        if len(values) == 1 and missing == 0:
            shares[span] += 1.0
            expected[row] += values[0]
            continue
        mean, variance = without_row(system, problem, kernel, labels, row)
        densities = problem.odds[span] * np.exp(-0.5 * (values - mean) ** 2 / variance)
        densities /= math.sqrt(2 * math.pi * variance)
        full = densities.sum() + missing
        if full == 0:
            expected[row] += mean
            labels[row] = mean
            continue
        shares[span] += densities / full
        expected[row] += (densities @ values + missing * mean) / full
        evidence[row] += math.log(full)
        aim = random.uniform() * full
        if aim < densities.sum():
            labels[row] = values[np.searchsorted(np.cumsum(densities), aim, side="right")]
        else:
            labels[row] = mean + math.sqrt(variance) * random.normal()


@pytest.mark.kernel
def test_a_sweep_is_that_of_refits_without_each_row():
    problem, kernel, system = a_system(np.float32)
    S, rows = problem.S, len(problem.S)
    labels = S.values[S.offsets[:-1]].copy()
    slow, order = labels.copy(), list(range(rows))
    fast_order, state = np.arange(rows), np.array([12345], dtype=np.uint64)
    coefficients, random = system.coefficients(labels), Splitmix(12345)
    fast_sums, slow_sums = ([np.zeros(S.values.size), np.zeros(rows), np.zeros(rows)] for _ in range(2))
    arrays = system.features, system.gain, system.leverage, kernel.noise / problem.weight, S.values, S.offsets
    for _ in range(4):
        slow_sweep(system, problem, kernel, slow, order, random, slow_sums)
        scratch = np.empty(S.sizes.max())
        sweep(
            *arrays, problem.odds, problem.missing, labels, coefficients, fast_order, state, scratch, True, *fast_sums
        )
        assert_array_equal(fast_order, order)
        assert_allclose(labels, slow, rtol=1e-3, atol=1e-4)
    for fast, twin in zip(fast_sums, slow_sums, strict=True):
        assert_allclose(fast, twin, rtol=1e-3, atol=1e-3)
    assert not np.array_equal(labels, S.values[S.offsets[:-1]])


@pytest.mark.kernel
def test_a_sweep_does_not_depend_on_where_arrays_lie():
    problem, kernel, system = a_system(np.float32)
    S, rows = problem.S, len(problem.S)
    arrays = system.features, system.gain, system.leverage, kernel.noise / problem.weight, S.values, S.offsets
    count, scratch = len(problem.odds), int(S.sizes.max())
    # The odds, and the scratch at any distance behind them.
    memory, found = np.empty(3 * count + scratch), set()
    memory[:count] = problem.odds
    for place in range(count, 2 * count + 20, 3):
        labels, sums = S.values[S.offsets[:-1]].copy(), [np.zeros(S.values.size), np.zeros(rows), np.zeros(rows)]
        state = system.coefficients(labels), np.arange(rows), np.array([1], dtype=np.uint64)
        densities = memory[place : place + scratch]
        sweep(*arrays, memory[:count], problem.missing, labels, *state, densities, True, *sums)
        found.add(b"".join(each.tobytes() for each in (labels, *sums)))
    assert len(found) == 1


def test_a_sweep_that_is_not_kept_adds_nothing():
    problem, kernel, system = a_system(np.float32)
    S, rows = problem.S, len(problem.S)
    labels, sums = S.values[S.offsets[:-1]].copy(), [np.zeros(S.values.size), np.zeros(rows), np.zeros(rows)]
    arrays = system.features, system.gain, system.leverage, kernel.noise / problem.weight, S.values, S.offsets
    state = system.coefficients(labels), np.arange(rows), np.array([1], dtype=np.uint64), np.empty(6)
    sweep(*arrays, problem.odds, problem.missing, labels, *state, False, *sums)
    assert not any(each.any() for each in sums)
    # Nothing is drawn where the label is known, nor from candidates without odds.
    known = (S.sizes == 1) & (problem.missing == 0)
    assert_array_equal(labels[known], S.values[S.offsets[:-1]][known])
    assert not np.isin(labels[~known], S.values[problem.odds == 0]).any()
    assert_allclose(state[0], system.coefficients(labels), rtol=1e-3, atol=1e-4)


def test_unseen_predictions_are_those_of_refits_without_the_row():
    problem, kernel, system = a_system()
    labels = np.random.default_rng(3).normal(size=40)
    expected = [without_row(system, problem, kernel, labels, row)[0] for row in range(40)]
    assert_allclose(system.leave_one_out(labels), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_system_of_a_fold_is_that_of_its_rows_alone(dtype):
    problem, kernel, whole = a_system(dtype=dtype)
    rows = len(problem.S)
    # Parts that overlap, and rows that are in neither.
    seen = [np.arange(rows) % 3 > 0, np.arange(rows) % 4 > 1]
    systems = _Systems(kernel, problem.X[:15], replace(problem, folds=tuple(seen)), dtype)
    tolerance = 1e-9 if dtype is np.float64 else 2e-3
    assert_allclose(systems.system(0).gain, whole.gain, atol=tolerance)
    labels = np.random.default_rng(5).normal(size=rows)
    for number, mask in enumerate(seen, start=1):
        features, weight = systems.features[mask].astype(np.float64), problem.weight[mask]
        precision = (features.T * weight) @ features + kernel.noise * np.eye(features.shape[1])
        system = systems.system(number)
        assert_allclose(system.gain[mask], np.linalg.solve(precision, features.T).T * weight[:, None], atol=tolerance)
        assert_array_equal(system.gain[~mask], 0.0)
        assert_array_equal(system.leverage[~mask], 0.0)
        expected = np.linalg.solve(precision, features.T @ (weight * labels[mask]))
        assert_allclose(systems.coefficients(number, labels), expected, atol=10 * tolerance)


def test_rows_out_of_a_fold_have_no_say_in_it_but_for_the_kernel(monkeypatch):
    monkeypatch.setattr(Kernel, "learned", lambda self, *given: self)
    X, _, S, _ = made_up(60)
    seen = np.arange(60) >= 20
    values = S.values.copy()
    values[: S.offsets[20]] += np.random.default_rng(1).normal(size=S.offsets[20])
    plan = ChainSettings(rounds=3, most_rounds=3, sweeps=4, steps=1, kernel_rows=30, features=20, last_features=30)
    found = []
    for sets in (S, CandidateSets(values, S.offsets)):
        problem = ChainTask(X, sets, np.ones(60), np.ones(sets.values.size), np.zeros(60), None, (seen,))
        found.append(run_chain(problem, plan, posterior(), 0))
    (whole, (part,), _), (other, (again,), _) = found
    assert_array_equal(part.coefficients, again.coefficients)
    assert_array_equal(part.prediction, again.prediction)
    assert_array_equal(part.weights[S.offsets[20] :], again.weights[S.offsets[20] :])
    assert not np.array_equal(whole.coefficients, other.coefficients)


def test_each_fold_is_left_out_and_each_chain_leaves_one_out():
    assert _deal(5, 2) == [[0, 2, 4], [1, 3]]
    assert _deal(2, 4) == [[0], [1], [0], [1]]
    assert _deal(0, 3) == [[], [], []]


def test_rows_that_no_chain_has_seen_are_held_out_as_well():
    X, y, S, _ = made_up(240)
    task = Task(X, S, posterior())
    learner = GaussianProcess(chains=2, rounds=24, most_rows=120)
    model, draws, functions = learner.fit_folds(task, make_folds(task, 3))
    assert [len(own.prediction) for own in draws] == [240] * 3
    for own in draws:
        check_weights(own.weights, S)
        assert np.corrcoef(own.prediction, y)[0, 1] > 0.8
    assert len(model.chains) == 2
    # Two chains, and three functions without a fold.
    assert functions.predictions.shape == (5, 120)
    assert_allclose(np.bincount(functions.of_chain, functions.even_shares), [0.5, 0.5])
    truth = y[functions.rows]
    assert all(np.corrcoef(prediction, truth)[0, 1] > 0.8 for prediction in functions.predictions)


def test_functions_are_mixed_by_their_shares():
    # So easy that neither chain is ahead of the other.
    X, _, S, _ = made_up(150, false_labels=1)
    task = Task(X, S, posterior())
    model, _, functions = GaussianProcess(chains=2, rounds=9).fit_folds(task, make_folds(task, 3))
    rows = model.encoding.apply(X)
    each = [
        functions.chains[chain].predict_several(rows, coefficients)
        for chain, coefficients in zip(functions.of_chain, functions.coefficients, strict=True)
    ]
    shares = np.arange(1.0, len(each) + 1.0)
    shares /= shares.sum()
    for used in (shares, functions.even_shares):
        mixed = functions.mixed(used)
        assert_allclose(np.mean([chain.predict(rows) for chain in mixed], axis=0), used @ each, atol=1e-10)
    assert_allclose(model.predict(X), model.target.undo(functions.even_shares @ each))
    # A chain of which no function has a share takes no time to predict.
    (only,) = functions.mixed(np.where(functions.of_chain == 1, functions.even_shares, 0.0))
    assert only.kernel is functions.chains[1].kernel


def test_plain_labels_are_gaussian_process_regression():
    X, y, _, _ = made_up(80)
    weight = np.random.default_rng(4).uniform(0.5, 2.0, 80)
    model = fit(X, CandidateSets(y, np.arange(81)), sample_weight=weight)
    (chain,) = model.chains
    rows, labels = model.encoding.apply(X), model.target.apply(y)
    noise = chain.kernel.noise / (weight / weight.mean())
    inverse = np.linalg.inv(chain.kernel.covariance(rows, rows) + np.diag(noise))
    left_out = labels - inverse @ labels / np.diag(inverse)
    assert_allclose(model.out_of_fold, model.target.undo(left_out), atol=1e-3)
    new = np.random.default_rng(5).uniform(-2, 2, size=(30, 2))
    mean = chain.kernel.covariance(model.encoding.apply(new), rows) @ inverse @ labels
    assert_allclose(model.predict(new), model.target.undo(mean), atol=1e-3)
    assert_array_equal(model.weights, 1.0)


# The kernel


def captured_cost(monkeypatch, X, Y, weight, kernel):
    """Return the function that learning the kernel would have minimised."""
    kept = []

    def minimize(cost, start, **_):
        kept.append(cost)
        return optimize.OptimizeResult(x=start)

    monkeypatch.setattr(optimize, "minimize", minimize)
    kernel.learned(X, Y, weight, 1)
    return kept[0]


@pytest.mark.parametrize("columns", [1, 3])
def test_gradient_of_the_kernels_parameters(monkeypatch, columns):
    random = np.random.default_rng(0)
    X, Y, weight = random.normal(size=(30, columns)), random.normal(size=(30, 4)), random.uniform(0.5, 2.0, 30)
    cost = captured_cost(monkeypatch, X, Y, weight, Kernel.prior(columns))
    place = Kernel.prior(columns).parameters + 0.3 * random.normal(size=columns + 3)
    numeric = optimize.approx_fprime(place, lambda p: cost(p)[0], 1e-6)
    assert_allclose(cost(place)[1], numeric, rtol=1e-4, atol=1e-4)


def test_the_cost_is_the_mean_likelihood_of_the_draws_and_the_prior(monkeypatch):
    random = np.random.default_rng(0)
    X, Y, weight = random.normal(size=(20, 2)), random.normal(size=(20, 3)), random.uniform(0.5, 2.0, 20)
    kernel = Kernel.prior(2)
    cost = captured_cost(monkeypatch, X, Y, weight, kernel)
    total = kernel.covariance(X, X) + np.diag(kernel.noise / weight)
    solved = linalg.solve(total, Y)
    expected = 0.5 * np.mean((Y * solved).sum(axis=0)) + 0.5 * np.linalg.slogdet(total)[1]
    assert_allclose(cost(kernel.parameters)[0], expected)


def far_out():
    """Return rows so far out that their covariance has eigenvalues below 0 after rounding, beyond what noise mends."""
    random = np.random.default_rng(0)
    X = np.column_stack([1e4 + 1e-3 * random.normal(size=60), random.normal(size=60)])
    kernel = Kernel(np.array([-3.0, 0.0, 0.0, 0.0, -5.0]))
    weight = np.full(60, 1e6)
    covariance = kernel.covariance(X, X) + np.diag(kernel.noise / weight)
    assert linalg.eigvalsh(covariance)[0] < 0
    return X, weight, kernel, covariance


def test_a_kernel_is_learned_where_rounding_has_spoilt_its_covariance(monkeypatch):
    X, weight, kernel, covariance = far_out()
    Y = np.sin(X[:, 1:])
    cost = captured_cost(monkeypatch, X, Y, weight, kernel)
    value, gradient = cost(kernel.parameters)
    assert value < 1e9
    assert np.abs(gradient).max() > 1e-3
    monkeypatch.undo()
    learned = kernel.learned(X, Y, weight, 20)
    assert cost(learned.parameters)[0] < value - 1.0
    factor = cholesky(covariance)
    assert_allclose(factor @ factor.T, covariance, atol=1e-3 * covariance.max())


def test_a_matrix_that_is_no_covariance_is_an_error():
    with pytest.raises(DivergenceError, match=r"not positive definite.*extreme entries in X"):
        cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(DivergenceError, match="not positive definite"):
        cholesky(np.array([[1.0, np.nan], [np.nan, 1.0]]))


def test_lengths_tell_columns_that_matter():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * random.normal(size=150)
    # Threads that wait for each other on a busy machine would be most of the time.
    with threadpool_limits(1):
        learned = Kernel.prior(2).learned(X, y[:, None], np.ones(150), 60)
    assert learned.parameters[1] > learned.parameters[0] + 1
    assert learned.noise == pytest.approx(0.01, rel=0.5)


# What is promised on data


def test_finds_the_function_far_better_than_the_candidates_median():
    X, y, S, true = made_up()
    model = fit(X, S, LONG)
    check_weights(model.weights, S)
    median = np.median(S.values.reshape(len(S), -1), axis=1)
    new = np.random.default_rng(9).uniform(-1.8, 1.8, size=(300, 2))
    expected = np.sin(2 * new[:, 0]) + new[:, 1]
    assert np.mean((model.predict(new) - expected) ** 2) < 0.05 * np.mean((median - y) ** 2)
    assert np.mean((model.out_of_fold - y) ** 2) < 0.05 * np.mean((median - y) ** 2)
    assert model.weights[true].mean() > 0.8
    assert model.report.rounds == len(model.report.loss) == len(model.report.noise_scale) == 24
    assert model.report.noise_scale[-1] < 0.5 * model.report.noise_scale[0]
    assert model.report.loss[-1] < model.report.loss[0]


def test_workers_change_nothing():
    X, _, S, _ = made_up(120)
    learner = GaussianProcess(chains=3, rounds=3)
    one, two = (fit(X, S, learner, seed=4, n_jobs=jobs) for jobs in (1, 2))
    for first, second in zip(one.chains, two.chains, strict=True):
        assert_array_equal(first.coefficients, second.coefficients)
    for name in ("weights", "out_of_fold"):
        assert_array_equal(getattr(one, name), getattr(two, name))
    assert_array_equal(one.predict(X), two.predict(X))
    assert not np.array_equal(one.weights, fit(X, S, learner, seed=5).weights)


def test_rows_without_weight_have_no_influence_and_are_judged():
    X, y, S, true = made_up(160)
    weight = np.where(np.arange(160) < 120, 1.0, 0.0)
    with_them = fit(X, S, LONG, sample_weight=weight)
    without = fit(X[:120], S[:120], LONG, sample_weight=weight[:120])
    assert_array_equal(with_them.predict(X), without.predict(X))
    assert_array_equal(with_them.weights[: S.offsets[120]], without.weights)
    check_weights(with_them.weights, S)
    assert with_them.weights[true[120:]].mean() > 0.7
    assert np.mean((with_them.out_of_fold[120:] - y[120:]) ** 2) < 0.1


def test_the_unit_of_weights_does_not_matter_and_weights_count():
    X, y, _, _ = made_up(100)
    labels, weight = np.where(np.arange(100) % 2, y, y + 5), np.where(np.arange(100) % 2, 1.0, 1e-4)
    sets = CandidateSets(labels, np.arange(101))
    one, other = (fit(X, sets, sample_weight=weight * unit).predict(X) for unit in (1.0, 2.0**-200))
    assert_allclose(one, other)
    assert np.mean((one - y) ** 2) < 0.1


def test_priors_of_zero_are_never_drawn_and_priors_count():
    X, _, S, true = made_up(120)
    prior = np.full(S.values.size, 1.0)
    prior[true] = 0.0
    told = CandidateSets(S.values, S.offsets, prior)
    model = fit(X, told)
    assert_array_equal(model.weights[true], 0.0)
    check_weights(model.weights, S)
    prior[true] = 20.0
    assert fit(X, CandidateSets(S.values, S.offsets, prior)).weights[true].mean() > 0.95


def test_a_known_density_of_false_labels_helps():
    # False labels pile up at zero for all rows, true ones cross there.
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(120, 1))
    y = 2 * X[:, 0] + 0.2 * random.normal(size=120)
    S = CandidateSets.from_padded(np.column_stack([y, 0.1 * random.normal(size=(120, 2))]))
    log_q = -0.5 * (S.values / 0.1) ** 2 - np.log(0.1 * np.sqrt(2 * np.pi))
    shares = [fit(X, S, log_q=given).weights.reshape(120, 3)[:, 0].mean() for given in (None, log_q)]
    assert shares[1] > shares[0] + 0.1
    assert shares[1] > 0.85


@pytest.mark.parametrize("share", [pytest.param(0.2, marks=pytest.mark.slow), "learned"])
def test_rows_without_their_truth(share):
    X, y, S, true = made_up(200)
    values = S.values.copy()
    lost = np.arange(200) % 5 == 0
    values[true[lost]] = np.random.default_rng(1).uniform(y.min(), y.max(), lost.sum())
    model = fit(X, CandidateSets(values, S.offsets), LONG, posterior(missing_truth=share))
    assert np.mean((model.out_of_fold - y) ** 2) < 0.1
    assert model.weights[true[~lost]].mean() > 0.7
    # Plain labels may be wrong as well.
    wild = np.where(lost, y + 3, y)
    trusting, wary = (fit(X, CandidateSets(wild, np.arange(201)), rule=r) for r in (None, posterior(missing_truth=0.2)))
    errors = [np.mean((found.predict(X) - y) ** 2) for found in (trusting, wary)]
    assert errors[1] < 0.5 * errors[0]


def test_rows_with_one_candidate_keep_their_label():
    X, y, S, true = made_up(300, false_labels=2)
    lists = [[y[row]] if row < 250 else S.values[S.offsets[row] : S.offsets[row + 1]] for row in range(300)]
    sets = CandidateSets.from_lists(lists)
    start = sets.prior_or_uniform
    single = sets.sizes == 1
    odds = np.full(sets.values.size, 1.0)
    problem = ChainTask(X, sets, np.ones(300), odds, np.where(single, 0.0, 0.01), np.asarray(start))
    plan = ChainSettings(rounds=2, most_rounds=2, sweeps=4, steps=2, kernel_rows=50, features=60, last_features=80)
    sampler = _Sampler(problem, plan, X[:80], np.random.default_rng(0))
    sampler.run(Kernel.prior(2))
    assert_array_equal(sampler.parts[0].labels[single], y[:250])
    assert fit(X, sets, start=start).weights[sets.offsets[250:-1] + (true[250:] - S.offsets[250:-1])].mean() > 0.8


@pytest.mark.parametrize("name", [name for name in WEIGHTINGS if name != "posterior"])
def test_other_weightings_draw_nothing(name):
    X, y, S, _ = made_up(100, false_labels=1)
    for start in (None, np.tile([0.0, 1.0], 100)):
        model = fit(X, S, rule=Rule(get_weighting(name), Squared()), start=start)
        assert len(model.chains) == 1
        check_weights(model.weights, S)
        assert np.corrcoef(model.predict(X), y)[0, 1] > 0.7


def test_chains_see_some_rows_and_judge_the_rest():
    X, y, S, true = made_up(240)
    model = fit(X, S, GaussianProcess(chains=1, rounds=24, most_rows=120))
    (chain,) = model.chains
    assert len(chain.out_of_fold) == 120
    check_weights(model.weights, S)
    assert len(model.out_of_fold) == 240
    # Rows that were not seen are predicted by the function as it is, in single precision; others may be as near.
    plain = np.abs(model.predict(X) - model.out_of_fold) < 1e-4
    assert 120 <= plain.sum() <= 125
    assert model.weights[true][plain].mean() > 0.75
    assert np.mean((model.out_of_fold[plain] - y[plain]) ** 2) < 0.1


def test_groups_have_no_say_in_their_rows():
    # Labels have nothing to do with features, so that only rows of its own group can tell a row's.
    random = np.random.default_rng(0)
    X = np.repeat(random.normal(size=(20, 2)), 8, axis=0)
    y = np.repeat(random.uniform(size=20), 8)
    S, truth = make_candidates(y, 2, set_size="fixed", random_state=1, return_index=True)
    apart, together = (
        PartialLabelRegressor(SMALL, random_state=0).fit(X, S, groups=groups)
        for groups in (None, np.repeat(np.arange(20), 8))
    )
    assert np.mean(apart.identify().index == truth) > 0.7
    assert np.mean(together.identify().index == truth) < 0.5
    assert together.model_.out_of_fold is together.model_.out_of_fold_weights is None


@pytest.mark.filterwarnings("ignore:.*still being processed:UserWarning")
def test_the_callback_is_told_of_each_chain_and_may_stop_it():
    X, _, S, _ = made_up(60)
    told = []
    fit(X, S, GaussianProcess(chains=3, rounds=2), callback=lambda *progress: told.append(progress))
    assert [progress[:2] for progress in told] == [(1, 3), (2, 3), (3, 3)]
    assert np.isfinite([loss for *_, loss in told]).all()

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(X, S, callback=stop)


def test_a_label_that_is_none_spoils_nothing():
    X, y, S, true = made_up(120)
    values = S.values.copy()
    values[S.offsets[5] if true[5] != S.offsets[5] else S.offsets[5] + 1] = 999_999.0
    model = fit(X, CandidateSets(values, S.offsets), LONG)
    assert np.mean((model.out_of_fold - y) ** 2) < 0.1


# Starts


def a_chain(weights):
    class Chain:
        pass

    chain = Chain()
    chain.weights = np.asarray(weights, dtype=np.float64)
    return chain


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        ([0.9, 0.1, 0.9, 0.1], [0]),
        ([0.1, 0.9, 0.1, 0.9], [1, 2]),
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 2]),
        (None, [0, 1, 2]),
    ],
    ids=["first", "others", "no opinion", "no start"],
)
def test_chains_far_from_the_start_are_left_out(start, kept):
    S = CandidateSets.from_lists([[0.0, 1.0], [0.0, 1.0]])
    given = None if start is None else np.array(start)
    problem = ChainTask(np.zeros((2, 1)), S, np.ones(2), np.ones(4), np.zeros(2), given)
    chains = [a_chain([0.99, 0.01, 0.99, 0.01]), a_chain([0.01, 0.99, 0.02, 0.98]), a_chain([0.01, 0.99, 0.01, 0.99])]
    assert _agreeing(chains, [], problem, [])[0] == list(kept)


def test_chains_that_have_found_far_less_than_the_best_are_left_out():
    random = np.random.default_rng(0)
    best = random.normal(size=100)
    noisy = best - 0.2 + np.resize([-2.0, 2.0], 100)
    given = [best, best - 0.1, best - 0.3, noisy]
    # The second is behind by little, the last perhaps by chance.
    assert _likely([0, 1, 2, 3], given, np.ones(100)) == [0, 1, 3]
    assert _likely([1, 2], given, np.ones(100)) == [1]


def wave(rows=250, noise=0.05, seed=0):
    """Return rows of one feature around a wave, each label among six false ones."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(rows, 1))
    y = np.sin(4 * X[:, 0]) + noise * random.normal(size=rows)
    return X, y, make_candidates(y, 6, set_size="fixed", random_state=seed + 1)


def test_a_chain_goes_on_until_the_function_takes_shape():
    X, y, S = wave()
    short, long = (fit(X, S, GaussianProcess(chains=1, rounds=6, most_rounds=most)) for most in (6, 60))
    errors = [np.mean((model.predict(X) - y) ** 2) / np.var(y) for model in (short, long)]
    assert errors[1] < 0.2 * errors[0]
    assert errors[1] < 0.02
    assert 6 < long.report.rounds <= 60


def test_a_chain_in_which_nothing_takes_shape_is_what_its_first_rounds_say():
    X, _, S = wave(noise=3.0)
    short, long = (fit(X, S, GaussianProcess(chains=1, rounds=6, most_rounds=most)) for most in (6, 24))
    assert long.report.rounds == 6
    assert_array_equal(short.predict(X), long.predict(X))


def test_more_rounds_than_the_most_are_an_error():
    X, _, S = wave(60)
    with pytest.raises(ParameterError, match="most_rounds"):
        fit(X, S, GaussianProcess(rounds=10, most_rounds=5))


def test_a_start_that_all_chains_contradict_is_got_over():
    X, y, S, true = made_up(120, false_labels=1)
    start = np.full(S.values.size, 0.6)
    start[true] = 0.4
    model = fit(X, S, start=start)
    check_weights(model.weights, S)
    assert model.weights[true].mean() > 0.8
    assert np.mean((model.out_of_fold - y) ** 2) < 0.1


# Hard data


def hard_problems():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 2))
    y = X[:, 0] + 0.05 * random.normal(size=50)
    S = make_candidates(y, 2, set_size="fixed", random_state=1)
    few = np.zeros(50)
    few[3] = 1.0
    cases = {f"{rows} rows": (X[:rows], S[:rows], {}) for rows in (1, 2, 3)}
    return cases | {
        "constant columns": (np.column_stack([X, np.ones((50, 2))]), S, {}),
        "nothing but constants": (np.ones((50, 2)), S, {}),
        "one column": (X[:, 1:], S, {}),
        "more columns than rows": (random.normal(size=(50, 90)), S, {}),
        "equal rows": (np.repeat(X[:5], 10, axis=0), S, {}),
        "equal candidates": (X, [[3.0, 3.0]] * 50, {}),
        "all equal but one": (X, [[3.0, 3.0]] * 49 + [[3.0, 4.0]], {}),
        "huge labels": (X, CandidateSets(1e290 * S.values, S.offsets), {}),
        "tiny labels": (X, CandidateSets(1e-300 * S.values, S.offsets), {}),
        "labels far from zero": (X, CandidateSets(1e9 + 1e-3 * S.values, S.offsets), {}),
        "huge features": (1e300 * X, S, {}),
        "a feature far out": (np.where(np.arange(50)[:, None] == 3, 1e12, X), S, {}),
        "a label far out": (X, CandidateSets(np.where(np.arange(150) == 7, 1e12, S.values), S.offsets), {}),
        "gaps": (np.where(X > 0.5, np.nan, X), S, {}),
        "nothing but gaps": (np.full((50, 2), np.nan), S, {}),
        "weights that vanish": (X, S, {"sample_weight": 10.0 ** -np.linspace(0.0, 300.0, 50)}),
        "weight on one row": (X, S, {"sample_weight": few}),
        "one group": (X, S, {"groups": np.zeros(50)}),
        "a start of the priors": (X, S, {"start": np.full(150, 1 / 3)}),
        "priors near zero": (X, CandidateSets(S.values, S.offsets, np.tile([0.0, 1e-280, 1.0], 50)), {}),
        "wild densities of false labels": (X, S, {"log_q": 100 * random.normal(size=150)}),
    }


@pytest.mark.parametrize("name", hard_problems())
@pytest.mark.filterwarnings("error")
def test_hard_problems(name):
    X, S, more = hard_problems()[name]
    sets = S if isinstance(S, CandidateSets) else CandidateSets.from_lists(S)
    model = fit(X, sets, GaussianProcess(chains=2, rounds=3), **more)
    check_weights(model.weights, sets)
    assert (model.out_of_fold is None) == ("groups" in more)
    for found in (model.predict(X), model.out_of_fold, model.report.loss, model.report.noise_scale):
        assert found is None or np.isfinite(found).all()


@pytest.mark.parametrize("unit", [1e-290, 1e280])
def test_units_of_labels_do_not_matter(unit):
    X, _, S, _ = made_up(80)
    # What is rounded otherwise grows with the rounds.
    learner = GaussianProcess(chains=2, rounds=6, most_rounds=6)
    plain, scaled = (fit(X, CandidateSets(factor * S.values, S.offsets), learner) for factor in (1.0, unit))
    assert_allclose(scaled.weights, plain.weights, atol=1e-6)
    assert_allclose(scaled.predict(X) / unit, plain.predict(X), atol=1e-6)


# In the regressor


def test_noise_and_false_labels_are_held_against_each_other_in_one_unit():
    X, _, S, _ = made_up(80)
    weighting = Posterior(false_labels="estimated", missing_truth=0.1)
    plain, scaled = (
        PartialLabelRegressor(SMALL, weighting, random_state=0).fit(X, CandidateSets(unit * S.values, S.offsets))
        for unit in (1.0, 2.0**12)
    )
    assert_allclose(scaled.model_.weights, plain.model_.weights, atol=1e-6)
    assert_allclose(scaled.model_.report.loss, plain.model_.report.loss, atol=1e-6)


def test_frames_with_gaps_and_categories():
    X, y, _, _ = made_up(150)
    kind = np.arange(150) % 3
    frame = pd.DataFrame({"a": np.where(np.arange(150) % 7, X[:, 0], np.nan), "b": X[:, 1], "kind": list("xyz" * 50)})
    labels = y + 4.0 * kind
    model = PartialLabelRegressor(SMALL, random_state=0).fit(frame, make_candidates(labels, 2, random_state=7))
    assert model.score(frame, labels) > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict(frame), model.predict(frame), rtol=1e-12)
    assert np.isfinite(model.predict(frame.assign(kind="new", b=np.nan))).all()


def test_it_starts_with_the_density_and_identifies_without_more_fits(monkeypatch):
    X, _, S, true = made_up()
    model = PartialLabelRegressor(SMALL, random_state=0).fit(X, S)
    assert model.start_weights_ is not None
    assert PartialLabelRegressor(SMALL, "identification", random_state=0).fit(X, S).start_weights_ is None
    monkeypatch.setattr(GaussianProcess, "fit", None)
    assert np.mean(S.offsets[:-1] + model.identify().index == true) > 0.9


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"chains": 0}, "chains"),
        ({"rounds": "many"}, "rounds"),
        ({"features": 0}, "features"),
        ({"most_rows": 1}, "most_rows"),
        ({"outliers": 1.0}, "outliers"),
    ],
)
def test_bad_parameters_are_named(changed, message):
    X, _, S, _ = made_up(20)
    with pytest.raises(ParameterError, match=message):
        fit(X, S, GaussianProcess(**changed))


def test_what_it_cannot_do_is_refused():
    X, _, S, _ = made_up(20)
    with pytest.raises(ParameterError, match="squared loss only"):
        fit(X, S, rule=Rule(Posterior(), Absolute()))
    with pytest.raises(ParameterError, match="validation"):
        fit(X, S, validation=(X, S))
    with pytest.raises(ParameterError, match="noise scale of its own"):
        fit(X, S, rule=Rule(Posterior(scale="row"), Squared()))
