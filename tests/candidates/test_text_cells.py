"""Candidate sets written in one cell, however they are spaced."""

import pytest

from plr.candidates.arrow import parse_cells
from plr.errors import CandidateError
from support.refusals import refused


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("1|2.5", [1.0, 2.5]),
        (" 1 | 2.5 ", [1.0, 2.5]),
        ("1\t|2.5", [1.0, 2.5]),
        ("[1,2.5]", [1.0, 2.5]),
        ("[1, 2.5]", [1.0, 2.5]),
        ("[ 1 ,  2.5 ]", [1.0, 2.5]),
        ("7", [7.0]),
        ("", None),
    ],
)
@pytest.mark.parametrize("others", [[], ["3|4"], ["3 |4", "[5, 6]"]], ids=["alone", "beside plain", "beside spaced"])
def test_blanks_do_not_matter(cell, values, others):
    assert parse_cells([cell, *others]).to_pylist()[0] == values


@pytest.mark.parametrize("cell", ["1|x", "1||2", "1,5|2", "[1|2", "1 2"])
def test_what_is_no_number_is_named(cell):
    with refused(CandidateError, {"row": 1, "column": "y", "value": cell}):
        parse_cells(["3|4", cell], "y")
