"""Which rows are worth checking: for what their answers teach, with known probabilities, and never in vain."""

import pickle

import numpy as np
import pytest

from plr import CandidateSets, PartialLabelRegressor, errors
from plr.review import RANDOM, REVIEW, choose_rows, worth_checking

ROWS = 60


def choose(n=8, seed=0, *, rows=ROWS, open_rows=None, checked=None, telling=None, position=None, elsewhere=10):
    """Choose among rows of two candidates, one feature of which differs only where it is ``telling``."""
    sets = CandidateSets(np.tile([0.0, 1.0], rows), 2 * np.arange(rows + 1))
    difference = np.zeros(rows) if telling is None else telling.astype(float)
    everything = np.ones(rows, dtype=bool)
    return choose_rows(
        n,
        sets,
        np.full(2 * rows, 0.5),
        everything if open_rows is None else open_rows,
        np.column_stack([np.repeat(difference, 2) * np.tile([0.0, 1.0], rows)]),
        np.zeros(1),
        np.ones(1),
        ~everything if checked is None else checked,
        np.arange(rows, dtype=float)[:, None] if position is None else position,
        np.random.default_rng(seed),
        elsewhere,
    )


TELLING = np.arange(300) % 4 == 0


def test_rows_that_teach_are_chosen_and_some_at_random():
    chosen = [choose(seed=seed, rows=300, telling=TELLING) for seed in range(50)]
    rows = np.array([row for found in chosen for row in found[0]])
    how = np.array([how for found in chosen for how in found[1]])
    assert TELLING[rows[how == REVIEW]].mean() > 0.7
    assert 0.15 < (how == RANDOM).mean() < 0.25
    assert abs(TELLING[rows[how == RANDOM]].mean() - 0.25) < 0.1


def test_the_first_ten_are_random():
    for elsewhere, rows, least, most in ((0, 8, 1.0, 1.0), (0, 20, 0.4, 0.7), (4, 8, 0.6, 0.9), (10, 50, 0.1, 0.3)):
        how = np.concatenate(
            [choose(n=rows, seed=seed, rows=300, telling=TELLING, elsewhere=elsewhere)[1] for seed in range(20)]
        )
        assert least <= (how == RANDOM).mean() <= most


def test_inverse_probabilities_give_unbiased_totals():
    label = np.random.default_rng(1).normal(3.0, 1.0, 300) + 2.0 * TELLING
    means, plain = [], []
    for seed in range(80):
        rows, _, probability = choose(seed=seed, rows=300, telling=TELLING)
        means.append((label[rows] / probability).sum() / 300)
        plain.append(label[rows].mean())
    assert np.mean(means) == pytest.approx(label.mean(), abs=4 * np.std(means) / np.sqrt(80))
    assert np.mean(plain) > label.mean() + 0.5


def test_every_beginning_of_the_choice_has_both_kinds():
    first = [choose(seed=seed)[1][:3] for seed in range(60)]
    assert 0.1 < np.mean([how == RANDOM for kinds in first for how in kinds]) < 0.3


def test_choice_is_spread_over_the_features():
    rows = choose(n=6)[0]
    assert sorted(np.unique(rows // 10)) == [0, 1, 2, 3, 4, 5]


def test_open_rows_alone_are_chosen_and_none_twice():
    open_rows = np.arange(ROWS) >= ROWS - 5
    rows, how, probability = choose(n=50, open_rows=open_rows)
    assert sorted(rows) == list(range(ROWS - 5, ROWS))
    assert len(how) == 5
    assert probability == pytest.approx(1.0)
    assert [len(part) for part in choose(open_rows=np.zeros(ROWS, dtype=bool))] == [0, 0, 0]


def test_what_checked_rows_have_taught_is_not_asked_again():
    # Two features; rows tell about the one or the other, and the first has been learned.
    first, checked = np.arange(600) < 300, np.arange(600) < 150
    features = np.zeros((1200, 2))
    features[1::2, 0], features[1::2, 1] = first, ~first
    rows, how, _ = choose_rows(
        8,
        CandidateSets(np.tile([0.0, 1.0], 600), 2 * np.arange(601)),
        np.full(1200, 0.5),
        ~checked,
        features,
        np.zeros(2),
        np.ones(2),
        checked,
        None,
        np.random.default_rng(0),
    )
    assert first[rows[how == REVIEW]].sum() <= 1
    assert not checked[rows].any()


@pytest.mark.parametrize(
    ("found", "rows"),
    [
        ((True, 0, 500, 0), 50),
        ((True, 45, 500, 0), 20),
        ((True, 5, 12, 0), 7),
        ((True, 100, 500, 0), 0),
        ((False, 0, 500, 300), 20),
        ((False, 0, 500, 20), 0),
    ],
)
def test_how_many_are_worth_checking(found, rows):
    assert worth_checking(*found) == rows


@pytest.fixture(scope="module")
def problem():
    random = np.random.default_rng(0)
    X = random.uniform(size=(80, 2))
    truth = np.round(4 * X[:, 0] + X[:, 1], 3)
    lists = [[label, *np.round(random.uniform(0, 5, row % 3), 3)] for row, label in enumerate(truth)]
    record = [f"r{row}-{place}" for row, values in enumerate(lists) for place in range(len(values))]
    plain = CandidateSets.from_lists(lists)
    return X, CandidateSets(plain.values, plain.offsets, record=record), truth


@pytest.fixture(scope="module")
def model(problem):
    X, S, truth = problem
    known = np.where(np.arange(len(S)) % 7 == 1, truth, np.nan)
    return PartialLabelRegressor("linear", random_state=0).fit(X, S, known=known)


def test_model_chooses_rows_that_are_not_checked(problem, model):
    _, S, _ = problem
    review = model.review(30, random_state=0)
    assert len(review) == len(set(review.row.tolist())) == 30
    assert (S.sizes[review.row] > 1).all()
    assert (review.row % 7 != 1).all()
    assert ((review.probability > 0) & (review.probability <= 1)).all()
    again = model.review(30, random_state=0)
    assert again.row.tolist() == review.row.tolist()
    assert again.probability.tolist() == review.probability.tolist()


def test_chosen_rows_have_their_candidates(problem, model):
    _, S, _ = problem
    review, shares = model.review(5, random_state=1), model.identify().probabilities
    for place, row in enumerate(review.row):
        begin, end = S.offsets[row : row + 2]
        candidates = review.candidates(place)
        assert {candidate["record"] for candidate in candidates} == set(S.record[begin:end])
        assert [candidate["probability"] for candidate in candidates] == sorted(shares[begin:end], reverse=True)


def test_review_of_other_rows_and_of_a_pickled_model(problem, model):
    X, S, _ = problem
    loaded = pickle.loads(pickle.dumps(model))
    assert len(loaded.review(4, X, S, random_state=0)) == 4
    with pytest.raises(errors.NotFittedError, match=r"training rows are not kept"):
        loaded.review(4)
    with pytest.raises(errors.ParameterError, match="at least 1"):
        model.review(0)


def test_rows_that_are_known_are_not_chosen_again(problem, model):
    X, S, truth = problem
    known = np.where(np.arange(len(S)) < 60, truth, np.nan)
    review = model.review(80, X, S, known=known, random_state=0)
    assert (review.row >= 60).all()
    assert len(review) == (S.sizes[60:] > 1).sum()
    with pytest.raises(errors.ParameterError, match="known says what is known of the rows given"):
        model.review(4, known=known)


def test_rows_learned_from_elsewhere_count():
    # Of two features, one is rare; learning from others like these leaves more to learn about the rare one.
    common = np.arange(600) % 10 > 0
    features = np.zeros((1200, 2))
    features[1::2, 0], features[1::2, 1] = common, ~common
    sets = CandidateSets(np.tile([0.0, 1.0], 600), 2 * np.arange(601))
    nobody = np.zeros(600, dtype=bool)

    def share_of_rare(elsewhere):
        rng = np.random.default_rng(0)
        shares = np.full(1200, 0.5)
        rows, how, _ = choose_rows(
            100, sets, shares, ~nobody, features, np.zeros(2), np.ones(2), nobody, None, rng, elsewhere
        )
        return (~common)[rows[how == REVIEW]].mean()

    assert share_of_rare(500) > share_of_rare(0) + 0.2


def test_what_was_found_goes_back_to_fit(problem, model):
    X, S, truth = problem
    review = model.review(10, random_state=0)
    known = np.full(len(S), np.nan)
    known[review.row] = truth[review.row]
    again = PartialLabelRegressor("linear", random_state=0).fit(X, S, known=known)
    assert again.identify().value[review.row] == pytest.approx(truth[review.row])


def test_where_false_labels_depend_on_features_checked_rows_count():
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 2))
    truth = X[:, 0]
    values = truth[:, None] + np.column_stack([np.zeros(90), 0.5 * random.normal(size=(90, 3))])
    score = np.column_stack([random.uniform(0.5, 1.0, 90), random.uniform(0.0, 0.7, (90, 3))])
    S = CandidateSets(values.ravel(), 4 * np.arange(91), features={"score": score.ravel()})
    known = np.where(np.arange(90) < 15, truth, np.nan)
    model = PartialLabelRegressor("linear", prior="learned", random_state=0).fit(X, S, known=known)
    assert model.prior_.agreement is not None
    review = model.review(10, random_state=0)
    assert (review.row >= 15).all()
