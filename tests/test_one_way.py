"""What once is enough for is done once: counted by the tracing script of the benchmarks."""

import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are scripts beside the package, not installed with it.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.tracing import traced

from plr import PartialLabelRegressor, make_candidates
from plr.learners import Committee


@pytest.fixture(scope="module")
def calls():
    X = np.random.default_rng(0).uniform(size=(60, 2))
    S = make_candidates(X @ [3.0, 1.0], 3, random_state=0).to_lists()
    model = PartialLabelRegressor(effort="low", random_state=0)
    # Modules are imported and kernels compiled before anything is counted.
    model.fit(X, S).identify()
    return {
        "fit": traced(lambda: model.fit(X, S)),
        "predict": traced(lambda: model.predict(X)),
        "identify()": traced(model.identify),
        "identify(X, S)": traced(lambda: model.identify(X, S)),
    }


def test_sets_are_validated_when_they_are_read_and_never_again(calls):
    assert [calls[name]["sets validated"] for name in calls] == [1, 0, 0, 1]


def test_labels_are_scaled_once_and_without_each_fold(calls):
    # For the start of five folds and of all rows, and for members on a scale of their own. New rows go by residuals, in
    # the units of the labels.
    found = [calls[name]["labels scaled"] for name in calls]
    assert found[0] <= 10
    assert found[1:] == [0, 1, 0]


def test_features_are_encoded_once_and_without_each_fold(calls):
    # For the start of five folds, the networks, the prediction of training rows, and the widths of their intervals; a
    # density as a member has an encoding of its own.
    found = [calls[name]["features encoded"] for name in calls]
    assert found[0] <= 18
    assert found[1] <= 2
    assert found[2:] == [0, found[1]]


def test_the_noise_is_fitted_once(calls):
    assert [calls[name]["noise fitted"] for name in calls] == [1, 0, 0, 0]


def test_a_call_passes_through_few_functions(calls):
    # Fitting the default calibrates it as well.
    most = {"fit": 430, "predict": 30, "identify()": 32, "identify(X, S)": 75}
    assert {name: calls[name]["functions"] for name in most if calls[name]["functions"] > most[name]} == {}


def test_a_rule_is_made_for_each_of_fit_members_and_diagnosis(calls):
    assert calls["fit"]["rules made"] == 3


def test_nothing_is_resolved_or_compiled_for_a_prediction(calls, monkeypatch):
    assert [calls[name]["rules made"] for name in ("predict", "identify()", "identify(X, S)")] == [0, 0, 0]
    X = np.random.default_rng(0).uniform(size=(20, 2))
    model = PartialLabelRegressor("linear").fit(X, X[:, 0])
    monkeypatch.setattr(Committee, "__init__", lambda *_: pytest.fail("a learner was made"))
    monkeypatch.setattr(PartialLabelRegressor, "_resolve", lambda *_: pytest.fail("names were resolved"))
    model.predict(X)
