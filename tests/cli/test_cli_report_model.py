"""``plr report`` of a model: the page of the training rows, or of another table's."""

import html
import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from plr import CandidateSets, PartialLabelRegressor, save_model
from plr.persistence import read_manifest
from plr.report.model_page import read_review, read_training_rows
from plr.tables import write_table
from support.tables import read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of two features, in two parts."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    x, other = random.uniform(0, 10, (2, 150))
    y = np.round(2 * x, 3)
    wrong = np.round(random.uniform(0, 30, 150), 3)
    sets = CandidateSets.from_lists([list(pair) for pair in zip(y, wrong, strict=True)])
    names = [f"meter {number}" for number in range(150)]
    table = pa.table({"meter": names, "x": x, "other": other, "y": sets.to_arrow(), "truth": y})
    write_table(table.slice(0, 110), folder / "train.parquet")
    write_table(table.slice(110), folder / "test.parquet")
    return folder


@pytest.fixture
def model(run, folder):
    if not (folder / "m.plr").exists():
        fit = ("fit", "train.parquet", "--target", "y", "--ignore", "truth", "--learner", "linear")
        run(*fit, "-o", "m.plr", "--identified", "i.parquet")
    return folder / "m.plr"


def test_page_of_the_training_rows(run, model, tmp_path):
    out, err = run("report", model, "-o", tmp_path / "page.html")
    assert out.strip() == str(tmp_path / "page.html")
    assert err == ""
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The model predicts y. Of the 110 rows of train.parquet that it was trained on" in page
    assert "plr fit train.parquet --target y --ignore truth --learner linear" in page
    assert ">meter 5<" in page
    found = read_table("i.parquet")["probability"].to_numpy()
    facts = json.loads(run("report", model, "-o", tmp_path / "page.html", "--json")[0])["facts"]
    assert facts["counts"]["doubtful"] == (found < 0.8).sum()
    assert facts["expected"] == pytest.approx(found.mean(), abs=1e-6)
    assert facts["checks"] is None


def test_verdict_is_that_of_check_and_all_columns_are_kept(run, tmp_path):
    random = np.random.default_rng(1)
    features = random.uniform(0, 10, (120, 6))
    y = np.round(features[:, 0] + features[:, 5], 3)
    sets = [f"{true}|{false:.3f}" for true, false in zip(y, random.uniform(0, 20, 120), strict=True)]
    names = [f"feature {place}" for place in range(6)]
    table = pa.table({**dict(zip(names, features.T, strict=True)), "y": sets})
    write_table(table, tmp_path / "six.csv")
    out = ("-o", tmp_path / "m.plr", "--identified", tmp_path / "i.csv")
    run("fit", tmp_path / "six.csv", "--target", "y", "--learner", "linear", *out)
    done = json.loads(run("report", tmp_path / "m.plr", "-o", tmp_path / "p.html", "--json")[0])
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    headline, reason, advice, *_ = run("check", tmp_path / "six.csv", "--target", "y")[0].splitlines()
    assert f"<strong>{headline}</strong> {reason}" in html.unescape(page)
    assert done["diagnosis"] == {"verdict": "fine", "headline": headline, "reason": reason, "advice": advice}
    rows = read_training_rows(read_manifest(tmp_path / "m.plr"))[0]
    assert sorted(rows.columns) == names
    # The most important first, of which the page shows three until it is asked for more.
    assert {*list(rows.columns)[:2]} == {"feature 0", "feature 5"}
    assert "Show 3 more columns" in page
    # So does the row to check; the table to fill in has these three alone.
    assert list(read_review(read_manifest(tmp_path / "m.plr")).columns) == list(rows.columns)
    assert "<summary>3 more columns</summary>" in page
    lines = run("review", tmp_path / "m.plr")[0].splitlines()
    assert lines[0].replace('"', "").split(",")[:5] == ["row", *list(rows.columns)[:3], "candidates"]


def test_page_of_new_rows_with_their_truth(run, model, tmp_path):
    done = json.loads(
        run("report", model, "-o", tmp_path / "p.html", "--data", "test.parquet", "--truth", "truth", "--json")[0]
    )
    assert done["new_rows"]
    assert "After training" in (tmp_path / "p.html").read_text(encoding="utf-8")
    checks = done["facts"]["checks"]
    assert (done["facts"]["rows"], checks["rows"]) == (40, 40)
    assert checks["right"] > 0.9
    assert checks["intervals"]["coverage"] >= 0.75
    expected = json.loads(run("evaluate", model, "test.parquet", "--truth", "truth", "--json")[0])
    assert checks["rmse"] == pytest.approx(expected["rmse"])
    assert checks["right"] == pytest.approx(expected["identification"]["accuracy_with_several"])
    for key in ("coverage", "mean_width", "interval_score"):
        assert checks["intervals"][key] == pytest.approx(expected["interval"][key])
    assert checks["calibration_error"] == pytest.approx(expected["identification"]["calibration_error"])


def test_training_rows_are_known_again(run, model, tmp_path):
    out, err = run("report", model, "-o", tmp_path / "p.html", "--data", "train.parquet", "--truth", "truth", "--json")
    assert "the rows the model was trained on; probabilities are by models that have not seen them, predictions" in err
    done = json.loads(out)
    assert not done["new_rows"]
    assert done["facts"]["checks"]["rows"] == 110
    assert done["facts"]["checks"]["intervals"] is None


def test_a_model_may_keep_no_rows(run, tmp_path):
    fit = ("fit", "train.parquet", "--target", "y", "--truth", "truth", "--learner", "linear", "--no-intervals")
    run(*fit, "--no-page", "-o", tmp_path / "m.plr")
    assert "page" not in read_manifest(tmp_path / "m.plr")["extra"]
    _, err = run("report", tmp_path / "m.plr", "-o", tmp_path / "p.html")
    assert "keeps nothing about single rows" in err
    run("report", tmp_path / "m.plr", "-o", tmp_path / "p.html", "--data", "test.parquet")
    assert "rows-data" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_training_rows_are_known_again_where_none_are_kept(run, tmp_path):
    fit = ("fit", "train.parquet", "--target", "y", "--ignore", "truth", "--learner", "linear")
    run(*fit, "--no-page", "-o", tmp_path / "m.plr")
    page = ("-o", tmp_path / "p.html", "--truth", "truth", "--json")
    out, err = run("report", tmp_path / "m.plr", *page, "--data", "train.parquet")
    assert "trained on; it has seen them" in err
    done = json.loads(out)
    assert not done["new_rows"]
    assert done["facts"]["checks"]["intervals"] is None
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "that it was trained on" in text
    assert "In-sample: the model was fitted to these rows, so this is optimistic." in text
    assert "are within their 90 % interval" not in text
    assert json.loads(run("report", tmp_path / "m.plr", *page, "--data", "test.parquet")[0])["new_rows"]


def test_note_about_training_rows_says_who_judged_them(run, tmp_path):
    fit = ("fit", "train.parquet", "--target", "y", "--ignore", "truth", "--learner", "linear", "--no-intervals")
    run(*fit, "-o", tmp_path / "m.plr")
    _, err = run("report", tmp_path / "m.plr", "-o", tmp_path / "p.html", "--data", "train.parquet")
    assert "it has seen them, so the page flatters it" in err
    assert "the page shows what models" not in err


def test_a_model_from_python(run, tmp_path):
    table = read_table("test.parquet")
    X = np.column_stack([table["x"].to_numpy(), table["other"].to_numpy()])
    save_model(PartialLabelRegressor("linear").fit(X, table["truth"].to_numpy()), tmp_path / "m.plr")
    write_table(table.select(["x", "other", "y"]), tmp_path / "t.parquet")
    run("report", tmp_path / "m.plr", "-o", tmp_path / "p.html", "--data", tmp_path / "t.parquet", "--target", "y")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Of the 40 rows of t.parquet that were shown to it after training" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--selection", "truth"], "--selection has no meaning for the report of a model"),
        (["--truth", "truth"], "name the table with --data"),
        (["--data", "test.parquet", "--truth", "trth"], "did you mean 'truth'?"),
        (["--data", "test.parquet", "--target", "truth", "--truth", "truth"], "it can be only one"),
        (["--data", "nowhere.parquet"], "nowhere.parquet"),
        (["--data", "m.plr"], "given as MODEL and as --data"),
    ],
    ids=["selection", "truth-without-data", "misspelled", "same-column", "no-file", "same-file"],
)
def test_mistakes_are_one_line_and_leave_no_file(run, model, tmp_path, arguments, words):
    _, err = run("report", "m.plr", "-o", tmp_path / "p.html", *arguments, code=2)
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_model(run, tmp_path):
    (tmp_path / "m.plr").write_text("nonsense")
    assert "is not a plr model file" in run("report", tmp_path / "m.plr", "-o", tmp_path / "p.html", code=2)[1]
    assert "does not exist" in run("report", tmp_path / "n.plr", "-o", tmp_path / "p.html", code=2)[1]
    assert (
        "has no meaning for the report of a benchmark" in run("report", tmp_path, "-o", "x", "--data", "d", code=2)[1]
    )


def test_unreadable_file_is_one_line(run, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("a")
    monkeypatch.setattr(Path, "open", Mock(side_effect=PermissionError(13, "Permission denied")))
    _, err = run("report", tmp_path / "secret", "-o", tmp_path / "p.html", code=2)
    assert "secret cannot be read: Permission denied." in err
    assert err.count("\n") == 1


def test_page_goes_into_an_html_file_of_a_folder_that_is_there(run, model, tmp_path):
    _, err = run("report", model, "-o", tmp_path / "nofolder" / "x.html", code=2)
    assert f"There is no folder {tmp_path / 'nofolder'} to write x.html into." in err
    assert "let x.csv end in .html or .htm" in run("report", model, "-o", tmp_path / "x.csv", code=2)[1]
    assert list(tmp_path.iterdir()) == []
    run("report", model, "-o", tmp_path / "x.HTM")


def test_out_is_a_folder(run, model, tmp_path):
    assert "is a folder; name the file to write" in run("report", model, "-o", tmp_path, code=2)[1]
