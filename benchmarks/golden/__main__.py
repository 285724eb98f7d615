"""The command: ``python -m benchmarks.golden --help``."""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from operator import methodcaller
from pathlib import Path
from typing import Any

import benchmarks.golden as package
import benchmarks.identification as identification

PARTS = ("library", "command", "committee")
RECORD = Path("benchmarks/golden/record")
# The committee's error may move by this much over all cells: its draws turn on rounding.
_MOST_MOVED = 0.01
_SHOWN = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    # Before anything numerical is loaded, and inherited by the processes that answer.
    for name in identification.ONE_THREAD:
        os.environ[name] = "1"
    return _record(options) if options.verb == "record" else _compare(options)


def _record(options: argparse.Namespace) -> int:
    from benchmarks.record import circumstances

    from plr.atomic_file import write_files

    for part in options.only:
        found = circumstances() | {"cases": _answers(part, options.jobs, options.match)}
        write_files(options.out, {f"{part}.json": as_lines(found)})
        print(options.out / f"{part}.json")
    return 0


def as_lines(found: dict[str, Any]) -> bytes:
    """Return a record as JSON with a line for each case, so that a change shows which cases it is about."""
    head = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items() if key != "cases"]
    cases = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in found["cases"].items()]
    return ("{\n" + ",\n".join([*head, '"cases": {\n' + ",\n".join(cases) + "\n}"]) + "\n}\n").encode()


def _compare(options: argparse.Namespace) -> int:
    from benchmarks.golden.comparing import compare, is_wording

    failed = False
    for part in options.only:
        before = json.loads((options.record / f"{part}.json").read_text())["cases"]
        before = {name: answer for name, answer in before.items() if options.match in name}
        after = json.loads(json.dumps(_answers(part, options.jobs, options.match)))
        if part == "committee":
            failed |= _tell_committee(before, after)
            continue
        drawn = {case.name for case in _cases(part) if case.drawn}
        found = [
            (name, one)
            for name, answer in before.items()
            for one in compare({name: answer}, {name: after[name]} if name in after else {}, options.tolerance)
        ]
        wording = [one for _, one in found if is_wording(one)]
        turned = [one for name, one in found if not is_wording(one) and name in drawn]
        differs = [one for name, one in found if not is_wording(one) and name not in drawn]
        _tell(f"{part}: {len(before)} cases, {len(differs)} differences", differs)
        _tell(f"{part}: {len(turned)} differences where labels are drawn at random (see committee)", turned)
        _tell(f"{part}: {len(wording)} places read differently", wording)
        failed |= bool(differs)
    return 1 if failed else 0


def _tell_committee(before: dict[str, Any], after: dict[str, Any]) -> bool:
    from benchmarks.golden.committee import ratios

    moved = ratios(before, after)
    for cell, ratio in moved.items():
        print(f"  {cell}: {ratio:.4f}")
    mean = math.exp(sum(map(math.log, moved.values())) / len(moved)) if moved else math.nan
    print(f"committee: {len(moved)} cells, test error {mean:.4f} times the record's (at most {1 + _MOST_MOVED:.2f})")
    return not mean <= 1 + _MOST_MOVED


def _tell(title: str, found: list[Any]) -> None:
    print(title)
    for where, old, new in found[:_SHOWN]:
        print(f"  {where}\n    was {old}\n    is  {new}")
    if len(found) > _SHOWN:
        print(f"  and {len(found) - _SHOWN} more")


def _answers(part: str, jobs: int, match: str) -> dict[str, Any]:
    cases = [case for case in _cases(part) if match in case.name]
    context = multiprocessing.get_context("spawn")
    answers = {}
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for number, (case, answer) in enumerate(zip(cases, pool.map(methodcaller("answer"), cases), strict=True), 1):
            answers[case.name] = answer
            sys.stderr.write(f"\r{part}: {number} of {len(cases)}")
    sys.stderr.write("\n")
    return answers


def _cases(part: str) -> list[Any]:
    return list(import_module(f"benchmarks.golden.{part}").cases())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.golden",
        description=package.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    record = verbs.add_parser("record", help="write what plr answers")
    record.add_argument("--out", type=Path, default=RECORD, help="folder to write into")
    compare = verbs.add_parser("compare", help="compare what plr answers with what was written")
    compare.add_argument("--record", type=Path, default=RECORD, help="folder of the record")
    compare.add_argument(
        "--tolerance", type=float, default=1e-6, help="of numbers, relative to the largest beside them"
    )
    for verb in (record, compare):
        verb.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts; all where not given")
        verb.add_argument("--match", default="", help="only cases whose names contain this")
        verb.add_argument("--jobs", type=int, default=2, help="processes at the same time, one thread each")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
