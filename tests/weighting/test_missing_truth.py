"""Rows whose truth may be missing: the compiled formula against its plain twin, and what is learned on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate

from plr import CandidateSets
from plr._codes import MISSING, SCALE
from plr.errors import ParameterError
from plr.losses import LOSSES, Loss, Pointwise, get_loss
from plr.weighting import Posterior, Rule
from support import naive
from support.pairs import all_pairs

NOISE_SCALE = 0.6
NOISES: dict[str, dict[str, Any]] = {
    "student": {},
    "student7": {"degrees": 7.0},
    "gaussian": {"noise": "gaussian"},
    "laplace": {"noise": "laplace"},
}
every_noise = pytest.mark.parametrize("noise", NOISES)


def square(prediction: float, value: float) -> float:
    return (prediction - value) ** 2


def square_derivative(prediction: float, value: float) -> float:
    return 2.0 * (prediction - value)


def problem(with_prior: bool) -> tuple[np.ndarray, list[list[float]], list[list[float]] | None, list[list[float]]]:
    random = np.random.default_rng(0)
    lists = [random.normal(size=k).tolist() for k in (1, 1, 2, 3, 7, 40)] + [[1e3], [0.5, 0.5], [2.0, -300.0]]
    prior = [random.uniform(0.1, 3.0, len(row)).tolist() for row in lists] if with_prior else None
    if prior is not None:
        prior[3][1] = 0.0
    log_q = [random.normal(-1.0, 0.7, len(row)).tolist() for row in lists]
    return random.normal(size=len(lists)), lists, prior, log_q


@pytest.mark.kernel
class TestFormula:
    @all_pairs(
        noise=NOISES,
        missing=[1e-3, 0.2, 0.9],
        loss=[*LOSSES, "own"],
        with_prior=[pytest.param(False, id="uniform"), pytest.param(True, id="prior")],
    )
    def test_twin(self, noise: str, missing: float, loss: str, with_prior: bool) -> None:
        weighting = Posterior(**NOISES[noise], missing_truth=missing)
        pointwise: Loss = Pointwise(square, square_derivative) if loss == "own" else get_loss(loss)
        rule = Rule(weighting, pointwise)
        prediction, lists, prior, log_q = problem(with_prior)
        S = CandidateSets.from_lists(lists, prior)
        found = rule.evaluate(prediction, S, rule.initial_state(NOISE_SCALE), np.concatenate(log_q))
        for i, values in enumerate(lists):
            one = None if prior is None else prior[i]
            wanted = naive.row_that_may_miss(
                weighting, pointwise, prediction[i], values, one, log_q[i], NOISE_SCALE, missing
            )
            span = slice(S.offsets[i], S.offsets[i + 1])
            assert_allclose(found.weights[span], wanted.weights, rtol=1e-9, atol=1e-290)
            by_row = [found.loss[i], found.gradient[i], found.hessian[i]]
            assert_allclose(by_row, wanted[1:], rtol=1e-9, atol=1e-280)

    @every_noise
    @pytest.mark.parametrize("with_prior", [False, True], ids=["uniform", "prior"])
    def test_evidence(self, noise: str, with_prior: bool) -> None:
        weighting = Posterior(**NOISES[noise], missing_truth=0.2)
        rule = Rule(weighting, get_loss("squared"))
        prediction, lists, prior, log_q = problem(with_prior)
        S = CandidateSets.from_lists(lists, prior)
        found = rule.evidence(prediction, S, rule.initial_state(NOISE_SCALE), np.concatenate(log_q))
        for i, values in enumerate(lists):
            one = None if prior is None else prior[i]
            plain = naive.evidence(weighting, prediction[i], values, one, log_q[i], NOISE_SCALE)
            assert_allclose(found[i], np.logaddexp(np.log(0.8) + plain, np.log(0.2)), rtol=1e-9)

    def test_no_share_is_the_plain_posterior_to_the_bit(self) -> None:
        prediction, lists, prior, log_q = problem(True)
        S = CandidateSets.from_lists(lists, prior)
        for density in (np.empty(0), np.concatenate(log_q)):
            plain, none = (
                Rule(weighting, get_loss("huber")) for weighting in (Posterior(), Posterior(missing_truth=0.0))
            )
            for a, b in zip(
                plain.evaluate(prediction, S, plain.initial_state(0.3), density),
                none.evaluate(prediction, S, none.initial_state(0.3), density),
                strict=True,
            ):
                assert_array_equal(a, b)

    def test_a_hopeless_row_has_no_weight(self) -> None:
        """Not even where the densities underflow; and a prediction that has diverged has a loss that is NaN."""
        rule = Rule(Posterior("gaussian", missing_truth=0.1), get_loss("squared"))
        S = CandidateSets.from_lists([[1e9, -1e200], [0.0, 5.0]])
        found = rule.evaluate(np.array([0.0, np.nan]), S, rule.initial_state(1.0), np.zeros(4))
        assert_array_equal(found.weights[:2], 0.0)
        assert_array_equal([found.loss[0], found.gradient[0], found.hessian[0]], 0.0)
        assert np.isnan(found.weights[2:]).all()
        assert np.isnan(found.loss[1])

    def test_constants_count(self) -> None:
        """The probability that the truth is there is Bayes' rule with densities that integrate to one."""
        rule = Rule(Posterior(degrees=4.0, missing_truth=0.3), get_loss("squared"))
        state = rule.initial_state(0.5)
        S = CandidateSets.from_lists([[0.7]])

        def ratio(value: float) -> float:
            share = rule.evaluate(np.zeros(1), CandidateSets.from_lists([[value]]), state, np.zeros(1)).weights[0]
            return share / (1 - share) * 0.3 / 0.7

        assert_allclose(integrate.quad(ratio, -np.inf, np.inf)[0], 1.0, rtol=1e-6)
        narrow = rule.evaluate(np.zeros(1), S, state, np.full(1, -3.0)).weights[0]
        assert narrow > rule.evaluate(np.zeros(1), S, state, np.zeros(1)).weights[0]


class TestLearning:
    @every_noise
    @pytest.mark.parametrize("weighted", [False, True])
    def test_one_round(self, noise: str, weighted: bool) -> None:
        """Both are the means over the rows that are believed to have their truth."""
        weighting = Posterior(**NOISES[noise], missing_truth="learned")
        rule = Rule(weighting, get_loss("squared"))
        prediction, lists, _, log_q = problem(False)
        S = CandidateSets.from_lists(lists)
        importance = np.arange(1.0, len(S) + 1) if weighted else None
        state = rule.initial_state(NOISE_SCALE)
        assert state[MISSING] == 0.05
        weights = rule.evaluate(prediction, S, state, np.concatenate(log_q)).weights
        found = rule.update_scale(prediction, S, state, weights, importance)
        factor = np.ones(len(S)) if importance is None else importance
        there = np.add.reduceat(weights, S.offsets[:-1])
        assert_allclose(found[MISSING], min(1 - np.average(there, weights=factor), 0.5))
        # The twin takes plain means: all candidates are one row's then, which adds up to the same.
        shares = weights * factor[S.row_index] / (there * factor).sum()
        wanted = naive.next_scale(
            weighting, [0.0], [list(prediction[S.row_index] - S.values)], [list(shares)], NOISE_SCALE
        )
        assert_allclose(found[SCALE], wanted)

    def test_what_is_given_stays(self) -> None:
        rule = Rule(Posterior(missing_truth=0.2), get_loss("squared"))
        S = CandidateSets.from_lists([[0.0, 1.0], [5.0]])
        state = rule.initial_state(1.0)
        weights = rule.evaluate(np.zeros(2), S, state, np.zeros(3)).weights
        assert rule.update_scale(np.zeros(2), S, state, weights)[MISSING] == 0.2

    def test_a_start_says_nothing_about_it(self) -> None:
        rule = Rule(Posterior(missing_truth="learned"), get_loss("squared"))
        S = CandidateSets.from_lists([[0.0, 1.0], [5.0]])
        state = rule.initial_state(1.0)
        assert rule.update_scale(np.zeros(2), S, state, S.prior_or_uniform.copy(), own=False)[MISSING] == 0.05

    def test_stays_below_a_half(self) -> None:
        rule = Rule(Posterior(missing_truth="learned"), get_loss("squared"))
        S = CandidateSets.from_lists([[1e6]] * 4)
        state = rule.initial_state(1.0)
        for _ in range(3):
            weights = rule.evaluate(np.zeros(4), S, state, np.zeros(4)).weights
            state = rule.update_scale(np.zeros(4), S, state, weights)
            assert 0 <= state[MISSING] <= 0.5
            assert np.isfinite(state).all()


@pytest.mark.parametrize("given", [-0.1, 1.0, "some", None, True, float("nan")])
def test_bad_share(given: Any) -> None:
    with pytest.raises(ParameterError, match="missing_truth must be"):
        Posterior(missing_truth=given).encode()


def test_bad_scale() -> None:
    with pytest.raises(ParameterError, match="scale"):
        Posterior(scale="each").encode()
