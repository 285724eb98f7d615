"""What the network's training loop learns about noise and missing truth, against the rule applied by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from plr import CandidateSets
from plr._codes import MISSING
from plr.losses import get_loss
from plr.network.layers import Layout
from plr.network.network import (
    BY_EVIDENCE,
    BY_LOSS,
    Network,
    NetworkSettings,
    TrainedNetwork,
    Validation,
    initial_parameters,
    kernel_sets,
    train_network,
)
from plr.weighting import Posterior, Rule

ROWS = 150
RULE = Rule(Posterior(missing_truth="learned"), get_loss("squared"))


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, CandidateSets, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    sizes = random.integers(1, 5, ROWS)
    S = CandidateSets.from_lists([random.normal(size=size) for size in sizes])
    return random.normal(size=(ROWS, 3)), S, random.normal(-1.0, 0.5, S.values.size), random.uniform(0.5, 2, ROWS)


def trained(data: Any, epochs: int, *, rate: float = 1e-9, fixed_epochs: int = 0, **more: Any) -> TrainedNetwork:
    X, S, log_q, importance = data
    start = S.prior_or_uniform if fixed_epochs else None
    settings = NetworkSettings(
        (4,), ("tanh",), epochs, 256, "sgd", rate, dtype="float64", fixed_epochs=fixed_epochs, momentum=0.0
    )
    sets = kernel_sets(S, log_q=log_q, fixed=start)
    return train_network(X, sets, RULE, settings, seed=3, sample_weight=importance, **more)


def first_prediction(X: np.ndarray) -> np.ndarray:
    sizes = [3, 4, 1]
    parameters = initial_parameters(sizes, np.random.default_rng(3))
    return Network(Layout(np.array(sizes), np.array([2])), parameters).predict(X)


def test_state_follows_the_rule(data: Any) -> None:
    """With steps too small to move the network, epochs are rounds of expectation-maximisation."""
    X, S, log_q, importance = data
    prediction, state = first_prediction(X), RULE.initial_state(1.0)
    found = trained(data, 4)
    for epoch in range(4):
        evaluated = RULE.evaluate(prediction, S, state, log_q)
        assert_allclose(found.loss[epoch], np.average(evaluated.loss, weights=importance), rtol=1e-6)
        state = RULE.update_scale(prediction, S, state, evaluated.weights, importance)
        assert_allclose(found.scales[epoch], state[0], rtol=1e-6)
    assert_allclose(found.state, state, rtol=1e-6)
    assert state[MISSING] != 0.05


def test_a_start_says_nothing_about_it(data: Any) -> None:
    assert trained(data, 3, fixed_epochs=3).state[MISSING] == 0.05


def test_validation_rows_are_judged_by_their_density(data: Any) -> None:
    X, S, log_q, _ = data
    judged = trained(data, 1, validation=Validation(X, S, rules=(BY_LOSS, BY_EVIDENCE), log_q=log_q)).validation[0]
    state, prediction = RULE.initial_state(1.0), first_prediction(X)
    weights = RULE.evaluate(prediction, S, state, log_q).weights
    moved = RULE.update_scale(prediction, S, state, weights)
    assert_allclose(judged[BY_EVIDENCE], -RULE.evidence(prediction, S, moved, log_q).mean(), rtol=1e-6)
    own = trained(data, 1).state
    assert_allclose(judged[BY_LOSS], RULE.evaluate(prediction, S, own, log_q).loss.mean(), rtol=1e-6)
