"""Long tables at the command line: ``--row`` on every verb, checked rows, and mistakes that are named."""

import contextlib
import html
import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from plr import TableModel, load_model
from plr.persistence import read_manifest
from plr.report.provenance import command_of
from plr.tables import write_table
from support.candidate_mechanisms import join
from support.tables import read_table

ROWS = 80
FIT = ("--row", "id", "--target", "price", "--candidate-features", "score", "--record", "record", "--truth", "truth")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pairs of a join: the price of the right record depends on x, and the lines of a row are apart."""
    folder = tmp_path_factory.mktemp("long")
    random = np.random.default_rng(0)
    x = np.round(random.uniform(0, 10, ROWS), 3)
    truth = np.round(3 * x + 5, 2)
    lines = []
    for turn in range(3):
        for row in random.permutation(ROWS):
            right = turn == row % 3
            price = truth[row] if right else np.round(random.uniform(0, 40), 2)
            score = np.round(random.uniform(0.7, 1.0) if right else random.uniform(0, 0.9), 2)
            record = int(row if right else ROWS + random.integers(1000) * ROWS + row)
            checked = truth[row] if row < 15 else None
            lines.append((f"{row:03}", x[row], record, price, score, truth[row], checked))
    names = ["id", "x", "record", "price", "score", "truth", "checked"]
    table = pa.table({name: list(cells) for name, cells in zip(names, zip(*lines, strict=True), strict=True)})
    write_table(table, folder / "pairs.csv")
    write_table(table.drop_columns(["truth", "checked"]), folder / "new.csv")
    known = pa.table({"id": [f"{row:03}" for row in range(15)], "value": truth[:15], "note": [""] * 15})
    write_table(known, folder / "known.csv")
    return folder


@pytest.fixture
def model(run, folder):
    if not (folder / "m.plr").exists():
        run(
            "fit", "pairs.csv", *FIT, "--known", "checked", "-o", "m.plr", "--learner", "linear",
            "--identified", "chosen.csv",
        )  # fmt: skip
    return "m.plr"


def row_ids(lines):
    return list(dict.fromkeys(lines["id"].to_pylist()))


def test_fit_says_what_the_checked_rows_taught(run, tmp_path):
    out, _ = run(
        "fit", "pairs.csv", *FIT, "--ignore", "checked", "--known", "known.csv", "-o", tmp_path / "m.plr",
        "--learner", "linear", "--no-intervals",
    )  # fmt: skip
    assert f"a model of {ROWS} rows, 1 features" in out
    assert "Checked rows: 15, taken for a random sample; 15 with the true candidate." in out
    assert "What makes a candidate believable, learned from 15 checked rows:\n  a candidate with score" in out
    assert "Agreement with the model's predictions counts in full." in out
    out, _ = run(
        "fit", "pairs.csv", *FIT, "--known", "checked", "-o", tmp_path / "m.plr", "--learner", "linear",
        "--no-intervals", "--one-to-one", "--json",
    )  # fmt: skip
    done = json.loads(out)
    assert (done["rows"], done["candidates"], done["checked"]["found"]) == (ROWS, 3 * ROWS, 15)
    assert done["prior"]["false_labels_depend_on_features"] is False


def test_a_match_score_counts_before_rows_are_checked(run, tmp_path):
    fit = ("fit", "pairs.csv", *FIT, "--ignore", "checked", "-o", tmp_path / "m.plr", "--learner", "linear")
    out, _ = run(*fit, "--no-intervals", "--match-score", "score")
    assert "What makes a candidate believable, without checked rows:\n  a candidate with score" in out
    _, err = run(*fit, "--match-score", "rank", code=2)
    assert "--match-score: pairs.csv has no column 'rank'" in err


@pytest.mark.parametrize(
    "options",
    [
        ("--candidate-features", "score", "--match-score", "score", "--record", "record", "--one-to-one", "--ignore",
         "checked,chance,rank", "--known", "known.csv", "--known", "later.csv", "--prior-model", "learned"),
        ("--prior", "chance", "--prior-is", "probability", "--candidate-features", "score,rank", "--ignore", "record",
         "--known", "checked"),
    ],
    ids=["match-score", "prior"],
)  # fmt: skip
def test_the_page_says_how_to_fit_the_same_model(run, folder, tmp_path, options):
    lines = read_table(folder / "pairs.csv")
    score = lines["score"].to_numpy()
    lines = lines.append_column("chance", pa.array(score / 4)).append_column("rank", pa.array(np.round(score)))
    write_table(lines, tmp_path / "pairs.csv")
    first = read_table(folder / "known.csv")
    write_table(first.slice(0, 5), tmp_path / "later.csv")
    given = [str(tmp_path / word) if word == "later.csv" else word for word in options]
    run(
        "fit", tmp_path / "pairs.csv", "--row", "id", "--target", "price", "--truth", "truth", *given,
        "--learner", "linear", "--no-intervals", "-o", "first.plr",
    )  # fmt: skip
    manifest = read_manifest("first.plr")
    table = manifest["extra"]["table"]
    words = shlex.split(command_of(table, table["target"], "again.plr"))
    run("report", "first.plr", "-o", "first.html")
    assert html.escape(shlex.join([*words[:-1], "first.plr"])) in (folder / "first.html").read_text()
    assert [words.count(option) for option in ("--match-score", "--known")] == [
        options.count(option) for option in ("--match-score", "--known")
    ]
    # The command names files without their folders.
    for name in ("known.csv", "later.csv"):
        write_table(first if name == "known.csv" else first.slice(0, 5), tmp_path / name)
    with contextlib.chdir(tmp_path):
        run(*words[1:])
    again = read_manifest(tmp_path / "again.plr")["extra"]["table"]
    assert again == table
    new = [load_model(path).predict(folder / "new.csv") for path in (folder / "first.plr", tmp_path / "again.plr")]
    np.testing.assert_array_equal(*new)


def test_the_model_needs_no_options_again(run, folder, model):
    chosen = read_table(folder / "chosen.csv")
    assert chosen.num_rows == ROWS
    # Each line is that of the candidate which was chosen.
    assert chosen["value"].equals(chosen["price"])
    out, _ = run("identify", model, "new.csv", "-o", "answers.csv")
    assert f"Wrote answers.csv: {ROWS} rows. Of {ROWS} with several candidates" in out
    answers = read_table(folder / "answers.csv")
    assert answers.column_names == ["id", "x", "record", "price", "score", "value", "probability", "index"]
    assert answers["id"].to_pylist() == row_ids(read_table(folder / "new.csv"))
    predicted = run("predict", model, "new.csv")[0].splitlines()
    assert predicted[0] == "id,x,prediction"
    assert len(predicted) == ROWS + 1
    found = json.loads(run("evaluate", model, "pairs.csv", "--json")[0])
    assert (found["rows"], found["rows_trained_on"]) == (ROWS, ROWS)
    assert found["identification"]["accuracy"] > 0.9
    assert json.loads(run("evaluate", model, "pairs.csv", "--truth", "checked", "--json")[0])["rows"] == 15
    page, _ = run("report", model, "-o", "page.html", "--data", "pairs.csv")
    assert page.strip() == "page.html"


def test_all_candidates_and_the_most_doubtful(run, folder, model):
    out, _ = run("identify", model, "new.csv", "--all", "-o", "all.csv")
    assert f"Wrote all.csv: {3 * ROWS} candidates. Of {ROWS} rows with several" in out
    every, new = read_table(folder / "all.csv"), read_table(folder / "new.csv")
    assert every.select(new.column_names).equals(new)
    assert sum(every["chosen"].to_pylist()) == ROWS
    total = every.group_by("id").aggregate([("probability", "sum")])["probability_sum"].to_numpy()
    # Written with six digits.
    assert (total <= 1.0 + 3e-6).all()
    doubtful = run("identify", model, "new.csv", "--doubtful", "3")[0].splitlines()
    assert doubtful[0] == "id,x,record,price,score,value,probability,index"
    assert len(doubtful) == 4
    for options, count in (("--doubtful", "3"), 3), (("--all",), 3 * ROWS), ((), ROWS):
        shown = json.loads(run("identify", model, "new.csv", *options, "--json")[0])
        assert len(shown["id"]) == len(shown["probability"]) == count
    assert json.loads(run("predict", model, "new.csv", "--json")[0])["id"] == row_ids(new)


def test_all_candidates_of_cells_with_several(run, folder):
    table = "x,note,y\n" + "".join(f"{x},n{x},{x}|{x * 7 % 11}\n" for x in range(1, 25)) + "30,none,\n"
    (folder / "cells.csv").write_text(table)
    run(
        "fit",
        "cells.csv",
        "--target",
        "y",
        "--learner",
        "linear",
        "--ignore",
        "note",
        "-o",
        "cells.plr",
        "--drop-empty",
    )
    run("identify", "cells.plr", "cells.csv", "--all", "-o", "every.csv")
    every = read_table(folder / "every.csv")
    assert every.column_names == ["x", "note", "y", "row", "value", "probability", "index", "chosen"]
    assert every["row"].to_pylist() == [row for row in range(24) for _ in range(2)] + [24]
    assert every["index"].to_pylist() == [0, 1] * 24 + [None]
    assert every["chosen"].to_pylist().count(True) == 24
    assert every["note"].to_pylist()[-3:] == ["n24", "n24", "none"]
    shown = json.loads(run("identify", "cells.plr", "cells.csv", "--all", "--json")[0])
    assert len(shown["value"]) == 49


def test_rows_to_check_go_by_their_ids(run, folder, model):
    run("review", model, "-n", "5", "-o", "review.csv")
    run("review", model, "new.csv", "-n", "5", "-o", "review_new.csv")
    for name in ("review.csv", "review_new.csv"):
        assert set(read_table(folder / name)["row"].cast(pa.string()).to_pylist()) <= set(
            row_ids(read_table("new.csv"))
        )


def test_check_and_fit_notice_a_long_table(run):
    wide = ("--target", "price", "--ignore", "record,truth,checked")
    _, err = run("check", "pairs.csv", *wide)
    assert "this looks like a long table, with one line per candidate" in err
    assert "--row id" in err
    out, err = run("check", "pairs.csv", *FIT, "--known", "checked")
    assert "long table" not in err
    assert f"{ROWS} rows with {3 * ROWS} candidates" in out


def test_check_and_fit_take_a_match_score(run, tmp_path):
    problem = join(120)
    row = problem.S.row_index
    columns = {f"x{n}": column[row] for n, column in enumerate(problem.X.T)}
    score = np.random.default_rng(0).uniform(0.0, 1.0, len(row))
    write_table(pa.table({"id": row, "y": problem.S.values, "score": score, **columns}), tmp_path / "join.csv")
    table = ("check", tmp_path / "join.csv", "--row", "id", "--target", "y")
    out, _ = run(*table, "--candidate-features", "score")
    assert out.startswith("This data cannot tell you which candidates are true.")
    assert "(at the command line, --known)" in out
    out, _ = run(*table, "--match-score", "score")
    assert out.startswith("Thin")
    assert "which are true is learned from the match score." in out
    assert json.loads(run(*table, "--match-score", "score", "--json")[0])["has_score"] is True
    fit = ("fit", *table[1:], "-o", tmp_path / "m.plr", "--learner", "linear", "--no-intervals")
    for verb in (table, fit):
        _, err = run(*verb, "--candidate-features", "score", "--match-score", "scores", code=2)
        assert "--match-score: " in err
        assert "has no column 'scores'; did you mean 'score'?" in err
        _, err = run(*verb, "--match-score", "score,x0", code=2)
        assert "--match-score takes one column, not 2." in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--row", "ID"), "--row: pairs.csv has no column 'ID'; did you mean 'id'?"),
        (("--row", "id"), "the lines of row 0"),
        (("--row", "id", "--ignore", "score,record", "--one-to-one"), "--one-to-one needs to know which record"),
        (("--row", "id", "--ignore", "score,record", "--known", "none.csv"), "--known none.csv: pairs.csv has no such"),
        (("--row", "id", "--ignore", "score,record", "--prior-is", "probability"), "--prior-is says what the numbers"),
        (("--candidate-features", "scores"), "did you mean 'score'?"),
        (("--known", "bare.csv", "--row", "id", "--ignore", "score,record"), "lacks the column 'value'"),
        (("--known", "twice.csv", "--row", "id", "--ignore", "score,record"), "id 001 was given before"),
        (("--known", "known.csv", "--ignore", "score,record"), "lacks the column 'row'; known labels have 'row', the"),
    ],
)
def test_mistakes_are_named(run, folder, arguments, message):
    (folder / "twice.csv").write_text("id,value\n001,2\n001,3\n")
    (folder / "bare.csv").write_text("id,price\n001,2\n")
    _, err = run("fit", "pairs.csv", "--target", "price", *arguments, "-o", "never.plr", code=2)
    assert message in err.splitlines()[-1]
    assert not (folder / "never.plr").exists()


def test_generate_writes_long_tables(run, folder, model):
    labelled = "id,x,truth\n" + "".join(f"{row},{row / 7:.3f},{row * 2}\n" for row in range(60))
    (folder / "labelled.csv").write_text(labelled)
    options = ("--target", "truth", "--set-size", "fixed", "--false-labels", "2", "--truth-column", "y")
    out, _ = run("generate", "labelled.csv", *options, "--row", "id", "-o", "made.csv")
    assert "60 rows, 3.00 candidates a row" in out
    made = read_table(folder / "made.csv")
    assert made.num_rows == 180
    assert made["id"].to_pylist() == np.repeat(np.arange(60), 3).tolist()
    run("check", "made.csv", "--row", "id", "--target", "truth", "--truth", "y")
    run("generate", "labelled.csv", *options, "--row", "number", "-o", "made.parquet")
    made = read_table(folder / "made.parquet")
    assert made.column_names == ["number", "id", "x", "truth", "y"]
    assert set(made["number"].to_pylist()) == set(range(1, 61))
    (folder / "labelled.csv").write_text(labelled + "59,1,2\n")
    _, err = run("generate", "labelled.csv", *options, "--row", "id", "-o", "never.csv", code=2)
    assert "is no row id; name another with --row" in err


def test_match_score(run, tmp_path):
    columns = ("--row", "id", "--target", "price", "--record", "record", "--truth", "truth", "--ignore", "checked")
    out, _ = run(
        "fit", "pairs.csv", *columns, "--match-score", "score", "-o", tmp_path / "m.plr", "--learner", "linear",
        "--no-intervals",
    )  # fmt: skip
    assert "without checked rows" in out
    assert "a candidate with score" in out


def test_review_goes_by_ids_and_back_to_fit(run, model, tmp_path):
    run("review", model, "-n", "20", "-o", "review.csv")
    kept = read_manifest(model)["extra"]["page"]["review"]["row"]
    found = read_table("review.csv")
    assert found["row"].to_pylist() == kept[:20]
    run("review", model, "pairs.csv", "--known", "review.csv", "-n", "65", "-o", "all.csv")
    # The first 15 were checked in training.
    assert sorted(read_table("all.csv")["row"].to_pylist()) == [f"{row:03}" for row in range(15, ROWS)]
    lines = read_table("pairs.csv")
    record = dict(
        zip(
            *(lines.filter(pc.equal(lines["price"], lines["truth"]))[name].to_pylist() for name in ("id", "record")),
            strict=True,
        )
    )
    filled = found.set_column(
        found.column_names.index("record"), "record", pa.array([record[row] for row in found["row"].to_pylist()])
    )
    write_table(filled, "review.csv")
    out, _ = run(
        "fit", "pairs.csv", *FIT, "--ignore", "checked", "--known", "known.csv", "--known", "review.csv",
        "-o", tmp_path / "m.plr", "--learner", "linear", "--no-intervals", "--no-page",
    )  # fmt: skip
    assert "Checked rows: 35; 35 with the true candidate." in out
    run("review", model, "pairs.csv", "--known", "review.csv", "-n", "65", "-o", "rest.csv")
    assert not {*read_table("rest.csv")["row"].to_pylist()} & {"000", "014", *found["row"].to_pylist()}


def test_ids_that_are_texts_are_found_in_a_csv_file(tmp_path):
    ids = [f"{row:03}" for row in range(30) for _ in range(2)]
    values = [float(entry) for entry in range(60)]
    lines = pa.table({"id": ids, "x": [float(row) for row in range(30) for _ in range(2)], "y": values})
    write_table(pa.table({"row": ["007", "008"], "value": [14.0, 17.0]}), tmp_path / "known.csv")
    known = tmp_path / "known.csv"
    model = TableModel(learner="linear", random_state=0).fit(lines, "y", row="id", known=known, intervals=False)
    assert model.summary.checked["found"] == 2
    assert not {"007", "008"} & set(model.review(28, random_state=0)["row"].to_pylist())
