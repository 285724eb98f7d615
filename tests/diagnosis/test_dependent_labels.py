"""False labels that depend on the features are found before and after a fit, and said in words."""

import numpy as np
import pytest

import plr
from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import DependentLabelsWarning, ParameterError
from support.candidate_mechanisms import guesses, join

pytestmark = pytest.mark.usefixtures("small_forests")
PROBLEM = guesses(120)


@pytest.fixture(scope="module")
def without():
    return plr.check(PROBLEM.X, PROBLEM.S)


def test_what_was_found_and_what_to_do(without):
    assert without.dependent
    assert without.verdict == "cannot tell"
    assert "depend on the features" in without.reason
    for word in ("known", "match score", "prior", "at random"):
        assert word in without.advice
    assert "intraclass correlation" in str(without)
    assert without.to_dict()["dependence"]["correlation"] > 0.5
    assert without.tied == ()


def test_checked_rows_and_priors_change_the_verdict():
    few, many = (plr.check(PROBLEM.X, PROBLEM.S, PROBLEM.known(count)) for count in (5, 30))
    assert (few.verdict, few.checked_rows, many.verdict, many.checked_rows) == ("thin", 5, "fine", 30)
    assert "learned from 30 checked rows" in many.reason
    prior = np.random.default_rng(0).uniform(0.1, 1.0, len(PROBLEM.S.values))
    weighed = plr.check(PROBLEM.X, CandidateSets(PROBLEM.S.values, PROBLEM.S.offsets, prior))
    assert weighed.verdict == "thin"
    assert "learned from the priors" in weighed.reason
    assert "match score" not in weighed.reason
    assert few.caution == many.caution == weighed.caution == ""


def test_a_match_score_counts_as_a_prior_does():
    random = np.random.default_rng(0)
    size = len(PROBLEM.S.values)
    score, source = random.uniform(0.1, 1.0, size), np.array(["a", "b"])[random.integers(2, size=size)]
    features = {"score": score, "same": np.zeros(size), "none": np.full(size, np.nan), "source": source}
    S = CandidateSets(PROBLEM.S.values, PROBLEM.S.offsets, features=features)
    found = plr.check(PROBLEM.X, S, match_score="score")
    assert (found.verdict, found.has_score, found.has_prior, found.caution) == ("thin", True, False, "")
    assert found.reason.endswith("which are true is learned from the match score.")
    assert found.to_dict()["has_score"] is True
    for name in (None, "same", "none"):
        unknown = plr.check(PROBLEM.X, S, match_score=name)
        assert (unknown.verdict, unknown.has_score) == ("cannot tell", False)
    both = CandidateSets(S.values, S.offsets, score, features=features)
    assert "from the priors and the match score." in plr.check(PROBLEM.X, both, match_score="score").reason
    known = PROBLEM.known(30)
    assert "from 30 checked rows." in plr.check(PROBLEM.X, S, known, match_score="score").reason
    with pytest.raises(ParameterError, match="match_score 'rank' is none of the features of the candidates"):
        plr.check(PROBLEM.X, S, match_score="rank")
    with pytest.raises(ParameterError, match="'source' holds texts"):
        plr.check(PROBLEM.X, S, match_score="source")


def test_a_fit_says_the_same(without):
    with pytest.warns(DependentLabelsWarning, match="Look up the true labels of 20 to 50 rows"):
        model = PartialLabelRegressor("linear", random_state=0).fit(PROBLEM.X, PROBLEM.S)
    assert model.diagnosis_.verdict == without.verdict
    assert model.diagnosis_.dependence.correlation == pytest.approx(without.dependence.correlation)
    model.fit(PROBLEM.X, PROBLEM.S, known=PROBLEM.known(30))
    assert (model.diagnosis_.verdict, model.diagnosis_.checked_rows) == ("fine", 30)


def test_unrelated_false_labels_are_no_reason():
    found = plr.check(PROBLEM.X, make_candidates(PROBLEM.y, 3, set_size="fixed", random_state=0), PROBLEM.known(10))
    assert not found.dependent
    assert found.dependence.explained is None
    assert found.checked_rows == 10
    assert "depend" not in str(found)


def test_a_part_of_many_rows_will_do():
    problem = join(400)
    found = plr.check(problem.X, problem.S, problem.known(20), rows=100)
    assert found.dependent
    assert found.rows == 400
