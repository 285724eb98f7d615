"""Columns of a table become features without help, the same way in every later table, and it is told how."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

from plr import PartialLabelRegressor
from plr.columns.features import Features, learn_features
from plr.errors import DataError

DAYS = [datetime.date(2022, 1, 1) + datetime.timedelta(days=31 * i) for i in range(30)]


def kinds(**columns):
    return {column.name: (column.kind, column.form) for column in learn_features(pa.table(columns)).columns}


@pytest.mark.parametrize(
    ("cells", "kind", "form"),
    [
        ([1, 2, None], "number", ""),
        ([1.5, 2.5, 2.5], "number", ""),
        ([True, False, None], "boolean", ""),
        (["red", "blue", "red"], "category", ""),
        (["1,234", "2,345,678.5", "7"], "number", "thousands"),
        (["1,5", "2,25", "7"], "number", "decimal comma"),
        (["1", "2", "-3e4"], "number", "plain"),
        ([*map(str, range(20)), "n.a."], "number", "plain"),
        (["1", "2", "x"], "category", ""),
        (["12 kg", "13 kg", "12 kg"], "category", ""),
        (["31.12.2024", "01.02.2024", None], "date", "%d.%m.%Y"),
        (["12/31/2024", "01/02/2024", None], "date", "%m/%d/%Y"),
        (["01/02/2024", "03/04/2024", None], "left out", ""),
        (["2022-01-14T00:00:00.000", "2022-01-15T00:00:00.000", None], "date", "%Y-%m-%dT%H:%M:%S"),
        (["2022-01-14T00:00:00.000Z", "2022-01-15T10:00:00+02:00", None], "date", "%Y-%m-%dT%H:%M:%S"),
        (["2022-01-14 12:30:00.5", "2022-01-15 12:30:00", None], "date", "%Y-%m-%d %H:%M:%S"),
        (["2022-01-14 12:30Z", "2022-01-15 12:45Z", None], "date", "%Y-%m-%d %H:%M"),
        (["14 Jan 2022", "5 Feb 2022", None], "date", "%d %b %Y"),
        (["14 Jan 2022 men", "5 Feb 2022", None], "category", ""),
        (["00123", "00124", "10000"], "category", ""),
        (["0.5", "00.5", "0"], "number", "plain"),
        ([datetime.time(8), datetime.time(9), None], "clock", ""),
        ([[1, 2], [3], [4]], "left out", ""),
        ([{"a": 1}, {"a": 2}, None], "left out", ""),
        ([b"a", b"b", b"c"], "left out", ""),
        (["same", "same", "same"], "left out", ""),
        ([None, None, None], "left out", ""),
        ([f"name {i}" for i in range(30)], "left out", ""),
    ],
)
def test_what_a_column_is(cells, kind, form):
    assert kinds(a=cells, other=range(len(cells)))["a"] == (kind, form)


def test_row_numbers_are_left_out_by_name_only():
    found = kinds(index=range(5), year=range(2000, 2005))
    assert found == {"index": ("left out", ""), "year": ("number", "")}


@pytest.mark.parametrize("name", ["id", "ID", "patient_id", "meterId", "nr", "key", "order no"])
def test_identifiers_are_left_out_by_name_where_all_differ(name):
    different = [7 * i % 101 for i in range(30)]
    assert kinds(**{name: different, "other": different})[name][0] == "left out"
    assert kinds(**{name: [str(10**20 + i) for i in different], "other": different})[name][0] == "left out"
    assert kinds(**{name: [i % 9 for i in range(30)], "other": different})[name][0] == "number"


@pytest.mark.parametrize("name", ["width", "humid", "casino", "turkey", "grid", "piano"])
def test_other_names_are_no_identifiers(name):
    different = [7 * i % 101 for i in range(30)]
    assert kinds(**{name: different, "other": different})[name][0] == "number"


def test_a_column_with_a_role_is_no_hint():
    features = learn_features(pa.table({"weight_a": [1.0, 2.0, 4.0]}))
    new = pa.table({"weight_b": [1.0]})
    with pytest.raises(DataError, match="its 'weight_b' may be 'weight_a'"):
        features.apply(new, "t.csv")
    with pytest.raises(DataError, match="that the model was trained on\\."):
        features.apply(new, "t.csv", roles=["weight_b"])


def test_dates_become_numbers_that_vary():
    table = pa.table({"d": DAYS, "t": [datetime.datetime(2022, 1, 3, i % 24) for i in range(30)]})
    features = learn_features(table)
    assert features.names == ("d: days", "d: day of year", "d: weekday", "t: days")
    made, _ = features.apply(table, "t.csv")
    assert made["d: days"][0].as_py() == 18993.0
    assert made["d: day of year"].to_pylist()[:2] == [1.0, 32.0]
    assert made["d: weekday"][2].as_py() == DAYS[2].weekday()


def test_names_of_parts_never_clash():
    features = learn_features(pa.table({"d": DAYS, "d: days": range(30)}))
    assert len(set(features.names)) == len(features.names)
    back = Features.from_dict(json.loads(json.dumps(features.to_dict())))
    table, _ = back.apply(pa.table({"d": DAYS, "d: days": range(30)}), "t.csv")
    assert table["d: days"][5].as_py() == 5.0
    assert table["d: days_"][0].as_py() == 18993.0


@pytest.fixture
def features():
    table = pa.table(
        {"n": [1.0, 2.0, 4.0], "c": ["1", "b", "1"], "t": [True, False, True], "d": DAYS[:3], "k": [7, 7, 7]}
    )
    return learn_features(table)


def test_new_tables_are_read_as_the_first(features):
    new = pa.table(
        {
            "d": ["2022-01-01", "soon", None],
            "extra": [1, 2, 3],
            "t": ["yes", "FALSE", None],
            "c": [1, 2, None],
            "n": ["1.5", "?", None],
        }
    )
    made, notes = features.apply(new, "new.csv")
    assert made.column_names == list(features.names)
    assert made["c"].to_pylist() == ["1", "2", None]
    np.testing.assert_array_equal(made["t"].to_numpy(), [1, 0, np.nan])
    np.testing.assert_array_equal(made["n"].to_numpy(), [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(made["d: days"].to_numpy(), [18993, np.nan, np.nan])
    assert len(notes) == 2
    assert "'?' is no number and counts as missing" in " ".join(notes)


def test_empty_cells_only(features):
    new = pa.table({name: pa.nulls(2) for name in "nctd"})
    made, _ = features.apply(new, "new.csv")
    assert all(np.isnan(made[name].to_numpy()).all() for name in features.names if name != "c")
    assert made["c"].null_count == 2


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("n", ["a", "b"], "'n' held numbers in training and holds texts such as 'a' now"),
        ("n", [1.0, np.inf], "'n' is infinite in data row 1"),
        ("t", ["maybe", "no"], "'t' held true and false in training and holds texts such as 'maybe' now"),
        ("d", [1.5, 2.5], "'d' held dates in training and has the type double now"),
    ],
)
def test_what_cannot_be_read_is_named(features, column, cells, message):
    new = {"n": [1.0, 2.0], "c": ["a", "b"], "t": [True, False], "d": DAYS[:2], column: cells}
    with pytest.raises(DataError, match=message):
        features.apply(pa.table(new), "new.csv")


def test_missing_columns_are_named_with_the_nearest(features):
    with pytest.raises(DataError, match=r"lacks the columns 'n', 't', 'd' that .*trained on; its 'N' may be 'n'"):
        features.apply(pa.table({"N": [1.0], "c": ["a"]}), "new.csv")


@pytest.mark.parametrize("written", [None, {}, {"columns": [{"name": "a"}]}, {"columns": 3}])
def test_nonsense_in_a_model_file_is_refused(written):
    with pytest.raises(DataError, match="cannot be read"):
        Features.from_dict(written)


def test_a_kind_that_is_none_is_refused(features):
    written = features.to_dict()
    written["columns"][0]["kind"] = "code"
    with pytest.raises(DataError, match="cannot be read"):
        Features.from_dict(written)


def test_regressors_take_arrow_tables():
    random = np.random.default_rng(0)
    x = random.uniform(size=60)
    colours = random.choice(["red", "blue"], 60).tolist()
    table = pa.table({"x": x, "colour": colours})
    y = x + np.array([colour == "red" for colour in colours])
    model = PartialLabelRegressor("linear").fit(table, y)
    assert list(model.feature_names_in_) == ["x", "colour"]
    new = pa.table({"x": [0.5, 0.5, None], "colour": ["red", "blue", "green"]})
    np.testing.assert_allclose(model.predict(new)[:2], [1.5, 0.5], atol=1e-6)
    assert np.isfinite(model.predict(new)).all()
