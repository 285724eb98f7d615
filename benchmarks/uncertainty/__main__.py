"""The command: ``python -m benchmarks.uncertainty --help``."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import benchmarks.uncertainty as package
from benchmarks.harness import (
    harness_parser,
    keep_to_one_thread,
    names,
    numbers,
    read_lines,
    run_jobs,
    shard_of,
    write_sheets,
)

if TYPE_CHECKING:
    from benchmarks.uncertainty.plans import Plan
    from benchmarks.uncertainty.tables import Lines

_STORE = Path("runs/uncertainty")
_RESULTS = Path("results/uncertainty")
_WITH_COVERAGE = ("seven", "tables", "final", "laws")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    return _run(options) if options.verb == "run" else _tables(options)


def _run(options: argparse.Namespace) -> int:
    keep_to_one_thread()
    from benchmarks.uncertainty.measuring import measure
    from benchmarks.uncertainty.plans import TIME, planned

    found = _plans(options)
    # Times are measured when nothing else runs.
    timed = found.pop(TIME, None)
    failed, begun = [], time.monotonic()
    for plans, workers in ((found.values(), options.jobs), ([timed] if timed else [], 1)):
        if fits := planned(plans):
            left = options.limit_seconds and max(0.0, options.limit_seconds - (time.monotonic() - begun))
            failed += run_jobs(fits, measure, options.store, workers=workers, shard=options.shard, limit=left)
    for line in failed:
        hidden = f"{line['false_labels']} false labels" if line["false_labels"] else ""
        told = ", ".join(filter(None, (line["part"], line["name"], hidden, f"trial {line['trial']}")))
        sys.stderr.write(f"{told}: {line['error']}\n")
    return 1 if failed else 0


def _tables(options: argparse.Namespace) -> int:
    from benchmarks.uncertainty.pictures import draw_coverage, draw_reliability
    from benchmarks.uncertainty.tables import SHEETS, Lines

    from plr.paper.figures import to_png

    measured = read_lines(options.store)
    sheets, pictures = {}, {}
    for part, plan in _plans(options).items():
        lines = Lines.of(measured, plan)
        if not lines.cells:
            continue
        sheets[part] = (SHEETS[part](lines), _made_by(part, options, lines))
        if part in _WITH_COVERAGE:
            pictures[f"{part}.png"] = to_png(draw_coverage(lines))
        if part == "seven":
            pictures["reliability.png"] = to_png(draw_reliability(lines))
        if lines.missing:
            sys.stderr.write(f"{part}: {lines.missing} of {lines.planned} fits are not measured yet\n")
    if not sheets:
        raise SystemExit(f"{options.store} has no lines of these fits; run the command `run` first.")
    write_sheets(options.out, sheets, pictures)
    return 0


def _made_by(part: str, options: argparse.Namespace, lines: Lines) -> str:
    from benchmarks.uncertainty.laws import SEED

    words = ["--part", part]
    for option in ("names", "rows", "sizes", "trials", "first_trial", "effort"):
        value = getattr(options, option)
        if value != _DEFAULTS.get(option):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words += [f"--{option.replace('_', '-')}", text]
    words += ["--data", "FOLDER"] if part == "real" else ["--against", "CHECKOUT"] if part == "time" else []
    start = "python -m benchmarks.uncertainty"
    lacking = f" {lines.missing} of {lines.planned} fits are not measured yet." if lines.missing else ""
    return (
        f"Measured by `{start} run {shlex.join(words)}` and tabulated by `{start} tables {shlex.join(words)}`.\n"
        f"Seed {SEED}, plr at revision {', '.join(sorted(lines.revisions))}.{lacking}"
    )


def _plans(options: argparse.Namespace) -> dict[str, Plan]:
    from benchmarks.uncertainty.plans import plans

    return plans(
        options.part,
        names=options.names,
        rows=options.rows,
        sizes=options.sizes,
        trials=options.trials,
        first_trial=options.first_trial,
        effort=options.effort,
        data=options.data,
        against=options.against,
    )


_DEFAULTS = {"sizes": (4, 16), "first_trial": 0, "effort": "normal"}


def _parser() -> argparse.ArgumentParser:
    parser, _, (run, tables) = harness_parser("benchmarks.uncertainty", package.__doc__, _STORE, _RESULTS)
    for verb in (run, tables):
        verb.add_argument("--part", type=names, help="seven, tables, laws, guaranteed, real, time, final; or several")
        verb.add_argument("--names", type=names, help="these data sets or laws alone, such as auto-mpg,housing")
        verb.add_argument("--rows", type=numbers, help="these numbers of rows alone, where there are several")
        verb.add_argument("--sizes", type=numbers, help="numbers of false labels, such as 4,16")
        verb.add_argument("--trials", type=int, help="how many trials at most; 10 below 2,000 rows and 3 above")
        verb.add_argument("--first-trial", type=int, help="the number of the first; from 80 on, splits to develop by")
        verb.add_argument("--effort", choices=("low", "normal", "high"), help="of the model")
        verb.add_argument("--data", type=Path, help="folder of NAME.rows.csv and NAME.pairs.csv, for the part real")
        verb.add_argument("--against", type=Path, help="another checkout of plr, for the part time")
        verb.set_defaults(**_DEFAULTS)
    run.add_argument("--shard", type=shard_of, default=(1, 1), metavar="I/N", help="measure one part of N, from 1 to N")
    run.add_argument("--limit-seconds", type=float, help="start no fit after so many seconds")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
