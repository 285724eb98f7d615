"""Steps of each optimiser against PyTorch's, and the learning-rate schedule against its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from plr import CandidateSets
from plr.losses import Squared
from plr.network.network import NetworkSettings, initial_parameters, kernel_sets, train_network
from plr.network.training import OPTIMIZERS, update
from plr.weighting import Average, Rule
from support.pairs import all_pairs

torch = pytest.importorskip("torch")

STEPS = 12
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def torch_optimizer(
    name: str, parameters: list[torch.Tensor], rate: float, weight_decay: float, momentum: float
) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=weight_decay)
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return make(parameters, lr=rate, betas=(momentum, 0.999), weight_decay=weight_decay)


@all_pairs(
    name=OPTIMIZERS,
    weight_decay=[0.0, 0.1],
    momentum=[0.0, 0.5, 0.9],
    dtype=[pytest.param("float32", marks=pytest.mark.kernel), "float64"],
)
def test_steps(name: str, weight_decay: float, momentum: float, dtype: str) -> None:
    random = np.random.default_rng(0)
    begin = random.normal(size=37)
    gradients = random.normal(size=(STEPS, 37)) * np.logspace(-6, 6, 37)
    gradients[:, :3] = 0
    gradients[::2, 3] = 0
    rates = 0.1 / (1 + np.arange(STEPS))

    wanted = torch.tensor(begin, requires_grad=True)
    optimizer = torch_optimizer(name, [wanted], 0.1, weight_decay, momentum)
    found = begin.astype(dtype)
    first, second = np.zeros_like(found), np.zeros_like(found)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = float(rates[step])
        wanted.grad = torch.tensor(gradients[step])
        optimizer.step()
        update(
            OPTIMIZERS[name],
            found,
            gradients[step].astype(dtype),
            first,
            second,
            step + 1,
            float(rates[step]),
            weight_decay,
            momentum,
            0.999,
        )
        assert_allclose(found, wanted.detach().numpy(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=str(step))
    assert np.abs(found - begin).max() > 0.1


@every_dtype
@every_optimizer
def test_zero_gradient_moves_nothing(name: str, dtype: str) -> None:
    found = np.linspace(-1, 1, 9).astype(dtype)
    before = found.copy()
    for step in range(1, 4):
        update(
            OPTIMIZERS[name], found, np.zeros_like(found), np.zeros_like(found), np.zeros_like(found), step,
            0.1, 0.0, 0.9, 0.999,
        )  # fmt: skip
    assert (found == before).all()


def regression(rows: int = 50) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    X = random.normal(size=(rows, 3))
    return X, np.tanh(X @ [1.0, -2.0, 0.5]) + 0.1 * random.normal(size=rows)


@all_pairs(
    name=OPTIMIZERS,
    schedule=["constant", "cosine"],
    dtype=["float32", "float64"],
)
def test_whole_training(name: str, schedule: str, dtype: str) -> None:
    """Full batches from the same initial parameters: the loop counts steps and rates as PyTorch's does."""
    tolerance = {"float32": 1e-3, "float64": 1e-9}[dtype]
    X, y = regression()
    sizes, epochs, rate, decay = [3, 5, 1], 25, 0.02, 0.03
    settings = NetworkSettings(
        (5,),
        ("tanh",),
        epochs=epochs,
        optimizer=name,
        learning_rate=rate,
        schedule=schedule,
        weight_decay=decay,
        dtype=dtype,
    )
    S = CandidateSets.from_lists(y[:, None])
    training = train_network(X, kernel_sets(S), Rule(Average(), Squared()), settings, seed=3)

    flat = initial_parameters(sizes, np.random.default_rng(3))
    parts = [torch.tensor(part, requires_grad=True) for part in np.split(flat, [15, 20, 25])]
    optimizer = torch_optimizer(name, parts, rate, decay, 0.9)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    inputs, labels, history = torch.tensor(X), torch.tensor(y), []
    for _ in range(epochs):
        optimizer.zero_grad()
        hidden = torch.tanh(inputs @ parts[0].reshape(5, 3).T + parts[1])
        loss = ((hidden @ parts[2] + parts[3] - labels) ** 2).mean()
        loss.backward()
        optimizer.step()
        if schedule == "cosine":
            falling.step()
        history.append(loss.item())
    assert_allclose(training.loss, history, rtol=tolerance)
    wanted = np.concatenate([part.detach().numpy() for part in parts])
    assert_allclose(training.last.parameters, wanted, rtol=tolerance, atol=tolerance)
    assert training.loss[-1] < 0.8 * training.loss[0]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 100])
def test_cosine_over_all_steps(batch_size: int) -> None:
    """The rate falls step by step over all batches of all epochs; equal rows make the order of batches irrelevant."""
    epochs, rows, rate = 4, 5, 0.05
    X, target = np.full((rows, 1), 2.0), 3.0
    settings = NetworkSettings(
        (),
        (),
        epochs=epochs,
        batch_size=batch_size,
        optimizer="sgd",
        momentum=0.0,
        learning_rate=rate,
        schedule="cosine",
        dtype="float64",
    )
    S = CandidateSets.from_lists([[target]] * rows)
    training = train_network(X, kernel_sets(S), Rule(Average(), Squared()), settings, seed=0)

    weight, bias = initial_parameters([1, 1], np.random.default_rng(0))
    steps = epochs * math.ceil(rows / batch_size)
    for step in range(steps):
        slope = 2 * (2 * weight + bias - target)
        falling = rate * (1 + math.cos(math.pi * step / steps)) / 2
        weight, bias = weight - falling * 2 * slope, bias - falling * slope
    assert_allclose(training.last.parameters, [weight, bias], rtol=1e-12)
