"""`PosteriorLoss` where the truth may be missing, against the compiled formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from plr import CandidateSets
from plr._codes import MISSING, SCALE
from plr.errors import ParameterError
from plr.losses import LOSSES, get_loss
from plr.torch import PosteriorLoss, pad
from plr.weighting import Posterior, Rule
from support.pairs import all_pairs

NOISE_SCALE = 0.7


def rows(with_prior: bool) -> tuple[np.ndarray, CandidateSets, np.ndarray]:
    random = np.random.default_rng(0)
    lists = [random.normal(size=k) for k in (1, 2, 3, 9, 1)] + [np.array([1e6, -1e9]), np.array([1e200])]
    prior = [random.uniform(0.1, 2, len(row)) for row in lists] if with_prior else None
    if prior is not None:
        prior[2][0] = 0.0
    S = CandidateSets.from_lists(lists, prior)
    return random.normal(size=len(S)), S, random.normal(size=S.values.size)


def tensors(S: CandidateSets, log_q: np.ndarray) -> tuple[Any, ...]:
    candidates, mask, prior = pad(S, torch.float64)
    density = torch.full_like(candidates, torch.nan)
    candidates[~mask] = torch.nan
    density[mask] = torch.tensor(log_q)
    return candidates, mask, prior, density


@all_pairs(
    noise=["student", "gaussian", "laplace"],
    loss=LOSSES,
    with_prior=[pytest.param(False, id="uniform"), pytest.param(True, id="prior")],
)
def test_agreement(noise: str, loss: str, with_prior: bool) -> None:
    """Weights, losses and derivatives; hopeless rows, whose weight underflows, have none, and no NaN either."""
    centres, S, log_q = rows(with_prior)
    rule = Rule(Posterior(noise, missing_truth=0.2), get_loss(loss))
    wanted = rule.evaluate(centres, S, rule.initial_state(NOISE_SCALE), log_q)
    made = PosteriorLoss(
        noise, 3.0, NOISE_SCALE, loss=loss, reduction="none", missing_truth=0.2, dtype=torch.float64
    ).eval()
    candidates, mask, prior, density = tensors(S, log_q)
    prediction = torch.tensor(centres, requires_grad=True)
    lost = made(prediction, candidates, mask, prior, log_q=density)
    lost.sum().backward()
    weights = made.weights(prediction, candidates, mask, prior, log_q=density)
    assert_allclose(weights[mask].numpy(), wanted.weights, rtol=1e-9, atol=1e-280)
    assert (weights[~mask] == 0).all()
    assert_allclose(lost.detach().numpy(), wanted.loss, rtol=1e-9, atol=1e-200)
    assert_allclose(prediction.grad.numpy(), wanted.gradient, rtol=1e-9, atol=1e-200)


@pytest.mark.parametrize("noise", ["student", "gaussian", "laplace"])
@pytest.mark.parametrize("weighted", [False, True])
def test_learns_as_the_rule_does(noise: str, weighted: bool) -> None:
    centres, S, log_q = rows(False)
    S, centres = S[:5], centres[:5]
    log_q = log_q[: S.values.size]
    rule = Rule(Posterior(noise, missing_truth="learned"), get_loss("squared"))
    importance = np.arange(1.0, 6.0) if weighted else None
    state = rule.initial_state(NOISE_SCALE)
    weights = rule.evaluate(centres, S, state, log_q).weights
    wanted = rule.update_scale(centres, S, state, weights, importance)
    made = PosteriorLoss(noise, 3.0, NOISE_SCALE, 1.0, missing_truth="learned", dtype=torch.float64)
    candidates, mask, _, density = tensors(S, log_q)
    told = None if importance is None else torch.tensor(importance)
    made(torch.tensor(centres), candidates, mask, None, told, log_q=density)
    assert_allclose(made.scale.item(), wanted[SCALE])
    assert_allclose(made.missing.item(), wanted[MISSING])
    made.eval()(torch.tensor(centres), candidates, mask, None, told, log_q=density)
    assert_allclose(made.missing.item(), wanted[MISSING])


def test_given_weights_say_nothing_about_it() -> None:
    made = PosteriorLoss(missing_truth="learned", momentum=1.0)
    row = torch.zeros(1), torch.tensor([[1.0, 2.0]]), torch.tensor([[True, True]])
    made(*row, log_q=torch.zeros(1, 2), weights=torch.tensor([[0.5, 0.5]]))
    assert_allclose(made.missing.item(), 0.05, rtol=1e-6)


def test_needs_the_density() -> None:
    row = torch.zeros(1), torch.tensor([[1.0, 2.0]]), torch.tensor([[True, True]])
    with pytest.raises(ParameterError, match="give log_q"):
        PosteriorLoss(missing_truth=0.1)(*row)


def test_state_dict_is_as_before_where_nothing_is_missing() -> None:
    assert list(PosteriorLoss().state_dict()) == ["scale"]
    assert list(PosteriorLoss(missing_truth=0.1).state_dict()) == ["scale", "missing"]
