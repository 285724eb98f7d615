"""Estimates that are repeated until they settle say so where they have not."""

import numpy as np
import pytest

from plr import PartialLabelRegressor, make_candidates, noise, residuals
from plr.densities import mixture
from plr.errors import ConvergenceWarning
from plr.noise import fit_noise
from plr.residuals import fit_residuals
from plr.weighting import Posterior


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    y = random.normal(size=400)
    return y + 0.5 * random.standard_t(4, size=400), make_candidates(y, 8, random_state=0)


@pytest.mark.parametrize("family", ["student", "gaussian", "laplace"])
@pytest.mark.parametrize("missing", [0.0, 0.1, "learned"])
def test_the_noise_settles(data, family, missing):
    """Warnings are errors here. The scale of a longer run is the same."""
    weighting = Posterior(family, missing_truth=missing)
    found = fit_noise(*data, weighting)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "_SETTLED", 1e-9)
        patch.setattr(noise, "_ROUNDS", 100_000)
        longer = fit_noise(*data, weighting)
    assert found.scale == pytest.approx(longer.scale, rel=1e-3)
    assert found.missing == pytest.approx(longer.missing, abs=1e-3)


@pytest.mark.parametrize(("missing", "message"), [(0.0, "noise scale still moved"), ("learned", "share of rows whose")])
def test_a_noise_that_does_not(monkeypatch, data, missing, message):
    monkeypatch.setattr(noise, "_ROUNDS", 3)
    with pytest.warns(ConvergenceWarning, match=message):
        fit_noise(*data, Posterior(missing_truth=missing))


def test_residuals(data):
    prediction, S = data
    log_q = np.full(S.values.size, -np.log(np.ptp(S.values)))
    for more in ({}, {"missing": 0.05}):
        _, found = fit_residuals(prediction, S, np.ones(len(S)), log_q, **more)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(residuals, "_ROUNDS", 3000)
            patch.setattr(residuals, "_SETTLED", 1e-9)
            _, longer = fit_residuals(prediction, S, np.ones(len(S)), log_q, **more)
        assert np.abs(found - longer).max() < 0.1


def test_shares_of_a_start(monkeypatch):
    random = np.random.default_rng(0)
    likelihoods = np.exp(random.normal(size=(2, 300)) - np.array([[0.0], [2.0]]))
    wanted = mixture._shares(likelihoods, np.ones(300))
    assert wanted.sum() == pytest.approx(1.0)
    monkeypatch.setattr(mixture, "_ROUNDS", 2)
    with pytest.warns(ConvergenceWarning, match="had not settled after 2 rounds: rows could be likelier by"):
        mixture._shares(likelihoods, np.ones(300))


def test_the_user_is_told(monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    S = make_candidates(X[:, 0] + 0.2 * random.normal(size=60), 4, random_state=0)
    model = PartialLabelRegressor("linear", random_state=0)
    monkeypatch.setattr(noise, "_ROUNDS", 2)
    with pytest.warns(ConvergenceWarning, match="noise scale"):
        model.fit(X, S)
