"""Answers as tables: what is in them, in whose kind of frame, by which keys and in which order."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plr import CandidateSets, PartialLabelRegressor
from plr.errors import NotFittedError

ROWS = 40


def prices():
    """Return features and a shuffled table with one line per candidate."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, ROWS)
    X = pd.DataFrame({"x": x}, index=[f"k{row}" for row in range(ROWS)])
    lines = pd.DataFrame(
        {
            "id": np.repeat(X.index, 2),
            "price": np.column_stack([3 * x, rng.uniform(0, 3, ROWS)]).ravel(),
            "shop": np.arange(2 * ROWS),
            "score": rng.uniform(0.1, 1.0, size=2 * ROWS),
        }
    )
    return X, lines.sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def model():
    X, lines = prices()
    S = CandidateSets.from_long(lines, "id", "price", "score", rows=X.index, record="shop")
    return PartialLabelRegressor(learner="linear", cv=2).fit(X, S)


def test_pandas_in_pandas_out_with_the_index_kept(model):
    X, lines = prices()
    found = model.identify()
    frame, long = found.to_frame(), found.to_frame(long=True)
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.equals(X.index)
    assert frame.columns.tolist() == ["value", "position", "record", "probability", "missing"]
    np.testing.assert_array_equal(frame["value"], found.value)
    assert long.index.equals(lines.index)
    assert long.columns.tolist() == ["id", "position", "value", "record", "prior", "probability", "chosen"]
    assert (long["value"] == lines["price"]).all()
    assert (long["id"] == lines["id"]).all()
    assert (long["record"] == lines["shop"].astype(str)).all()
    assert long[long["chosen"]].set_index("id")["value"].reindex(X.index).tolist() == found.value.tolist()
    assert long.groupby("id")["prior"].sum().to_numpy() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table], ids=["polars", "arrow"])
def test_long_tables_of_other_kinds(model, kind):
    X, lines = prices()
    table = kind(pa.table({name: pa.array(lines[name]) for name in lines}))
    S = CandidateSets.from_long(table, "id", "price")
    keys = list(dict.fromkeys(lines["id"]))
    found = model.identify(X.loc[keys], S)
    frame, long = (pa.table(each) for each in (found.to_frame(), found.to_frame(long=True)))
    assert type(found.to_frame()) is type(table)
    assert frame["id"].to_pylist() == keys
    assert long["id"].to_pylist() == lines["id"].tolist()
    assert long["value"].to_pylist() == lines["price"].tolist()
    assert long.column_names == ["id", "position", "value", "probability", "chosen"]


SETS = [[1.0, 2.0], [2.0], [0.5, 3.0]]
TEXTS = ["1|2", "2", "0.5|3"]


@pytest.mark.parametrize(
    ("S", "kind", "keys"),
    [
        (SETS, pa.Table, [0, 0, 1, 2, 2]),
        (np.array([[1.0, 2.0], [2.0, np.nan], [0.5, 3.0]]), pa.Table, [0, 0, 1, 2, 2]),
        (TEXTS, pa.Table, [0, 0, 1, 2, 2]),
        (pa.array(SETS), pa.Table, [0, 0, 1, 2, 2]),
        (pl.Series(SETS), pl.DataFrame, [0, 0, 1, 2, 2]),
        (pl.Series(TEXTS), pl.DataFrame, [0, 0, 1, 2, 2]),
        (pd.Series(SETS, index=[7, 8, 9]), pd.DataFrame, [7, 7, 8, 9, 9]),
        (pd.Series(TEXTS, index=["a", "b", "c"]), pd.DataFrame, ["a", "a", "b", "c", "c"]),
    ],
)
def test_one_line_a_candidate_whatever_came_in(model, S, kind, keys):
    long = model.identify(pd.DataFrame({"x": [0.3, 0.6, 0.9]}).to_numpy(), S).to_frame(long=True)
    assert isinstance(long, kind)
    rows = (
        long.index.tolist()
        if kind is pd.DataFrame
        else list(long["row"].to_pylist() if kind is pa.Table else long["row"])
    )
    assert rows == keys
    assert np.asarray(long["value"]).tolist() == [1.0, 2.0, 2.0, 0.5, 3.0]
    assert np.asarray(long["position"]).tolist() == [0, 1, 0, 0, 1]


def test_columns_name_their_candidates_and_features_the_rows(model):
    rows = pd.Index(["p", "q"], name="part")
    X, readings = pd.DataFrame({"x": [0.0, 1.0]}, index=rows), {"first": [0.0, np.nan], "second": [1.0, 3.0]}
    frame = model.identify(X, CandidateSets.from_columns(readings, ["first", "second"])).to_frame()
    # A dictionary of columns is no frame, so that the answer is Arrow's.
    assert frame["source"].to_pylist() == ["first", "second"]
    assert frame["position"].to_pylist() == [0, 1]
    frame = model.identify(X, SETS[:2]).to_frame()
    assert frame.index.equals(rows)
    assert pa.table(model.identify(X, SETS[:2])).column_names[0] == "part"


def test_rows_that_were_dropped_keep_their_numbers(model):
    S = CandidateSets.from_text(["1|2", None, "3|4"], empty="drop")
    assert model.identify(np.zeros((2, 1)), S).to_frame()["row"].to_pylist() == [0, 2]
    S = CandidateSets.from_text(pd.Series(["1|2", None, "3|4"], index=list("abc")), empty="drop")
    assert model.identify(np.zeros((2, 1)), S).to_frame().index.tolist() == ["a", "c"]


def test_what_sets_are_called_travels_with_them():
    X, lines = prices()
    S = CandidateSets.from_long(lines, "id", "price", rows=X.index)
    some = S[[3, 1]]
    assert some.origin.keys.tolist() == ["k3", "k1"]
    assert (S + some).origin.keys.tolist() == [*X.index, "k3", "k1"]
    assert pickle.loads(pickle.dumps(some)).origin.keys.tolist() == ["k3", "k1"]
    assert (S + CandidateSets.from_lists([[1.0]])).origin is None
    assert S.unique().origin.keys.equals(X.index)
    ids = CandidateSets.from_long(pl.DataFrame(lines), "id", "price")[::7].origin.keys
    assert ids.to_pylist() == list(dict.fromkeys(lines["id"]))[::7]


def test_others_read_it_by_the_arrow_protocol(model):
    found = model.identify()
    assert pa.table(found).column_names == ["row", "value", "position", "record", "probability", "missing"]
    assert pl.DataFrame(found)["value"].to_list() == found.value.tolist()


def test_a_pickled_model_has_answers_without_candidates(model):
    model.identify()
    found = pickle.loads(pickle.dumps(model)).identify()
    assert found.to_frame().column_names == ["row", "value", "position", "probability", "missing"]
    with pytest.raises(NotFittedError, match="not kept"):
        found.to_frame(long=True)


def test_html_is_small_and_escaped(model):
    S = CandidateSets.from_lists(pd.Series([[1.0, 2.0]] * 30, index=["<script>"] * 30), prior=[[0.25, 0.75]] * 30)
    html = S._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "1 (0.25), 2 (0.75)" in html
    assert "22 more rows" in html
    page = model.identify()._repr_html_()
    assert page.count("<tr>") == 1 + 8 + 1
    assert "k0" in page
    for each in (html, page):
        assert len(each) < 3000
        assert not re.search(r"src=|href=|<style|http", each)


def test_the_diagram_shows_the_parts(model):
    for each in (model, PartialLabelRegressor(learner="linear", weighting="posterior")):
        html = each._repr_html_()
        assert all(part in html for part in ("learner: Linear", "weighting: Posterior", "loss: Squared"))
    assert "nowhere" in PartialLabelRegressor(learner="nowhere")._repr_html_()
