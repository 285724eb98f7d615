"""No record is the truth of two rows."""

from itertools import product

import numpy as np
import pytest

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import CandidateError, ParameterError
from plr.learners.starts import DensityStart
from plr.priors.logit import Alternatives
from plr.priors.one_to_one import one_to_one_shares
from support.candidate_mechanisms import join


def by_enumeration(records, utility):
    """Sum over all ways to give each row a candidate of its own."""
    shares = [np.zeros(len(row)) for row in records]
    for choice in product(*(range(len(row)) for row in records)):
        taken = [row[place] for row, place in zip(records, choice, strict=True) if row[place] >= 0]
        if len(set(taken)) == len(taken):
            weight = np.exp(sum(row[place] for row, place in zip(utility, choice, strict=True)))
            for share, place in zip(shares, choice, strict=True):
                share[place] += weight
    return np.concatenate([share / share.sum() for share in shares])


def test_shares_are_exact_where_there_are_no_loops():
    records = [[0, 1], [1, 2, -1], [2, 3]]
    utility = [[0.5, 1.0], [2.0, 0.0, -1.0], [1.5, 0.0]]
    sets = Alternatives(np.array([0, 2, 5, 7]))
    found = one_to_one_shares(sets, np.concatenate(utility), np.concatenate(records))
    np.testing.assert_allclose(found, by_enumeration(records, utility), atol=1e-4)


def test_two_rows_that_want_one_record():
    sets = Alternatives(np.array([0, 2, 4]))
    found = one_to_one_shares(sets, np.array([5.0, 0.0, 1.0, 0.0]), np.array([7, 1, 7, 2]))
    assert found[0] > 0.95
    assert found[2] < 0.1


PROBLEM, START = join(120, matches=4), DensityStart(models="neighbours")


@pytest.fixture(scope="module")
def models():
    known = PROBLEM.known(40)
    return [
        PartialLabelRegressor("linear", one_to_one=wanted, start=START, random_state=0).fit(
            PROBLEM.X, PROBLEM.S, known=known
        )
        for wanted in (False, True)
    ]


def held(model):
    """Return how probable each record is to be that of some row."""
    found = model.identify().probabilities
    return np.bincount(PROBLEM.S.record.astype(int), found, len(PROBLEM.y))


def test_no_record_is_held_twice_and_more_rows_are_found(models):
    plain, unique = models
    assert held(plain).max() > 1.2 > 1.05 > held(unique).max()
    right = [np.mean(model.identify().value == PROBLEM.y) for model in models]
    assert right[1] > right[0]


def test_records_of_training_rows_count_against_new_rows(models):
    _, model = models
    sure = int(np.flatnonzero(model.identify().probability > 0.99)[0])
    record = str(PROBLEM.S.record[PROBLEM.S.offsets[sure] + model.identify().index[sure]])
    near = PROBLEM.y[sure]
    options = {"features": {"score": [[0.5, 0.5]]}}
    taken = CandidateSets.from_lists([[near, near + 0.1]], record=[[record, "new"]], **options)
    free = CandidateSets.from_lists([[near, near + 0.1]], record=[["other", "new"]], **options)
    row = PROBLEM.X[[sure]]
    assert model.identify(row, taken).probabilities[0] < 0.05 < 0.3 < model.identify(row, free).probabilities[0]
    with pytest.raises(CandidateError, match="need records"):
        model.identify(row, CandidateSets.from_lists([[1.0, 2.0]], features={"score": [[0.0, 0.0]]}))


@pytest.mark.parametrize("weighting", ["posterior", "progressive"])
def test_unrelated_candidates_have_records_too(weighting):
    # Two rows with the same features and candidates: each record goes to one of them.
    X = np.repeat(np.linspace(0, 1, 30), 2)[:, None]
    y = 3 * X[:, 0] + np.tile([0.0, 0.01], 30)
    values = np.column_stack([y[np.arange(60) // 2 * 2], y[np.arange(60) // 2 * 2 + 1]])
    records = np.column_stack([np.arange(60) // 2 * 2, np.arange(60) // 2 * 2 + 1])
    known = np.where(np.arange(60) % 2 == 0, y, np.nan)
    S = CandidateSets.from_padded(values, record=records)
    model = PartialLabelRegressor("linear", weighting, one_to_one=True, random_state=0).fit(X, S, known=known)
    np.testing.assert_array_equal(model.identify().value, y)
    assert model.identify().probability.min() > 0.9


def test_rows_without_weight_or_with_missing_truth_hold_nothing():
    S = CandidateSets.from_lists(
        [[1.0, 2.0], [1.0, 3.0], [1.0, 4.0], [5.0]], record=[["a", "b"], ["a", "c"], ["a", "d"], ["e"]]
    )
    X = np.arange(4.0)[:, None]
    options = {"learner": "linear", "one_to_one": True, "random_state": 0}
    model = PartialLabelRegressor(**options).fit(X, S, sample_weight=[1, 0, 1, 1], known=[np.nan, 1.0, 9.0, np.nan])
    assert set(model.prior_.held) == {"a", "b", "c", "d", "e"}
    assert model.prior_.held["c"] == model.prior_.held["d"] == 0.0
    assert model.prior_.held["a"] + model.prior_.held["b"] == pytest.approx(1.0)


def test_bad_input():
    X, y = np.zeros((2, 1)), [[1.0, 2.0], [1.0, 3.0]]
    model = PartialLabelRegressor("linear", one_to_one=True)
    with pytest.raises(ParameterError, match="which record each candidate is"):
        model.fit(X, y)
    S = CandidateSets.from_lists(y, record=[["a", "b"], ["a", "c"]])
    with pytest.raises(CandidateError, match="rows 0 and 1 both are the record 'a'"):
        model.fit(X, S, known=[1.0, 1.0])
    with pytest.raises(CandidateError, match="record 'a' twice"):
        model.fit(X, CandidateSets.from_lists(y, record=[["a", "a"], ["b", "c"]]))
