"""A network trained by lanes: the same whoever has them, and the same after a break."""

import threading

import numpy as np
import pytest

from plr import make_candidates
from plr.candidates import CandidateSets
from plr.errors import DivergenceError
from plr.learners import MLP
from plr.losses import Squared
from plr.streaming.ahead import ahead
from plr.streaming.network_training import LaneTraining
from plr.streaming.shuffled import CopyShape, EncodedRows, ShuffledCopy, TrainingOrder, read_rounds, write_part
from plr.weighting import Posterior
from plr.weighting.rule import Rule


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    random = np.random.default_rng(0)
    X = random.normal(size=(3_000, 3)).astype("float32")
    S = make_candidates(np.tanh(X @ [1.0, 0.5, -1.0]), false_labels=2, random_state=0)
    S = CandidateSets((S.values - S.values.mean()) / S.values.std(), S.offsets)
    place = tmp_path_factory.mktemp("copy")
    shape = CopyShape(3, "float32", 3, 4, 2_000, 0)
    return ShuffledCopy.complete(place, shape, write_part(place, 0, shape, [EncodedRows(X, S)]))


def make(copy, lanes=None, group=None, score=None, **settings):
    learner = MLP(hidden=(16, 8), batch_size=100, epochs=4, **settings)
    rule = Rule(Posterior(missing_truth=0.0), Squared())
    order = TrainingOrder(copy.sizes, 4, 100, seed=5)
    return LaneTraining(rule, learner.settings(copy.rows), order, 3, 3, seed=1, lanes=lanes, group=group, score=score)


class Several:
    """Processes that are threads, and add up in pairs."""

    def __init__(self, processes):
        self.processes = processes
        self._barrier = threading.Barrier(processes)
        self._parts = [None] * processes

    def member(self, number):
        several = self

        class Member:
            processes = several.processes

            def __init__(self):
                self.number = number

            def add(self, array):
                several._parts[number] = array.copy()
                several._barrier.wait(30)
                parts = list(several._parts)
                while len(parts) > 1:
                    parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
                total = parts[0]
                several._barrier.wait(30)
                array[:] = total

        return Member()


def reference(copy):
    training = make(copy)
    training.run(ahead(read_rounds(copy, training.order)))
    return training


@pytest.mark.parametrize("processes", [2, 4])
def test_the_number_of_processes_does_not_matter_to_the_bit(copy, processes):
    alone = reference(copy)
    several = Several(processes)
    found, errors = {}, []

    def work(number):
        lanes = TrainingOrder(copy.sizes, 4, 100, seed=5).lanes_of(number, processes)
        training = make(copy, lanes, several.member(number))
        # Each opens the files for itself, as a process would.
        try:
            training.run(read_rounds(ShuffledCopy(copy.folder), training.order, lanes=lanes))
            found[number] = training
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    for training in found.values():
        assert (training.network.parameters == alone.network.parameters).all()
        assert training.losses == alone.losses
        assert training.scales == alone.scales


def test_it_learns(copy):
    training = reference(copy)
    assert training.losses[-1] < 0.15 * training.losses[0]
    assert training.scales[-1] < 0.5 * training.scales[0]
    assert training.steps == training.order.steps == 4 * 3 * 10
    assert training.is_over


@pytest.mark.parametrize("after", [1, 3, 8])
def test_a_training_that_is_taken_up_ends_where_it_would_have(copy, after):
    broken = make(copy)
    with pytest.raises(KeyboardInterrupt):
        broken.run(read_rounds(copy, broken.order), save=lambda: stop() if broken.round == after else None)
    kept = {name: part.copy() for name, part in broken.state().items()}
    again = make(copy)
    again.restore(kept)
    assert again.round == after
    again.run(read_rounds(copy, again.order, again.round))
    assert (again.network.parameters == reference(copy).network.parameters).all()
    assert again.losses == reference(copy).losses


def stop():
    raise KeyboardInterrupt


def test_the_best_epoch_is_kept_and_patience_ends_it(copy):
    scores = iter([3.0, 1.0, 2.0, 2.5])
    seen = []

    def judge(network, state):
        assert state[0] > 0
        seen.append(network.parameters.copy())
        return next(scores)

    training = make(copy, score=judge)
    training.run(read_rounds(copy, training.order))
    assert training.best_epoch == 1
    assert (training.network.parameters == seen[1]).all()

    scores, seen = iter([3.0, 1.0, 2.0, 2.5]), []
    patient = make(copy, score=judge, patience=1)
    patient.run(read_rounds(copy, patient.order))
    assert patient.stopped
    assert len(seen) == 3


def test_thousands_of_quick_rounds_do_no_harm(copy):
    training = make(copy)
    training._budget = 1 << 62
    training.run(read_rounds(copy, training.order))
    assert training._budget <= 1 << 30


def test_rounds_out_of_turn_and_losses_out_of_range_are_errors(copy):
    training = make(copy)
    with pytest.raises(RuntimeError, match="Round 2 came in place of 0"):
        training.run(read_rounds(copy, training.order, 2))
    wild = make(copy, learning_rate=1e30, optimizer="sgd")
    with pytest.raises(DivergenceError, match="learning rate"):
        wild.run(read_rounds(copy, wild.order))


def test_reading_ahead_hands_errors_on_and_stops_with_its_reader():
    def items():
        yield 1
        raise ValueError("wrong")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="wrong"):
        next(found)
    before = threading.active_count()
    endless = ahead(iter(int, 1))
    next(endless)
    endless.close()
    assert threading.active_count() <= before
