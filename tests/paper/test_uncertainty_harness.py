"""The harness that measures uncertainty: fixed fits, whole lines, honest tables."""

import doctest
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are scripts beside the package, not installed with it.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.harness import append, read_lines, run_jobs
from benchmarks.identification.data import FINAL, HELD_BACK, MAIN
from benchmarks.uncertainty import __main__ as command
from benchmarks.uncertainty import measuring, tables
from benchmarks.uncertainty.laws import LAWS, make_law, make_promise
from benchmarks.uncertainty.measuring import ASKED, LEVELS, reliability
from benchmarks.uncertainty.plans import Fit, planned, plans
from benchmarks.uncertainty.tables import SHEETS, Lines, calibration_error

from plr import PartialLabelRegressor

NAMES = ("auto-mpg", "housing", "growing", "cut", "uniform", "dependent")
FEW = {"names": NAMES, "trials": 2}


def made_line(fit, coverage=0.9):
    """A line as `measure` writes it; constant intervals are twice as wide."""
    line = {"key": fit.key, **fit.decisive, "revision": "abc", "test_rows": 100, "train_rows": 300, "test_mse": 1.0}
    line |= dict.fromkeys(("fit_seconds", "identify_seconds", "interval_seconds"), 1.0)
    line |= {"by_row": True, "assumes": "false labels follow the given density, whatever the features"}
    wanted = [("adaptive", ASKED), ("constant", ASKED), ("guaranteed", ASKED), *(("adaptive", one) for one in LEVELS)]
    line["intervals"] = [
        {"method": method, "level": level, "coverage": coverage, "width": 1.0 + (method == "constant"), "score": 2.0}
        for method, level in wanted
    ]
    for found in line["intervals"]:
        found["score"] *= found["width"]
        found["deciles"] = [coverage - 0.2 * (found["method"] == "constant")] * 10
    bins = reliability(np.array([0.05, 0.95, 0.75]), np.array([False, True, True]))
    line |= {rows: {"candidates": bins, "top": bins, "accuracy": 0.7} for rows in ("training", "new")}
    return line | {"told": {"coverage": 0.9, "width": 0.5, "score": 1.0}}


def everything():
    return plans(("seven", "laws", "guaranteed"), **FEW)


@pytest.fixture
def store(tmp_path):
    for fit in planned(everything().values()):
        append(tmp_path / "lines.sqlite", made_line(fit, 0.8 if fit.name == "housing" else 0.92))
    return tmp_path


@pytest.fixture
def quick(monkeypatch):
    """A quick learner in place of the default, which takes long."""

    def linear(learner="linear", **options):
        return PartialLabelRegressor(learner, random_state=options["random_state"])

    monkeypatch.setattr(measuring, "PartialLabelRegressor", linear)


def bars(sheet):
    return {bar.words: bar for bar in sheet.bars}


def test_fits_are_planned_so_that_a_stopped_run_has_something_of_everything():
    found = plans(("seven", "tables", "final", "laws"))
    assert {part: len(plan.cells) for part, plan in found.items()} == {
        "seven": 4 * len(MAIN),
        "tables": 2 * len(HELD_BACK),
        "final": 2 * len(FINAL),
        "laws": 3 * 2 * len(LAWS),
    }
    fits = planned(found.values())
    assert len({fit.key for fit in fits}) == len(fits)
    first = fits[: sum(len(plan.cells) for plan in found.values())]
    assert {fit.trial for fit in first} == {0}
    assert first[0].name == "power-plant"
    trials = {name: 1 + max(fit.trial for fit in fits if fit.name == name) for name in ("power-plant", "airfoil")}
    assert trials == {"power-plant": 3, "airfoil": 10}
    later = planned(plans(("seven",), names=("airfoil",), trials=2, first_trial=80).values())
    assert {fit.trial for fit in later} == {80, 81}


def test_a_key_says_what_decides_the_result():
    fit = Fit("real", "abt-buy", 0, digest="a", path=Path("here"))
    assert replace(fit, path=Path("there")).key == fit.key
    assert replace(fit, digest="b").key != fit.key


@pytest.mark.usefixtures("quick")
def test_a_fit_is_measured_on_its_test_rows():
    line = measuring.measure(Fit("seven", "auto-mpg", 83, 4, "fixed"))
    assert "error" not in line
    by_level = {found["level"]: found for found in line["intervals"] if found["method"] == "adaptive"}
    assert by_level[0.5]["width"] < by_level[0.95]["width"]
    assert 0.75 < by_level[ASKED]["coverage"] <= 1.0
    assert by_level[ASKED]["score"] > by_level[ASKED]["width"]
    # Every test row has its truth among five candidates.
    assert sum(line["new"]["candidates"]["count"]) == 5 * line["test_rows"]
    assert sum(line["new"]["candidates"]["true"]) == line["test_rows"]
    assert "nothing" in measuring.measure(Fit("seven", "nothing", 0, 4, "fixed"))["error"]


@pytest.mark.usefixtures("quick")
def test_laws_and_promises_are_measured():
    line = measuring.measure(Fit("laws", "growing", 0, 4, "fixed", 300))
    assert len(line["intervals"][0]["deciles"]) == 10
    assert np.mean(line["intervals"][0]["deciles"]) == pytest.approx(line["intervals"][0]["coverage"])
    line = measuring.measure(Fit("guaranteed", "dependent", 0, 4, "fixed", 200))
    assert [found["method"] for found in line["intervals"]] == ["guaranteed", "adaptive", "constant"]
    assert line["told"]["method"] == "constant"


@pytest.mark.parametrize("name", list(LAWS))
def test_laws_are_what_their_words_say(name):
    made, again = (make_law(name, 300, 4, "fixed", 1) for _ in range(2))
    np.testing.assert_array_equal(made.S.values, again.S.values)
    assert (made.S.sizes == 5).all()
    assert np.isin(made.truth, made.S.values).all()
    labels = made.y_test
    assert (labels.min() == 0.0) == (name == "cut")
    whole = np.mean(labels == np.round(labels))
    assert {"integers": whole == 1.0, "atoms": 0.25 < whole < 0.35, "cut": whole > 0.2}.get(name, whole == 0.0)
    assert (made.scale is not None) == (name == "growing")


def test_false_labels_that_depend_on_the_truth_lean_to_one_side():
    made = make_promise("dependent", 500, 4, 0)
    false = made.S.values != made.truth[made.S.row_index]
    assert np.mean((made.S.values > made.truth[made.S.row_index])[false]) > 0.7


def test_what_is_measured_is_not_measured_again(store):
    asked = []
    fits = planned(plans(("seven",), names=NAMES, trials=3).values())
    assert run_jobs(fits, lambda fit: asked.append(fit) or made_line(fit), store, tell=False) == []
    assert {fit.trial for fit in asked} == {2}
    assert len(asked) == 8


def test_a_run_stops_in_time_and_goes_on_later(tmp_path, capsys):
    fits = planned(everything().values())
    run_jobs(fits, made_line, tmp_path, limit=-1.0)
    assert f"{len(fits)} are left" in capsys.readouterr().err
    run_jobs(fits, made_line, tmp_path, limit=60.0)
    assert len(read_lines(tmp_path)) == len(fits)


def test_bars_are_met_missed_or_not_yet_measured(store):
    lines = read_lines(store)
    found = {part: bars(SHEETS[part](Lines.of(lines, plan))) for part, plan in everything().items()}
    assert found["seven"]["coverage, mean of cells"].value == pytest.approx(0.86)
    assert found["seven"]["coverage, mean of cells"].verdict == "missed"
    assert found["seven"]["cells where it is higher by more than two standard errors"].value == 0
    score = "interval score over that of constant widths, `growing`, geometric mean of cells"
    assert found["laws"][score].value == pytest.approx(0.5)
    worst = next(bar for words, bar in found["laws"].items() if words.startswith("coverage in the worst decile"))
    assert worst.verdict == "met"
    assert worst.shown == "0.920; constant widths 0.720"
    kept = found["guaranteed"]["`uniform` false labels: share of repetitions that cover as asked"]
    assert kept.value == 1.0
    assert found["guaranteed"]["`uniform` false labels: width over that with all labels known"].value == 2.0
    more = plans(("seven",), names=NAMES, trials=3)["seven"]
    assert {bar.verdict for bar in SHEETS["seven"](Lines.of(lines, more)).bars} == {"not all measured"}


def test_calibration_error_is_the_mean_distance_from_the_truth():
    bins = reliability(np.array([0.9, 0.9, 0.1, 1.0]), np.array([True, False, False, True]))
    # Bins: {0.9, 0.9, 1.0} claim 2.8 and hold 2; {0.1} claims 0.1 and holds 0.
    assert calibration_error({name: np.array(sums) for name, sums in bins.items()}) == pytest.approx(0.9 / 4)


def test_tables_and_pictures_from_lines_alone(store, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    options = ["tables", "--store", str(store), "--out", str(out), "--names", ",".join(NAMES), "--trials", "3"]
    assert command.main(options) == 0
    expected = {f"{part}.{kind}" for part in ("seven", "laws", "guaranteed") for kind in ("md", "csv")}
    assert {path.name for path in out.iterdir()} == expected | {"seven.png", "laws.png", "reliability.png"}
    text = (out / "seven.md").read_text()
    assert "| housing | up to 16 | 2 | 0.800" in text
    assert "8 of 24 fits are not measured yet" in text
    assert "8 of 24 fits" in capsys.readouterr().err
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    command.main(options)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_tables_of_nothing_say_what_to_do(tmp_path):
    with pytest.raises(SystemExit, match="run the command `run` first"):
        command.main(["tables", "--store", str(tmp_path)])
    with pytest.raises(SystemExit, match="needs --data FOLDER"):
        command.main(["run", "--part", "real"])


def test_words_for_assumptions():
    assert doctest.testmod(tables).failed == 0
