"""Laws of the formula, for every registered weighting and loss and for users' own."""

from __future__ import annotations

import functools
import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import plr
from plr import CandidateSets
from plr._codes import Sets
from plr.errors import LengthError, ParameterError
from plr.losses import LOSSES, Absolute, Huber, Loss, Pointwise, Squared, get_loss
from plr.weighting import (
    WEIGHTINGS,
    Average,
    Custom,
    Evaluation,
    Identify,
    Posterior,
    Progressive,
    Rule,
    Weighting,
    WeightingCode,
    get_weighting,
    weigh,
)
from plr.weighting.formula import evaluate as kernel
from plr.weighting.rule import frozen
from support import naive
from support.pairs import all_pairs


def boltzmann(prediction: float, value: float, loss: float) -> float:
    return -loss / 0.3


def posterior_score(prediction: float, value: float, loss: float) -> float:
    return -0.5 * ((prediction - value) / 0.7) ** 2


def progressive_score(prediction: float, value: float, loss: float) -> float:
    return 2.0 / math.sqrt(loss)


def unbounded(prediction: float, value: float, loss: float) -> float:
    return math.inf if loss == 0.0 else 1.0 / loss


def bounded(prediction: float, value: float, loss: float) -> float:
    return -math.inf if loss > 2.0 else 0.0


def constant_score(prediction: float, value: float, loss: float) -> float:
    return 3.0


def square(prediction: float, value: float) -> float:
    return (prediction - value) ** 2


def square_derivative(prediction: float, value: float) -> float:
    return 2.0 * (prediction - value)


def square_curvature(prediction: float, value: float) -> float:
    return 2.0


def pseudo_huber(prediction: float, value: float) -> float:
    return math.sqrt(1.0 + (prediction - value) ** 2) - 1.0


def pseudo_huber_derivative(prediction: float, value: float) -> float:
    return (prediction - value) / math.sqrt(1.0 + (prediction - value) ** 2)


def lopsided(prediction: float, value: float) -> float:
    return 3.0 * (prediction - value) if prediction > value else value - prediction


def lopsided_derivative(prediction: float, value: float) -> float:
    return 3.0 if prediction > value else -1.0


# Every registered name at its defaults, and what else the kernels have code for.
ALL_WEIGHTINGS: dict[str, Weighting] = {name: make() for name, make in WEIGHTINGS.items()} | {
    "progressive-mild": Progressive(beta1=1.3, beta2=0.2),
    "posterior-gaussian": Posterior("gaussian"),
    "posterior-laplace": Posterior("laplace"),
    "posterior-student5": Posterior("student", degrees=5.0),
    "custom": Custom(boltzmann),
}
ALL_LOSSES: dict[str, Loss] = {name: make() for name, make in LOSSES.items()} | {
    "huber-narrow": Huber(delta=0.25),
    "pointwise": Pointwise(pseudo_huber, pseudo_huber_derivative),
    "pointwise-lopsided": Pointwise(lopsided, lopsided_derivative, square_curvature),
}
SCALE = 0.7
# The kernel may give a candidate nothing in place of a share below exp(-50).
NEGLIGIBLE = 1e-20

every_weighting = pytest.mark.parametrize("weighting", ALL_WEIGHTINGS)
every_loss = pytest.mark.parametrize("loss", ALL_LOSSES)
every_pair = all_pairs(weighting=ALL_WEIGHTINGS, loss=ALL_LOSSES)
with_and_without_prior = (pytest.param(False, id="uniform"), pytest.param(True, id="prior"))


@functools.cache
def compiled(weighting: Weighting, loss: Loss) -> Rule:
    return Rule(weighting, loss)


def evaluate(
    weighting: Weighting | str,
    loss: Loss | str,
    prediction: float,
    values: list[float],
    prior: list[float] | None = None,
    log_q: list[float] | None = None,
    scale: float = SCALE,
) -> Evaluation:
    """One row through the kernel."""
    rule = compiled(
        ALL_WEIGHTINGS[weighting] if isinstance(weighting, str) else weighting,
        ALL_LOSSES[loss] if isinstance(loss, str) else loss,
    )
    S = CandidateSets.from_lists([values], None if prior is None else [prior])
    density = np.empty(0) if log_q is None else np.array(log_q)
    return rule.evaluate(np.array([prediction]), S, rule.initial_state(scale), density)


def check_row(weighting: str, loss: str, prediction: float, values: list[float], **more: object) -> Evaluation:
    """Compare one row with its twin."""
    found = evaluate(weighting, loss, prediction, values, **more)
    more.setdefault("scale", SCALE)
    wanted = naive.row(ALL_WEIGHTINGS[weighting], ALL_LOSSES[loss], prediction, values, **more)
    assert_allclose(found.weights, wanted.weights, rtol=1e-9, atol=1e-12)
    for name, got, expected in zip(
        ("value", "gradient", "curvature"), (found.loss, found.gradient, found.hessian), wanted[1:], strict=True
    ):
        # A gradient is a sum that may cancel; its error is that of its largest term.
        terms = {
            "value": naive.loss_value,
            "gradient": naive.loss_derivative,
            "curvature": naive.loss_curvature,
        }[name]
        largest = max(abs(terms(ALL_LOSSES[loss], prediction, value)) for value in values)
        assert_allclose(got[0], expected, rtol=1e-9, atol=1e-11 * largest, err_msg=name)
    return found


def check_shares(weights: np.ndarray) -> None:
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert abs(math.fsum(weights) - 1) <= 1e-12


# Multiples of 1/64 subtract exactly, so that ties are ties in both implementations and scores stay below 1e5.
grid = st.integers(-640, 640).map(lambda k: k / 64)
shares = st.sampled_from([0.0, 1e-12, 0.01, 0.3, 1.0, 7.0])


def at_most(examples: int) -> int:
    """Return a number of examples, or that of the profile where it is smaller."""
    return min(examples, settings().max_examples)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, object]:
    size = draw(st.integers(1, 9))
    values = draw(st.lists(grid, min_size=size, max_size=size))
    prior = draw(st.none() | st.lists(shares, min_size=size, max_size=size).filter(any))
    log_q = draw(st.none() | st.lists(st.floats(-5, 5), min_size=size, max_size=size))
    return {
        "prediction": draw(grid | st.sampled_from(values)),
        "values": values,
        "prior": prior,
        "log_q": log_q,
        "scale": draw(st.sampled_from([0.05, SCALE, 10.0])),
    }


@pytest.mark.kernel
class TestTwin:
    """The kernel against the slow implementation."""

    @every_weighting
    @settings(max_examples=at_most(30))
    @given(row=rows())
    def test_any_row(self, weighting: str, row: dict[str, object]) -> None:
        for loss in ALL_LOSSES:
            found = check_row(weighting, loss, **row)
            check_shares(found.weights)

    @all_pairs(
        weighting=ALL_WEIGHTINGS,
        loss=ALL_LOSSES,
        values=[
            pytest.param([2.5], id="single"),
            pytest.param([1.0, 1.0], id="tied"),
            pytest.param([0.75, 1.25], id="mirrored"),
            pytest.param([1.0, 1.0, 1.0, -1.0], id="tied-apart"),
            pytest.param([1.0, 1e6, -1e9], id="spread"),
            pytest.param(list(np.linspace(-3, 3, 1025)), id="many"),
        ],
        with_prior=with_and_without_prior,
    )
    def test_chosen_rows(self, weighting: str, loss: str, values: list[float], with_prior: bool) -> None:
        prior = [1.0 + (k % 3) for k in range(len(values))] if with_prior else None
        check_shares(check_row(weighting, loss, 1.0, values, prior=prior).weights)

    @all_pairs(weighting=ALL_WEIGHTINGS, loss=ALL_LOSSES, with_prior=with_and_without_prior)
    def test_short_rows_take_no_other_road(self, weighting: str, loss: str, with_prior: bool) -> None:
        """Few candidates are weighed in one vector. More that nobody believes in make a long row, and change no bit."""
        random = np.random.default_rng(1)
        values, prior = list(random.normal(size=3)), [0.25, 0.25, 0.5] if with_prior else [1.0, 1.0, 1.0]
        short = evaluate(weighting, loss, 0.3, values, prior=prior)
        long = evaluate(weighting, loss, 0.3, values + [50.0] * 20, prior=prior + [0.0] * 20)
        assert_array_equal(long.weights, np.append(short.weights, np.zeros(20)))
        for part in ("loss", "gradient", "hessian"):
            assert_array_equal(getattr(long, part), getattr(short, part))

    @every_weighting
    def test_where_arrays_lie_changes_no_bit(self, weighting: str) -> None:
        """The compiler has other code for arrays that it cannot tell apart, such as neighbours in memory."""
        random = np.random.default_rng(0)
        S = CandidateSets.from_lists([list(random.normal(size=size)) for size in (3, 1, 9, 2, 17, 1)])
        rule = compiled(ALL_WEIGHTINGS[weighting], Squared())
        prediction, state = random.normal(size=6), rule.initial_state(SCALE)
        wanted = rule.evaluate(prediction, S, state).weights
        size, nothing = S.values.size, frozen(np.empty(0))
        for gap in (0, 1, 2, 5, 8, 16):
            memory = np.zeros(2 * size + gap)
            memory[:size] = S.values
            weights = memory[size + gap :]
            for first in range(6):
                offsets, parts = frozen(S.offsets[first:]), np.empty((3, 6 - first))
                values = frozen(memory[:size])
                sets = Sets(values, offsets, nothing, nothing, nothing)
                kernel(rule.formula, prediction[first:], sets, state, weights, *parts)
                assert_array_equal(weights[S.offsets[first] :], wanted[S.offsets[first] :])

    @every_weighting
    def test_rows_of_others_are_left_alone(self, weighting: str) -> None:
        """Threads share one array of weights: none may write behind its last row, nor before its first."""
        random = np.random.default_rng(0)
        S = CandidateSets.from_lists([list(random.normal(size=size)) for size in (3, 1, 9, 2, 17, 1)])
        rule = compiled(ALL_WEIGHTINGS[weighting], Squared())
        prediction, state = random.normal(size=6), rule.initial_state(SCALE)
        wanted = rule.evaluate(prediction, S, state).weights
        for first, last in ((0, 2), (1, 3), (2, 5), (3, 6)):
            weights, parts = np.full(S.values.size, 7.0), np.empty((3, last - first))
            offsets = frozen(S.offsets[first : last + 1])
            nothing = frozen(np.empty(0))
            sets = Sets(frozen(S.values), offsets, nothing, nothing, nothing)
            kernel(rule.formula, prediction[first:last], sets, state, weights, *parts)
            begin, end = S.offsets[first], S.offsets[last]
            assert_array_equal(weights[begin:end], wanted[begin:end])
            assert (np.delete(weights, np.s_[begin:end]) == 7.0).all()

    @every_weighting
    def test_rows_do_not_mix(self, weighting: str) -> None:
        lists = [[0.5, 2.0], [1.0], [0.0, 0.25, 3.0, 3.0], [-1.0, 4.0]]
        prior = [[1.0, 3.0], [1.0], [1.0, 2.0, 0.0, 1.0], [2.0, 1.0]]
        log_q = [[0.1, -1.0], [3.0], [0.0, 0.5, 1.0, -0.5], [0.2, 0.2]]
        predictions = np.array([0.0, 2.0, 0.5, 1.0])
        rule = compiled(ALL_WEIGHTINGS[weighting], ALL_LOSSES["huber"])
        together = rule.evaluate(
            predictions, CandidateSets.from_lists(lists, prior), rule.initial_state(SCALE), np.concatenate(log_q)
        )
        alone = [
            evaluate(weighting, "huber", p, v, prior=b, log_q=q)
            for p, v, b, q in zip(predictions, lists, prior, log_q, strict=True)
        ]
        for whole, parts in zip(together, zip(*alone, strict=True), strict=True):
            assert_array_equal(whole, np.concatenate(parts))

    @pytest.mark.parametrize(
        ("weighting", "family"),
        [
            (Posterior("gaussian"), stats.norm(scale=SCALE)),
            (Posterior("laplace"), stats.laplace(scale=SCALE)),
            (Posterior("student", 4.5), stats.t(4.5, scale=SCALE)),
        ],
        ids=["gaussian", "laplace", "student"],
    )
    def test_the_twin_itself(self, weighting: Posterior, family: stats.rv_continuous) -> None:
        for residual in (-3.0, 0.0, 0.4, 20.0):
            assert_allclose(naive.log_density(weighting, residual, SCALE), family.logpdf(residual), rtol=1e-12)

    @pytest.mark.parametrize("weighting", [name for name in ALL_WEIGHTINGS if name.startswith("posterior")])
    @settings(max_examples=at_most(60))
    @given(row=rows())
    def test_evidence(self, weighting: str, row: dict[str, object]) -> None:
        wanted = naive.evidence(ALL_WEIGHTINGS[weighting], **row)
        assert_allclose(kernel_evidence(weighting, **row), wanted, rtol=1e-10, atol=1e-10)

    @pytest.mark.parametrize("weighting", [name for name in ALL_WEIGHTINGS if name.startswith("posterior")])
    @pytest.mark.parametrize("residual", [1e60, 2e77, 1e100])
    def test_evidence_far_away(self, weighting: str, residual: float) -> None:
        row = {"prediction": 0.0, "values": [residual, 1.3 * residual], "scale": 1.0}
        found = kernel_evidence(weighting, **row)
        assert_allclose(found, naive.evidence(ALL_WEIGHTINGS[weighting], **row), rtol=1e-10)

    def test_evidence_of_the_impossible(self) -> None:
        assert kernel_evidence("posterior-gaussian", 0.0, [1e200, 2e200]) == -np.inf

    @pytest.mark.parametrize("weighting", [name for name in ALL_WEIGHTINGS if name.startswith("posterior")])
    def test_next_scale(self, weighting: str) -> None:
        lists, predictions = [[0.5, 2.0], [1.0], [0.0, 0.25, 3.0]], np.array([0.1, 2.0, 0.5])
        S = CandidateSets.from_lists(lists)
        rule = compiled(ALL_WEIGHTINGS[weighting], ALL_LOSSES["squared"])
        state = rule.initial_state(SCALE)
        weights = rule.evaluate(predictions, S, state).weights
        found = rule.update_scale(predictions, S, state, weights)
        split = np.split(weights, S.offsets[1:-1])
        assert_allclose(found[0], naive.next_scale(ALL_WEIGHTINGS[weighting], predictions, lists, split, SCALE))
        assert state[0] == SCALE, "the state belongs to the caller"


def kernel_evidence(
    weighting: str,
    prediction: float,
    values: list[float],
    prior: list[float] | None = None,
    log_q: list[float] | None = None,
    scale: float = SCALE,
) -> float:
    S = CandidateSets.from_lists([values], None if prior is None else [prior])
    rule = compiled(ALL_WEIGHTINGS[weighting], ALL_LOSSES["squared"])
    density = np.empty(0) if log_q is None else np.array(log_q)
    return float(rule.evidence(np.array([prediction]), S, rule.initial_state(scale), density)[0])


# The residuals at which each loss is exactly or nearly 0, 1e-300 and 1e300.
EXTREMES = {
    "squared": (0.0, 1e-150, 1e150),
    "absolute": (0.0, 1e-300, 1e300),
    "huber": (0.0, math.sqrt(2) * 1e-150, 1e300),
    "huber-narrow": (0.0, math.sqrt(2) * 1e-150, 4e300),
    "pointwise": (0.0, 1e-150, 1e150),
    "pointwise-lopsided": (0.0, -1e-300, -1e300),
}


@pytest.mark.kernel
class TestExtremes:
    def test_they_are_what_they_claim(self) -> None:
        for name in ("squared", "absolute", "huber", "huber-narrow", "pointwise-lopsided"):
            zero, tiny, huge = (naive.loss_value(ALL_LOSSES[name], r, 0.0) for r in EXTREMES[name])
            assert zero == 0
            assert_allclose([tiny, huge], [1e-300, 1e300], rtol=1e-12)

    @all_pairs(weighting=ALL_WEIGHTINGS, loss=ALL_LOSSES, with_prior=with_and_without_prior)
    def test_finite(self, weighting: str, loss: str, with_prior: bool) -> None:
        prior = [1.0, 2.0, 4.0, 1.0] if with_prior else None
        values = [-r for r in EXTREMES[loss]]
        for chosen in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2], [2, 2], [1, 1], [0, 0]):
            row = [values[k] for k in chosen]
            for more in ([], [1.0]):
                candidates = row + more
                found = evaluate(
                    weighting, loss, 0.0, candidates, prior=None if prior is None else prior[: len(candidates)]
                )
                check_shares(found.weights)
                for part in (found.loss, found.gradient, found.hessian):
                    assert np.isfinite(part).all(), candidates

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("weighting", [w for w in ALL_WEIGHTINGS if w != "average"])
    def test_zero_beats_huge(self, weighting: str, loss: str) -> None:
        zero, _, huge = EXTREMES[loss]
        assert_allclose(evaluate(weighting, loss, 0.0, [-huge, zero]).weights, [0, 1], atol=1e-200)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_progressive_zero_takes_all(self, loss: str) -> None:
        zero, tiny, _ = EXTREMES[loss]
        assert_array_equal(evaluate("progressive", loss, 0.0, [tiny, zero, zero]).weights, [0, 0.5, 0.5])

    @pytest.mark.parametrize("weighting", ["posterior", "posterior-student5", "posterior-laplace"])
    @pytest.mark.parametrize("residual", [1e40, 1e51, 1.6e51, 1e77, 1.5e77, 2e77, 1e78, 1e120])
    def test_posterior_far_from_all(self, weighting: str, residual: float) -> None:
        """Densities underflow here, some before others; their ratios do not."""
        check_row(weighting, "absolute", 0.0, [residual, 1.3 * residual, -residual], scale=1.0)

    @all_pairs(
        weighting=["posterior", "posterior-gaussian", "progressive", "custom"],
        belief=[1e-12, 1e-30, 1e-200],
        nearer=[0.25, 0.0],
    )
    def test_hardly_believed(self, weighting: str, belief: float, nearer: float) -> None:
        """The best score may belong to a candidate whose prior outweighs it."""
        check_row(weighting, "squared", 0.0, [nearer, 8.0, 9.0], prior=[belief, 1.0, 1.0])

    @every_weighting
    def test_subnormal_prior(self, weighting: str) -> None:
        found = evaluate(weighting, "squared", 0.0, [0.0, 11.0], prior=[1e-310, 1.0])
        check_shares(found.weights)
        assert np.isfinite(found.loss[0])

    @every_pair
    def test_nan_is_not_hidden(self, weighting: str, loss: str) -> None:
        """A network that diverged must be seen to."""
        assert np.isnan(evaluate(weighting, loss, np.nan, [1.0, 2.0]).loss[0])


class TestLaws:
    values = (0.5, 2.0, -1.25, 2.0, 0.75)
    prior = (0.2, 0.1, 0.3, 0.25, 0.15)
    log_q = (0.3, -1.0, 0.0, -1.0, 0.5)

    @every_pair
    def test_order_changes_nothing(self, weighting: str, loss: str) -> None:
        one = evaluate(weighting, loss, 0.6, self.values, prior=self.prior, log_q=self.log_q)
        order = [3, 0, 4, 2, 1]
        moved = [[part[k] for k in order] for part in (self.values, self.prior, self.log_q)]
        other = evaluate(weighting, loss, 0.6, moved[0], prior=moved[1], log_q=moved[2])
        assert_allclose(other.weights, one.weights[order], rtol=1e-13)
        assert_allclose(np.ravel(other[1:]), np.ravel(one[1:]), rtol=1e-13, atol=1e-13)

    @every_pair
    def test_duplicates_add_up(self, weighting: str, loss: str) -> None:
        twice = evaluate(weighting, loss, 0.6, [0.5, 2.0, 0.5, -1.0])
        merged = evaluate(weighting, loss, 0.6, [0.5, 2.0, -1.0], prior=[2.0, 1.0, 1.0])
        assert_allclose(
            [twice.weights[0] + twice.weights[2], twice.weights[1], twice.weights[3]],
            merged.weights,
            rtol=1e-13,
            atol=NEGLIGIBLE,
        )
        assert twice.weights[0] == twice.weights[2]
        assert_allclose(np.ravel(twice[1:]), np.ravel(merged[1:]), rtol=1e-12, atol=1e-14)

    @all_pairs(
        weighting=ALL_WEIGHTINGS,
        loss=ALL_LOSSES,
        excluded=[pytest.param(0.6, id="exact"), pytest.param(2.0, id="near"), pytest.param(1e150, id="far")],
    )
    def test_prior_of_zero_excludes(self, weighting: str, loss: str, excluded: float) -> None:
        found = evaluate(weighting, loss, 0.6, [0.5, excluded, -1.0], prior=[1.0, 0.0, 3.0])
        without = evaluate(weighting, loss, 0.6, [0.5, -1.0], prior=[1.0, 3.0])
        assert found.weights[1] == 0
        assert_allclose(found.weights[[0, 2]], without.weights, rtol=1e-13)
        assert_allclose(np.ravel(found[1:]), np.ravel(without[1:]), rtol=1e-13, atol=1e-14)

    @every_pair
    def test_even_prior_is_no_prior(self, weighting: str, loss: str) -> None:
        with_prior = evaluate(weighting, loss, 0.6, self.values, prior=[0.2] * 5)
        assert_allclose(
            with_prior.weights, evaluate(weighting, loss, 0.6, self.values).weights, rtol=1e-13, atol=NEGLIGIBLE
        )

    @every_pair
    def test_one_candidate_is_supervision(self, weighting: str, loss: str) -> None:
        found = evaluate(weighting, loss, 0.6, [2.0], log_q=[5.0])
        assert found.weights[0] == 1
        assert_allclose(found.loss[0], naive.loss_value(ALL_LOSSES[loss], 0.6, 2.0))
        assert_allclose(found.gradient[0], naive.loss_derivative(ALL_LOSSES[loss], 0.6, 2.0))

    @every_loss
    def test_average_is_the_prior(self, loss: str) -> None:
        assert_allclose(evaluate("average", loss, 0.6, self.values, prior=self.prior).weights, self.prior, rtol=1e-15)
        assert_allclose(evaluate("average", loss, 0.6, self.values).weights, [0.2] * 5, rtol=1e-15)

    @every_weighting
    def test_only_the_posterior_looks_at_the_density_of_false_labels(self, weighting: str) -> None:
        plain = evaluate(weighting, "squared", 0.6, self.values).weights
        with_density = evaluate(weighting, "squared", 0.6, self.values, log_q=self.log_q).weights
        assert np.allclose(plain, with_density) == (not weighting.startswith("posterior"))

    @all_pairs(loss=ALL_LOSSES, with_prior=with_and_without_prior, beta1=[0.5, 1.0])
    def test_progressive_between_average_and_identification(self, loss: str, with_prior: bool, beta1: float) -> None:
        prior = self.prior if with_prior else None

        def parts(weighting: Weighting | str) -> np.ndarray:
            return np.concatenate(evaluate(weighting, loss, 5.0, self.values, prior=prior))

        assert_array_equal(parts(Progressive(beta1, 0.0)), parts("average"))
        assert_allclose(parts(Progressive(beta1, 1e-14)), parts("average"), rtol=1e-12)
        assert_array_equal(parts(Progressive(beta1, 1e12)), parts("identification"))
        middle = parts(Progressive(beta1, 1.0))
        assert not np.allclose(middle, parts("average"))
        assert not np.allclose(middle, parts("identification"))

    @pytest.mark.parametrize("loss", LOSSES)
    def test_identification_ties_share_by_prior(self, loss: str) -> None:
        found = evaluate("identification", loss, 1.0, [0.5, 1.5, 4.0, 0.5], prior=[1.0, 2.0, 5.0, 0.0])
        assert_allclose(found.weights, [1 / 3, 2 / 3, 0, 0], rtol=1e-15)

    def test_average_squared_is_squared_on_the_mean(self) -> None:
        random = np.random.default_rng(0)
        lists = [random.normal(size=k).tolist() for k in (1, 2, 5, 9)]
        prior = [random.uniform(0.1, 1, len(values)).tolist() for values in lists]
        prediction = random.normal(size=4)
        rule = compiled(ALL_WEIGHTINGS["average"], ALL_LOSSES["squared"])
        for S in (CandidateSets.from_lists(lists), CandidateSets.from_lists(lists, prior)):
            means = CandidateSets.from_lists(S.mean()[:, None])
            on_sets = rule.evaluate(prediction, S, rule.initial_state())
            on_means = rule.evaluate(prediction, means, rule.initial_state())
            assert_allclose(on_sets.gradient, on_means.gradient, rtol=1e-12)
            assert_array_equal(on_sets.hessian, on_means.hessian)


class TestDerivatives:
    """Gradients against finite differences, the weights held constant."""

    @all_pairs(weighting=ALL_WEIGHTINGS, loss=ALL_LOSSES, prediction=[0.6, -2.3, 7.1])
    def test_finite_differences(self, weighting: str, loss: str, prediction: float) -> None:
        values, prior = TestLaws.values, TestLaws.prior
        found = evaluate(weighting, loss, prediction, values, prior=prior)

        def held(at: float) -> float:
            return sum(
                w * naive.loss_value(ALL_LOSSES[loss], at, v) for w, v in zip(found.weights, values, strict=True)
            )

        step = 1e-5
        assert_allclose(found.loss[0], held(prediction), rtol=1e-12)
        assert_allclose(found.gradient[0], (held(prediction + step) - held(prediction - step)) / (2 * step), atol=1e-8)

    @pytest.mark.parametrize(("weighting", "prediction"), [("progressive", 7.1), ("posterior", -2.3), ("custom", 0.6)])
    def test_not_through_the_weights(self, weighting: str, prediction: float) -> None:
        """The whole loss has another slope, which shows that the test above can tell the two apart."""
        step, values = 1e-5, TestLaws.values
        ahead, here, behind = (evaluate(weighting, "squared", prediction + h, values) for h in (step, 0.0, -step))
        through = (ahead.loss[0] - behind.loss[0]) / (2 * step)
        assert abs(through - here.gradient[0]) > 1e-3

    @pytest.mark.parametrize("loss", [*LOSSES, "huber-narrow"])
    def test_curvature_bounds_the_loss(self, loss: str) -> None:
        """The parabola touches the loss at the residual and lies nowhere below it."""
        others = np.linspace(-6, 6, 241)
        for residual in (-5.0, -1.0, -0.3, -1e-3, 0.2, 1.0, 3.0):
            found = evaluate("average", loss, residual, [0.0])
            parabola = found.loss + found.gradient * (others - residual) + found.hessian / 2 * (others - residual) ** 2
            costs = np.array([naive.loss_value(ALL_LOSSES[loss], r, 0.0) for r in others])
            assert (parabola >= costs - 1e-9).all()
            # The tightest such parabola touches at the mirrored residual, too.
            mirrored = found.loss - 2 * found.gradient * residual + 2 * found.hessian * residual**2
            if loss != "squared":
                assert_allclose(mirrored, found.loss, rtol=1e-9)

    @pytest.mark.parametrize("weighting", ["average", "identification", "progressive"])
    def test_kinks(self, weighting: str) -> None:
        at_zero = evaluate(weighting, Absolute(), 1.5, [1.5])
        assert (at_zero.loss[0], at_zero.gradient[0], at_zero.hessian[0]) == (0, 0, 1e8)
        for sign in (-1.0, 1.0):
            at_delta = evaluate(weighting, Huber(0.25), sign * 0.25, [0.0])
            assert (at_delta.loss[0], at_delta.gradient[0], at_delta.hessian[0]) == (0.03125, sign * 0.25, 1)
            beyond = evaluate(weighting, Huber(0.25), sign * 0.5, [0.0])
            assert (beyond.loss[0], beyond.gradient[0], beyond.hessian[0]) == (0.09375, sign * 0.25, 0.5)
        flat = evaluate(weighting, Huber(0.25), 0.0, [0.0])
        assert (flat.loss[0], flat.gradient[0], flat.hessian[0]) == (0, 0, 1)

    def test_absolute_between_two_candidates_is_flat(self) -> None:
        assert evaluate("average", "absolute", 0.3, [0.0, 1.0]).gradient[0] == 0


class TestUsersOwn:
    """A compiled function of the user's does what the built-in it mimics does."""

    @every_weighting
    def test_loss(self, weighting: str) -> None:
        own = Pointwise(square, square_derivative, square_curvature)
        for prediction in (0.6, 2.0, -9.0):
            assert_allclose(
                np.concatenate(evaluate(weighting, own, prediction, TestLaws.values, prior=TestLaws.prior)),
                np.concatenate(evaluate(weighting, "squared", prediction, TestLaws.values, prior=TestLaws.prior)),
                rtol=1e-12,
                atol=1e-15,
            )

    @every_loss
    @pytest.mark.parametrize(
        ("own", "builtin"),
        [
            (constant_score, Average()),
            (progressive_score, Progressive(0.5, 2.0)),
            (posterior_score, Posterior("gaussian")),
        ],
        ids=["average", "progressive", "posterior"],
    )
    def test_score(self, loss: str, own: object, builtin: Weighting) -> None:
        for prediction in (0.6, 1.9, -9.0):
            assert_allclose(
                np.concatenate(evaluate(get_weighting(own), loss, prediction, TestLaws.values, prior=TestLaws.prior)),
                np.concatenate(evaluate(builtin, loss, prediction, TestLaws.values, prior=TestLaws.prior)),
                rtol=1e-11,
                atol=1e-15,
            )

    def test_infinite_scores(self) -> None:
        """A score of infinity takes all, of minus infinity nothing, and equals share."""
        assert_array_equal(evaluate(Custom(unbounded), "squared", 1.0, [1.0, 2.0, 1.0]).weights, [0.5, 0, 0.5])
        assert_array_equal(evaluate(Custom(bounded), "squared", 1.0, [1.0, 2.0, 4.0, 5.0]).weights, [0.5, 0.5, 0, 0])

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_division_by_zero_is_infinity(self) -> None:
        """As in every kernel: a user's 1/loss at a loss of zero takes all."""
        found = evaluate(Custom(progressive_score), "squared", 1.0, [1.0, 2.0, 1.0])
        assert_array_equal(found.weights, [0.5, 0, 0.5])

    def test_already_compiled(self) -> None:
        """Numba's own functions are accepted as well as plain ones."""
        numba = pytest.importorskip("numba")
        ready = Custom(numba.njit(boltzmann))
        assert_array_equal(
            evaluate(ready, "squared", 0.6, [0.5, 2.0]).weights,
            evaluate("custom", "squared", 0.6, [0.5, 2.0]).weights,
        )

    def test_bare_function_becomes_custom(self) -> None:
        assert isinstance(get_weighting(boltzmann), Custom)
        assert_allclose(
            weigh([0.6], [[0.5, 2.0]], weighting=boltzmann), evaluate("custom", "squared", 0.6, [0.5, 2.0]).weights
        )

    def test_bare_loss_asks_for_its_derivative(self) -> None:
        with pytest.raises(ParameterError, match="derivative"):
            get_loss(square)


def uses_a_set(prediction: float, value: float, loss: float) -> float:
    return open("nowhere").read()  # type: ignore[return-value]


def uses_a_set_of_two(prediction: float, value: float) -> float:
    return open("nowhere").read()  # type: ignore[return-value]


class TestErrors:
    @pytest.mark.parametrize(
        ("weighting", "loss"),
        [
            (Custom(uses_a_set), Squared()),
            (Average(), Pointwise(uses_a_set_of_two, square_derivative)),
            (Average(), Pointwise(square, uses_a_set_of_two)),
            (Average(), Pointwise(square, square_derivative, uses_a_set_of_two)),
            (Custom(square), Squared()),
            (Custom(np.sum), Squared()),
            (Custom(functools.partial(boltzmann, 1.0)), Squared()),
        ],
        ids=["score", "value", "derivative", "curvature", "arity", "builtin", "partial"],
    )
    def test_not_compilable(self, weighting: Weighting, loss: Loss) -> None:
        with pytest.raises(ParameterError, match=r"cannot be compiled.*math module"):
            Rule(weighting, loss)

    @pytest.mark.parametrize(
        ("part", "message"),
        [
            (Huber(0.0), "delta must be above 0, got 0.0"),
            (Huber(-1.0), "delta must be above 0"),
            (Huber(math.nan), "delta must be a finite number"),
            (Huber(math.inf), "delta must be a finite number"),
            (Huber("wide"), "delta must be a finite number, got 'wide'"),
            (Huber(True), "delta must be a finite number"),
            (Progressive(beta1=0.0), "beta1 must be above 0"),
            (Progressive(beta1=-0.5), "beta1 must be above 0, got -0.5"),
            (Progressive(beta2=-1e-9), "beta2 must be at least 0"),
            (Progressive(beta2=math.inf), "beta2 must be a finite number"),
            (Progressive(beta2=None), "beta2 must be a finite number, got None"),
            (Posterior(degrees=0.0), "degrees must be above 0"),
            (Posterior(noise="gausian"), "did you mean 'gaussian'"),
            (Posterior(noise=None), "Unknown noise None"),
            (Custom("square"), r"function score\(prediction, value, loss\), got 'square'"),
            (Pointwise("square", square_derivative), "function as its value, got 'square'"),
            (Pointwise(square, None), "function as its derivative, got None"),
        ],
    )
    def test_out_of_range(self, part: Weighting | Loss, message: str) -> None:
        with pytest.raises(ParameterError, match=message):
            part.encode()

    @pytest.mark.parametrize("name", WEIGHTINGS)
    def test_weighting_names(self, name: str) -> None:
        assert isinstance(get_weighting(name), Weighting)
        with pytest.raises(ParameterError, match=f"did you mean '{name}'"):
            get_weighting(name[:-2] + name[-1])

    @pytest.mark.parametrize("name", LOSSES)
    def test_loss_names(self, name: str) -> None:
        assert isinstance(get_loss(name), Loss)
        with pytest.raises(ParameterError, match=f"did you mean '{name}'"):
            get_loss(name[:-2] + name[-1])

    @pytest.mark.parametrize("get", [get_weighting, get_loss])
    def test_what_is_not_a_name(self, get: object) -> None:
        for wrong in (3, None, ["average"], {"a": 1}):
            with pytest.raises(ParameterError, match=re.escape(repr(wrong))):
                get(wrong)

    def test_class_instead_of_instance(self) -> None:
        with pytest.raises(ParameterError, match=r"give an instance, Progressive\(\)"):
            get_weighting(Progressive)
        with pytest.raises(ParameterError, match=r"give an instance, Huber\(\)"):
            get_loss(Huber)

    def test_instances_pass_through(self) -> None:
        for weighting in ALL_WEIGHTINGS.values():
            assert get_weighting(weighting) is weighting
        for loss in ALL_LOSSES.values():
            assert get_loss(loss) is loss

    def test_weigh_checks_its_input(self) -> None:
        with pytest.raises(LengthError, match=r"shape \(2,\), but there are 1"):
            weigh([1.0, 2.0], [[1.0]])
        with pytest.raises(ParameterError, match="scale must be above 0"):
            weigh([1.0], [[1.0]], scale=0.0)


class Boltzmann(Weighting):
    """A weighting of another package: one class, with its score alone."""

    def __init__(self, temperature: float = 0.3) -> None:
        self.temperature = temperature

    def encode(self) -> WeightingCode:
        return WeightingCode((self.temperature,))

    @staticmethod
    def score(prediction: float, value: float, loss: float, temperature: float) -> float:
        return -loss / temperature


class Quantile(Loss):
    """A loss of another package, with a number."""

    def __init__(self, level: float = 0.75) -> None:
        self.level = level

    def encode(self) -> tuple[float, ...]:
        return (self.level,)

    @staticmethod
    def value(prediction: float, value: float, level: float) -> float:
        return (value - prediction) * level if value > prediction else (prediction - value) * (1 - level)

    @staticmethod
    def derivative(prediction: float, value: float, level: float) -> float:
        return -level if value > prediction else 1 - level


class Doubled(Progressive):
    """One of plr's with another score, which must not be taken for its parent."""

    @staticmethod
    def score(prediction: float, value: float, loss: float, beta1: float, beta2: float) -> float:
        return 2.0 * beta2 * loss**-beta1


class Blank(Weighting):
    """Lacks a score."""


class Vague(Loss):
    """Lacks a derivative."""

    @staticmethod
    def value(prediction: float, value: float) -> float:
        return abs(prediction - value)


class TestClassesOfOthers:
    values = (0.5, -1.0, 2.0, 0.25)

    @every_loss
    def test_weighting(self, loss: str) -> None:
        found = evaluate(Boltzmann(0.3), loss, 0.1, list(self.values))
        wanted = evaluate(Custom(boltzmann), loss, 0.1, list(self.values))
        for one, other in zip(found, wanted, strict=True):
            assert_array_equal(one, other)

    @every_weighting
    def test_loss(self, weighting: str) -> None:
        found = evaluate(weighting, Quantile(0.75), 0.1, list(self.values))
        costs = [Quantile.value(0.1, value, 0.75) for value in self.values]
        slopes = [Quantile.derivative(0.1, value, 0.75) for value in self.values]
        assert_allclose([found.loss[0], found.gradient[0]], [found.weights @ costs, found.weights @ slopes])
        assert_allclose(found.hessian, 1.0)

    def test_a_score_that_replaces_ours_counts(self) -> None:
        found = evaluate(Doubled(0.5, 1.0), Squared(), 0.1, list(self.values))
        assert_allclose(found.weights, evaluate(Progressive(0.5, 2.0), Squared(), 0.1, list(self.values)).weights)

    def test_a_name_is_registered_with_its_class(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Lone(Boltzmann, name="lone"):
            """Registered while the test lasts."""

        monkeypatch.setitem(WEIGHTINGS, "lone", WEIGHTINGS.pop("lone"))
        assert isinstance(get_weighting("lone"), Lone)
        assert_array_equal(
            weigh([0.1], [list(self.values)], "lone"), weigh([0.1], [list(self.values)], Custom(boltzmann))
        )
        with pytest.raises(ParameterError, match=r"'lone' is taken: it is .*Lone"):
            type("Other", (Boltzmann,), {}, name="lone")


class TestRegistries:
    @pytest.mark.parametrize("make", [*WEIGHTINGS.values(), *LOSSES.values(), Custom, Pointwise], ids=str)
    def test_documented(self, make: type) -> None:
        text = inspect.getdoc(make)
        assert make.__doc__, "a docstring of its own, not its base's"
        for parameter in inspect.signature(make).parameters:
            assert re.search(rf"^{parameter} : ", text, re.MULTILINE), f"{make.__name__} does not explain {parameter}"

    def test_complete(self) -> None:
        """Every weighting and loss with defaults can be chosen by name."""
        for registry, base, own in ((WEIGHTINGS, Weighting, Custom), (LOSSES, Loss, Pointwise)):
            ours = {part for part in base.__subclasses__() if part.__module__.startswith("plr.")}
            assert set(registry.values()) == ours - {own}
            assert all(make.name == name for name, make in registry.items())

    def test_losses_table_names_all(self) -> None:
        for name in LOSSES:
            assert f"``{name}``" in inspect.getmodule(Loss).__doc__

    @pytest.mark.parametrize("field", ["weighting", "noise", "loss"])
    def test_a_code_that_no_kernel_knows_gives_nothing_that_could_be_taken_for_a_result(self, field: str) -> None:
        rule = Rule(Posterior("laplace") if field == "noise" else Progressive(), Squared())
        rule.formula = rule.formula._replace(**{field: 99})
        S = CandidateSets.from_lists([[1.0, 2.0], list(np.arange(40.0))])
        assert np.isnan(rule.evaluate(np.zeros(2), S, rule.initial_state()).loss).all()

    def test_a_function_that_is_not_there_is_named(self) -> None:
        with pytest.raises(ParameterError, match="weighting Blank has no function 'score'"):
            Rule(Blank(), Squared())
        with pytest.raises(ParameterError, match="loss Vague has no function 'derivative'"):
            Rule(Average(), Vague())

    def test_objects_do_not_change(self) -> None:
        for part in (*ALL_WEIGHTINGS.values(), *ALL_LOSSES.values()):
            before = part.get_params()
            part.encode()
            assert part.get_params() == before

    def test_only_one_decorator(self) -> None:
        """Flags that keep NaN meaningful are set in one place; nothing else may compile."""
        sources = sorted(Path(plr.__file__).parent.rglob("*.py"))
        assert len(sources) > 20
        word = re.compile(
            r"\b(njit|cfunc|vectorize|guvectorize|stencil|numba\.jit)\b|from numba import .*\bjit\b|@jit\("
        )
        guilty = [str(path) for path in sources if path.name != "_jit.py" and word.search(path.read_text("utf-8"))]
        assert guilty == []
        assert word.search((Path(plr.__file__).parent / "_jit.py").read_text("utf-8"))

    def test_kernels_keep_nan(self) -> None:
        from plr.weighting.formula import evaluate as kernel

        flags = kernel.targetoptions
        assert not {"nnan", "ninf", "fast"} & set(flags["fastmath"])
        assert flags["nogil"]
        assert flags["error_model"] == "numpy"


def test_identification_is_a_class_of_its_own() -> None:
    """The nearest candidate, however near the next one is."""
    assert_array_equal(evaluate(Identify(), Squared(), 0.0, [1.0, np.nextafter(1.0, 0.0)]).weights, [0, 1])
