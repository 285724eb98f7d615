"""A PyTorch training loop by hand, with candidate sets in place of labels.

    python examples/own_loop.py

For people who have a loop already and want to keep it: a dataset of rows with their candidates, a collate function that
pads them, and a loss. Four losses of `plr.torch` are tried on scikit-learn's Friedman problem (ten columns, five of
which matter), each row with its true label and two to six false ones.

Shows: `PartialLabelDataset`, `collate`, the losses, and `weights`, which says what share of its row each candidate has;
the heaviest is the identified one. The loop is `train`, below. About a quarter of a minute on two cores.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import make_friedman1
from torch import Tensor, nn
from torch.utils.data import DataLoader

from plr import CandidateSets
from plr.torch import (
    AverageLoss,
    CandidateLoss,
    IdentificationLoss,
    PartialLabelDataset,
    PosteriorLoss,
    ProgressiveLoss,
    collate,
    pad,
)
from support import Row, judge, options, print_results


def train(rows: PartialLabelDataset, criterion: CandidateLoss, epochs: int, seed: int) -> nn.Module:
    """Train a network on candidates whose standard deviation is about 1."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    batches = DataLoader(rows, batch_size=128, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(batches))
    for _ in range(epochs):
        for features, candidates, mask, prior in batches:
            optimizer.zero_grad()
            criterion(net(features), candidates, mask, prior).backward()
            optimizer.step()
            schedule.step()
    criterion.eval()
    return net.eval()


def problem(rows: int, random: np.random.Generator) -> tuple[Tensor, np.ndarray, CandidateSets]:
    """Return features, true labels, and sets of three to seven candidates."""
    X, y = make_friedman1(rows, noise=0.5, random_state=int(random.integers(2**31)))
    sets = [random.permutation([true, *random.uniform(0, 28, size=random.integers(2, 7))]) for true in y]
    return torch.tensor(X, dtype=torch.float32), y, CandidateSets.from_lists(sets)


def main() -> None:
    given = options(__doc__)
    # More would not help so small a network, and sums would come out differently.
    torch.set_num_threads(1)
    random = np.random.default_rng(given.seed)
    X, y, S = problem(500 if given.small else 3000, random)
    X_test, y_test, S_test = problem(1000, random)
    centre, scale = S.values.mean(), S.values.std()

    def scaled(sets: CandidateSets) -> CandidateSets:
        return CandidateSets((sets.values - centre) / scale, sets.offsets)

    def scored(trained_on: str, target: CandidateSets, criterion: CandidateLoss) -> Row:
        net = train(PartialLabelDataset(X, scaled(target)), criterion, 20 if given.small else 40, given.seed)
        prediction = net(X_test).detach()
        shares = criterion.weights(prediction, *pad(scaled(S_test)))
        heaviest = S_test.values[S_test.offsets[:-1] + shares.argmax(1).numpy()]
        return judge(trained_on, y_test, centre + scale * prediction[:, 0].numpy(), heaviest)

    print_results(
        f"Friedman's problem: {len(S):,} rows with 3 to 7 candidates each; {len(S_test):,} test rows",
        "label units",
        float(np.mean(1 / S_test.sizes)),
        [
            scored("true labels", CandidateSets.from_labels(y), PosteriorLoss()),
            scored("candidates, PosteriorLoss", S, PosteriorLoss()),
            scored("candidates, ProgressiveLoss", S, ProgressiveLoss(beta2=1.0)),
            scored("candidates, IdentificationLoss", S, IdentificationLoss()),
            scored("candidates, AverageLoss (naive)", S, AverageLoss()),
        ],
    )


if __name__ == "__main__":
    main()
