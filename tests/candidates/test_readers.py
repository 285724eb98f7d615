import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import CandidateError, EmptySetError, LengthError, ParameterError, PriorError
from support.refusals import refused
from support.three_rows import LISTS

WIDE = {"a": [1.0, None, 3.0], "b": [4, 5, 6], "pa": [3.0, None, 0.0], "pb": [1.0, 1.0, 2.0], "s": ["x", "y", "z"]}


class TestLists:
    def test_all_kinds_of_rows(self):
        rows = [[1, 2.5], (3,), np.array([4, 5]), pd.Series([6.0]), range(7, 9), [Decimal("0.5"), Fraction(1, 4), True]]
        expected = [[1, 2.5], [3], [4, 5], [6], [7, 8], [0.5, 0.25, 1]]
        assert CandidateSets.from_lists(rows).to_lists() == expected
        assert CandidateSets.from_lists(iter(rows)).to_lists() == expected

    def test_arrays_of_different_kinds(self):
        rows = [np.array([1], np.int8), np.array([2.5], np.float32), np.array([3.0], dtype=object)]
        assert CandidateSets.from_lists(rows).to_lists() == [*CandidateSets.from_lists(rows[:2]).to_lists(), [3]]

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([[1], [2, None]], "Row 1 holds None: .*leave missing ones out"),
            ([[1], [2, pd.NA]], {"row": 1, "value": pd.NA}),
            ([[1], [2, np.nan]], "NaN inside row 1 "),
            ([[1], [2, np.inf]], r"infinite inside row 1 \(1 of 2 rows"),
            ([[1], ["2"]], "Row 1 holds '2': strings are not numbers"),
            ([[1], "23"], {"row": 1, "value": "23"}),
            ([[1], [b"2"]], {"row": 1, "value": b"2"}),
            ([[1], [2j]], "Complex data not supported: row 1"),
            ([[1], [np.complex64(2)]], {"row": 1, "value": 2}),
            ([[1], [[2]]], "Row 1 is nested too deep"),
            ([[1], np.ones((2, 2))], {"row": 1}),
            ([[1], 2.5], r"Row 1 is the single number 2.5 among lists; write \[2.5\]"),
            ([[1], {2.0}], "Row 1 is a set, which has no order"),
            ([[1], {2.0: 1}], {"row": 1, "value": {2.0: 1}}),
            ([[1], object()], "which is not a number"),
            ([[1], (x for x in [2])], {"row": 1}),
            ([[1], [np.timedelta64(1, "s")]], {"row": 1, "value": np.timedelta64(1, "s")}),
            ([[1], [10**400]], {"row": 1, "value": 10**400}),
        ],
    )
    def test_bad_rows_are_named(self, rows, expected):
        with refused(CandidateError, expected):
            CandidateSets.from_lists(rows)
        with refused(CandidateError, expected):
            as_candidate_sets(rows)

    def test_many_bad_rows_are_counted(self):
        with pytest.raises(CandidateError, match=r"rows 0, 1, 2, 3, 4, \.\.\. \(9 in all\) \(9 of 9 rows"):
            CandidateSets.from_lists([[np.inf]] * 9)
        with pytest.raises(
            EmptySetError, match=r"9 of 10 rows .* rows 1, 2, 3, 4, 5, \.\.\. \(9 in all\).*empty=\"drop\""
        ):
            CandidateSets.from_lists([[1]] + [[]] * 9)

    def test_dropping_everything_leaves_no_rows(self):
        S = CandidateSets.from_lists([[], None], prior=[[], []], empty="drop")
        assert len(S) == 0
        assert S.kept.tolist() == []

    def test_nothing_dropped_means_no_kept(self):
        assert CandidateSets.from_lists(LISTS, empty="drop").kept is None

    def test_unknown_way_with_empty_rows(self):
        with refused(ParameterError, {"parameter": "empty", "value": "dropp"}):
            CandidateSets.from_lists(LISTS, empty="dropp")


class TestPrior:
    def test_normalised_row_by_row(self):
        S = CandidateSets.from_lists([[1, 2], [3], [4, 5]], prior=[[1, 3], [7], [0, 2]])
        assert S.prior.tolist() == [0.25, 0.75, 1, 0, 1]

    def test_extreme_scales(self):
        S = CandidateSets.from_lists([[1, 2], [3, 4]], prior=[[1.5e308, 1.5e308], [5e-324, 5e-324]])
        assert S.prior.tolist() == [0.5] * 4

    @pytest.mark.parametrize(
        ("prior", "expected"),
        [
            ([[1], [1, -1], [1]], "1 of 3 rows have a prior that is negative: row 1"),
            ([[1], [1, 1], [np.nan]], {"row": 2}),
            ([[np.inf], [1, 1], [np.nan]], "2 of 3 rows have a prior that is not finite: rows 0, 2"),
            ([[1], [0, 0], [1]], "zero for every candidate: row 1"),
            ([[1], [1], [1]], r"row 1 has 2 candidates and 1 priors \(1 such rows"),
            ([[1], [1, None], [1]], "The prior cannot be read: Row 1 holds None"),
            ([[1], [1, "x"], [1]], {"row": 1, "value": "x"}),
        ],
    )
    def test_bad_priors_are_named(self, prior, expected):
        with refused(PriorError, expected):
            CandidateSets.from_lists([[1], [2, 3], [4]], prior=prior)

    def test_rows_are_named_as_in_the_input_after_a_drop(self):
        with refused(PriorError, {"row": 2}):
            CandidateSets.from_lists([[], [1], [2]], prior=[[], [1], [-1]], empty="drop")

    def test_lengths(self):
        with pytest.raises(LengthError, match="1 rows of candidates but 2 rows of priors"):
            CandidateSets.from_lists([[1]], prior=[[1], [1]])
        with refused(PriorError, {"parameter": "prior"}):
            CandidateSets([1, 2], [0, 2], prior=[1])


class TestPadded:
    def test_slots_only_where_there_are_gaps(self):
        assert CandidateSets.from_padded([[1, 2], [3, np.nan]]).slots is None
        S = CandidateSets.from_padded([[1, np.nan, 2], [np.nan, 3, np.nan]])
        assert S.to_lists() == [[1, 2], [3]]
        assert S.slots.tolist() == [0, 2, 1]
        assert S.slots.dtype == np.int32

    def test_prior_per_candidate_or_per_column(self):
        array = [[1, 2], [np.nan, 3]]
        assert CandidateSets.from_padded(array, prior=[[1, 3], [np.nan, 2]]).prior.tolist() == [0.25, 0.75, 1]
        assert CandidateSets.from_padded(array, prior=[1, 3]).prior.tolist() == [0.25, 0.75, 1]
        with pytest.raises(LengthError, match=r"shape \(3,\); give \(2, 2\)"):
            CandidateSets.from_padded(array, prior=[1, 2, 3])
        with refused(PriorError, {"row": 0}):
            CandidateSets.from_padded(array, prior=[[1, np.nan], [1, 1]])

    @pytest.mark.parametrize(
        "array",
        [
            [[1, 2], [3, None]],
            np.array([[1, 2], [3, None]], dtype=object),
            np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 0], [0, 1]]),
            np.array([[1, 2], [3, np.nan]], dtype=np.float32, order="F"),
            pd.DataFrame({"a": [1, 3], "b": [2, None]}),
            pd.DataFrame({"a": [1, 3], "b": pd.array([2, None], dtype="Int64")}),
            pl.DataFrame({"a": [1, 3], "b": [2, None]}),
            pa.table({"a": [1, 3], "b": [2, None]}),
        ],
        ids=["lists", "objects", "masked", "fortran", "pandas", "nullable", "polars", "arrow"],
    )
    def test_missing_in_every_dialect(self, array):
        if not isinstance(array, pa.Table):
            assert CandidateSets.from_padded(array).to_lists() == [[1, 2], [3]]
        if not isinstance(array, list):
            assert as_candidate_sets(array).to_lists() == [[1, 2], [3]]

    @pytest.mark.parametrize(
        ("array", "expected"),
        [
            ([[1, 2], [3]], "from_lists takes rows of any length"),
            ([1, 2], "2 dimensions .*from_labels"),
            ([[1, 2], ["a", 3]], "row 1, column 0"),
            ([[1, 2], ["a", 3]], {"row": 1, "column": 0, "value": "a"}),
            ([[1, 2], [np.inf, 3]], {"row": 1, "value": np.inf}),
            ([[1, 2], [2j, 3]], "Complex data not supported"),
            ([[1], [np.nan]], {"row": 1}),
            (np.empty((2, 0)), {"row": 0}),
            (np.zeros((1, 1), dtype="M8[ns]"), {"row": 0, "column": 0}),
        ],
    )
    def test_refusals(self, array, expected):
        with refused(CandidateError, expected):
            CandidateSets.from_padded(array)


class TestColumns:
    @pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
    def test_every_table(self, make):
        S = CandidateSets.from_columns(make(WIDE), ["b", "a"], prior=["pb", "pa"])
        assert S.to_lists() == [[4, 1], [5], [6, 3]]
        assert S.prior.tolist() == [0.25, 0.75, 1, 1, 0]
        assert S.slots is None
        S = CandidateSets.from_columns(make(WIDE), ["a", "b"], prior=[1, 3])
        assert S.prior.tolist() == [0.25, 0.75, 1, 0.25, 0.75]
        assert S.slots.tolist() == [0, 1, 1, 0, 1]

    @pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
    @pytest.mark.parametrize(
        ("arguments", "error", "expected"),
        [
            ((["a", "bb"],), ParameterError, "Unknown column 'bb'; did you mean 'b'"),
            ((["a", "s"],), CandidateError, "Column 's', row 0, holds 'x': strings are not numbers"),
            (("a",), ParameterError, "list of one column name or more"),
            (([],), ParameterError, {"parameter": "columns", "value": []}),
            ((["a", "a"],), ParameterError, {"parameter": "columns"}),
            ((["a"],), EmptySetError, {"row": 1}),
            ((["a", "b"], ["pa"]), LengthError, {"parameter": "prior"}),
            ((["a", "b"], ["pa", "q"]), ParameterError, {"value": "q"}),
        ],
    )
    def test_refusals(self, make, arguments, error, expected):
        with refused(error, expected):
            CandidateSets.from_columns(make(WIDE), *arguments)

    def test_refusals_of_tables(self):
        with pytest.raises(LengthError, match="'a' 1, 'b' 2"):
            CandidateSets.from_columns({"a": [1], "b": [1, 2]}, ["a", "b"])
        with pytest.raises(LengthError, match="'a' 1, 'p' 2"):
            CandidateSets.from_columns({"a": [1], "p": [1, 2]}, ["a"], prior=["p"])
        with pytest.raises(PriorError, match="Prior column 's', row 0, holds 'x'"):
            CandidateSets.from_columns(WIDE, ["b"], prior=["s"])
        with refused(PriorError, {"row": 1, "value": "pa"}):
            CandidateSets.from_columns(WIDE, ["a", "b"], prior=[1, "pa"])
        with pytest.raises(CandidateError, match="2 dimensions"):
            CandidateSets.from_columns({"a": np.ones((2, 2))}, ["a"])
        with refused(CandidateError, {"column": "a"}):
            CandidateSets.from_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]), ["a"])
        with pytest.raises(CandidateError, match="no named columns"):
            CandidateSets.from_columns([[1, 2]], ["a"])


def test_frame_libraries_are_imported_only_where_used():
    # scikit-learn loads pandas and pyarrow where it finds them, so looking at sys.modules would prove nothing.
    code = (
        "import sys; sys.modules.update(pandas=None, polars=None, pyarrow=None)\n"
        "import numpy as np; from plr.candidates import CandidateSets, as_candidate_sets\n"
        "S = as_candidate_sets([[1.0, 2.0], [3.0]]) + as_candidate_sets(np.array([4.0]))\n"
        "S = S + CandidateSets.from_columns({'a': [1.0]}, ['a']) + CandidateSets.from_padded(np.ones((2, 2)))\n"
        "print(S[[0, 1]].unique().mean())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[1.5 3. ]\n", done.stderr
