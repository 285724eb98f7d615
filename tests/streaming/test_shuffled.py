"""A shuffled copy has every row once, spread over chunks and lanes at random."""

import numpy as np
import pytest

from plr.candidates import CandidateSets
from plr.errors import DataError
from plr.streaming import shuffled
from plr.streaming.shuffled import (
    CopyShape,
    EncodedRows,
    ShuffledCopy,
    TrainingOrder,
    plan_shape,
    read_rounds,
    space_for,
    write_part,
)


def prepared(first, last, extras=False):
    """Return rows whose features, candidates and the rest all tell which row it is."""
    number = np.arange(first, last)
    sizes = number % 3 + 1
    values = np.repeat(number, sizes).astype(float)
    S = CandidateSets(values, np.concatenate([[0], np.cumsum(sizes)]), values + 1 if extras else None)
    features = np.column_stack([number, -number]).astype("float32")
    return EncodedRows(features, S, *((number + 0.5, values / 2, values / 4) if extras else ()))


@pytest.fixture(params=[False, True], ids=["plain", "extras"])
def copy(request, tmp_path):
    lists = ("prior", "log_q", "start") if request.param else ()
    shape = CopyShape(2, "float32", 5, 3, 400, 7, request.param, lists)
    runs = write_part(tmp_path, 0, shape, (prepared(at, at + 130, request.param) for at in range(0, 650, 130)))
    runs += write_part(tmp_path, 1, shape, [prepared(650, 1_000, request.param)])
    assert [run["rows"] for run in runs] == [400, 250, 350]
    return ShuffledCopy.complete(tmp_path, shape, runs)


def test_every_row_is_there_once_with_all_that_belongs_to_it(copy):
    order = TrainingOrder(copy.sizes, 1, 50, seed=1)
    seen = []
    for _, (rows, taken, _) in read_rounds(copy, order):
        number = rows.features[:, 0].astype(int)
        assert (rows.features[:, 1] == -number).all()
        assert (rows.S.sizes == number % 3 + 1).all()
        of_candidate = np.repeat(number, rows.S.sizes)
        assert (rows.S.values == of_candidate).all()
        if copy.shape.weighted:
            assert rows.S.prior == pytest.approx(1 / np.repeat(number % 3 + 1, number % 3 + 1))
            assert (rows.log_q == of_candidate / 2).all()
            assert (rows.start == of_candidate / 4).all()
            assert (rows.weight == number + 0.5).all()
        assert sorted(taken) == list(range(len(number)))
        seen.extend(number)
    assert sorted(seen) == list(range(1_000))
    assert copy.rows == 1_000


def test_chunks_and_lanes_are_about_equal_and_mix_rows_from_everywhere(copy):
    assert copy.sizes.max() - copy.sizes.min() <= 3
    for chunk in range(5):
        number = copy.read(chunk, 0, 3).features[:, 0]
        assert number.mean() == pytest.approx(500, abs=80)


def test_lanes_that_are_read_apart_are_those_of_the_whole(copy):
    order = TrainingOrder(copy.sizes, 2, 30, seed=3)
    (turn, whole), (_, one), (_, two) = (
        next(read_rounds(copy, order, 3, 4, lanes)) for lanes in ((0, 3), (0, 1), (1, 3))
    )
    parts = [one, two]
    assert turn.number == 3
    assert (np.concatenate([part.rows.features for part in parts]) == whole.rows.features).all()
    second = parts[1].order + parts[0].starts[-1]
    assert (np.concatenate([parts[0].order, second]) == whole.order).all()


def test_lanes_without_rows_are_empty(tmp_path):
    shape = CopyShape(2, "float32", 1, 4, 400, 7)
    copy = ShuffledCopy.complete(tmp_path, shape, write_part(tmp_path, 0, shape, [prepared(0, 1)]))
    ((_, (rows, *_)),) = read_rounds(copy, TrainingOrder(copy.sizes, 1, 50, seed=1), lanes=(0, 4))
    assert rows.features.shape == (1, 2)
    lane = int(np.flatnonzero(copy.sizes[0] == 0)[0])
    ((_, (rows, taken, starts)),) = read_rounds(copy, TrainingOrder(copy.sizes, 1, 50, seed=1), lanes=(lane, lane + 1))
    assert rows.features.shape == (0, 2)
    assert (taken.tolist(), starts.tolist(), rows.S.offsets.tolist()) == ([], [0, 0], [0])


def test_order_is_another_in_each_epoch_and_can_be_taken_up_anywhere():
    order = TrainingOrder(np.full((6, 2), 11), 3, 8, seed=0)
    turns = list(order.turns())
    assert [turn.number for turn in turns] == list(range(18))
    assert [turn.ends_epoch for turn in turns] == [False, False, False, False, False, True] * 3
    epochs = [[turn.chunk for turn in turns if turn.epoch == epoch] for epoch in range(3)]
    assert all(sorted(chunks) == list(range(6)) for chunks in epochs)
    assert epochs[0] != epochs[1]
    for first in (1, 6, 13):
        assert list(order.turns(first)) == turns[first:]
    assert order.steps == 3 * 6 * 3
    assert order.step_rows(0).tolist() == [8, 8, 6]


def test_the_last_step_takes_what_is_left_rather_than_a_handful_of_rows():
    order = TrainingOrder(np.array([[9, 8], [1, 0]]), 1, 8, seed=0)
    assert order.step_rows(0).tolist() == [8, 9]
    assert order.bounds(0).tolist() == [[0, 4, 9], [0, 4, 8]]
    assert order.step_rows(1).tolist() == [1]
    assert order.steps == 3


def test_a_part_that_is_there_is_not_written_again(tmp_path):
    shape, size = plan_shape(100, 2, "float32", 2.0, lanes=2, seed=0)
    assert (shape.chunks, size) == (1, 100 * (8 + 16 + 4 + 8))
    runs = write_part(tmp_path, 0, shape, [prepared(0, 100)])

    def never():
        raise AssertionError("read again")
        yield

    assert write_part(tmp_path, 0, shape, never()) == runs


def test_half_a_run_never_has_its_name(tmp_path, monkeypatch):
    shape, _ = plan_shape(100, 2, "float32", 2.0, lanes=2, seed=0)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shuffled, "_record_batch", full)
    with pytest.raises(DataError, match="No space left"):
        write_part(tmp_path, 0, shape, [prepared(0, 100)])
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(DataError, match=r"about 1048576\.0 GiB .* scratch"):
        space_for(tmp_path, 1 << 50)
