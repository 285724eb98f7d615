"""Sets that cannot be read are named by the place of their row in the folder, with what is wrong with it."""

import pyarrow as pa
import pytest

from plr.errors import CandidateError, PriorError
from plr.streaming.sets import read_sets_at
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
    with refused(error, f"^folder, line 11: {problem}") as caught:
        read_sets_at(table, ["y"], "folder", lambda row: f"line {row + 10}", [] if prior is None else ["p"])
    assert (caught.value.row, caught.value.source) == (1, "folder")


def test_problems_with_the_column_itself():
    with refused(CandidateError, "^folder, in the rows from line 10 on: Column 'y' holds nested objects"):
        read_sets_at(pa.table({"y": [{"a": 1}]}), ["y"], "folder", lambda row: f"line {row + 10}")
    with refused(CandidateError, "^folder, line 10: Column 'b' holds 'x': strings are not numbers"):
        read_sets_at(pa.table({"a": [1.0], "b": ["x"]}), ["a", "b"], "folder", lambda row: f"line {row + 10}")
