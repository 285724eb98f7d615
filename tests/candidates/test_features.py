"""Features and records of candidates: through every constructor, and what is refused."""

import copy
import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plr.candidates import CandidateSets
from plr.candidates.features import as_column, check_records, record_names
from plr.errors import CandidateError, LengthError, ParameterError, PlrError
from support.refusals import refused

NAN = np.nan
VALUES, SCORE, SOURCE = [[1.0, 2.0], [3.0]], [[0.9, 0.1], [0.5]], [["shop", None], ["web"]]
RECORD = [[7, 8], [7]]
PADDED = {
    "array": [[1.0, 2.0], [3.0, NAN]],
    "features": {"score": [[0.9, 0.1], [0.5, 77.0]], "source": [["shop", None], ["web", "x"]]},
    "record": [[7, 8], [7, 9]],
}
WIDE = {
    "a": [1.0, 3.0],
    "b": [2.0, NAN],
    "score of a": [0.9, 0.5],
    "score of b": [0.1, 77.0],
    "source of a": ["shop", "web"],
    "source of b": [None, "x"],
    "record of a": [7, 7],
    "record of b": [8, 9],
}
LONG = {
    "row": ["r", "s", "r"],
    "value": [1.0, 3.0, 2.0],
    "score": [0.9, 0.5, 0.1],
    "source": ["shop", "web", None],
    "record": [7, 7, 8],
}


def of_columns(frame=dict):
    features = {"score": ["score of a", "score of b"], "source": ["source of a", "source of b"]}
    return CandidateSets.from_columns(frame(WIDE), ["a", "b"], features=features, record=["record of a", "record of b"])


def of_long(frame=dict):
    return CandidateSets.from_long(frame(LONG), "row", "value", features=["score", "source"], record="record")


MADE = {
    "flat": lambda: CandidateSets(
        [1.0, 2.0, 3.0],
        [0, 2, 3],
        features={"score": [0.9, 0.1, 0.5], "source": ["shop", None, "web"]},
        record=[7, 8, 7],
    ),
    "lists": lambda: CandidateSets.from_lists(VALUES, features={"score": SCORE, "source": SOURCE}, record=RECORD),
    "padded": lambda: CandidateSets.from_padded(**PADDED),
    "dict of columns": of_columns,
    "pandas columns": lambda: of_columns(pd.DataFrame),
    "Polars columns": lambda: of_columns(pl.DataFrame),
    "Arrow columns": lambda: of_columns(pa.table),
    "dict of lines": of_long,
    "pandas lines": lambda: of_long(pd.DataFrame),
    "Polars lines": lambda: of_long(pl.DataFrame),
    "Arrow lines": lambda: of_long(pa.table),
    "Arrow": lambda: CandidateSets.from_arrow(
        pa.array(VALUES), features={"score": pa.array(SCORE), "source": pa.array(SOURCE)}, record=pa.array(RECORD)
    ),
    "Polars": lambda: CandidateSets.from_arrow(
        pl.Series(VALUES), features={"score": pl.Series(SCORE), "source": pl.Series(SOURCE)}, record=pl.Series(RECORD)
    ),
    "pandas": lambda: CandidateSets.from_arrow(
        pd.Series(VALUES), features={"score": pd.Series(SCORE), "source": pd.Series(SOURCE)}, record=pd.Series(RECORD)
    ),
}


@pytest.mark.parametrize("kind", MADE)
def test_every_constructor(kind):
    S = MADE[kind]()
    assert S.to_lists() == VALUES
    assert S.features["score"].tolist() == [0.9, 0.1, 0.5]
    assert S.features["source"].tolist() == ["shop", "", "web"]
    assert S.record.tolist() == ["7", "8", "7"]
    with pytest.raises(ValueError, match="read-only"):
        S.features["score"][0] = 5
    with pytest.raises(TypeError):
        S.features["score"] = [1.0, 2.0, 3.0]
    assert repr(S).endswith("features score, source, records)")


def test_labels():
    S = CandidateSets.from_labels(
        [1.0, NAN, 2.0], empty="drop", features={"score": [0.1, 0.2, 0.3]}, record=["a", "b", "c"]
    )
    assert S.features["score"].tolist() == [0.1, 0.3]
    assert S.record.tolist() == ["a", "c"]
    assert S.kept.tolist() == [0, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: CandidateSets.from_lists(
            [[1.0, 2.0], None, [3.0]],
            features={"score": [[0.9, 0.1], None, [0.5]]},
            record=[["a", "b"], [], ["c"]],
            empty="drop",
        ),
        lambda: CandidateSets.from_padded(
            [[1.0, 2.0], [NAN, NAN], [3.0, NAN]],
            features={"score": [[0.9, 0.1], [4.0, 4.0], [0.5, 4.0]]},
            record=[["a", "b"], ["x", "x"], ["c", "x"]],
            empty="drop",
        ),
        lambda: CandidateSets.from_arrow(
            pa.array([[1.0, 2.0], None, [3.0]]),
            features={"score": pa.array([[0.9, 0.1], None, [0.5]])},
            record=pa.array([["a", "b"], [], ["c"]]),
            empty="drop",
        ),
        lambda: CandidateSets.from_long(
            {"i": [2, 0, 0], "v": [3.0, 1.0, 2.0], "score": [0.5, 0.9, 0.1], "r": ["c", "a", "b"]},
            "i",
            "v",
            rows=[0, 1, 2],
            features=["score"],
            record="r",
            empty="drop",
        ),
    ],
)
def test_rows_that_are_dropped(make):
    S = make()
    assert (S.to_lists(), S.kept.tolist()) == (VALUES, [0, 2])
    assert S.features["score"].tolist() == [0.9, 0.1, 0.5]
    assert S.record.tolist() == ["a", "b", "c"]


def test_parts_of_the_sets_keep_what_belongs_to_them():
    S = MADE["lists"]()
    for part in (S[[1, 0]], S[::-1], S[np.array([False, True])] + S[:1]):
        assert part.to_lists() == [[3.0], [1.0, 2.0]]
        assert part.features["score"].tolist() == [0.5, 0.9, 0.1]
        assert part.features["source"].tolist() == ["web", "shop", ""]
        assert part.record.tolist() == ["7", "7", "8"]
    for same in (pickle.loads(pickle.dumps(S)), copy.deepcopy(S), S.with_prior(S.prior_or_uniform), S[...], S[:]):
        assert same == S
        assert same.features["source"].tolist() == ["shop", "", "web"]
        assert same.record.tolist() == ["7", "8", "7"]
    merged = CandidateSets.from_lists([[2, 1, 2]], features={"score": [[0.1, 0.2, 0.3]]}, record=[["a", "b", "c"]])
    assert merged.unique().features["score"].tolist() == [0.1, 0.2]
    assert merged.unique().record.tolist() == ["a", "b"]
    assert CandidateSets.from_lists([[1.0], [2.0]]) != S
    assert CandidateSets.from_lists(VALUES) == S


def test_a_column_without_a_value_beside_texts():
    parts = [CandidateSets.from_lists([[1.0]], features={"source": [[source]]}) for source in ("shop", None)]
    assert (parts[0] + parts[1]).features["source"].tolist() == ["shop", ""]
    with refused(CandidateError, "holds numbers in some of the candidate sets, texts in others"):
        parts[0] + CandidateSets.from_lists([[1.0]], features={"source": [[1.0]]})


@pytest.mark.parametrize("other", [{}, {"features": {"score": [[1.0]]}}, {"record": [["a"]]}])
def test_sets_of_different_columns_are_not_put_together(other):
    S = CandidateSets.from_lists([[1.0]], features={"score": [[1.0]]}, record=[["a"]])
    with refused(CandidateError, "and others have not; give"):
        S + CandidateSets.from_lists([[1.0]], **other)


def test_long_tables_and_back():
    S = CandidateSets.from_lists(VALUES, SCORE, features={"score": SCORE, "source": SOURCE}, record=RECORD)
    table = S.to_long()
    assert table.column_names == ["row", "value", "prior", "record", "score", "source"]
    again = CandidateSets.from_long(table, "row", "value", "prior", features=["score", "source"], record="record")
    assert again == S
    assert again.record.tolist() == S.record.tolist()
    assert {name: column.tolist() for name, column in again.features.items()} == {
        name: column.tolist() for name, column in S.features.items()
    }
    with refused(CandidateError, {"column": "prior"}):
        CandidateSets.from_lists([[1.0]], features={"prior": [[1.0]]}).to_long()


MIDNIGHT = dt.datetime(1970, 1, 2)
ZONE = dt.timezone(dt.timedelta(hours=12))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, None, 2.5], [1, NAN, 2.5]),
        ([True, None, np.float32(0.5), Decimal("2.5")], [1, NAN, 0.5, 2.5]),
        (pd.Series([1, None], dtype="Int64"), [1, NAN]),
        (pl.Series([1, None]), [1, NAN]),
        (pa.array([1, None]), [1, NAN]),
        (pa.array([Decimal("1.5"), None]), [1.5, NAN]),
        (np.ma.masked_array([1.0, 2.0], [False, True]), [1, NAN]),
        ([None, None], [NAN, NAN]),
        ([dt.date(1970, 1, 3), None], [2, NAN]),
        ([MIDNIGHT + dt.timedelta(hours=12), MIDNIGHT.replace(tzinfo=ZONE)], [1.5, 0.5]),
        (np.array(["1970-01-02", "NaT"], dtype="datetime64[D]"), [1, NAN]),
        (pd.Series(pd.to_datetime(["1970-01-02", None])), [1, NAN]),
        (pd.Series(pd.to_datetime(["1970-01-02 12:00", None])).dt.tz_localize("UTC"), [1.5, NAN]),
        (pl.Series([dt.date(1970, 1, 2), None]), [1, NAN]),
        (pa.array([dt.date(1970, 1, 2), None]), [1, NAN]),
        ([np.datetime64("1970-01-02"), None, np.datetime64("NaT"), dt.date(1970, 1, 3)], [1, NAN, NAN, 2]),
        ([np.datetime64("1970-01-02T12:00:00.000000001")], [1.5]),
        ([dt.timedelta(hours=12), None], [0.5, NAN]),
        ([np.timedelta64(12, "h"), None, np.timedelta64("NaT")], [0.5, NAN, NAN]),
        (pl.Series([dt.timedelta(hours=12), None]), [0.5, NAN]),
        (["shop", None, NAN], ["shop", "", ""]),
        (pd.Series(["shop", None], dtype="category"), ["shop", ""]),
        (pd.Series(["shop", None], dtype="string"), ["shop", ""]),
        (pl.Series(["shop", None], dtype=pl.Categorical), ["shop", ""]),
        (pa.array(["shop", None]).dictionary_encode(), ["shop", ""]),
        ([1, "shop"], ["1", "shop"]),
        ([b"caf\xc3\xa9", None], ["café", ""]),
        (np.array([b"shop", b"web"]), ["shop", "web"]),
        ([MIDNIGHT, "never"], ["1970-01-02 00:00:00", "never"]),
    ],
)
def test_kinds_of_columns(given, expected):
    np.testing.assert_array_equal(as_column(given), expected)


def test_dates_in_tables():
    days = [dt.date(1970, 1, 2), dt.date(1970, 1, 3)]
    for frame in (dict, pd.DataFrame, pl.DataFrame, pa.table):
        long = frame({"i": [1, 0], "v": [1.0, 2.0], "day": days})
        S = CandidateSets.from_long(long, "i", "v", rows=[0, 1], features=["day"])
        assert S.features["day"].tolist() == [2, 1]
        wide = frame({"a": [1.0, 2.0], "b": [3.0, 4.0], "day": days, "other": days})
        S = CandidateSets.from_columns(wide, ["a", "b"], features={"day": ["day", "other"]})
        assert S.features["day"].tolist() == [1, 1, 2, 2]


def test_names_of_records():
    large = 2**60 + 1
    for given in ([large, 7.0, "B00", None], np.array([large, 7, 8], dtype=object), np.array([large, 7])):
        assert record_names(given).tolist()[:2] == [str(large), "7"]
    assert record_names(pd.Series([7.0, NAN])).tolist() == ["7", ""]
    assert record_names(pl.Series([large, 7])).tolist() == [str(large), "7"]
    assert record_names([np.float32(7), pd.NA]).tolist() == ["7", ""]
    for padded in (["B1 ", " 7", b"x"], np.array(["B1 ", " 7", "x"]), pl.Series(["B1 ", "\t7", "x"])):
        assert record_names(padded).tolist() == ["B1", "7", "x"]


def test_lists_of_numpy_dates():
    days = [np.array(["1970-01-02", "1970-01-03"], dtype="datetime64[D]"), [np.datetime64("NaT")]]
    S = CandidateSets.from_lists(VALUES, features={"day": days})
    np.testing.assert_array_equal(S.features["day"], [1, 2, NAN])


def test_a_record_twice_in_a_row():
    """It may be one of several prices of a product; one_to_one alone refuses it."""
    S = CandidateSets.from_lists([[1.0], [1.0, 2.0, 3.0]], record=[["a"], ["b", None, "b"]])
    with refused(CandidateError, {"row": 1, "value": "b"}):
        check_records(S.record, S.offsets)
    assert check_records(S.record[:2], np.array([0, 1, 2])).tolist() == [0, 1]


def lists(**options):
    return CandidateSets.from_lists(VALUES, **options)


@pytest.mark.parametrize(
    ("make", "error", "expected"),
    [
        (lambda: lists(features={"a": [[1.0], [1.0]]}), LengthError, {"row": 0}),
        (lambda: lists(features={"a": [[1.0, 2.0]]}), LengthError, "has 1 rows, and the candidates 2"),
        (lambda: lists(features={"a": ["xy", "z"]}), CandidateError, "must have one list per row; row 0 has 'xy'"),
        (lambda: lists(features={"a": [[1.0, np.inf], [1.0]]}), CandidateError, {"row": 0, "column": "a"}),
        (lambda: lists(features={"a": [["x" * 2000, "y"], ["z"]]}), CandidateError, "2,000 characters"),
        (lambda: lists(features={3: SCORE}), ParameterError, {"parameter": "features", "value": 3}),
        (lambda: lists(features=["s"]), ParameterError, {"parameter": "features", "value": ["s"]}),
        (lambda: lists(features=pd.DataFrame({"s": [1.0, 2.0, 3.0]})), ParameterError, "must be a dict"),
        (lambda: CandidateSets([1, 2], [0, 2], features=["s"]), ParameterError, "must be a dict"),
        (lambda: lists(features={"a": [[b"\xff", b"a"], [b"b"]]}), CandidateError, "no text in UTF-8"),
        (lambda: lists(record=[["a"], ["b"]]), LengthError, {"row": 0}),
        (lambda: CandidateSets([1, 2], [0, 2], features={"a": [1.0]}), LengthError, r"shape \(1,\), and there are 2"),
        (lambda: CandidateSets([1, 2], [0, 2], record=[[1, 2]]), LengthError, "give one entry each"),
        (lambda: CandidateSets.from_padded([[1.0, 2.0]], features={"a": [[1.0]]}), LengthError, "one per column"),
        (lambda: CandidateSets.from_labels([1.0, 2.0], features={"a": [1.0]}), LengthError, r"give \(2,\)"),
        (
            lambda: CandidateSets.from_long(LONG, "row", "value", features="score"),
            ParameterError,
            "list of column names",
        ),
        (lambda: CandidateSets.from_long(LONG, "row", "value", features=["scor"]), PlrError, "score"),
        (
            lambda: CandidateSets.from_long(LONG | {"score": [1.0] * 4}, "row", "value", features=["score"]),
            LengthError,
            r"shape \(4,\), and there are 3",
        ),
        (
            lambda: CandidateSets.from_long(LONG | {"score": [1, np.inf, 2]}, "row", "value", features=["score"]),
            CandidateError,
            {"row": "s"},
        ),
        (
            lambda: CandidateSets.from_columns(WIDE, ["a", "b"], features={"score": "score of a"}),
            ParameterError,
            "one column for each of",
        ),
        (
            lambda: CandidateSets.from_columns(WIDE | {"c": [1.0]}, ["a", "b"], features={"score": ["a", "c"]}),
            LengthError,
            "Column 'c' has shape",
        ),
    ],
)
def test_refusals(make, error, expected):
    with refused(error, expected):
        make()


@pytest.mark.parametrize(("score", "counted"), [([[1], [1, 2]], "1 such row"), ([[1], [1]], "2 such rows")])
def test_rows_with_too_few_entries_are_counted(score, counted):
    with pytest.raises(LengthError, match=rf"has 1 entries in row 0, .* \({counted}\)\."):
        CandidateSets.from_lists([[1, 2], [3, 4]], features={"score": score})
