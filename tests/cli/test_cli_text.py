"""``--text`` makes features of free texts, says so, and is in the command that fits the model again."""

import json

import numpy as np
import pytest

from plr import load_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    lines = ["x,note,y"]
    for row in range(80):
        good = random.random() < 0.5
        truth = random.uniform() + 3 * good
        text = f"{'splendid' if good else 'worn'} item {row}"
        lines.append(f"{truth - 3 * good:.3f},{text},{truth:.2f}|{random.uniform(0, 4):.2f}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_text_is_an_option(run, folder):
    fit = ("fit", "t.csv", "--target", "y", "--learner", "linear", "--no-intervals", "-o", "m.plr")
    assert "Left out: 'note' has 80 different texts" in (told := run(*fit)[1])
    assert "; --text note uses it." in told
    out, err = run(*fit, "--text", "note", "--json")
    assert "'note': text, as 4 numbers by TF-IDF of its pieces and SVD." in err
    assert [column["kind"] for column in json.loads(out)["columns"]] == ["number", "text"]
    prediction = run("predict", "m.plr", "t.csv")[0].splitlines()[1:]
    splendid = np.array(["splendid" in line for line in prediction])
    values = np.array([float(line.rsplit(",", 1)[1]) for line in prediction])
    assert values[splendid].min() > values[~splendid].max()
    assert load_model(folder / "m.plr").features.used[1].prose is not None
    run("report", "m.plr", "-o", "m.html")
    assert "--text note" in (folder / "m.html").read_text()
    assert (
        json.loads(run("check", "t.csv", "--target", "y", "--text", "note", "--json")[0])["columns"][1]["kind"]
        == "text"
    )
    compare = ("compare", "t.csv", "--target", "y", "--learners", "linear", "--folds", "2", "--json")
    with_text, without = (
        json.loads(run(*compare, *more)[0])["models"][0]["likelihood"] for more in (("--text", "note"), ())
    )
    assert with_text > without + 0.1
