"""Encoding looks at the training rows alone; splits are disjoint and repeatable; any table can be a data set."""

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from plr.errors import DataError, DataNotFoundError, ParameterError
from plr.paper.datasets import Dataset, encode, load, load_file, split


def dataset(columns, categorical=(), **options):
    table = pa.table(columns)
    return Dataset("toy", table, np.zeros(table.num_rows), categorical, **options)


@pytest.mark.parametrize("name", ["airfoil", "power-plant", "auto-mpg"])
def test_scaling_is_fit_on_training_rows_only(name):
    data = load(name)
    train, _, _ = split(len(data), seed=3)
    matrix = encode(data, train)
    numeric = [place for place, column in enumerate(data.feature_names) if "=" not in column]
    seen = matrix[train][:, numeric]
    if data.scaling == "min-max":
        np.testing.assert_allclose([seen.min(0), seen.max(0)], [np.zeros(len(numeric)), np.ones(len(numeric))])
    else:
        np.testing.assert_allclose(seen.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(seen.std(0), 1)
    assert np.abs(matrix[:, numeric].mean(0) - seen.mean(0)).max() > 1e-6


def test_unseen_rows_do_not_move_the_scaling():
    before = encode(dataset({"a": [1.0, 3.0, 5.0]}), [0, 1])
    after = encode(dataset({"a": [1.0, 3.0, 1e9]}), [0, 1])
    np.testing.assert_array_equal(before[:2], after[:2])
    np.testing.assert_array_equal(before[:, 0], [-1, 1, 3])


def test_one_hot_has_every_category_sorted_whatever_the_training_rows():
    data = dataset({"a": ["z", "b", None, "z"], "n": [1.0, 2.0, 3.0, 4.0]}, ("a",))
    np.testing.assert_array_equal(encode(data, [0, 3])[:, :2], [[0, 1], [1, 0], [0, 0], [0, 1]])
    assert data.feature_names == ["a=b", "a=z", "n"]


@pytest.mark.parametrize("scaling", ["standard", "min-max"])
def test_constant_column_becomes_zero(scaling):
    # The mean of three 0.1 is not 0.1, which must not blow up into a column of noise.
    data = dataset({"a": [0.1, 0.1, 0.1, 7.0]})
    np.testing.assert_array_equal(encode(data, [0, 1, 2], scaling=scaling), np.zeros((4, 1)))


def test_empty_cells_take_the_training_mean():
    data = dataset({"a": [1.0, 3.0, None, 100.0]})
    np.testing.assert_array_equal(encode(data, [0, 1, 2], scaling="none")[:, 0], [1, 3, 2, 100])
    assert np.isnan(data.X[2, 0])
    np.testing.assert_array_equal(encode(dataset({"a": [None, 3.0]}), [0]), np.zeros((2, 1)))


def test_encode_refuses_what_it_cannot_do():
    with pytest.raises(ParameterError, match="did you mean 'min-max'"):
        encode(dataset({"a": [1.0]}), [0], scaling="minmax")
    with pytest.raises(ParameterError, match="at least one training row"):
        encode(dataset({"a": [1.0]}), [])


@pytest.mark.parametrize("n", [5, 9, 10, 392, 1503])
def test_split_is_a_partition(n):
    parts = split(n, seed=1)
    assert [len(part) for part in parts] == [n - 2 * (n // 5), n // 5, n // 5]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    for part, again, other in zip(parts, split(n, seed=1), split(n, seed=2), strict=True):
        np.testing.assert_array_equal(part, again)
        assert n < 20 or not np.array_equal(part, other)


def test_split_refuses_too_few_rows():
    with pytest.raises(ParameterError, match="at least 5"):
        split(4, seed=0)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".jsonl"])
def test_file_of_the_users_own(tmp_path, suffix):
    table = pa.table({"city": ["Ulm", "Bonn"], "size": [1, None], "price": [2.5, 3.5], "new": [True, False]})
    path = tmp_path / f"homes{suffix}"
    if suffix == ".csv":
        path.write_text("city,size,price,new\nUlm,1,2.5,true\nBonn,,3.5,false\n")
    elif suffix == ".jsonl":
        path.write_text(
            '{"city": "Ulm", "size": 1, "price": 2.5, "new": true}\n{"city": "Bonn", "price": 3.5, "new": false}\n'
        )
    else:
        write = {".parquet": pyarrow.parquet.write_table, ".feather": pyarrow.feather.write_feather}[suffix]
        write(table, path)
    data = load_file(path, "price")
    assert (data.name, data.categorical, data.info) == ("homes", ("city", "new"), None)
    assert data.target.tolist() == [2.5, 3.5]
    np.testing.assert_array_equal(data.X[:, :2], [[0, 1], [1, 0]])


def test_dictionary_columns_are_categorical(tmp_path):
    table = pa.table({"kind": pa.array(["a", "b", "a"]).dictionary_encode(), "y": [1, 2, 3]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    data = load_file(tmp_path / "t.parquet", "y")
    assert data.categorical == ("kind",)
    np.testing.assert_array_equal(encode(data, [0]), [[1, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("content", "target", "error", "message"),
    [
        ("a,y\n1,2\n", "z", ParameterError, "Unknown column"),
        ("y\n2\n", "y", DataError, "no column besides"),
        ("a,y\n1,\n2,3\n", "y", DataError, "row 0"),
        ("a,y\n1,x\n", "y", DataError, r"t\.csv: the target 'y' must be numbers"),
        ("a,y\n,1\n,2\n", "y", DataError, r"'a' of .*t\.csv is empty"),
        ("a,a,y\n1,2,3\n", "y", DataError, "2 columns named 'a'"),
        ("a,y\n", "y", DataError, "no rows"),
        ("a,y\n1,2,3\n", "y", DataError, "cannot be read"),
        ("", "y", DataError, "is empty"),
    ],
)
def test_bad_files_are_named(tmp_path, content, target, error, message):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(error, match=message):
        load_file(path, target)


def test_file_that_is_not_there_or_of_no_known_kind(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"no\.csv"):
        load_file(tmp_path / "no.csv", "y")
    with pytest.raises(ParameterError, match=r"known endings: \.csv"):
        load_file(tmp_path / "t.xls", "y")
