"""Candidate sets against the obvious model: a list of lists."""

import pickle

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

from plr.candidates import CandidateSets, as_candidate_sets
from plr.errors import EmptySetError, PriorError
from support.refusals import refused

quick = settings(max_examples=40)

reals = st.floats(allow_nan=False, allow_infinity=False)
few = st.sampled_from([-1.5, 0.0, -0.0, 2.0, 1e300])
rows = st.lists(reals | few, min_size=1, max_size=6)
models = st.lists(rows, max_size=12)
hollow = st.lists(st.just([]) | rows, max_size=12)
shares = st.floats(0, 1e308, allow_subnormal=True)


@st.composite
def with_prior(draw, values=reals | few):
    """Lists of candidates, and a list of priors of the same shape with something positive in each row."""
    model = draw(st.lists(st.lists(values, min_size=1, max_size=6), max_size=12))
    prior = [draw(st.lists(shares, min_size=len(row), max_size=len(row)).filter(any)) for row in model]
    return model, prior


@st.composite
def padded(draw):
    shape = draw(st.integers(0, 10)), draw(st.integers(1, 5))
    cells = draw(st.lists(reals | st.just(np.nan), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    return np.array(cells, dtype=float).reshape(shape)


def check_invariants(S):
    assert S.values.dtype == np.float64
    assert S.offsets.dtype == S.sizes.dtype == S.row_index.dtype == np.int64
    assert S.offsets[0] == 0
    assert S.offsets[-1] == len(S.values)
    assert np.all(S.sizes > 0)
    assert not S.values.flags.writeable
    assert not S.offsets.flags.writeable
    position = np.arange(len(S.values)) - S.offsets[:-1][S.row_index]
    assert S.slots is None or (S.slots.dtype == np.int32 and not np.array_equal(S.slots, position))
    for start, stop in zip(S.offsets[:-1], S.offsets[1:], strict=True):
        assert abs(S.prior_or_uniform[start:stop].sum() - 1) < 1e-12
    assert S.prior is None or np.all(S.prior >= 0)


@quick
@given(models)
def test_every_constructor_gives_the_lists_back(model):
    S = CandidateSets.from_lists(model)
    check_invariants(S)
    assert S.to_lists() == model
    assert [row.tolist() for row in S] == model
    kind = pa.list_(pa.float64())
    assert CandidateSets(S.values, S.offsets) == S
    assert CandidateSets.from_arrow(S.to_arrow()) == S
    assert CandidateSets.from_arrow(pa.array(model, kind)) == S
    assert CandidateSets.from_arrow(pa.array(model, pa.large_list(pa.float64()))) == S
    assert CandidateSets.from_arrow(pl.Series(model, dtype=pl.List(pl.Float64))) == S
    assert CandidateSets.from_arrow(pd.Series(model, dtype=object)) == S
    assert CandidateSets.from_arrow(pd.Series(model, dtype=pd.ArrowDtype(kind))) == S
    assert CandidateSets.from_padded(S.to_padded()) == S
    assert CandidateSets.from_long({"row": S.row_index, "value": S.values}, "row", "value", rows=range(len(S))) == S
    assert pickle.loads(pickle.dumps(S)) == S
    if model:
        assert as_candidate_sets(model) == S
        names = [f"c{column}" for column in range(S.sizes.max())]
        for make in (pd.DataFrame, lambda array, columns: pl.DataFrame(array, schema=columns)):
            assert CandidateSets.from_columns(make(S.to_padded(), columns=names), names) == S


@quick
@given(with_prior())
def test_priors_are_normalised_the_same_way_everywhere(drawn):
    model, prior = drawn
    S = CandidateSets.from_lists(model, prior)
    check_invariants(S)
    for row, given_prior in enumerate(prior):
        scaled = np.array(given_prior) / max(given_prior)
        expected = scaled / scaled.sum()
        np.testing.assert_allclose(S.prior[S.offsets[row] : S.offsets[row + 1]], expected, rtol=1e-12, atol=0)
    kind = pa.list_(pa.float64())
    assert CandidateSets.from_arrow(pa.array(model, kind), pa.array(prior, kind)) == S
    assert CandidateSets.from_padded(S.to_padded(), _pad(prior, S)) == S
    flat = [share for row in prior for share in row]
    table = {"row": S.row_index, "value": S.values, "prior": flat}
    assert CandidateSets.from_long(table, "row", "value", "prior", rows=range(len(S))) == S
    assert CandidateSets(S.values, S.offsets, flat) == S


def _pad(prior, S):
    array = np.full(S.to_padded().shape, np.nan)
    for row, given_prior in enumerate(prior):
        array[row, : len(given_prior)] = given_prior
    return array


@quick
@given(with_prior())
def test_reading_a_prior_back_changes_no_bit(drawn):
    S = CandidateSets.from_lists(*drawn)
    np.testing.assert_array_equal(CandidateSets(S.values, S.offsets, S.prior).prior, S.prior)


@quick
@given(with_prior(), st.data())
def test_a_bad_prior_is_refused_with_its_row(drawn, data):
    model, prior = drawn
    if not model:
        return
    row = data.draw(st.integers(0, len(model) - 1))
    place = data.draw(st.integers(0, len(model[row]) - 1))
    prior[row][place] = data.draw(st.sampled_from([-1.0, np.nan, np.inf, -np.inf]))
    with refused(PriorError, {"row": row}):
        CandidateSets.from_lists(model, prior)


@quick
@given(hollow)
def test_dropping_empty_rows(model):
    full = [row for row, values in enumerate(model) if values]
    kind = pa.list_(pa.float64())
    makers = (
        CandidateSets.from_lists,
        lambda lists, empty: CandidateSets.from_arrow(pa.array(lists, kind), empty=empty),
        lambda lists, empty: CandidateSets.from_arrow(pa.array([row or None for row in lists], kind), empty=empty),
    )
    for make in makers:
        if len(full) < len(model):
            with pytest.raises(EmptySetError, match=f"{len(model) - len(full)} of {len(model)} rows"):
                make(model, empty="raise")
        S = make(model, empty="drop")
        check_invariants(S)
        assert S.to_lists() == [model[row] for row in full]
        assert (S.kept is None) == (len(full) == len(model))
        assert S.kept is None or S.kept.tolist() == full


@quick
@given(padded())
def test_padded_arrays_and_their_slots(array):
    S = CandidateSets.from_padded(array, empty="drop")
    check_invariants(S)
    present = ~np.isnan(array)
    kept = np.flatnonzero(present.any(axis=1))
    assert S.to_lists() == [array[row][present[row]].tolist() for row in kept]
    slots = np.arange(len(S.values)) - S.offsets[:-1][S.row_index] if S.slots is None else S.slots
    np.testing.assert_array_equal(array[kept][S.row_index, slots], S.values)
    names = [f"c{column}" for column in range(array.shape[1])]
    other = CandidateSets.from_columns(dict(zip(names, array.T, strict=True)), names, empty="drop")
    assert other == S
    assert (other.slots is None) == (S.slots is None)


@quick
@given(st.lists(st.tuples(st.sampled_from("abcde"), reals), max_size=20), st.permutations("abcde"))
def test_long_tables(lines, order):
    table = {"id": [name for name, _ in lines], "value": [value for _, value in lines]}
    expected = [[value for owner, value in lines if owner == name] for name in order]
    S = CandidateSets.from_long(
        pa.table(table, pa.schema({"id": "string", "value": "double"})), "id", "value", rows=order, empty="drop"
    )
    assert S.to_lists() == [row for row in expected if row]
    if lines:
        seen = list(dict.fromkeys(table["id"]))
        S = CandidateSets.from_long(pl.DataFrame(table), "id", "value")
        assert S.to_lists() == [[value for owner, value in lines if owner == name] for name in seen]


@quick
@given(with_prior(), st.data())
def test_indexing_as_a_list_would(drawn, data):
    model, prior = drawn
    S = CandidateSets.from_lists(model, prior)
    count = len(model)
    numbers = list(range(count))
    indices = data.draw(st.lists(st.integers(-count, count - 1), max_size=15)) if count else []
    mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    piece = data.draw(st.slices(count))
    chosen = [
        (piece, numbers[piece]),
        (np.array(indices, dtype=np.int64), [numbers[index] for index in indices]),
        (indices, [numbers[index] for index in indices]),
        (np.array(mask, dtype=bool), [number for number in numbers if mask[number]]),
        ((np.array(indices, dtype=np.int32), ...), [numbers[index] for index in indices]),
    ]
    flat = [S.prior[start:stop].tolist() for start, stop in zip(S.offsets[:-1], S.offsets[1:], strict=True)]
    for index, expected in chosen:
        part = S[index]
        check_invariants(part)
        assert part.to_lists() == [model[row] for row in expected]
        assert part.prior.tolist() == [share for row in expected for share in flat[row]]
    for index in set(indices):
        assert S[index].tolist() == model[index]
    for outside in (count, -count - 1):
        with pytest.raises(IndexError, match=f"Index {outside} is out of range for {count} rows"):
            S[outside]


@quick
@given(padded(), st.data())
def test_slots_travel(array, data):
    S = CandidateSets.from_padded(array, empty="drop")
    kept = np.arange(len(array)) if S.kept is None else S.kept
    indices = np.array(data.draw(st.lists(st.integers(0, len(S) - 1), max_size=10)) if len(S) else [], dtype=np.int64)
    for part, owners in ((S[indices], kept[indices]), (S[1:] + S[:1], np.roll(kept, -1)), (S.unique(), kept)):
        check_invariants(part)
        slots = np.arange(len(part.values)) - part.offsets[:-1][part.row_index] if part.slots is None else part.slots
        np.testing.assert_array_equal(array[owners[part.row_index], slots], part.values)


@quick
@given(st.lists(with_prior() | models.map(lambda model: (model, None)), max_size=4))
def test_concatenation(drawn):
    parts = [CandidateSets.from_lists(*each) for each in drawn]
    joined = CandidateSets.concatenate(parts)
    check_invariants(joined)
    assert joined.to_lists() == [row for model, _ in drawn for row in model]
    np.testing.assert_array_equal(
        joined.prior_or_uniform, np.concatenate([np.empty(0), *(part.prior_or_uniform for part in parts)])
    )
    total = CandidateSets.from_lists([])
    for part in parts:
        total = total + part
    assert total == joined


@quick
@given(with_prior(few), st.booleans())
def test_unique_against_a_dict(drawn, weighted):
    model, prior = drawn
    S = CandidateSets.from_lists(model, prior if weighted else None)
    merged = S.unique()
    check_invariants(merged)
    assert merged.to_lists() == [list(dict.fromkeys(row)) for row in model]
    assert merged.unique() is merged
    expected = []
    for row, start in zip(model, S.offsets, strict=False):
        totals = dict.fromkeys(row, 0.0)
        for value, share in zip(row, S.prior_or_uniform[start:], strict=False):
            totals[value] += share if weighted else 1
        expected += [total if weighted else total / len(row) for total in totals.values()]
    np.testing.assert_allclose(merged.prior_or_uniform, expected, rtol=1e-12 if weighted else 0)
    np.testing.assert_allclose(merged.mean(), S.mean(), rtol=1e-12, atol=1e-12)


@quick
@given(with_prior(), st.booleans())
def test_mean_against_the_obvious_loop(drawn, weighted):
    model, prior = drawn
    S = CandidateSets.from_lists(model, prior if weighted else None)
    for row, start, stop, mean in zip(model, S.offsets, S.offsets[1:], S.mean(), strict=False):
        naive = sum(value * share for value, share in zip(row, S.prior_or_uniform[start:stop], strict=True))
        np.testing.assert_allclose(mean, naive, rtol=1e-9, atol=1e-12 * max(map(abs, row)))
        assert min(row) <= mean <= max(row)


@quick
@given(st.lists(reals, max_size=20))
def test_labels_are_their_own_mean(labels):
    S = CandidateSets.from_labels(labels)
    np.testing.assert_array_equal(S.mean(), np.array(labels, dtype=float))
    assert S.to_lists() == [[label] for label in labels]
