"""``plr.check``: what can be learned from candidate sets, and what cannot, before anything is fitted."""

import inspect
import json

import numpy as np
import pandas as pd
import pytest

import plr
from plr.diagnosis import measured
from plr.diagnosis.ambiguity import find_relations, labelled_rows, outlying_values, values_together
from plr.errors import LengthError, ParameterError
from plr.generation import make_candidates

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, size=(400, 3))
Y = 20 + 30 * X[:, 0] + 10 * X[:, 1] ** 2 + RNG.normal(0, 0.5, 400)


def test_plain_ambiguity_is_fine():
    found = plr.check(X, make_candidates(Y, 3, random_state=0))
    assert found.verdict == "fine"
    assert found.signal.gain > 5 * found.signal.gain_error
    assert found.signal.expected_right > found.signal.chance + 0.2
    assert found.ambiguity_degree == 0
    assert found.relations == ()


def test_features_without_meaning_cannot_tell():
    noise = RNG.normal(size=(400, 3))
    found = plr.check(noise, make_candidates(Y, 3, random_state=0))
    assert found.verdict == "cannot tell"
    assert "say nothing about the true values" in found.summary()


def test_faint_signal_is_thin():
    assert plr.check(X, make_candidates(Y, 12, set_size="fixed", random_state=0)).verdict == "thin"


TWINS = {
    "ratio": (lambda y: 2.20462 * y, 2.20462, "kilograms and pounds"),
    "difference": (lambda y: y + 25, 25.0, "25 more than the other"),
    "line": (lambda y: 1.8 * y + 32, 1.8, "°F and °C"),
}


@pytest.mark.parametrize(
    ("kind", "digits"),
    [*((kind, 1) for kind in TWINS), *(pytest.param(kind, 12, marks=pytest.mark.slow) for kind in TWINS)],
)
def test_every_row_with_its_twin_cannot_tell(kind, digits):
    other, value, words = TWINS[kind]
    pairs = np.round(np.column_stack([Y, other(Y)]), digits)
    found = plr.check(X, RNG.permuted(pairs, axis=1))
    assert found.verdict == "cannot tell"
    assert found.twins.kind == kind
    assert found.twins.value == pytest.approx(value, rel=5e-3)
    assert found.ambiguity_degree > 0.9
    assert words in found.summary()
    assert "Label some rows" in found.advice


def test_some_labelled_rows_or_a_prior_can_tell_twins_apart():
    lists = [[y] if row % 20 == 0 else [y, 2.5 * y] for row, y in enumerate(Y)]
    found = plr.check(X, lists)
    assert (found.verdict, found.labelled_rows) == ("thin", 20)
    prior = plr.CandidateSets.from_padded(np.column_stack([Y, 2.5 * Y]), prior=[0.7, 0.3])
    assert plr.check(X, prior).verdict == "thin"
    scored = plr.CandidateSets(prior.values, prior.offsets, features={"score": np.tile([0.7, 0.3], len(Y))})
    assert plr.check(X, scored).verdict == "cannot tell"
    found = plr.check(X, scored, match_score="score")
    assert found.verdict == "thin"
    assert "only the match score can tell which is true" in found.reason


def test_truth_on_either_side_is_no_twin():
    above = RNG.random(400) < 0.5
    found = plr.check(X, np.column_stack([Y, np.where(above, 2.20462 * Y, Y / 2.20462)]))
    assert found.relations[0].kind == "ratio"
    assert found.relations[0].share > 0.95
    assert (found.twins, found.verdict) == (None, "fine")


def test_candidates_that_differ_in_a_digit():
    found = plr.check(X, make_candidates(np.round(Y, 1), 3, mechanism="digits", random_state=0))
    assert "digit" in [relation.kind for relation in found.relations]
    assert "they differ in one digit" in found.summary()


def test_random_candidates_are_not_related():
    values = np.round(RNG.uniform(0, 20, size=(500, 5)))
    S = plr.CandidateSets.from_padded(values).unique()
    assert find_relations(S, 18.0, np.random.default_rng(0)) == []


def test_values_that_always_come_together():
    S = plr.CandidateSets.from_lists([[1.0, 2.0], [3.0, 4.0], [3.0, 5.0]] * 30)
    found, recurring = values_together(S)
    assert recurring == 5
    assert {(pair.value, pair.other): pair.share for pair in found}[3.0, 4.0] == 0.5
    looked_at = plr.check(RNG.normal(size=(90, 2)), S)
    assert [(pair.value, pair.other, pair.rows) for pair in looked_at.always_together] == [(1.0, 2.0, 30)]
    assert looked_at.ambiguity_degree == 1.0


def test_rows_as_good_as_labelled():
    S = plr.CandidateSets.from_lists([[1.0], [2.0, 2.0], [3.0, 3.01], [1.0, 9.0]])
    assert labelled_rows(S, 10.0).tolist() == [True, True, True, False]
    found = plr.check(np.arange(4.0)[:, None], S)
    assert (found.rows_with_duplicates, found.rows_all_equal) == (1, 1)


def test_words_for_missing_are_pointed_out():
    lists = [[y, -999.0] if row % 10 == 0 else [y, y + RNG.uniform(1, 40)] for row, y in enumerate(Y)]
    S = plr.CandidateSets.from_lists(lists)
    assert [(odd.value, odd.rows) for odd in outlying_values(S, 20, 90)] == [(-999.0, 40)]
    assert "-999 comes 40 times and lies far from all else" in plr.check(X, S).summary()


def test_plain_labels_are_ordinary_regression():
    found = plr.check(X, Y)
    assert (found.verdict, found.labelled_rows) == ("fine", 400)
    assert "ordinary regression" in found.summary()
    assert "rows with several" not in found.summary()


def test_few_rows_and_equal_candidates():
    assert plr.check(X[:10], make_candidates(Y[:10], 2, random_state=0)).verdict == "thin"
    equal = plr.check(X, np.full((400, 2), 7.0))
    assert (equal.verdict, equal.signal) == ("cannot tell", None)
    assert "same value" in equal.reason


def test_a_few_values_far_out_do_not_hide_the_signal():
    lists = make_candidates(Y, 3, random_state=0).to_lists()
    lists[0].append(1e7)
    assert plr.check(X, lists).verdict == "fine"


def test_frames_with_categories_and_gaps():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0.5, "high", "low")})
    frame.loc[::9, "a"] = np.nan
    assert plr.check(frame, make_candidates(Y, 3, random_state=0)).verdict == "fine"


def test_same_seed_same_answer_in_plain_values():
    S = make_candidates(Y, 3, random_state=0)
    first, second = plr.check(X, S, rows=100), plr.check(X, S, rows=100)
    assert first.to_dict() == second.to_dict()
    assert json.loads(json.dumps(first.to_dict()))["signal"]["rows"] == 100
    assert "measured on 100 rows drawn at random" in first.summary()


def test_of_many_rows_a_sample_is_enough():
    many = np.random.default_rng(0).uniform(size=(100_000, 5))
    S = make_candidates(10 * many[:, 0], 4, random_state=0)
    found = plr.check(many, S)
    assert found.verdict == "fine"
    assert found.signal.rows == inspect.signature(plr.check).parameters["rows"].default < 10_000


def test_bad_input():
    with pytest.raises(LengthError, match="400 rows and S 3"):
        plr.check(X, Y[:3])
    with pytest.raises(ParameterError, match="rows must be at least 50"):
        plr.check(X, Y, rows=3)


def test_what_a_fit_has_not_measured_is_measured_afterwards():
    random = np.random.default_rng(0)
    X = random.uniform(0, 1, (1200, 2))
    S = make_candidates(5 * X[:, 0], 2, random_state=0)
    found = plr.PartialLabelRegressor("linear", random_state=0).fit(X, S).diagnosis_
    assert (found.verdict, found.signal) == ("not measured", None)
    whole = measured(found, X, S)
    assert (whole.verdict, whole.headline) == ("fine", plr.check(X, S).headline)
    assert whole.signal.rows == 1000
    # What is settled stays as it is, and of texts nothing can be said.
    assert measured(whole, X, S) is whole
    assert measured(found, [object()] * 1200, S) is found
