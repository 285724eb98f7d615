"""Candidate sets written in one cell, however they are spaced."""

import pytest

from plr import CandidateSets
from plr.candidates import as_candidate_sets
from plr.candidates.arrow import parse_cells
from plr.errors import CandidateError, ParameterError, PriorError
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
        ("1;2.5", [1.0, 2.5]),
        ("1 ; 2.5;", [1.0, 2.5]),
        ("1|2.5|", [1.0, 2.5]),
        ("7", [7.0]),
        ("", None),
    ],
)
@pytest.mark.parametrize("others", [[], ["3|4"], ["3 |4", "[5, 6]"]], ids=["alone", "beside plain", "beside spaced"])
def test_blanks_do_not_matter(cell, values, others):
    assert parse_cells([cell, *others]).to_pylist()[0] == values


@pytest.mark.parametrize("cell", ["1|x", "1||2", "1;|2", "1,5|2", "[1|2", "1 2"])
def test_what_is_no_number_is_named(cell):
    with refused(CandidateError, {"row": 1, "column": "y", "value": cell}):
        parse_cells(["3|4", cell], "y")


@pytest.mark.parametrize(
    ("cells", "separator", "lists"),
    [
        (["1|2|", " 3 "], "|", [[1.0, 2.0], [3.0]]),
        (["1; 2", 3, "4|5;6|"], "|", [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]),
        (["1; 2;", "[3, 4]"], ";", [[1.0, 2.0], [3.0, 4.0]]),
        (["1  2", "3"], " ", [[1.0, 2.0], [3.0]]),
        (["1,2", "3"], ",", [[1.0, 2.0], [3.0]]),
        (["1 or 2", 3, 4.5], "or", [[1.0, 2.0], [3.0], [4.5]]),
    ],
)
def test_separators_and_plain_numbers(cells, separator, lists):
    S = CandidateSets.from_text(cells, separator)
    assert S.to_lists() == lists
    assert S.prior is None


def test_priors_after_a_colon():
    S = CandidateSets.from_text(["12.5:0.7|13.1:0.3", "[4 : 1, 5 : 3]", "6|7", 8])
    assert S.to_lists() == [[12.5, 13.1], [4.0, 5.0], [6.0, 7.0], [8.0]]
    assert S.prior.tolist() == [0.7, 0.3, 0.25, 0.75, 0.5, 0.5, 1.0]
    S = CandidateSets.from_text(["1:0.5|2:0.5"], prior_is="probability")
    assert S.missing == pytest.approx([1 / 3])
    assert as_candidate_sets(["1; 2;", "5", 6]).to_lists() == [[1.0, 2.0], [5.0], [6.0]]
    assert as_candidate_sets(["1:3|2:1", "5"]).prior.tolist() == [0.75, 0.25, 1.0]


@pytest.mark.parametrize("cell", ["1|x", "1||2", "1:2:3", "1:|2:1", ":1", "1:a|2:1", "[1|2"])
def test_texts_that_are_no_sets_are_named(cell):
    with refused(CandidateError, {"row": 1, "value": cell}):
        CandidateSets.from_text(["3|4", cell])


def test_what_else_from_text_refuses():
    with refused(PriorError, {"row": 1, "value": "1:0.3|2"}):
        CandidateSets.from_text(["3|4", "1:0.3|2"])
    with refused(PriorError, {"row": 1, "value": "2"}):
        CandidateSets.from_text(["1:0.3", "2"], prior_is="probability")
    with refused(CandidateError, {"row": 0, "value": [1, 2]}):
        CandidateSets.from_text([[1, 2]])
    for separator in ("", ".", "1", ":", None):
        with refused(ParameterError, {"parameter": "separator"}):
            CandidateSets.from_text(["1"], separator)


def test_plain_numbers_beside_texts_will_do_as_a_target():
    assert as_candidate_sets(["1|2", 3.0, "4|"]).to_lists() == [[1.0, 2.0], [3.0], [4.0]]
    assert parse_cells(["1|2|", "|"]).to_pylist() == [[1.0, 2.0], None]
