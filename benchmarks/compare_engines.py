"""Set two stores of one protocol side by side, to see whether two engines come to the same results up to noise.

    python benchmarks/compare_engines.py runs/paper runs/paper-upto --out results/paper/gpu/engines.md

Cells are compared by their means over trials. Both stores have the same splits, candidates and initial weights; what
differs is the engine, and with it the order of the rows.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import Any

from plr.benchmark import Store, tabulate
from plr.report.writing import write_files

PLACE = ("dataset", "model", "method", "false_labels", "fraction")


def cells(path: Path, selection: str) -> tuple[dict[tuple[Any, ...], dict[str, Any]], str]:
    """Return a store's table by place, and what it was made with."""
    with Store.open(path) as store:
        rows = tabulate(store.rows(), selection)
        run = store.runs()[-1]
    made = f"`{run['command']}` on {run['device']}, revision {run['revision']}"
    return {tuple(row[name] for name in PLACE): row for row in rows}, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("one", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--selection", default="last+truth")
    parser.add_argument("--out", type=Path, help="file to write")
    arguments = parser.parse_args()
    one, made_one = cells(arguments.one, arguments.selection)
    other, made_other = cells(arguments.other, arguments.selection)
    if one.keys() != other.keys():
        raise SystemExit("The stores do not hold the same cells.")
    ratios, far = [], []
    for place, row in one.items():
        beside = other[place]
        ratios.append(math.log(beside["test_mse"] / row["test_mse"]))
        error = math.hypot(row["test_mse_std"], beside["test_mse_std"]) / math.sqrt(row["trials"])
        distance = (beside["test_mse"] - row["test_mse"]) / error
        if abs(distance) > 2:
            far.append((place, row, beside, distance))
    lines = [
        "# Two engines, the same results",
        "",
        f"One: {made_one}. Other: {made_other}.",
        f"Chosen by `{arguments.selection}`; compared by `python benchmarks/compare_engines.py`.",
        "",
        f"{len(ratios)} cells. Other over one, geometric mean: {math.exp(statistics.fmean(ratios)):.4f}; middle half "
        f"within {math.exp(_quantile(ratios, 0.25)):.4f} to {math.exp(_quantile(ratios, 0.75)):.4f}.",
        f"{len(far)} cells differ by more than two standard errors, the trials of both taken for independent:",
        "",
        "| data | model | method | false labels | share of rows | one | other | standard errors |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {' | '.join(map(str, place))} | {row['test_mse']:.4g} | {beside['test_mse']:.4g} | {distance:+.1f} |"
        for place, row, beside, distance in far
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out is not None:
        write_files(arguments.out.parent, {arguments.out.name: text.encode()})


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


if __name__ == "__main__":
    main()
