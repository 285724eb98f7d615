"""The command: ``python -m benchmarks.uncertainty --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks.uncertainty as package
from benchmarks.harness import harness_parser, keep_to_one_thread, names, numbers, read_lines, run_jobs, write_sheets

_STORE = Path("runs/uncertainty")
_RESULTS = Path("results/uncertainty")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    return _run(options) if options.verb == "run" else _tables(options)


def _run(options: argparse.Namespace) -> int:
    keep_to_one_thread()
    from benchmarks.uncertainty.measuring import measure, planned

    fits = planned(_datasets(options), options.sizes, options.trials, options.effort)
    failed = run_jobs(fits, measure, options.store, workers=options.jobs)
    for line in failed:
        size = line["false_labels"]
        sys.stderr.write(f"{line['dataset']}, {size} false labels, trial {line['trial']}: {line['error']}\n")
    return 1 if failed else 0


def _tables(options: argparse.Namespace) -> int:
    from benchmarks.uncertainty.pictures import draw_intervals, draw_reliability
    from benchmarks.uncertainty.tables import Lines, calibration_sheet, interval_sheet

    from plr.paper.figures import to_png

    lines = Lines.of(read_lines(options.store), _datasets(options), options.sizes, options.trials, options.effort)
    if not lines.by_key:
        raise SystemExit(f"{options.store} has no lines of these fits; run the command `run` first.")
    made = _made_by(options, lines.missing, {line["revision"] for line in lines.by_key.values()})
    write_sheets(
        options.out,
        {"intervals": (interval_sheet(lines), made), "calibration": (calibration_sheet(lines), made)},
        {
            "intervals.png": to_png(draw_intervals(lines)),
            "reliability.png": to_png(draw_reliability(lines)),
        },
    )
    return 0


def _made_by(options: argparse.Namespace, missing: int, revisions: set[str]) -> str:
    from benchmarks.identification.cases import SEED

    words = f" --trials {options.trials} --sizes {','.join(map(str, options.sizes))} --effort {options.effort}"
    if options.datasets:
        words += f" --datasets {','.join(options.datasets)}"
    start = "python -m benchmarks.uncertainty"
    lacking = f" {missing} fits are not measured yet." if missing else ""
    return (
        f"Measured by `{start} run{words}` and tabulated by `{start} tables{words}`.\n"
        f"Seed {SEED}, trials 0 to {options.trials - 1}, plr at revision {', '.join(sorted(revisions))}.{lacking}\n"
        "True labels are known to the fits that widths are compared with, and to nothing else."
    )


def _datasets(options: argparse.Namespace) -> tuple[str, ...]:
    from benchmarks.identification.data import MAIN

    return options.datasets or MAIN


def _parser() -> argparse.ArgumentParser:
    parser, _, verbs = harness_parser("benchmarks.uncertainty", package.__doc__, _STORE, _RESULTS)
    for verb in verbs:
        verb.add_argument("--datasets", type=names, help="names such as auto-mpg,housing; all seven where not given")
        verb.add_argument("--sizes", type=numbers, default=(4, 16), help="numbers of false labels, such as 4,16")
        verb.add_argument("--trials", type=int, default=10, help="how many trials")
        verb.add_argument("--effort", choices=("low", "normal", "high"), default="normal", help="of the model")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
