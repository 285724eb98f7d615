"""The training loop: what it promises about seeds, budgets, threads, best epochs and interruptions."""

from __future__ import annotations

import _thread
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from plr import CandidateSets
from plr.errors import DivergenceError, LengthError, ParameterError
from plr.losses import get_loss
from plr.network import network
from plr.network.layers import Layout
from plr.network.network import (
    Network,
    NetworkSettings,
    TrainedNetwork,
    Validation,
    kernel_sets,
    train_network,
)
from plr.network.training import BY_EVIDENCE, BY_LOSS, BY_TRUTH, DENSITY, Head, _shuffle, train
from plr.weighting import WEIGHTINGS, Rule, get_weighting

ROWS, CANDIDATES = 150, 3
SETTINGS = NetworkSettings((6, 5), ("relu", "tanh"), epochs=12, batch_size=40, learning_rate=0.01, dtype="float64")
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
# These compile most kernels; in one process, so that it is done once.
pytestmark = pytest.mark.xdist_group("kernels")


@functools.cache
def compiled(weighting: str, loss: str = "squared") -> Rule:
    return Rule(get_weighting(weighting), get_loss(loss))


def problem(seed: int, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray, CandidateSets]:
    """Features, true labels and candidates around them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 4))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.05 * random.normal(size=rows)
    table = random.normal(size=(rows, CANDIDATES))
    table[np.arange(rows), random.integers(0, CANDIDATES, rows)] = y
    return X, y, CandidateSets.from_padded(table)


def fit(
    weighting: str = "progressive", settings: NetworkSettings = SETTINGS, seed: int = 0, **more: Any
) -> TrainedNetwork:
    X, _, S = problem(0)
    return train_network(X, kernel_sets(S), compiled(weighting), settings, seed=seed, **more)


def validation(*rules: int, truth: bool = True) -> Validation:
    X, y, S = problem(1, 70)
    return Validation(X, S, truth=y if truth else None, rules=rules)


def assert_same(one: TrainedNetwork, other: TrainedNetwork) -> None:
    """Bit for bit, in all that training gives."""
    assert_array_equal(one.last.parameters, other.last.parameters)
    for name in ("loss", "scales", "validation", "state"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.best.keys() == other.best.keys()
    for rule in one.best:
        assert one.best[rule][:2] == other.best[rule][:2]
        assert_array_equal(one.best[rule].network.parameters, other.best[rule].network.parameters)


class TestReproducible:
    @every_dtype
    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    def test_same_seed_same_bits(self, weighting: str, dtype: str) -> None:
        settings = replace(SETTINGS, dtype=dtype)
        assert_same(fit(weighting, settings), fit(weighting, settings))
        other = fit(weighting, settings, seed=1)
        assert not np.allclose(fit(weighting, settings).last.parameters, other.last.parameters)
        assert other.last.parameters.dtype == dtype

    @every_dtype
    @pytest.mark.parametrize("budget", [1, 7, 10_000])
    def test_steps_per_call(self, monkeypatch: pytest.MonkeyPatch, budget: int, dtype: str) -> None:
        settings = replace(SETTINGS, dtype=dtype, schedule="cosine")
        judge = validation(BY_LOSS, BY_EVIDENCE, BY_TRUTH)
        usual = fit("posterior", settings, validation=judge)
        calls = []

        def few_steps(*arguments: Any) -> bool:
            calls.append(budget)
            return train(*arguments[:-1], budget)

        monkeypatch.setattr(network, "train", few_steps)
        assert_same(usual, fit("posterior", settings, validation=judge))
        assert len(calls) == -(-48 // budget)

    @pytest.mark.parametrize("seconds", [0.0, 1e9])
    def test_seconds_between_looks(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        usual = fit()
        monkeypatch.setattr(network, "_SECONDS_BETWEEN_LOOKS", seconds)
        assert_same(usual, fit())

    @every_dtype
    def test_threads(self, dtype: str) -> None:
        settings = replace(SETTINGS, dtype=dtype)
        serial = [fit("posterior", settings, seed) for seed in range(6)]
        with ThreadPoolExecutor(4) as pool:
            parallel = list(pool.map(lambda seed: fit("posterior", settings, seed), range(6)))
        for one, other in zip(serial, parallel, strict=True):
            assert_same(one, other)

    def test_inputs_are_left_alone(self) -> None:
        X, _, S = problem(0)
        weight = np.linspace(1, 2, ROWS)
        before = X.copy(), S.values.copy(), weight.copy()
        train_network(X, kernel_sets(S), compiled("average"), SETTINGS, seed=0, sample_weight=weight)
        for array, copy in zip((X, S.values, weight), before, strict=True):
            assert_array_equal(array, copy)

    def test_watching_changes_nothing(self) -> None:
        plain = fit("posterior")
        watched = fit("posterior", validation=validation(BY_LOSS, BY_EVIDENCE), callback=lambda *_: None)
        assert_array_equal(plain.last.parameters, watched.last.parameters)
        assert_array_equal(plain.loss, watched.loss)
        assert plain.best == {}
        assert plain.validation.size == 0

    def test_longer_training_begins_alike(self) -> None:
        """With a constant rate, twelve epochs pass through what five epochs end at."""
        assert_array_equal(fit(settings=replace(SETTINGS, epochs=5)).loss, fit().loss[:5])


class TestShuffle:
    def test_permutation_and_fresh(self) -> None:
        order, random = np.arange(101), np.array([12345], dtype=np.uint64)
        seen = set()
        for _ in range(20):
            _shuffle(order, random)
            assert_array_equal(np.sort(order), np.arange(101))
            seen.add(order.tobytes())
        assert len(seen) == 20

    def test_even(self) -> None:
        """Every row is as likely in every place."""
        random, counts = np.array([1], dtype=np.uint64), np.zeros((6, 6))
        for _ in range(6000):
            order = np.arange(6)
            _shuffle(order, random)
            counts[order, np.arange(6)] += 1
        assert stats.chisquare(counts.ravel()).pvalue > 1e-3

    def test_each_row_once_an_epoch(self) -> None:
        """A network that does not move has the same loss in each epoch, only if each epoch sees each row once."""
        still = replace(SETTINGS, learning_rate=1e-300)
        losses = fit("progressive", still).loss
        assert_allclose(losses, losses[0], rtol=1e-12)
        whole = fit("progressive", replace(still, batch_size=ROWS)).loss
        assert_allclose(losses, whole, rtol=1e-12)

    def test_each_epoch_has_its_own_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        orders = []

        def one_epoch(*arguments: Any) -> bool:
            over = train(*arguments[:-1], 4)
            orders.append(arguments[-3].order.copy())
            return over

        monkeypatch.setattr(network, "train", one_epoch)
        fit()
        assert len(orders) == len({order.tobytes() for order in orders}) == SETTINGS.epochs
        for order in orders:
            assert_array_equal(np.sort(order), np.arange(ROWS))
            assert not np.array_equal(order, np.arange(ROWS))

    def test_one_batch_is_left_in_order(self) -> None:
        """Nothing is drawn then, and all rows count in every step anyway."""
        X, _, S = problem(0)
        whole = replace(SETTINGS, batch_size=ROWS)
        swapped = np.arange(ROWS)[::-1]
        backwards = train_network(X[swapped], kernel_sets(S[swapped]), compiled("progressive"), whole, seed=0)
        assert_allclose(backwards.loss, fit(settings=whole).loss, rtol=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# The scores of epochs once more, by NumPy and SciPy


def rows_of(S: CandidateSets) -> np.ndarray:
    return np.asarray(S)


def numpy_loss(weighting: str, prediction: np.ndarray, S: CandidateSets, scale: float) -> float:
    residual = prediction[:, None] - rows_of(S)
    score = {
        "average": 0 * residual,
        "identification": -1e12 * residual**2,
        "progressive": 10 / np.abs(residual),
        "posterior": stats.t(3, scale=scale).logpdf(residual),
    }[weighting]
    return float((special.softmax(score, axis=1) * residual**2).sum(1).mean())


def numpy_next_scale(prediction: np.ndarray, S: CandidateSets, scale: float) -> float:
    residual = prediction[:, None] - rows_of(S)
    weights = special.softmax(stats.t(3, scale=scale).logpdf(residual), axis=1)
    return float(np.sqrt((weights * 4 * residual**2 / (3 + (residual / scale) ** 2)).sum(1).mean()))


def numpy_evidence(prediction: np.ndarray, S: CandidateSets, scale: float) -> float:
    terms = stats.t(3, scale=scale).logpdf(prediction[:, None] - rows_of(S)) - np.log(S.sizes[:, None])
    return float(special.logsumexp(terms, axis=1).mean())


class TestBestEpoch:
    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    def test_scores_and_networks(self, weighting: str) -> None:
        judge = validation(BY_LOSS, BY_EVIDENCE, BY_TRUTH)
        settings = replace(SETTINGS, learning_rate=0.05, initial_scale=0.8)
        training = fit(weighting, settings, validation=judge)
        networks = [fit(weighting, replace(settings, epochs=k + 1)).last for k in range(settings.epochs)]
        assert_array_equal(networks[-1].parameters, training.last.parameters)

        scale = 0.8
        for epoch, trained in enumerate(networks):
            prediction = trained.predict(judge.features)
            scale = numpy_next_scale(prediction, judge.sets, scale)
            wanted = [
                numpy_loss(weighting, prediction, judge.sets, training.scales[epoch]),
                -numpy_evidence(prediction, judge.sets, scale),
                np.mean((prediction - judge.truth) ** 2),
            ]
            assert_allclose(training.validation[epoch], wanted, rtol=1e-9, err_msg=f"epoch {epoch}")

        assert training.best.keys() == {BY_LOSS, BY_EVIDENCE, BY_TRUTH}
        for rule, best in training.best.items():
            assert best.epoch == training.validation[:, rule].argmin()
            assert best.score == training.validation[:, rule].min()
            assert_array_equal(best.network.parameters, networks[best.epoch].parameters)
        assert any(best.epoch < settings.epochs - 1 for best in training.best.values())

    def test_only_the_rules_wanted(self) -> None:
        training = fit(validation=validation(BY_TRUTH))
        assert training.best.keys() == {BY_TRUTH}
        assert np.isnan(training.validation[:, [BY_LOSS, BY_EVIDENCE]]).all()
        assert np.isfinite(training.validation[:, BY_TRUTH]).all()

    def test_own_loss_and_evidence_on_different_targets(self) -> None:
        """The paper's AVGV trains on means; its common score is still taken on the candidates."""
        X, _, S = problem(1, 70)
        means = CandidateSets.from_lists(S.mean()[:, None])
        judge = Validation(X, means, candidates=S, rules=(BY_LOSS, BY_EVIDENCE))
        training = fit("average", validation=judge)
        alone = fit("average", validation=Validation(X, S, rules=(BY_EVIDENCE,)))
        assert_array_equal(training.validation[:, BY_EVIDENCE], alone.validation[:, BY_EVIDENCE])
        prediction = training.best[BY_LOSS].network.predict(X)
        assert_allclose(training.best[BY_LOSS].score, np.mean((prediction - S.mean()) ** 2), rtol=1e-9)

    @every_dtype
    def test_float32_too(self, dtype: str) -> None:
        judge = validation(BY_TRUTH)
        best = fit(settings=replace(SETTINGS, dtype=dtype), validation=judge).best[BY_TRUTH]
        assert_allclose(np.mean((best.network.predict(judge.features) - judge.truth) ** 2), best.score, rtol=1e-12)

    @pytest.mark.parametrize("rule", [BY_LOSS, BY_EVIDENCE, BY_TRUTH])
    @pytest.mark.parametrize("patience", [1, 3])
    def test_patience(self, rule: int, patience: int) -> None:
        X, y, _ = problem(1, 70)
        opposite = Validation(X, CandidateSets.from_lists(-y[:, None]), truth=-y, rules=(rule,))
        settings = replace(SETTINGS, epochs=200, patience=patience, stop_rule=rule, learning_rate=0.02)
        training = fit("average", settings, validation=opposite)
        done = len(training.loss)
        assert done == training.best[rule].epoch + patience + 1 < 200
        assert training.best[rule].epoch == training.validation[:, rule].argmin()
        assert len(training.validation) == len(training.scales) == done

    def test_patience_by_the_stop_rule_alone(self) -> None:
        """Another rule that is watched as well does not stop training."""
        X, y, S = problem(1, 70)
        judge = Validation(X, S, truth=-y, rules=(BY_LOSS, BY_TRUTH))
        settings = replace(SETTINGS, epochs=40, patience=2)
        by_truth = fit("average", replace(settings, stop_rule=BY_TRUTH), validation=judge)
        by_loss = fit("average", replace(settings, stop_rule=BY_LOSS), validation=judge)
        assert len(by_truth.loss) < len(by_loss.loss)

    def test_no_patience_without_validation(self) -> None:
        assert len(fit(settings=replace(SETTINGS, patience=1)).loss) == SETTINGS.epochs


class TestState:
    def test_noise_scale_follows_em(self) -> None:
        """Around a network that does not move, each epoch is one round of expectation-maximisation."""
        X, _, S = problem(0)
        training = fit("posterior", replace(SETTINGS, learning_rate=1e-300, initial_scale=2.0))
        prediction, scale = training.last.predict(X), 2.0
        for epoch in range(SETTINGS.epochs):
            assert_allclose(training.loss[epoch], numpy_loss("posterior", prediction, S, scale), rtol=1e-9)
            scale = numpy_next_scale(prediction, S, scale)
            assert_allclose(training.scales[epoch], scale, rtol=1e-9)
        assert training.state[0] == training.scales[-1]

    def test_weightings_without_a_scale_leave_it(self) -> None:
        assert_array_equal(fit("progressive", replace(SETTINGS, initial_scale=0.3)).scales, 0.3)

    def test_start_weights_for_the_first_epochs(self) -> None:
        X, _, S = problem(0)
        fixed = np.random.default_rng(5).dirichlet(np.ones(CANDIDATES), ROWS)
        settings = replace(SETTINGS, learning_rate=1e-300, epochs=4, fixed_epochs=2)
        sets = kernel_sets(S, fixed=fixed.ravel())
        training = train_network(X, sets, compiled("identification"), settings, seed=0)
        residual = training.last.predict(X)[:, None] - rows_of(S)
        given, nearest = np.mean((fixed * residual**2).sum(1)), np.mean((residual**2).min(1))
        assert_allclose(training.loss, [given, given, nearest, nearest], rtol=1e-9)

    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    def test_one_candidate_each_is_supervision(self, weighting: str) -> None:
        X, y, _ = problem(0)
        plain = kernel_sets(CandidateSets.from_lists(y[:, None]))
        wanted = train_network(X, plain, compiled("average"), SETTINGS, seed=0)
        found = train_network(X, plain, compiled(weighting), SETTINGS, seed=0)
        assert_array_equal(found.last.parameters, wanted.last.parameters)
        assert found.loss[-1] < 0.5 * found.loss[0]

    def test_sample_weight_is_repetition(self) -> None:
        X, _, S = problem(0)
        counts = np.random.default_rng(2).integers(0, 3, ROWS)
        rows = np.repeat(np.arange(ROWS), counts)
        settings = replace(SETTINGS, batch_size=10_000, epochs=30)
        weighted = train_network(X, kernel_sets(S), compiled("posterior"), settings, seed=0, sample_weight=3.0 * counts)
        repeated = train_network(X[rows], kernel_sets(S[rows]), compiled("posterior"), settings, seed=0)
        assert_allclose(weighted.loss, repeated.loss, rtol=1e-7)
        assert_allclose(weighted.scales, repeated.scales, rtol=1e-7)
        assert_allclose(weighted.last.predict(X), repeated.last.predict(X), rtol=1e-6, atol=1e-6)

    @every_dtype
    def test_learns(self, dtype: str) -> None:
        X, y, S = problem(0, 1500)
        settings = replace(SETTINGS, epochs=60, dtype=dtype)
        training = train_network(X, kernel_sets(S), compiled("progressive"), settings, seed=0)
        predicted = training.last.predict(X)
        assert np.mean((predicted - y) ** 2) < 0.2 * np.var(y)

    def test_density_head(self) -> None:
        X, _, S = problem(0)
        bins, head = 9, Head(DENSITY, -3.0, 0.75)

        def trained(**changed: Any) -> TrainedNetwork:
            settings, rule = replace(SETTINGS, epochs=60, **changed), compiled("average")
            return train_network(X, kernel_sets(S), rule, settings, seed=0, head=head, outputs=bins)

        learned = trained()
        assert learned.loss[-1] < learned.loss[0] - 0.1
        still = trained(learning_rate=1e-300)
        heights = special.softmax(still.last.outputs(X), axis=1) / 0.75
        heights[:, [0, -1]] *= 2
        centres = -3.0 + 0.75 * np.arange(bins)
        density = [np.interp(labels, centres, height) for labels, height in zip(rows_of(S), heights, strict=True)]
        assert_allclose(still.loss[-1], -float(np.log(np.mean(density, axis=1)).mean()), rtol=1e-9)
        judge, rule = Validation(X, S), compiled("average")
        with pytest.raises(ParameterError, match="density head"):
            train_network(X, kernel_sets(S), rule, SETTINGS, seed=0, head=head, outputs=bins, validation=judge)


class TestInterruptions:
    @pytest.mark.parametrize("weighting", WEIGHTINGS)
    @pytest.mark.parametrize(("dtype", "rate"), [("float32", 1e30), ("float64", 1e200)])
    def test_divergence(self, weighting: str, dtype: str, rate: float) -> None:
        wild = replace(SETTINGS, dtype=dtype, optimizer="sgd", learning_rate=rate)
        with pytest.raises(DivergenceError, match=r"loss became (nan|inf) in epoch \d+ of 12.*smaller learning_rate"):
            fit(weighting, wild)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_divergence_in_the_last_step(self, dtype: str) -> None:
        """No loss is taken after it, but a network of NaN must not be handed over as trained."""
        X, _, S = problem(0)
        wild = replace(SETTINGS, dtype=dtype, optimizer="sgd", learning_rate=1e307, epochs=1, batch_size=ROWS)
        far = CandidateSets(S.values * 1e4, S.offsets)
        with pytest.raises(DivergenceError, match="parameters became infinite in epoch 1 of 1"):
            train_network(X, kernel_sets(far), compiled("average"), wild, seed=0)

    def test_callback(self) -> None:
        heard: list[tuple[int, int, float]] = []
        training = fit(settings=replace(SETTINGS, epochs=300), callback=lambda *told: heard.append(told))
        epochs = [epoch for epoch, _, _ in heard]
        assert epochs == sorted(epochs)
        assert epochs[-1] == 300
        for epoch, of, loss in heard:
            assert of == 300
            assert loss == training.loss[epoch - 1]

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
    def test_exception_in_callback(self, kind: type[BaseException]) -> None:
        heard: list[int] = []

        def stop(epoch: int, _epochs: int, _loss: float) -> None:
            heard.append(epoch)
            raise kind("enough")

        with pytest.raises(kind, match="enough"):
            fit(settings=replace(SETTINGS, epochs=1_000_000), callback=stop)
        assert len(heard) == 1
        assert heard[0] < 10_000

    def test_interrupt_from_the_keyboard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It comes while a kernel is running, and nothing is computed after the steps that were under way."""
        running, sent, steps = threading.Event(), threading.Event(), []

        def interrupt() -> None:
            running.wait()
            if len(steps) == 3:
                _thread.interrupt_main()
            sent.set()

        def interrupted(*arguments: Any) -> bool:
            assert not sent.is_set(), "went on"
            steps.append(arguments[-1])
            if len(steps) < 3:
                return train(*arguments)
            running.set()
            over = train(*arguments)
            sent.wait()
            return over

        monkeypatch.setattr(network, "train", interrupted)
        # Where tests run in the background of a shell, the signal is ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        keyboard = threading.Thread(target=interrupt)
        keyboard.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                fit(settings=replace(SETTINGS, epochs=3_000_000))
        finally:
            running.set()
            keyboard.join()
            signal.signal(signal.SIGINT, before)
        assert len(steps) == 3

    def test_looks_come_at_a_steady_pace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Steps of a millisecond, by a clock of the test's own: a look every tenth of a second."""
        now, budgets = [0.0], []

        def count(*arguments: Any) -> bool:
            budgets.append(arguments[-1])
            now[0] += 1e-3 * arguments[-1]
            return train(*arguments)

        monkeypatch.setattr(network, "train", count)
        monkeypatch.setattr(network, "_FIRST_OPERATIONS", 1)
        monkeypatch.setattr(network, "time", SimpleNamespace(perf_counter=lambda: now[0]))
        fit(settings=replace(SETTINGS, epochs=500))
        assert budgets[:3] == [1, 8, 64]
        assert budgets[3:] == pytest.approx([100] * len(budgets[3:]), abs=1)
        assert len(budgets) > 20

    def test_first_look_comes_soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Steps may be slow; until their pace is known nobody should have to wait for many of a large network."""
        budgets = []

        def remember(*arguments: Any) -> bool:
            budgets.append(arguments[-1])
            return train(*arguments)

        monkeypatch.setattr(network, "train", remember)
        large = replace(SETTINGS, epochs=2, hidden=(1500, 1500), activations=("relu", "relu"))
        fit(settings=large)
        assert budgets[0] <= 10

    def test_other_threads_go_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The GIL is released: this thread runs while another is inside a call."""
        inside, caught = False, False

        def marked(*arguments: Any) -> bool:
            nonlocal inside
            inside = True
            over = train(*arguments[:-1], 1_000_000_000)
            inside = False
            return over

        def work() -> None:
            # Again and again, since on a busy machine this thread's turn may come between two calls.
            for _ in range(1_000):
                if not caught:
                    fit(settings=replace(SETTINGS, epochs=2_000))

        fit()
        monkeypatch.setattr(network, "train", marked)
        usual = sys.getswitchinterval()
        # A thread that keeps the GIL is not asked for it.
        sys.setswitchinterval(1e3)
        try:
            worker = threading.Thread(target=work)
            worker.start()
            while worker.is_alive() and not caught:
                time.sleep(1e-4)
                caught = inside
            worker.join()
        finally:
            sys.setswitchinterval(usual)
        assert caught


@pytest.mark.parametrize("make", [lambda: fit("average"), lambda: fit("posterior")])
def test_recorded_length(make: Callable[[], TrainedNetwork]) -> None:
    training = make()
    assert len(training.loss) == len(training.scales) == SETTINGS.epochs
    assert np.isfinite(training.loss).all()


def test_matrices_of_another_width_are_refused() -> None:
    """The kernels would write past their memory."""
    layout = Layout(np.array([2, 3, 1]), np.array([1]))
    net = Network(layout, np.zeros(13, np.float32))
    with pytest.raises(LengthError, match=r"takes 2 columns, got an array of shape \(4, 5\)"):
        net.predict(np.zeros((4, 5)))
