import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import CandidateError
from support.refusals import refused
from support.three_rows import LISTS


class TestCoercion:
    def test_candidate_sets_pass_through(self, S):
        assert as_candidate_sets(S) is S

    @pytest.mark.parametrize(
        "make",
        [
            list,
            tuple,
            lambda x: np.array(x, dtype=object),
            pd.Series,
            pl.Series,
            pa.array,
            lambda x: pa.chunked_array([x]),
            lambda x: pd.Series(x, dtype=pd.ArrowDtype(pa.list_(pa.float64()))),
            CandidateSets.from_lists,
            lambda x: CandidateSets.from_lists(x).to_padded(),
            lambda x: pd.DataFrame(CandidateSets.from_lists(x).to_padded()),
            lambda x: pl.DataFrame(CandidateSets.from_lists(x).to_padded()),
            lambda x: [np.array(row) for row in x],
        ],
    )
    def test_every_shape_of_sets(self, S, make):
        assert as_candidate_sets(make(LISTS)) == S

    @pytest.mark.parametrize(
        "make",
        [
            list,
            tuple,
            np.array,
            lambda y: np.array(y, dtype=np.float32),
            lambda y: np.array(y, dtype=object),
            pd.Series,
            lambda y: pd.Series(y, dtype="Float64"),
            lambda y: pd.Series(y, dtype=pd.ArrowDtype(pa.float64())),
            lambda y: pd.Series(y, dtype=object),
            pl.Series,
            pa.array,
            lambda y: pa.chunked_array([y]),
            np.ma.masked_array,
            pd.Index,
        ],
    )
    def test_every_shape_of_labels(self, make):
        expected = [[1.5], [2.5]]
        assert as_candidate_sets(make([1.5, 2.5])).to_lists() == expected
        with pytest.raises(CandidateError, match=r"Input y contains NaN\. There is no label in row 1"):
            as_candidate_sets(make([1.5, np.nan]))
        with pytest.raises(
            CandidateError, match=r"Input y contains infinity or a value too large for dtype\('float64'\)\."
        ):
            as_candidate_sets(make([1.5, -np.inf]))
        S = as_candidate_sets(make([np.nan, 1.5, 2.5]), empty="drop")
        assert S.to_lists() == expected
        assert S.kept.tolist() == [1, 2]

    def test_integers_and_booleans_are_labels(self):
        assert as_candidate_sets(np.array([1, 2])).to_lists() == [[1], [2]]
        assert as_candidate_sets([True, False]).to_lists() == [[1], [0]]
        assert as_candidate_sets(range(2)).to_lists() == [[0], [1]]
        assert as_candidate_sets(pd.array([1, None, 3], dtype="Int64"), empty="drop").kept.tolist() == [0, 2]

    def test_masked_labels_are_missing(self):
        S = as_candidate_sets(np.ma.masked_array([1, 2], mask=[1, 0]), empty="drop")
        assert S.to_lists() == [[2]]

    @pytest.mark.parametrize("make", [np.array, pd.DataFrame, pl.DataFrame])
    def test_a_column_vector_warns_as_scikit_learn_does(self, make):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
            S = as_candidate_sets(make([[1.0], [2.0]] if make is not pl.DataFrame else {"y": [1.0, 2.0]}))
        assert S.to_lists() == [[1], [2]]

    def test_a_column_of_texts(self):
        texts = ["1|2.5", "[3, 4, 5]", "6"]
        for column in (texts, np.array(texts, dtype=object), pd.Series(texts), pl.Series(texts)):
            assert as_candidate_sets(column).to_lists() == [[1.0, 2.5], [3.0, 4.0, 5.0], [6.0]]
        with pytest.raises(CandidateError, match=r"Row 1: 'x\|y' is not a set of candidates; write 12.5\|13.1"):
            as_candidate_sets(["1|2", "x|y"])
        with refused(CandidateError, {"row": 0, "value": "1"}):
            as_candidate_sets(["1", "2"])

    def test_a_frame_of_one_list_column(self):
        for frame in (pd.DataFrame({"y": LISTS}), pl.DataFrame({"y": LISTS})):
            with warnings.catch_warnings(action="error"):
                assert as_candidate_sets(frame).to_lists() == LISTS

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            (None, "requires y to be passed, but the target y is None"),
            (np.array([1, 2j]), "Complex data not supported"),
            ([1, 2j], {"row": 1, "value": 2j}),
            (np.array([[1, 2j]]), {"row": 0}),
            (np.array(["1", "b"]), {"row": 0, "value": "1"}),
            ([1.0, "b"], "Row 1 holds 'b': strings are not numbers"),
            (pd.Series(["a", "b"]), {"row": 0, "value": "a"}),
            (pl.Series(["a", "b"]), {"row": 0, "value": "a"}),
            (pa.array(["a", "b"]), {"row": 0, "value": "a"}),
            (np.array([1.0, "b"], dtype=object), {"row": 1, "value": "b"}),
            (pd.Series([[1.0], [2.0, "b"]]), {"row": 1, "value": "b"}),
            (np.ones((2, 2, 2)), "row 0 is nested too deep"),
            ([[1.0], [[2.0]]], {"row": 1, "value": [2.0]}),
            (np.array(1.0), "0 dimensions"),
            (np.array(["2020-01-01"], dtype="M8[ns]"), {"row": 0}),
            (np.array([1], dtype="m8[s]"), {"row": 0}),
            (1.5, "float is no target"),
            ("abc", {"parameter": "y"}),
            ({"a": [1.0]}, "dict is no target.*from_columns"),
            ({1.0, 2.0}, {"parameter": "y"}),
            (sparse.csr_array(np.eye(2)), {"parameter": "y"}),
            ([[1.0], []], {"row": 1}),
            ([None, [1.0]], {"row": 0}),
        ],
    )
    def test_refusals(self, target, expected):
        with refused(CandidateError, expected):
            as_candidate_sets(target)

    def test_every_refusal_is_a_value_error(self):
        with pytest.raises(ValueError, match="requires y"):
            as_candidate_sets(None)

    def test_objects_that_only_turn_into_arrays(self):
        class NotAnArray:
            def __array__(self, dtype=None, copy=None):
                return np.array([1.0, 2.0], dtype=dtype)

        assert as_candidate_sets(NotAnArray()).to_lists() == [[1], [2]]
