"""Cells done in stacks come to the same rows as cells done one by one, and are as safe to interrupt."""

import dataclasses
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plr.errors import DependencyError, ParameterError  # noqa: E402
from plr.paper import (  # noqa: E402
    METHODS,
    Method,
    Store,
    expand,
    run_benchmark,
    stacking,
)
from plr.paper.execution import Fit, run_cell  # noqa: E402
from plr.paper.problems import Workbench  # noqa: E402
from plr.paper.stacking import check_device, is_stackable, run_stack, stacks  # noqa: E402

NAMES = ("Supervised", "AVGL-Huber", "AVGV-MSE", "AVGV-MAE", "IDent", "PIDent", "Posterior")


@pytest.fixture
def small(tiny):
    """Return a protocol whose rows fit into one batch, so that their order does not count."""
    models = ("mlp", "linear")
    return dataclasses.replace(
        tiny, datasets=("auto-mpg",), methods=NAMES, models=models, epochs=4, learning_rates=(0.01,)
    )


def rows_of(folder):
    with Store.open(folder) as store:
        return store.rows()


def test_cells_equal_those_done_one_by_one(small):
    workbench = Workbench(small)
    cells = expand(small)
    together = run_stack(cells, workbench, "cpu")
    for cell, fits in zip(cells, together, strict=True):
        for one, other in zip(run_cell(cell, workbench), fits, strict=True):
            assert (one.setting, one.rule, one.epoch) == (other.setting, other.rule, other.epoch)
            for name in ("val_loss", "val_evidence", "val_truth", "test_mse"):
                assert getattr(other, name) == pytest.approx(getattr(one, name), rel=2e-3), (cell, name)


def test_scaled_labels_and_fractions_equal_those_done_one_by_one(small):
    protocol = dataclasses.replace(small, scale_target=True, fractions=(0.5, 1.0), methods=("PIDent",), models=("mlp",))
    workbench = Workbench(protocol)
    cells = expand(protocol)
    for cell, fits in zip(cells, run_stack(cells, workbench, "cpu"), strict=True):
        expected = [fit.test_mse for fit in run_cell(cell, workbench)]
        np.testing.assert_allclose([fit.test_mse for fit in fits], expected, rtol=2e-3)


def test_a_run_fills_the_store_and_says_on_what(small, tmp_path):
    heard = []
    protocol = dataclasses.replace(small, methods=("IDent", "AVGL-MAE"), models=("mlp",))
    summary = run_benchmark(protocol, tmp_path / "run", device="torch", callback=heard.append)
    assert summary.finished == len(expand(protocol)) == heard[-1].done
    assert heard[-1].remaining_work == pytest.approx(0.0)
    with Store.open(tmp_path / "run") as store:
        assert store.runs()[0]["device"] == "torch"
        assert all(cell["seconds"] > 0 for cell in store.cells())
    again = run_benchmark(protocol, tmp_path / "run", device="torch")
    assert (again.finished, again.found) == (0, len(expand(protocol)))


def test_interrupted_stack_leaves_no_claim_and_no_half_cell(small, tmp_path):
    protocol = dataclasses.replace(small, methods=("IDent",), models=("mlp",), epochs=10_000)
    began = threading.Event()

    def stop(progress):
        if progress.work > 0:
            began.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_benchmark(protocol, tmp_path, device="torch", callback=stop)
    assert began.is_set()
    with Store.create(tmp_path, protocol) as store:
        assert set(store.states().values()) == {"waiting"}
        store.begin()
        keys = [cell.key(protocol) for cell in expand(protocol)]
        assert store.claim(*keys) == keys


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("cannot allocate")])
def test_stack_too_large_for_the_memory_is_halved(error, small, tmp_path, monkeypatch):
    sizes = []

    def choosy(cells, *arguments, **options):
        sizes.append(len(cells))
        if len(cells) > 2:
            raise error
        return run_stack(cells, *arguments, **options)

    monkeypatch.setattr(stacking, "run_stack", choosy)
    protocol = dataclasses.replace(small, methods=("IDent", "PIDent"), models=("mlp",), epochs=1)
    run_benchmark(protocol, tmp_path, device="torch")
    assert max(sizes) > 2
    assert {cell["state"] for cell in Store.open(tmp_path).cells()} == {"done"}


def test_cell_that_fails_is_recorded_and_the_others_are_done(small, tmp_path, monkeypatch):
    def broken(cells, *arguments, **options):
        if any(cell.method == "PIDent" and cell.trial == 0 for cell in cells):
            raise RuntimeError("no luck")
        return run_stack(cells, *arguments, **options)

    monkeypatch.setattr(stacking, "run_stack", broken)
    protocol = dataclasses.replace(small, methods=("IDent", "PIDent"), models=("mlp",), epochs=1, trials=2)
    summary = run_benchmark(protocol, tmp_path, device="torch")
    with Store.open(tmp_path) as store:
        failures = store.failures()
    assert {(cell["method"], cell["trial"]) for cell in failures} == {("PIDent", 0)}
    assert all("no luck" in cell["error"] for cell in failures)
    assert summary.failed == len(failures)
    assert summary.finished == len(expand(protocol)) - len(failures)


def test_what_cannot_be_stacked_is_left_to_the_threads(small, tmp_path, monkeypatch):
    def fit(problem, setting, protocol, seed, check):
        return [Fit("{}", rule, 0, 1.0, 1.0, 1.0, 2.0) for rule in ("last", "loss", "evidence", "truth")]

    monkeypatch.setitem(METHODS, "own", Method("own", custom=fit, hyper=()))
    protocol = dataclasses.replace(small, methods=("own", "IDent"), models=("mlp",), epochs=1)
    assert {cell.method for cell in expand(protocol) if is_stackable(cell)} == {"IDent"}
    summary = run_benchmark(protocol, tmp_path, workers=1, device="torch")
    assert summary.finished == len(expand(protocol))
    assert {row["test_mse"] for row in rows_of(tmp_path) if row["method"] == "own"} == {2.0}
    with Store.open(tmp_path) as store:
        devices = {run["id"]: run["device"] for run in store.runs()}
        done = {cell["method"]: devices[cell["run"]] for cell in store.cells()}
    assert done == {"own": "cpu", "IDent": "torch"}


def test_stacks_hold_one_data_set_each_and_are_bounded(small, monkeypatch):
    protocol = dataclasses.replace(small, datasets=("auto-mpg", "housing"))
    items = [(cell.key(protocol), cell) for cell in expand(protocol)]
    monkeypatch.setattr("plr.paper.stacking._MOST_FITS", 20)
    parts = stacks(items, Workbench(protocol))
    assert sorted(key for part in parts for key, _ in part) == sorted(key for key, _ in items)
    for part in parts:
        assert len({cell.dataset for _, cell in part}) == 1
        assert sum(len(cell.settings(protocol)) for _, cell in part) <= 20


def test_cells_of_two_data_sets_do_not_go_together(small):
    protocol = dataclasses.replace(small, datasets=("auto-mpg", "housing"))
    with pytest.raises(ValueError, match="one data set"):
        run_stack(expand(protocol), Workbench(protocol), "cpu")


def test_divergence_is_recorded_as_by_the_threads(small):
    protocol = dataclasses.replace(small, methods=("AVGL-MSE",), models=("linear",), learning_rates=(1e30,), epochs=3)
    workbench = Workbench(protocol)
    cell = expand(protocol)[0]
    one, other = run_cell(cell, workbench)[0], run_stack([cell], workbench, "cpu")[0][0]
    assert one.test_mse is other.test_mse is None
    assert "at learning rate 1e+30" in one.problem
    assert "at learning rate 1e+30" in other.problem


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "mps"])
def test_unknown_devices_are_named(name):
    with pytest.raises(ParameterError, match="choose cpu, cuda, cuda:N"):
        check_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_missing_gpu_is_said_before_anything_is_made(small, tmp_path):
    with pytest.raises(ParameterError, match="finds no GPU"):
        run_benchmark(small, tmp_path / "none", device="cuda")
    assert not (tmp_path / "none").exists()


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(DependencyError, match=r"plr\[torch\]"):
        check_device("cuda")
