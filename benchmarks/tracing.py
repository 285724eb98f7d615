"""How much code a call passes through, and how large each package is.

    python -m benchmarks.tracing            # a table for reading
    python -m benchmarks.tracing --json     # the same for programs

For `fit` of the default regressor on 60 rows, `predict`, `identify()`, `identify(X, S)` and `plr fit x.csv` it counts
the distinct functions of plr that are entered and the files they are in, and how often work is done that once would be
enough for: candidate sets validated, labels scaled, features encoded, noise fitted, rules compiled. For each package of
plr it counts files, lines and statements. Compiled kernels are not entered as Python functions and do not count.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import plr

SOURCE = Path(plr.__file__).resolve().parent

REPEATED = {
    "sets validated": {"checked"},
    "labels scaled": {"rescaled"},
    "features encoded": {"Encoding.apply"},
    "noise fitted": {"fit_noise"},
    "rules made": {"Rule.__init__"},
}
"""What is counted, by the qualified names of the functions that do it."""


class Trace:
    """Counts the calls of plr's functions while it is active, in all threads that start meanwhile."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Trace:
        threading.setprofile(self._count)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _count(self, frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            name = code.co_qualname
            # Comprehensions and the bodies of classes and modules are no functions of their own.
            if not name.endswith(("comp>", "<genexpr>", "<module>")):
                self.calls[(code.co_filename, name)] += 1

    def summary(self) -> dict[str, int]:
        """Return the number of functions and files passed, and how often work was repeated."""
        found = {"functions": len(self.calls), "files": len({file for file, _ in self.calls})}
        for what, names in REPEATED.items():
            found[what] = sum(times for (_, name), times in self.calls.items() if name in names)
        return found


def traced(work: Callable[[], object]) -> dict[str, int]:
    """Return what a call passes through."""
    with warnings.catch_warnings(), Trace() as trace:
        warnings.simplefilter("ignore")
        work()
    return trace.summary()


def trace_calls(rows: int = 60) -> dict[str, dict[str, int]]:
    """Trace the regressor's methods and the command on made-up data."""
    from plr import PartialLabelRegressor, make_candidates
    from plr.cli import app

    random = np.random.default_rng(0)
    X = random.uniform(size=(rows, 2))
    S = make_candidates(X @ [3.0, 1.0], 3, random_state=0)
    # Modules are imported and kernels compiled before anything is counted.
    PartialLabelRegressor(random_state=0).fit(X, S).identify()
    model = PartialLabelRegressor(random_state=0)
    given = S.to_lists()
    found = {
        "fit": traced(lambda: model.fit(X, given)),
        "predict": traced(lambda: model.predict(X)),
        "identify()": traced(model.identify),
        "identify(X, S)": traced(lambda: model.identify(X, given)),
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        lines = ["a,b,y", *(f"{a},{b},{'|'.join(map(str, each))}" for (a, b), each in zip(X, given, strict=True))]
        Path("x.csv").write_text("\n".join(lines) + "\n")
        command = ["fit", "x.csv", "--target", "y", "--out", "x.plr"]

        def run() -> None:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                app(command, prog_name="plr", standalone_mode=False)

        run()
        Path("x.plr").unlink()
        found["plr fit x.csv"] = traced(run)
    return found


def measure_packages() -> dict[str, dict[str, int]]:
    """Count files, lines and statements of each package, and of the modules that are in none."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        inside = path.relative_to(SOURCE)
        package = inside.parts[0] if len(inside.parts) > 1 else "(modules)"
        text = path.read_text()
        statements = sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
        for name in (package, "all"):
            counts = found.setdefault(name, Counter())
            counts.update(files=1, lines=len(text.splitlines()), statements=statements)
    return {name: dict(counts) for name, counts in sorted(found.items(), key=lambda item: item[0] == "all")}


def as_table(rows: dict[str, dict[str, int]]) -> str:
    """Return rows of counts as a table."""
    columns = list(next(iter(rows.values())))
    width = max(map(len, rows))
    lines = [" " * width + "".join(f"  {column}" for column in columns)]
    for name, counts in rows.items():
        lines.append(f"{name:{width}}" + "".join(f"  {counts[column]:>{len(column)},}" for column in columns))
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracing", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    found = {"calls": trace_calls(), "packages": measure_packages()}
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(as_table(found["calls"]), "", as_table(found["packages"]), sep="\n")


if __name__ == "__main__":
    main()
