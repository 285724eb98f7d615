"""The harness that measures uncertainty: fixed fits, whole lines, honest tables."""

import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are scripts beside the package, not installed with it.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.harness import append, read_lines, run_jobs
from benchmarks.uncertainty import __main__ as command
from benchmarks.uncertainty import measuring
from benchmarks.uncertainty.measuring import LEVELS, Fit, planned, reliability
from benchmarks.uncertainty.tables import Lines, calibration_error, calibration_sheet, interval_sheet

from plr import PartialLabelRegressor

DATASETS = ("auto-mpg", "housing")


def made_line(fit, coverage=0.9, width=None):
    """A line as `measure` writes it; with true labels intervals are half as wide."""
    told = fit.false_labels is None
    width = width or (1.0 if told else 2.0)
    methods = ("sharp", "guaranteed") if told else ("sharp", "guaranteed", "naive")
    line = {"key": fit.key, **asdict(fit), "revision": "abc", "test_rows": 100, "train_rows": 300, "test_mse": 1.0}
    line |= {"fit_seconds": 1.0, "calibrate_seconds": 1.0, "accuracy": 0.7}
    line["intervals"] = [
        {"method": method, "level": level, "coverage": coverage, "width": width}
        for method in methods
        for level in LEVELS
    ]
    bins = reliability(np.array([0.05, 0.95, 0.75]), np.array([False, True, True]))
    return line | ({} if told else {"candidates": bins, "top": bins})


@pytest.fixture
def store(tmp_path):
    for fit in planned(DATASETS, (4, 16), 2):
        append(tmp_path / "lines.sqlite", made_line(fit, 0.8 if fit.dataset == "housing" else 0.92))
    return tmp_path


def lines_of(store, trials=2):
    return Lines.of(read_lines(store), DATASETS, (4, 16), trials, "normal")


def test_a_fit_is_measured_on_its_test_rows(monkeypatch):
    # A quick learner in place of the default, which takes long.
    monkeypatch.setattr(
        measuring, "PartialLabelRegressor", lambda effort, random_state: PartialLabelRegressor("linear", random_state=0)
    )
    told = measuring.measure(Fit("auto-mpg", None, 83))
    assert "error" not in told
    by_level = {found["level"]: found for found in told["intervals"] if found["method"] == "sharp"}
    assert by_level[0.5]["width"] < by_level[0.95]["width"]
    assert 0.75 < by_level[0.9]["coverage"] <= 1.0
    # The naive intervals need out-of-fold predictions, which this learner has none of: a failure is a line.
    assert "out_of_fold" in measuring.measure(Fit("auto-mpg", 4, 83))["error"]


def test_what_is_measured_is_not_measured_again(store):
    asked = []
    assert run_jobs(planned(DATASETS, (4, 16), 3), lambda fit: asked.append(fit) or made_line(fit), store) == []
    assert {fit.trial for fit in asked} == {2}
    assert len(asked) == 6


def test_bars_are_met_missed_or_not_yet_measured(store):
    sheet = interval_sheet(lines_of(store))
    found = {bar.words.split(" of")[0].split(",")[0]: bar for bar in sheet.bars}
    assert found["coverage"].verdict == "missed"
    assert found["coverage"].value == pytest.approx(0.86)
    assert found["lowest coverage"].value == pytest.approx(0.8)
    assert found["width over conformal with true labels"].value == pytest.approx(2.0)
    assert {bar.verdict for bar in interval_sheet(lines_of(store, trials=3)).bars} == {"not all measured"}


def test_calibration_error_is_the_mean_distance_from_the_truth(store):
    probabilities, is_true = np.array([0.9, 0.9, 0.1, 1.0]), np.array([True, False, False, True])
    # Bins: {0.9, 0.9, 1.0} claim 2.8 and hold 2; {0.1} claims 0.1 and holds 0.
    assert calibration_error(reliability_arrays(probabilities, is_true)) == pytest.approx((0.8 + 0.1) / 4)
    assert calibration_sheet(lines_of(store)).bars[0].value == pytest.approx((0.05 + 0.05 + 0.25) / 3)


def reliability_arrays(probabilities, is_true):
    return {name: np.array(sums) for name, sums in reliability(probabilities, is_true).items()}


def test_tables_and_pictures_from_lines_alone(store, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    options = ["tables", "--store", str(store), "--out", str(out), "--trials", "2", "--datasets", ",".join(DATASETS)]
    assert command.main(options) == 0
    names = {"intervals.md", "intervals.csv", "intervals.png", "calibration.md", "calibration.csv", "reliability.png"}
    assert {path.name for path in out.iterdir()} == names
    assert "| housing | up to 16 | 2 | 0.800" in (out / "intervals.md").read_text()
    assert "missed" in capsys.readouterr().out
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    command.main(options)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_tables_of_nothing_say_what_to_do(tmp_path):
    with pytest.raises(SystemExit, match="run the command `run` first"):
        command.main(["tables", "--store", str(tmp_path)])
