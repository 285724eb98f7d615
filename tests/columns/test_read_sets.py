"""Sets that cannot be read are named by the place of their row in the source, with what is wrong with it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from plr.columns.candidates import read_candidates, read_sets
from plr.errors import CandidateError, PlrWarning, PriorError
from plr.sources.source import TableSource
from support.refusals import refused


@pytest.mark.parametrize(
    ("y", "prior", "error", "problem"),
    [
        ([[1.0], [2.0, float("inf")]], None, CandidateError, "a candidate is infinite; leave it out or correct it."),
        ([[1.0], [2.0, None]], None, CandidateError, "a candidate is null; drop"),
        (["1|2", "3|x"], None, CandidateError, r"column 'y': '3\|x' is not a set of candidates"),
        ([[1.0], [2.0]], [[1.0], [-1.0]], PriorError, "it has a prior that is negative. A prior is"),
        ([[1.0], [2.0]], [[1.0], [1.0, 2.0]], PriorError, "it has 1 candidates and 2 priors; give one"),
        ([[1.0], [2.0]], [[1.0], [None]], PriorError, "the prior cannot be read: a candidate is null"),
    ],
)
def test_problems_are_told_with_the_place(y, prior, error, problem):
    table = pa.table({"y": y} if prior is None else {"y": y, "p": prior})
    source = TableSource(table, "rows.csv", first_line=2)
    shares = [] if prior is None else ["p"]
    for numbers in (10, np.array([10, 11])):
        with refused(error, rf"^rows.csv, data row 11 counted from 0 \(line 13 of the file\): {problem}") as caught:
            read_sets(table, ["y"], source, numbers, shares)
        assert (caught.value.row, caught.value.source) == (11, Path("rows.csv"))
        assert caught.value.column == ("p" if error is PriorError else "y")


def test_problems_with_the_column_itself():
    table = pa.table({"y": [{"a": 1}]})
    with refused(CandidateError, "^rows.csv: Column 'y' holds nested objects"):
        read_sets(table, ["y"], TableSource(table, "rows.csv"))
    table = pa.table({"a": [1.0], "b": ["x"]})
    with refused(
        CandidateError, "^rows.csv, data row 10 counted from 0: Column 'b' holds 'x': strings are not numbers"
    ):
        read_sets(table, ["a", "b"], TableSource(table, "rows.csv"), 10)


def described(y, score):
    return read_candidates(pa.table({"y": y, "score": score}), ["y"], features=["score"], empty="drop").features[
        "score"
    ]


@pytest.mark.parametrize(
    ("y", "score", "expected"),
    [
        (["[1, 2]", "[3]"], ["[0.5, 0.2]", "[0.1]"], [0.5, 0.2, 0.1]),
        (["[1]", "[3]"], ["[0.5]", "[null]"], [0.5, np.nan]),
        (["1|2", "[]", None, "3"], ["[0.5, true]", "[]", None, "2"], [0.5, 1.0, 2.0]),
        (["1|2", "3"], ['["a|b", null]', '["c, d"]'], ["a|b", "", "c, d"]),
        (["1|2", "3"], ["[a]|[b]", "c"], ["[a]", "[b]", "c"]),
        (["1|2", "3|4", "5"], ["0.5|n/a", "NA|0.1", "N/A"], [0.5, np.nan, np.nan, 0.1, np.nan]),
        (["1|2", "3", "4"], ["0.5|0.2", None, ""], [0.5, 0.2, np.nan, np.nan]),
    ],
)
def test_entries_of_candidates(y, score, expected):
    for kind in (pa.string(), pa.large_string()):
        found = described(y, pa.array(score, kind))
        np.testing.assert_array_equal(found, np.array(expected))
    np.testing.assert_array_equal(described(y, pa.array(score).dictionary_encode()), np.array(expected))


def test_features_are_separated_as_candidates_are():
    table = pa.table({"y": ["1; 2", "3"], "score": ["0.9; 0.5", ""], "shop": ["a; b", "c"]})
    found = read_candidates(table, ["y"], features=["score", "shop"]).features
    assert found["score"].tolist()[:2] == [0.9, 0.5]
    assert list(found["shop"]) == ["a", "b", "c"]
    table = pa.table({"y": ["1|2", "3"], "shop": ["a;b|c", "d;e"]})
    assert list(read_candidates(table, ["y"], features=["shop"]).features["shop"]) == ["a;b", "c", "d;e"]


def test_texts_may_have_priors():
    table = pa.table({"y": ["1:3|2:1", "[4:1, 5:1]", "6;7", "8", None], "shop": ["a|b", "c|d", "e|f", "g", None]})
    found = read_candidates(table, ["y"], features=["shop"], empty="drop")
    assert found.to_lists() == [[1.0, 2.0], [4.0, 5.0], [6.0, 7.0], [8.0]]
    assert found.prior.tolist() == [0.75, 0.25, 0.5, 0.5, 0.5, 0.5, 1.0]
    assert list(found.features["shop"]) == list("abcdefg")
    with refused(PriorError, {"row": 11}):
        read_sets(pa.table({"y": ["1|2", "1:0.5|2"]}), ["y"], TableSource(table, "rows.csv"), 10)
    with refused(CandidateError, {"row": 10, "column": "y"}):
        read_sets(pa.table({"y": ["1:x|2"]}), ["y"], TableSource(table, "rows.csv"), 10)


def test_records_in_lists():
    table = pa.table({"y": ["[1, 2]", "[3]"], "id": ['["B1 ", 7]', "[8]"]})
    assert read_candidates(table, ["y"], record="id").record.tolist() == ["B1", "7", "8"]


@pytest.mark.parametrize("score", ["[a, b]", "['a', 'b']", '["a", ["b"]]', '["\\ud800", "b"]', "[" * 5000 + "]" * 5000])
def test_entries_that_are_no_list(score):
    table = pa.table({"y": ["[3]", "[1, 2]"], "score": ["[1]", score]})
    with refused(CandidateError, r"^rows.csv, data row 11 counted from 0: column 'score': .* is not a list; write"):
        read_sets(table, ["y"], TableSource(table, "rows.csv"), 10, features=["score"])


@pytest.mark.parametrize(
    ("y", "score"),
    [
        (["1|2", "3"], ["0.5|unknown", "0.1"]),
        ([[1.0, 2.0], [3.0]], [["0.5", "unknown"], ["0.1"]]),
        ([1.0, 2.0, 3.0], ["0.5", "unknown", "0.1"]),
    ],
)
def test_categories_that_are_mostly_numbers(y, score):
    with pytest.warns(PlrWarning, match="'score' is taken as categories .* 'unknown' is none"):
        assert described(y, score).tolist() == ["0.5", "unknown", "0.1"]


@pytest.mark.filterwarnings("error")
def test_categories_that_are_seldom_numbers():
    assert described(["1|2", "3"], ["shop|web", "7"]).tolist() == ["shop", "web", "7"]
    assert described(["1|2", "3|4"], ["shop|web", "7|8"]).tolist() == ["shop", "web", "7", "8"]
