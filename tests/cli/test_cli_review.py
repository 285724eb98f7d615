"""``plr review``: a table of rows to check, from the model file or from a table."""

import csv
import json

import numpy as np
import pyarrow as pa
import pytest

from plr import TableModel, load_model
from plr.candidates.known import read_known
from plr.persistence import read_manifest
from plr.tables import write_table
from support.tables import read_table

ROWS = 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows whose candidates are one or two, of which the model cannot tell many."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, ROWS)
    truth = np.round(2 * x + random.normal(0, 2.0, ROWS), 3)
    wrong = np.round(random.uniform(0, 20, ROWS), 3)
    texts = [f"{t}|{w}" if row % 3 else str(t) for row, (t, w) in enumerate(zip(truth, wrong, strict=True))]
    table = pa.table({"meter": [f"meter, {row}" for row in range(ROWS)], "x": x, "y": texts, "truth": truth})
    write_table(table, folder / "train.csv")
    return folder


@pytest.fixture
def model(run, folder):
    fit = ("fit", "train.csv", "--target", "y", "--truth", "truth", "--learner", "linear", "--no-intervals")
    if not (folder / "m.plr").exists():
        out, _ = run(*fit, "-o", "m.plr", "--identified", "i.csv")
        assert "20 rows are worth checking next; plr review m.plr -n 20 -o review.csv lists them." in out
        run(*fit, "-o", "bare.plr", "--no-page")
    return "m.plr"


def test_rows_of_training_are_in_the_model_file(run, model):
    out, _ = run("review", model, "-n", "12", "-o", "review.csv")
    assert out == (
        "Wrote review.csv: 12 rows to check. Fill in value or answer, and fit again with --known review.csv.\n"
    )
    found, given = read_table("review.csv"), read_table("train.csv")
    assert found.column_names[0] == "row"
    assert found.column_names[-5:] == ["candidates", "value", "answer", "chosen", "probability"]
    assert found["value"].null_count == found["answer"].null_count == 12
    assert all(row % 3 for row in found["row"].to_pylist())
    assert set(found["chosen"].to_pylist()) <= {"review", "random"}
    names = given["meter"].to_pylist()
    assert found["meter"].to_pylist() == [names[row] for row in found["row"].to_pylist()]
    truth = given["truth"].to_pylist()
    for row, text in zip(found["row"].to_pylist(), found["candidates"].to_pylist(), strict=True):
        assert str(truth[row]) in [part.split(" (")[0] for part in text.split(" | ")]


def test_a_part_of_the_kept_rows_has_its_part_of_the_probability(run, model):
    run("review", model, "-n", "50", "-o", "all.csv")
    run("review", model, "-n", "10", "-o", "some.csv")
    every, some = read_table("all.csv"), read_table("some.csv")
    assert some["row"].to_pylist() == every["row"].to_pylist()[:10]
    share = 10 / every.num_rows
    assert some["probability"].to_numpy() == pytest.approx(share * every["probability"].to_numpy()[:10])


def test_rows_of_a_table(run, model):
    out, _ = run("review", "bare.plr", "train.csv", "-n", "5")
    lines = list(csv.reader(out.splitlines()))
    assert lines[0][0] == "row"
    assert len(lines) == 6
    assert run("review", "bare.plr", "train.csv", "-n", "5")[0] == out
    done = json.loads(run("review", model, "train.csv", "-o", "r.parquet", "--json")[0])
    assert done == {"out": "r.parquet", "rows": 20}


def fill_in(path, truth, cannot_tell=0):
    """Answer what a review asks: the first lines with "cannot tell"."""
    found = read_table(path)
    rows = found["row"].to_pylist()
    value = [None if place < cannot_tell else truth[row] for place, row in enumerate(rows)]
    answer = ["cannot tell" if place < cannot_tell else None for place in range(len(rows))]
    for name, cells in (("value", value), ("answer", answer)):
        found = found.set_column(found.column_names.index(name), name, pa.array(cells))
    write_table(found, path)
    return set(rows)


def test_answers_go_back_to_fit_and_are_not_asked_for_again(run, model):
    fit = ("fit", "train.csv", "--target", "y", "--truth", "truth", "--learner", "linear", "--no-intervals")
    truth = dict(enumerate(read_table("train.csv")["truth"].to_pylist()))
    run("review", model, "-n", "12", "-o", "one.csv")
    first = fill_in("one.csv", truth, cannot_tell=2)
    out, _ = run(*fit, "--known", "one.csv", "-o", "two.plr", "--identified", "j.csv")
    assert "Checked rows: 12; 10 with the true candidate, 2 answered 'cannot tell'." in out
    assert "-o more.csv lists them" in out or "worth checking" not in out
    for more in (("two.plr",), ("two.plr", "train.csv"), ("bare.plr", "train.csv", "--known", "one.csv")):
        run("review", *more, "-n", "48", "-o", "two.csv")
        again = read_table("two.csv")["row"].to_pylist()
        assert len(again) == 48
        assert not first & set(again)
    fill_in("two.csv", truth)
    out, _ = run(*fit, "--known", "one.csv", "--known", "two.csv", "-o", "three.plr")
    assert "Checked rows: 60; 58 with the true candidate, 2 answered 'cannot tell'." in out
    assert "no row left to check" in run("review", "three.plr", "train.csv", "-o", "none.csv", code=2)[1]


def test_mistakes(run, model):
    assert "keeps no rows to check" in run("review", "bare.plr", code=2)[1]
    assert "keeps 50 rows to check" in run("review", model, "-n", "55", "-o", "many.csv")[1]
    assert "--n must be at least 1" in run("review", model, "-n", "0", code=2)[1]
    for option in ("--target", "--row", "--known"):
        assert "name the table" in run("review", model, option, "y", code=2)[1]


def test_from_python_and_back(folder, model):
    table = TableModel(learner="linear", random_state=0).fit(folder / "train.csv", "y", truth="truth", intervals=False)
    found = table.review(6, random_state=0)
    truth = read_table(folder / "train.csv")["truth"].to_numpy()
    rows = found["row"].to_numpy()
    value = np.full(ROWS, np.nan)
    value[rows] = truth[rows]
    assert read_known(value, table.summary.sets).found(table.summary.sets).sum() == 6
    assert load_model(folder / model).rows_worth_checking == 0


def test_a_file_that_says_something_else_is_refused(run, model, folder):
    from plr.errors import DataError
    from plr.review_queue import ReviewQueue

    written = read_manifest(folder / model)["extra"]["page"]["review"]
    assert ReviewQueue.from_dict(written).to_dict() == written
    for wrong in (
        {},
        {**written, "row": written["row"][:-1]},
        {**written, "probability": [0.0] * len(written["row"])},
        {**written, "chosen": ["x"] * len(written["row"])},
        {**written, "candidates": [[{"value": "nan", "probability": 1.0}]] * len(written["row"])},
        {**written, "candidates": [[]] * len(written["row"])},
        {**written, "row": ["a", *written["row"][1:]]},
        {**written, "row": [2**70, *written["row"][1:]]},
        {**written, "row": [True, *written["row"][1:]]},
        {**written, "row": [None] * len(written["row"])},
        {**written, "row": ["\ud800"] * len(written["row"])},
        {**written, "columns": {"\ud800": ["x"] * len(written["row"])}},
        {**written, "columns": {"x": ["\ud800"] * len(written["row"])}},
        {**written, "candidates": [[{"value": 1, "probability": 1.0, "record": "\ud800"}]] * len(written["row"])},
    ):
        with pytest.raises(DataError, match="worth checking"):
            ReviewQueue.from_dict(wrong)
