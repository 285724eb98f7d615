"""Estimators that skops keeps, with wrong numbers in them: refused or an error of Python's, never a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import ElasticNet, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, NuSVR
from sklearn.tree import DecisionTreeRegressor

from plr import PartialLabelRegressor, save_model
from plr.learners import Refit
from support.model_files import problem

pytest.importorskip("skops")

ESTIMATORS = {
    "ball_tree": KNeighborsRegressor(algorithm="ball_tree", leaf_size=5),
    "brute": KNeighborsRegressor(algorithm="brute"),
    "elastic_net": ElasticNet(),
    "extra_trees": ExtraTreesRegressor(3, max_depth=3, random_state=0),
    "forest": RandomForestRegressor(3, max_depth=3, random_state=0, n_jobs=1),
    "gaussian_process": GaussianProcessRegressor(optimizer=None),
    "gradient_boosting": GradientBoostingRegressor(n_estimators=3, random_state=0),
    "histogram_boosting": HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=4),
    "kd_tree": KNeighborsRegressor(algorithm="kd_tree", leaf_size=5),
    "network": MLPRegressor(hidden_layer_sizes=(4,), max_iter=3, random_state=0),
    "nu_svr": NuSVR(),
    "pipeline": make_pipeline(StandardScaler(), SVR(kernel="poly")),
    "ridge": Ridge(),
    "svr": SVR(),
    "tree": DecisionTreeRegressor(max_depth=3, random_state=0),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("estimators")
    X, S = problem()
    for name, estimator in ESTIMATORS.items():
        learner = Refit(estimator, cv=2, max_rounds=1)
        # Where every label is known, one fit is all there is.
        save_model(PartialLabelRegressor(learner, "average", random_state=0).fit(X, S), made / f"{name}.plr")
    return made


def survives(folder, first, count, names):
    script = Path(__file__).parents[1] / "support" / "mutations.py"
    paths = [str(folder / f"{name}.plr") for name in names]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": str(script.parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(script), str(first), str(count), *paths],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, f"exit {done.returncode} at {done.stdout.splitlines()[-1:]}: {done.stderr[-3000:]}"
    print(*(line for line in done.stdout.splitlines() if "changes" in line), sep="\n")


def test_changed_numbers_crash_nothing(folder):
    survives(folder, 0, 3, ESTIMATORS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_many_changed_numbers_crash_nothing(name, folder):
    survives(folder, 0, 600, [name])
