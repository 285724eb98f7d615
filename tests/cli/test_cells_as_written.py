"""What a user wrote in a CSV file comes back as it was, and messages speak of the user's own rows and columns."""

import json

import numpy as np
import pytest

from plr import PartialLabelRegressor
from plr.columns.candidates import read_candidates
from support.tables import read_table

HEADER = "id,serial,seen,flag,city,x,y"
FORMS = [
    "00123,12345678901234567890123,2024-01-05T10:00:00Z,True,NA,25.0,1|2",
    "00007,98765432109876543210987,2024-01-06T11:00:00Z,False,n/a,1e1,2|3",
    '10000,11111111111111111111111,2024-01-07T12:00:00Z,True,"a, b",7.50,3|4',
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    random = np.random.default_rng(0)
    lines = [
        f"{x},{city},{2 * x}|{wrong}"
        for x, city, wrong in zip(
            random.integers(0, 50, 60), random.choice(["Rome", "Bonn"], 60), random.integers(0, 99, 60), strict=True
        )
    ]
    (folder / "train.csv").write_text("\n".join(["x,city,y", *lines, ""]))
    (folder / "new.csv").write_text("\n".join([HEADER, *FORMS, ""]))
    return folder


@pytest.fixture
def run(run, folder):
    if not (folder / "m.plr").exists():
        run("fit", "train.csv", "--target", "y", "-o", "m.plr", "--learner", "linear", "--no-intervals", "--no-page")
    return run


@pytest.mark.parametrize("verb", ["predict", "identify"])
def test_cells_stay_as_they_were(run, verb, tmp_path):
    out, _ = run(verb, "m.plr", "new.csv")
    lines = out.splitlines()
    assert lines[0].startswith(HEADER)
    assert all(line.startswith(f"{form},") for line, form in zip(lines[1:], FORMS, strict=True))
    run(verb, "m.plr", "new.csv", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == out


def test_doubtful_rows_and_identified_stay_as_they_were(run, tmp_path):
    out, _ = run("identify", "m.plr", "new.csv", "--doubtful", 2)
    for line in out.splitlines()[1:]:
        row = int(line.split(",")[-4])
        assert line.startswith(FORMS[row])
    (tmp_path / "t.csv").write_text(
        "code,x,y\n" + "".join(f"{i % 3:03d},{i}.0,{i}|{i * i}\n" for i in range(30)) + "001,NA,\n"
    )
    run(
        "fit", tmp_path / "t.csv", "--target", "y", "-o", tmp_path / "m.plr", "--learner", "linear", "--no-intervals",
        "--drop-empty", "--identified", tmp_path / "i.csv",
    )  # fmt: skip
    lines = (tmp_path / "i.csv").read_text().splitlines()
    assert lines[6].startswith("002,5.0,5|25,")
    assert lines[-1] == "001,NA,,,,"


def test_codes_are_texts_in_other_formats(run, tmp_path):
    run("predict", "m.plr", "new.csv", "-o", tmp_path / "p.parquet")
    table = read_table(tmp_path / "p.parquet")
    assert table["id"].to_pylist() == ["00123", "00007", "10000"]
    assert table["serial"][0].as_py() == "12345678901234567890123"


def test_codes_and_numbers_in_csv(tmp_path):
    (tmp_path / "t.csv").write_text("code,half,zero,big,gap\n01,0.5,0,1,\n2,00.5,10,9223372036854775808,07\n")
    table = read_table(tmp_path / "t.csv")
    assert [str(field.type) for field in table.schema] == ["string", "double", "int64", "string", "string"]
    assert table["gap"].to_pylist() == [None, "07"]
    assert read_candidates(table, ["code", "zero", "gap"]).to_lists() == [[1.0, 0.0], [2.0, 10.0, 7.0]]


def test_decimal_commas_become_points(run, tmp_path):
    (tmp_path / "new.csv").write_text("id;x;city\n007;1,50;Rome\n008;2,5;Bonn\n")
    out, _ = run("predict", "m.plr", tmp_path / "new.csv")
    assert out.splitlines()[1].startswith("007,1.50,Rome,")


@pytest.mark.parametrize(("verb", "first"), [("predict", "prediction"), ("identify", "value")])
def test_json_names_the_columns_as_written(run, verb, first):
    done = json.loads(run(verb, "m.plr", "new.csv", "--prefix", "p_", "--json")[0])
    assert done["columns"][0] == f"p_{first}"
    assert all(len(done[name]) == 3 for name in done["columns"])


def test_categories_that_are_new_are_told(run, tmp_path):
    (tmp_path / "new.csv").write_text("x,city\n1,Paris\n2,Rome\n3,Oslo\n")
    _, err = run("predict", "m.plr", tmp_path / "new.csv")
    assert "Column 'city': 2 cells such as 'Paris' were not in training and count as missing." in err


@pytest.mark.parametrize("command", ["check", "fit", "identify"])
def test_rows_are_counted_as_the_user_does(run, command, tmp_path):
    rows = "".join(f"{i},Rome,{i}|{i + 3}\n" for i in range(20))
    (tmp_path / "t.csv").write_text(f"x,city,y\n1,Rome,\n2,Bonn,\n3,Rome,4\ninf,Bonn,5\n{rows}")
    options = {
        "check": ("check", tmp_path / "t.csv", "--target", "y", "--drop-empty"),
        "fit": ("fit", tmp_path / "t.csv", "--target", "y", "--drop-empty", "-o", tmp_path / "m.plr"),
        "identify": ("identify", "m.plr", tmp_path / "t.csv"),
    }
    _, err = run(*options[command], code=2)
    assert "'x' is infinite in data row 3 counted from 0 (line 5 of the file)" in err


def test_weights_are_counted_as_the_user_does(run, tmp_path):
    rows = "".join(f"{i},1,{i}|{i + 3}\n" for i in range(20))
    (tmp_path / "t.csv").write_text(f"x,w,y\n1,1,\n2,,5\n{rows}")
    _, err = run(
        "fit", tmp_path / "t.csv", "--target", "y", "--weights", "w", "--drop-empty", "-o", tmp_path / "m.plr", code=2
    )
    assert "in data row 1 counted from 0 (line 3 of the file)" in err


def test_identify_without_the_target(run, tmp_path):
    (tmp_path / "t.csv").write_text("x,city,yy\n1,Rome,2|3\n")
    _, err = run("identify", "m.plr", tmp_path / "t.csv", code=2)
    assert "lacks 'y', which held the candidates in training; name it with --target." in err


@pytest.mark.parametrize("change", ["sorted", "edited", "removed"])
@pytest.mark.parametrize("verb", ["fit", "identify", "predict"])
def test_answers_are_of_the_rows_that_were_read(run, tmp_path, monkeypatch, verb, change):
    lines = [f"{i % 3:03d},{i}.0,{i}|{i * i}" for i in range(30)]
    data = tmp_path / "t.csv"
    data.write_text("\n".join(["code,x,y", *lines, ""]))
    fit = ("fit", data, "--target", "y", "-o", tmp_path / "m.plr", "--learner", "linear", "--no-intervals", "--no-page")
    if verb != "fit":
        run(*fit)

    def while_it_works(function):
        def work(*arguments, **keywords):
            data.unlink()
            if change == "sorted":
                data.write_text("\n".join(["code,x,y", *reversed(lines), ""]))
            elif change == "edited":
                data.write_text("\n".join(["code,x,y", *(line.replace("|", "|9") for line in lines), ""]))
            return function(*arguments, **keywords)

        return work

    monkeypatch.setattr(PartialLabelRegressor, verb, while_it_works(getattr(PartialLabelRegressor, verb)))
    out = tmp_path / "out.csv"
    run(*((*fit, "--identified", out) if verb == "fit" else (verb, tmp_path / "m.plr", data, "-o", out)))
    written = out.read_text().splitlines()[1:]
    assert [line.startswith(f"{given},") for line, given in zip(written, lines, strict=True)] == [True] * 30
    if verb != "predict":
        assert all(line.split(",")[3].removesuffix(".0") in line.split(",")[2].split("|") for line in written)
