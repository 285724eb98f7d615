"""A model that is saved and loaded is the same model: predictions, probabilities, scores, parameters."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import plr
from plr import PartialLabelRegressor, load_model, make_candidates, save_model
from plr.errors import ModelFileError, ParameterError, PlrWarning
from plr.folds import make_folds
from plr.learners import LEARNERS, MLP, Boosting, Committee, Density, GaussianProcess, Refit, Task
from plr.learners.committee.search import EFFORTS, Search
from plr.learners.starts import STARTS, DensityStart
from plr.losses import LOSSES, Huber, Pointwise, Squared
from plr.persistence import check_savable, read_manifest
from plr.persistence.models import TRANSIENT, FittedAttributes
from plr.persistence.schema import KINDS, REGISTRIES, class_of, fields_of, kind_of, matches
from plr.weighting import WEIGHTINGS, Average, Posterior, Progressive, Rule
from support.model_files import rebuild

ROWS = 70
FAST = {
    "boosting": Boosting(trees=20, rows_per_leaf=5),
    "committee": Committee(effort="low"),
    "density": Density(models=["trees", "network", "neighbours"]),
    "gaussian_process": GaussianProcess(chains=2, rounds=3, features=30),
    "mlp": MLP(hidden=(8, 4), activation=("silu", "tanh"), epochs=5),
}


def rows(count, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(count, 3))
    labels = np.sin(X[:, 0]) + X[:, 1]
    return X, labels, make_candidates(labels, 2, random_state=seed)


def frame(count, seed=0):
    X, labels, S = rows(count, seed)
    table = pd.DataFrame(X, columns=["width", "height", "depth"])
    table.loc[::7, "depth"] = np.nan
    table["colour"] = np.array(["red", "green", "blau ü", None], dtype=object)[np.arange(count) % 4]
    table["grade"] = pd.Categorical(np.arange(count) % 3, categories=[2, 0, 1])
    return table, labels, S


def restored(model, path, **options):
    save_model(model, path)
    return load_model(path, **options)


def assert_same(model, loaded, X, S, labels):
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    before, after = model.identify(X, S), loaded.identify(X, S)
    for field in dataclasses.fields(before):
        np.testing.assert_array_equal(getattr(after, field.name), getattr(before, field.name))
    # A loaded model does not know its training rows, which score as such where they are all there.
    assert loaded.score(X[1:], S[1:]) == model.score(X[1:], S[1:])
    assert loaded.score(X, labels) == model.score(X, labels)
    if "RandomState" not in repr(model):
        assert repr(loaded) == repr(model)
    assert vars(loaded).keys() == vars(model).keys()
    np.testing.assert_array_equal(loaded.candidate_probabilities_, model.candidate_probabilities_)
    for field in dataclasses.fields(model.model_.report):
        np.testing.assert_array_equal(
            getattr(loaded.model_.report, field.name), getattr(model.model_.report, field.name)
        )


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_every_learner_comes_back(name, tmp_path):
    X, _, S = frame(ROWS)
    model = PartialLabelRegressor(FAST.get(name, name), random_state=3, n_jobs=1, start=None).fit(X, S)
    path = tmp_path / "model.plr"
    loaded = restored(model, path)
    fresh, labels, sets = frame(30, seed=1)
    fresh.loc[0, "colour"] = "never seen"
    fresh.loc[1, "width"] = np.nan
    assert_same(model, loaded, fresh, sets, labels)
    # What is saved again is the same file, and a pickle of it works as ever.
    save_model(loaded, tmp_path / "again.plr")
    assert (tmp_path / "again.plr").read_bytes() == path.read_bytes()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict(fresh), model.predict(fresh))


def test_members_of_a_committee_come_back(tmp_path):
    X, labels, S = rows(30)
    model = PartialLabelRegressor(effort="low", random_state=0).fit(X, S)
    loaded = restored(model, tmp_path / "model.plr")
    assert [member.name for member in loaded.model_.members] == [member.name for member in model.model_.members]
    assert_same(model, loaded, X, S, labels)
    with pytest.raises(ValueError, match="shares must be positive"):
        dataclasses.replace(model.model_, shares=-model.model_.shares)


def test_members_of_every_kind_come_back(tmp_path):
    X, _, S = rows(90)
    model = PartialLabelRegressor(effort="low", random_state=0).fit(X, S)
    random = np.random.default_rng(1)
    noisy = make_candidates(X[:, 0] + 2 * random.normal(size=90), 1, random_state=1)
    task = Task(X, noisy, Rule(Posterior(), Squared())).prepared()
    task = dataclasses.replace(task, density=DensityStart(models="trees").estimate(task, 3))
    found = Search(task, make_folds(task, 3), EFFORTS["normal"], 3, False, True).run()
    members = {candidate.member.kind: candidate.member for candidate in found}
    assert len(members) == 4
    shares = np.full(4, 0.25)
    model.model_ = dataclasses.replace(model.model_, members=tuple(members.values()), shares=shares)
    loaded = restored(model, tmp_path / "model.plr")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for member in members.values():
        wrong = (dataclasses.replace(member, columns=np.array([0])),)
        model.model_ = dataclasses.replace(model.model_, members=wrong, shares=np.ones(1))
        with pytest.raises(ModelFileError, match="other columns than it is given"):
            restored(model, tmp_path / "wrong.plr")


PARTS = {
    "estimated density": {"weighting": Posterior("laplace", false_labels="estimated", missing_truth="learned")},
    "examples of false labels": {"weighting": Posterior(false_labels=np.linspace(-3, 3, 50))},
    "missing truth": {"weighting": Posterior(missing_truth=0.1)},
    "progressive and huber": {"weighting": Progressive(0.5, 10.0), "loss": Huber(0.7)},
    "names": {"weighting": "identification", "loss": "absolute", "start": None},
    "start": {"start": DensityStart(models="neighbours"), "learner": FAST["boosting"]},
    "folds": {"cv": KFold(3, shuffle=True, random_state=1), "learner": Density(models="neighbours")},
    "pairs": {"cv": [(np.arange(35), np.arange(35, 70)), (np.arange(35, 70), np.arange(35))]},
    "random state": {"random_state": np.random.RandomState(4)},
    "no split": {"learner": Boosting(trees=3, rows_per_leaf=60)},
    "monotone and params": {"learner": Boosting(trees=5, monotone={"a": 1}, params={"max_depth": 2}), "named": True},
}


@pytest.mark.parametrize("name", sorted(PARTS))
def test_every_part_comes_back(name, tmp_path):
    X, labels, S = rows(ROWS)
    given = {"learner": "linear", "random_state": 0} | PARTS[name]
    if given.pop("named", False):
        X = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PartialLabelRegressor(**given).fit(X, S)
    loaded = restored(model, tmp_path / "model.plr")
    assert_same(model, loaded, X, S, labels)
    if name in ("estimated density", "pairs", "progressive and huber"):
        np.testing.assert_array_equal(clone(loaded).fit(X, S).predict(X), clone(model).fit(X, S).predict(X))


REGRESSORS = {
    "pipeline": make_pipeline(StandardScaler(), SVR()),
    "forest": RandomForestRegressor(4, random_state=0),
    "gradient boosting": GradientBoostingRegressor(n_estimators=4, random_state=0),
    "histogram boosting": HistGradientBoostingRegressor(max_iter=5),
    "neighbours": KNeighborsRegressor(),
    "gaussian process": GaussianProcessRegressor(),
    "lightgbm": LGBMRegressor(n_estimators=5, verbosity=-1, n_jobs=1),
    "two last fits": Refit(Ridge(), cv=2, last_fits=2),
}


@pytest.mark.parametrize("name", sorted(REGRESSORS))
def test_regressors_of_others_come_back(name, tmp_path):
    pytest.importorskip("skops")
    X, labels, S = rows(ROWS)
    learner = REGRESSORS[name]
    learner = learner if isinstance(learner, Refit) else Refit(learner, cv=2, max_rounds=2)
    model = PartialLabelRegressor(learner, random_state=0).fit(X, S)
    assert_same(model, restored(model, tmp_path / "model.plr"), X, S, labels)


def test_lightgbm_keeps_the_categories_of_a_frame(tmp_path):
    X, labels, S = rows(ROWS)
    X = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=pd.Categorical(np.arange(ROWS) % 3, [2, 0, 1]))
    learner = LGBMRegressor(n_estimators=8, min_child_samples=5, min_data_per_group=5, verbosity=-1, n_jobs=1)
    model = PartialLabelRegressor(learner, random_state=0, cv=2).fit(X, S)
    loaded = restored(model, tmp_path / "model.plr")
    assert_same(model, loaded, X, S, labels)
    assert list(loaded.model_.regressor.feature_names_in_) == ["a", "b", "c", "kind"]


def test_noise_of_each_row_comes_back(tmp_path):
    pytest.importorskip("skops")
    X, labels, S = rows(ROWS)
    model = PartialLabelRegressor(Ridge(), Posterior(scale="row"), random_state=0, cv=2).fit(X, S)
    loaded = restored(model, tmp_path / "model.plr")
    assert loaded.model_.row_scale is not None
    assert_same(model, loaded, X, S, labels)


def test_many_categories_come_back(tmp_path):
    # Each twice: texts that all differ would be taken for identifiers.
    X = pd.DataFrame({"code": [f"ü{number // 2}" for number in range(6000)], "x": np.arange(6000.0)})
    model = PartialLabelRegressor(Boosting(trees=2), random_state=0, n_jobs=1).fit(X, X["x"])
    loaded = restored(model, tmp_path / "model.plr")
    assert loaded.columns_ == model.columns_
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


class Middle(RegressorMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        self.middle_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.middle_)


def test_types_of_others_must_be_trusted_by_name(tmp_path):
    pytest.importorskip("skops")
    X, _, S = rows(20)
    path = tmp_path / "model.plr"
    save_model(PartialLabelRegressor(Middle(), cv=2, random_state=0).fit(X, S), path)
    name = f"{Middle.__module__}.Middle"
    with pytest.raises(ModelFileError, match=f"not trusted: {name}\\..*name them with trusted") as caught:
        load_model(path)
    assert caught.value.parameter == "trusted"
    assert load_model(path, trusted=[name]).predict(X).shape == (20,)
    with pytest.raises(ParameterError, match="trusted must be a sequence"):
        load_model(path, trusted=name)


def test_answers_for_training_rows_are_kept_or_left_out(tmp_path):
    X, _, S = rows(ROWS)
    start = DensityStart(models="neighbours")
    model = PartialLabelRegressor(FAST["gaussian_process"], start=start, cv=2, random_state=0).fit(X, S)
    known = model.identify()
    interval = model.predict_interval(X)
    loaded = restored(model, tmp_path / "with.plr")
    np.testing.assert_array_equal(loaded.identify().probabilities, known.probabilities)
    np.testing.assert_array_equal(loaded.start_weights_, model.start_weights_)
    np.testing.assert_array_equal(loaded.predict_interval(X), interval)
    save_model(model, tmp_path / "without.plr", training_rows=False)
    bare = load_model(tmp_path / "without.plr")
    np.testing.assert_array_equal(bare.predict(X), model.predict(X))
    assert bare.start_weights_ is None
    assert not hasattr(bare, "candidate_probabilities_")
    assert bare.model_.out_of_fold is None
    assert bare.model_.weights.size == 0
    with pytest.raises(NotFittedError, match="training rows"):
        bare.identify()


def compiled_score(prediction, value, loss):
    return -loss


REFUSED = {
    "weighting": ({"weighting": compiled_score}, "of its weighting: compiled_score is code"),
    "loss": ({"loss": Pointwise(lambda f, y: (f - y) ** 2, lambda f, y: 2 * (f - y))}, "of its loss: a function"),
    "density": ({"weighting": Posterior(false_labels=stats.norm(0, 2))}, "false_labels"),
    "linear trees": ({"learner": Boosting(trees=2, params={"linear_tree": True})}, "linear models in their leaves"),
    "set": ({"cv": {2, 3}}, "of its cv: it is a set"),
    "function": ({"weighting": Posterior(false_labels=stats.norm(0, 2).pdf)}, "false_labels: pdf is code"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_code_is_refused_when_saving(name, tmp_path):
    X, _, S = rows(20)
    given, message = REFUSED[name]
    model = PartialLabelRegressor(**{"learner": "linear"} | given).fit(X, S)
    with pytest.raises(ModelFileError, match=message):
        save_model(model, tmp_path / "model.plr")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_fitted_model_is_refused(tmp_path):
    X, _, S = rows(20)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        save_model(PartialLabelRegressor(), tmp_path / "model.plr")
    with pytest.raises(ParameterError, match="got Ridge"):
        save_model(Ridge(), tmp_path / "model.plr")
    model = PartialLabelRegressor("linear").fit(X, S)
    with pytest.raises(ParameterError, match=r"got TableModel; it is written by its own method: model\.save\(path\)"):
        save_model(plr.TableModel(model), tmp_path / "model.plr")
    with pytest.raises(ParameterError, match="extra must be a dictionary"):
        save_model(model, tmp_path / "model.plr", extra=[1])
    for bad in ({"x": float("nan")}, {"x": {1, 2}}):
        with pytest.raises(ModelFileError, match="extra must be made of texts"):
            save_model(model, tmp_path / "model.plr", extra=bad)
    for place in (tmp_path, tmp_path / "missing" / "model.plr"):
        with pytest.raises(ModelFileError, match="cannot be written: "):
            save_model(model, place)


def test_the_manifest_says_what_there_is(tmp_path):
    X, _, S = rows(20)
    path = tmp_path / "model.plr"
    extra = {"columns": ["ü", 'quote"'], "deep": {"a": [1.5, None, True]}}
    save_model(PartialLabelRegressor("linear").fit(X, S), path, extra=extra)
    manifest = read_manifest(path)
    assert manifest["extra"] == extra
    assert manifest["plr"] == plr.__version__
    assert manifest["version"] == 3
    assert {"linear", "encoding", "weighting posterior"} <= {*manifest["kinds"]}
    assert "numpy" in manifest["packages"]
    assert str(tmp_path) not in json.dumps(manifest)


def test_files_know_every_attribute_learner_weighting_loss_and_start():
    X, _, S = rows(20)
    model = PartialLabelRegressor("linear").fit(pd.DataFrame(X, columns=["a", "b", "c"]), S)
    parameters = set(model.get_params(deep=False))
    kept = {field.name for field in dataclasses.fields(FittedAttributes)}
    assert vars(model).keys() - parameters - set(TRANSIENT) == kept
    made = [*LEARNERS.values(), *WEIGHTINGS.values(), *LOSSES.values(), *STARTS.values()]
    assert all(kind_of(factory()) is not None for factory in made)


REGISTERED = [f"{axis} {name}" for axis, registry in REGISTRIES.items() for name in registry]


@pytest.mark.parametrize("kind", sorted([*KINDS, *REGISTERED]))
def test_every_kind_is_a_class_whose_fields_have_types_that_files_know(kind):
    found = class_of(kind)
    fields = fields_of(found)
    if fields is None:
        assert issubclass(found, BaseEstimator)
    else:
        assert [name for name, field in fields.items() if matches(object(), field.hint) and field.hint is not Any] == []


def test_a_weighting_of_ones_own_comes_back_where_its_module_is_imported(tmp_path, monkeypatch):
    class Plain(Average, name="plain"):
        """Registered while the test lasts."""

    monkeypatch.setitem(WEIGHTINGS, "plain", WEIGHTINGS.pop("plain"))
    X, labels, S = rows(20)
    model = PartialLabelRegressor("linear", "plain").fit(X, S)
    loaded = restored(model, tmp_path / "model.plr")
    assert isinstance(loaded.weighting_, Plain)
    assert_same(model, loaded, X, S, labels)
    monkeypatch.delitem(WEIGHTINGS, "plain")
    message = "holds the weighting 'plain', which is not known; import the module that defines it"
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(tmp_path / "model.plr")
    assert "damaged" not in str(caught.value)


def test_odd_categories_are_named(tmp_path):
    X, _, S = rows(20)
    X = pd.DataFrame({"age": pd.cut(X[:, 0], 3)})
    model = PartialLabelRegressor("linear").fit(X, S)
    with pytest.raises(ModelFileError, match="column age has categories of the type Interval"):
        save_model(model, tmp_path / "model.plr")


def test_formats_that_no_release_has_are_refused_in_words(tmp_path):
    X, _, S = rows(20)
    path = tmp_path / "model.plr"
    save_model(PartialLabelRegressor("linear").fit(X, S), path)
    older = rebuild(path, tmp_path / "older", lambda _: None, describe=lambda manifest: manifest.update(version=2))
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": "plr model", "version": 1}))
    for old, number in ((older, "2"), (tmp_path / "zip", "1 or 2")):
        with pytest.raises(ModelFileError, match=f"Format {number} was written by a development version.*fit again"):
            load_model(old)


KILLED = """
import os, signal
from plr import PartialLabelRegressor, save_model
model = PartialLabelRegressor("linear").fit([[0.0], [1.0], [2.0]], [[1.0, 9.0], [2.0], [3.0]])
save_model(model, "model.plr", extra={"number": 1})
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
save_model(model, "model.plr", extra={"number": 2})
"""


def test_a_crash_while_saving_leaves_the_old_file(tmp_path):
    source = str(Path(plr.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == -9
    assert read_manifest(tmp_path / "model.plr")["extra"] == {"number": 1}
    assert load_model(tmp_path / "model.plr").predict([[3.0]]).shape == (1,)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    X, _, S = rows(20)
    model = PartialLabelRegressor("linear").fit(X, S)
    path = tmp_path / "model.plr"
    save_model(model, path)
    before = path.read_bytes()
    with path.open("rb") as old:
        save_model(model, path, extra={"new": 1})
        # A reader of the old file is not disturbed: the new one has taken its name, not its place.
        assert old.read() == before
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        save_model(model, path, extra={"other": 1})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_only_what_lightgbm_documents_is_used(tmp_path):
    """A release of LightGBM's with other attributes inside: what is public is enough to save and to load."""
    X, _, S = rows(ROWS)
    model = PartialLabelRegressor(LGBMRegressor(n_estimators=5, verbosity=-1, n_jobs=1), "average").fit(X, S)
    fitted = model.model_.regressor

    class Public:
        __slots__ = ()

        def __getattr__(self, name):
            if name == "fitted_" or (name.startswith("_") and not name.startswith("__")):
                raise AttributeError(name)
            return getattr(fitted, name)

        def __sklearn_is_fitted__(self):
            return True

        def fit(self):
            raise NotImplementedError

        def predict(self, X):
            return fitted.predict(X)

    Public.__module__, Public.__qualname__ = LGBMRegressor.__module__, LGBMRegressor.__qualname__
    model.model_ = dataclasses.replace(
        model.model_, models=(dataclasses.replace(model.model_.models[0], regressor=Public()),)
    )
    loaded = restored(model, tmp_path / "model.plr")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.model_.regressor.n_features_in_ == 3
    assert not isinstance(loaded.model_.regressor, LGBMRegressor)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_saved_is_known_before_the_fit(name, tmp_path):
    given, message = REFUSED[name]
    with pytest.raises(ModelFileError, match="linear models in their leaves" if "leaves" in message else message):
        check_savable(PartialLabelRegressor(**{"learner": "linear"} | given))


class Lambda(Middle):
    def fit(self, X, y, sample_weight=None):
        self.transform_ = lambda row: row
        return super().fit(X, y)


def test_regressors_are_tried_before_the_fit(tmp_path):
    pytest.importorskip("skops")
    with pytest.raises(ModelFileError, match=r"learner\.regressor: Lambda holds something that skops cannot keep"):
        check_savable(PartialLabelRegressor(Lambda()))
    for good in (Middle(), SVR(), LGBMRegressor(verbosity=-1), make_pipeline(StandardScaler(), Ridge())):
        check_savable(PartialLabelRegressor(good))
    for name in LEARNERS:
        check_savable(PartialLabelRegressor(name))


def test_where_it_goes_is_tried_before_the_fit(tmp_path):
    model = PartialLabelRegressor("linear")
    check_savable(model, tmp_path / "model.plr")
    assert list(tmp_path.iterdir()) == []
    for place in (tmp_path, tmp_path / "missing" / "model.plr", tmp_path / ("x" * 300)):
        with pytest.raises(ModelFileError, match="cannot be written: "):
            check_savable(model, place)
    with pytest.raises(ModelFileError, match="it is not a file"):
        check_savable(model, "/dev/null")


@pytest.mark.slow
def test_files_beyond_two_gigabytes(tmp_path):
    X, _, S = rows(20)
    model = PartialLabelRegressor("linear").fit(X, S)
    model.candidate_probabilities_ = np.zeros(2**28 + 7)
    model.candidate_probabilities_[-1] = 3.0
    loaded = restored(model, tmp_path / "model.plr")
    assert (tmp_path / "model.plr").stat().st_size > 2**31
    assert loaded.candidate_probabilities_[-1] == 3.0
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_many_numbers_are_one_part(tmp_path):
    X, _, S = rows(20)
    model = PartialLabelRegressor("linear").fit(X, S)
    model.cv = [(tuple(range(400_000)), tuple(np.linspace(0, 1, 2000).tolist()))]
    assert restored(model, tmp_path / "model.plr").cv == model.cv


def test_a_mistake_of_our_own_is_not_called_damage(tmp_path, monkeypatch):
    X, _, S = rows(20)
    path = tmp_path / "model.plr"
    save_model(PartialLabelRegressor("linear").fit(X, S), path)

    def mistaken(*_):
        raise KeyError("ours")

    monkeypatch.setattr("plr.persistence.models.make_regressor", mistaken)
    with pytest.raises(KeyError, match="ours") as caught:
        load_model(path)
    assert "it is not damaged" in caught.value.__notes__[0]


def made_with(path, target, **packages):
    """Write a file anew as other versions of packages would have written it."""

    def tell(manifest):
        manifest["packages"].update({name.replace("_", "-"): version for name, version in packages.items()})

    return rebuild(path, target, lambda _: None, describe=tell)


def test_other_versions_are_told_apart_from_damage(tmp_path, monkeypatch, recwarn):
    pytest.importorskip("skops")
    X, _, S = rows(ROWS)
    path, own = tmp_path / "ridge.plr", tmp_path / "linear.plr"
    model = PartialLabelRegressor(Ridge(), cv=2, random_state=0).fit(X, S)
    save_model(model, path)
    save_model(PartialLabelRegressor("linear").fit(X, S), own)
    here = importlib.metadata.version("scikit-learn")
    older = made_with(path, tmp_path / "older", scikit_learn="0.24.2", numpy="1.9.0")
    load_model(path)
    load_model(made_with(own, tmp_path / "own", scikit_learn="0.24.2"))
    patched = made_with(path, tmp_path / "patch", scikit_learn=".".join([*here.split(".")[:2], "99"]))
    load_model(patched)
    assert not recwarn.list
    with pytest.warns(PlrWarning, match=rf"with scikit-learn 0\.24\.2, and {here} is installed: the regressor") as told:
        np.testing.assert_array_equal(load_model(older).predict(X), model.predict(X))
    assert len(told) == 1

    def outgrown(self, state):
        raise AttributeError("no such attribute any more")

    monkeypatch.setattr(Ridge, "__setstate__", outgrown)
    with pytest.raises(ModelFileError, match=rf"0\.24\.2, and {here} is .*no such attribute.*pip install") as caught:
        load_model(older)
    assert "damaged" not in str(caught.value)
    with pytest.raises(ModelFileError, match="or is damaged: skops cannot make"):
        load_model(path)


def test_files_of_another_plr_are_told_apart_from_damage(tmp_path):
    X, _, S = rows(20)
    path = tmp_path / "model.plr"
    save_model(PartialLabelRegressor("linear").fit(X, S), path)

    def add(members):
        content = json.loads(members["model"])
        content["attributes"]["fields"]["later_"] = 1
        members["model"] = json.dumps(content).encode()

    newer = rebuild(path, tmp_path / "newer", add, describe=lambda manifest: manifest.update(plr="7.1.0"))
    with pytest.raises(ModelFileError, match=r"written by plr 7\.1\.0, and plr .* cannot read it: the fields of"):
        load_model(newer)
