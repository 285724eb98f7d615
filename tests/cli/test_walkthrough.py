"""The installed command in a fresh folder, as a new user would drive it, from a labelled table to checked answers."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from plr import TableModel


@pytest.fixture
def plr(tmp_path):
    def plr(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "plr", *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=1200,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert done.returncode == code, done.stderr
        return done

    return plr


def labelled_table(path, rows):
    random = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["meter", "read on", "kind", "surface", "usage"])
        for row in range(rows):
            surface, kind = random.uniform(20, 200), random.choice(["flat", "house"])
            usage = 30 * surface + 1000 * (kind == "house") + random.normal(0, 50)
            gap = "" if row % 25 == 3 else f"{surface:.1f}"
            writer.writerow([f"M{row:04d}", f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}", kind, gap, f"{usage:.1f}"])


@pytest.mark.slow
def test_from_generate_to_report(plr, tmp_path):
    labelled_table(tmp_path / "meters.csv", 180)
    plr("generate", "meters.csv", "--target", "usage", "-o", "all.csv", "--truth-column", "true_usage")
    lines = (tmp_path / "all.csv").read_text().splitlines()
    (tmp_path / "train.csv").write_text("\n".join([lines[0], *lines[1:141]]) + "\n")
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *lines[141:]]) + "\n")

    looked = plr("check", "train.csv", "--target", "usage", "--truth", "true_usage")
    assert looked.stdout.startswith("Fine: a model can learn from this data.")
    assert "Left out: 'meter' has 140 different texts" in looked.stderr
    assert "'read on': date, as days" in looked.stderr

    roles = ("--target", "usage", "--truth", "true_usage")
    fitted = plr(
        "fit",
        "train.csv",
        *roles,
        "-o",
        "model.plr",
        "--identified",
        "answers.csv",
        "--no-intervals",
        "--effort",
        "low",
    )
    assert "still in doubt" in fitted.stdout
    plr("predict", "model.plr", "test.csv", "-o", "predicted.parquet")
    plr("identify", "model.plr", "test.csv", "-o", "chosen.jsonl")
    assert plr("identify", "model.plr", "test.csv", "--doubtful", "3").stdout.count("\n") == 4
    found = json.loads(plr("evaluate", "model.plr", "test.csv", "--truth", "true_usage", "--json").stdout)
    assert found["r2"] > 0.8
    assert found["identification"]["accuracy_with_several"] > 0.8
    assert plr("report", "model.plr", "-o", "page.html").stdout == "page.html\n"
    found = json.loads(plr("report", "model.plr", "--data", "test.csv", "-o", "page.html", "--json").stdout)
    assert found["facts"]["checks"]["rows"] == 40
    written = {"all.csv", "answers.csv", "chosen.jsonl", "model.plr", "page.html", "predicted.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == written | {"meters.csv", "train.csv", "test.csv"}


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    labelled_table(tmp_path / "meters.csv", 60)
    TableModel(learner="linear").fit(tmp_path / "meters.csv", target="usage").save(tmp_path / "m.plr")
    wide = (tmp_path / "meters.csv").read_text().splitlines()
    # More than a pipe holds.
    (tmp_path / "many.csv").write_text("\n".join([wide[0], *wide[1:] * 400]) + "\n")
    command = f"{sys.executable} -m plr predict m.plr many.csv | head -n 1"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_mistakes_end_with_code_2(plr):
    assert plr("predict", "nothing.plr", "nothing.csv", code=2).stderr.startswith("plr: ")
