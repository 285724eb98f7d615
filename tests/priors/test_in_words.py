"""What was learned about candidates, in words."""

import numpy as np

from plr import CandidateSets
from plr.priors import LearnedPrior
from plr.priors.columns import CandidateColumns
from plr.priors.dependence import Dependence


def described(levels, weight, checked=10):
    scores = [[0.0, 1.0, 0.5], [1.0, 0.5, 0.0]]
    S = CandidateSets.from_lists([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], features={"stock": levels, "score": scores})
    columns = CandidateColumns.learn(S, np.ones(2), with_values=False)
    coefficients = np.array([weight.get(name, 0.0) for name in columns.names]) * columns.scales
    return LearnedPrior(columns, coefficients, checked, Dependence(0.0)).describe()


def test_two_categories_are_compared_with_each_other():
    found = described([["yes", "no", "yes"], ["no", "yes", "no"]], {"stock = yes": 1.0, "stock = no": -1.0})
    assert found == [
        "learned from 10 checked rows:",
        "a candidate with stock yes is 7.4 times as believable as one with stock no",
    ]


def test_what_makes_no_difference_is_not_said():
    levels = [["yes", "no", ""], ["no", "yes", ""]]
    found = described(levels, {"stock = ": -1.0, "stock = no": 0.01, "score": 2.0})
    assert found == [
        "learned from 10 checked rows:",
        "a candidate with score 1 is 7.4 times as believable as one with 0",
        "a candidate with no stock is 0.37 times as believable as others",
    ]
    assert described(levels, {}) == ["learned from 10 checked rows: every candidate is as believable as another"]
    assert described(levels, {}, 1) == ["learned from 1 checked row: every candidate is as believable as another"]
