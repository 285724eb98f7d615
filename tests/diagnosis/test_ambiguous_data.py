"""Data that cannot tell which candidates are true: a fit says so, keeps it, and is not sure of its choices."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score

import plr
from plr import CandidateSets, PartialLabelRegressor, load_model, make_candidates, save_model
from plr import diagnosis as diagnosis_module
from plr.errors import AmbiguousDataWarning, PlrWarning
from plr.learners import MLP, Boosting, Committee
from plr.streaming.folder_fit import fit_folder

pytestmark = pytest.mark.usefixtures("small_forests")
N = 240
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(0, 1, size=(N, 3))
Y = np.round(20 + 30 * X[:, 0] + 10 * X[:, 1] ** 2 + RANDOM.normal(0, 0.5, N), 1)
NOISE = RANDOM.normal(size=(N, 3))
GUESSES = make_candidates(Y, 3, set_size="fixed", random_state=0)


def mixed(*columns, prior=None):
    return CandidateSets.from_padded(RANDOM.permuted(np.column_stack(columns), axis=1), prior=prior)


DEGREES = mixed(Y, np.round(1.8 * Y + 32, 1))
TWINS = {
    "line": DEGREES,
    "ratio": mixed(Y, np.round(2.20462 * Y, 1)),
    "difference": mixed(Y, Y + 25),
}
LEARNERS = {
    "linear": "linear",
    "mlp": MLP(hidden=(8,), epochs=20),
    "boosting": Boosting(trees=30),
    "default": Committee(effort="low"),
    "ridge": Ridge(),
}


def fit(learner, S, features=X, **options):
    return PartialLabelRegressor(learner, random_state=0, **options).fit(features, S)


@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "line") for name in LEARNERS), ("linear", "ratio"), ("linear", "difference")]
)
def test_twins_are_found_out_by_every_learner(name, kind):
    S = TWINS[kind]
    with pytest.warns(AmbiguousDataWarning, match="cannot tell you which candidates are true.*Label some rows") as told:
        model = fit(clone(LEARNERS[name], safe=False), S)
    assert len([one for one in told if issubclass(one.category, AmbiguousDataWarning)]) == 1
    assert (model.diagnosis_.verdict, model.diagnosis_.twins.kind) == ("cannot tell", kind)
    assert plr.check(X, S).verdict == model.diagnosis_.verdict
    for found in (model.identify(X, S), model.identify()):
        np.testing.assert_allclose(found.probabilities, 0.5, atol=1e-9)
        assert "follow from the features equally well" in found.caution
        assert "the data cannot tell" in repr(found)
    np.testing.assert_allclose(model.candidate_probabilities_, 0.5, atol=1e-9)


@pytest.mark.parametrize("weighting", ["progressive", "identification", "average"])
def test_twins_are_found_out_with_every_weighting(weighting):
    with pytest.warns(AmbiguousDataWarning):
        model = fit("linear", DEGREES, weighting=weighting)
    np.testing.assert_allclose(model.identify(X, DEGREES).probabilities, 0.5, atol=1e-9)


def test_choices_are_those_of_one_reading_as_the_predictions_are():
    with pytest.warns(AmbiguousDataWarning, match="all its predictions and intervals may be those of the other"):
        model = fit("linear", DEGREES)
    smaller = model.identify().value == DEGREES.values.reshape(-1, 2).min(axis=1)
    assert smaller.all() or not smaller.any()


def test_a_prior_of_new_rows_decides_between_twins():
    with pytest.warns(AmbiguousDataWarning):
        model = fit("linear", TWINS["ratio"])
    rows = CandidateSets.from_padded(np.column_stack([Y, 2.20462 * Y])[:5], prior=[0.9, 0.1])
    np.testing.assert_allclose(model.identify(X[:5], rows).probabilities.reshape(-1, 2), [[0.9, 0.1]] * 5, atol=1e-9)


def test_three_readings_have_a_third_each():
    S = mixed(Y, 1.8 * Y + 32, Y + 273.15)
    with pytest.warns(AmbiguousDataWarning):
        found = fit("linear", S).identify()
    np.testing.assert_allclose(found.probabilities, 1 / 3, atol=1e-9)


def test_twins_beside_other_candidates():
    S = mixed(Y, 1.8 * Y + 32, RANDOM.uniform(0, 130, N))
    assert plr.check(X, S).verdict == "cannot tell"
    with pytest.warns(AmbiguousDataWarning):
        found = fit("linear", S).identify()
    assert found.probability.mean() < 0.55


def test_pairs_of_candidates_that_a_model_takes_on_one_side():
    # The forest cannot see which pair is the true one, but the model can.
    other = RANDOM.uniform(15, 60, N)
    S = mixed(Y, 2.2 * Y, other, 2.2 * other)
    with pytest.warns(AmbiguousDataWarning):
        found = fit("linear", S).identify()
    assert found.probability.max() < 0.5 + 1e-9


CAN_TELL = {
    "labelled": CandidateSets.from_lists([[y] if row % 20 == 0 else [y, 1.8 * y + 32] for row, y in enumerate(Y)]),
    "prior": CandidateSets.from_padded(np.column_stack([Y, 1.8 * Y + 32]), prior=[0.7, 0.3]),
    "either side": mixed(Y, np.where(np.arange(N) % 2, 2.2 * Y, Y / 2.2)),
    "sometimes the other side": mixed(Y, np.where(np.arange(N) % 20, 1.8 * Y + 32, (Y - 32) / 1.8)),
    "guesses": GUESSES,
}


@pytest.mark.parametrize("name", CAN_TELL)
def test_what_can_tell_is_left_alone(name, monkeypatch):
    S = CAN_TELL[name]
    model = fit("linear", S)
    assert model.diagnosis_.verdict != "cannot tell"
    assert plr.check(X, S).verdict != "cannot tell"
    found = model.identify()
    assert found.caution == ""
    monkeypatch.setattr(model, "diagnosis_", None)
    model._identified = None
    np.testing.assert_array_equal(model.identify().probabilities, found.probabilities)
    several = S.sizes > 1
    assert found.probability[several].mean() > 0.7


def test_labels_that_fit_both_readings_decide_nothing():
    # Forty below zero is the same in °C and °F.
    celsius = -40 + 60 * X[:, 0]
    lists = [[y] if y < -38 else [y, 1.8 * y + 32] for y in celsius]
    assert sum(len(values) == 1 for values in lists) > 0.02 * N
    assert plr.check(X, lists).verdict == "cannot tell"
    assert plr.check(X, CandidateSets.from_padded(np.column_stack([Y, 2.5 * Y]), prior=[0.5, 0.5])).twins is not None
    equal = CandidateSets.from_padded(np.column_stack([Y, 2.5 * Y]), prior=[0.5, 0.5])
    assert plr.check(X, equal).verdict == "cannot tell"


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("linear", "mlp")), "boosting"]
)
def test_features_that_say_nothing_leave_the_prior(name):
    with pytest.warns(AmbiguousDataWarning, match="seem to say nothing about the true values"):
        model = fit(clone(LEARNERS[name], safe=False), GUESSES, NOISE)
    assert plr.check(NOISE, GUESSES).verdict == "cannot tell"
    for found in (model.identify(), model.identify(NOISE[:50], GUESSES[:50])):
        np.testing.assert_allclose(found.probabilities, 0.25, atol=1e-9)


def test_rows_that_are_all_alike_cannot_tell():
    S = np.tile([100.0, 200.0], (N, 1))
    found = plr.check(X, S)
    assert found.verdict == "cannot tell"
    assert "All rows have the same candidates" in found.summary()
    assert "Features say something" not in found.summary()
    with pytest.warns(AmbiguousDataWarning, match="same candidates"):
        model = fit("boosting", S)
    np.testing.assert_allclose(model.identify(X, S).probabilities, 0.5)


def test_few_rows_are_not_called_impossible_for_want_of_a_signal():
    # A line of ten features, which a fit finds and forests of sixty rows do not.
    random = np.random.default_rng(1)
    few = random.normal(size=(60, 10))
    S = make_candidates(few.sum(axis=1), 1, set_size="fixed", random_state=0)
    assert plr.check(few, S).verdict == "thin"
    assert fit("linear", S, few).diagnosis_.verdict != "cannot tell"


def test_plain_labels_and_equal_candidates_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(diagnosis_module, "diagnose", None)
    assert fit("linear", Y).diagnosis_ is None
    assert fit("linear", np.column_stack([Y, Y])).diagnosis_ is None


def test_rows_without_weight_decide_nothing():
    lists = [[y] if row % 20 == 0 else [y, 1.8 * y + 32] for row, y in enumerate(Y)]
    weight = np.where(np.arange(N) % 20 == 0, 0.0, 1.0)
    with pytest.warns(AmbiguousDataWarning):
        PartialLabelRegressor("linear", random_state=0).fit(X, lists, sample_weight=weight)


def test_data_are_looked_at_once_whatever_is_fitted_on_the_way(monkeypatch):
    calls = []
    look = diagnosis_module.diagnose
    monkeypatch.setattr(diagnosis_module, "diagnose", lambda *given, **named: calls.append(1) or look(*given, **named))
    model = fit(Ridge(), GUESSES)
    model.identify()
    model.calibrate()
    assert len(calls) == 1


def test_scikit_learn_goes_on_working():
    with pytest.warns(AmbiguousDataWarning):
        scores = cross_val_score(PartialLabelRegressor("linear"), X, DEGREES, cv=3, error_score="raise")
    assert np.isfinite(scores).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlrWarning)
        search = GridSearchCV(PartialLabelRegressor("linear"), {"weighting": ["posterior", "average"]}, cv=2)
        assert search.fit(X, DEGREES).best_estimator_.diagnosis_.verdict == "cannot tell"


def test_files_and_pickles_keep_what_was_found(tmp_path):
    with pytest.warns(AmbiguousDataWarning):
        model = fit("boosting", TWINS["ratio"])
    model.identify()
    save_model(model, tmp_path / "m.plr")
    for again in (load_model(tmp_path / "m.plr"), pickle.loads(pickle.dumps(model))):
        assert again.diagnosis_ == model.diagnosis_
        assert again.identify().caution == model.identify().caution != ""
        np.testing.assert_array_equal(again.identify().probabilities, model.identify().probabilities)
        np.testing.assert_allclose(again.identify(X, TWINS["ratio"]).probabilities, 0.5, atol=1e-9)
    with pytest.warns(AmbiguousDataWarning):
        noise = fit("linear", GUESSES, NOISE)
    save_model(noise, tmp_path / "n.plr", training_rows=False)
    assert load_model(tmp_path / "n.plr").diagnosis_ == noise.diagnosis_


def test_texts_are_judged_by_what_the_model_makes_of_them():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline

    words = np.array(["low", "mid", "high"])
    place = np.arange(N) % 3
    y = np.array([10.0, 30.0, 50.0])[place] + np.random.default_rng(0).normal(0, 0.5, N)
    texts = [f"a {words[one]} one" for one in place]
    with pytest.warns(AmbiguousDataWarning):
        model = fit(make_pipeline(CountVectorizer(), Ridge()), np.column_stack([y, 2.5 * y]), texts)
    assert model.identify().probability.max() < 0.51


@pytest.mark.parametrize("learner", ["linear", "mlp"])
def test_fits_in_batches_look_at_their_sample(learner, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from plr.columns.features import learn_features
    from plr.sources.folder import Folder
    from plr.streaming.folder_rows import Reading

    table = pa.table({**{f"x{k}": X[:, k] for k in range(3)}, "y": DEGREES.to_arrow()})
    (tmp_path / "rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "part.parquet")
    folder = Folder.open(tmp_path / "rows")
    some = folder.sample(N, 0)[0]
    reading = Reading(folder, learn_features(some, ["y"], folder.path).settled(some), ("y",))
    regressor = PartialLabelRegressor(MLP(epochs=5) if learner == "mlp" else learner, random_state=0)
    with pytest.warns(AmbiguousDataWarning):
        model = fit_folder(regressor, reading, tmp_path / "scratch").model
    assert model.diagnosis_.verdict == "cannot tell"
    np.testing.assert_allclose(model.identify(X, DEGREES).probabilities, 0.5, atol=1e-9)


def test_features_that_a_quick_look_overlooks_are_no_reason_to_warn():
    # Two of twenty columns matter, and those only together.
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(300, 20))
    y = 2 * np.sin(3 * X[:, 0]) * X[:, 1] + 0.05 * random.normal(size=300)
    S = make_candidates(y, 4, set_size="fixed", random_state=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AmbiguousDataWarning)
        found = PartialLabelRegressor(effort="low", random_state=0).fit(X, S).identify()
    assert np.mean(found.value == y) > 0.8
    assert np.mean(found.probability) > 0.7


def test_features_that_say_nothing_are_told_by_the_default():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(250, 3)), random.uniform(size=250)
    with pytest.warns(AmbiguousDataWarning, match="say nothing about the true values"):
        PartialLabelRegressor(effort="low", random_state=0).fit(
            X, make_candidates(y, 4, set_size="fixed", random_state=1)
        )
