"""Features of candidates as numbers: ties, gaps, logs, and how sure it must be that a column counts."""

import numpy as np
import pytest

from plr import CandidateSets
from plr.priors.columns import CandidateColumns
from plr.priors.learned import _PENALTIES
from plr.priors.logit import Alternatives, fit_logit


def learn(S, with_values=False):
    return CandidateColumns.learn(S, with_values=with_values)


def column(S, name, with_values=False):
    columns = learn(S, with_values)
    place = columns.names.index(name)
    return (columns.matrix(S)[:, place] * columns.scales[place]).round(12)


def test_equal_values_share_a_place():
    S = CandidateSets(np.arange(8.0), [0, 4, 8], features={"score": [3.0, 5.0, 5.0, 1.0, 2.0, 2.0, 2.0, np.nan]})
    assert column(S, "score: highest of the row").tolist() == [0, 1, 1, 0, 1, 1, 1, 0]
    assert column(S, "score: second of the row").tolist() == [0, 0, 0, 0, 0, 0, 0, 0]
    assert column(S, "score: missing").tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    equal = CandidateSets([1.0, 1.0, 3.0, 2.0, 2.0, 2.0], [0, 3, 6])
    assert column(equal, "rank of the value", with_values=True).tolist() == [0, 0, 1, 0, 0, 0]


def test_a_log_is_a_column_where_it_says_something_new():
    random = np.random.default_rng(0)
    features = {
        "score": np.append(random.uniform(0.0, 1.0, 29), 0.0),
        "flag": random.integers(0, 2, 30).astype(float),
        "signed": random.normal(size=30),
        "constant": np.ones(30),
    }
    S = CandidateSets(random.normal(size=30), np.arange(0, 31, 5), features=features)
    columns = learn(S)
    assert list(columns.logs) == ["score"]
    assert np.isfinite(columns.matrix(S)).all()


def test_gaps_count_as_the_mean_of_their_row():
    S = CandidateSets(np.arange(6.0), [0, 3, 6], features={"score": [1.0, np.nan, 3.0, 2.0, 5.0, 9.0]})
    assert column(S, "score").tolist() == [1.0, 2.0, 3.0, 2.0, 5.0, 9.0]
    bent = column(S, "score: log")
    assert bent[1] == pytest.approx(bent[3])


@pytest.mark.parametrize("decisive", ["ratio of scores", "value"])
def test_what_counts_is_found_in_fifty_rows(decisive):
    random = np.random.default_rng(1)
    rows, size = 400, 5
    offsets = size * np.arange(rows + 1)
    scores = np.exp(random.normal(0.0, 0.3, (rows, size)) + random.normal(0.0, 1.5, (rows, 1)))
    S = CandidateSets(random.normal(size=rows * size), offsets, features={"score": scores.ravel()})
    sets = Alternatives(S.offsets)
    utility = 6.0 * np.log(scores.ravel()) if decisive == "ratio of scores" else -2.5 * S.values
    drawn = utility + random.gumbel(size=rows * size)
    true = drawn == sets.max(drawn)[sets.rows]
    columns = learn(S, with_values=True)
    part, chosen = sets.take(np.arange(rows) < 50)
    matrix = columns.matrix(S)
    learned = fit_logit(
        part, matrix[chosen], true[chosen], columns.groups, np.zeros(matrix.shape[1]), _PENALTIES, np.ones(50)
    )
    of_values = np.array([group == "built_in" for group in columns.groups])
    assert (np.abs(learned[of_values]).max() > 0.5) == (decisive == "value")
    shares = sets.softmax(matrix @ learned)[true & ~chosen]
    best = sets.softmax(utility)[true & ~chosen]
    assert -np.log(shares).mean() < -np.log(best).mean() + 0.15
