"""Columns by their ranks: learned from rows with weights, the same for every monotone scale, and of use."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from plr import PartialLabelRegressor, make_candidates
from plr.errors import ParameterError
from plr.learners import MLP, GaussianProcess
from plr.preprocessing.ranks import NormalScores


def naive(column, weight):
    """The normal quantile of the share of weight below each row, its own counted half; mean 0, standard deviation 1."""
    shares = np.array([weight[column < own].sum() + weight[column == own].sum() / 2 for own in column]) / weight.sum()
    found = norm.ppf(shares)
    found -= np.average(found, weights=weight)
    return found / np.sqrt(np.average(found**2, weights=weight))


def test_scores_are_normal_quantiles_of_ranks():
    random = np.random.default_rng(0)
    column = random.integers(0, 40, 150).astype(float)
    weight = random.uniform(0.5, 2.0, 150)
    for own in (np.ones(150), weight):
        scores = NormalScores.of(column[:, None], own).append(column[:, None])[:, 1]
        np.testing.assert_allclose(scores, naive(column, own), atol=1e-9)
    np.testing.assert_array_equal(rankdata(scores), rankdata(column))


def test_a_monotone_scale_changes_nothing():
    column = np.random.default_rng(1).normal(size=(60, 1))
    plain, bent = (NormalScores.of(rows).append(rows)[:, 1] for rows in (column, np.exp(3 * column)))
    np.testing.assert_allclose(plain, bent, atol=1e-12)


def test_long_columns_keep_some_quantiles():
    column = np.random.default_rng(2).exponential(size=(5000, 1))
    scores = NormalScores.of(column)
    assert len(scores.knots[0]) <= 202
    found = scores.append(column)[:, 1]
    np.testing.assert_allclose(found, naive(column[:, 0], np.ones(5000)), atol=0.05)
    beyond = scores.append(np.array([[-1.0], [99.0]]))[:, 1]
    np.testing.assert_allclose(beyond, [found.min(), found.max()])


def test_columns_of_two_values_and_rows_without_weight_have_no_part():
    rows = np.column_stack([np.arange(9) % 2, np.arange(9.0), np.where(np.arange(9) < 7, 0.0, np.arange(9))])
    assert NormalScores.of(rows).columns == (1, 2)
    weight = (np.arange(9) < 7).astype(float)
    assert NormalScores.of(rows, weight).columns == (1,)
    vanishing = np.r_[1.0, np.full(8, 1e-300)]
    assert np.isfinite(NormalScores.of(rows, vanishing).append(rows)).all()
    none = NormalScores.of(rows[:, :1])
    np.testing.assert_array_equal(none.append(rows[:, :1]), rows[:, :1])


@pytest.mark.parametrize(
    "learner",
    [GaussianProcess(chains=1, rounds=12), MLP(hidden=(8,), epochs=200, learning_rate=0.01, ranks=True)],
    ids=["gaussian_process", "mlp"],
)
def test_a_skewed_column_is_learned_by_its_ranks(learner):
    random = np.random.default_rng(3)
    X = np.exp(2.5 * random.normal(size=(240, 1)))
    y = np.log(X[:, 0])
    S = make_candidates(y, 2, set_size="fixed", random_state=4)
    other = type(learner)(**{**learner.get_params(), "ranks": False})
    with_ranks, without = (PartialLabelRegressor(own, random_state=0).fit(X, S) for own in (learner, other))
    assert with_ranks.score(X, y) > max(without.score(X, y) + 0.02, 0.85)


def test_ranks_are_for_rows_in_memory(tmp_path):
    import pandas as pd

    from plr import TableModel

    random = np.random.default_rng(5)
    for name in "ab":
        texts = ["|".join(map(str, row)) for row in random.normal(size=(60, 2))]
        pd.DataFrame({"x": random.normal(size=60), "y": texts}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(ParameterError) as raised:
        TableModel(PartialLabelRegressor(MLP(ranks=True), random_state=0)).fit(tmp_path, "y", in_batches=True)
    assert raised.value.parameter == "ranks"
