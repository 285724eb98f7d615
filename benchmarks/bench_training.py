"""Time one MLP fit against the loops people would write in PyTorch, in one process, one core each.

    python benchmarks/bench_training.py --out results/speed

The same network (d-20-30-10-1, ReLU), data (Abalone's shape, up to 16 false labels), batches of 256 and Adam. First
kernel and PyTorch are checked to agree on the loss of the same predictions; then the three take turns, and the medians
of several turns are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from plr.benchmark.machine import describe_machine, package_versions, revision
from plr.candidates import CandidateSets
from plr.generation import make_candidates
from plr.learners.network.network import Settings, kernel_sets, train_network
from plr.losses import Squared
from plr.weighting import WEIGHTINGS, Identification, Rule, Weighting, get_weighting

ROWS, COLUMNS, BATCH = 2507, 10, 256
HIDDEN = (20, 30, 10)
LOADER_RATIO, TENSORS_RATIO = 30, 15


def make_data(seed: int) -> tuple[np.ndarray, np.ndarray, CandidateSets]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(ROWS, COLUMNS))
    y = X[:, 0] * 2 + np.sin(X[:, 1]) + 0.1 * random.normal(size=ROWS)
    return X, y, make_candidates(y, 16, random_state=seed)


def make_module() -> torch.nn.Sequential:
    sizes = [COLUMNS, *HIDDEN, 1]
    layers: list[torch.nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def torch_weights(weighting: Weighting, loss: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the weighting's shares for padded candidates, as its formula reads."""
    name = type(weighting).__name__
    if name == "Average":
        score = torch.zeros_like(loss)
    elif name == "Progressive":
        score = weighting.beta2 * loss.clamp_min(1e-30) ** -weighting.beta1  # type: ignore[attr-defined]
    elif name == "Posterior":
        score = -2.0 * torch.log1p(loss / 3.0)
    else:
        least = torch.where(mask, loss, torch.inf).argmin(dim=1, keepdim=True)
        return torch.zeros_like(loss).scatter_(1, least, 1.0)
    return torch.softmax(torch.where(mask, score, -torch.inf), dim=1)


def batch_loss(weighting: Weighting, output: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    loss = (output - values) ** 2
    weights = torch_weights(weighting, loss.detach(), mask)
    return (weights * torch.where(mask, loss, 0.0)).sum(dim=1).mean()


def padded(S: CandidateSets) -> tuple[torch.Tensor, torch.Tensor]:
    array = S.to_padded()
    return torch.from_numpy(np.nan_to_num(array)).float(), torch.from_numpy(~np.isnan(array))


def loader_loop(X: np.ndarray, S: CandidateSets, weighting: Weighting, epochs: int) -> None:
    """Train as most people write it: a data set, a DataLoader, a loop."""
    values, mask = padded(S)
    data = torch.utils.data.TensorDataset(torch.from_numpy(X).float(), values, mask)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True)
    module = make_module()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows, candidates, present in loader:
            optimizer.zero_grad()
            batch_loss(weighting, module(rows), candidates, present).backward()
            optimizer.step()


def tensor_loop(X: np.ndarray, S: CandidateSets, weighting: Weighting, epochs: int) -> None:
    """Train on tensors in memory, indexed by a permutation: the first thing one does when the loader is slow."""
    values, mask = padded(S)
    features = torch.from_numpy(X).float()
    module = make_module()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(epochs):
        order = torch.randperm(len(features))
        for begin in range(0, len(order), BATCH):
            part = order[begin : begin + BATCH]
            optimizer.zero_grad()
            batch_loss(weighting, module(features[part]), values[part], mask[part]).backward()
            optimizer.step()


def kernel_loop(X: np.ndarray, S: CandidateSets, weighting: Weighting, epochs: int) -> None:
    settings = Settings(HIDDEN, ("relu",) * 3, epochs, batch_size=BATCH)
    train_network(X, kernel_sets(S), Rule(weighting, Squared()), settings, seed=0)


def check_agreement(X: np.ndarray, S: CandidateSets, weighting: Weighting) -> None:
    """Stop unless the kernel and PyTorch give the same loss for the same predictions."""
    prediction = 0.3 * X[:, 0]
    rule = Rule(weighting, Squared())
    ours = float(rule.evaluate(prediction, S, rule.initial_state(1.0)).loss.mean())
    values, mask = padded(S)
    theirs = float(batch_loss(weighting, torch.from_numpy(prediction)[:, None], values.double(), mask))
    if abs(ours - theirs) > 1e-5 * abs(theirs):
        raise SystemExit(f"{weighting}: the kernel says {ours}, PyTorch {theirs}; no timing without agreement.")


def microseconds(run: Callable[[], None], steps: int) -> float:
    began = time.perf_counter()
    run()
    return 1e6 * (time.perf_counter() - began) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20, help="epochs of the PyTorch loops per turn")
    parser.add_argument("--weightings", default=",".join(WEIGHTINGS), help="comma-separated")
    parser.add_argument("--out", type=Path, help="folder to write training.json into")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    X, _, S = make_data(0)
    steps_per_epoch = -(-ROWS // BATCH)
    kernel_epochs = 20 * arguments.epochs
    kernel_loop(X, S, Identification(), 1)

    measured = {}
    print(f"{'weighting':16} {'kernel':>10} {'DataLoader':>18} {'tensors':>18}   µs per step, (ratio)")
    for name in arguments.weightings.split(","):
        weighting = get_weighting(name)
        check_agreement(X, S, weighting)
        turns: dict[str, list[float]] = {"kernel": [], "loader": [], "tensors": []}
        for _ in range(arguments.turns):
            few, many = steps_per_epoch * arguments.epochs, steps_per_epoch * kernel_epochs
            turns["kernel"].append(microseconds(lambda w=weighting: kernel_loop(X, S, w, kernel_epochs), many))
            turns["loader"].append(microseconds(lambda w=weighting: loader_loop(X, S, w, arguments.epochs), few))
            turns["tensors"].append(microseconds(lambda w=weighting: tensor_loop(X, S, w, arguments.epochs), few))
        kernel, loader, tensors = (statistics.median(turns[key]) for key in ("kernel", "loader", "tensors"))
        ratios = f"{loader:10.0f} ({loader / kernel:4.1f}) {tensors:10.0f} ({tensors / kernel:4.1f})"
        print(f"{name:16} {kernel:10.1f} {ratios}")
        measured[name] = {"kernel_us": kernel, "loader_us": loader, "tensors_us": tensors}
        measured[name] |= {"loader_ratio": loader / kernel, "tensors_ratio": tensors / kernel}
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        record = {
            "command": "python benchmarks/bench_training.py --out results/speed",
            "revision": revision(),
            "machine": describe_machine(),
            "versions": package_versions() | {"torch": torch.__version__},
            "wanted": {"loader_ratio": LOADER_RATIO, "tensors_ratio": TENSORS_RATIO},
            "microseconds_per_step": measured,
        }
        (arguments.out / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    slow = [
        name
        for name, found in measured.items()
        if found["loader_ratio"] < LOADER_RATIO or found["tensors_ratio"] < TENSORS_RATIO
    ]
    if slow:
        raise SystemExit(f"Less than {LOADER_RATIO} times the loader or {TENSORS_RATIO} times tensors: {slow}")


if __name__ == "__main__":
    main()
