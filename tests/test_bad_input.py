"""Bad input: each case raises the named type, says what is wrong and where, and changes nothing.

Cases give the fields that the error must have, and once for each kind of message a pattern of its words.
"""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import StratifiedKFold

from plr import CandidateSets, PartialLabelRegressor, check, errors
from plr.candidates import as_candidate_sets
from plr.candidates.arrow import parse_cells
from plr.learners import MLP, Linear
from plr.losses import Huber, Pointwise
from plr.weighting import Custom, Posterior, Progressive
from support.refusals import refused

pytestmark = pytest.mark.usefixtures("small_forests")
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


LAZY = pl.DataFrame(X, schema=["a", "b"]).lazy()
HUGE = 10**400

CASES = {
    "empty set": (lambda: fit(S=replaced(3, [])), errors.EmptySetError, r"row.* 3\b.*drop"),
    "row of only NaN": (
        lambda: fit(S=np.array([[1.0, 2.0]] * 5 + [[np.nan, np.nan]])),
        errors.EmptySetError,
        {"row": 5},
    ),
    "infinity": (lambda: fit(S=replaced(2, [1.0, np.inf])), errors.CandidateError, {"row": 2, "value": np.inf}),
    "string": (lambda: fit(S=replaced(4, ["a", "b"])), errors.CandidateError, {"row": 4, "value": "a"}),
    "complex": (lambda: fit(S=replaced(1, [1.0 + 2.0j])), errors.CandidateError, {"row": 1, "value": 1.0 + 2.0j}),
    "None inside a list": (lambda: fit(S=replaced(1, [1.0, None])), errors.CandidateError, {"row": 1, "value": None}),
    "depth 3": (lambda: fit(S=replaced(0, [[1.0], [2.0]])), errors.CandidateError, {"row": 0}),
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
        {"row": 0},
    ),
    "NaN prior": (
        lambda: CandidateSets.from_lists(S, prior=[[np.nan, 2], *[[1] * len(s) for s in S[1:]]]),
        errors.PriorError,
        {"row": 0},
    ),
    "all-zero prior": (
        lambda: CandidateSets.from_lists(S, prior=[[0, 0], *[[1] * len(s) for s in S[1:]]]),
        errors.PriorError,
        {"row": 0},
    ),
    "unknown weighting": (lambda: fit(weighting="averge"), errors.ParameterError, r"did you mean 'average'"),
    "unknown loss": (lambda: fit(loss="square"), errors.ParameterError, {"parameter": "loss"}),
    "unknown learner": (lambda: fit(learner="liner"), errors.ParameterError, {"parameter": "learner"}),
    "class instead of instance": (lambda: fit(learner=Linear), errors.ParameterError, r"Linear\(\)"),
    "loss without derivative": (lambda: fit(loss=lambda f, y: abs(f - y)), errors.ParameterError, r"Pointwise"),
    "number as weighting": (lambda: fit(weighting=3), errors.ParameterError, r"got 3"),
    "beta1 of zero": (lambda: fit(weighting=Progressive(beta1=0)), errors.ParameterError, r"beta1 must be above 0"),
    "negative beta2": (lambda: fit(weighting=Progressive(beta2=-1)), errors.ParameterError, r"beta2"),
    "NaN delta": (lambda: fit(loss=Huber(delta=float("nan"))), errors.ParameterError, r"delta"),
    "unknown noise": (lambda: fit(weighting=Posterior(noise="gauss")), errors.ParameterError, {"parameter": "noise"}),
    "score that cannot be compiled": (
        lambda: fit(weighting=Custom(lambda f, y, loss: input())),
        errors.ParameterError,
        r"math module",
    ),
    "loss that is no function": (lambda: fit(loss=Pointwise(1, 2)), errors.ParameterError, r"value"),
    "negative alpha": (lambda: fit(learner=Linear(alpha=-1.0)), errors.ParameterError, {"parameter": "alpha"}),
    "hidden as number": (lambda: fit(learner=MLP(hidden=20)), errors.ParameterError, r"\(20, 30, 10\)"),
    "hidden of zero": (lambda: fit(learner=MLP(hidden=(20, 0))), errors.ParameterError, {"parameter": "hidden"}),
    "activations for other layers": (
        lambda: fit(learner=MLP(hidden=(4,), activation=("relu", "relu"))),
        errors.ParameterError,
        r"2 functions for 1 hidden",
    ),
    "unknown activation": (
        lambda: fit(learner=MLP(activation="rellu")),
        errors.ParameterError,
        {"parameter": "activation"},
    ),
    "epochs of zero": (lambda: fit(learner=MLP(epochs=0)), errors.ParameterError, {"parameter": "epochs"}),
    "learning rate of zero": (
        lambda: fit(learner=MLP(learning_rate=0)),
        errors.ParameterError,
        {"parameter": "learning_rate"},
    ),
    "batch of half a row": (
        lambda: fit(learner=MLP(batch_size=0.5)),
        errors.ParameterError,
        {"parameter": "batch_size"},
    ),
    "validation fraction of all": (
        lambda: fit(learner=MLP(validation_fraction=0.95)),
        errors.ParameterError,
        {"parameter": "validation_fraction", "value": 0.95},
    ),
    "one fold": (lambda: fit(cv=1), errors.ParameterError, {"parameter": "cv"}),
    "cv as text": (lambda: fit(cv="five"), errors.ParameterError, r"'five'"),
    "cv that can be used once": (lambda: fit(cv=iter([])), errors.ParameterError, r"list\(cv\)"),
    "cv without folds": (lambda: fit(cv=[]).identify(), errors.ParameterError, r"no folds"),
    "cv by classes": (lambda: fit(cv=StratifiedKFold(2)).identify(), errors.ParameterError, r"StratifiedKFold"),
    "group missing": (
        lambda: PartialLabelRegressor("linear").fit(X, S, groups=["a", None, "b", "b", "a", "c"]),
        errors.ParameterError,
        {"parameter": "groups", "row": 1},
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
        {"parameter": "sample_weight", "row": 2, "value": -1},
    ),
    "sample weights all zero": (
        lambda: PartialLabelRegressor(learner="linear").fit(X, S, sample_weight=np.zeros(6)),
        errors.ParameterError,
        r"zero for every row",
    ),
    "too few sample weights": (
        lambda: PartialLabelRegressor(learner="linear").fit(X, S, sample_weight=[1.0]),
        errors.LengthError,
        {"parameter": "sample_weight"},
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
    "random state as text": (lambda: fit(random_state="x"), errors.ParameterError, {"parameter": "random_state"}),
    "sparse X": (lambda: fit(X=sparse.csr_array(X)), errors.FeatureError, r"(?i)sparse"),
    "cv that names a row that is not there": (
        lambda: fit(cv=[([0, 1, 2], [3, 4, 5, 6]), ([3, 4, 5], [0, 1, 2])]).identify(),
        errors.ParameterError,
        r"test part of fold 0 in cv names row 6.* 0 to 5",
    ),
    "cv that trains on a row that is not there": (
        lambda: fit(cv=[([0, 1, 2], [3, 4, 5]), ([3, 99], [0, 1, 2])], learner=Ridge()),
        errors.ParameterError,
        r"training part of fold 1 in cv names row 99",
    ),
    "cv that counts from the end": (
        lambda: fit(cv=[([-1, 1, 2], [3, 4, 5]), ([3, 4, 5], [0, 1, 2])]).calibrate(),
        errors.ParameterError,
        r"row -1",
    ),
    "cv that is not whole": (
        lambda: fit(cv=[([0, 1, 2], [3.5, 4, 5]), ([3, 4, 5], [0, 1, 2])]).identify(),
        errors.ParameterError,
        r"fold 0 in cv must be a list of whole numbers",
    ),
    "cv of nested lists": (
        lambda: fit(cv=[([[0], [1]], [3, 4, 5]), ([3, 4, 5], [0, 1, 2])]).identify(),
        errors.ParameterError,
        r"whole numbers",
    ),
    "cv of texts": (lambda: fit(cv=[("ab", "cd")]).identify(), errors.ParameterError, r"whole numbers"),
    "cv without training rows": (
        lambda: fit(cv=[([], [3, 4, 5]), ([3, 4, 5], [0, 1, 2])], learner=Ridge()),
        errors.ParameterError,
        r"training part of fold 0 in cv is empty",
    ),
    "a million jobs": (lambda: fit(n_jobs=1_000_000), errors.ParameterError, r"n_jobs must be at most.*1000000"),
    "no jobs": (lambda: fit(n_jobs=0), errors.ParameterError, {"parameter": "n_jobs"}),
    "one and a half jobs": (lambda: fit(n_jobs=1.5), errors.ParameterError, r"n_jobs.*whole number.*1\.5"),
    "jobs as text": (lambda: fit(n_jobs="x"), errors.ParameterError, {"parameter": "n_jobs"}),
    "callback that is no function": (
        lambda: PartialLabelRegressor("linear").fit(X, S, callback=3),
        errors.ParameterError,
        r"callback must be a function.*got 3",
    ),
    "callback that is empty": (
        lambda: PartialLabelRegressor("linear").fit(X, S, callback=[]),
        errors.ParameterError,
        r"callback must be a function",
    ),
    "lazy X": (lambda: fit(X=LAZY), errors.FeatureTypeError, r"X is a LazyFrame.*collect"),
    "lazy X for a wrapped regressor": (lambda: fit(X=LAZY, learner=Ridge()), errors.FeatureTypeError, r"collect"),
    "lazy X to predict": (lambda: fit().predict(LAZY), errors.FeatureTypeError, r"collect"),
    "lazy X to check": (lambda: check(LAZY, S), errors.FeatureTypeError, r"collect"),
    "lazy target": (lambda: fit(S=LAZY), errors.CandidateError, r"The target is a LazyFrame.*collect"),
    "lazy target to score": (lambda: fit().score(X, LAZY), errors.CandidateError, r"collect"),
    "lazy target to check": (lambda: check(X, LAZY), errors.CandidateError, r"collect"),
    "lazy table": (lambda: CandidateSets.from_columns(LAZY, ["a"]), errors.CandidateError, r"collect"),
    "lazy weights": (
        lambda: PartialLabelRegressor("linear").fit(X, S, sample_weight=LAZY),
        errors.ParameterError,
        r"sample_weight is a LazyFrame",
    ),
    "whole number beyond floating point in X": (
        lambda: fit(X=[*X[:5].tolist(), [1, HUGE]]),
        errors.FeatureError,
        r"(?s)beyond floating point.*about 401 digits in row 5, column 1; 1 in all\.$",
    ),
    "the same beside categories": (
        lambda: fit(X=pd.DataFrame({"a": list("abcdef"), "b": [1, 2, 3, 4, 5, HUGE]})),
        errors.FeatureError,
        r"Column b has a whole number beyond floating point",
    ),
    "the same to predict": (lambda: fit().predict([[HUGE, 1]]), errors.FeatureError, r"beyond floating point"),
    "the same in a set": (lambda: fit(S=replaced(4, [1, HUGE])), errors.CandidateError, r"too large.*row 4"),
    "the same as a label": (lambda: fit(S=[1, 2, 3, HUGE, 5, 6]), errors.CandidateError, {"row": 3, "value": HUGE}),
    "the same in an array": (
        lambda: fit(S=np.array([[1, 2]] * 5 + [[1, HUGE]], dtype=object)),
        errors.CandidateError,
        {"row": 5, "column": 1, "value": HUGE},
    ),
    "the same as weight": (
        lambda: PartialLabelRegressor("linear").fit(X, S, sample_weight=[HUGE] * 6),
        errors.ParameterError,
        r"sample_weight must be numbers",
    ),
    "the same as parameter": (lambda: fit(learner=Linear(alpha=HUGE)), errors.ParameterError, r"alpha.*401 digits"),
    "the same as count": (lambda: fit(learner=MLP(epochs=HUGE)), errors.ParameterError, r"epochs.*401 digits"),
    "the same as coverage": (lambda: fit().predict_interval(X, HUGE), errors.ParameterError, r"coverage.*401 digits"),
    "labels beyond float64": (lambda: fit(S=replaced(0, [-1.7e308, 1.7e308])), errors.TargetScaleError, r"span"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name):
    run, error, expected = CASES[name]
    with refused(error, expected) as caught:
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


def test_tensors_that_require_a_gradient():
    torch = pytest.importorskip("torch")
    features = torch.tensor(X, requires_grad=True)
    padded = torch.tensor([[1.0, 2.0]] * 6, requires_grad=True)
    labels = torch.arange(6.0, requires_grad=True)
    calls = [
        (lambda: fit(X=features), errors.FeatureTypeError),
        (lambda: fit(X=features, learner=Ridge()), errors.FeatureTypeError),
        (lambda: fit().predict(features), errors.FeatureTypeError),
        (lambda: check(features, S), errors.FeatureTypeError),
        (lambda: fit(S=padded), errors.CandidateError),
        (lambda: fit(S=labels), errors.CandidateError),
        (lambda: fit().score(X, labels), errors.CandidateError),
        (lambda: fit().identify(X, padded), errors.CandidateError),
        (lambda: check(X, padded), errors.CandidateError),
        (lambda: CandidateSets.from_padded(padded), errors.CandidateError),
        (lambda: CandidateSets.from_labels(labels), errors.CandidateError),
        (lambda: CandidateSets.from_columns({"a": labels}, ["a"]), errors.CandidateError),
        (lambda: PartialLabelRegressor("linear").fit(X, S, sample_weight=labels), errors.ParameterError),
        (lambda: PartialLabelRegressor("linear").fit(X, S, groups=labels), errors.ParameterError),
    ]
    for call, expected in calls:
        with pytest.raises(expected, match=r"requires a gradient.*detach"):
            call()
    with pytest.raises(errors.CandidateError):
        fit(S=list(padded))
    fit(X=features.detach(), S=padded.detach())


def test_folds_may_be_masks_and_have_empty_test_parts():
    first = np.array([True] * 3 + [False] * 3)
    numbers = fit(cv=[([0, 1, 2], [3, 4, 5]), ([3, 4, 5], [0, 1, 2])]).identify()
    for cv in ([(first, ~first), (~first, first)], [([0, 1, 2], [3, 4, 5]), ([3, 4, 5], [0, 1, 2]), ([0], [])]):
        np.testing.assert_array_equal(fit(cv=cv).identify().probabilities, numbers.probabilities)


def test_no_rows_to_predict_by_a_wrapped_regressor():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    assert fit(X=frame, learner=Ridge()).predict(frame[:0]).shape == (0,)
    # Arrays of no rows are refused for every learner, as by scikit-learn.
    with pytest.raises(errors.FeatureError, match="0 sample"):
        fit(learner=Ridge()).predict(X[:0])


def test_whole_numbers_beyond_exact_floats():
    largest = np.array([[2**64 - 1, row] for row in range(6)], dtype=np.uint64)
    assert np.isfinite(fit(X=largest, S=[[2**63 + row, row] for row in range(6)]).predict(largest)).all()


TEXTS = [f"{row}|{row * row}.5" for row in range(6)]
TARGETS = {
    "list": TEXTS,
    "series": pd.Series(TEXTS),
    "frame": pd.DataFrame({"y": TEXTS}),
    "frame of strings": pd.DataFrame({"y": pd.Series(TEXTS, dtype="string")}),
    "frame of categories": pd.DataFrame({"y": pd.Series(TEXTS, dtype="category")}),
    "polars series": pl.Series(TEXTS),
    "polars frame": pl.DataFrame({"y": TEXTS}),
    "arrow column": pa.chunked_array([TEXTS]),
    "arrow dictionary": pa.array(TEXTS).dictionary_encode(),
    "arrow table": pa.table({"y": TEXTS}),
    "arrow table of a dictionary": pa.table({"y": pa.array(TEXTS).dictionary_encode()}),
    "frame of lists": pd.DataFrame({"y": CandidateSets.from_arrow(parse_cells(TEXTS)).to_lists()}),
    "arrow table of lists": pa.table({"y": parse_cells(TEXTS)}),
}


# Readers of frames, series, dictionaries and lists are each there once; the others call the same.
FURTHER = {"series", "frame of strings", "polars series", "arrow column", "arrow dictionary", "arrow table of lists"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in FURTHER)) for name in TARGETS])
def test_a_column_of_sets_is_the_same_everywhere(name):
    target, sets = TARGETS[name], CandidateSets.from_arrow(parse_cells(TEXTS))
    model = fit(S=target)
    assert model.score(X, target) == model.score(X, sets)
    np.testing.assert_array_equal(model.identify(X, target).probabilities, model.identify(X, sets).probabilities)
    assert check(X, target).candidates == 12
    PartialLabelRegressor(MLP(epochs=1)).fit(X, target, validation=(X, target))
