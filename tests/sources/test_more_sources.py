"""Tab-separated text, Excel workbooks and standard input."""

import datetime
import io
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

from plr.errors import DataError, ParameterError
from plr.sources.files import column_names, read_file
from plr.tables import write_table
from support.tables import read_table

openpyxl = pytest.importorskip("openpyxl")


@pytest.fixture
def given(monkeypatch):
    """Return what puts bytes into standard input."""

    def give(data):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    return give


def workbook(path, rows, title="Räume"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_tabs_separate_whatever_else_the_first_line_has(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("size, in m\tprice\n1,5\t2|3\n2,5\t4\n")
    found = read_file(path)
    assert found.schema.names == column_names(path) == ["size, in m", "price"]
    table = pa.table({"a": [1.5, 2.5], "y": [[1.0, 2.0], [3.0]]})
    write_table(table, tmp_path / "o.tsv")
    assert (tmp_path / "o.tsv").read_text() == '"a"\t"y"\n1.5\t"1|2"\n2.5\t"3"\n'
    assert read_table(tmp_path / "o.tsv")["y"].to_pylist() == ["1|2", "3"]


def test_the_first_sheet_of_a_workbook(tmp_path):
    day = datetime.datetime(2024, 3, 1)
    rows = [
        ["size", "kind", "price", "sold", "code", "mixed", "new"],
        [1, "a", "2|3", day, "00123", 7, True],
        [2.5, None, "4", day, "00456", "x", False],
        [None, "NA", 5, None, "#N/A", 2.0, None],
        [None] * 7,
    ]
    found = read_file(workbook(tmp_path / "t.xlsx", rows))
    assert found.table.to_pydict() == {
        "size": [1.0, 2.5, None],
        "kind": ["a", None, None],
        "price": ["2|3", "4", "5"],
        "sold": [day, day, None],
        "code": ["00123", "00456", None],
        "mixed": ["7", "x", "2"],
        "new": [True, False, None],
    }
    assert found.place(1) == "data row 1 counted from 0 (row 3 of the sheet 'Räume')"


def test_what_is_no_workbook(tmp_path):
    for name, data in (("cut", b"PK\x03\x04cut"), ("text", b"a,b\n1,2\n")):
        (tmp_path / f"{name}.xlsx").write_bytes(data)
        with pytest.raises(DataError, match=r"is no Excel workbook|is named as an Excel file but is none"):
            read_file(tmp_path / f"{name}.xlsx")
    with pytest.raises(DataError, match="the sheet 'empty' has no rows"):
        read_file(workbook(tmp_path / "e.xlsx", [["a", "b"]], "empty"))
    with pytest.raises(ParameterError, match="Cannot tell the format of"):
        write_table(pa.table({"a": [1]}), tmp_path / "o.xlsx")


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather", "jsonl", "xlsx", "csv.gz"])
def test_standard_input_tells_its_format_by_its_beginning(tmp_path, given, ending):
    path = tmp_path / f"t.{ending}"
    if ending == "xlsx":
        workbook(path, [["a", "y"], [1.5, "2|3"]])
    elif ending == "csv.gz":
        import gzip

        path.write_bytes(gzip.compress(b"a,y\n1.5,2|3\n"))
    else:
        write_table(pa.table({"a": [1.5], "y": ["2|3"]}), path)
    given(path.read_bytes())
    found = read_file("-")
    assert found.table.to_pydict() == {"a": [1.5], "y": ["2|3"]}
    assert str(found) == "standard input"
    given(b"")
    with pytest.raises(DataError, match="Standard input is empty"):
        read_file("-")
