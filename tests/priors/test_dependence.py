"""Whether false candidates depend on the features, found without labels."""

import warnings

import numpy as np
import pytest

from plr import CandidateSets, PartialLabelRegressor, make_candidates
from plr.errors import DependentLabelsWarning
from plr.learners.starts import DensityStart
from plr.priors.dependence import Dependence, _ranks, intraclass_correlation, student_scale, weigh_by_agreement
from plr.priors.logit import Alternatives
from support.candidate_mechanisms import guesses


def correlation(S, weights=None):
    return intraclass_correlation(Alternatives(S.offsets), S.values, np.ones(len(S)) if weights is None else weights)


def test_unrelated_candidates_are_not_alike_and_guesses_are():
    problem = guesses(300)
    assert abs(correlation(make_candidates(problem.y, 3, random_state=0))) < 0.1
    assert correlation(problem.S) > 0.5


def test_weights_count_rows():
    S = guesses(100).S
    weights = np.where(np.arange(100) < 60, 1.0, 0.0)
    assert correlation(S, weights) == pytest.approx(correlation(S[:60]))
    twice = np.where(np.arange(100) < 30, 2.0, 1.0)
    assert correlation(S, twice) == pytest.approx(correlation(S[np.append(np.arange(30), np.arange(100))]), abs=1e-9)
    assert _ranks(np.array([3.0, 1.0, 3.0]), np.ones(3)).tolist() == [2.0, 0.5, 2.0]


def test_candidates_that_stand_out_near_predictions_explain_the_spread():
    problem = guesses(300)
    sets, first = Alternatives(problem.S.offsets), problem.S.prior_or_uniform
    values = problem.S.values / problem.S.values.std()
    near = weigh_by_agreement(sets, values, problem.y / problem.S.values.std(), first, np.ones(300))[0]
    noisy = problem.y / problem.S.values.std() + np.random.default_rng(0).normal(0, 0.5, 300)
    assert near > 0.9 > 0.65 > weigh_by_agreement(sets, values, noisy, first, np.ones(300))[0]


def test_constant_values_and_no_rows_of_several():
    sets = Alternatives(np.array([0, 2, 4]))
    assert intraclass_correlation(sets, np.ones(4), np.ones(2)) == 0.0
    assert weigh_by_agreement(sets, np.ones(4), np.ones(2), np.full(4, 0.5), np.ones(2))[0] == 0.0
    assert intraclass_correlation(Alternatives(np.arange(3)), np.ones(2), np.ones(2)) == 0.0
    assert student_scale(np.zeros(3), np.ones(3)) > 0.0


def test_what_was_found_is_checked():
    assert Dependence(0.5, 0.2).found
    assert not Dependence(0.5, 0.9).found
    assert not Dependence(0.1).needs_predictions
    with pytest.raises(ValueError, match="correlation"):
        Dependence(1.5)


def test_rows_with_one_candidate_show_where_the_truth_is():
    """Several values of one place, as of flats of a building: alike, and yet each row's own is the one that fits."""
    random = np.random.default_rng(0)
    place = np.repeat(np.arange(80), random.choice([1, 4], 80, p=[0.55, 0.45]))
    level, own = random.normal(0, 3, 80)[place], random.normal(0, 3, len(place))
    truth = level + own
    lists = [truth[place == building].tolist() for building in place]
    X = np.column_stack([level, own])
    model = PartialLabelRegressor("linear", start=DensityStart(models="neighbours"), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DependentLabelsWarning)
        model.fit(X, CandidateSets.from_lists(lists))
    assert np.mean(model.identify().value == truth) > 0.9
