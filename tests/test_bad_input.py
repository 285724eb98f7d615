"""Bad input: each case raises the named type, says what is wrong and where, and changes nothing."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedKFold

from plr import CandidateSets, PartialLabelRegressor, errors
from plr.candidates import as_candidate_sets
from plr.learners import MLP, Linear
from plr.losses import Huber, Pointwise
from plr.weighting import Custom, Posterior, Progressive

X = np.arange(12.0).reshape(6, 2)
S = [[1.0, 2.0], [2.0], [3.0, 5.0], [4.0], [5.0, 1.0], [6.0]]


def fit(X=X, S=S, **parameters):
    return PartialLabelRegressor(**({"learner": "linear"} | parameters)).fit(X, S)


def replaced(row, value):
    lists = copy.deepcopy(S)
    lists[row] = value
    return lists


def with_entry(row, column, value):
    array = X.copy()
    array[row, column] = value
    return array


CASES = {
    "empty set": (lambda: fit(S=replaced(3, [])), errors.EmptySetError, r"row.* 3\b.*drop"),
    "row of only NaN": (
        lambda: fit(S=np.array([[1.0, 2.0]] * 5 + [[np.nan, np.nan]])),
        errors.EmptySetError,
        r"row.* 5\b",
    ),
    "infinity": (lambda: fit(S=replaced(2, [1.0, np.inf])), errors.CandidateError, r"2\b"),
    "string": (lambda: fit(S=replaced(4, ["a", "b"])), errors.CandidateError, r"4\b"),
    "complex": (lambda: fit(S=replaced(1, [1.0 + 2.0j])), errors.CandidateError, r"(?i)complex"),
    "None inside a list": (lambda: fit(S=replaced(1, [1.0, None])), errors.CandidateError, r"1\b"),
    "depth 3": (lambda: fit(S=replaced(0, [[1.0], [2.0]])), errors.CandidateError, r"0\b"),
    "lengths differ": (lambda: fit(S=S[:-1]), errors.LengthError, r"6 rows.* 5"),
    "zero rows": (lambda: fit(X=X[:0], S=[]), ValueError, r"0 sample|no rows"),
    "zero columns": (lambda: fit(X=X[:, :0]), errors.FeatureError, r"0 feature"),
    "NaN in X": (lambda: fit(X=with_entry(2, 1, np.nan), learner=Ridge()), errors.FeatureError, r"row 2, column 1"),
    "infinity in X": (lambda: fit(X=with_entry(5, 0, np.inf)), errors.FeatureError, r"row 5, column 0"),
    "infinity in a named column": (
        lambda: fit(X=pd.DataFrame(with_entry(2, 1, np.inf), columns=["width", "height"])),
        errors.FeatureError,
        r"height",
    ),
    "text in X": (lambda: fit(X=np.array([list("abcdef")]).T), errors.FeatureError, r"OneHotEncoder"),
    "infinity beside categories": (
        lambda: fit(X=pd.DataFrame({"a": list("abcdef"), "b": with_entry(2, 1, np.inf)[:, 1]})),
        errors.FeatureError,
        r"Column b is infinite in row 2",
    ),
    "negative prior": (
        lambda: CandidateSets.from_lists(S, prior=[[-1, 2], *[[1] * len(s) for s in S[1:]]]),
        errors.PriorError,
        r"0\b",
    ),
    "NaN prior": (
        lambda: CandidateSets.from_lists(S, prior=[[np.nan, 2], *[[1] * len(s) for s in S[1:]]]),
        errors.PriorError,
        r"0\b",
    ),
    "all-zero prior": (
        lambda: CandidateSets.from_lists(S, prior=[[0, 0], *[[1] * len(s) for s in S[1:]]]),
        errors.PriorError,
        r"0\b",
    ),
    "unknown weighting": (lambda: fit(weighting="averge"), errors.ParameterError, r"did you mean 'average'"),
    "unknown loss": (lambda: fit(loss="square"), errors.ParameterError, r"did you mean 'squared'"),
    "unknown learner": (lambda: fit(learner="liner"), errors.ParameterError, r"did you mean 'linear'"),
    "class instead of instance": (lambda: fit(learner=Linear), errors.ParameterError, r"Linear\(\)"),
    "loss without derivative": (lambda: fit(loss=lambda f, y: abs(f - y)), errors.ParameterError, r"Pointwise"),
    "number as weighting": (lambda: fit(weighting=3), errors.ParameterError, r"got 3"),
    "beta1 of zero": (lambda: fit(weighting=Progressive(beta1=0)), errors.ParameterError, r"beta1 must be above 0"),
    "negative beta2": (lambda: fit(weighting=Progressive(beta2=-1)), errors.ParameterError, r"beta2"),
    "NaN delta": (lambda: fit(loss=Huber(delta=float("nan"))), errors.ParameterError, r"delta"),
    "unknown noise": (lambda: fit(weighting=Posterior(noise="gauss")), errors.ParameterError, r"'gaussian'"),
    "score that cannot be compiled": (
        lambda: fit(weighting=Custom(lambda f, y, loss: input())),
        errors.ParameterError,
        r"math module",
    ),
    "loss that is no function": (lambda: fit(loss=Pointwise(1, 2)), errors.ParameterError, r"value"),
    "negative alpha": (lambda: fit(learner=Linear(alpha=-1.0)), errors.ParameterError, r"alpha"),
    "hidden as number": (lambda: fit(learner=MLP(hidden=20)), errors.ParameterError, r"\(20, 30, 10\)"),
    "hidden of zero": (lambda: fit(learner=MLP(hidden=(20, 0))), errors.ParameterError, r"at least 1"),
    "activations for other layers": (
        lambda: fit(learner=MLP(hidden=(4,), activation=("relu", "relu"))),
        errors.ParameterError,
        r"2 functions for 1 hidden",
    ),
    "unknown activation": (lambda: fit(learner=MLP(activation="rellu")), errors.ParameterError, r"'relu'"),
    "epochs of zero": (lambda: fit(learner=MLP(epochs=0)), errors.ParameterError, r"epochs"),
    "learning rate of zero": (lambda: fit(learner=MLP(learning_rate=0)), errors.ParameterError, r"learning_rate"),
    "batch of half a row": (lambda: fit(learner=MLP(batch_size=0.5)), errors.ParameterError, r"whole number"),
    "validation fraction of all": (
        lambda: fit(learner=MLP(validation_fraction=0.95)),
        errors.ParameterError,
        r"validation_fraction",
    ),
    "one fold": (lambda: fit(cv=1), errors.ParameterError, r"at least 2"),
    "cv as text": (lambda: fit(cv="five"), errors.ParameterError, r"'five'"),
    "cv that can be used once": (lambda: fit(cv=iter([])), errors.ParameterError, r"list\(cv\)"),
    "cv without folds": (lambda: fit(cv=[]).identify(), errors.ParameterError, r"no folds"),
    "cv by classes": (lambda: fit(cv=StratifiedKFold(2)).identify(), errors.ParameterError, r"StratifiedKFold"),
    "group missing": (
        lambda: PartialLabelRegressor("linear").fit(X, S, groups=["a", None, "b", "b", "a", "c"]),
        errors.ParameterError,
        r"row 1",
    ),
    "predict before fit": (lambda: PartialLabelRegressor().predict(X), errors.NotFittedError, r"not fitted"),
    "identify before fit": (lambda: PartialLabelRegressor().identify(), errors.NotFittedError, r"not fitted"),
    "identify X without S": (lambda: fit().identify(X), errors.ParameterError, r"both X and S"),
    "identify lengths": (lambda: fit().identify(X, S[:2]), errors.LengthError, r"6.* 2"),
    "score lengths": (lambda: fit().score(X, S[:2]), errors.LengthError, r"6.* 2"),
    "predict with other columns": (lambda: fit().predict(X[:, :1]), errors.FeatureError, r"1 features?, .*2 features"),
    "predict with renamed columns": (
        lambda: fit(X=pd.DataFrame(X, columns=["a", "b"])).predict(pd.DataFrame(X, columns=["a", "c"])),
        errors.FeatureError,
        r"(?s)feature names.*c",
    ),
    "negative sample weight": (
        lambda: PartialLabelRegressor(learner="linear").fit(X, S, sample_weight=[1, 1, -1, 1, 1, 1]),
        errors.ParameterError,
        r"row 2",
    ),
    "sample weights all zero": (
        lambda: PartialLabelRegressor(learner="linear").fit(X, S, sample_weight=np.zeros(6)),
        errors.ParameterError,
        r"zero for every row",
    ),
    "too few sample weights": (
        lambda: PartialLabelRegressor(learner="linear").fit(X, S, sample_weight=[1.0]),
        errors.LengthError,
        r"6 rows",
    ),
    "groups of other length": (
        lambda: PartialLabelRegressor(learner="linear").fit(X, S, groups=[1, 2]),
        errors.LengthError,
        r"6 rows",
    ),
    "validation without target": (
        lambda: PartialLabelRegressor(learner=MLP(epochs=1)).fit(X, S, validation=X),
        errors.ParameterError,
        r"pair",
    ),
    "raw labels beyond float32": (
        lambda: fit(
            X=np.ones((300, 1)), S=[[1e30, 2e30]] * 300, learner=MLP(scale_target=False, epochs=1, dtype="float32")
        ),
        errors.TargetScaleError,
        r"row 0.*scale_target=True",
    ),
    "validation that is never finite": (
        lambda: PartialLabelRegressor(MLP(epochs=2)).fit(X, S, validation=(X * 1e200, S)),
        errors.DivergenceError,
        r"validation rows",
    ),
    "validation for linear": (
        lambda: PartialLabelRegressor("linear").fit(X, S, validation=(X, S)),
        errors.ParameterError,
        r"linear",
    ),
    "curvature of zero": (
        lambda: fit(loss=Pointwise(lambda f, y: (f - y) ** 2, lambda f, y: 2 * (f - y), lambda f, y: 0.0)),
        errors.DivergenceError,
        r"curvature",
    ),
    "patience without validation": (lambda: fit(learner=MLP(patience=3)), errors.ParameterError, r"validation"),
    "weight on one row only": (
        lambda: PartialLabelRegressor("linear").fit(X, S, sample_weight=[0, 0, 1, 0, 0, 0]).identify(),
        errors.ParameterError,
        r"sample_weight above 0",
    ),
    "sample weights as text": (
        lambda: PartialLabelRegressor("linear").fit(X, S, sample_weight=["a"] * 6),
        errors.ParameterError,
        r"sample_weight must be numbers",
    ),
    "random state as text": (lambda: fit(random_state="x"), errors.ParameterError, r"random_state"),
    "sparse X": (lambda: fit(X=sparse.csr_array(X)), errors.FeatureError, r"(?i)sparse"),
    "labels beyond float64": (lambda: fit(S=replaced(0, [-1.7e308, 1.7e308])), errors.TargetScaleError, r"span"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name):
    run, expected, message = CASES[name]
    with pytest.raises(expected, match=message) as caught:
        run()
    assert isinstance(caught.value, errors.PlrError)
    assert len(str(caught.value)) < 2000


def test_a_failed_fit_leaves_the_columns_alone():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = PartialLabelRegressor("linear").fit(frame, S)
    before = model.predict(frame)
    other = pd.DataFrame(np.ones((6, 3)), columns=["c", "d", "e"])
    for arguments in (
        {"y": S[:2]},
        {"y": S, "groups": [1]},
        {"y": S, "sample_weight": [1.0]},
        {"y": S, "validation": (frame, S)},
        {"y": replaced(0, [-1.7e308, 1.7e308])},
    ):
        with pytest.raises(errors.PlrError):
            model.fit(other, **arguments)
        np.testing.assert_array_equal(model.predict(frame), before)
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_a_failed_fit_changes_nothing():
    model = fit()
    before = model.predict(X)
    with pytest.raises(errors.EmptySetError):
        model.fit(X, replaced(3, []))
    with pytest.raises(errors.FeatureError):
        model.fit(with_entry(0, 0, np.inf), S)
    np.testing.assert_array_equal(model.predict(X), before)


def big_row():
    lists = copy.deepcopy(S)
    lists[2] = np.linspace(1.0, 6.0, 1_000_000)
    return lists


GOOD = {
    "one row": (X[:1], S[:1]),
    "one column": (X[:, :1], S),
    "one candidate each": (X, [[v] for v in range(6)]),
    "plain labels": (X, np.arange(6.0)),
    "constant labels": (X, [[3.0, 3.0]] * 6),
    "constant features": (np.ones((6, 2)), S),
    "gaps": (np.where(X % 5 == 0, np.nan, X), S),
    "nothing but gaps": (np.full((6, 2), np.nan), S),
    "categories": (pd.DataFrame({"a": ["b", None, "b", "c", "c", "c"], "b": X[:, 1]}), S),
    "sets of very different sizes": (X, [np.linspace(0, k, 10**k) for k in range(1, 5)] + S[:2]),
    "a million candidates in one row": (X, big_row()),
    "float32": (X.astype(np.float32), [np.array(s, dtype=np.float32) for s in S]),
    "Fortran order": (np.asfortranarray(X), S),
    "pandas": (pd.DataFrame(X, columns=["a", "b"]), pd.Series(S)),
    "polars": (pl.DataFrame(X, schema=["a", "b"]), pl.Series(S)),
    "padded": (X, CandidateSets.from_lists(S).to_padded()),
    "lists": (X.tolist(), S),
    "tiny labels": (X, [[1e-300 * v for v in s] for s in S]),
    "huge labels": (X, [[1e300 * v for v in s] for s in S]),
    "large offset": (X, [[1e9 + v for v in s] for s in S]),
}


@pytest.mark.parametrize("learner", [Linear(), MLP(epochs=5)], ids=["linear", "mlp"])
@pytest.mark.parametrize("name", GOOD)
@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
def test_good_input(name, learner):
    features, target = GOOD[name]
    model = PartialLabelRegressor(learner=learner, random_state=0).fit(features, target)
    prediction = model.predict(features)
    assert np.isfinite(prediction).all()
    found = model.identify(features, target)
    assert np.isfinite(found.probabilities).all()
    np.testing.assert_allclose(np.add.reduceat(found.probabilities, as_candidate_sets(target).offsets[:-1]), 1.0)


def test_read_only_arrays():
    features, target = X.copy(), CandidateSets.from_lists(S).to_padded()
    features.flags.writeable = target.flags.writeable = False
    PartialLabelRegressor(learner=MLP(epochs=2)).fit(features, target).predict(features)


def test_a_million_candidates_in_one_row_are_not_padded():
    sets = CandidateSets.from_lists(big_row())
    with pytest.raises(errors.InfeasibleError, match=r"row 2\b"):
        np.asarray(sets)
