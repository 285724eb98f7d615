"""Columns of free texts become numbers when they are named, the same in every later table and from every front end."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plr import TableModel, load_model
from plr.columns.features import Features
from plr.errors import DataError, ParameterError

ROWS = 240


@pytest.fixture(scope="module")
def adverts():
    """Prices that depend on what the advert says; hardly two adverts are the same."""
    random = np.random.default_rng(0)
    kind = random.choice(["house", "flat", "villa"], ROWS)
    state = random.choice(["renovated", "ruined"], ROWS)
    size = random.uniform(20, 120, ROWS)
    price = 2 * size + 60 * (kind == "villa") - 60 * (state == "ruined") + random.normal(0, 3, ROWS)
    other = random.uniform(price.min(), price.max(), ROWS)
    number = random.integers(1000, size=ROWS)
    return pd.DataFrame(
        {
            "size": size,
            "advert": [f"{k} in street {n}, {s}" for k, n, s in zip(kind, number, state, strict=True)],
            "price": [f"{a:.1f}|{b:.1f}" for a, b in zip(price, other, strict=True)],
            "truth": price.round(1),
        }
    )


@pytest.fixture(scope="module")
def model(adverts):
    model = TableModel(learner="boosting", start="density", cv=2, random_state=0)
    return model.fit(adverts[:180], target="price", truth="truth", text="advert", intervals=False)


def test_texts_say_what_categories_cannot(adverts, model):
    without = TableModel(learner="boosting", start="density", cv=2, random_state=0)
    without.fit(adverts[:180], target="price", truth="truth", intervals=False)
    assert without.features.names == ("size",)
    assert model.features.names[:2] == ("size", "advert: text 1")
    assert model.evaluate(adverts[180:])["rmse"] < 0.5 * without.evaluate(adverts[180:])["rmse"]


def test_the_model_file_has_all_that_texts_need(adverts, model, tmp_path):
    model.save(tmp_path / "m.plr")
    back = load_model(tmp_path / "m.plr")
    assert back.features == model.features
    np.testing.assert_array_equal(back.predict(adverts), model.predict(adverts))


def test_texts_that_are_missing_or_new_are_no_mistake(adverts, model):
    new = {"size": [50.0] * 4, "advert": [None, "zzz", "RENOVATED VILLA", "villa, renovatéd"]}
    table = model.features.apply(pa.table(new), "new")[0]
    first = np.column_stack([table[name] for name in table.column_names[1:]])
    assert np.isnan(first[0]).all()
    assert (first[1] == 0.0).all()
    np.testing.assert_allclose(np.abs(first[2] - first[3]).max(), 0.0, atol=0.2)
    prediction = model.predict(new)
    assert prediction[2] > prediction[1]
    with pytest.raises(DataError, match="'advert' held texts in training and has the type list"):
        model.predict({"size": [50.0], "advert": [["a"]]})


def test_a_folder_in_batches_gives_the_same_features(adverts, tmp_path):
    (tmp_path / "rows").mkdir()
    table = adverts.assign(price=adverts["price"].str.split("|").map(lambda both: [*map(float, both)]))
    for part in range(3):
        table[part * 80 : part * 80 + 80].to_parquet(tmp_path / "rows" / f"{part}.parquet")
    assert pq.read_table(tmp_path / "rows").num_rows == ROWS
    asked = {"target": "price", "truth": "truth", "text": ["advert"], "intervals": False}
    batched = TableModel(learner="linear", random_state=0).fit(tmp_path / "rows", in_batches=True, **asked)
    whole = TableModel(learner="linear", random_state=0).fit(tmp_path / "rows", in_batches=False, **asked)
    assert batched.features.names == whole.features.names
    spread = np.std(whole.predict(adverts))
    np.testing.assert_allclose(batched.predict(adverts), whole.predict(adverts), atol=0.2 * spread)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("size", DataError, "'size' has the type double, not texts"),
        ("price", ParameterError, "named by target and by text"),
        ("advrt", ParameterError, "advrt"),
    ],
)
def test_what_is_no_text_is_refused(adverts, text, error, message):
    with pytest.raises(error, match=message):
        TableModel(learner="linear").fit(adverts, target="price", truth="truth", text=text)


def test_texts_without_anything_in_common_are_refused():
    table = {"code": [chr(0x4E00 + row) for row in range(40)], "y": [float(row) for row in range(40)]}
    with pytest.raises(DataError, match="'code' has no piece of text that stands in two rows"):
        TableModel(learner="linear").fit({**table, "x": table["y"]}, target="y", text="code")


@pytest.mark.parametrize(
    "change",
    [
        {"pieces": ["a", "a"]},
        {"pieces": []},
        {"frequency": "?"},
        {"frequency": ""},
        {"directions": "AAAA"},
        {"directions": "AADAfwAAwH8="},
    ],
)
def test_files_with_damaged_texts_are_refused(model, change):
    written = json.loads(json.dumps(model.features.to_dict()))
    assert Features.from_dict(written) == model.features
    written["prose"]["advert"] = {"pieces": ["a", "b"], "frequency": "AACAPwAAgD8=", "directions": "AACAPwAAgD8="}
    written["columns"][1]["features"] = ["advert: text 1"]
    assert Features.from_dict(written).names == ("size", "advert: text 1")
    written["prose"]["advert"] |= change
    with pytest.raises(DataError, match="cannot be read"):
        Features.from_dict(written)
    del written["prose"]
    with pytest.raises(DataError, match="cannot be read"):
        Features.from_dict(written)
