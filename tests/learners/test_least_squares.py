"""Least squares whatever the rank, against scipy's solution by singular values."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import linalg
from sklearn.linear_model import Ridge

from plr import CandidateSets
from plr.learners import Linear, Task
from plr.learners.linear import LeastSquares, pseudo_inverse
from plr.losses import get_loss
from plr.weighting import Rule, get_weighting

ROWS = 200
# Singular values below this share of the largest are zeros: scipy's own limit is rounding, which processors differ in.
RANK = 1e-10
KINDS = ["full rank", "collinear", "constant", "duplicated", "categories", "other units"]


def columns(kind: str, rows: int = ROWS) -> np.ndarray:
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 4))
    codes = random.integers(0, 5, rows)
    more = {
        "full rank": random.normal(size=(rows, 2)),
        "collinear": np.column_stack([X @ [1.0, -2.0, 0.5, 0.1], X[:, 0] + X[:, 3]]),
        "constant": np.column_stack([np.full(rows, 0.3), np.zeros(rows)]),
        "duplicated": X[:, [1, 1, 2]],
        "categories": 2.0 * (codes[:, None] == np.arange(5)) - 0.4,
        "other units": np.column_stack([X[:, 0] * 1e-3 + X[:, 1] * 1e-3, X[:, 2] * 1e3]),
    }[kind]
    return np.column_stack([X, more])


def labels(X: np.ndarray) -> np.ndarray:
    random = np.random.default_rng(1)
    return np.asarray(X @ random.normal(size=X.shape[1]) / np.abs(X).max() + random.normal(size=len(X)) + 2.0)


def perturbed(gram: np.ndarray, size: float, seed: int) -> np.ndarray:
    """Return a symmetric matrix that differs in the last digits."""
    change = np.random.default_rng(seed).uniform(-size, size, gram.shape)
    return np.asarray(gram * (1.0 + np.triu(change) + np.triu(change, 1).T))


class TestPseudoInverse:
    @pytest.mark.parametrize("size", [0.0, 1e-15, 1e-14])
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_smallest_solution_whatever_the_last_digits(self, kind: str, size: float) -> None:
        design = np.column_stack([columns(kind), np.ones(ROWS)])
        y = labels(design[:, :-1])
        wanted = linalg.lstsq(design, y, cond=RANK)[0]
        for seed in range(20):
            found = pseudo_inverse(perturbed(design.T @ design, size, seed)) @ (design.T @ y)
            assert_allclose(design @ found, design @ wanted, atol=1e-7)
            assert_allclose(found, wanted, atol=1e-6, rtol=1e-6)

    def test_rows_may_have_any_weights(self) -> None:
        design = np.column_stack([columns("categories"), np.ones(ROWS)])
        y, weight = labels(design[:, :-1]), np.random.default_rng(3).integers(0, 3, ROWS) * 1e-4
        found = pseudo_inverse(design.T @ (weight[:, None] * design)) @ (design.T @ (weight * y))
        root = np.sqrt(weight)
        assert_allclose(found, linalg.lstsq(design * root[:, None], y * root, cond=RANK)[0], atol=1e-8)

    def test_of_zeros(self) -> None:
        assert_allclose(pseudo_inverse(np.zeros((3, 3))), 0.0, atol=0)


class TestInMemory:
    @pytest.mark.parametrize("alpha", [0.0, 0.1])
    @pytest.mark.parametrize("rows", [ROWS, 6])
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_smallest_solution(self, kind: str, rows: int, alpha: float) -> None:
        X = columns(kind, rows)
        y, weight = labels(X), np.random.default_rng(2).uniform(0.5, 2.0, rows)
        squares = LeastSquares(X, alpha)
        found = squares.coefficients(squares.solve(y, weight))
        design, root = np.column_stack([X, np.ones(rows)]), np.sqrt(weight)
        if alpha == 0:
            wanted = linalg.lstsq(design * root[:, None], y * root, cond=RANK)[0]
        else:
            ridge = Ridge(alpha=alpha * rows, solver="svd").fit(X, y, weight)
            wanted = np.append(ridge.coef_, ridge.intercept_)
        assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
        assert_allclose(squares.predict(squares.solve(y, weight)), design @ found, atol=1e-9)

    @pytest.mark.parametrize("alpha", [0.0, 0.01])
    def test_more_columns_than_rows_take_no_square_of_the_columns(self, alpha: float) -> None:
        random = np.random.default_rng(4)
        X, y = random.normal(size=(20, 2000)), random.normal(size=20)
        task = Task(X, CandidateSets.from_lists(y[:, None]), Rule(get_weighting("average"), get_loss("squared")))
        Linear(alpha=alpha).fit(task)
        tracemalloc.start()
        found = Linear(alpha=alpha).fit(task)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # A matrix of 2,000 columns by 2,000 columns would take 100 times X.
        assert most < 20 * X.nbytes
        scaled = (X - X.mean(axis=0)) / X.std(axis=0)
        wanted = linalg.lstsq(scaled, y - y.mean(), cond=RANK)[0]
        if alpha:
            wanted = Ridge(alpha=alpha * 20, solver="svd").fit(scaled, y).coef_
        assert_allclose(found.coefficients * X.std(axis=0), wanted, atol=1e-9)
