"""The conditional logit: the likeliest coefficients, shrunk as the evidence asks for."""

import numpy as np
import pytest
from scipy.optimize import minimize

from plr.priors.logit import Alternatives, fit_logit

GROUPS = ("own", "own", "prior")
CENTRE = np.array([0.0, 0.0, 1.0])


def problem(rows, seed=0, ties=False):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 6, rows)
    sets = Alternatives(np.append(0, np.cumsum(sizes)))
    features = random.normal(size=(sizes.sum(), 3))
    utility = features @ [2.0, 0.0, 1.0] + random.gumbel(size=sizes.sum())
    true = utility == sets.max(utility)[sets.rows]
    return sets, features, true | (ties & (random.uniform(size=len(true)) < 0.2))


@pytest.mark.parametrize("ties", [False, True])
def test_coefficients_are_the_likeliest(ties):
    sets, features, true = problem(40, ties=ties)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 40)

    def loss(coefficients):
        total = 0.0
        for row in range(40):
            part = slice(sets.offsets[row], sets.offsets[row + 1])
            share = np.exp(features[part] @ coefficients)
            total -= weights[row] * np.log(share[true[part]].sum() / share.sum())
        return total + 0.5 * ((coefficients - CENTRE) ** 2).sum()

    found = fit_logit(sets, features, true, GROUPS, CENTRE, {"own": (1.0,), "prior": (1.0,)}, weights)
    np.testing.assert_allclose(found, minimize(loss, CENTRE).x, atol=1e-4)


def test_few_rows_stay_near_the_centre_and_many_leave_it():
    penalties = {"own": (1.0, 100.0), "prior": (1.0, 100.0)}
    few, many = (fit_logit(*problem(rows), GROUPS, CENTRE, penalties, np.ones(rows)) for rows in (2, 400))
    assert np.abs(few - CENTRE).max() < 1.0
    np.testing.assert_allclose(many, [2.0, 0.0, 1.0], atol=0.4)


def test_a_weight_of_two_is_a_row_twice():
    sets, features, true = problem(30)
    twice = Alternatives(np.append(sets.offsets, sets.offsets[1:] + sets.offsets[-1]))
    penalties = {"own": (0.3, 3.0), "prior": (1.0,)}
    by_weight = fit_logit(sets, features, true, GROUPS, CENTRE, penalties, np.full(30, 2.0))
    by_rows = fit_logit(twice, np.tile(features, (2, 1)), np.tile(true, 2), GROUPS, CENTRE, penalties, np.ones(60))
    np.testing.assert_allclose(by_weight, by_rows, atol=1e-6)


def test_features_that_decide_everything_stay_finite():
    sets, features, true = problem(30)
    features[:, 0] = np.where(true, 1e3, -1e3)
    found = fit_logit(sets, features, true, GROUPS, CENTRE, {"own": (0.1, 1.0), "prior": (0.1,)}, np.ones(30))
    assert np.isfinite(found).all()
