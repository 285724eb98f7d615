"""Priors that are match probabilities or match weights: shares within rows, and how probable a missing truth is."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

from plr.candidates import CandidateSets
from plr.candidates.known import read_known
from plr.errors import ParameterError, PriorError
from support.refusals import refused

VALUES = [[1.0, 2.0], [3.0]]
PROBABILITY = [[0.5, 0.8], [0.02]]
WEIGHT = [[0.0, 2.0], [np.log2(0.02 / 0.98)]]
# Odds of 1 and 4, and of 1 to 49.
SHARES, MISSING = [0.2, 0.8, 1.0], [1 / 6, 0.98]
NAN = np.nan


def of(prior, prior_is="probability", values=VALUES, **options):
    return CandidateSets.from_lists(values, prior, prior_is=prior_is, **options)


WIDE = {"a": [1.0, 3.0], "b": [2.0, NAN], "p": [0.5, 0.02], "q": [0.8, NAN]}
LONG = {"row": ["r", "s", "r"], "value": [1.0, 3.0, 2.0], "p": [0.5, 0.02, 0.8]}


@pytest.mark.parametrize(
    "S",
    [
        CandidateSets([1, 2, 3], [0, 2, 3], [0.5, 0.8, 0.02], prior_is="probability"),
        of(PROBABILITY),
        of(WEIGHT, "match_weight"),
        CandidateSets.from_padded([[1.0, 2.0], [3.0, NAN]], [[0.5, 0.8], [0.02, 9.0]], prior_is="probability"),
        CandidateSets.from_columns(WIDE, ["a", "b"], ["p", "q"], prior_is="probability"),
        CandidateSets.from_arrow(pa.array(VALUES), pa.array(PROBABILITY), prior_is="probability"),
        CandidateSets.from_long(pd.DataFrame(LONG), "row", "value", "p", prior_is="probability"),
        of([*PROBABILITY, []], values=[*VALUES, []], empty="drop"),
    ],
)
def test_every_constructor(S):
    assert S.to_lists() == VALUES
    assert_allclose(S.prior, SHARES)
    assert_allclose(S.missing, MISSING)
    with pytest.raises(ValueError, match="read-only"):
        S.missing[0] = 0.5


def test_shares_say_nothing_about_a_missing_truth():
    assert of(PROBABILITY, "share").missing is None
    assert CandidateSets.from_lists(VALUES).missing is None


def test_rows_keep_theirs():
    S, plain = of(PROBABILITY), CandidateSets.from_lists(VALUES)
    for part in (S[[1, 0]], S[::-1], S[np.array([False, True])] + S[:1]):
        assert_allclose(part.missing, MISSING[::-1])
    assert S[:0].missing.shape == (0,)
    for same in (pickle.loads(pickle.dumps(S)), S.with_prior(plain.prior_or_uniform), S[:], S.unique()):
        assert_allclose(same.missing, MISSING)
    assert_allclose((plain + S).missing, [0, 0, *MISSING])
    assert (plain + plain).missing is None
    repeated = of([[0.5, 0.5, 0.8]], values=[[1.0, 1.0, 2.0]]).unique()
    assert_allclose(repeated.prior, [1 / 3, 2 / 3])
    assert_allclose(repeated.missing, 1 / 7)


def test_equality():
    S = of(PROBABILITY)
    assert of(PROBABILITY) == S
    assert CandidateSets(S.values, S.offsets, S.prior) != S
    certain = of([[1.0, 0.0], [1.0]])
    assert certain == CandidateSets(certain.values, certain.offsets, certain.prior)


@pytest.mark.parametrize(
    ("given", "kind", "prior", "missing"),
    [
        ([0.0, 0.5], "probability", [0, 1], 0.5),
        ([0.0, 0.0], "probability", [0.5, 0.5], 1.0),
        ([1.0, 0.5], "probability", [1, 0], 0.0),
        ([1.0, 1.0], "probability", [0.5, 0.5], 0.0),
        ([5000.0, 4999.0], "match_weight", [2 / 3, 1 / 3], 0.0),
        ([-5000.0, -4999.0], "match_weight", [1 / 3, 2 / 3], 1.0),
        ([np.inf, 3.0], "match_weight", [1, 0], 0.0),
        ([-np.inf, 0.0], "match_weight", [0, 1], 0.5),
        ([1e-300, 1e-300], "probability", [0.5, 0.5], 1.0),
    ],
)
def test_certain_and_impossible_candidates(given, kind, prior, missing):
    S = of([given], kind, [[1.0, 2.0]])
    assert_allclose(S.prior, prior)
    assert_allclose(S.missing, missing)


@pytest.mark.parametrize(
    ("prior", "kind", "error", "expected"),
    [
        ([[0.5, 0.5], [1.5]], "probability", PriorError, {"row": 1}),
        ([[0.5, -0.1], [0.5]], "probability", PriorError, "outside of 0 to 1: row 0"),
        ([[0.5, NAN], [0.5]], "probability", PriorError, {"row": 0}),
        ([[0.5, 3.0], [NAN]], "match_weight", PriorError, "that is NaN: row 1"),
        (None, "probability", ParameterError, {"parameter": "prior_is"}),
        (PROBABILITY, "odds", ParameterError, "share"),
    ],
)
def test_refusals(prior, kind, error, expected):
    with refused(error, expected):
        of(prior, kind)


def test_no_rows():
    S = of([], values=[])
    assert S.missing.shape == (0,)


def test_a_known_label_is_not_missing():
    S = of(PROBABILITY)
    settled = read_known([NAN, 3.0], S).settle(S)
    assert_allclose(settled.missing, [MISSING[0], 0.0])
