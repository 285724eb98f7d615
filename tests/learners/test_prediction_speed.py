"""Predictions for many rows: cut into blocks without changing a bit, and by compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from plr import PartialLabelRegressor
from plr.learners import MLP, Linear
from plr.network.layers import run
from plr.preprocessing import features
from plr.preprocessing.features import by_blocks


@pytest.mark.parametrize("learner", [Linear(), MLP(hidden=(7, 5), epochs=2)], ids=["linear", "mlp"])
def test_predictions_do_not_depend_on_how_rows_are_cut_into_blocks(learner, monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 3))
    model = PartialLabelRegressor(learner, random_state=0).fit(X[:400], X[:400, 0])
    X[1700, 1] = np.nan  # filled in wherever its block begins
    monkeypatch.setattr(features, "_ENTRIES_AT_A_TIME", X.size)
    whole = model.predict(X)
    monkeypatch.setattr(features, "_ENTRIES_AT_A_TIME", 1)
    assert_array_equal(model.predict(X), whole)
    assert np.isfinite(whole).all()


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, 1000])
def test_every_row_is_in_one_block(rows, monkeypatch):
    monkeypatch.setattr(features, "_ENTRIES_AT_A_TIME", 1)
    X = np.arange(2.0 * rows).reshape(rows, 2)
    assert_array_equal(by_blocks(X, lambda part: part.sum(axis=1)), X.sum(axis=1))


def test_a_network_predicts_by_compiled_code():
    X = np.linspace(0, 1, 50)[:, None]
    PartialLabelRegressor(MLP(epochs=1), random_state=0).fit(X, X[:, 0]).predict(X)
    assert run.nopython_signatures, "the kernel was called as plain Python, which is fifty times slower"
