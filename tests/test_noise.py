"""Label-free scores: the scale is recovered, the likelihood is the formula's, probabilities mean what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, special, stats

from plr import CandidateSets
from plr.noise import NoiseModel, fit_noise
from plr.weighting import Posterior

FAMILIES = {
    "gaussian": (Posterior("gaussian"), stats.norm),
    "laplace": (Posterior("laplace"), stats.laplace),
    "student": (Posterior("student", 3.0), stats.t(3)),
    "student7": (Posterior("student", 7.0), stats.t(7)),
}
every_family = pytest.mark.parametrize("family", FAMILIES)
SPAN = 10.0


def density(family: str, scale: float) -> stats.rv_continuous:
    if family.startswith("student"):
        return stats.t(FAMILIES[family][0].degrees, scale=scale)
    return FAMILIES[family][1](scale=scale)


def problem(
    family: str, scale: float, rows: int = 4000, false_labels: int = 3, seed: int = 0
) -> tuple[np.ndarray, CandidateSets, np.ndarray]:
    """Predictions, candidates that scatter around them or fall anywhere, and where the true one is."""
    random = np.random.default_rng(seed)
    prediction = random.uniform(0, SPAN, rows)
    truth = prediction + density(family, scale).rvs(rows, random_state=random)
    table = random.uniform(-5, SPAN + 5, size=(rows, false_labels + 1))
    at = random.integers(0, false_labels + 1, rows)
    table[np.arange(rows), at] = truth
    return prediction, CandidateSets.from_padded(table), at


def twin(family: str, scale: float, prediction: np.ndarray, S: CandidateSets) -> np.ndarray:
    """Each row's log Σ prior · p / q, by SciPy, with q even over the range of the candidates."""
    terms = density(family, scale).logpdf(S.values - np.repeat(prediction, S.sizes))
    terms += np.log(S.prior_or_uniform) + np.log(S.values.max() - S.values.min())
    return np.logaddexp.reduceat(terms, S.offsets[:-1])


class TestFitNoise:
    @every_family
    @pytest.mark.parametrize("scale", [0.05, 0.4])
    def test_recovers_the_scale(self, family: str, scale: float) -> None:
        prediction, S, _ = problem(family, scale)
        assert_allclose(fit_noise(prediction, S, FAMILIES[family][0]).scale, scale, rtol=0.1)

    @every_family
    def test_maximises_the_likelihood(self, family: str) -> None:
        prediction, S, _ = problem(family, 0.3, rows=500)
        found = fit_noise(prediction, S, FAMILIES[family][0])

        def cost(log_scale: float) -> float:
            return -float(twin(family, math.exp(log_scale), prediction, S).mean())

        best = optimize.minimize_scalar(cost, bracket=(math.log(0.1), math.log(0.5)))
        assert_allclose(found.scale, math.exp(best.x), rtol=1e-3)

    @every_family
    def test_one_candidate_each(self, family: str) -> None:
        """Then it is the plain maximum-likelihood scale of the residuals."""
        prediction, S, _ = problem(family, 0.3, false_labels=0)
        residual = S.values - prediction
        wanted = {
            "gaussian": lambda: np.sqrt(np.mean(residual**2)),
            "laplace": lambda: np.mean(np.abs(residual)),
        }.get(family, lambda: stats.t.fit(residual, f0=FAMILIES[family][0].degrees, floc=0)[2])()
        assert_allclose(fit_noise(prediction, S, FAMILIES[family][0]).scale, wanted, rtol=1e-3)

    @every_family
    def test_units(self, family: str) -> None:
        prediction, S, _ = problem(family, 0.3, rows=500)
        plain = fit_noise(prediction, S, FAMILIES[family][0])
        far, T = prediction * 1e6 - 1e8, CandidateSets(S.values * 1e6 - 1e8, S.offsets)
        moved = fit_noise(far, T, FAMILIES[family][0])
        assert_allclose(moved.scale, 1e6 * plain.scale, rtol=1e-6)
        assert_allclose(moved.log_likelihood(far, T), plain.log_likelihood(prediction, S), rtol=1e-6, atol=1e-6)
        assert_allclose(moved.probabilities(far, T), plain.probabilities(prediction, S), rtol=1e-6, atol=1e-9)

    def test_sample_weight_is_repetition(self) -> None:
        prediction, S, _ = problem("student", 0.3, rows=300)
        counts = np.random.default_rng(3).integers(0, 4, 300)
        rows = np.repeat(np.arange(300), counts)
        weighted = fit_noise(prediction, S, sample_weight=counts.astype(float))
        assert_allclose(weighted.scale, fit_noise(prediction[rows], S[rows]).scale, rtol=1e-5)

    def test_default_is_student(self) -> None:
        prediction, S, _ = problem("student", 0.3, rows=300)
        assert fit_noise(prediction, S).scale == fit_noise(prediction, S, Posterior("student", 3.0)).scale

    def test_prior_counts(self) -> None:
        """Told which candidate is true, it finds the scale where the candidates alone would mislead it."""
        prediction, S, at = problem("gaussian", 3.0)
        prior = np.full((len(S), 4), 1e-6)
        prior[np.arange(len(S)), at] = 1
        told = fit_noise(prediction, CandidateSets(S.values, S.offsets, prior.ravel()), Posterior("gaussian"))
        assert_allclose(told.scale, 3.0, rtol=0.05)

    def test_exact_predictions(self) -> None:
        _, S, at = problem("student", 0.3, rows=200)
        exact = np.asarray(S)[np.arange(200), at]
        model = fit_noise(exact, S)
        assert 0 < model.scale < 1e-3
        assert np.isfinite(model.log_likelihood(exact, S)).all()
        assert_array_equal(model.probabilities(exact, S).reshape(200, 4).argmax(1), at)

    def test_constant_labels(self) -> None:
        S = CandidateSets.from_lists([[2.0], [2.0, 2.0]])
        model = fit_noise(np.array([2.0, 2.0]), S)
        assert model.scale > 0
        assert np.isfinite(model.log_likelihood(np.array([2.0, 3.0]), S)).all()


class TestNoiseModel:
    @every_family
    @pytest.mark.parametrize("with_prior", [False, True], ids=["uniform", "prior"])
    def test_log_likelihood(self, family: str, with_prior: bool) -> None:
        random = np.random.default_rng(1)
        lists = [random.normal(size=k) for k in (1, 2, 5, 40, 3)]
        prior = [random.uniform(0.1, 1, len(values)) for values in lists] if with_prior else None
        S = CandidateSets.from_lists(lists, prior)
        prediction = random.normal(size=5)
        model = fit_noise(prediction, S, FAMILIES[family][0])
        assert isinstance(model, NoiseModel)
        assert_allclose(model.log_likelihood(prediction, S), twin(family, model.scale, prediction, S), rtol=1e-9)

    def test_new_rows_by_the_old_density(self) -> None:
        """What was learned, the range of false labels included, stays as it is on other rows."""
        prediction, S, _ = problem("student", 0.3, rows=200)
        model = fit_noise(prediction, S)
        few = slice(3, 8)
        assert_allclose(
            model.log_likelihood(prediction[few], S[few]), model.log_likelihood(prediction, S)[few], rtol=1e-12
        )

    @every_family
    def test_probabilities(self, family: str) -> None:
        prediction, S, _ = problem(family, 0.3, rows=50)
        model = fit_noise(prediction, S, FAMILIES[family][0])
        found = model.probabilities(prediction, S).reshape(50, 4)
        logs = density(family, model.scale).logpdf(np.asarray(S) - prediction[:, None])
        assert_allclose(found, special.softmax(logs, axis=1), rtol=1e-9, atol=1e-12)

    @every_family
    def test_calibrated(self, family: str) -> None:
        """Of the candidates given a probability near p, a share near p is true."""
        prediction, S, at = problem(family, 0.8, rows=20_000)
        model = fit_noise(prediction, S, FAMILIES[family][0])
        probability = model.probabilities(prediction, S)
        true = np.zeros((len(S), 4), dtype=bool)
        true[np.arange(len(S)), at] = True
        for low in np.arange(0.0, 1.0, 0.1):
            within = (probability >= low) & (probability < low + 0.1)
            assert within.sum() > 300
            assert abs(true.ravel()[within].mean() - probability[within].mean()) < 0.04

    def test_prefers_the_better_model(self) -> None:
        """The use of it: held-out likelihood ranks predictions as the unseen truth would."""
        prediction, S, _ = problem("student", 0.1)
        random = np.random.default_rng(2)
        scores = []
        for error in (0.0, 0.2, 0.5, 1.0):
            guess = prediction + error * random.normal(size=len(prediction))
            scores.append(fit_noise(guess, S).log_likelihood(guess, S).mean())
        assert scores == sorted(scores, reverse=True)
        assert scores[0] - scores[-1] > 0.5


class TestDensityOfFalseLabels:
    def test_likelihood_and_probabilities(self) -> None:
        prediction, S, _ = problem("gaussian", 0.3, rows=200)
        q = stats.norm(5, 4)
        model = fit_noise(prediction, S, Posterior("gaussian", false_labels=q))
        terms = stats.norm(scale=model.scale).logpdf(S.values - np.repeat(prediction, S.sizes)) - q.logpdf(S.values)
        whole = np.logaddexp.reduceat(terms, S.offsets[:-1])
        assert_allclose(model.log_likelihood(prediction, S), whole - np.log(4), rtol=1e-9)
        assert_allclose(model.probabilities(prediction, S), np.exp(terms - np.repeat(whole, S.sizes)), atol=1e-12)

    def test_the_right_density_tells_more(self) -> None:
        """Where false labels are normal, that density gives the true ones more probability than a uniform one."""
        random = np.random.default_rng(0)
        prediction = random.normal(size=4000)
        table = np.column_stack([prediction + 0.5 * random.normal(size=4000), random.normal(size=(4000, 3))])
        S = CandidateSets.from_padded(table)
        right, wrong = (
            fit_noise(prediction, S, Posterior("gaussian", false_labels=q)) for q in (stats.norm(), "uniform")
        )
        assert_allclose(right.scale, 0.5, rtol=0.05)
        belief = [np.log(model.probabilities(prediction, S)[::4]).mean() for model in (right, wrong)]
        assert belief[0] > belief[1] + 0.02

    def test_one_that_is_handed_over_is_kept(self) -> None:
        prediction, S, _ = problem("student", 0.3, rows=200)
        family = Posterior(false_labels="estimated")
        density_of_all = family.density(S)
        model = fit_noise(prediction[:50], S[:50], family, false_labels=density_of_all)
        assert model.false_labels is density_of_all


class TestMissingTruth:
    @every_family
    def test_share_and_scale_are_found(self, family: str) -> None:
        prediction, S, at = problem(family, 0.2, rows=20_000)
        gone = np.random.default_rng(5).random(len(S)) < 0.2
        table = np.asarray(S).copy()
        table[gone, at[gone]] = np.random.default_rng(6).uniform(-5, SPAN + 5, gone.sum())
        T = CandidateSets.from_padded(table)
        # The candidates' own range is wider than that of the false ones, with tails as heavy as Student's.
        q = stats.uniform(-5, SPAN + 10)
        options = FAMILIES[family][0].get_params() | {"missing_truth": "learned", "false_labels": q}
        model = fit_noise(prediction, T, Posterior(**options))
        assert_allclose(model.missing, 0.2, atol=0.03)
        assert_allclose(model.scale, 0.2, rtol=0.12)
        probabilities = model.probabilities(prediction, T)
        missing = model.missing_probabilities(probabilities, T)
        assert_allclose(missing + np.add.reduceat(probabilities, T.offsets[:-1]), 1.0)
        assert missing[gone].mean() > 3 * missing[~gone].mean()
        # Calibrated: of the rows that are said to lack their truth with a probability near p, a share near p does.
        for low in (0.0, 0.25, 0.5):
            within = (missing >= low) & (missing < low + 0.25)
            assert abs(gone[within].mean() - missing[within].mean()) < 0.06
        assert (
            model.log_likelihood(prediction, T).mean()
            > fit_noise(prediction, T, FAMILIES[family][0]).log_likelihood(prediction, T).mean()
        )

    def test_units(self) -> None:
        """Labels in other units are the same problem: densities carry their units."""
        prediction, S, _ = problem("student", 0.3, rows=300)
        T = CandidateSets(S.values * 1e5 + 1e6, S.offsets)
        for q in ("uniform", "estimated"):
            options = Posterior(missing_truth="learned", false_labels=q)
            plain, moved = fit_noise(prediction, S, options), fit_noise(prediction * 1e5 + 1e6, T, options)
            assert_allclose(moved.missing, plain.missing, rtol=1e-4)
            assert_allclose(
                moved.log_likelihood(prediction * 1e5 + 1e6, T), plain.log_likelihood(prediction, S), atol=1e-3
            )

    def test_zeros_by_default(self) -> None:
        prediction, S, _ = problem("student", 0.3, rows=30)
        model = fit_noise(prediction, S)
        assert model.missing == 0.0
        assert_array_equal(model.missing_probabilities(model.probabilities(prediction, S), S), 0.0)


class TestMissingTruthOfEachRow:
    """Sets that say how probable it is that the truth of a row is missing."""

    @every_family
    @pytest.mark.parametrize("missing_truth", [0.0, 0.3, "learned"])
    def test_odds(self, family: str, missing_truth: float | str) -> None:
        prediction, S, _ = problem(family, 0.3, rows=200)
        probability = np.random.default_rng(1).uniform(0, 0.5, len(S.values))
        probability[:8] = [0, 0, 0, 0, 1, 0.2, 0.2, 0.2]
        T = CandidateSets(S.values, S.offsets, probability, prior_is="probability")
        shares = CandidateSets(S.values, S.offsets, T.prior)
        model = fit_noise(prediction, shares, FAMILIES[family][0])
        mixed = Posterior(**FAMILIES[family][0].get_params() | {"missing_truth": missing_truth})
        found = NoiseModel(mixed, model.scale, model.target, model.false_labels, 0.3)
        with np.errstate(divide="ignore"):
            likelihood = np.exp(twin(family, model.scale, prediction, shares))
        wanted = T.missing / (T.missing + (1 - T.missing) * likelihood)
        probabilities = found.probabilities(prediction, T)
        assert_allclose(found.missing_probabilities(probabilities, T), wanted, atol=1e-9)
        assert_allclose(
            probabilities, model.probabilities(prediction, shares) * (1 - wanted)[T.row_index], rtol=1e-6, atol=1e-12
        )
        assert_allclose(
            found.log_likelihood(prediction, T), np.log(T.missing + (1 - T.missing) * likelihood), atol=1e-9
        )

    def test_fitting_goes_by_the_shares(self) -> None:
        prediction, S, _ = problem("student", 0.3, rows=200)
        T = CandidateSets(S.values, S.offsets, np.full(len(S.values), 0.3), prior_is="probability")
        for missing_truth in (0.0, "learned"):
            model = fit_noise(prediction, T, Posterior(missing_truth=missing_truth))
            assert_allclose(model.scale, fit_noise(prediction, S).scale, rtol=1e-4)
            assert model.missing == 0.0

    def test_a_learned_share_may_exceed_one_half(self) -> None:
        prediction, S, at = problem("gaussian", 0.2, rows=5000)
        gone = np.random.default_rng(5).random(len(S)) < 0.7
        table = np.asarray(S).copy()
        table[gone, at[gone]] = np.random.default_rng(6).uniform(-5, SPAN + 5, gone.sum())
        q = stats.uniform(-5, SPAN + 10)
        model = fit_noise(
            prediction, CandidateSets.from_padded(table), Posterior("gaussian", missing_truth="learned", false_labels=q)
        )
        assert_allclose(model.missing, 0.7, atol=0.03)
        assert_allclose(model.scale, 0.2, rtol=0.1)
