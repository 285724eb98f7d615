"""Labels of checked rows: how they can be given, what they say about the candidates, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets
from plr.candidates.known import CANNOT_TELL, NONE_OF_THESE, read_known
from plr.errors import CandidateError, LengthError, ParameterError
from support.refusals import refused

NAN = np.nan
S = CandidateSets.from_lists([[1.0, 2.0], [3.0, 3.0, 4.0], [5.0, 6.0]], record=[["a", "b"], ["b", "c", "d"], [7, 8]])


def true_of(checked):
    return [row.tolist() for row in np.split(checked.true, S.offsets[1:-1])]


@pytest.mark.parametrize(
    "known",
    [
        [None, 4.0, 7.0],
        np.array([NAN, 4.0, 7.0]),
        np.ma.masked_array([1.0, 4.0, 7.0], [True, False, False]),
        pd.Series([None, 4, 7], dtype="Int64", index=[5, 3, 1]),
        pl.Series([None, 4, 7]),
        pa.array([None, 4.0, 7.0]),
        pd.DataFrame({"value": [NAN, 4.0, 7.0], "note": ["x", "y", "z"]}),
        pl.DataFrame({"value": [None, 4.0, 7.0]}),
        pa.table({"value": [None, 4.0, 7.0]}),
        {"value": [None, 4.0, 7.0]},
        {"value": [None, None, 7.0], "record": [None, "d", None]},
        {"value": [2.0, 4.0, None], "answer": [CANNOT_TELL, None, NONE_OF_THESE]},
    ],
)
def test_forms(known):
    checked = read_known(known, S)
    assert true_of(checked) == [[False, False], [False, False, True], [False, False]]
    assert checked.missing.tolist() == [False, False, True]
    assert checked.found(S).tolist() == [False, True, False]
    assert np.isnan(checked.value[0])
    assert checked.value[1] == 4.0
    assert np.isnan(checked.probability).all()


@pytest.mark.parametrize("known", [None, [NAN, None, NAN], {"value": [NAN] * 3, "answer": ["", None, " "]}])
def test_nothing_is_known(known):
    assert read_known(known, S) is None


def test_several_candidates_have_the_value():
    assert true_of(read_known([NAN, 3.0, NAN], S))[1] == [True, True, False]
    for frame in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        known = frame({"value": [NAN, 3.0, 5.0], "record": [None, "c", None]})
        checked = read_known(known, S)
        assert true_of(checked)[1] == [False, True, False]
        assert true_of(checked)[2] == [True, False]


def test_records_alone():
    checked = read_known(pd.DataFrame({"record": [None, "elsewhere", 8.0]}), S)
    assert true_of(checked) == [[False, False], [False] * 3, [False, True]]
    assert checked.missing.tolist() == [False, True, False]
    np.testing.assert_array_equal(checked.value, [NAN, NAN, 6.0])


def test_answers_and_probabilities():
    known = {
        "value": [2.0, 9.0, 5.0],
        "answer": [CANNOT_TELL, NONE_OF_THESE, ""],
        "probability": [0.5, 1.0, None],
    }
    for frame in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        checked = read_known(frame(known), S)
        assert checked.undecided.tolist() == [True, False, False]
        assert checked.missing.tolist() == [False, True, False]
        np.testing.assert_array_equal(checked.value, [NAN, 9.0, 5.0])
        np.testing.assert_array_equal(checked.probability, [0.5, 1.0, NAN])


def test_printed_precision():
    exact = CandidateSets.from_lists([[1.2345, 7.0], [1.2345, 1.2301], [12.3], [4.5], [6.25]])
    checked = read_known([1.23, 1.23, 12.0, 4.5, 6.25], exact)
    assert checked.true.tolist() == [True, False, False, False, False, True, True]
    assert checked.missing.tolist() == [False, True, True, False, False]


def test_few_labels_do_not_show_how_they_are_rounded():
    exact = CandidateSets.from_lists([[12.3, 20.0], [1.2345, 7.0], [5.0], [6.0], [7.0]])
    for known in ([12.0, NAN, 5.0, 6.0, 7.0], [12.0] + [NAN] * 4):
        checked = read_known(known, exact)
        assert checked.missing.tolist() == [True, False, False, False, False]
    assert read_known([12.3 * (1 + 1e-7), NAN, NAN, NAN, NAN], exact).true[0]
    assert read_known([12.0, 7.0, 5.0, 6.0, 7.0], exact).true[0]


def test_answers_in_any_case():
    known = {"value": [2.0, 9.0, 5.0], "answer": ["Cannot tell ", "NONE OF THESE", None]}
    for frame in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        checked = read_known(frame(known), S)
        assert checked.undecided.tolist() == [True, False, False]
        assert checked.missing.tolist() == [False, True, False]


def test_blanks_around_records():
    padded = CandidateSets.from_lists([[1.0, 2.0]], record=[["B1 ", "B2"]])
    assert read_known({"record": [" B1"]}, padded).true.tolist() == [True, False]


def test_labels_of_rows_that_are_dropped_are_left_out():
    kept = CandidateSets.from_lists([[1.0, 2.0], [], [3.0]], empty="drop")
    known = np.array([1.0, 5.0, NAN])
    with refused(LengthError, r"known\[S.kept\]"):
        read_known(known, kept)
    assert read_known(known[kept.kept], kept).found(kept).tolist() == [True, False]


@pytest.mark.parametrize(
    ("known", "error", "expected"),
    [
        ([1.0, 2.0], LengthError, r"shape \(2,\), and there are 3 rows"),
        (np.ones((3, 1)), LengthError, r"shape \(3, 1\)"),
        ([NAN, -np.inf, 1.0], CandidateError, {"row": 1, "value": -np.inf}),
        ([NAN, "4", 1.0], CandidateError, {"row": 1, "value": "4"}),
        ({"value": [NAN, NAN, 5.0], "record": ["a"]}, LengthError, "there are 3 rows"),
        ({"value": [NAN, NAN, 5.0], "probability": [1, 1, 0]}, CandidateError, {"row": 2, "value": 0.0}),
        ({"value": [NAN, NAN, 5.0], "probability": [1, 1.5, 1]}, CandidateError, {"row": 1}),
        ({"value": [NAN, NAN, 5.0], "answer": ["", "dunno", ""]}, CandidateError, {"row": 1, "value": "dunno"}),
        ({"value": [NAN, NAN, 5.0], "record": ["", "", "x"]}, CandidateError, "none of its candidates"),
        ({"value": [NAN, NAN, 5.0], "record": ["", "", "8"]}, CandidateError, "another value than the known"),
        (pd.DataFrame({"truth": [1.0, 2.0, 3.0]}), ParameterError, {"parameter": "known"}),
    ],
)
def test_refusals(known, error, expected):
    with refused(error, expected):
        read_known(known, S)


def test_records_of_sets_without_them():
    bare = CandidateSets.from_lists([[1.0, 2.0]])
    assert read_known({"value": [1.0], "record": ["a"]}, bare).true.tolist() == [True, False]
    with refused(CandidateError, "have no records"):
        read_known({"record": ["a"]}, bare)
