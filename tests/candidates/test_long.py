import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets
from plr.errors import CandidateError, EmptySetError, LengthError, ParameterError, PriorError
from support.refusals import refused

LONG = {"id": ["b", "a", "b", "d"], "value": [1.0, 2.0, 3.0, 4.0], "score": [1, 1, 3, 1]}


class TestLong:
    @pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
    def test_order_of_appearance_or_of_rows(self, make):
        table = make(LONG)
        assert CandidateSets.from_long(table, "id", "value").to_lists() == [[1, 3], [2], [4]]
        for rows in (["d", "a", "b"], np.array(["d", "a", "b"]), pd.Index(["d", "a", "b"]), pl.Series(["d", "a", "b"])):
            S = CandidateSets.from_long(table, row="id", value="value", prior="score", rows=rows)
            assert S.to_lists() == [[4], [2], [1, 3]]
            assert S.prior.tolist() == [1, 1, 0.25, 0.75]

    def test_rows_without_a_line(self):
        with pytest.raises(EmptySetError, match="2 of 5 rows have no candidate: rows 'c', 'e'"):
            CandidateSets.from_long(LONG, "id", "value", rows=list("abcde"))
        S = CandidateSets.from_long(LONG, "id", "value", rows=list("abcde"), empty="drop")
        assert S.to_lists() == [[2], [1, 3], [4]]
        assert S.kept.tolist() == [0, 1, 3]

    @pytest.mark.parametrize(
        ("ids", "rows"),
        [
            (np.array([7, 5, 7]), range(5, 8, 2)),
            (np.array([7.0, 5.0, 7.0]), pd.RangeIndex(5, 8, 2)),
            (pd.Series([7, 5, 7], dtype="category"), np.array([5, 7], dtype=np.uint8)),
            (pl.Series(["7", "5", "7"], dtype=pl.Categorical), ["5", "7"]),
            (pd.to_datetime(["2007", "2005", "2007"]), pd.to_datetime(["2005", "2007"])),
        ],
        ids=["integers", "floats", "category", "polars", "dates"],
    )
    def test_kinds_of_ids(self, ids, rows):
        assert CandidateSets.from_long({"i": ids, "v": [1, 2, 3]}, "i", "v", rows=rows).to_lists() == [[2], [1, 3]]

    @pytest.mark.parametrize(
        ("changes", "rows", "error", "expected"),
        [
            ({}, ["a", "b"], CandidateError, "lines for row 'd', not among the 2 row ids"),
            ({}, ["a"], CandidateError, {"row": "b"}),
            ({}, list("abda"), ParameterError, {"parameter": "rows"}),
            ({}, [1, 2], ParameterError, "large_string but those in rows of type int64"),
            ({"id": ["b", None, "b", "d"]}, None, CandidateError, "no row id in column 'id', row 1"),
            ({"id": ["b", 1, "b", "d"]}, None, CandidateError, "not of one plain type"),
            ({"value": [1, 2, None, 3]}, None, CandidateError, {"row": "b"}),
            ({"value": [1, 2, "x", 3]}, None, CandidateError, {"row": 2, "column": "value", "value": "x"}),
            ({"value": [1, 2]}, None, LengthError, {"column": "value"}),
            ({"score": [1, 1, -1, 1]}, None, PriorError, "negative: row 'b'"),
        ],
    )
    def test_refusals(self, changes, rows, error, expected):
        with refused(error, expected):
            CandidateSets.from_long({**LONG, **changes}, "id", "value", "score", rows=rows)

    def test_unknown_column(self):
        with refused(ParameterError, {"value": "valeu"}):
            CandidateSets.from_long(LONG, "id", "valeu")

    def test_dropping_with_prior_names_ids(self):
        with refused(PriorError, {"row": "b"}):
            CandidateSets.from_long(
                {"id": ["b"], "value": [1], "score": [-1]}, "id", "value", "score", rows=["a", "b"], empty="drop"
            )
