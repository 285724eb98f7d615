"""How the time of a fit grows with the number of rows and with the number of candidates.

    python benchmarks/bench_scaling.py --out results/speed

Linear model, network and boosted trees, each with as many rounds, epochs or trees at every size, so that the work per
row is the same: 10,000 to 1,000,000 rows of 20 features and 5 candidates, and 2 to 64 candidates on 50,000 rows. A
growth of n^1 is a slope of 1 where both axes are logarithmic; slopes are by least squares. Fits run in one thread, and
what counts is the time that the process was really running, so that other processes disturb little. First each fit is
checked: it must predict well, and the same to the bit with one worker and with two. Writes scaling.json, scaling.png
and scaling.svg.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import ConvergenceWarning
from plr.learners import MLP, Boosting, Learner, Linear
from plr.paper.figures import drawing, require_matplotlib, to_png, to_svg
from record import seconds, write_record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS, SEED = 20, 0
ROWS, USUAL_CANDIDATES = (10_000, 31_623, 100_000, 316_228, 1_000_000), 5
CANDIDATES, USUAL_ROWS = (2, 4, 8, 16, 32, 64), 50_000
WANTED = {"rows": 1.1, "candidates": 1.1}
# Fits of fewer values than this are repeated, and the fastest counts.
_QUICK = 2_000_000

LEARNERS: dict[str, Callable[[], Learner]] = {
    "linear": lambda: Linear(max_rounds=10, tol=1e-300),
    "mlp": lambda: MLP(hidden=(20, 30, 10), epochs=4),
    "boosting": lambda: Boosting(trees=20, learning_rate=0.3, row_fraction=1.0, warm_up=5),
}
LOOKS: dict[str, dict[str, Any]] = {
    "linear": {"color": "#0b6bb5", "marker": "o", "linestyle": "solid"},
    "mlp": {"color": "#c8501e", "marker": "s", "linestyle": (0, (4, 1.5))},
    "boosting": {"color": "#2d8a4e", "marker": "^", "linestyle": (0, (1, 1.2))},
}


def make_data(rows: int, candidates: int) -> tuple[np.ndarray, np.ndarray, CandidateSets]:
    random = np.random.default_rng(SEED)
    X = random.normal(size=(rows, COLUMNS))
    y = 2 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + 0.1 * random.normal(size=rows)
    return X, y, make_candidates(y, candidates - 1, set_size="fixed", random_state=SEED)


def fit(learner: str, X: np.ndarray, S: CandidateSets, n_jobs: int = 1) -> PartialLabelRegressor:
    with warnings.catch_warnings():
        # A fixed number of rounds need not be enough.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return PartialLabelRegressor(LEARNERS[learner](), random_state=SEED, n_jobs=n_jobs).fit(X, S)


def check(learner: str) -> float:
    """Stop unless a fit predicts well and does not depend on the number of workers; return its error."""
    X, y, S = make_data(ROWS[0], USUAL_CANDIDATES)
    alone, together = (fit(learner, X, S, n_jobs).predict(X) for n_jobs in (1, 2))
    if not np.array_equal(alone, together):
        raise SystemExit(f"{learner}: predictions differ between one worker and two; no timing without agreement.")
    error = float(np.sqrt(np.mean((alone - y) ** 2)) / y.std())
    if not error < 0.5:
        raise SystemExit(f"{learner}: the error is {error:.2f} standard deviations of the labels; nothing was learned.")
    return error


def measure(learner: str, rows: int, candidates: int) -> float:
    X, _, S = make_data(rows, candidates)
    turns = 3 if S.values.size < _QUICK else 1
    return min(seconds(lambda: fit(learner, X, S), time.process_time) for _ in range(turns))


def slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def draw(found: dict[str, dict[str, Any]]) -> Figure:
    """Draw both growths, with a line of slope 1 to compare with."""
    titles = {"rows": "Rows (5 candidates each)", "candidates": "Candidates a row (50,000 rows)"}
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 3.6), layout="constrained")
        for axes, kind in zip(figure.subplots(1, 2), titles, strict=True):
            draw_panel(axes, found[kind])
            axes.set_title(titles[kind], loc="left")
            axes.set_xlabel("rows n" if kind == "rows" else "candidates K")
            axes.set_ylabel("seconds a fit, one thread")
    return figure


def draw_panel(axes: Axes, growth: dict[str, Any]) -> None:
    sizes = growth["sizes"]
    for learner, one in growth["learners"].items():
        axes.plot(sizes, one["seconds"], markersize=4, label=f"{learner}, slope {one['slope']:.2f}", **LOOKS[learner])
    lowest = min(one["seconds"][0] for one in growth["learners"].values()) / 2
    line = [lowest, lowest * sizes[-1] / sizes[0]]
    axes.plot([sizes[0], sizes[-1]], line, color="#9a9a9a", linewidth=0.8, label="slope 1")
    axes.set_xscale("log")
    axes.set_yscale("log")
    if sizes[-1] < 1000:
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
    axes.legend(fontsize=7, handlelength=3.5, loc="upper left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--most-rows", type=int, default=ROWS[-1], help="leave larger sizes out")
    parser.add_argument("--learners", default=",".join(LEARNERS), help="comma-separated")
    parser.add_argument("--out", type=Path, help="folder to write scaling.json and the picture into")
    arguments = parser.parse_args()
    require_matplotlib()
    names = arguments.learners.split(",")
    growths = {
        "rows": [(rows, USUAL_CANDIDATES) for rows in ROWS if rows <= arguments.most_rows],
        "candidates": [(USUAL_ROWS, candidates) for candidates in CANDIDATES],
    }
    errors, found = {}, {}
    with threadpool_limits(1):
        for learner in names:
            errors[learner] = check(learner)
            print(f"{learner}: error {errors[learner]:.3f} standard deviations, the same with one worker and two")
        for kind, problems in growths.items():
            sizes = [rows if kind == "rows" else candidates for rows, candidates in problems]
            learners = {}
            for learner in names:
                times = [measure(learner, rows, candidates) for rows, candidates in problems]
                learners[learner] = {"seconds": times, "slope": slope(sizes, times)}
                shown = ", ".join(f"{size:,}: {time:.2f} s" for size, time in zip(sizes, times, strict=True))
                print(f"{kind}, {learner}: slope {learners[learner]['slope']:.2f} ({shown})", flush=True)
            found[kind] = {"sizes": sizes, "learners": learners}
    if arguments.out is not None:
        figure = draw(found)
        record = {
            "seed": SEED,
            "columns": COLUMNS,
            "wanted": WANTED,
            "error_in_standard_deviations": errors,
            "growth": found,
        }
        pictures = {"scaling.png": to_png(figure), "scaling.svg": to_svg(figure)}
        write_record(arguments.out, "scaling", record, packages=("lightgbm",), files=pictures)
    steep = [
        f"{learner} with {kind}"
        for kind, growth in found.items()
        for learner, one in growth["learners"].items()
        if one["slope"] > WANTED[kind]
    ]
    if steep:
        raise SystemExit(f"Grows faster than it may: {', '.join(steep)}.")


if __name__ == "__main__":
    main()
