"""A learned prior in a model file: it comes back as it was, and no file can bring a broken one."""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from plr import PartialLabelRegressor, load_model, save_model
from plr.errors import ModelFileError
from plr.learners import Boosting, Refit
from plr.learners.starts import DensityStart
from support.candidate_mechanisms import guesses, join, sources
from support.model_files import change_model, model_of, rebuild, refuses

pytestmark = [pytest.mark.usefixtures("small_forests"), pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")]
JOIN = join(80, missing=0.2)


def fitted(problem=JOIN, learner="linear", X=None, **options):
    model = PartialLabelRegressor(learner, start=DensityStart(models="neighbours"), random_state=0, **options)
    return model.fit(problem.X if X is None else X, problem.S, known=problem.known(30))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("prior") / "model.plr"
    model = fitted(one_to_one=True)
    assert model.prior_.agreement is not None
    assert model.prior_.missing is not None
    save_model(model, path)
    return path


FRAME = pd.DataFrame({"colour": np.where(JOIN.X[:, 0] > 0, "red", "blue"), "size": JOIN.X[:, 1]})
CASES = {
    "one to one": lambda: (fitted(one_to_one=True), JOIN.X, JOIN.S),
    "levels": lambda: (fitted(problem := sources(80)), problem.X, problem.S),
    "values alone": lambda: (fitted(problem := guesses(80), prior="learned"), problem.X, problem.S),
    "coefficients alone": lambda: (fitted(weighting="progressive"), JOIN.X, JOIN.S),
    "frame": lambda: (fitted(learner=Boosting(trees=5), X=FRAME), FRAME, JOIN.S),
    "rows": lambda: (fitted(learner=Refit(Ridge(), max_rounds=2)), JOIN.X, JOIN.S),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in ("rows", "levels") else ()) for name in CASES]
)
def test_it_comes_back(name, tmp_path):
    model, X, S = CASES[name]()
    save_model(model, tmp_path / "model.plr")
    loaded = load_model(tmp_path / "model.plr")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    for new, old in [(loaded.identify(X, S), model.identify(X, S)), (loaded.diagnosis_, model.diagnosis_)]:
        for field in dataclasses.fields(old):
            np.testing.assert_array_equal(getattr(new, field.name), getattr(old, field.name))
    assert str(loaded.prior_) == str(model.prior_)
    assert loaded.get_params()["one_to_one"] == model.one_to_one
    assert loaded.get_params()["prior"] == model.prior
    if model.prior_.agreement is not None:
        np.testing.assert_array_equal(loaded.identify().probabilities, model.identify().probabilities)
    save_model(loaded, tmp_path / "again.plr")
    # What skops writes is another archive every time.
    assert name == "rows" or (tmp_path / "again.plr").read_bytes() == (tmp_path / "model.plr").read_bytes()


def prior_of(model):
    return model["attributes"]["fields"]["prior_"]["fields"]


def set_field(*path):
    *places, value = path

    def change(model):
        part = prior_of(model)
        for place in places[:-1]:
            part = part[place]["fields"]
        part[places[-1]] = value

    return change


CHANGES = {
    "exponent": set_field("agreement", "exponent", -1.0),
    "noise": set_field("agreement", "noise", 0.0),
    "infinite noise": set_field("agreement", "noise", {"float": "inf"}),
    "spread": set_field("agreement", "spread", {"float": "nan"}),
    "width": set_field("agreement", "centre", "width", 0.0),
    "columns of rows": set_field("agreement", "features", "columns", "x"),
    "slope": set_field("missing", "slope", -1.0),
    "strength": set_field("missing", "spread", 0.0),
    "checked": set_field("checked", -1),
    "correlation": set_field("dependence", "correlation", 2.0),
    "held": set_field("held", {"dict": [["1", 1.5]]}),
    "held by number": set_field("held", {"dict": [[1, 0.5]]}),
    "range": set_field("columns", "numbers", {"dict": [["score", {"tuple": [1.0]}]]}),
    "gap": set_field("columns", "gaps", {"tuple": ["other"]}),
    "more columns": set_field("columns", "with_prior", True),
    "fewer columns": set_field("columns", "with_values", False),
    "not a truth": set_field("columns", "with_values", 1),
    "levels": set_field("columns", "levels", {"dict": [["score", {"tuple": []}]]}),
    "no columns": set_field("columns", None),
    "no dependence": set_field("dependence", None),
    "unknown field": set_field("code", "x"),
    "another kind": lambda model: prior_of(model).update(agreement=prior_of(model)["missing"]),
    "no prior but a list": lambda model: model["attributes"]["fields"].update(prior_=[]),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_changed_fields_are_refused(name, file, tmp_path):
    refuses(change_model(file, tmp_path / "changed.plr", CHANGES[name]))


@pytest.mark.parametrize("place", ["coefficients", "scales", "landmarks", "kernel"])
@pytest.mark.parametrize("change", ["shorter", "nan", "flat"])
def test_changed_arrays_are_refused(place, change, file, tmp_path):
    prior = prior_of(model_of(file))
    centre = prior["agreement"]["fields"]["centre"]["fields"]
    name = {
        "coefficients": prior["coefficients"],
        "scales": prior["columns"]["fields"]["scales"],
        "landmarks": centre["landmarks"],
        "kernel": centre["coefficients"],
    }[place]
    name = next(iter(name.values()))

    def in_members(members):
        array = members[name].copy()
        if change == "nan":
            array.reshape(-1)[0] = np.nan
        members[name] = array[1:] if change == "shorter" else array if change == "nan" else array[..., None]

    refuses(rebuild(file, tmp_path / "changed.plr", in_members))


def test_a_prior_of_other_columns_is_refused(file, tmp_path):
    model = fitted(X=JOIN.X[:, :2])
    save_model(model, tmp_path / "other.plr")
    other = prior_of(model_of(tmp_path / "other.plr"))["agreement"]["fields"]["features"]
    # Its arrays go by names that the first file has too, of other sizes or kinds.
    with pytest.raises(ModelFileError):
        load_model(
            change_model(
                file,
                tmp_path / "changed.plr",
                lambda content: prior_of(content)["agreement"]["fields"].update(features=copy.deepcopy(other)),
            )
        )
