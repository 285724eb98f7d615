"""Seconds of fit, identification and first interval, against another checkout of plr.

    PYTHONPATH=CHECKOUT/src python benchmarks/uncertainty/timing.py ROWS FALSE_LABELS EFFORT

writes the seconds of one checkout, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.uncertainty.plans import Fit

__all__ = ["compare_times"]

_FEATURES = 10
_FEW_ROWS = 200
_STEPS = ("fit", "identify", "interval")


def compare_times(fit: Fit) -> dict[str, Any]:
    """Measure one round: both checkouts after each other, each in a process of its own with one thread."""
    from benchmarks.identification import ONE_THREAD

    assert fit.path is not None
    ours = Path(__file__).parents[2]
    # Each is first in every second round: what comes second may be slower, or faster.
    order = {"ours": ours, "theirs": fit.path.resolve()}
    names = list(order) if fit.trial % 2 == 0 else list(order)[::-1]
    # Without the folder of this file on the path, whose modules have common names.
    command = [sys.executable, "-P", __file__, str(fit.rows), str(fit.false_labels), fit.effort]
    found: dict[str, Any] = {}
    for name in names:
        environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
        path = [str(order[name] / "src"), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{order[name]}: {done.stderr.strip().splitlines()[-1]}")
        taken = json.loads(done.stdout)
        if Path(taken.pop("plr")) != order[name] / "src" / "plr":
            raise RuntimeError(f"{order[name]}: its plr was not the one that was imported.")
        found[name] = taken
    return found | {"ratio": _total(found["ours"]) / _total(found["theirs"])}


def _total(taken: dict[str, float]) -> float:
    return sum(taken[step] for step in _STEPS)


def _main(rows: int, false_labels: int, effort: str) -> None:
    import numpy as np

    import plr
    from plr import PartialLabelRegressor, make_candidates

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, _FEATURES))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=rows)
    S = make_candidates(y, false_labels, set_size="fixed", random_state=0)
    taken: dict[str, Any] = {"plr": str(Path(plr.__file__).parent)}
    # Once with few rows, so that everything is loaded and compiled.
    for count in (_FEW_ROWS, rows):
        model = PartialLabelRegressor(effort=effort, random_state=0)
        steps = (
            lambda model=model, count=count: model.fit(X[:count], S[:count]),
            lambda model=model: model.identify(),
            lambda model=model: model.predict_interval(X[:100]),
        )
        for name, step in zip(_STEPS, steps, strict=True):
            begun = time.perf_counter()
            step()
            taken[name] = round(time.perf_counter() - begun, 4)
    print(json.dumps(taken))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
