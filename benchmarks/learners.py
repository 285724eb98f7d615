"""Every kind of learner with every weighting, on two data sets: test errors side by side.

    python benchmarks/learners.py --out results/learners

Concrete and Airfoil, up to and exactly 4 and 16 false labels, five trials, the benchmark's own splits and candidate
sets. Every learner has its defaults or the settings in `LEARNERS` below, the same for every weighting; nothing was
chosen by looking at these errors. Results are kept in --store as they come, so that the command goes on where it was
stopped; two at the same time, with --workers 1 each, are faster than one with two workers. Writes learners.csv (every
cell with its standard error), learners.md, learners.png and learners.json.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from plr import PartialLabelRegressor
from plr.learners import Module, Refit
from plr.paper.execution import Fit
from plr.paper.figures import require_matplotlib, to_png
from plr.paper.methods import METHODS, CustomFit, Method
from plr.paper.problems import BenchmarkProblem
from plr.paper.protocol import PRESETS, Protocol
from plr.paper.runner import RunProgress, run_benchmark
from plr.paper.selection import EPOCH_RULES
from plr.paper.store import Store
from record import write_record

DATASETS, SIZES, SET_SIZES, TRIALS = ("airfoil", "concrete"), (4, 16), ("upto", "fixed"), 5
WEIGHTINGS = ("average", "identification", "progressive", "posterior")
SUPERVISED = "true labels"
# Rounds of a refit, each as many fits as there are folds.
ROUNDS = 8


def network(features: int) -> object:
    """Return a small torch network."""
    from torch import nn

    return nn.Sequential(nn.Linear(features, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))


LEARNERS: dict[str, Callable[[], object]] = {
    "linear": lambda: "linear",
    "mlp": lambda: "mlp",
    "boosting": lambda: "boosting",
    "refit: ridge": lambda: Refit(Ridge(), max_rounds=ROUNDS),
    "refit: 10 neighbours": lambda: Refit(KNeighborsRegressor(10, weights="distance"), max_rounds=ROUNDS),
    "refit: random forest": lambda: Refit(RandomForestRegressor(40, min_samples_leaf=2), max_rounds=ROUNDS),
    "module: torch network": lambda: Module(network, learning_rate=3e-3, scheduler="cosine", scale_features=True),
}


def fitter(make: Callable[[], object], weighting: str) -> CustomFit:
    """Return what the benchmark calls to fit a learner with a weighting."""

    def fit(
        problem: BenchmarkProblem, _setting: object, _protocol: object, seed: int, check: Callable[[], None]
    ) -> list[Fit]:
        chosen = "average" if weighting == SUPERVISED else weighting
        model = PartialLabelRegressor(learner=make(), weighting=chosen, random_state=seed % 2**31, n_jobs=1)
        model.fit(problem.train.X, problem.train.S, callback=lambda *_: check())
        mse = float(np.mean((model.predict(problem.test.X) - problem.test.y) ** 2))
        evidence = -model.score(problem.validation.X, problem.validation.S)
        truth = float(np.mean((model.predict(problem.validation.X) - problem.validation.y) ** 2))
        return [Fit("{}", rule, model.n_iter_, None, evidence, truth, mse) for rule in EPOCH_RULES]

    return fit


def install() -> tuple[str, ...]:
    """Make every learner × weighting a method of the benchmark; return their names."""
    names = []
    for learner, make in LEARNERS.items():
        for weighting in (SUPERVISED, *WEIGHTINGS):
            name = f"{learner} × {weighting}"
            target = "truth" if weighting == SUPERVISED else "candidates"
            METHODS[name] = Method(name, custom=fitter(make, weighting), model=learner, hyper=(), target=target)
            names.append(name)
    return tuple(names)


def tell(progress: RunProgress) -> None:
    sys.stderr.write(
        f"\r{progress.done} of {progress.total} cells, {progress.failed} failed, {progress.seconds:.0f} s "
    )


def collect(store: Path) -> dict[tuple[str, str, int, str, str], list[float]]:
    """Return test errors by data set, set size, false labels, learner and weighting."""
    found: dict[tuple[str, str, int, str, str], list[float]] = {}
    for set_size in SET_SIZES:
        with Store.open(store / set_size) as results:
            rows = [row for row in results.rows() if row["rule"] == "last"]
        for row in rows:
            learner, _, weighting = row["method"].partition(" × ")
            sizes = SIZES if weighting == SUPERVISED else (row["false_labels"],)
            for size in sizes:
                key = (row["dataset"], set_size, size, learner, weighting)
                found.setdefault(key, []).append(float("nan") if row["test_mse"] is None else row["test_mse"])
    return found


def fitted_at(store: Path) -> str:
    """Return the revisions that the stored fits were made at."""
    found: set[str] = set()
    for set_size in SET_SIZES:
        with Store.open(store / set_size) as results:
            found |= {str(run["revision"]) for run in results.runs()}
    return ", ".join(sorted(found))


def describe(learner: object) -> str:
    """Return a learner on one line, functions by name."""
    return re.sub(r"<function (\w+) at \w+>", r"\1", " ".join(str(learner).split()))


def to_csv(found: dict[tuple[str, str, int, str, str], list[float]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["dataset", "set_size", "false_labels", "learner", "weighting", "trials", "test_mse", "standard_error"]
    )
    for key in sorted(found):
        errors = found[key]
        spread = np.std(errors, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else float("nan")
        writer.writerow([*key, len(errors), f"{np.mean(errors):.4g}", f"{spread:.3g}"])
    return out.getvalue().encode()


def to_markdown(found: dict[tuple[str, str, int, str, str], list[float]], note: str) -> bytes:
    lines = ["# Learners × weightings", "", note, ""]
    for dataset in DATASETS:
        for set_size in SET_SIZES:
            for size in SIZES:
                how = "up to" if set_size == "upto" else "exactly"
                lines += [f"## {dataset.capitalize()}, {how} {size} false labels", ""]
                lines += [f"| learner | {SUPERVISED} | {' | '.join(WEIGHTINGS)} |", "|---|" + "---:|" * 5]
                for learner in LEARNERS:
                    cells = [found.get((dataset, set_size, size, learner, w), []) for w in (SUPERVISED, *WEIGHTINGS)]
                    shown = [
                        f"{np.mean(e):.1f} ± {np.std(e, ddof=1) / np.sqrt(len(e)):.1f}" if len(e) > 1 else "–"
                        for e in cells
                    ]
                    lines.append(f"| {learner} | {' | '.join(shown)} |")
                lines.append("")
    return "\n".join(lines).encode()


def draw(found: dict[tuple[str, str, int, str, str], list[float]]) -> bytes:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    panels = [(d, m, s) for d in DATASETS for m in SET_SIZES for s in SIZES]
    figure, axes = plt.subplots(2, 4, figsize=(16, 7), sharey=True, layout="constrained")
    marks = dict(zip((SUPERVISED, *WEIGHTINGS), ("k|", "s", "^", "D", "o"), strict=True))
    for axis, (dataset, set_size, size) in zip(axes.flat, panels, strict=True):
        for weighting, mark in marks.items():
            means = [
                np.mean(found.get((dataset, set_size, size, learner, weighting), [np.nan])) for learner in LEARNERS
            ]
            axis.plot(
                means, range(len(LEARNERS)), mark, label=weighting, markersize=12 if mark == "k|" else 6, alpha=0.8
            )
        axis.set_xscale("log")
        axis.set_title(f"{dataset}, {'up to' if set_size == 'upto' else 'exactly'} {size} false labels", fontsize=10)
        axis.set_xlabel("test MSE")
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].set_yticks(range(len(LEARNERS)), list(LEARNERS))
    axes[0, 0].invert_yaxis()
    axes[0, 0].legend(fontsize=8, loc="best")
    return to_png(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--store", type=Path, default=Path("runs/learners"), help="folder that results are kept in")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    require_matplotlib()
    methods = install()
    base: Protocol = replace(PRESETS["paper"], datasets=DATASETS, sizes=SIZES, methods=methods, trials=arguments.trials)
    command = shlex.join(["python", *sys.argv])
    for set_size in SET_SIZES:
        protocol = replace(base, set_size=set_size, figure_fractions=())
        out = arguments.store / set_size
        summary = run_benchmark(protocol, out, workers=arguments.workers, command=command, callback=tell)
        sys.stderr.write("\n")
        if summary.failed:
            with Store.open(out) as store:
                raise SystemExit("\n".join(f"{f['method']}: {f['error']}" for f in store.failures()))
    found = collect(arguments.store)
    note = (
        f"Mean test MSE ± standard error over {arguments.trials} trials, seed {base.seed}, made by `{command}` at "
        f"revision {fitted_at(arguments.store)}. *True labels* is what the same learner reaches when it is told them."
    )
    record = {
        "revision": fitted_at(arguments.store),
        "seed": base.seed,
        "trials": arguments.trials,
        "learners": {name: describe(make()) for name, make in LEARNERS.items()},
    }
    files = {
        "learners.csv": to_csv(found),
        "learners.md": to_markdown(found, note),
        "learners.png": draw(found),
    }
    for path in write_record(arguments.out, "learners", record, packages=("lightgbm", "torch"), files=files):
        print(path)


if __name__ == "__main__":
    main()
