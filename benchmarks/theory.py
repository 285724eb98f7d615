"""Check the paper's Theorems 1 to 4 and draw the picture.

    python benchmarks/theory.py --out results/theory

Writes theory.json (every number, the seed, the command), theory.svg and theory.png; prints what was predicted and
whether it came out. About three minutes on one core; --small takes ten seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path

from plr.paper.figures import require_matplotlib, to_png, to_svg
from plr.paper.theory import FULL, SMALL, check_theory, draw_theory, run_theory
from record import write_record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="fewer rows and trials")
    arguments = parser.parse_args()
    require_matplotlib()
    settings = dataclasses.replace(SMALL if arguments.small else FULL, seed=arguments.seed)
    began = time.perf_counter()
    curves = run_theory(settings, lambda done: print(f"{time.perf_counter() - began:5.0f} s  {done}", file=sys.stderr))
    checks = check_theory(curves)
    found = {
        "settings": dataclasses.asdict(settings),
        "checks": checks,
        "curves": [dataclasses.asdict(curve) for curve in curves],
    }
    figure = draw_theory(curves)
    files = {"theory.svg": to_svg(figure), "theory.png": to_png(figure)}
    for check in checks:
        print(f"{'yes' if check['holds'] else 'NO ':3}  {check['statement']}")
    for path in write_record(arguments.out, "theory", found, files=files):
        print(path)


if __name__ == "__main__":
    main()
