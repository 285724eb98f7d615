"""The density of false labels: what is given is taken, what is estimated is near the truth, and nothing vanishes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from plr import CandidateSets
from plr.errors import ParameterError
from plr.preprocessing.scaling import Affine
from plr.weighting import Posterior, weigh
from plr.weighting.false_labels import FalseLabelDensity, fit_false_labels

GRID = np.linspace(-20.0, 30.0, 20_001)


def even(values: Any) -> Any:
    return np.full(len(values), 0.25)


def estimated(values: np.ndarray, *, start: np.ndarray | None = None) -> FalseLabelDensity:
    return fit_false_labels("estimated", CandidateSets.from_padded(values), start)


class TestUniform:
    def test_one_over_the_range_everywhere(self) -> None:
        found = fit_false_labels("uniform", CandidateSets.from_lists([[1.0, 5.0], [3.0]]))
        assert_allclose(found.log(np.array([-9.0, 1.0, 4.0])), -np.log(4.0))

    def test_scaled_labels(self) -> None:
        """A density is per unit of label, so it rises as the unit does."""
        S, target = CandidateSets.from_lists([[1.0, 5.0], [3.0]]), Affine(np.float64(2.0), np.float64(0.5))
        for given in ("uniform", "estimated", stats.norm(3, 1)):
            found = fit_false_labels(given, S)
            assert_allclose(found.log_scaled(S.values, target), found.log(S.values) + np.log(0.5))
        assert_allclose(fit_false_labels("uniform", S).log_uniform(target), -np.log(8.0))

    def test_rows_without_weight_have_no_part(self) -> None:
        S = CandidateSets.from_lists([[1.0, 5.0], [3.0, 900.0]])
        for given in ("uniform", "estimated"):
            found = fit_false_labels(given, S, sample_weight=np.array([1.0, 0.0]))
            assert (found.low, found.high) == (1.0, 5.0)
            assert_array_equal(found.log(GRID), fit_false_labels(given, S[:1]).log(GRID))


class TestEstimated:
    @pytest.mark.parametrize("family", [stats.uniform(0, 10), stats.norm(5, 2), stats.gamma(3)], ids=["u", "n", "g"])
    def test_near_the_density_labels_come_from(self, family: Any) -> None:
        values = family.rvs((4000, 2), random_state=0)
        found = np.exp(estimated(values).log(GRID))
        low, high = family.ppf([0.01, 0.99])
        within = (low < GRID) & (high > GRID)
        uniform = 1 / np.ptp(values)
        wanted = 0.9 * family.pdf(GRID) + 0.1 * uniform
        assert np.abs(found - wanted)[within].max() < 0.12 * wanted.max()

    @pytest.mark.parametrize("rows", [1, 2, 50])
    def test_is_a_density(self, rows: int) -> None:
        values = np.random.default_rng(rows).normal(5, 2, (rows, 3))
        floor = 0.1 / np.ptp(values)
        assert_allclose(np.trapezoid(np.exp(estimated(values).log(GRID)) - floor, GRID), 0.9, rtol=0.02)

    def test_no_ratio_explodes(self) -> None:
        """However far out a label is, q is no less than a tenth of the uniform density."""
        values = np.random.default_rng(0).normal(size=(500, 2))
        values[0] = [1e6, -1e6]
        found = estimated(values)
        assert_allclose(found.log(np.array([5e5, -5e5, 1e9])).min(), np.log(0.1 / 2e6), atol=1e-6)
        # The one outlier does not hide where the others are.
        assert found.log(np.array([0.0]))[0] > np.log(0.05)

    def test_a_lone_candidate_is_left_out(self) -> None:
        pairs = np.random.default_rng(0).uniform(0, 1, (300, 2)).tolist()
        S = CandidateSets.from_lists([*pairs, *([[5.0]] * 500)])
        assert fit_false_labels("estimated", S).log(np.array([5.0]))[0] < np.log(0.05)

    def test_counts_by_falsehood(self) -> None:
        """By a start's weights where there is one, and by the priors otherwise."""
        values = np.tile([2.0, 8.0], (400, 1)) + np.random.default_rng(0).normal(size=(400, 2))
        start = np.tile([1.0, 0.0], 400)
        told = estimated(values, start=start).log(np.array([2.0, 8.0]))
        assert told[1] - told[0] > 1.5
        S = CandidateSets(values.ravel(), np.arange(0, 801, 2), start)
        assert_allclose(fit_false_labels("estimated", S).log(np.array([2.0, 8.0])), told)
        even = estimated(values).log(np.array([2.0, 8.0]))
        assert abs(even[1] - even[0]) < 0.3

    @pytest.mark.parametrize("unit", [1e-9, 1e12])
    def test_units(self, unit: float) -> None:
        values = np.random.default_rng(0).gamma(2, size=(300, 3))
        plain, moved = estimated(values), estimated(unit * values)
        assert_allclose(moved.log(unit * values.ravel()) + np.log(unit), plain.log(values.ravel()), rtol=1e-6)

    @pytest.mark.parametrize("sets", [[[2.0]], [[2.0, 2.0]], [[1.0], [3.0]], [[0.0, 0.0], [0.0, 1.0]]])
    def test_hardly_anything_to_estimate_from(self, sets: list[list[float]]) -> None:
        S = CandidateSets.from_lists(sets)
        assert np.isfinite(fit_false_labels("estimated", S).log(np.array([-5.0, 0.0, 2.0]))).all()


class TestGiven:
    def test_function_and_distribution_agree(self) -> None:
        S = CandidateSets.from_lists([[0.0, 1.0, 3.0], [2.0]])
        by_density, by_log = (fit_false_labels(given, S) for given in (stats.norm(1, 2).pdf, stats.norm(1, 2)))
        assert_allclose(by_density.log(S.values), stats.norm(1, 2).logpdf(S.values))
        assert_allclose(by_density.log(S.values), by_log.log(S.values))

    def test_examples(self) -> None:
        examples = np.random.default_rng(0).normal(3, 1, 5000)
        S = CandidateSets.from_lists([[0.0, 10.0], [3.0, 4.0]])
        found = fit_false_labels(examples, S)
        assert_allclose(found.log(np.array([2.0, 3.0, 4.0])), stats.norm(3, 1).logpdf([2.0, 3.0, 4.0]), atol=0.2)
        assert_allclose(found.log(np.array([10.0])), np.log(0.1 / (10 - examples.min())), atol=0.2)

    def test_zero_is_not_nothing(self) -> None:
        """Where the user's density is zero a ratio stays finite."""
        S = CandidateSets.from_lists([[0.0, 4.0]])
        found = fit_false_labels(stats.uniform(0, 1), S).log(S.values)
        assert_allclose(found, [0.0, np.log(1e-6 / 4)])

    def test_pickled(self) -> None:
        S = CandidateSets.from_lists([[0.0, 4.0], [1.0, 3.0]])
        for given in ("uniform", "estimated", even, stats.norm(), [1.0, 2.0]):
            found = fit_false_labels(given, S)
            assert_array_equal(pickle.loads(pickle.dumps(found)).log(GRID), found.log(GRID))

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("uniforn", "did you mean 'uniform'"),
            (3.0, "false_labels must be"),
            ([], "false_labels must be"),
            ([[1.0, 2.0]], "false_labels must be"),
            ([1.0, np.nan], "place 1"),
            (None, "false_labels must be"),
            (lambda values: -values, "at least 0"),
            (lambda values: values[:1], r"shape \(1,\) for 2"),
            (lambda values: values / 0.0, "returned inf"),
            (lambda values: "q", "failed on an array"),
            (FalseLabelDensity, "class FalseLabelDensity"),
        ],
    )
    def test_bad(self, given: Any, message: str) -> None:
        with np.errstate(divide="ignore"), pytest.raises(ParameterError, match=message):
            weigh([1.0], [[1.0, 2.0]], Posterior(false_labels=given))


def test_weights_are_divided_by_the_density() -> None:
    S, prediction = CandidateSets.from_lists([[0.0, 1.0, 3.0], [2.0, 2.5]]), np.array([1.5, 2.0])
    plain = weigh(prediction, S, Posterior("gaussian"), scale=2.0) / stats.norm(1, 2).pdf(S.values)
    wanted = plain / np.add.reduceat(plain, S.offsets[:-1])[S.row_index]
    assert_allclose(weigh(prediction, S, Posterior("gaussian", false_labels=stats.norm(1, 2)), scale=2.0), wanted)
