import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import CandidateError, EmptySetError
from support.refusals import refused
from support.three_rows import address

ARROW_KINDS = [pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2)]


class TestArrow:
    @pytest.mark.parametrize("kind", ARROW_KINDS, ids=str)
    def test_values_are_shared_not_copied(self, kind):
        array = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], kind)
        for column in (array, pa.chunked_array([array]), pd.Series(array, dtype=pd.ArrowDtype(kind))):
            S = CandidateSets.from_arrow(column)
            assert address(S.values) == array.values.buffers()[1].address
        part = CandidateSets.from_arrow(array[1:])
        assert part.to_lists() == [[3, 4], [5, 6]]
        assert address(part.values) == array.values.buffers()[1].address + 16

    def test_polars_values_are_shared_not_copied(self):
        column = pl.Series([[1.0, 2.0], [3.0]])
        S, exported = CandidateSets.from_arrow(column), column.to_arrow()
        # Both alive at one address: neither can be a copy.
        assert address(S.values) == exported.values.buffers()[1].address

    @pytest.mark.parametrize("prior", [None, [[3, 1], [2]]])
    def test_every_library(self, prior):
        lists = [[1, 2], [3]]
        expected = CandidateSets.from_lists(lists, prior)
        for make in (pa.array, pl.Series, pd.Series, lambda x: pd.Series(x, dtype=pd.ArrowDtype(pa.list_(pa.int32())))):
            column = make(lists)
            assert CandidateSets.from_arrow(column, None if prior is None else make(prior)) == expected
            assert prior is not None or as_candidate_sets(column) == expected

    def test_polars_array_type(self):
        assert as_candidate_sets(pl.Series([[1.0, 2.0]], dtype=pl.Array(pl.Float64, 2))).to_lists() == [[1, 2]]

    def test_several_chunks(self):
        column = pa.chunked_array([[[1.0], [2.0, 3.0]], [[4.0]]])
        assert CandidateSets.from_arrow(column).to_lists() == [[1], [2, 3], [4]]
        assert len(CandidateSets.from_arrow(pa.chunked_array([], pa.list_(pa.float64())))) == 0

    @pytest.mark.parametrize(
        "kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(5, 2), pa.bool_()], ids=str
    )
    def test_every_kind_of_number(self, kind):
        array = (
            pa.array([[1.0, 0.0], [1.0]]).cast(pa.list_(kind))
            if kind != pa.float16()
            else pa.array([np.array([1, 0], np.float16), np.array([1], np.float16)])
        )
        assert CandidateSets.from_arrow(array).to_lists() == [[1, 0], [1]]

    def test_null_and_empty_lists_are_empty_rows(self):
        for column in (pa.array([None, [1.0], []]), pa.array([None, [1.0], None], pa.list_(pa.float64(), 1))):
            with pytest.raises(EmptySetError, match=r'2 of 3 rows have no candidate: rows 0, 2\. .*empty="drop"'):
                CandidateSets.from_arrow(column)
            S = CandidateSets.from_arrow(column, empty="drop")
            assert S.to_lists() == [[1]]
            assert S.kept.tolist() == [1]
        with refused(EmptySetError, {"row": 0}):
            CandidateSets.from_arrow(pa.array([[], None]))
        with refused(EmptySetError, {"row": 0}):
            CandidateSets.from_arrow(pa.array([[]], pa.list_(pa.string())))

    def test_null_inside_names_the_row(self):
        for column in (pa.array([[1.0], [None, 2.0]]), pl.Series([[1.0], [None, 2.0]]), pa.array([[], [None]])):
            with pytest.raises(CandidateError, match="Null inside the list of row 1"):
                CandidateSets.from_arrow(column)

    def test_nan_inside_names_the_row(self):
        with refused(CandidateError, {"row": 1}):
            CandidateSets.from_arrow(pa.array([[1.0], [np.nan]]))

    @pytest.mark.parametrize(
        ("column", "expected"),
        [
            (pa.array([["a"], ["b"]]), {"row": 0, "value": "a"}),
            (pa.array([[], [[1.0]]]), {"row": 1}),
            (pa.array([1.0]), "Arrow type double; a list.*from_labels"),
            (pl.Series(["a"]), "Arrow type .*string"),
            (pa.table({"x": [[1.0]]}), "Table is not one column"),
            (7, "int is not one column"),
            (np.array([1.0]), {"row": 0, "value": 1.0}),
        ],
    )
    def test_what_is_no_list_column(self, column, expected):
        with refused(CandidateError, expected):
            CandidateSets.from_arrow(column)

    def test_object_series_with_missing_rows(self):
        S = CandidateSets.from_arrow(pd.Series([[1, 2], None, np.nan, (3,)]), empty="drop")
        assert S.to_lists() == [[1, 2], [3]]
        assert S.kept.tolist() == [0, 3]
