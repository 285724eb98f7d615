"""Sets that cannot be read are named by the place of their row in the source, with what is wrong with it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from plr.columns.candidates import read_sets
from plr.errors import CandidateError, PriorError
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
    source = TableSource(table, "rows.csv", row_by_row=True)
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
