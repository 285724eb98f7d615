"""Time one MLP fit against the loops people would write in PyTorch, in one process, one core each.

    python benchmarks/bench_training.py --out results/speed

The same network (d-20-30-10-1, ReLU), data (Abalone's training rows, up to 16 false labels; made-up rows of the same
shape where it is not installed), batches of 256 and Adam. First kernel and PyTorch are checked to take the same steps
from the same weights; then the three take turns, and the medians of several turns are compared.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np
import torch

from plr.candidates import CandidateSets
from plr.errors import DataNotFoundError
from plr.generation import make_candidates
from plr.losses import Squared
from plr.network.network import NetworkSettings, kernel_sets, train_network
from plr.paper.datasets import encode, load
from plr.weighting import WEIGHTINGS, Rule, Weighting, get_weighting
from record import seconds, write_record
from torch_loops import check_agreement, loader_loop, make_module, padded, tensor_loop

ROWS, COLUMNS, BATCH = 2507, 10, 256
HIDDEN, ACTIVATIONS = (20, 30, 10), ("relu",) * 3
LOADER_RATIO, TENSORS_RATIO = 40, 20


def make_data(seed: int) -> tuple[str, np.ndarray, CandidateSets]:
    """Return what the data is, features and candidate sets."""
    random = np.random.default_rng(seed)
    try:
        dataset = load("abalone")
    except DataNotFoundError:
        name, X = "made-up rows of Abalone's shape", random.normal(size=(ROWS, COLUMNS))
        y = X[:, 0] * 2 + np.sin(X[:, 1]) + 0.1 * random.normal(size=ROWS)
    else:
        rows = random.permutation(len(dataset))[:ROWS]
        name, X, y = "abalone", encode(dataset, rows)[rows], dataset.target[rows]
        # The defaults of the weightings are for scaled labels.
        y = (y - y.mean()) / y.std()
    return name, X, make_candidates(y, 16, random_state=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20, help="epochs of the PyTorch loops per turn")
    parser.add_argument("--weightings", default=",".join(WEIGHTINGS), help="comma-separated")
    parser.add_argument("--out", type=Path, help="folder to write training.json into")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    name_of_data, X, S = make_data(0)
    sample, sizes = padded(X, S), [X.shape[1], *HIDDEN, 1]
    epochs, kernel_epochs = arguments.epochs, 20 * arguments.epochs
    microseconds = 1e6 / -(-len(X) // BATCH)

    def kernel(weighting: Weighting) -> None:
        settings = NetworkSettings(HIDDEN, ACTIVATIONS, kernel_epochs, batch_size=BATCH)
        train_network(X, kernel_sets(S), Rule(weighting, Squared()), settings, seed=0)

    def loader(weighting: Weighting) -> None:
        loader_loop(make_module(sizes, ACTIVATIONS), sample, weighting, Squared(), epochs, batch_size=BATCH)

    def tensors(weighting: Weighting) -> None:
        tensor_loop(make_module(sizes, ACTIVATIONS), sample, weighting, Squared(), epochs, batch_size=BATCH)

    measured = {}
    print(f"{name_of_data}: microseconds per step, and how many times the kernel's")
    print(f"{'weighting':16} {'kernel':>10} {'DataLoader':>18} {'tensors':>18}")
    for name in arguments.weightings.split(","):
        weighting = get_weighting(name)
        check_agreement(X, S, weighting, Squared(), HIDDEN, ACTIVATIONS)
        turns: dict[str, list[float]] = {"kernel": [], "loader": [], "tensors": []}
        for _ in range(arguments.turns):
            turns["kernel"].append(microseconds * seconds(lambda w=weighting: kernel(w)) / kernel_epochs)
            turns["loader"].append(microseconds * seconds(lambda w=weighting: loader(w)) / epochs)
            turns["tensors"].append(microseconds * seconds(lambda w=weighting: tensors(w)) / epochs)
        ours, theirs, direct = (statistics.median(turns[key]) for key in ("kernel", "loader", "tensors"))
        ratios = f"{theirs:10.0f} ({theirs / ours:5.1f}) {direct:10.0f} ({direct / ours:5.1f})"
        print(f"{name:16} {ours:10.1f} {ratios}")
        measured[name] = {"kernel_us": ours, "loader_us": theirs, "tensors_us": direct}
        measured[name] |= {"loader_ratio": theirs / ours, "tensors_ratio": direct / ours}
    if arguments.out is not None:
        found = {
            "data": name_of_data,
            "wanted": {"loader_ratio": LOADER_RATIO, "tensors_ratio": TENSORS_RATIO},
            "microseconds_per_step": measured,
        }
        write_record(arguments.out, "training", found, packages=("torch",))
    slow = [
        name
        for name, found in measured.items()
        if found["loader_ratio"] < LOADER_RATIO or found["tensors_ratio"] < TENSORS_RATIO
    ]
    if slow:
        raise SystemExit(f"Less than {LOADER_RATIO} times the loader or {TENSORS_RATIO} times tensors: {slow}")


if __name__ == "__main__":
    main()
