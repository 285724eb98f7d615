"""One pass over batches finds what all rows at once would say."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets
from plr.columns.kinds import Mended
from plr.errors import CandidateError, EmptySetError, ParameterError, TargetScaleError
from plr.preprocessing.features import learn_columns, learn_encoding
from plr.preprocessing.scaling import learn_target
from plr.streaming.preparation import choose_rows
from plr.streaming.survey import Moments, matrix, survey


def same_encoding(found, expected):
    assert found.numeric == expected.numeric
    assert found.marked == expected.marked
    assert {key: list(codes) for key, codes in found.categories.items()} == {
        key: list(codes) for key, codes in expected.categories.items()
    }
    assert found.fill == pytest.approx(expected.fill)
    assert found.scaling.centre == pytest.approx(expected.scaling.centre)
    assert found.scaling.scale == pytest.approx(expected.scaling.scale)


def test_it_learns_what_is_learned_in_memory(mixed):
    reading, X, S, _ = mixed
    found = survey(reading.rows())
    columns = learn_columns(X)
    assert found.columns(reading.features.names) == columns
    expected = learn_encoding(columns.encode(X), columns.categorical)
    for scale in (True, False):
        expected = learn_encoding(columns.encode(X), columns.categorical, None, scale)
        same_encoding(found.encoding(reading.features.names, columns, scale), expected)
    target, told = found.target(True), learn_target(S, None, True, False)
    assert (target.centre, target.scale) == pytest.approx((told.centre, told.scale))
    assert (found.rows, found.left_out, found.candidates) == (6_000, 0, S.values.size)
    assert (found.labels.low[0], found.labels.high[0]) == (S.values.min(), S.values.max())
    assert np.nan_to_num(matrix(X, columns), nan=-9) == pytest.approx(np.nan_to_num(columns.encode(X), nan=-9))


def test_weights_and_priors_count(rows, folder_of, reading_of):
    table, S, _ = rows(2_000, seed=3)
    weight = np.random.default_rng(0).integers(0, 4, 2_000).astype(float)
    prior = S.values - S.values.min() + 0.5
    table = table.append_column("weight", pa.array(weight))
    table = table.append_column("prior", CandidateSets(prior, S.offsets).to_arrow())
    reading = reading_of(folder_of(table), weights="weight", prior=("prior",))
    found = survey(reading.rows())
    X, _ = reading.features.apply(table, "table")
    columns = learn_columns(X)
    same_encoding(
        found.encoding(reading.features.names, columns, True),
        learn_encoding(columns.encode(X), columns.categorical, weight),
    )
    told = learn_target(CandidateSets(S.values, S.offsets, prior), weight, True, False)
    assert (found.target(True).centre, found.target(True).scale) == pytest.approx((told.centre, told.scale))
    assert found.has_prior


def test_large_offsets_cost_no_digits():
    random = np.random.default_rng(1)
    values = 1e9 + random.normal(size=(4_000, 1))
    found = Moments.of(values[:100])
    for at in range(100, 4_000, 650):
        found.add(Moments.of(values[at : at + 650]))
    assert found.deviation[0] == pytest.approx((values - 1e9).std(), rel=1e-6)
    assert Moments.of(np.full((5, 1), 3.3)).deviation[0] == 1.0


def test_chosen_rows_come_back_with_their_numbers(mixed):
    reading, _, S, _ = mixed
    held, sample = choose_rows(6_000, seed=0)
    assert (len(held), len(sample)) == (600, 5_400)
    assert not set(held) & set(sample)
    found = survey(reading.rows(), held)
    index = np.concatenate([part.index for part in found.chosen])
    assert (index == held).all()
    assert CandidateSets.concatenate([part.S for part in found.chosen]) == S[held]
    with pytest.raises(CandidateError, match="needs at least 20"):
        choose_rows(19, seed=0)


def test_what_is_wrong_is_told_with_file_and_row(rows, folder_of, reading_of):
    table, _, _ = rows(1_500)
    lists = table["y"].to_pylist()
    lists[1_203] = []
    place = folder_of(table.set_column(table.column_names.index("y"), "y", pa.array(lists)))
    with pytest.raises(EmptySetError, match=r"data row 203 of part-2\.parquet, counted from 0.*drop_empty"):
        survey(reading_of(place).rows())
    found = survey(reading_of(place, drop_empty=True).rows())
    assert (found.rows, found.left_out) == (1_499, 1)
    lists[1_203] = [1.0, float("inf")]
    place = folder_of(table.set_column(table.column_names.index("y"), "y", pa.array(lists)))
    with pytest.raises(CandidateError, match=r"data row 203 of part-2\.parquet"):
        survey(reading_of(place).rows())
    weighted = table.append_column("weight", pa.array([1.0] * 1_499 + [-1.0]))
    with pytest.raises(ParameterError, match=r"data row 499 of part-2\.parquet.* has -1"):
        survey(reading_of(folder_of(weighted), weights="weight").rows())


@pytest.mark.parametrize(("unit", "message"), [(1e-200, "Multiply them all"), (1e200, "a span beyond float64")])
def test_labels_whose_squares_are_no_numbers(rows, folder_of, reading_of, unit, message):
    table, S, _ = rows(50, plain=True)
    sets = CandidateSets(S.values * unit, S.offsets)
    place = folder_of(table.set_column(table.column_names.index("y"), "y", sets.to_arrow()), files=1)
    found = survey(reading_of(place).rows())
    for scale in (True, False):
        with pytest.raises(TargetScaleError, match=message):
            found.target(scale)


def test_notes_travel_between_processes():
    note = pickle.loads(pickle.dumps(Mended("size", "number", 2, "?")))
    assert (note.column, note.cells) == ("size", 2)
    assert str(note.joined(note)) == "Column 'size': 4 cells such as '?' are no number and count as missing."
