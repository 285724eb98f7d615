"""`PartialLabelRegressor` as users meet it."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from plr import CandidateSets, PartialLabelRegressor, errors, make_candidates
from plr import folds as rows_of_tasks
from plr.learners import LEARNERS, MLP, Boosting, Linear
from plr.losses import LOSSES
from plr.weighting import WEIGHTINGS, Progressive
from support.pairs import all_pairs

LEARNER_INSTANCES = [Linear(), MLP(hidden=(16,), epochs=60)]


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = 5.0 + X @ [3.0, -2.0, 1.0] + 0.1 * random.normal(size=400)
    S, truth = make_candidates(y, 4, random_state=1, return_index=True)
    return X, y, S, truth


@all_pairs(
    weighting=WEIGHTINGS,
    loss=LOSSES,
    learner=[pytest.param(learner, id=type(learner).__name__) for learner in LEARNER_INSTANCES],
)
@pytest.mark.filterwarnings("ignore::plr.errors.ConvergenceWarning")
def test_every_combination_learns(data, weighting, loss, learner):
    X, y, S, _ = data
    model = PartialLabelRegressor(learner, weighting, loss, random_state=0).fit(X, S)
    least = 0.3 if weighting == "average" else 0.97
    assert model.score(X, y) > least


@pytest.mark.slow
def test_defaults_come_close_to_supervised_training(data):
    X, y, S, truth = data
    model = PartialLabelRegressor(random_state=0).fit(X[:300], S[:300])
    supervised = PartialLabelRegressor(random_state=0).fit(X[:300], y[:300])
    error, bound = (np.mean((m.predict(X[300:]) - y[300:]) ** 2) for m in (model, supervised))
    assert error < 1.1 * bound
    # Some false labels lie nearer than the noise lets the true one be, whoever judges.
    found, best = (np.mean(m.identify(X[300:], S[300:]).index == truth[300:]) for m in (model, supervised))
    assert found >= best - 0.01
    assert best >= 0.97


def test_identify_training_rows_out_of_fold(data):
    X, _, S, truth = data
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    found = model.identify()
    assert np.mean(found.index == truth) > 0.97
    np.testing.assert_array_equal(found.value, S.values[S.offsets[:-1] + found.index])
    np.testing.assert_allclose(np.add.reduceat(found.probabilities, S.offsets[:-1]), 1.0)
    assert (found.probability >= found.probabilities[S.offsets[:-1]] - 1e-15).all()
    assert model.identify() is found


def test_identify_is_out_of_fold_indeed():
    # Pure noise: a model that has seen a row can agree with it, one that has not cannot.
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 40)), random.normal(size=60)
    S, truth = make_candidates(y, 3, set_size="fixed", random_state=0, return_index=True)
    model = PartialLabelRegressor("linear", "identification", random_state=0).fit(X, S)
    out_of_fold = np.mean(model.identify().index == truth)
    assert out_of_fold < 0.5
    assert model.candidate_probabilities_.shape == S.values.shape
    assert (
        model.identify().probability.mean() < np.maximum.reduceat(model.candidate_probabilities_, S.offsets[:-1]).mean()
    )


def test_groups_stay_together(data, monkeypatch):
    X, _, S, _ = data
    groups = np.arange(400) // 40
    seen = []
    original = GroupKFold.split

    def recording(self, X, y=None, groups=None):
        for train, test in original(self, X, y, groups):
            seen.append((set(groups[train]), set(groups[test])))
            yield train, test

    monkeypatch.setattr(GroupKFold, "split", recording)
    PartialLabelRegressor("linear", random_state=0).fit(X, S, groups=groups).identify()
    assert len(seen) == 5
    assert all(not train & test for train, test in seen)


def test_workers_change_nothing(data):
    X, _, S, _ = data
    learner = MLP(hidden=(8,), epochs=20)
    results = [
        PartialLabelRegressor(learner, random_state=3, n_jobs=jobs).fit(X, S).identify().probabilities
        for jobs in (None, 2)
    ]
    np.testing.assert_array_equal(*results)


# Quicker settings of these are in learners/test_contract.py.
SLOW = ("committee", "density", "gaussian_process")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in LEARNERS])
def test_same_seed_same_bits(data, name):
    X, S = data[0][:60], data[2][:60]
    first, second = (PartialLabelRegressor(name, random_state=5).fit(X, S).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_other_seed_other_network(data):
    X, _, S, _ = data
    first, second = (PartialLabelRegressor(MLP(epochs=3), random_state=k).fit(X, S).predict(X) for k in (1, 2))
    assert not np.array_equal(first, second)


def test_single_candidates_are_supervision(data):
    X, y, _, _ = data
    model = PartialLabelRegressor("linear").fit(X, [[v] for v in y])
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X), rtol=1e-9)
    np.testing.assert_array_equal(model.candidate_probabilities_, 1.0)


def test_a_prior_decides_between_candidates_that_fit_alike():
    X = np.linspace(-1, 1, 50)[:, None]
    S = CandidateSets.from_lists([[x, -x] for x in X[:, 0]], prior=[[0.9, 0.1]] * 50)
    model = PartialLabelRegressor("linear", "posterior").fit(X, S)
    np.testing.assert_allclose(model.predict([[1.0]]), 1.0, atol=1e-3)


def test_sample_weight_counts(data):
    X, y, _, _ = data
    shifted = y.copy()
    shifted[:200] += 100.0
    weight = np.r_[np.zeros(200), np.ones(200)]
    model = PartialLabelRegressor("linear").fit(X, shifted, sample_weight=weight)
    assert np.abs(model.predict(X) - y).max() < 1.0


def test_score_of_candidate_sets_prefers_the_better_model(data):
    X, _, S, _ = data
    scores = [
        PartialLabelRegressor("linear", weighting).fit(X[:300], S[:300]).score(X[300:], S[300:])
        for weighting in ("average", "progressive")
    ]
    assert scores[0] < scores[1]
    single = PartialLabelRegressor("linear").fit(X, S)
    assert single.score(X, S) != single.score(X, S, sample_weight=np.arange(400.0))


def test_validation_rows_choose_the_epoch(data):
    X, y, S, _ = data
    learner = MLP(hidden=(8,), epochs=40, learning_rate=0.05)
    model = PartialLabelRegressor(learner, random_state=0).fit(X[:200], S[:200], validation=(X[200:], y[200:]))
    report = model.model_.report
    assert report.best_round == int(np.argmin(report.validation))
    assert report.rounds == 40
    stopped = PartialLabelRegressor(
        MLP(hidden=(8,), epochs=1000, learning_rate=0.05, validation_fraction=0.3, patience=5, monitor="evidence"),
        random_state=0,
    ).fit(X, S)
    assert stopped.n_iter_ < 1000


def test_noise_scale_is_about_right(data):
    X, _, S, _ = data
    assert PartialLabelRegressor("linear").fit(X, S).noise_scale_ == pytest.approx(0.08, rel=0.3)


def test_clone_and_nested_parameters():
    model = PartialLabelRegressor(learner=MLP(epochs=3), weighting=Progressive())
    model.set_params(weighting__beta2=7.0, learner__hidden=(3,))
    copied = clone(model)
    assert copied.get_params()["weighting__beta2"] == 7.0
    assert copied.learner.hidden == (3,)


def test_grid_search_by_the_label_free_score(data):
    X, _, S, _ = data
    search = GridSearchCV(
        PartialLabelRegressor("linear", Progressive()),
        {"weighting__beta2": [1e-3, 10.0], "loss": ["squared", "absolute"]},
        cv=3,
    ).fit(X, S)
    assert search.best_params_["weighting__beta2"] == 10.0


def test_pipeline_and_splitting(data):
    X, y, S, _ = data
    pipeline = make_pipeline(StandardScaler(), PartialLabelRegressor("linear"))
    assert cross_val_score(pipeline, X, S, cv=3).shape == (3,)
    X_train, X_test, S_train, _, _, y_test = train_test_split(X, S, y, random_state=0)
    assert isinstance(S_train, CandidateSets)
    assert pipeline.fit(X_train, S_train).score(X_test, y_test) > 0.97


def test_frames_give_names_and_the_same_model(data):
    X, _, S, _ = data
    names = ["a", "b", "c"]
    plain = PartialLabelRegressor("linear").fit(X, S).predict(X)
    for frame, target in [
        (pd.DataFrame(X, columns=names), pd.Series(S.to_lists())),
        (pl.DataFrame(X, schema=names), pl.Series(S.to_lists())),
    ]:
        model = PartialLabelRegressor("linear").fit(frame, target)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.predict(frame), plain)


def test_pickles_predict_alike_and_leave_the_data_behind(data):
    X, _, S, _ = data
    model = PartialLabelRegressor(MLP(hidden=(8,), epochs=5), random_state=0).fit(X, S)
    text = pickle.dumps(model)
    assert len(text) < X.nbytes + S.values.nbytes
    restored = pickle.loads(text)
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    with pytest.raises(errors.NotFittedError, match="before pickling"):
        restored.identify()
    model.identify()
    assert pickle.loads(pickle.dumps(model)).identify().index.shape == (400,)


def test_a_function_as_weighting(data):
    X, y, S, _ = data
    model = PartialLabelRegressor("linear", weighting=lambda prediction, value, loss: -loss / 0.01).fit(X, S)
    assert model.score(X, y) > 0.97


@pytest.mark.parametrize("learner", LEARNER_INSTANCES, ids=lambda learner: type(learner).__name__)
def test_callback_is_told_and_can_stop(data, learner):
    X, _, S, _ = data
    told = []
    PartialLabelRegressor(learner).fit(X, S, callback=lambda *progress: told.append(progress))
    assert told
    assert all(0 < done <= total and loss >= 0 for done, total, loss in told)

    def stop(*_):
        raise KeyboardInterrupt

    model = PartialLabelRegressor(learner)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, S, callback=stop)
    assert not hasattr(model, "model_")


def test_core_needs_no_torch():
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import plr\n"
        "assert not {'numba', 'lightgbm', 'matplotlib', 'ray'} & set(sys.modules)\n"
        "plr.PartialLabelRegressor('linear').fit([[0.0], [1.0], [2.0]], [[0.0], [1.0, 5.0], [2.0]])\n"
        "assert not {'lightgbm', 'matplotlib', 'ray'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_scores_candidates_given_as_texts():
    X, S = np.arange(6.0)[:, None], ["0|3", "1|9", "2", "3|1", "4|0", "5"]
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    assert model.score(X, S) == model.score(X, [[float(part) for part in text.split("|")] for text in S])


@pytest.mark.parametrize("kind", [lambda **share: MLP(epochs=3, **share), lambda **share: Boosting(trees=3, **share)])
def test_whole_groups_are_set_aside(kind, monkeypatch):
    seen = []
    take = rows_of_tasks.take_rows
    monkeypatch.setattr(rows_of_tasks, "take_rows", lambda task, rows: seen.append(rows) or take(task, rows))
    groups = np.repeat(np.arange(10), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    X = np.random.default_rng(0).normal(size=(len(groups), 2))
    PartialLabelRegressor(kind(validation_fraction=0.3), random_state=0).fit(X, X[:, 0], groups=groups)
    kept = seen[0]
    held = np.setdiff1d(np.arange(len(groups)), kept)
    assert not set(groups[kept]) & set(groups[held])
    assert 0.15 < len(held) / len(groups) < 0.45
