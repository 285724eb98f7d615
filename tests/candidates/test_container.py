import copy
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets
from plr.errors import CandidateError, InfeasibleError
from support.refusals import refused
from support.three_rows import LISTS, address


class TestConstructor:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (([1.0, 2.0], [0, 1]), "go from 0 to the 2 values, not from 0 to 1"),
            (([1.0, 2.0], [1, 2]), {"parameter": "offsets"}),
            (([1.0, 2.0], [0, 2, 1, 2]), "never fall; they do after row 1"),
            (([1.0, 2.0], []), "one entry more"),
            (([1.0, 2.0], [0.0, 2.0]), {"parameter": "offsets"}),
            (([[1.0, 2.0]], [0, 1]), {"parameter": "values"}),
            (([1.0, np.nan], [0, 2]), {"row": 0}),
            (([1.0, "a"], [0, 2]), {"row": 1, "value": "a"}),
            (([1.0], [0, 0, 1]), {"row": 0}),
        ],
    )
    def test_refusals(self, arguments, expected):
        with refused(CandidateError, expected):
            CandidateSets(*arguments)

    def test_slots(self):
        assert CandidateSets([1, 2], [0, 1, 2], slots=[3, 0]).slots.tolist() == [3, 0]
        assert CandidateSets([1, 2], [0, 1, 2], slots=[0, 0]).slots is None
        with refused(CandidateError, {"parameter": "slots"}):
            CandidateSets([1, 2], [0, 1, 2], slots=[0])

    def test_drop(self):
        S = CandidateSets([1, 2], [0, 0, 2], empty="drop")
        assert S.to_lists() == [[1, 2]]
        assert S.kept.tolist() == [1]


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
        with pytest.raises(InfeasibleError, match=r"1000000 candidates of row 1234 .* MiB"):
            np.asarray(S)
        with pytest.raises(MemoryError):
            S.to_padded()

    def test_arrow_shares_the_values(self, S):
        array = S.to_arrow()
        assert array.type == pa.list_(pa.float64())
        assert array.values.buffers()[1].address == address(S.values)
        assert array.to_pylist() == LISTS
        assert S[1:].to_arrow().to_pylist() == LISTS[1:]
