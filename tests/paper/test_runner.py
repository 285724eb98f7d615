"""Runs that are interrupted, shared, failed or resumed come to the same rows as one undisturbed run."""

import random
import signal
import threading
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from plr.errors import DataNotFoundError, DivergenceError, StoreError
from plr.paper import EPOCH_RULES, METHODS, Cell, Method, Store, count_fits, expand, run_benchmark
from plr.paper.execution import Fit, run_cell
from plr.paper.problems import Workbench

TIMINGS = ("seconds", "run", "attempts")
# These compile most kernels; in one process, so that it is done once.
pytestmark = pytest.mark.xdist_group("kernels")


def contents(folder):
    """Return all that a store holds, timings aside."""
    with Store.open(folder) as store:
        cells = [{name: value for name, value in cell.items() if name not in TIMINGS} for cell in store.cells()]
        return store.rows(), cells


def attempts(folder):
    with Store.open(folder) as store:
        return [cell["attempts"] for cell in store.cells()]


@pytest.fixture
def undisturbed(tiny, tmp_path):
    run_benchmark(tiny, tmp_path / "undisturbed", workers=1)
    return contents(tmp_path / "undisturbed")


def test_every_setting_and_rule_is_recorded(undisturbed, tiny):
    rows, cells = undisturbed
    assert {cell["state"] for cell in cells} == {"done"}
    assert len(rows) == count_fits(expand(tiny), tiny) * len(EPOCH_RULES)
    assert all(row["test_mse"] > 0 for row in rows)
    assert {row["epoch"] for row in rows if row["rule"] == "last"} == {tiny.epochs - 1}


def test_number_of_workers_changes_nothing(undisturbed, tiny, tmp_path):
    run_benchmark(tiny, tmp_path / "two", workers=2)
    assert contents(tmp_path / "two") == undisturbed


def test_each_rule_has_the_least_of_its_own_score(undisturbed):
    by_setting = {}
    for row in undisturbed[0]:
        place = tuple(row[name] for name in ("dataset", "method", "false_labels", "trial", "setting"))
        by_setting.setdefault(place, {})[row["rule"]] = row
    for rules in by_setting.values():
        for score in ("loss", "evidence", "truth"):
            assert rules[score][f"val_{score}"] == min(row[f"val_{score}"] for row in rules.values())


def test_training_lowers_the_error(tiny):
    protocol = replace(tiny, epochs=200, learning_rates=(0.01,), methods=("IDent",))
    workbench = Workbench(protocol)
    cell = Cell("auto-mpg", "mlp", "IDent", 2, 1.0, 0)
    last = next(fit for fit in run_cell(cell, workbench) if fit.rule == "last")
    assert last.test_mse < 0.5 * np.var(workbench.problem(cell).test.y)


def test_scaled_labels_are_scored_in_label_units(tiny):
    protocol = replace(tiny, epochs=200, learning_rates=(0.01,), methods=("Supervised",), scale_target=True)
    workbench = Workbench(protocol)
    cell = Cell("auto-mpg", "mlp", "Supervised", 0, 1.0, 0)
    fits = run_cell(cell, workbench)
    assert all(0.3 < fit.val_truth / fit.test_mse < 3 for fit in fits)
    assert fits[0].test_mse < 0.5 * np.var(workbench.problem(cell).test.y)


@pytest.mark.parametrize("mechanism", ["gaussian", "marginal", "units", "digits", "folding", "biased"])
def test_every_mechanism_runs(mechanism, tiny, tmp_path):
    protocol = replace(
        tiny, mechanism=mechanism, datasets=("auto-mpg",), methods=("IDent",), sizes=(1,), trials=1, epochs=1
    )
    assert run_benchmark(protocol, tmp_path).failed == 0


def test_second_run_finds_everything_done(undisturbed, tiny, tmp_path):
    seen = []
    summary = run_benchmark(tiny, tmp_path / "undisturbed", callback=seen.append)
    assert (summary.finished, summary.found) == (0, len(expand(tiny)))
    assert [progress.done for progress in seen] == [len(expand(tiny))]
    assert contents(tmp_path / "undisturbed") == undisturbed
    assert set(attempts(tmp_path / "undisturbed")) == {1}


def test_progress_ends_with_nothing_left(tiny, tmp_path):
    seen = []
    run_benchmark(tiny, tmp_path, workers=2, callback=seen.append)
    assert seen[-1].done == seen[-1].total == len(expand(tiny))
    assert seen[-1].remaining_work == pytest.approx(0)
    assert all(before.done <= after.done for before, after in pairwise(seen))


def test_error_in_the_callback_stops_the_run_and_keeps_what_is_done(undisturbed, tiny, tmp_path):
    def stop(progress):
        if progress.done == 3:
            raise InterruptedError("enough")

    with pytest.raises(InterruptedError):
        run_benchmark(tiny, tmp_path / "out", workers=2, callback=stop)
    with Store.open(tmp_path / "out") as store:
        done = sum(state == "done" for state in store.states().values())
    assert 3 <= done < len(expand(tiny))
    summary = run_benchmark(tiny, tmp_path / "out")
    assert summary.found == done
    assert contents(tmp_path / "out") == undisturbed


def test_other_settings_are_refused(tiny, tmp_path):
    run_benchmark(replace(tiny, methods=("Supervised",)), tmp_path)
    with pytest.raises(StoreError, match="methods: Supervised there"):
        run_benchmark(tiny, tmp_path)


def test_missing_data_is_found_out_before_a_folder_is_made(tiny, tmp_path):
    with pytest.raises(DataNotFoundError):
        run_benchmark(tiny, tmp_path / "out", data_home=tmp_path / "nowhere")
    assert not (tmp_path / "out").exists()


class TestOwnFit:
    @pytest.fixture
    def protocol(self, tiny):
        return replace(tiny, datasets=("auto-mpg",), methods=("Supervised", "Own"), trials=2)

    @pytest.fixture
    def install(self, monkeypatch):
        def install(fit):
            monkeypatch.setitem(METHODS, "Own", Method("Own", custom=fit, model="own", hyper=()))

        install(lambda *_: [])
        return install

    @staticmethod
    def mean(problem, _setting, _protocol, _seed, check):
        check()
        mse = float(np.mean((problem.test.y - problem.train.S.values.mean()) ** 2))
        return [Fit("{}", rule, 0, 1.0, 1.0, 1.0, mse) for rule in EPOCH_RULES]

    def test_result_is_kept(self, install, protocol, tmp_path):
        install(self.mean)
        run_benchmark(protocol, tmp_path)
        rows = [row for row in contents(tmp_path)[0] if row["method"] == "Own"]
        assert {row["model"] for row in rows} == {"own"}
        assert len(rows) == 2 * 2 * len(EPOCH_RULES)

    def test_failure_is_recorded_and_tried_again(self, install, protocol, tmp_path):
        def fail(problem, *_):
            raise ZeroDivisionError("on purpose")

        install(fail)
        summary = run_benchmark(protocol, tmp_path)
        assert (summary.finished, summary.failed) == (2, 4)
        with Store.open(tmp_path) as store:
            errors = {failure["error"] for failure in store.failures()}
            assert all("ZeroDivisionError: on purpose (in fail, test_runner.py" in error for error in errors)
            assert {row["method"] for row in store.rows()} == {"Supervised"}
        install(self.mean)
        summary = run_benchmark(protocol, tmp_path)
        assert (summary.finished, summary.found, summary.failed) == (4, 2, 0)

    def test_divergence_is_a_result(self, install, protocol, tmp_path):
        def diverge(*_):
            raise DivergenceError("too fast")

        install(diverge)
        assert run_benchmark(protocol, tmp_path).failed == 0
        rows = [row for row in contents(tmp_path)[0] if row["method"] == "Own"]
        assert {(row["test_mse"], row["problem"]) for row in rows} == {(None, "too fast")}

    def test_slow_fit_hears_the_end(self, install, protocol, tmp_path):
        both_at_work = threading.Barrier(2, timeout=600)

        def wait(_problem, _setting, _protocol, _seed, check):
            if both_at_work.wait() == 0:
                raise KeyboardInterrupt
            while True:
                time.sleep(0.01)
                check()

        install(wait)
        with pytest.raises(KeyboardInterrupt):
            run_benchmark(replace(protocol, methods=("Own",)), tmp_path, workers=2)


@pytest.mark.slow
def test_two_runners_share_the_work(tiny, tmp_path, start_runner):
    # Long enough for both to be at work at the same time.
    protocol = replace(tiny, epochs=40, trials=3)
    run_benchmark(protocol, tmp_path / "alone", workers=2)
    runners = [start_runner(protocol, tmp_path / "shared", workers=1) for _ in range(2)]
    answers = [runner.communicate(timeout=600) for runner in runners]
    assert [runner.returncode for runner in runners] == [0, 0], answers
    finished = [int(out.splitlines()[-1].split()[1]) for out, _ in answers]
    assert sum(finished) == len(expand(protocol))
    assert set(attempts(tmp_path / "shared")) == {1}
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")


def test_interrupt_stops_what_is_being_trained(tiny, tmp_path, start_runner):
    # Would take hours.
    protocol = replace(tiny, epochs=2_000_000)
    runner = start_runner(protocol, tmp_path)
    assert runner.stdout.readline() == "training\n"
    runner.send_signal(signal.SIGINT)
    _, said = runner.communicate(timeout=600)
    assert "KeyboardInterrupt" in said
    with Store.open(tmp_path) as store:
        assert store._select("SELECT * FROM claims") == []


@pytest.mark.parametrize(("times", "trials"), [(4, 6), pytest.param(20, 25, marks=pytest.mark.slow)])
def test_killed_time_and_again_comes_to_the_same_rows(tiny, tmp_path, killed_runner, times, trials):
    # Many short cells, so that a good part of the moments falls into a write.
    protocol = replace(tiny, epochs=20, trials=trials, learning_rates=(0.01,))
    began = time.monotonic()
    run_benchmark(protocol, tmp_path / "undisturbed", workers=2)
    cells = len(expand(protocol))
    each = (time.monotonic() - began) / cells
    rng = random.Random(0)
    # Together the lives are shorter than an undisturbed run, so that each is cut off.
    most = cells // trials
    done_before = 0
    for _ in range(times):
        wanted = rng.randrange(most - 4)
        status = killed_runner(protocol, tmp_path / "killed", wanted, most, 4 * each * rng.random())
        assert status == -signal.SIGKILL
        with Store.create(tmp_path / "killed", protocol) as store:
            done = sum(state == "done" for state in store.states().values())
        assert done >= done_before + wanted
        done_before = done
    assert 0 < done_before < cells
    summary = run_benchmark(protocol, tmp_path / "killed", workers=2)
    assert summary.found == done_before
    assert contents(tmp_path / "killed") == contents(tmp_path / "undisturbed")
