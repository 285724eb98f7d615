"""The same fit of a folder by one process and by Ray workers, end to end, with what starting up takes apart."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from folder_data import TARGET, TRUTH, make_folder, make_test
from plr.cluster.ray_engine import RayEngine, local_cpus
from plr.cluster.session import session
from plr.columns.features import learn_features
from plr.learners import MLP
from plr.regressor import PartialLabelRegressor
from plr.sources.folder import Folder
from plr.streaming.engine import LocalEngine
from plr.streaming.folder_fit import fit_folder
from plr.streaming.folder_rows import Reading
from watched import plr_command

__all__ = ["compare"]

SEED, COLUMNS, TEST_ROWS, PIECE_ROWS, LOOKED_AT = 0, 30, 20_000, 250_000, 100_000
# Of the test loss, relative.
MOST_DIFFERENT = 1e-3

Found = dict[str, Any]


class Stages:
    """When each stage of a fit began and ended, and how far training was when."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._told: list[tuple[float, int]] = []

    @contextmanager
    def working(self, name: str) -> Iterator[Callable[[int, int, float], object]]:
        """Time a stage."""
        began = time.perf_counter()

        def tell(done: int, _: int, __: float) -> None:
            if name == "Training" and (not self._told or done != self._told[-1][1]):
                self._told.append((time.perf_counter() - began, done))

        yield tell
        self.seconds[name] = time.perf_counter() - began

    def pace(self) -> tuple[float, float]:
        """Return the time of a step, and how long it took until the first; a line through what was told."""
        times, steps = np.array(self._told).T
        if len(times) < 2:
            return float("nan"), float("nan")
        step, start = np.polyfit(steps, times, 1)
        return float(step), max(float(start), 0.0)


def compare(rows: int, workers: int, turns: int = 2) -> Found:
    """Fit in both ways, in turns, and return how long that took and how far the networks are from each other."""
    with tempfile.TemporaryDirectory(prefix="plr-cluster-") as name:
        work = Path(name)
        reading, test, truth = _data(work, rows)
        taken: dict[str, list[Found]] = {"one process": [], "ray": []}
        models = {}
        for _ in range(turns):
            for way, found in taken.items():
                model, told = _fit(way, reading, work, workers)
                models[way] = model
                found.append(told)
                print(
                    f"{way}: {told['seconds']:.1f} s, {told['until_first_step_s']:.1f} s of them until the first step"
                )
    errors = {way: float(np.mean((model.predict(test) - truth) ** 2)) for way, model in models.items()}
    one, several = (models[way].model_.network.parameters for way in taken)
    difference = float(np.abs(one - several).max())
    relative = abs(errors["ray"] / errors["one process"] - 1.0)
    print(f"largest difference of a parameter: {difference:.2g}; of the test error, relative: {relative:.2g}")
    missed = [f"the test errors differ by {relative:.2g}"] if not relative <= MOST_DIFFERENT else []
    return {
        "rows": rows,
        "workers": workers,
        "turns": turns,
        "wanted": {"relative_difference_of_error": MOST_DIFFERENT},
        "fits": {way: _medians(found) for way, found in taken.items()},
        "test_error": errors,
        "relative_difference_of_error": relative,
        "largest_difference_of_parameters": difference,
        "largest_parameter": float(np.abs(one).max()),
        "missed": missed,
    }


def _fit(way: str, reading: Reading, work: Path, workers: int) -> tuple[PartialLabelRegressor, Found]:
    stages, model = Stages(), PartialLabelRegressor(MLP(), random_state=SEED)
    began = time.perf_counter()
    cluster = 0.0
    if way == "ray":
        with session(cpus=local_cpus(workers)):
            cluster = time.perf_counter() - began
            fit_folder(model, reading, work / "ray", engine=RayEngine(workers), working=stages.working)
    else:
        fit_folder(model, reading, work / "here", engine=LocalEngine(), working=stages.working)
    step, start = stages.pace()
    told = {
        "seconds": time.perf_counter() - began,
        "cluster_s": cluster,
        "until_first_step_s": cluster + start,
        "step_s": step,
        "survey_s": stages.seconds["Looking through all rows"],
        "copy_s": stages.seconds["Writing a shuffled copy"],
        "training_s": stages.seconds["Training"],
        "epochs": float(len(model.model_.report.loss)),
    }
    return model, told


def _medians(found: list[Found]) -> Found:
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def _data(work: Path, rows: int) -> tuple[Reading, Any, Any]:
    """Make a folder, and return how it is read, test features and their labels without noise."""
    make_folder(work / "labelled", rows, COLUMNS, PIECE_ROWS, SEED)
    make_test(work / "test.parquet", TEST_ROWS, COLUMNS, SEED)
    typed = ["generate", "labelled", "--target", TARGET, "--truth-column", TRUTH, "--seed", str(SEED)]
    subprocess.run([plr_command(), *typed, "-o", "candidates"], cwd=work, check=True, capture_output=True)
    folder = Folder.open(work / "candidates")
    some = folder.sample(LOOKED_AT, SEED)[0]
    features = learn_features(some, [TARGET, TRUTH], folder.path).settled(some)
    table = pyarrow.parquet.read_table(work / "test.parquet")
    return Reading(folder, features, (TARGET,)), table.select(list(features.names)), np.asarray(table[TRUTH].to_numpy())
