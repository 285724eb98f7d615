"""Folders of Parquet files: what they hold, told before a row is read, and all rows in order, some at a time."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from plr.errors import DataError, DataNotFoundError
from plr.memory import _left_by_groups, available_memory, peak_memory
from plr.sources import folder as folders
from plr.sources.folder import Folder, open_source


def write(path, table, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table, path, **options)


def numbers(first, count):
    return pa.table({"x": np.arange(first, first + count, dtype=np.float64)})


@pytest.fixture
def three(tmp_path):
    write(tmp_path / "a.parquet", numbers(0, 250), row_group_size=100)
    write(tmp_path / "b.parquet", numbers(0, 0))
    write(tmp_path / "sub" / "c.pq", numbers(250, 150))
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden.parquet").write_text("no table")
    return Folder.open(tmp_path)


def test_all_rows_come_in_order_whatever_the_batches(three, monkeypatch):
    for rows in (7, 100, 10_000):
        monkeypatch.setattr(Folder, "batch_rows", rows)
        batches = list(three.batches())
        assert [batch.first for batch in batches] == np.cumsum([0, *(b.table.num_rows for b in batches)])[:-1].tolist()
        assert pa.concat_tables(batch.table for batch in batches)["x"].to_pylist() == list(range(400))


def test_it_tells_what_there_is_and_where(three):
    assert [(file.name, file.rows, file.first) for file in three.files] == [
        ("a.parquet", 250, 0),
        ("b.parquet", 0, 250),
        ("sub/c.pq", 150, 250),
    ]
    assert three.rows == 400
    assert three.place(249) == "data row 249 of a.parquet, counted from 0"
    assert three.place(250) == "data row 0 of sub/c.pq, counted from 0"


def test_sample_says_which_rows_it_took(three):
    table, rows = three.sample(120, seed=1)
    assert table.num_rows == 120
    assert table["x"].to_pylist() == rows.tolist()
    assert rows.max() - rows.min() > 120
    assert three.sample(120, seed=1)[0].equals(table)
    everything, rows = three.sample(400, seed=1)
    assert everything["x"].to_pylist() == rows.tolist() == list(range(400))


def test_wide_rows_come_in_smaller_batches(tmp_path):
    assert folders.BATCH_ROWS == 16_384
    write(tmp_path / "a.parquet", pa.table({f"x{number}": [0.0] for number in range(5_000)}))
    folder = Folder.open(tmp_path)
    assert folder.batch_rows * 5_000 * 8 <= 64 << 20


def test_numbers_of_different_types_become_the_wider(tmp_path):
    write(tmp_path / "a.parquet", pa.table({"x": pa.array([1, 2], pa.int32()), "t": ["a", "b"]}))
    write(tmp_path / "b.parquet", pa.table({"t": ["c"], "x": [0.5]}))
    folder = Folder.open(tmp_path)
    assert folder.schema.field("x").type == pa.float64()
    table = pa.concat_tables(batch.table for batch in folder.batches())
    assert table.to_pydict() == {"x": [1.0, 2.0, 0.5], "t": ["a", "b", "c"]}


def test_folders_names_are_columns(tmp_path):
    for year, city in ((2023, "Bonn"), (2024, "Rome")):
        write(tmp_path / f"year={year}" / f"city={city}" / "part.parquet", numbers(year, 2))
    table = pa.concat_tables(batch.table for batch in Folder.open(tmp_path).batches(["x", "year", "city"]))
    assert table.to_pydict() == {
        "x": [2023.0, 2024.0, 2024.0, 2025.0],
        "year": [2023, 2023, 2024, 2024],
        "city": ["Bonn", "Bonn", "Rome", "Rome"],
    }


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pa.table({"z": [1.0]}), "b.parquet lacks the column 'x', which a.parquet has"),
        (pa.table({"x": [1.0], "z": [1.0]}), "a.parquet lacks the column 'z', which .*b.parquet has"),
        (pa.table({"x": ["one"]}), "has the type string in .*b.parquet and double in a.parquet"),
    ],
    ids=["missing column", "additional column", "another type"],
)
def test_files_that_do_not_fit_together_are_refused(tmp_path, other, message):
    write(tmp_path / "a.parquet", numbers(0, 2))
    write(tmp_path / "b.parquet", other)
    with pytest.raises(DataError, match=message):
        Folder.open(tmp_path)


def test_folders_without_rows_are_refused(tmp_path):
    with pytest.raises(DataNotFoundError, match="There is no file or folder"):
        Folder.open(tmp_path / "none")
    with pytest.raises(DataNotFoundError, match="has no Parquet files"):
        Folder.open(tmp_path)
    (tmp_path / "t.csv").write_text("x\n1\n")
    with pytest.raises(DataNotFoundError, match=r"there are .csv files"):
        Folder.open(tmp_path)
    write(tmp_path / "a.parquet", numbers(0, 0))
    with pytest.raises(DataError, match="has no rows"):
        Folder.open(tmp_path)


def test_damaged_files_are_named(tmp_path, three):
    (tmp_path / "text.parquet").write_text("x\n1\n")
    with pytest.raises(DataError, match=r"text.parquet is named as a Parquet file but is none; it looks like text"):
        Folder.open(tmp_path)
    whole = (tmp_path / "sub" / "c.pq").read_bytes()
    (tmp_path / "text.parquet").write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"text.parquet is damaged, or cut short"):
        Folder.open(tmp_path)
    (tmp_path / "sub" / "c.pq").write_bytes(whole[:4] + bytes(40) + whole[44:])
    with pytest.raises(DataError, match=r"c.pq is damaged"):
        list(three.batches())


def test_change_while_it_is_read_is_noticed(tmp_path, three):
    write(tmp_path / "sub" / "c.pq", numbers(0, 10))
    with pytest.raises(DataError, match="changed since it was first looked at"):
        list(three.batches())


def test_identity_is_of_the_contents(tmp_path, three):
    (tmp_path / "d.parquet").write_bytes((tmp_path / "a.parquet").read_bytes())
    write(tmp_path / "e.parquet", numbers(1, 250), row_group_size=100)
    files = {file.name: file for file in Folder.open(tmp_path).files}
    assert files["d.parquet"].identity() == files["a.parquet"].identity() == three.files[0].identity()
    assert files["e.parquet"].identity() != files["a.parquet"].identity()


def test_files_too_large_for_memory_are_read_in_batches(tmp_path, monkeypatch):
    write(tmp_path / "a.parquet", numbers(0, 20_000), use_dictionary=False)
    assert isinstance(open_source(tmp_path), Folder)
    assert not isinstance(open_source(tmp_path / "a.parquet"), Folder)
    monkeypatch.setattr(folders, "available_memory", lambda: 500_000)
    found = open_source(tmp_path / "a.parquet")
    assert isinstance(found, Folder)
    assert found.rows == 20_000
    (tmp_path / "t.csv").write_text("x\n" + "1\n" * 300_000)
    assert not isinstance(open_source(tmp_path / "t.csv"), Folder)


def test_memory_is_told_where_the_system_tells(tmp_path):
    if peak_memory() is None:
        pytest.skip("this system does not tell")
    assert peak_memory() > 10 << 20
    assert available_memory() > 1 << 20


def test_limits_of_groups_count_without_what_was_only_read(tmp_path):
    told, root = tmp_path / "cgroup", tmp_path / "fs"
    inner = root / "outer" / "inner"
    inner.mkdir(parents=True)
    told.write_text("0::/outer/inner\n")
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("70\n")
    (inner.parent / "memory.max").write_text("1000\n")
    (inner.parent / "memory.current").write_text("400\n")
    (inner.parent / "memory.stat").write_text("anon 300\ninactive_file 100\n")
    assert list(_left_by_groups(told, root)) == [700]
    first = root / "memory" / "job"
    first.mkdir(parents=True)
    told.write_text("4:memory:/job\n0::/\n")
    (first / "memory.limit_in_bytes").write_text("500\n")
    (first / "memory.usage_in_bytes").write_text("200\n")
    assert list(_left_by_groups(told, root)) == [300]
