"""The training loops people would write in PyTorch, which ours are measured against, and the proof that they agree."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise, zip_longest

import numpy as np
import torch

from plr.candidates import CandidateSets
from plr.losses import Loss
from plr.network.initialisation import initial_parameters
from plr.network.network import NetworkSettings, kernel_sets, train_network
from plr.weighting import Rule, Weighting

__all__ = ["check_agreement", "loader_loop", "make_module", "padded", "tensor_loop"]

Sample = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Features, padded candidates, and which of them are there."""


def make_module(sizes: Sequence[int], activations: Sequence[str]) -> torch.nn.Sequential:
    """Return a network of linear layers with ReLU, or nothing, after the hidden ones."""
    layers: list[torch.nn.Module] = []
    for (n_in, n_out), activation in zip_longest(pairwise(sizes), activations):
        layers.append(torch.nn.Linear(n_in, n_out))
        if activation == "relu":
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def _set_parameters(module: torch.nn.Module, flat: np.ndarray) -> None:
    """Give a network the parameters of the kernel's flat vector."""
    torch.nn.utils.vector_to_parameters(torch.from_numpy(flat.copy()), module.parameters())


def padded(X: np.ndarray, S: CandidateSets) -> Sample:
    """Return features and candidates as float32 tensors."""
    array = S.to_padded()
    values, mask = torch.from_numpy(np.nan_to_num(array)).float(), torch.from_numpy(~np.isnan(array))
    return torch.from_numpy(np.asarray(X)).float(), values, mask


def _pointwise(loss: Loss, residual: torch.Tensor) -> torch.Tensor:
    name = type(loss).__name__
    if name == "Squared":
        return residual**2
    size = residual.abs()
    if name == "Absolute":
        return size
    return torch.where(size <= loss.delta, 0.5 * size**2, loss.delta * (size - 0.5 * loss.delta))  # type: ignore[attr-defined]


def _weights(weighting: Weighting, cost: torch.Tensor, residual: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the weighting's shares for padded candidates, as its formula reads."""
    name = type(weighting).__name__
    if name == "Average":
        score = torch.zeros_like(cost)
    elif name == "Progressive":
        score = weighting.beta2 * cost.clamp_min(1e-30) ** -weighting.beta1  # type: ignore[attr-defined]
    elif name == "Posterior":
        score = -2.0 * torch.log1p(residual**2 / 3.0)
    else:
        least = torch.where(mask, cost, torch.inf).argmin(dim=1, keepdim=True)
        return torch.zeros_like(cost).scatter_(1, least, 1.0)
    return torch.softmax(torch.where(mask, score, -torch.inf), dim=1)


def _batch_loss(
    weighting: Weighting, loss: Loss, output: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return the mean weighted loss of a batch; no gradient passes through the weights."""
    residual = output - values
    cost = _pointwise(loss, residual)
    weights = _weights(weighting, cost.detach(), residual.detach(), mask)
    return (weights * torch.where(mask, cost, 0.0)).sum(dim=1).mean()


def loader_loop(
    module: torch.nn.Module,
    sample: Sample,
    weighting: Weighting,
    loss: Loss,
    epochs: int,
    *,
    batch_size: int,
    learning_rate: float = 1e-3,
    validation: Sample | None = None,
) -> torch.nn.Module:
    """Train as most people write it: a data set, a DataLoader, a loop; return the best epoch's network."""
    data = torch.utils.data.TensorDataset(*sample)
    loader = torch.utils.data.DataLoader(data, batch_size=batch_size, shuffle=True)
    optimizer = torch.optim.Adam(module.parameters(), lr=learning_rate)
    least, best = float("inf"), module
    for _ in range(epochs):
        for rows, candidates, present in loader:
            optimizer.zero_grad()
            _batch_loss(weighting, loss, module(rows), candidates, present).backward()
            optimizer.step()
        if validation is not None:
            with torch.no_grad():
                score = float(_batch_loss(weighting, loss, module(validation[0]), *validation[1:]))
            if score < least:
                least, best = score, deepcopy(module)
    return best


def tensor_loop(
    module: torch.nn.Module, sample: Sample, weighting: Weighting, loss: Loss, epochs: int, *, batch_size: int
) -> None:
    """Train on tensors in memory, indexed by a permutation: the first thing one does when the loader is slow."""
    features, values, mask = sample
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(epochs):
        order = torch.randperm(len(features))
        for begin in range(0, len(order), batch_size):
            part = order[begin : begin + batch_size]
            optimizer.zero_grad()
            _batch_loss(weighting, loss, module(features[part]), values[part], mask[part]).backward()
            optimizer.step()


def check_agreement(
    X: np.ndarray,
    S: CandidateSets,
    weighting: Weighting,
    loss: Loss,
    hidden: tuple[int, ...],
    activations: tuple[str, ...],
) -> None:
    """Stop unless the kernel and PyTorch, from the same weights, take the same steps on the same rows."""
    rows, seed = min(200, len(X)), 3
    X, S = np.asarray(X[:rows], dtype=np.float64), S[:rows]
    rule = Rule(weighting, loss)
    # After the first epoch the kernel moves the posterior's scale, which the loops here leave alone. Adam's first step
    # is the same for any size of the gradient, so where there is only one step it is a plain one.
    steps, optimizer = (1, "sgd") if rule.learns_scale else (5, "adam")
    # A batch of all rows is the same batch for both, and in float64 nothing but a mistake makes a difference.
    settings = NetworkSettings(hidden, activations, steps, batch_size=rows, optimizer=optimizer, dtype="float64")
    ours = train_network(X, kernel_sets(S), rule, settings, seed=seed).last.parameters
    sizes = [X.shape[1], *hidden, 1]
    start = initial_parameters(sizes, np.random.default_rng(seed))
    module = make_module(sizes, activations).double()
    _set_parameters(module, start)
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    stepper = kind(module.parameters(), lr=settings.learning_rate)
    array = S.to_padded()
    values, mask = torch.from_numpy(np.nan_to_num(array)), torch.from_numpy(~np.isnan(array))
    for _ in range(steps):
        stepper.zero_grad()
        _batch_loss(weighting, loss, module(torch.from_numpy(X)), values, mask).backward()
        stepper.step()
    theirs = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    difference = np.abs(ours - theirs).max() / np.abs(theirs - start).max()
    if not difference < 1e-4:
        raise SystemExit(f"{weighting}, {loss}: after {steps} steps parameters differ by {difference:.2g}; no timing.")
