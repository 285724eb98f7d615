import copy
import pickle
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_consistent_length, indexable

from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import CandidateError, EmptySetError, InfeasibleError, LengthError, ParameterError, PriorError

LISTS = [[3.1, 7.0], [2.2], [5.0, 5.5, 9.1]]
WIDE = {"a": [1.0, None, 3.0], "b": [4, 5, 6], "pa": [3.0, None, 0.0], "pb": [1.0, 1.0, 2.0], "s": ["x", "y", "z"]}
LONG = {"id": ["b", "a", "b", "d"], "value": [1.0, 2.0, 3.0, 4.0], "score": [1, 1, 3, 1]}


@pytest.fixture(name="S")
def three_rows():
    return CandidateSets.from_lists(LISTS)


def address(array):
    return array.__array_interface__["data"][0]


class TestParts:
    def test_flat_arrays(self, S):
        assert S.values.dtype == np.float64
        assert S.offsets.dtype == np.int64
        assert S.values.tolist() == [3.1, 7.0, 2.2, 5.0, 5.5, 9.1]
        assert S.offsets.tolist() == [0, 2, 3, 6]
        assert S.sizes.tolist() == [2, 1, 3]
        assert S.row_index.tolist() == [0, 0, 1, 2, 2, 2]
        assert S.prior is S.slots is S.kept is None
        assert (len(S), S.shape, S.ndim) == (3, (3,), 1)

    def test_uniform_prior_as_an_array(self, S):
        np.testing.assert_array_equal(S.prior_or_uniform, [1 / 2, 1 / 2, 1, 1 / 3, 1 / 3, 1 / 3])

    @pytest.mark.parametrize("name", ["values", "offsets", "prior", "slots", "kept", "prior_or_uniform"])
    def test_arrays_are_read_only(self, name):
        gaps = np.array([[np.nan, 1.0], [np.nan, np.nan], [2.0, 3.0]])
        made = CandidateSets.from_padded(gaps, prior=[1, 2], empty="drop")
        for S in (made, pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            with pytest.raises(ValueError, match="read-only"):
                getattr(S, name)[0] = 5
        with pytest.raises(AttributeError):
            setattr(made, name, None)

    @pytest.mark.parametrize(
        "make",
        [
            lambda a: CandidateSets(a.reshape(-1), [0, 2, 4]),
            lambda a: CandidateSets(np.ones(4), [0, 2, 4], prior=a.reshape(-1)),
            CandidateSets.from_padded,
            lambda a: CandidateSets.from_padded(np.ones((2, 2)), prior=a),
            lambda a: CandidateSets.from_lists(list(a)),
            lambda a: CandidateSets.from_labels(a[0]),
            lambda a: CandidateSets.from_columns({"x": a[:, 0]}, ["x"]),
            lambda a: CandidateSets.from_long({"i": [0, 0], "v": a[0]}, "i", "v"),
        ],
    )
    def test_later_changes_of_the_input_do_not_show(self, make):
        data = np.full((2, 2), 0.5)
        S = make(data)
        before = S.to_lists(), S.prior_or_uniform.tolist()
        data[:] = 0.25
        assert (S.to_lists(), S.prior_or_uniform.tolist()) == before

    def test_a_read_only_array_is_shared(self):
        values = np.arange(4.0)
        values.flags.writeable = False
        assert np.shares_memory(CandidateSets(values, [0, 4]).values, values)

    def test_order_and_duplicates_stay(self):
        assert CandidateSets.from_lists([[2, 1, 2]]).to_lists() == [[2, 1, 2]]

    def test_repr(self, S):
        assert repr(S) == "CandidateSets(3 rows, sizes 1–3 (mean 2), values 2.2 to 9.1, uniform prior)"
        given = CandidateSets([1, 2], [0, 2], prior=[1, 1])
        assert repr(given) == "CandidateSets(1 row, sizes 2, values 1 to 2, given prior)"
        assert repr(S[:0]) == "CandidateSets(0 rows)"

    def test_no_rows_is_a_legal_container(self):
        for S in (CandidateSets([], [0]), CandidateSets.from_lists([]), CandidateSets([], [0], prior=[])):
            assert len(S) == 0
            assert list(S) == S.to_lists() == []
            assert S.mean().shape == S.row_index.shape == S.prior_or_uniform.shape == (0,)
            assert S.unique() == S == S + S == S[[]] == CandidateSets.concatenate([])
            assert np.asarray(S).shape == (0, 0)
            assert len(S.to_arrow()) == 0

    def test_equality(self, S):
        assert CandidateSets.from_lists(LISTS) == S
        assert S[:2] != S
        assert CandidateSets.from_lists([[3.1, 7.0], [2.2], [5.0, 5.5, 9.2]]) != S
        assert CandidateSets(S.values, [0, 1, 3, 6]) != S
        assert CandidateSets(S.values, S.offsets, np.ones(6)) == S
        assert CandidateSets(S.values, S.offsets, [1, 2, 1, 1, 1, 1]) != S
        assert S != LISTS
        assert (np.zeros(3) == S) is False
        with pytest.raises(TypeError, match="unhashable"):
            hash(S)

    def test_arithmetic_with_arrays_is_refused(self, S):
        for operation in (lambda: S + np.ones(3), lambda: np.ones(3) + S, lambda: S + LISTS):
            with pytest.raises(TypeError):
                operation()

    def test_pickle_and_copy_keep_everything(self):
        S = CandidateSets.from_padded([[np.nan, 1], [np.nan, np.nan], [2, 3]], prior=[1, 3], empty="drop")
        for other in (pickle.loads(pickle.dumps(S)), copy.copy(S), copy.deepcopy(S)):
            assert other == S
            assert other.kept.tolist() == [0, 2]
            assert other.slots.tolist() == [1, 0, 1]

    def test_pickling_a_part_does_not_carry_the_whole(self):
        S = CandidateSets.from_labels(np.arange(100_000.0))
        assert len(pickle.dumps(S[:3])) < 2_000


class TestIndexing:
    def test_one_row(self, S):
        assert S[2].tolist() == S[-1].tolist() == S[np.int32(2)].tolist() == S[2, ...].tolist() == LISTS[2]
        assert np.shares_memory(S[2], S.values)
        assert not S[2].flags.writeable

    @pytest.mark.parametrize(
        ("index", "rows"),
        [
            (slice(1, None), [1, 2]),
            (slice(None, None, -1), [2, 1, 0]),
            (slice(2, 1), []),
            ([2, 0, 0], [2, 0, 0]),
            ((1, 2), None),
            ([], []),
            (np.array([-1, 0], dtype=np.int8), [2, 0]),
            (np.array([1], dtype=np.uint64), [1]),
            ([True, False, True], [0, 2]),
            (pd.Series([False, True, True], index=[5, 6, 7]), [1, 2]),
            ((np.array([1, 2]), ...), [1, 2]),
            ((slice(0, 2), ...), [0, 1]),
            (([1],), [1]),
            (..., [0, 1, 2]),
        ],
    )
    def test_several_rows(self, S, index, rows):
        if rows is None:
            with pytest.raises(IndexError, match="one dimension"):
                S[index]
        else:
            assert S[index].to_lists() == [LISTS[row] for row in rows]

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            (3, "Index 3 is out of range for 3 rows"),
            (-4, "Index -4 is out of range"),
            ([0, 17], "Index 17 is out of range"),
            ([True, False], "mask has 2 entries for 3 rows"),
            ([0.5], "not float64"),
            ([[0, 1]], "not 2 dimensions"),
            (True, "0 dimensions"),
            (None, "0 dimensions"),
            ("a", "0 dimensions"),
            ((0, 1, ...), "one dimension"),
            ((0, np.array([1])), "one dimension"),
        ],
    )
    def test_bad_indices(self, S, index, message):
        with pytest.raises(IndexError, match=message):
            S[index]

    def test_a_slice_shares_memory(self, S):
        assert np.shares_memory(S[1:].values, S.values)

    def test_prior_and_slots_travel_and_kept_does_not(self):
        S = CandidateSets.from_padded([[np.nan, 1], [np.nan] * 2, [2, 3], [4, 5]], prior=[1, 3], empty="drop")
        for part in (S[1::-1], S[[1, 0]], (S[1:2] + S[:1])):
            assert part.to_lists() == [[2, 3], [1]]
            assert part.prior.tolist() == [0.25, 0.75, 1]
            assert part.slots.tolist() == [0, 1, 1]
            assert part.kept is None
        assert S[1:].slots is S[[1, 2]].slots is None

    def test_iteration(self, S):
        assert [row.tolist() for row in S] == LISTS


class TestScience:
    def test_mean_is_weighted_by_the_prior(self):
        S = CandidateSets.from_lists([[1, 5], [7]], prior=[[3, 1], [0.1]])
        assert S.mean().tolist() == [2, 7]

    def test_mean_stays_finite_and_inside_its_row(self):
        huge, third = 1.7e308, 1 / 3
        S = CandidateSets.from_lists([[huge] * 5, [-huge, huge], [third] * 3, [0.1] * 7])
        assert S.mean().tolist() == [huge, 0, third, 0.1]

    def test_unique_keeps_first_places_and_adds_priors(self):
        S = CandidateSets.from_lists([[5, 1, 5, 2], [1, 1]], prior=[[0.1, 0.2, 0.3, 0.4], [1, 1]]).unique()
        assert S.to_lists() == [[5, 1, 2], [1]]
        np.testing.assert_allclose(S.prior, [0.4, 0.2, 0.4, 1])
        assert S.slots.tolist() == [0, 1, 3, 0]

    def test_unique_without_prior_counts(self):
        S = CandidateSets.from_lists([[2, 1, 2], [0.0, -0.0], [3, 4]]).unique()
        assert S.prior.tolist() == [2 / 3, 1 / 3, 1, 1 / 2, 1 / 2]

    def test_unique_slots_are_columns(self):
        S = CandidateSets.from_padded([[np.nan, 4, 4, 5]]).unique()
        assert S.slots.tolist() == [1, 3]

    def test_nothing_to_merge_changes_nothing(self, S):
        assert S.unique() is S

    def test_concatenating_mixed_priors(self, S):
        other = CandidateSets([1, 2], [0, 2], prior=[3, 1])
        joined = S + other
        assert joined.to_lists() == [*LISTS, [1, 2]]
        np.testing.assert_array_equal(joined.prior, [*S.prior_or_uniform, 0.75, 0.25])
        assert (S + S).prior is None


class TestArrays:
    def test_padding(self, S):
        expected = [[3.1, 7.0, np.nan], [2.2, np.nan, np.nan], [5.0, 5.5, 9.1]]
        np.testing.assert_array_equal(np.asarray(S), expected)
        np.testing.assert_array_equal(S.to_padded(fill=0), np.nan_to_num(expected))
        assert np.asarray(S, dtype=np.float32).dtype == np.float32
        assert np.array(S[2:], dtype=object).shape == (1, 3)
        with pytest.raises(ValueError, match="always a copy"):
            np.array(S, copy=False)

    def test_padded_array_is_not_the_stored_one(self):
        S = CandidateSets.from_labels([1.0, 2.0])
        S.to_padded()[:] = 0
        assert S.to_lists() == [[1], [2]]

    def test_absurd_padding_is_refused_and_names_the_row(self):
        sizes = np.ones(2_000, dtype=np.int64)
        sizes[1_234] = 1_000_000
        S = CandidateSets(np.zeros(sizes.sum()), np.concatenate([[0], np.cumsum(sizes)]))
        with pytest.raises(InfeasibleError, match=r"1000000 candidates of row 1234 .* GiB"):
            np.asarray(S)
        with pytest.raises(MemoryError):
            S.to_padded()

    def test_arrow_shares_the_values(self, S):
        array = S.to_arrow()
        assert array.type == pa.list_(pa.float64())
        assert array.values.buffers()[1].address == address(S.values)
        assert array.to_pylist() == LISTS
        assert S[1:].to_arrow().to_pylist() == LISTS[1:]


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
        with pytest.raises(EmptySetError, match="rows 0, 1"):
            CandidateSets.from_arrow(pa.array([[], None]))
        with pytest.raises(EmptySetError, match="row 0"):
            CandidateSets.from_arrow(pa.array([[]], pa.list_(pa.string())))

    def test_null_inside_names_the_row(self):
        for column in (pa.array([[1.0], [None, 2.0]]), pl.Series([[1.0], [None, 2.0]]), pa.array([[], [None]])):
            with pytest.raises(CandidateError, match="Null inside the list of row 1"):
                CandidateSets.from_arrow(column)

    def test_nan_inside_names_the_row(self):
        with pytest.raises(CandidateError, match="NaN inside row 1 "):
            CandidateSets.from_arrow(pa.array([[1.0], [np.nan]]))

    @pytest.mark.parametrize(
        ("column", "message"),
        [
            (pa.array([["a"], ["b"]]), "Row 0 holds 'a': strings are not numbers"),
            (pa.array([[], [[1.0]]]), "Row 1 is nested too deep"),
            (pa.array([1.0]), "Arrow type double; a list.*from_labels"),
            (pl.Series(["a"]), "Arrow type .*string"),
            (pa.table({"x": [[1.0]]}), "Table is not one column"),
            (7, "int is not one column"),
            (np.array([1.0]), "Row 0 is the single number"),
        ],
    )
    def test_what_is_no_list_column(self, column, message):
        with pytest.raises(CandidateError, match=message):
            CandidateSets.from_arrow(column)

    def test_object_series_with_missing_rows(self):
        S = CandidateSets.from_arrow(pd.Series([[1, 2], None, np.nan, (3,)]), empty="drop")
        assert S.to_lists() == [[1, 2], [3]]
        assert S.kept.tolist() == [0, 3]


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
        ("rows", "message"),
        [
            ([[1], [2, None]], "Row 1 holds None: .*leave missing ones out"),
            ([[1], [2, pd.NA]], "Row 1 holds <NA>"),
            ([[1], [2, np.nan]], "NaN inside row 1 "),
            ([[1], [2, np.inf]], r"infinite inside row 1 \(1 of 2 rows"),
            ([[1], ["2"]], "Row 1 holds '2': strings are not numbers"),
            ([[1], "23"], "Row 1 holds '23': strings are not numbers"),
            ([[1], [b"2"]], "strings are not numbers"),
            ([[1], [2j]], "Complex data not supported: row 1"),
            ([[1], [np.complex64(2)]], "Complex data not supported"),
            ([[1], [[2]]], "Row 1 is nested too deep"),
            ([[1], np.ones((2, 2))], "Row 1 is nested too deep"),
            ([[1], 2.5], r"Row 1 is the single number 2.5 among lists; write \[2.5\]"),
            ([[1], {2.0}], "Row 1 is a set, which has no order"),
            ([[1], {2.0: 1}], "Row 1 is a dict, which has no order"),
            ([[1], object()], "which is not a number"),
            ([[1], (x for x in [2])], "which is not a number"),
            ([[1], [np.timedelta64(1, "s")]], "not a number"),
            ([[1], [10**400]], "too large for dtype"),
        ],
    )
    def test_bad_rows_are_named(self, rows, message):
        with pytest.raises(CandidateError, match=message):
            CandidateSets.from_lists(rows)
        with pytest.raises(CandidateError, match=message):
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
        with pytest.raises(ParameterError, match="did you mean 'drop'"):
            CandidateSets.from_lists(LISTS, empty="dropp")


class TestPrior:
    def test_normalised_row_by_row(self):
        S = CandidateSets.from_lists([[1, 2], [3], [4, 5]], prior=[[1, 3], [7], [0, 2]])
        assert S.prior.tolist() == [0.25, 0.75, 1, 0, 1]

    def test_extreme_scales(self):
        S = CandidateSets.from_lists([[1, 2], [3, 4]], prior=[[1.5e308, 1.5e308], [5e-324, 5e-324]])
        assert S.prior.tolist() == [0.5] * 4

    @pytest.mark.parametrize(
        ("prior", "message"),
        [
            ([[1], [1, -1], [1]], "1 of 3 rows have a prior that is negative: row 1"),
            ([[1], [1, 1], [np.nan]], "not finite: row 2"),
            ([[np.inf], [1, 1], [np.nan]], "2 of 3 rows have a prior that is not finite: rows 0, 2"),
            ([[1], [0, 0], [1]], "zero for every candidate: row 1"),
            ([[1], [1], [1]], r"row 1 has 2 candidates and 1 priors \(1 such rows"),
            ([[1], [1, None], [1]], "The prior cannot be read: Row 1 holds None"),
        ],
    )
    def test_bad_priors_are_named(self, prior, message):
        with pytest.raises(PriorError, match=message):
            CandidateSets.from_lists([[1], [2, 3], [4]], prior=prior)

    def test_rows_are_named_as_in_the_input_after_a_drop(self):
        with pytest.raises(PriorError, match="row 2"):
            CandidateSets.from_lists([[], [1], [2]], prior=[[], [1], [-1]], empty="drop")

    def test_lengths(self):
        with pytest.raises(LengthError, match="1 rows of candidates but 2 rows of priors"):
            CandidateSets.from_lists([[1]], prior=[[1], [1]])
        with pytest.raises(PriorError, match="one prior per candidate"):
            CandidateSets([1, 2], [0, 2], prior=[1])


class TestConstructor:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (([1.0, 2.0], [0, 1]), "go from 0 to the 2 values, not from 0 to 1"),
            (([1.0, 2.0], [1, 2]), "not from 1 to 2"),
            (([1.0, 2.0], [0, 2, 1, 2]), "never fall; they do after row 1"),
            (([1.0, 2.0], []), "one entry more"),
            (([1.0, 2.0], [0.0, 2.0]), "integers"),
            (([[1.0, 2.0]], [0, 1]), "1 dimension, not 2"),
            (([1.0, np.nan], [0, 2]), "NaN inside row 0"),
            (([1.0, "a"], [0, 2]), "strings are not numbers"),
            (([1.0], [0, 0, 1]), "no candidate: row 0"),
        ],
    )
    def test_refusals(self, arguments, message):
        with pytest.raises(CandidateError, match=message):
            CandidateSets(*arguments)

    def test_slots(self):
        assert CandidateSets([1, 2], [0, 1, 2], slots=[3, 0]).slots.tolist() == [3, 0]
        assert CandidateSets([1, 2], [0, 1, 2], slots=[0, 0]).slots is None
        with pytest.raises(CandidateError, match="one slot per candidate"):
            CandidateSets([1, 2], [0, 1, 2], slots=[0])

    def test_drop(self):
        S = CandidateSets([1, 2], [0, 0, 2], empty="drop")
        assert S.to_lists() == [[1, 2]]
        assert S.kept.tolist() == [1]


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
        with pytest.raises(PriorError, match="not finite: row 0"):
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
        ("array", "message"),
        [
            ([[1, 2], [3]], "from_lists takes rows of any length"),
            ([1, 2], "2 dimensions .*from_labels"),
            ([[1, 2], ["a", 3]], "row 1, column 0"),
            ([[1, 2], [np.inf, 3]], "infinite inside row 1"),
            ([[1, 2], [2j, 3]], "Complex data not supported"),
            ([[1], [np.nan]], "no candidate: row 1"),
            (np.empty((2, 0)), "2 of 2 rows have no candidate"),
            (np.zeros((1, 1), dtype="M8[ns]"), "not a number"),
        ],
    )
    def test_refusals(self, array, message):
        with pytest.raises(CandidateError, match=message):
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
        ("arguments", "error", "message"),
        [
            ((["a", "bb"],), ParameterError, "Unknown column 'bb'; did you mean 'b'"),
            ((["a", "s"],), CandidateError, "Column 's', row 0, holds 'x': strings are not numbers"),
            (("a",), ParameterError, "list of one column name or more"),
            (([],), ParameterError, "list of one column name or more"),
            ((["a", "a"],), ParameterError, "twice"),
            ((["a"],), EmptySetError, "no candidate: row 1"),
            ((["a", "b"], ["pa"]), LengthError, "one column name or number for each"),
            ((["a", "b"], ["pa", "q"]), ParameterError, "Unknown column 'q'"),
        ],
    )
    def test_refusals(self, make, arguments, error, message):
        with pytest.raises(error, match=message):
            CandidateSets.from_columns(make(WIDE), *arguments)

    def test_refusals_of_tables(self):
        with pytest.raises(LengthError, match="'a' 1, 'b' 2"):
            CandidateSets.from_columns({"a": [1], "b": [1, 2]}, ["a", "b"])
        with pytest.raises(LengthError, match="'a' 1, 'p' 2"):
            CandidateSets.from_columns({"a": [1], "p": [1, 2]}, ["a"], prior=["p"])
        with pytest.raises(PriorError, match="Prior column 's', row 0, holds 'x'"):
            CandidateSets.from_columns(WIDE, ["b"], prior=["s"])
        with pytest.raises(PriorError, match="The prior, row 1, holds 'pa'"):
            CandidateSets.from_columns(WIDE, ["a", "b"], prior=[1, "pa"])
        with pytest.raises(CandidateError, match="2 dimensions"):
            CandidateSets.from_columns({"a": np.ones((2, 2))}, ["a"])
        with pytest.raises(CandidateError, match="2 columns named 'a'"):
            CandidateSets.from_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]), ["a"])
        with pytest.raises(CandidateError, match="no named columns"):
            CandidateSets.from_columns([[1, 2]], ["a"])


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
        ("changes", "rows", "error", "message"),
        [
            ({}, ["a", "b"], CandidateError, "lines for row 'd', not among the 2 row ids"),
            ({}, list("abda"), ParameterError, "twice"),
            ({}, [1, 2], ParameterError, "large_string but those in rows of type int64"),
            ({"id": ["b", None, "b", "d"]}, None, CandidateError, "no row id in column 'id', row 1"),
            ({"id": ["b", 1, "b", "d"]}, None, CandidateError, "not of one plain type"),
            ({"value": [1, 2, None, 3]}, None, CandidateError, "NaN inside row 'b'"),
            ({"value": [1, 2, "x", 3]}, None, CandidateError, "Column 'value', row 2, holds 'x'"),
            ({"value": [1, 2]}, None, LengthError, r"Column 'value' has shape \(2,\)"),
            ({"score": [1, 1, -1, 1]}, None, PriorError, "negative: row 'b'"),
        ],
    )
    def test_refusals(self, changes, rows, error, message):
        with pytest.raises(error, match=message):
            CandidateSets.from_long({**LONG, **changes}, "id", "value", "score", rows=rows)

    def test_unknown_column(self):
        with pytest.raises(ParameterError, match="did you mean 'value'"):
            CandidateSets.from_long(LONG, "id", "valeu")

    def test_dropping_with_prior_names_ids(self):
        with pytest.raises(PriorError, match="negative: row 'b'"):
            CandidateSets.from_long(
                {"id": ["b"], "value": [1], "score": [-1]}, "id", "value", "score", rows=["a", "b"], empty="drop"
            )


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

    def test_a_frame_of_one_list_column(self):
        for frame in (pd.DataFrame({"y": LISTS}), pl.DataFrame({"y": LISTS})):
            with pytest.warns(DataConversionWarning):
                assert as_candidate_sets(frame).to_lists() == LISTS

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            (None, "requires y to be passed, but the target y is None"),
            (np.array([1, 2j]), "Complex data not supported"),
            ([1, 2j], "Complex data not supported: row 1"),
            (np.array([[1, 2j]]), "Complex data not supported"),
            (np.array(["1", "b"]), "Row 0 holds '1': strings are not numbers"),
            ([1.0, "b"], "Row 1 holds 'b': strings are not numbers"),
            (pd.Series(["a", "b"]), "Row 0 holds 'a': strings are not numbers"),
            (pl.Series(["a", "b"]), "Row 0 holds 'a': strings are not numbers"),
            (pa.array(["a", "b"]), "Row 0 holds 'a': strings are not numbers"),
            (np.array([1.0, "b"], dtype=object), "Row 1 holds 'b': strings are not numbers"),
            (pd.Series([[1.0], [2.0, "b"]]), "Row 1 holds 'b': strings are not numbers"),
            (np.ones((2, 2, 2)), "row 0 is nested too deep"),
            ([[1.0], [[2.0]]], "Row 1 is nested too deep"),
            (np.array(1.0), "0 dimensions"),
            (np.array(["2020-01-01"], dtype="M8[ns]"), "not a number"),
            (np.array([1], dtype="m8[s]"), "not a number"),
            (1.5, "float is no target"),
            ("abc", "str is no target"),
            ({"a": [1.0]}, "dict is no target.*from_columns"),
            ({1.0, 2.0}, "set is no target"),
            (sparse.csr_array(np.eye(2)), "csr_array is no target"),
            ([[1.0], []], "no candidate: row 1"),
            ([None, [1.0]], "no candidate: row 0"),
        ],
    )
    def test_refusals(self, target, message):
        with pytest.raises(CandidateError, match=message):
            as_candidate_sets(target)

    def test_every_refusal_is_a_value_error(self):
        with pytest.raises(ValueError, match="requires y"):
            as_candidate_sets(None)

    def test_objects_that_only_turn_into_arrays(self):
        class NotAnArray:
            def __array__(self, dtype=None, copy=None):
                return np.array([1.0, 2.0], dtype=dtype)

        assert as_candidate_sets(NotAnArray()).to_lists() == [[1], [2]]


class NearestMean(RegressorMixin, BaseEstimator):
    """Predicts one number; fits and scores on candidate sets and on nothing else."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, S):
        assert isinstance(S, CandidateSets)
        assert len(S) == len(X)
        # Each row's features hold its own first candidate: splits must keep the two together.
        np.testing.assert_array_equal(np.asarray(X)[:, 0], S.values[S.offsets[:-1]])
        self.mean_ = S.mean().mean() + self.shift
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)

    def score(self, X, S):
        assert isinstance(S, CandidateSets)
        return -np.abs(S.values - self.predict(X)[S.row_index]).mean()


class TestScikitLearn:
    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(0)
        sizes = rng.integers(1, 5, size=60)
        S = CandidateSets.from_lists([rng.normal(size=size) for size in sizes])
        return S.values[S.offsets[:-1]][:, np.newaxis], S

    def test_safe_indexing(self, S):
        assert _safe_indexing(S, [2, 0]).to_lists() == [LISTS[2], LISTS[0]]
        assert _safe_indexing(S, np.array([True, False, True])).to_lists() == [LISTS[0], LISTS[2]]
        assert _safe_indexing(S, [True, False, True]).to_lists() == [LISTS[0], LISTS[2]]
        assert _safe_indexing(S, slice(0, 2)).to_lists() == LISTS[:2]
        assert _safe_indexing(S, (0, 2)).to_lists() == [LISTS[0], LISTS[2]]
        assert _safe_indexing(S, 1).tolist() == LISTS[1]

    def test_lengths_and_indexable(self, S):
        check_consistent_length(np.ones(3), S)
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[2, 3\]"):
            check_consistent_length(np.ones(2), S)
        assert indexable(np.ones(3), S)[1] is S

    def test_train_test_split(self, data):
        X, S = data
        *_, first, second = train_test_split(X, S, random_state=0)
        assert isinstance(first, CandidateSets)
        assert (len(first), len(second)) == (45, 15)

    @pytest.mark.parametrize("frame", [np.asarray, pd.DataFrame, lambda X: pl.DataFrame(X, schema=["x"])])
    @pytest.mark.parametrize("cv", [None, 3, KFold(4, shuffle=True, random_state=0), ShuffleSplit(2, random_state=0)])
    def test_cross_validation(self, data, frame, cv):
        X, S = data
        scores = cross_val_score(NearestMean(), frame(X), S, cv=cv, error_score="raise")
        assert np.all(scores < 0)

    def test_cross_val_predict_pipeline_and_learning_curve(self, data):
        X, S = data
        assert cross_val_predict(NearestMean(), X, S, cv=3).shape == (60,)
        identity = StandardScaler(with_mean=False, with_std=False)
        assert cross_val_score(make_pipeline(identity, NearestMean()), X, S, error_score="raise").shape == (5,)
        learning_curve(NearestMean(), X, S, error_score="raise")

    def test_grid_search(self, data):
        X, S = data
        search = GridSearchCV(NearestMean(), {"shift": [0.0, 5.0]}, cv=3, error_score="raise").fit(X, S)
        assert search.best_params_ == {"shift": 0.0}
        assert search.score(X, S) < 0


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


def seconds(function):
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    print(f"{best:.3f} s")
    return best


class TestSpeed:
    @pytest.fixture(scope="class")
    @classmethod
    def million(cls):
        rng = np.random.default_rng(0)
        padded = rng.normal(size=(1_000_000, 5))
        padded[rng.random(padded.shape) < 0.3] = np.nan
        padded[:, 2] = 0.0
        return padded

    def test_from_padded(self, million):
        assert seconds(lambda: CandidateSets.from_padded(np.nan_to_num(million))) < 1.5
        assert seconds(lambda: CandidateSets.from_padded(million)) < 1.5

    def test_indexing(self, million):
        S = CandidateSets.from_padded(million)
        rows = np.random.default_rng(1).permutation(len(S))
        assert seconds(lambda: S[rows]) < 1.5
        assert seconds(lambda: S[rows > 500_000]) < 1.5
        assert seconds(S.mean) < 1.0
        assert seconds(S.to_padded) < 1.0

    def test_from_lists(self, million):
        lists = CandidateSets.from_padded(million[:200_000]).to_lists()
        assert seconds(lambda: CandidateSets.from_lists(lists)) < 1.0
        assert seconds(lambda: as_candidate_sets(lists)) < 1.0
        arrays = [np.array(row) for row in lists]
        assert seconds(lambda: CandidateSets.from_lists(arrays)) < 1.5

    def test_from_long_and_unique(self, million):
        S = CandidateSets.from_padded(million[:200_000])
        table = {"row": S.row_index, "value": S.values}
        assert seconds(lambda: CandidateSets.from_long(table, "row", "value", rows=range(len(S)))) < 2.0
        assert seconds(S.unique) < 2.0
