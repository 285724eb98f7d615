"""A linear model of rows that are read again in each pass is that of all rows in memory, whatever their rank."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from plr import CandidateSets
from plr.errors import ConvergenceWarning
from plr.learners import Linear, Task
from plr.losses import get_loss
from plr.streaming import linear_training as linear
from plr.streaming.shuffled import EncodedRows, RoundRows, TrainingRound
from plr.weighting import Rule, get_weighting

ROWS, PARTS = 600, 3


def columns(kind):
    random = np.random.default_rng(0)
    X, codes = random.normal(size=(ROWS, 3)), random.integers(0, 4, ROWS)
    more = {
        "full rank": random.normal(size=(ROWS, 2)),
        "collinear": np.column_stack([X @ [1.0, -2.0, 0.5], X[:, 0] + X[:, 2]]),
        "constant": np.column_stack([np.full(ROWS, 0.3), np.zeros(ROWS)]),
        "duplicated": X[:, [1, 1, 2]],
        "categories": 2.0 * (codes[:, None] == np.arange(4)) - 0.5,
    }[kind]
    return np.column_stack([X, more])


def candidates(X):
    random = np.random.default_rng(1)
    y = X @ random.normal(size=X.shape[1]) + 0.1 * random.normal(size=ROWS)
    return CandidateSets.from_padded(np.column_stack([y, random.uniform(y.min(), y.max(), (ROWS, 2))]))


@pytest.fixture
def passes(monkeypatch):
    """Return a function that solves in passes over rows in memory, the sums' last digits other ones in each."""

    def solve(X, S, rule, alpha, size):
        parts = np.array_split(np.arange(ROWS), PARTS)

        def read_rounds(copy, order):
            for number, rows in enumerate(parts):
                read = RoundRows(EncodedRows(X[rows], S[rows]), rows - rows[0], np.array([0, len(rows)]))
                yield TrainingRound(number, 0, number, number == PARTS - 1), read

        random = np.random.default_rng(2)
        exact = linear._round_sums

        def rounded(*given):
            sums = exact(*given)
            for products in sums[:2]:
                change = random.uniform(-size, size, products.shape)
                products *= 1.0 + np.triu(change) + np.triu(change, 1).T
            return sums

        monkeypatch.setattr(linear, "read_rounds", read_rounds)
        monkeypatch.setattr(linear, "_round_sums", rounded)
        sample = EncodedRows(X[:200], S[np.arange(200)])
        copy = SimpleNamespace(sizes=np.array([[len(rows)] for rows in parts]))
        return linear.solve_in_passes(Linear(alpha), rule, sample, copy, 0)

    return solve


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("weighting", ["average", "posterior"])
@pytest.mark.parametrize("kind", ["full rank", "collinear", "constant", "duplicated", "categories"])
def test_passes_end_at_the_solution_in_memory(passes, kind, weighting, alpha):
    X = columns(kind)
    S = candidates(X)
    rule = Rule(get_weighting(weighting), get_loss("squared"))
    task = Task(X, S, rule)
    in_memory = Linear(alpha=alpha, scale_features=False, scale_target=False).fit(task)
    for size in (1e-15, 1e-14):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            solution, report = passes(X, S, rule, alpha, size)
        assert report.rounds < 25
        # Passes end when predictions move by a ten-thousandth.
        near = 1e-7 if weighting == "average" else 1e-3
        assert_allclose(solution[:-1], in_memory.coefficients, atol=near)
        assert_allclose(X @ solution[:-1] + solution[-1], in_memory.predict(X), atol=near)
