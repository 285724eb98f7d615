"""How long the default takes: fit, identify and intervals, beside five-fold cross-validation of LightGBM."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from record import seconds, write_record

SEED = 0
REPEATS = 3
WANTED = {1_000: 6.0, 10_000: 5.0, 100_000: 4.0}
"""Rows of 20 features and 5 candidates, and at most how many times what LightGBM takes."""

WIDE, WIDE_WANTED = (900, 262), 20.0
BUSY_WANTED, COLD_WANTED = 1.3, 4.0

Problem = tuple[NDArray[np.float64], NDArray[np.float64], CandidateSets]

_COLD = """
import time, numpy as np
from plr import PartialLabelRegressor, make_candidates
X = np.random.default_rng(0).normal(size=(300, 6))
S = make_candidates(X[:, 0] + np.sin(X[:, 1]), 4, set_size="fixed", random_state=1)
for _ in range(2):
    begun = time.perf_counter()
    PartialLabelRegressor(random_state=0).fit(X, S)
    print(time.perf_counter() - begun)
"""


def problem(rows: int, columns: int = 20) -> Problem:
    """Return made-up rows, each among 4 false labels."""
    random = np.random.default_rng(SEED)
    X = random.normal(size=(rows, columns))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * random.normal(size=rows)
    # A stream of its own, or false labels would be functions of the features.
    return X, y, make_candidates(y, 4, set_size="fixed", random_state=SEED + 1000)


def default(given: Problem) -> Callable[[], object]:
    """Return what is timed of the default."""
    X, _, S = given

    def work() -> None:
        model = PartialLabelRegressor(random_state=SEED).fit(X, S)
        model.identify()
        model.predict_interval(X[:1000])

    return work


def lightgbm(given: Problem) -> Callable[[], object]:
    """Return what is timed of LightGBM."""
    from lightgbm import LGBMRegressor
    from sklearn.model_selection import cross_val_predict

    X, y, _ = given
    return lambda: cross_val_predict(LGBMRegressor(n_estimators=300, n_jobs=1, verbosity=-1), X, y, cv=5)


def first_and_second() -> tuple[float, float]:
    """Return how long a first fit takes where nothing is compiled, and the second in the same process."""
    with tempfile.TemporaryDirectory() as folder:
        told = os.environ | {"NUMBA_CACHE_DIR": folder}
        done = subprocess.run([sys.executable, "-c", _COLD], env=told, capture_output=True, text=True, check=True)
    first, second = map(float, done.stdout.split())
    return first, second


def beside_a_busy_process(given: Problem) -> float:
    """Return how many times as long the default takes while another process uses one core."""
    alone, together = [], []
    for _ in range(REPEATS):
        alone.append(seconds(default(given)))
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            together.append(seconds(default(given)))
            busy.kill()
    return statistics.median(together) / statistics.median(alone)


def main() -> None:
    """Time everything, after a small fit that loads and compiles what there is to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write default.json into")
    arguments = parser.parse_args()
    default(problem(300))()
    ratios, took = {}, {}
    for rows, wanted in WANTED.items():
        given = problem(rows)
        ours, theirs = [], []
        for _ in range(REPEATS):
            theirs.append(seconds(lightgbm(given)))
            ours.append(seconds(default(given)))
        took[rows] = round(statistics.median(ours), 2)
        ratios[rows] = round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2)
        print(f"{rows:,} x 20 x 5: {took[rows]} s, {ratios[rows]} times LightGBM (at most {wanted:g})", flush=True)
    wide = round(seconds(default(problem(*WIDE))), 1)
    print(f"{WIDE[0]} x {WIDE[1]}: {wide} s (at most {WIDE_WANTED:g})", flush=True)
    busy = round(beside_a_busy_process(problem(1_000)), 2)
    print(f"beside a busy process: {busy} times as long (at most {BUSY_WANTED:g})", flush=True)
    first, second = first_and_second()
    print(f"first fit {first:.1f} s, second {second:.1f} s (at most {COLD_WANTED:g} s more)")
    if arguments.out is not None:
        measured = {
            "seconds": took,
            "over_lightgbm": ratios,
            "wanted_over_lightgbm": WANTED,
            "wide_seconds": wide,
            "beside_a_busy_process": busy,
            "first_fit_seconds": round(first, 1),
            "second_fit_seconds": round(second, 1),
        }
        write_record(arguments.out, "default", {"seed": SEED, **measured})


if __name__ == "__main__":
    main()
