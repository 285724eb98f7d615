"""Set two stores of one protocol side by side, to see whether two engines come to the same results up to noise.

    python benchmarks/compare_engines.py runs/paper runs/paper-upto --out results/paper/gpu/engines.md

Both stores have the same splits, candidates and initial weights; what differs is the engine, and with it the order of
the rows. So trials are compared in pairs.
"""

from __future__ import annotations

import argparse
import math
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from plr.atomic_file import write_files
from plr.paper import Store, choose

PLACE = ("dataset", "model", "method", "false_labels", "fraction")
# Two-sided 5 % of Student's t with the degrees of freedom of ten trials; others are close enough for a share.
CRITICAL = 2.262


def trials(path: Path, selection: str) -> tuple[dict[tuple[Any, ...], dict[int, float]], str]:
    """Return each cell's errors by trial, and what the store was made with."""
    with Store.open(path) as store:
        chosen = choose(store.rows(), selection)
        run = store.runs()[-1]
    found: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in chosen:
        if row["test_mse"] is not None:
            found.setdefault(tuple(row[name] for name in PLACE), {})[row["trial"]] = row["test_mse"]
    return found, f"`{run['command']}` on {run['device']}, revision {run['revision']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("one", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--selection", default="last+truth")
    parser.add_argument("--out", type=Path, help="file to write")
    arguments = parser.parse_args()
    one, made_one = trials(arguments.one, arguments.selection)
    other, made_other = trials(arguments.other, arguments.selection)
    if one.keys() != other.keys():
        raise SystemExit("The stores do not hold the same cells.")
    ratios, far = [], []
    for place, errors in one.items():
        both = sorted(errors.keys() & other[place].keys())
        logs = np.log([other[place][trial] / errors[trial] for trial in both])
        ratios.append(float(logs.mean()))
        error = float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
        if error > 0 and abs(ratios[-1]) / error > CRITICAL:
            far.append((place, math.exp(ratios[-1]), ratios[-1] / error))
    low, high = np.exp(np.quantile(ratios, [0.25, 0.75]))
    lines = [
        "# Two engines on the same cells",
        "",
        f"One: {made_one}. Other: {made_other}.",
        f"Chosen by `{arguments.selection}`; compared by `{shlex.join(['python', *sys.argv])}`.",
        "",
        f"{len(ratios)} cells; in each the errors of both engines, trial by trial on the same split. Other over one, "
        f"geometric mean of all: {math.exp(statistics.fmean(ratios)):.4f}; of single cells, the middle half: "
        f"{low:.4f} to {high:.4f}.",
        f"{len(far)} cells ({len(far) / len(ratios):.1%}) differ by a paired t-test at 5 %, where chance gives 5 %:",
        "",
        "| data | model | method | false labels | share of rows | other over one | t |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    lines += [f"| {' | '.join(map(str, place))} | {ratio:.3f} | {t:+.1f} |" for place, ratio, t in far]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out is not None:
        write_files(arguments.out.parent, {arguments.out.name: text.encode()})


if __name__ == "__main__":
    main()
