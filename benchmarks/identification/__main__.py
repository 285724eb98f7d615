"""The command: ``python -m benchmarks.identification --help``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import benchmarks.identification as package
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
    from benchmarks.identification.cases import Plan
    from benchmarks.identification.results import Results

_STORE = Path("runs/identification")
_RESULTS = Path("results/identification")
# Tables that have the picture of a protocol beside them.
_WITH_PICTURES = ("oracle",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    if options.verb == "run":
        return _run(options)
    if options.verb == "tables":
        return _tables(options)
    from benchmarks.identification.data import EXPORTS, FINAL, HELD_BACK, MAIN, export

    for path in export(options.datasets or (*MAIN, *HELD_BACK, *FINAL), options.out or EXPORTS):
        print(path)
    return 0


def _run(options: argparse.Namespace) -> int:
    keep_to_one_thread()
    from benchmarks.identification.measuring import Job, measure, on_same_rows

    jobs = [
        Job.of(case, method, options.quick)
        for plan in _plans(options).values()
        for case in plan.cases()
        for method in plan.methods
    ]
    jobs.sort(key=lambda job: job.case.trial)
    failed = run_jobs(jobs, measure, options.store, workers=options.jobs, shard=options.shard, group=on_same_rows)
    for line in failed:
        sys.stderr.write(f"{line['method']} on {line['dataset']}, trial {line['trial']}: {line['error']}\n")
    return 1 if failed else 0


def _tables(options: argparse.Namespace) -> int:
    from benchmarks.identification.picture import draw
    from benchmarks.identification.results import Results
    from benchmarks.identification.tables import TABLES

    from plr.paper.figures import to_png

    lines = read_lines(options.store)
    if not lines:
        raise SystemExit(f"{options.store} has no lines; run the command `run` first.")
    sheets, pictures = {}, {}
    for name, plan in _plans(options).items():
        results = Results(lines, revision=options.revision, quick=options.quick)
        sheets[name] = (TABLES[name](results, plan), _made_by(name, plan, options, results))
        for set_size in plan.set_sizes if name in _WITH_PICTURES else ():
            pictures[f"{name}-{set_size}.png"] = to_png(draw(results, plan, set_size))
    write_sheets(options.out, sheets, pictures)
    return 0


def _made_by(name: str, plan: Plan, options: argparse.Namespace, results: Results) -> str:
    from benchmarks.identification.cases import SEED
    from benchmarks.identification.methods import METHODS

    # A table made with others is the same as one made by itself: it says the command for itself alone.
    both: list[str] = []
    for option in ("datasets", "mechanisms", "sizes", "set_sizes", "trials", "rows"):
        value = getattr(options, option)
        if value is not None:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            both += [f"--{option.replace('set_sizes', 'set-size')}", text]
    both += ["--quick"] if options.quick else []
    chosen = ["--revision", options.revision] if options.revision else []
    start = "python -m benchmarks.identification"
    run, made = (shlex.join(words) for words in (["run", name, *both], ["tables", name, *both, *chosen]))
    revisions = ", ".join(sorted(results.revisions)) or "none"
    told = ", ".join(f"`{method}`" for method in plan.methods if METHODS[method].told)
    return (
        f"Measured by `{start} {run}` and tabulated by `{start} {made}`.\n"
        f"Seed {SEED}, trials 0 to {plan.trials - 1}, plr at revision {revisions}.\n"
        f"No method sees a true label{f' but {told}' if told else ''}."
    )


def _plans(options: argparse.Namespace) -> dict[str, Plan]:
    """Return the plans asked for, with what the options change in them."""
    from benchmarks.identification.cases import PLANS
    from benchmarks.identification.methods import get_method

    for name in options.plans:
        if name not in PLANS:
            raise SystemExit(f"There is no table {name!r}; there are {', '.join(PLANS)}.")
    changed: dict[str, Any] = {}
    for name in ("datasets", "mechanisms", "methods", "sizes", "set_sizes", "trials", "rows"):
        value = getattr(options, name, None)
        if value is not None:
            changed[name] = value
    for method in changed.get("methods", ()):
        get_method(method)
    plans = {name: PLANS[name] for name in options.plans or PLANS}
    if len(plans) > 1 and not changed.keys() <= {"methods", "trials"}:
        raise SystemExit("Name one table to change its cases.")
    return {name: replace(plan, **changed) for name, plan in plans.items()}


def _parser() -> argparse.ArgumentParser:
    parser, verbs, (run, tables) = harness_parser("benchmarks.identification", package.__doc__, _STORE, _RESULTS)
    for verb in (run, tables):
        verb.add_argument("plans", nargs="*", metavar="TABLE", help="names of tables; all where none is given")
        verb.add_argument("--datasets", type=names)
        verb.add_argument("--mechanisms", type=names)
        verb.add_argument("--sizes", type=numbers, help="numbers of false labels, such as 4,16")
        verb.add_argument("--set-size", dest="set_sizes", type=names, help="upto, fixed or upto,fixed")
        verb.add_argument("--trials", type=int, help="how many trials")
        verb.add_argument("--rows", type=int, help="at most so many training rows")
        verb.add_argument("--quick", action="store_true", help="few epochs: to see that everything runs")
    run.add_argument("--methods", type=names)
    run.add_argument("--shard", type=shard_of, default=(1, 1), metavar="I/N", help="measure one part of N, from 1 to N")
    tables.add_argument("--revision", default="", help="take only lines measured at a revision that begins so")
    export = verbs.add_parser("export", help="write data sets as Parquet, for a machine without the data packages")
    export.add_argument("--datasets", type=names)
    export.add_argument("--out", type=Path)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
