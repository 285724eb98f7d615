"""Time and memory of boosting on candidate sets, against one plain LightGBM fit on the true labels.

    python benchmarks/bench_boosting.py --out results/speed

1,000,000 rows × 20 features × 5 candidates, `weighting="identification"`. Both grow the same number of trees, of as
many leaves, on as many rows, with as many threads: once as `Boosting` comes, and once with LightGBM's usual 31 leaves
and all rows. The two take turns in one process, and the median of the turns' ratios counts. On a busy machine, look at
the ratio in one thread as well: it is taken from the time that the process was really running. Memory is the peak of a
fresh process that loads the input and fits, above what it held before it loaded the input, as a multiple of the input;
so the input itself is 1 of it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import lightgbm
import numpy as np

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.learners import Boosting
from plr.learners.objectives import Objective
from plr.losses import Squared
from plr.noise import fit_noise
from plr.preprocessing.scaling import rescaled
from plr.weighting import Identify, Rule
from record import seconds, write_record

COLUMNS, FALSE_LABELS, SEED = 20, 4, 0
TIME_RATIO, MEMORY_RATIO = 2.5, 4.0


def make_data(rows: int) -> tuple[np.ndarray, np.ndarray, CandidateSets]:
    random = np.random.default_rng(SEED)
    X = random.normal(size=(rows, COLUMNS))
    y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * random.normal(size=rows)
    return X, y, make_candidates(y, FALSE_LABELS, set_size="fixed", random_state=SEED)


def make_model(learner: Boosting, threads: int | None = None) -> PartialLabelRegressor:
    return PartialLabelRegressor(learner, weighting="identification", random_state=SEED, n_jobs=threads)


def fit_plain(X: np.ndarray, y: np.ndarray, like: Boosting, threads: int | None) -> None:
    fraction = 0.3 if like.row_fraction == "auto" else like.row_fraction
    settings = {
        "objective": "regression",
        "num_leaves": like.leaves,
        "learning_rate": like.learning_rate,
        "bagging_fraction": fraction,
        "bagging_freq": int(fraction < 1),
        "num_threads": threads or 0,
        "verbosity": -1,
    }
    lightgbm.train(settings, lightgbm.Dataset(X, y), like.trees)


def measure_time(
    X: np.ndarray, y: np.ndarray, S: CandidateSets, learner: Boosting, turns: int, threads: int | None
) -> dict[str, object]:
    plain, ours = [], []
    for _ in range(turns):
        plain.append(seconds(lambda: fit_plain(X, y, learner, threads)))
        ours.append(seconds(lambda: make_model(learner, threads).fit(X, S)))
        print(f"  plain {plain[-1]:.1f} s, candidate sets {ours[-1]:.1f} s, ratio {ours[-1] / plain[-1]:.2f}")
    alone = seconds(lambda: fit_plain(X, y, learner, 1), time.process_time)
    alone_ours = seconds(lambda: make_model(learner, 1).fit(X, S), time.process_time)
    print(f"  in one thread plain {alone:.1f} s, candidate sets {alone_ours:.1f} s, ratio {alone_ours / alone:.2f}")
    return {
        "plain_s": plain,
        "candidate_sets_s": ours,
        "time_ratio": statistics.median(b / a for a, b in zip(plain, ours, strict=True)),
        "one_thread_ratio": alone_ours / alone,
    }


def measure_parts(X: np.ndarray, S: CandidateSets, learner: Boosting) -> dict[str, float]:
    """Time what a fit does beside growing trees, in one thread."""
    model = make_model(learner, 1).fit(X, S)
    prediction = model.predict(X)
    target = model.model_.target
    objective = Objective(rescaled(S, target), Rule(Identify(), Squared()))
    score = target.apply(prediction)
    objective.round(score)
    return {
        "weights and derivatives, all rounds": learner.trees
        * seconds(lambda: objective.round(score), time.process_time),
        "the noise scale": seconds(lambda: fit_noise(prediction, S), time.process_time),
        "the candidates' probabilities": seconds(lambda: model.noise_.probabilities(prediction, S), time.process_time),
    }


def resident(line: str) -> int:
    """Return what the system says of this process: VmRSS now, VmHWM at the highest, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(row for row in status.splitlines() if row.startswith(line)).split()[1])


def fit_and_watch(folder: str, trees: int) -> tuple[int, int]:
    random = np.random.default_rng(SEED)
    make_model(Boosting(trees=2)).fit(random.normal(size=(1000, COLUMNS)), random.normal(size=(1000, 1 + FALSE_LABELS)))
    before = resident("VmRSS")
    X, values, offsets = (np.load(Path(folder) / f"{name}.npy") for name in ("X", "values", "offsets"))
    values.flags.writeable = offsets.flags.writeable = False
    make_model(Boosting(trees=trees)).fit(X, CandidateSets(values, offsets))
    return X.nbytes + values.nbytes + offsets.nbytes, resident("VmHWM") - before


def measure_memory(rows: int, trees: int) -> dict[str, float]:
    X, _, S = make_data(rows)
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("X", X), ("values", S.values), ("offsets", S.offsets)):
            np.save(Path(folder) / name, array)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            given, peak = pool.apply(fit_and_watch, (folder, trees))
    return {"input_mb": given / 1e6, "peak_mb": peak / 1e6, "memory_ratio": peak / given}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, help="threads of both; all cores unless given")
    parser.add_argument("--out", type=Path, help="folder to write boosting.json into")
    arguments = parser.parse_args()
    memory = measure_memory(arguments.rows, min(arguments.trees, 20))
    print(f"memory: {memory['peak_mb']:.0f} MB for {memory['input_mb']:.0f} MB, {memory['memory_ratio']:.2f} times")
    X, y, S = make_data(arguments.rows)
    learners = {
        "as it comes": Boosting(trees=arguments.trees),
        "31 leaves, all rows": Boosting(trees=arguments.trees, leaves=31, row_fraction=1.0),
    }
    times = {}
    for name, learner in learners.items():
        print(f"{name}:")
        times[name] = measure_time(X, y, S, learner, arguments.turns, arguments.threads)
        print(f"  {times[name]['time_ratio']:.2f} times a plain fit, the median of {arguments.turns} turns")
    parts = measure_parts(X, S, learners["as it comes"])
    print("of it, in one thread: " + ", ".join(f"{part} {value:.1f} s" for part, value in parts.items()))
    if arguments.out is not None:
        record = {
            "seed": SEED,
            "rows": arguments.rows,
            "columns": COLUMNS,
            "candidates": 1 + FALSE_LABELS,
            "trees": arguments.trees,
            "threads": arguments.threads,
            "wanted": {"time_ratio": TIME_RATIO, "memory_ratio": MEMORY_RATIO},
            "memory": memory,
            "time": times,
            "one_thread_s": parts,
        }
        write_record(arguments.out, "boosting", record, packages=("lightgbm",))
    slowest = max(found["time_ratio"] for found in times.values())
    if slowest > TIME_RATIO or memory["memory_ratio"] > MEMORY_RATIO:
        raise SystemExit(f"More than {TIME_RATIO} times the time or {MEMORY_RATIO} times the memory.")


if __name__ == "__main__":
    main()
