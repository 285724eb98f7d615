"""Types of CSV columns are those that Arrow's own reader finds, save for codes that numbers would not bring back."""

import random

import pyarrow as pa
import pyarrow.csv
import pytest

from plr.sources.csv_text import typed_cells
from plr.sources.files import read_file

CELLS = [
    "1", " 2 ", "-5", "+1", "0x1F", "-0", "1.5", "1e5", "1e999", "1.", ".5", "+1.5", "inf", "-inf", "Infinity", "nan",
    "NA", "", "True", "false", "TRUE", " True", "tRUE", "T", "0", "2024-01-05", " 1850-01-05", "2024-01-05 10",
    "2024-01-05T10:00:00.5", "2024-01-05T10:00:00Z", "2024-01-05T10:00:00.25+02:00", "0001-01-05 10:00",
    "1600-01-05 10:00:00.5", "10:00", "11:00:01", "24:00", "23:59:60", "10:00:01.5", "red", "-", "++1", "1_000", "1d",
]  # fmt: skip


def by_arrow(cells):
    text = "a,b\n" + "".join(f"{cell},1\n" for cell in cells)
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    return pyarrow.csv.read_csv(pa.BufferReader(text.encode()), convert_options=options)["a"]


@pytest.mark.parametrize("seed", range(5))
def test_types_are_those_of_arrow(seed):
    draw = random.Random(seed)
    for _ in range(200):
        cells = draw.choices(draw.sample(CELLS, draw.randint(1, 3)), k=draw.randint(1, 5))
        if any(" 1850" in cell for cell in cells) and len(set(cells)) > 1:
            continue  # Blanks around some dates of several kinds: Arrow gives up, and we need not.
        expected, found = by_arrow(cells), typed_cells(pa.chunked_array([cells]))
        assert (found.type, repr(found.to_pylist())) == (expected.type, repr(expected.to_pylist())), cells


@pytest.mark.parametrize("cells", [["01", "2"], ["1", "9223372036854775808"], ["-007", "5"]])
def test_codes_stay_texts(cells):
    assert typed_cells(pa.chunked_array([cells])).to_pylist() == cells


def test_a_cell_far_down_decides_as_well():
    numbers = ["1"] * 1_000
    assert typed_cells(pa.chunked_array([[*numbers, "2.5"]])).type == pa.float64()
    assert typed_cells(pa.chunked_array([[*numbers, "x"]])).type == pa.string()


def test_decimal_commas_are_points_in_numbers_and_texts(tmp_path):
    (tmp_path / "t.csv").write_text('a;"two\nlines";c\n1,5;x,y;01\n-2,25;NA;2\n')
    found = read_file(tmp_path / "t.csv")
    assert found.table.to_pydict() == {"a": [1.5, -2.25], "two\nlines": ["x,y", None], "c": ["01", "2"]}
    assert found.texts.to_pydict() == {"a": ["1.5", "-2.25"], "two\nlines": ["x,y", "NA"], "c": ["01", "2"]}
    assert "line" not in found.place(0)
