"""Features of candidates that say little: constant ones, gaps, thousands of levels, columns without a value."""

import numpy as np
import pytest

from plr.candidates import CandidateSets
from plr.candidates.known import read_known
from plr.errors import FeatureError
from plr.priors.columns import CandidateColumns
from plr.priors.dependence import Dependence
from plr.priors.learned import learn_coefficients

ROWS = 40
VALUES = np.random.default_rng(0).normal(size=(ROWS, 2))


def sets(**features):
    return CandidateSets.from_padded(VALUES, features=features)


def learn(S):
    # The first candidate is the true one in three rows of four.
    true = np.where(np.arange(ROWS) % 4 > 0, VALUES[:, 0], VALUES[:, 1])
    return learn_coefficients(S, read_known(true, S), np.ones(len(S)), Dependence(0.0))


@pytest.mark.parametrize("column", [np.ones((ROWS, 2)), np.full((ROWS, 2), "shop"), np.full((ROWS, 2), np.nan)])
def test_a_constant_feature_changes_nothing(column):
    S = sets(same=column, place=[0.0, 1.0])
    np.testing.assert_allclose(learn(S).weigh(S).prior, learn(sets(place=[0.0, 1.0])).weigh(S).prior, rtol=1e-3)


def test_gaps_have_a_column_that_says_so():
    score = np.tile([0.5, np.nan], (ROWS, 1))
    S = sets(score=score)
    columns = CandidateColumns.learn(S, np.ones(len(S)), with_values=False)
    assert "score: missing" in columns.names
    assert (learn(S).weigh(S).prior[::2] > 0.6).all()


def test_of_many_levels_the_most_frequent_count():
    names = np.arange(10_000).reshape(5000, 2).astype(str)
    names[:2500, 0] = "common"
    S = CandidateSets.from_padded(np.ones((5000, 2)), features={"title": names})
    columns = CandidateColumns.learn(S, np.ones(len(S)), with_values=False)
    assert columns.levels["title"][0] == "common"
    assert len(columns.levels["title"]) == 30
    assert columns.matrix(S).shape == (10_000, 30)


def test_new_rows_without_any_value():
    S = sets(source=np.tile(["shop", "web"], (ROWS, 1)))
    weighed = learn(S).weigh(sets(source=np.full((ROWS, 2), None)))
    np.testing.assert_allclose(weighed.prior, 0.5)
    with pytest.raises(FeatureError, match="held texts in training and holds numbers now"):
        learn(S).weigh(sets(source=np.ones((ROWS, 2))))
