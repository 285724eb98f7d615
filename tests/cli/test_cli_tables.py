"""Tables survive a round trip through every format, and a failed write leaves the old file as it was."""

import os
import re

import numpy as np
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets
from plr.columns.candidates import read_candidates
from plr.errors import CandidateError, DataError, EmptySetError, ParameterError
from plr.sources.recipe import read_recipe, with_recipe
from plr.streaming import formats
from plr.tables import write_table
from support.tables import read_table

ENDINGS = ["csv", "parquet", "feather", "jsonl"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip(tmp_path, ending):
    sets = CandidateSets.from_lists([[0.1 + 0.2, -1e-300], [7.0], [1e300, 2.0, 3.0]])
    table = pa.table({"name": ["ä", "b,c", 'd"e'], "y": sets.to_arrow(), "x": [1.5, None, 3.0]})
    write_table(table, tmp_path / f"t.{ending}")
    back = read_table(tmp_path / f"t.{ending}")
    assert read_candidates(back, ["y"]) == sets
    assert back["name"].to_pylist() == table["name"].to_pylist()
    assert back["x"].to_pylist() == [1.5, None, 3.0]


def test_csv_cells_are_separated_by_bars(tmp_path):
    table = pa.table({"y": CandidateSets.from_lists([[12.5, 13.1], [4.0]]).to_arrow()})
    write_table(table, tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().replace('"', "").splitlines()
    assert lines[0] == "y"
    assert lines[1] == "12.5|13.1"
    assert float(lines[2]) == 4.0


@pytest.mark.parametrize("cells", [[1, 2], [1.0, 2.0], ["1", "2"]])
def test_one_candidate_per_row(cells):
    assert read_candidates(pa.table({"y": cells}), ["y"]).to_lists() == [[1.0], [2.0]]


def test_blanks_around_candidates_do_not_matter():
    table = pa.table({"y": [" 1 | 2 ", "[ 3,4 ]", "5"]})
    assert read_candidates(table, ["y"]).to_lists() == [[1.0, 2.0], [3.0, 4.0], [5.0]]


def test_several_columns():
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, None]})
    assert read_candidates(table, ["a", "b"]).to_lists() == [[1.0, 3.0], [2.0]]


@pytest.mark.parametrize("cell", ["1|two", "[1, two]", "12,5|13,1", "1/2", "1 2", "[1, 2|", "1||2"])
def test_bad_cell_is_named_with_its_row(cell):
    with pytest.raises(CandidateError, match=f"Column 'y', row 1: {re.escape(repr(cell))}"):
        read_candidates(pa.table({"y": ["1|2", cell]}), ["y"])


@pytest.mark.parametrize("cell", [None, "", "[]"])
def test_empty_cell_is_an_empty_set(cell):
    with pytest.raises(EmptySetError, match="1"):
        read_candidates(pa.table({"y": ["1|2", cell]}), ["y"])


def test_recipe_comes_back(tmp_path):
    schema = with_recipe(pa.schema({"a": pa.int64()}), {"seed": 1})
    write_table(pa.table({"a": [1]}, schema), tmp_path / "t.parquet")
    assert read_recipe(read_table(tmp_path / "t.parquet").schema) == {"seed": 1}


def test_json_lines_have_no_nan(tmp_path):
    write_table(pa.table({"a": [np.nan, 1.0]}), tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl").read_text() == '{"a":null}\n{"a":1.0}\n'


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("old")

    class Full(formats.TableWriter):
        def write(self, table):
            self._writer.write(b"half")
            raise OSError(28, os.strerror(28))

    monkeypatch.setitem(formats.WRITERS, "csv", lambda file, schema: Full(file))
    with pytest.raises(DataError, match="No space left"):
        write_table(pa.table({"a": [1]}), path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


def test_folder_is_not_a_file(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(ParameterError, match="is a folder"):
        write_table(pa.table({"a": [1]}), tmp_path / "t.csv")


def test_nested_column_in_csv_is_refused(tmp_path):
    table = pa.table({"a": [{"b": 1}]})
    with pytest.raises(DataError, match="cannot be written"):
        write_table(table, tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []
