"""What intervals are made of in a model file: it comes back as it was, and no file can bring a broken one."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from plr import PartialLabelRegressor, load_model, make_candidates, save_model
from plr.learners import Boosting
from support.model_files import change_model, model_of, rebuild, refuses


def fan(rows=300):
    """Noise that grows with the first feature, so that widths differ by row."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(rows, 2))
    y = 3.0 * X[:, 1] + 0.4 * np.exp(1.2 * X[:, 0]) * random.normal(size=rows)
    return X, y, make_candidates(y, 2, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    X, y, S = fan()
    known = np.where(np.arange(300) < 40, y, np.nan)
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S, known=known)
    assert model.calibrate().widths is not None
    assert model.calibration_.tolerance is not None
    return X, S, model


@pytest.fixture(scope="module")
def file(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("intervals") / "model.plr"
    save_model(fitted[2], path)
    return path


def check_same(loaded, model, X, S):
    for method in ("adaptive", "constant", "guaranteed"):
        expected = model.predict_interval(X, 0.9, method)
        np.testing.assert_array_equal(loaded.predict_interval(X, 0.9, method), expected)
    for one, other in zip(loaded.predict_set(X), model.predict_set(X), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(loaded.identify(X, S).probabilities, model.identify(X, S).probabilities)
    assert loaded.calibration_.assumes == model.calibration_.assumes


def test_it_comes_back(fitted, file, tmp_path):
    X, S, model = fitted
    loaded = load_model(file)
    check_same(loaded, model, X, S)
    for field in dataclasses.fields(model.calibration_.density):
        one, other = (getattr(each.calibration_.density, field.name) for each in (loaded, model))
        np.testing.assert_array_equal(one, other)
    save_model(loaded, tmp_path / "again.plr")
    assert (tmp_path / "again.plr").read_bytes() == file.read_bytes()


def test_frames_with_categories_come_back(tmp_path):
    X, _, S = fan()
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
    model = PartialLabelRegressor(Boosting(trees=20, rows_per_leaf=5), random_state=0).fit(frame, S)
    model.calibrate()
    save_model(model, tmp_path / "model.plr")
    check_same(load_model(tmp_path / "model.plr"), model, frame, S)


def calibration_of(model):
    return model["attributes"]["fields"]["calibration_"]["fields"]


def set_field(*path):
    *places, value = path

    def change(model):
        part = calibration_of(model)
        for place in places[:-1]:
            part = part[place]["fields"]
        part[places[-1]] = value

    return change


CHANGES = {
    "rows": set_field("rows", {"float": "nan"}),
    "assumes": set_field("assumes", 3),
    "no constant": set_field("constant", None),
    "density": set_field("density", None),
    "another kind": lambda model: calibration_of(model).update(density=calibration_of(model)["sets"]),
    "range of labels": set_field("density", "low", 1e9),
    "infinite range": set_field("density", "high", {"float": "inf"}),
    "share of missing truths": set_field("density", "missing", 1.0),
    "floor": set_field("density", "floor", -0.1),
    "least width": set_field("widths", "least", 0.0),
    "power": set_field("widths", "power", -1.0),
    "level": set_field("widths", "level", {"float": "nan"}),
    "trees": set_field("widths", "trees", "trees"),
    "another model in place of trees": lambda model: calibration_of(model)["widths"]["fields"].update(
        trees=model["attributes"]["fields"]["model_"]
    ),
    "trees of more columns than there are features": set_field("widths", "features", None),
    "features": set_field("widths", "features", "x"),
    "unknown field": set_field("code", "x"),
    "not a calibration": lambda model: model["attributes"]["fields"].update(calibration_=[]),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_changed_fields_are_refused(name, file, tmp_path):
    refuses(change_model(file, tmp_path / "changed.plr", CHANGES[name]))


ARRAYS = {
    "ends": ("adaptive", "lower"),
    "shares": ("constant", "covered"),
    "steps": ("density", "edges"),
    "shares of steps": ("density", "shares"),
}


@pytest.mark.parametrize("name", sorted(ARRAYS))
@pytest.mark.parametrize("change", ["shorter", "nan", "flat"])
def test_changed_arrays_are_refused(name, change, file, tmp_path):
    part, field = ARRAYS[name]
    array = next(iter(calibration_of(model_of(file))[part]["fields"][field].values()))

    def in_members(members):
        changed = members[array].copy()
        if change == "nan":
            changed[0] = np.nan
        members[array] = changed[1:] if change == "shorter" else changed if change == "nan" else changed[None]

    refuses(rebuild(file, tmp_path / "changed.plr", in_members))


@pytest.mark.parametrize(("part", "field"), [("adaptive", "upper"), ("density", "edges")])
def test_ends_that_are_not_in_order_are_refused(part, field, file, tmp_path):
    array = next(iter(calibration_of(model_of(file))[part]["fields"][field].values()))

    def in_members(members):
        members[array] = -1e3 - members[array]

    refuses(rebuild(file, tmp_path / "changed.plr", in_members))


def test_intervals_of_other_columns_are_refused(fitted, file, tmp_path):
    X, S, _ = fitted
    other = PartialLabelRegressor("linear", random_state=0).fit(np.column_stack([X, X[:, 0]]), S)
    other.calibrate()
    save_model(other, tmp_path / "other.plr")
    encoding = calibration_of(model_of(tmp_path / "other.plr"))["widths"]["fields"]["features"]

    def change(model):
        calibration_of(model)["widths"]["fields"]["features"] = encoding

    # Its arrays go by names that the first file has too, of other sizes or kinds.
    refuses(change_model(file, tmp_path / "changed.plr", change))
