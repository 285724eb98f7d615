"""How long the default takes: on Power-plant with 17 candidates a row, and on 100,000 rows with 5 each."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.paper import datasets
from record import seconds, write_record

SEED = 0
WANTED = {"power-plant": 30.0, "100,000 x 20 x 5": 180.0}


def power_plant() -> tuple[NDArray[np.float64], CandidateSets]:
    """Return as many rows of Power-plant as the benchmark trains on, each among 16 false labels."""
    data = datasets.load("power-plant")
    rows = np.random.default_rng(SEED).permutation(len(data.target))[:5742]
    return datasets.encode(data, rows)[rows], make_candidates(
        data.target[rows], 16, set_size="fixed", random_state=SEED
    )


def large() -> tuple[NDArray[np.float64], CandidateSets]:
    """Return made-up rows, each among 4 false labels."""
    random = np.random.default_rng(SEED)
    X = random.normal(size=(100_000, 20))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * random.normal(size=len(X))
    return X, make_candidates(y, 4, set_size="fixed", random_state=SEED)


def main() -> None:
    """Fit each once, after a small fit that loads everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write default.json into")
    arguments = parser.parse_args()
    problems = {"power-plant": power_plant(), "100,000 x 20 x 5": large()}
    X, S = problems["power-plant"]
    PartialLabelRegressor(effort="low", random_state=SEED).fit(X[:200], S[:200])
    took = {}
    for name, (X, S) in problems.items():
        took[name] = round(seconds(lambda X=X, S=S: PartialLabelRegressor(random_state=SEED).fit(X, S)), 1)
        print(f"{name}: {took[name]} s (at most {WANTED[name]:g})", flush=True)
    if arguments.out is not None:
        write_record(arguments.out, "default", {"seed": SEED, "wanted_s": WANTED, "seconds": took})


if __name__ == "__main__":
    main()
