"""How far a verb is: a bar on a terminal, nothing elsewhere, and every stage and member with --verbose."""

import io
import logging
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plr.cli import common
from plr.cli.common import TERMINAL


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("progress")
    random = np.random.default_rng(0)
    x = random.uniform(size=120)
    sets = [[value, value + random.uniform(0.5, 3.0)] for value in 3 * x]
    pq.write_table(pa.table({"x": x, "y": sets}), place / "train.parquet")
    return place


def test_verbose_tells_of_stages_and_members(run, tmp_path):
    out, err = run("fit", "train.parquet", "--target", "y", "-o", tmp_path / "m.plr", "--effort", "low", "--verbose")
    lines = err.splitlines()
    stages = ["Reading", "Fitting", "density start", "scales and columns", "Gaussian process", "noise and diagnosis"]
    assert [line for line in lines if line in stages] == stages
    assert sum("evidence" in line for line in lines) >= 5
    assert any(line.startswith("committee, Gaussian process: evidence ") for line in lines)
    assert not logging.getLogger("plr").handlers
    same, silent = run("fit", "train.parquet", "--target", "y", "-o", tmp_path / "m.plr", "--effort", "low")
    assert "evidence" not in silent
    assert "density start" not in silent
    assert same.splitlines()[1:] == out.splitlines()[1:]


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_bar_with_the_stage(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(common, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with TERMINAL.working("Fitting") as progress:
        first, second = progress.split({"first stage": 1.0, "second stage": 1.0})
        with first:
            first(1, 2)
        with second:
            limit = time.monotonic() + 60.0
            while "second stage" not in screen.getvalue() and time.monotonic() < limit:
                time.sleep(0.01)
    assert "second stage" in screen.getvalue()
