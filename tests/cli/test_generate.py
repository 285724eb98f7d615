"""``plr generate`` replaces the target by candidates, writes down how, and leaves nothing half-written."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from plr.cli import app
from plr.columns.candidates import read_candidates
from plr.errors import CandidateError, DataError, DataNotFoundError, ParameterError, PlrError
from plr.generation import MECHANISMS, make_candidates
from plr.sources.recipe import read_recipe
from plr.tables.generation import generate_table
from support.tables import read_table

ENDINGS = ["csv", "parquet", "feather", "jsonl"]


@pytest.fixture
def labels():
    return np.round(np.random.default_rng(0).normal(30, 5, 200), 3)


@pytest.fixture
def source(tmp_path, labels):
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.normal(size=200), "y": labels, "kind": rng.choice(["x", "y"], 200).tolist()})
    path = tmp_path / "source.csv"
    pyarrow.csv.write_csv(table, path)
    return path


def generate(data, target, out, truth_column=None, **settings):
    given = {"false_labels": None, "set_size": None, "mechanism": "uniform", "missing": 0.0, "random_state": 0}
    return generate_table(data, target, out, {**given, **settings}, truth_column=truth_column)


def run(*arguments):
    return CliRunner().invoke(app, ["generate", *map(str, arguments)])


@pytest.mark.parametrize("ending", ENDINGS)
def test_candidates_take_the_place_of_the_target(source, labels, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    result = run(source, "--target", "y", "-o", out, "--false-labels", 3, "--truth-column", "truth", "--seed", 5)
    assert result.exit_code == 0, result.output
    table = read_table(out)
    assert table.column_names == ["a", "y", "kind", "truth"]
    assert read_candidates(table, ["y"]) == make_candidates(labels, 3, random_state=5)
    np.testing.assert_array_equal(table["truth"].to_numpy(), labels)
    assert table["kind"].to_pylist() == read_table(source)["kind"].to_pylist()


def test_truth_is_not_written_unless_asked(source, tmp_path):
    _, made = generate(source, "y", tmp_path / "out.parquet")
    assert read_table(tmp_path / "out.parquet").column_names == ["a", "y", "kind"]
    assert made["truth_column"] is None


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_table_carries_what_made_it(source, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    result = run(source, "--target", "y", "-o", out, "--mechanism", "gaussian", "--option", "spread=0.1", "--json")
    recipe = read_recipe(read_table(out).schema)
    assert json.loads(result.stdout)["recipe"] == recipe
    assert recipe["options"] == {"spread": 0.1}
    assert (recipe["mechanism"], recipe["seed"], recipe["target"]) == ("gaussian", 0, "y")
    assert recipe["source"] == "source.csv"


def test_csv_says_on_stderr_what_made_it(source, tmp_path):
    result = run(source, "--target", "y", "-o", tmp_path / "out.csv")
    assert '"mechanism": "uniform"' in result.stderr
    assert "mechanism" not in result.stdout
    assert "200 rows" in result.stdout


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_can_be_reached(source, labels, tmp_path, mechanism):
    out = tmp_path / "out.parquet"
    result = run(source, "--target", "y", "-o", out, "--mechanism", mechanism, "--missing", 0.1)
    assert result.exit_code == 0, result.output
    sets = read_candidates(read_table(out), ["y"])
    holds = [label in row for label, row in zip(labels.tolist(), sets.to_lists(), strict=True)]
    assert sum(holds) == 180


def test_help_names_every_mechanism():
    text = run("--help").output
    assert all(name in text for name in MECHANISMS)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"target": "z"}, ParameterError, "target: .* has no column 'z'"),
        ({"target": "kind"}, CandidateError, "must be numbers"),
        ({"truth_column": ""}, ParameterError, "truth_column needs a name"),
        ({"truth_column": "a"}, ParameterError, "has a column of that name"),
        ({"mechanism": "normal"}, ParameterError, "Unknown mechanism"),
        ({"speed": 1}, ParameterError, "no option 'speed'"),
        ({"false_labels": -2}, ParameterError, "false_labels"),
        ({"missing": 2.0}, ParameterError, "missing"),
    ],
)
def test_bad_input_writes_nothing(source, tmp_path, changes, error, message):
    out = tmp_path / "out.csv"
    with pytest.raises(error, match=message):
        generate(**{"data": source, "target": "y", "out": out, **changes})
    assert [path.name for path in tmp_path.iterdir()] == ["source.csv"]


def test_bad_files(source, tmp_path):
    with pytest.raises(DataNotFoundError, match=r"no\.csv"):
        generate(tmp_path / "no.csv", "y", tmp_path / "out.csv")
    with pytest.raises(DataNotFoundError, match="no folder"):
        generate(source, "y", tmp_path / "nowhere" / "out.csv")
    with pytest.raises(ParameterError, match="known endings"):
        generate(source, "y", tmp_path / "out.xls")
    (tmp_path / "hole.csv").write_text("a,y\n1,2\n2,\n")
    with pytest.raises(CandidateError, match="row 1"):
        generate(tmp_path / "hole.csv", "y", tmp_path / "out.csv")


@pytest.mark.parametrize("option", ["spread", "spread=wide"])
def test_bad_option(source, tmp_path, option):
    result = run(source, "--target", "y", "-o", tmp_path / "out.csv", "--mechanism", "gaussian", "--option", option)
    assert isinstance(result.exception, PlrError)
    assert option in str(result.exception)


@pytest.mark.parametrize("spelling", ["itself", "detour", "link", "hard link"])
def test_output_never_replaces_its_input(source, tmp_path, spelling):
    before = source.read_bytes()
    out = {"itself": source, "detour": tmp_path / "sub" / ".." / "source.csv"}.get(spelling, tmp_path / "link.csv")
    (tmp_path / "sub").mkdir()
    if spelling == "link":
        out.symlink_to(source)
    elif spelling == "hard link":
        out.hardlink_to(source)
    assert "name two different files" in str(run(source, "--target", "y", "-o", out).exception)
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["1", "", "nan"],
            r"empty or not finite in data row 1 counted from 0 \(line 3 of the file\), and in 1 more of 3",
        ),
        (["1", "2", ""], r"in data row 2 counted from 0 \(line 4 of the file\); fill in"),
        (["1", "low", "3"], r"must be numbers; data row 1 counted from 0 \(line 3 of the file\) has 'low'"),
    ],
)
def test_unusable_labels_are_named_with_their_line(tmp_path, cells, message):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    with pytest.raises(CandidateError, match=message):
        generate(path, "y", tmp_path / "out.csv")


def test_other_separators_are_understood_and_folders_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;y\n1,5;2\n2,5;3\n")
    generate(path, "y", tmp_path / "out.parquet", false_labels=0)
    assert read_table(tmp_path / "out.parquet").to_pylist() == [{"a": 1.5, "y": [2.0]}, {"a": 2.5, "y": [3.0]}]
    path.write_text("a;y\n1,5;2.5\n")
    with pytest.raises(DataError, match="decimal"):
        generate(path, "y", tmp_path / "out.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataNotFoundError, match="has no Parquet files"):
        generate(tmp_path / "folder", "y", tmp_path / "out.csv")


def test_messages_speak_of_options(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,2\n2,2\n")
    seed = run(path, "--target", "y", "-o", tmp_path / "out.csv", "--seed", -1)
    assert str(seed.exception).startswith("--seed must be")
    span = run(path, "--target", "y", "-o", tmp_path / "out.csv")
    assert "give --option span=[low,high]" in str(span.exception)


def test_frame_written_by_pandas_keeps_its_index(labels, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": labels, "y": labels}, index=[f"row{place}" for place in range(200)])
    frame.to_parquet(tmp_path / "frame.parquet")
    generate(tmp_path / "frame.parquet", "y", tmp_path / "out.parquet", false_labels=2, set_size="fixed")
    back = pandas.read_parquet(tmp_path / "out.parquet")
    assert back.index[3] == "row3"
    assert [len(cell) for cell in back["y"]] == [3] * 200
