"""``plr fit``, ``predict``, ``identify`` and ``evaluate``: from a table to answers that can be checked."""

import json
import re
import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from plr import PartialLabelRegressor, load_model, save_model
from plr.candidates import CandidateSets
from plr.cli import main
from plr.cli.common import warnings_as_notes
from plr.errors import PlrWarning
from plr.identification import Identification
from plr.metrics import ChoiceMetrics, ErrorMetrics
from plr.sources.recipe import with_recipe
from plr.tables import write_table
from support.tables import read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of two features, and a model of it."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    x = np.round(random.uniform(0, 10, 120), 3)
    kind = random.choice(["red", "blue"], 120)
    y = np.round(2 * x + 10 * (kind == "red"), 3)
    wrong = np.round(random.uniform(0, 30, 120), 3)
    swapped = random.random(120) < 0.5
    first, second = np.where(swapped, wrong, y), np.where(swapped, y, wrong)
    table = pa.table({"x": x, "kind": kind.tolist(), "first": first, "second": second, "truth": y})
    write_table(table, folder / "wide.csv")
    sets = CandidateSets.from_columns(table, ["first", "second"])
    listed = pa.table({"kind": kind.tolist(), "x": x, "y": sets.to_arrow(), "truth": y})
    made = with_recipe(listed.schema, {"truth_column": "truth"}).metadata
    write_table(listed.slice(0, 100).replace_schema_metadata(made), folder / "train.parquet")
    write_table(listed.slice(100), folder / "test.csv")
    return folder


@pytest.fixture
def model(run, folder):
    if not (folder / "m.plr").exists():
        run("fit", "train.parquet", "--target", "y", "-o", "m.plr", "--learner", "linear")
    return folder / "m.plr"


def csv(text):
    return pyarrow.csv.read_csv(pa.BufferReader(text.encode()))


def test_fit_tells_what_it_did(run, tmp_path):
    out, err = run(
        "fit", "train.parquet", "--target", "y", "-o", tmp_path / "m.plr", "--learner", "linear", "--json",
        "--identified", tmp_path / "i.parquet",
    )  # fmt: skip
    done = json.loads(out)
    assert done["features"] == ["kind", "x"]
    assert {column["name"]: column["kind"] for column in done["columns"]} == {"kind": "category", "x": "number"}
    assert done["truth"] == "truth"
    assert "'truth', which holds the true labels as the file itself says" in err
    found = read_table(tmp_path / "i.parquet")
    assert found.column_names == ["kind", "x", "y", "truth", "value", "probability", "index"]
    right = np.isclose(found["value"].to_numpy(), found["truth"].to_numpy())
    assert right.mean() > 0.9
    doubt = done["doubt"]
    assert doubt["settled"] + doubt["likely"] + doubt["doubtful"] == doubt["rows_with_several"] == 100
    assert doubt["doubtful"] == int((found["probability"].to_numpy() < 0.8).sum())


def test_fit_says_that_rows_are_few(run, tmp_path, folder):
    write_table(read_table(folder / "train.parquet").slice(0, 12), tmp_path / "few.csv")
    _, err = run(
        "fit", tmp_path / "few.csv", "--target", "y", "--truth", "truth", "-o", tmp_path / "m.plr",
        "--effort", "low", "--no-intervals",
    )  # fmt: skip
    assert "Note: 12 rows are few to tell which of their candidates are true" in err
    assert "Note: with fewer than 50 rows the committee has neither boosted trees nor networks." in err
    run("report", tmp_path / "m.plr", "-o", tmp_path / "page.html")
    assert re.search(r"Committee: (density|Gaussian process)[^<]* \d+%", (tmp_path / "page.html").read_text())


def test_an_effort_that_would_do_nothing_is_refused(run, tmp_path):
    _, err = run(
        "fit", "train.parquet", "--target", "y", "-o", tmp_path / "m.plr",
        "--learner", "linear", "--effort", "low", code=2,
    )  # fmt: skip
    assert "--effort 'low' is for the committee, and the learner is Linear; leave it out" in err


def test_same_seed_same_model(run, model, tmp_path, folder):
    run("fit", "train.parquet", "--target", "y", "-o", tmp_path / "again.plr", "--learner", "linear")
    X = pa.table({"kind": ["red", "blue"], "x": [1.0, 2.0]})
    np.testing.assert_array_equal(load_model(tmp_path / "again.plr").predict(X), load_model(model).predict(X))


def test_predict_keeps_columns_and_prints_csv(run, model, tmp_path):
    out, _ = run("predict", model, "test.csv", "--interval", "0.9")
    table = csv(out)
    assert table.column_names == ["kind", "x", "y", "truth", "prediction", "lower", "upper"]
    np.testing.assert_allclose(table["prediction"].to_numpy(), table["truth"].to_numpy(), atol=1.0)
    assert (table["lower"].to_numpy() < table["prediction"].to_numpy()).all()
    run("predict", model, "test.csv", "-o", tmp_path / "p.feather")
    np.testing.assert_allclose(
        read_table(tmp_path / "p.feather")["prediction"].to_numpy(), table["prediction"].to_numpy()
    )
    done = json.loads(run("predict", model, "test.csv", "--json")[0])
    np.testing.assert_allclose(done["prediction"], table["prediction"].to_numpy())


def test_methods_of_intervals_and_what_they_assume(run, model, tmp_path):
    ends = {}
    for method in ("adaptive", "constant", "guaranteed"):
        out, err = run("predict", model, "test.csv", "--interval", "0.8", "--method", method)
        table = csv(out)
        ends[method] = table["upper"].to_numpy() - table["lower"].to_numpy()
        said = "if each row's candidates include" if method == "guaranteed" else "if false labels are spread evenly"
        assert err.count(f"Intervals hold as often as asked {said}") == 1
    assert (ends["guaranteed"] > ends["constant"]).all()
    np.testing.assert_allclose(ends["constant"], ends["constant"][0], atol=1e-9)
    same, _ = run("predict", model, "test.csv", "--interval", "0.8")
    np.testing.assert_allclose(csv(same)["upper"].to_numpy() - csv(same)["lower"].to_numpy(), ends["adaptive"])
    # Nothing is assumed of single labels, and nothing said without intervals.
    run("fit", "test.csv", "--target", "truth", "--ignore", "y", "--learner", "linear", "-o", tmp_path / "plain.plr")
    assert "as often as asked" not in run("predict", tmp_path / "plain.plr", "test.csv", "--interval", "0.8")[1]
    assert "as often as asked" not in run("predict", model, "test.csv")[1]


def test_checked_rows_make_a_tolerance_interval(run, tmp_path, folder):
    table = read_table(folder / "train.parquet")
    known = [label if row < 40 else None for row, label in enumerate(table["truth"].to_pylist())]
    write_table(table.append_column("known", pa.array(known)), tmp_path / "known.parquet")
    run(
        "fit", tmp_path / "known.parquet", "--target", "y", "--truth", "truth", "--known", "known",
        "--learner", "linear", "-o", tmp_path / "m.plr",
    )  # fmt: skip
    _, err = run("predict", tmp_path / "m.plr", "test.csv", "--interval", "0.9", "--method", "guaranteed")
    assert "with 95 % confidence, if the checked rows were drawn at random" in err
    _, err = run("predict", tmp_path / "m.plr", "test.csv", "--interval", "0.98", "--method", "guaranteed")
    assert "if each row's candidates include its true value" in err


def test_new_tables_may_differ(run, model, tmp_path):
    (tmp_path / "new.csv").write_text("note,x,kind\nhi,1.5,red\n,2.5,green\nyo,,blue\n")
    out, err = run("predict", model, tmp_path / "new.csv")
    assert csv(out).num_rows == 3
    assert "Not used, since the model was trained without: note." in err


def test_names_that_are_taken(run, model, tmp_path, monkeypatch, capfd):
    (tmp_path / "new.csv").write_text("prediction,x,kind\n1,1.5,red\n")
    monkeypatch.setattr(sys, "argv", ["plr", "predict", str(model), str(tmp_path / "new.csv")])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "has a column 'prediction' already" in capfd.readouterr().err
    out, _ = run("predict", model, tmp_path / "new.csv", "--prefix", "plr_")
    assert csv(out).column_names == ["prediction", "x", "kind", "plr_prediction"]


def test_identify_several_columns_names_the_source(run, tmp_path, folder):
    (tmp_path / "holes.csv").write_text((folder / "wide.csv").read_text() + "1,red,,12,12\n2,blue,,,4\n")
    fit = ("fit", tmp_path / "holes.csv", "--target", "first,second", "--truth", "truth", "--learner", "linear")
    run(*fit, "--drop-empty", "-o", tmp_path / "m.plr", "--identified", tmp_path / "i.csv")
    found = read_table(tmp_path / "i.csv")
    assert found.column_names[-4:] == ["value", "probability", "index", "source"]
    rows = found.to_pylist()
    assert all(row["value"] == row[row["source"]] for row in rows[:-1])
    assert (rows[-2]["source"], rows[-2]["index"], rows[-2]["probability"]) == ("second", 1, 1.0)
    assert (rows[-1]["value"], rows[-1]["source"]) == (None, None)
    out, err = run("identify", tmp_path / "m.plr", tmp_path / "holes.csv")
    assert "1 of 122 rows have no candidate and get no answer" in err
    assert csv(out)["source"].to_pylist()[-2:] == ["second", ""]


def test_the_most_doubtful_rows_come_first(run, model):
    out, _ = run("identify", model, "test.csv", "--doubtful", "5")
    few = csv(out)
    every = csv(run("identify", model, "test.csv")[0])
    assert few["probability"].to_pylist() == sorted(every["probability"].to_pylist())[:5]
    assert [every["x"][row].as_py() for row in few["row"].to_pylist()] == few["x"].to_pylist()


def test_rows_seen_in_training_are_pointed_out(run, model):
    assert "has seen their candidates" in run("identify", model, "train.parquet", "--json")[1]
    assert "all of them were trained on" in run("evaluate", model, "train.parquet")[0]
    assert "trained on" not in run("evaluate", model, "test.csv", "--truth", "truth")[0]


def test_evaluate(run, model):
    found = json.loads(run("evaluate", model, "test.csv", "--truth", "truth", "--json")[0])
    assert found["rows"] == 20
    assert found["r2"] > 0.95
    assert found["mse"] < 0.1 * found["baseline_mse"]
    interval = found["interval"]
    assert interval["coverage"] >= 0.8
    assert interval["interval_score"] >= interval["mean_width"] > 0
    assert interval["coverage_error"] < 0.15
    assert interval["assumes"].startswith("false labels are spread evenly")
    assert found["identification"]["accuracy"] >= 0.9
    out, _ = run("evaluate", model, "test.csv")
    assert "20 rows with a true label in 'truth'" in out
    assert f"interval score        {interval['interval_score']:.6g}" in out
    assert "R²" in out


def test_evaluate_where_the_truth_is_never_among_the_candidates(run, model, tmp_path):
    table = read_table("train.parquet")
    away = pa.array(table["truth"].to_numpy() + np.pi)
    write_table(table.set_column(table.column_names.index("truth"), "truth", away), tmp_path / "t.parquet")
    out, _ = run("evaluate", model, tmp_path / "t.parquet", "--truth", "truth")
    assert "choices cannot be scored: the truth is never among the candidates" in out
    assert "chosen" not in out
    assert "probabilities" not in out


def test_evaluate_and_identify_take_the_prior_of_training(run, folder, tmp_path):
    table = read_table("train.parquet")
    sets = CandidateSets.from_arrow(table["y"].combine_chunks())
    is_true = sets.values == table["truth"].to_numpy()[sets.row_index]
    bounds = zip(sets.offsets, sets.offsets[1:], strict=False)
    raw = np.where(is_true, 0.98, 0.02)
    table = table.append_column("sure", [[(raw[a:b] / raw[a:b].sum()).tolist() for a, b in bounds]])
    write_table(table, tmp_path / "t.parquet")
    run(
        "fit", tmp_path / "t.parquet", "--target", "y", "--prior", "sure", "--truth", "truth", "--learner", "linear",
        "--no-intervals", "-o", tmp_path / "m.plr",
    )  # fmt: skip
    out, err = run("evaluate", tmp_path / "m.plr", tmp_path / "t.parquet", "--json")
    assert "'sure', as in training" in err
    asked = run("evaluate", tmp_path / "m.plr", tmp_path / "t.parquet", "--prior", "sure", "--json")
    assert (json.loads(asked[0]), "as in training" in asked[1]) == (json.loads(out), False)
    named, told = (
        run("identify", tmp_path / "m.plr", tmp_path / "t.parquet", "--json", *more)[0]
        for more in (["--prior", "sure"], [])
    )
    assert json.loads(told)["rows"] == json.loads(named)["rows"]
    write_table(table.drop_columns(["sure"]), tmp_path / "u.parquet")
    other, err = run("evaluate", tmp_path / "m.plr", tmp_path / "u.parquet", "--json")
    assert "trained with the prior 'sure', which is not used here" in err
    errors = [json.loads(found)["identification"]["calibration_error"] for found in (out, other)]
    assert errors[0] < errors[1]
    assert run("report", tmp_path / "m.plr", "-o", tmp_path / "p.html", "--data", tmp_path / "t.parquet", "--prior",
               "sure")[0]  # fmt: skip


def test_models_from_python(run, folder, tmp_path):
    import pandas

    frame = pandas.read_parquet(folder / "train.parquet")
    model = PartialLabelRegressor("linear").fit(frame[["x", "kind"]], frame["truth"])
    save_model(model, tmp_path / "named.plr")
    by_name = csv(run("predict", tmp_path / "named.plr", "test.csv")[0])
    np.testing.assert_allclose(by_name["prediction"].to_numpy(), by_name["truth"].to_numpy(), atol=1e-6)
    out, _ = run("identify", tmp_path / "named.plr", "test.csv", "--target", "y")
    np.testing.assert_allclose(csv(out)["value"].to_numpy(), by_name["truth"].to_numpy())
    save_model(PartialLabelRegressor("linear").fit(frame[["x"]].to_numpy(), frame["truth"]), tmp_path / "plain.plr")
    (tmp_path / "one.csv").write_text("speed\n1.5\n2.5\n")
    out, err = run("predict", tmp_path / "plain.plr", tmp_path / "one.csv")
    assert csv(out).num_rows == 2
    assert "taken in order: speed" in err


def test_prior_weights_and_groups(run, folder, tmp_path):
    table = read_table(folder / "train.parquet")
    sure = [
        [0.99 if value == truth else 0.01 for value in row]
        for row, truth in zip(table["y"].to_pylist(), table["truth"].to_pylist(), strict=True)
    ]
    table = table.append_column("sure", [pa.array(sure)]).append_column("w", [pa.array([1.0] * 50 + [2.0] * 50)])
    table = table.append_column("g", [pa.array([i // 4 for i in range(100)])])
    write_table(table, tmp_path / "t.parquet")
    out, _ = run(
        "fit", tmp_path / "t.parquet", "--target", "y", "--prior", "sure", "--weights", "w", "--groups", "g",
        "--truth", "truth", "-o", tmp_path / "m.plr", "--learner", "linear", "--no-intervals", "--json",
        "--identified", tmp_path / "i.parquet",
    )  # fmt: skip
    assert json.loads(out)["features"] == ["kind", "x"]
    found = read_table(tmp_path / "i.parquet")
    np.testing.assert_array_equal(found["value"].to_numpy(), found["truth"].to_numpy())


def test_errors_and_choices_by_hand():
    errors = ErrorMetrics()
    errors.add(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 2.0]))
    found = errors.figures()
    assert found["mse"] == pytest.approx(10 / 3)
    assert found["mae"] == pytest.approx(4 / 3)
    assert found["median_absolute_error"] == 1.0
    assert found["r2"] == pytest.approx(1 - 10 / 2)
    sets = CandidateSets.from_lists([[1.0, 2.0], [3.0, 4.0], [5.0]])
    given = Identification(
        np.array([0, 1, 0]), np.array([1.0, 4.0, 5.0]), np.array([0.75, 0.75, 1.0]),
        np.array([0.75, 0.25, 0.25, 0.75, 1.0]), np.zeros(3),
    )  # fmt: skip

    def choices_of(truth):
        choices = ChoiceMetrics()
        choices.add(given, sets, truth)
        return choices.figures()

    choice = choices_of(np.array([1.0, 3.0, 9.0]))
    assert choice["accuracy_with_several"] == 0.5
    assert choice["by_chance_with_several"] == 0.5
    assert choice["rows_with_truth_among_candidates"] == 2
    assert choice["calibration_error"] == pytest.approx((0.5 + 0.5) / 4)
    assert (choice["rows"], choice["rows_with_several"], choice["rows_scored_with_several"]) == (3, 2, 2)
    never = choices_of(np.array([1.4, 3.4, 9.0]))
    assert never["rows_with_truth_among_candidates"] == 0
    assert never["accuracy"] is never["accuracy_with_several"] is never["calibration_error"] is None


@pytest.mark.parametrize("verb", ["check", "fit", "predict", "identify", "evaluate"])
def test_help_has_an_example(run, verb):
    out, _ = run(verb, "--help")
    assert f"plr {verb}" in " ".join(out.split())
    assert "Example" in out


def test_what_cannot_be_saved_is_said_before_the_fit(run, tmp_path, monkeypatch):
    def too_late(*_, **__):
        raise AssertionError("it was fitted before")

    monkeypatch.setattr(PartialLabelRegressor, "fit", too_late)
    out, err = run(
        "fit", "train.parquet", "--target", "y", "-o", tmp_path / "m.plr", "--learner", "boosting",
        "--option", 'params={"linear_tree": true}', code=2,
    )  # fmt: skip
    assert out == ""
    assert err.startswith("plr: The model cannot be written to a file because of its learner.params: trees with linear")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_warnings_of_other_libraries_are_one_line_each(capsys):
    with warnings_as_notes():
        for _ in range(3):
            warnings.warn_explicit("two\nlines", UserWarning, "/x/site-packages/sklearn/base.py", 1)
        warnings.warn_explicit("ill-conditioned", RuntimeWarning, "/x/site-packages/scipy.py", 1)
        warnings.warn_explicit("for authors", DeprecationWarning, "/x/site-packages/scipy.py", 1)
        warnings.warn_explicit("overflow encountered in exp", RuntimeWarning, "/x/plr/rule.py", 1)
        warnings.warn_explicit("of our own", PlrWarning, "/x/plr/rule.py", 1)
    notes = capsys.readouterr().err.splitlines()
    assert notes == ["Note: sklearn warns: two lines", "Note: scipy warns: ill-conditioned", "Note: of our own"]
