"""The command: ``python -m benchmarks.real --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import benchmarks.real as package
from benchmarks.harness import harness_parser, keep_to_one_thread, names, read_lines, run_jobs, write_sheets

if TYPE_CHECKING:
    from benchmarks.real.measuring import Job

_STORE = Path("runs/real")
_RESULTS = Path("results/real")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    keep_to_one_thread()
    failed = []
    if options.verb == "run":
        from benchmarks.real.measuring import measure

        failed = run_jobs(_jobs(options), measure, options.store, workers=options.jobs)
        for line in failed:
            sys.stderr.write(f"{line['method']} on {line['case']}, fold {line['fold']}: {line['error']}\n")
    _tables(options)
    return 1 if failed else 0


def _jobs(options: argparse.Namespace) -> list[Job]:
    from benchmarks.real.cases import MADE_UP, PAPER, tables_in
    from benchmarks.real.measuring import planned
    from benchmarks.real.methods import METHODS

    cases = options.cases or (*tables_in(options.data), *MADE_UP, *PAPER)
    for name in options.methods or ():
        if name not in METHODS:
            raise SystemExit(f"There is no method {name!r}; there are {', '.join(METHODS)}.")
    return list(planned(cases, options.methods or METHODS, options.data))


def _tables(options: argparse.Namespace) -> None:
    from benchmarks.real.tables import Lines, made_up_sheet, paper_sheet, real_sheet

    lines = Lines.of(read_lines(options.store), _jobs(options))
    made = _made_by(lines.missing, lines.revisions)
    sheets = {"real": real_sheet, "made-up": made_up_sheet, "paper": paper_sheet}
    found = {name: sheet(lines) for name, sheet in sheets.items()}
    write_sheets(options.out, {name: (sheet, made) for name, sheet in found.items() if sheet.rows}, {})


def _made_by(missing: int, revisions: set[str]) -> str:
    from benchmarks.real.cases import FOLDS, SEED
    from benchmarks.real.measuring import DRAWS

    lacking = f" {missing} fits are not measured yet." if missing else ""
    return (
        f"Measured by `python -m benchmarks.real run --data FOLDER`.\nSeed {SEED}, {FOLDS} folds, {DRAWS} draws of "
        f"checked rows, plr at revision {', '.join(sorted(revisions)) or 'none'}.{lacking}"
    )


def _parser() -> argparse.ArgumentParser:
    parser, _, verbs = harness_parser("benchmarks.real", package.__doc__, _STORE, _RESULTS)
    for verb in verbs:
        verb.add_argument(
            "--data", type=Path, help="folder of NAME.rows.csv and NAME.pairs.csv; made-up tables alone without it"
        )
        verb.add_argument(
            "--cases", type=names, help="names of cases, such as abt-buy,abt-buy+own; all where none is given"
        )
        verb.add_argument("--methods", type=names, help="names of methods; all where none is given")
    verbs[0].add_argument("--out", type=Path, default=_RESULTS, help="folder to write tables into")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
