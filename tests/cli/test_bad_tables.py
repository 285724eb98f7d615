"""Bad tables: each ends with exit code 2, one clear line on stderr, and nothing written."""

import gzip
import io
import json
import os
import sys

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from plr.cli import main
from plr.sources import files
from support.tables import read_table

ROWS = "".join(f"{i},{i % 7},{i * 2}|{i * 3 + 1}\n" for i in range(1, 41))
GOOD = f"a,b,y\n{ROWS}"


def parquet(table=None):
    out = io.BytesIO()
    pyarrow.parquet.write_table(table or pa.table({"a": list(range(100)), "y": [[1.0, 2.0]] * 100}), out)
    return out.getvalue()


def feather():
    out = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({"a": list(range(100))}), out)
    return out.getvalue()


# Name of the file, its bytes, and what the line must say.
CORPUS = {
    "empty": ("t.csv", b"", "is empty"),
    "blank lines only": ("t.csv", b"\n\n\n", "is empty"),
    "header only": ("t.csv", b"a,b,y\n", "no rows"),
    "latin-1": ("t.csv", "a,b,y\ncafé,1,1|2\n".encode("latin-1"), "not in UTF-8: line 2 has the byte 0xe9"),
    "UTF-16 without mark": ("t.csv", GOOD.encode("utf-16-le"), "NUL byte in line 1"),
    "UTF-16 cut short": ("t.csv", GOOD.encode("utf-16")[:-1], "cut short"),
    "NUL byte": ("t.csv", GOOD.encode().replace(b"3,", b"3\0,", 1), "NUL byte in line 4"),
    "ragged, too many": ("t.csv", b"a,b,y\n1,2,3\n\n1,2,3,4\n", "line 4 has 4 cells where the first line names 3"),
    "ragged, too few": ("t.csv", b"a,b,y\n1,2,3\n1,2\n", "line 3 has 2 cells"),
    "open quotation": ("t.csv", b'a,b,y\n"1,2,3\n4,5,6\n', "quotation mark"),
    "duplicate names": ("t.csv", b"a,a,y\n1,2,3\n", "2 columns named 'a'"),
    "nameless columns": ("t.csv", b",,y\n1,2,3\n", "2 columns without a name"),
    "a million columns of nothing": ("t.csv", b"," * 1_000_000 + b"\n" + b"," * 1_000_000 + b"\n", "1,000,001 columns"),
    "no such target": ("t.csv", GOOD.replace("y", "yy", 1).encode(), "has no column"),
    "nearest target": ("t.csv", GOOD.replace("y", "Y", 1).encode(), "did you mean 'Y'?"),
    "text in the target": ("t.csv", b"a,y\n1,2|3\n2,low|4\n", "'low|4' is not a set of candidates"),
    "decimal commas in the target": ("t.csv", b'a,y\n1,"2,5|3"\n2,3\n', "is not a set of candidates"),
    "rows without a candidate": ("t.csv", b"a,y\n1,2|3\n2,\n", "1 of 2 rows have no candidate"),
    "no row has a candidate": ("t.csv", b"a,y\n1,\n2,\n", "no row has a candidate"),
    "infinite candidate": ("t.csv", b"a,y\n1,1|inf\n2,3\n", "infinite"),
    "candidate beyond all numbers": ("t.csv", b"a,y\n1,1|1e999\n2,3\n", "infinite"),
    "infinite feature": ("t.csv", b"a,y\n1,1|2\ninf,3\n2,4\n", "'a' is infinite in data row 1"),
    "feature too large": ("t.csv", b"a,y\n1,1|2\n1e200,3\n2,4\n", "'a' is 1e+200, too large"),
    "only the target": ("t.csv", b"y\n1|2\n3|4\n", "no column to predict from"),
    "only constants": ("t.csv", b"a,y\n1,1|2\n1,3|4\n", "'a' is 1 in every row"),
    "mixed decimal signs": ("t.csv", b"a;y\n1,5;2\n2.5;3\n", "decimal commas (1,5) and with decimal points (2.5)"),
    "CSV named .parquet": ("t.parquet", GOOD.encode(), "looks like text"),
    "Parquet named .csv": ("t.csv", parquet(), "is a Parquet file"),
    "Excel named .csv": ("t.csv", b"PK\x03\x04 and so on", "Excel workbook"),
    "truncated Parquet": ("t.parquet", parquet()[:300], "cut short"),
    "damaged Parquet": ("t.parquet", parquet()[:-8] + b"\xff\xff\xff\x7fPAR1", "is damaged"),
    "truncated Feather": ("t.feather", feather()[:200], "cut short"),
    "nulls inside lists": (
        "t.parquet",
        parquet(pa.table({"a": [1, 2], "y": [[1.0, None], [2.0]]})),
        "data row 0 counted from 0: a candidate is null",
    ),
    "broken JSON line": ("t.jsonl", b'{"a":1,"y":[1,2]}\n\n{"a":2,"y":[1,}\n', "line 3 is no JSON object"),
    "JSON list": ("t.jsonl", b'[{"a":1,"y":[1,2]}]', "one object per line"),
    "JSON of changing kind": ("t.jsonl", b'{"a":1,"y":1}\n{"a":"x","y":2}\n', "'a' was a number before"),
    "nested JSON target": ("t.jsonl", b'{"a":1,"y":{"v":1}}\n{"a":2,"y":{"v":2}}\n', "holds nested objects"),
    "truncated gzip": ("t.csv.gz", gzip.compress(GOOD.encode())[:40], "cut short"),
    "unknown ending": ("t.xls", GOOD.encode(), "known endings"),
}

# The same of tables with one line per candidate.
LONG = {
    "no row id": ("t.csv", b"id,a,y\n1,2,3\n,2,4\n", "'id' is empty in data row 1 counted from 0 (line 3 of the file)"),
    "features that differ": (
        "t.csv",
        b"id,a,y\n1,2,3\n2,4,5\n1,6,7\n",
        "the lines of row 1 differ in 'a': 2 in data row 0 counted from 0 (line 2 of the file) and 6 in data row 2",
    ),
    "several candidates in a line": ("t.csv", b"id,a,y\n1,2,3\n1,2,4|5\n", "data row 1 counted from 0 (line 3 of the"),
    "infinite candidate": ("t.csv", b"id,a,y\n1,2,3.5\n1,2,inf\n", "--target 'y' is empty or not finite in data row 1"),
    "row without a candidate": (
        "t.csv",
        b"id,a,y\n1,2,3\n2,4,\n",
        "1 of 2 rows have no candidate in 'y', the first in",
    ),
    "no row has a candidate": ("t.csv", b"id,a,y\n1,2,\n2,4,\n", "no row has a candidate"),
    "lists as row ids": ("t.jsonl", b'{"id":[1],"a":1,"y":2}\n{"id":[2],"a":2,"y":3}\n', "are no row ids"),
    "no column of row ids": ("t.csv", b"Id,a,y\n1,2,3\n", "--row: t.csv has no column 'id'; did you mean 'Id'?"),
}


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["plr", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return left.value.code, out, err

    return run


def refused(result, message):
    code, out, err = result
    assert code == 2, err
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("plr: ")
    assert message in last
    assert "Traceback" not in err


@pytest.mark.parametrize("name", CORPUS)
def test_one_line_and_nothing_written(name, run, tmp_path):
    file, content, message = CORPUS[name]
    (tmp_path / file).write_bytes(content)
    for arguments in (
        ("fit", file, "--target", "y", "-o", "m.plr", "--learner", "linear", "--identified", "i.csv"),
        ("check", file, "--target", "y"),
    ):
        refused(run(*arguments), message)
        assert os.listdir(tmp_path) == [file]


@pytest.mark.parametrize("name", LONG)
def test_one_line_for_long_tables(name, run, tmp_path):
    file, content, message = LONG[name]
    (tmp_path / file).write_bytes(content)
    long = (file, "--row", "id", "--target", "y")
    for arguments in (("fit", *long, "-o", "m.plr", "--learner", "linear"), ("check", *long)):
        refused(run(*arguments), message)
        assert os.listdir(tmp_path) == [file]


def test_places_that_are_no_files(run, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to("nowhere.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    for path, message in {
        "folder.csv": "has no Parquet files",
        "link.csv": "is a link to nowhere.csv, which does not exist",
        "pipe.csv": "not a regular file",
        "none.csv": "There is no file none.csv",
    }.items():
        refused(run("check", path, "--target", "y"), message)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything may be read by root")
def test_no_permission(run, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    (tmp_path / "t.csv").chmod(0)
    refused(run("check", "t.csv", "--target", "y"), "permission denied")


def test_file_that_grows_while_it_is_read(run, tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    plain = os.fstat

    def growing(number):
        found = plain(number)
        if path.samefile(f"/proc/self/fd/{number}") if os.path.exists(f"/proc/self/fd/{number}") else False:
            with path.open("a") as file:
                file.write("1,2,3\n")
        return found

    monkeypatch.setattr(files.os, "fstat", growing)
    refused(run("check", "t.csv", "--target", "y"), "changed while it was read")


def test_outputs_that_cannot_be(run, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    fit = ("fit", "t.csv", "--target", "y", "--learner", "linear")
    refused(run(*fit, "-o", "no/m.plr"), "no folder no")
    refused(run(*fit, "-o", "t.csv"), "given as DATA and as --out")
    refused(run(*fit, "-o", "m.plr", "--identified", "i.xls"), "known endings")
    refused(run(*fit, "-o", "m.plr", "--identified", "m.plr"), "given as --out and as --identified")
    refused(run(*fit, "-o", "."), "is a folder")
    assert os.listdir(tmp_path) == ["t.csv"]


def test_wrong_choices_name_the_option(run, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    fit = ("fit", "t.csv", "--target", "y", "-o", "m.plr")
    refused(run(*fit, "--learner", "liner"), "did you mean 'linear'?")
    refused(run(*fit, "--seed", "-1"), "--seed must be")
    refused(run(*fit, "--truth", "y"), "named by --target and by --truth")
    refused(run(*fit, "--ignore", "c"), "--ignore: t.csv has no column 'c'")
    refused(run(*fit, "--ignore", "a,b"), "no column to predict from")
    refused(run(*fit, "--prior", "a,b"), "name one of priors for each")


def test_intervals_need_a_fit_with_them(run, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    run("fit", "t.csv", "--target", "y", "-o", "m.plr", "--learner", "linear", "--no-intervals")
    refused(run("predict", "m.plr", "t.csv", "--interval", "0.9"), "m.plr cannot give intervals")
    refused(run("predict", "m.plr", "t.csv", "--interval", "2"), "--interval must be above 0 and below 1")
    refused(run("predict", "m.plr", "t.csv", "--method", "constant"), "such as --interval 0.9")
    refused(run("predict", "m.plr", "t.csv", "--interval", "0.9", "--method", "sharp"), "Unknown --method 'sharp'")
    refused(run("identify", "m.plr", "t.csv", "--doubtful", "0"), "--doubtful must be at least 1")
    refused(run("evaluate", "m.plr", "t.csv"), "Name it with --truth")
    refused(run("evaluate", "m.plr", "t.csv", "--truth", "aa"), "did you mean 'a'?")
    assert sorted(os.listdir(tmp_path)) == ["m.plr", "t.csv"]


def test_no_model_file(run, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    (tmp_path / "m.plr").write_text("no model")
    for verb in ("predict", "identify", "evaluate"):
        code, _, err = run(verb, "m.plr", "t.csv")
        assert code == 2
        assert err.startswith("plr: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("byte-order mark", GOOD.encode("utf-8-sig")),
        ("UTF-16", GOOD.encode("utf-16")),
        ("semicolons", GOOD.replace(",", ";").encode()),
        ("tabs", GOOD.replace(",", "\t").encode()),
        ("Windows line ends", GOOD.replace("\n", "\r\n").encode()),
        ("no last line end", GOOD.rstrip("\n").encode()),
    ],
)
def test_what_is_beyond_doubt_is_read(name, content, tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "t.csv").write_bytes(content)
    assert read_table(tmp_path / "t.csv").equals(read_table(tmp_path / "good.csv"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
    assert read_table(tmp_path / "t.csv.gz").equals(read_table(tmp_path / "good.csv"))


def test_decimal_commas_between_semicolons(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1,5;2\n2,25;3\n")
    assert read_table(tmp_path / "t.csv")["a"].to_pylist() == [1.5, 2.25]


def test_text_far_down_a_column_of_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 600_000 + "x\n")
    assert read_table(tmp_path / "t.csv")["a"][600_000].as_py() == "x"


def test_extreme_but_usable_tables_work(run, tmp_path):
    lines = [f"{i}e100,{i}e-100,{i}e9|{i * 3}e9" for i in range(1, 41)]
    (tmp_path / "huge.csv").write_text("a,b,y\n" + "\n".join(lines) + "\n")
    code, out, err = run("fit", "huge.csv", "--target", "y", "-o", "m.plr", "--learner", "linear", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 40
    (tmp_path / "equal.csv").write_text("a,y\n" + "".join(f"{i},7|7\n" for i in range(60)))
    assert run("fit", "equal.csv", "--target", "y", "-o", "e.plr", "--learner", "linear")[0] == 0
    code, out, err = run("check", "equal.csv", "--target", "y", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "cannot tell"), err
