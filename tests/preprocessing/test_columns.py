"""Columns of frames as numbers and categories."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from plr.errors import FeatureError, ParameterError
from plr.preprocessing.features import column_place, learn_columns

DATA = {"size": [1.5, 2.5, 3.5, 4.5], "colour": ["red", "blue", None, "red"]}
FRAMES = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


@FRAMES
def test_categories_are_numbered_in_sorted_order_and_missing_ones_are_nan(frame):
    columns = learn_columns(frame(DATA))
    assert columns.names == ("size", "colour")
    assert columns.categorical == (1,)
    assert columns.categories[1] == ("blue", "red")
    assert_array_equal(columns.encode(frame(DATA)), np.column_stack([DATA["size"], [1, 0, np.nan, 1]]))


@FRAMES
def test_numbers_do_not_depend_on_the_order_of_rows(frame):
    backwards = {name: entries[::-1] for name, entries in DATA.items()}
    assert learn_columns(frame(backwards)) == learn_columns(frame(DATA))


@FRAMES
def test_new_categories_are_missing(frame):
    columns = learn_columns(frame(DATA))
    assert_array_equal(columns.encode(frame({"size": [0.0], "colour": ["green"]})), [[0.0, np.nan]])


@pytest.mark.parametrize(
    "X",
    [
        np.ones((3, 2)),
        [[1.0], [2.0]],
        pd.DataFrame({"a": [1, 2], "b": [True, False]}),
        pd.DataFrame({"a": [1, None], "b": [1.5, None]}, dtype=object),
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([True, None], dtype="boolean")}),
        pl.DataFrame({"a": [1, None], "b": [0.5, None]}),
    ],
    ids=["array", "lists", "numbers and truth values", "objects", "nullable", "polars"],
)
def test_numbers_alone_have_no_categories(X):
    assert learn_columns(X) is None


def test_gaps_of_every_kind_are_missing():
    frame = pd.DataFrame(
        {
            "kind": ["a", None, np.nan, pd.NA],
            "count": pd.array([1, None, 3, 4], dtype="Int64"),
            "flag": pd.array([True, False, None, True], dtype="boolean"),
        }
    )
    encoded = learn_columns(frame).encode(frame)
    assert_array_equal(encoded, [[0, 1, 1], [np.nan, np.nan, 0], [np.nan, 3, np.nan], [np.nan, 4, 1]])


def test_a_pandas_categorical_states_its_order_even_of_numbers():
    sizes = pd.Categorical(["large", "small"], categories=["small", "medium", "large"])
    codes = pd.Categorical([30, 10], categories=[30, 20, 10])
    frame = pd.DataFrame({"size": sizes, "code": codes})
    columns = learn_columns(frame)
    assert columns.categories == {0: ("small", "medium", "large"), 1: (30, 20, 10)}
    assert_array_equal(columns.encode(frame), [[2, 0], [0, 2]])


def test_categories_of_several_types():
    frame = pd.DataFrame({"mixed": ["b", 2, 1, "a", None]}, dtype=object)
    assert_array_equal(learn_columns(frame).encode(frame)[:, 0], [3, 1, 0, 2, np.nan])


@pytest.mark.parametrize(
    "column",
    [
        pd.to_datetime(["2020-01-01", "2021-01-01"]),
        pd.to_datetime(["2020-01-01", "2021-01-01"]).tz_localize("UTC"),
        pd.to_timedelta([1, 2], unit="D"),
        [datetime.date(2020, 1, 1), None],
    ],
    ids=["datetime", "with zone", "duration", "date objects"],
)
def test_dates_are_refused(column):
    with pytest.raises(FeatureError, match="Column when holds dates or times; turn them into numbers"):
        learn_columns(pd.DataFrame({"when": column}))


def test_dates_in_polars_are_refused():
    with pytest.raises(FeatureError, match="Column when holds dates or times"):
        learn_columns(pl.DataFrame({"when": [datetime.date(2020, 1, 1)]}))


@FRAMES
def test_lists_are_refused(frame):
    with pytest.raises(FeatureError, match=r"Column words holds a .* in row 0"):
        learn_columns(frame({"words": [["a"], ["b", "c"]]}))


def test_a_model_of_a_frame_needs_a_frame():
    with pytest.raises(FeatureError, match="fitted on a frame with the columns size, colour"):
        learn_columns(pd.DataFrame(DATA)).encode(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (["big"], "Column size held numbers in training and does not now"),
        ([np.inf], "Column size is infinite in row 0"),
    ],
)
def test_numbers_that_are_none_any_more(size, message):
    with pytest.raises(FeatureError, match=message):
        learn_columns(pd.DataFrame(DATA)).encode(pd.DataFrame({"size": size, "colour": ["red"]}))


def test_place_of_a_column():
    assert column_place("monotone", "b", ("a", "b"), 2) == 1
    assert column_place("monotone", np.int64(1), (), 2) == 1


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        ("b", (), "monotone names the column 'b', but X has no names"),
        ("colum", ("column",), "Unknown column in monotone 'colum'; did you mean 'column'"),
        (2, ("a", "b"), "by number from 0 to 1, got 2"),
        (-1, (), "by number from 0 to 1, got -1"),
        (True, (), "by number from 0 to 1, got True"),
        (1.0, (), "by number from 0 to 1, got 1.0"),
    ],
)
def test_no_such_column(column, names, message):
    with pytest.raises(ParameterError, match=message):
        column_place("monotone", column, names, 2)


def test_decimals_are_numbers():
    frame = pd.DataFrame({"price": [Decimal("1.50"), None, Decimal("2.25")], "kind": ["a", "b", "a"]})
    columns = learn_columns(frame)
    assert columns.categorical == (1,)
    assert np.array_equal(columns.encode(frame)[:, 0], [1.5, np.nan, 2.25], equal_nan=True)
