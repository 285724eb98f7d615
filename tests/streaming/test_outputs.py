"""Rows written some at a time: all there at the end, and nothing half-written before."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from plr.errors import DataError, DataNotFoundError, ParameterError
from plr.sources.folder import Folder
from plr.streaming.outputs import Mirror, Piece, is_folder_output, made_of, open_output, write_pieces
from support.tables import read_table

MADE = {"verb": "double", "model": "m", "options": {"factor": 2}}


@pytest.fixture
def folder(tmp_path):
    for name, first, count in (("a", 0, 40_000), ("sub/b", 40_000, 0), ("sub/c", 40_000, 100)):
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        x = np.arange(first, first + count, dtype=np.float64)
        lists = pa.array([[value, value + 0.5] for value in x], pa.list_(pa.float64()))
        texts = pa.array([f"t{int(value) % 7}" for value in x], pa.string()).dictionary_encode()
        pyarrow.parquet.write_table(pa.table({"x": x, "y": lists, "t": texts}), path)
    return Folder.open(tmp_path / "in")


def double(folder, output, fail_at=None):
    """Write all rows with their doubles, or stop at one of them."""

    def make(batch):
        if fail_at is not None and batch.first + batch.table.num_rows > fail_at:
            raise KeyboardInterrupt
        twice = 2 * batch.table["x"].to_numpy()
        return Piece(batch.table.append_column("twice", [twice]), {"rows": batch.table.num_rows})

    schema = folder.schema.append(pa.field("twice", pa.float64()))
    return write_pieces(folder, made_of(folder, make), schema, output)


def files_below(path):
    return sorted(found.relative_to(path).as_posix() for found in path.rglob("*") if found.is_file())


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv", "jsonl"])
def test_one_file_has_all_rows(folder, tmp_path, ending):
    assert double(folder, open_output(tmp_path / f"out.{ending}", folder, MADE, None)) == (0, {"rows": 40_100})
    table = read_table(tmp_path / f"out.{ending}")
    assert table["twice"].to_pylist() == [2.0 * number for number in range(40_100)]
    assert table["y"][7].as_py() in ([7.0, 7.5], "7|7.5")
    assert table["t"][7].as_py() == "t0"
    assert files_below(tmp_path) == sorted([f"out.{ending}", *(f"in/{file.name}" for file in folder.files)])


def test_folder_has_the_same_files(folder, tmp_path):
    assert double(folder, Mirror(tmp_path / "out", folder, MADE)) == (0, {"rows": 40_100})
    assert files_below(tmp_path / "out") == ["a.parquet", "sub/b.parquet", "sub/c.parquet"]
    result = Folder.open(tmp_path / "out")
    assert [file.rows for file in result.files] == [40_000, 0, 100]
    everything = pa.concat_tables(batch.table for batch in result.batches())
    assert everything["twice"].to_pylist() == [2.0 * number for number in range(40_100)]


def test_row_groups_have_a_good_size(tmp_path):
    (tmp_path / "in").mkdir()
    table = pa.table({"x": np.zeros(300_000)})
    pyarrow.parquet.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=1_000)
    folder = Folder.open(tmp_path / "in")
    double(folder, open_output(tmp_path / "out.parquet", folder, MADE, None))
    described = pyarrow.parquet.read_metadata(tmp_path / "out.parquet")
    sizes = [described.row_group(number).num_rows for number in range(described.num_row_groups)]
    assert sum(sizes) == 300_000
    assert all(65_536 <= size <= 131_072 for size in sizes[:-1])


def test_interrupted_folder_goes_on_where_it_stopped(folder, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        double(folder, Mirror(tmp_path / "out", folder, MADE), fail_at=40_050)
    assert files_below(tmp_path / "out") == ["a.parquet", "sub/b.parquet"]
    first = (tmp_path / "out" / "a.parquet").stat().st_ino
    assert double(folder, Mirror(tmp_path / "out", folder, MADE)) == (2, {"rows": 40_100})
    assert (tmp_path / "out" / "a.parquet").stat().st_ino == first
    assert Folder.open(tmp_path / "out").rows == 40_100


@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out"])
def test_nothing_is_left_of_what_was_interrupted_early(folder, tmp_path, out):
    with pytest.raises(KeyboardInterrupt):
        double(folder, open_output(tmp_path / out, folder, MADE, None), fail_at=20_000)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_file_that_was_there_stays_until_the_new_one_is_complete(folder, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        double(folder, open_output(tmp_path / "out.csv", folder, MADE, None), fail_at=20_000)
    assert (tmp_path / "out.csv").read_text() == "old"


def test_what_a_killed_process_left_behind_is_removed(folder, tmp_path):
    (tmp_path / "out" / "sub").mkdir(parents=True)
    (tmp_path / "out" / "sub" / ".c.parquet.0123456789ab.part").write_bytes(b"half")
    (tmp_path / ".out.parquet.0123456789ab.part").write_bytes(b"half")
    double(folder, Mirror(tmp_path / "out", folder, MADE))
    double(folder, open_output(tmp_path / "out.parquet", folder, MADE, None))
    assert not [name for name in files_below(tmp_path) if name.endswith(".part")]


def test_two_at_once_do_not_write_into_one_folder(folder, tmp_path):
    pytest.importorskip("fcntl")
    one = Mirror(tmp_path / "out", folder, MADE)
    one.schema = folder.schema
    one.begin(folder.files[0])
    try:
        with pytest.raises(ParameterError, match="Another process is writing"):
            double(folder, Mirror(tmp_path / "out", folder, MADE))
    finally:
        one.abandon()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "another"}, "was made by another model"),
        ({"verb": "triple"}, "was made by another command"),
        ({"options": {"factor": 3}}, "was made with other options"),
        ({"plr": "0.0.1"}, "was made by another version of plr"),
    ],
    ids=["model", "command", "options", "version"],
)
def test_folder_that_something_else_made_is_refused(folder, tmp_path, change, message):
    double(folder, Mirror(tmp_path / "out", folder, MADE))
    with pytest.raises(ParameterError, match=message):
        Mirror(tmp_path / "out", folder, {**MADE, **change})


def test_folder_of_other_rows_is_refused(folder, tmp_path):
    double(folder, Mirror(tmp_path / "out", folder, MADE))
    changed = pyarrow.parquet.read_table(tmp_path / "in" / "sub" / "c.parquet").slice(0, 50)
    pyarrow.parquet.write_table(changed, tmp_path / "in" / "sub" / "c.parquet")
    with pytest.raises(ParameterError, match="was made from other rows"):
        Mirror(tmp_path / "out", Folder.open(tmp_path / "in"), MADE)
    (tmp_path / "in" / "sub" / "c.parquet").unlink()
    with pytest.raises(ParameterError, match=r"it holds sub/c.parquet, for which the input has no file now"):
        Mirror(tmp_path / "out", Folder.open(tmp_path / "in"), MADE)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ("in", ParameterError, "is in the folder that is read"),
        ("in/sub/out.csv", ParameterError, "is in the folder that is read"),
        (".", ParameterError, "is not empty: it holds full/notes.txt, which this command did not make"),
        ("full", ParameterError, "is not empty: it holds notes.txt, which this command did not make"),
        ("full/notes.txt", ParameterError, "Cannot write .txt files"),
        ("full/file", ParameterError, "is a file; name a folder"),
        ("none/out", DataNotFoundError, "There is no folder"),
        ("none/out.parquet", DataError, "cannot be written: No such file"),
    ],
)
def test_places_that_will_not_do(folder, tmp_path, out, error, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("")
    if out == "full/file":
        (tmp_path / "full" / "file").write_text("")
    with pytest.raises(error, match=message):
        double(folder, open_output(tmp_path / out, folder, MADE, None))


def test_endings_tell_files_from_folders(tmp_path):
    assert is_folder_output(tmp_path / "run.2")
    assert not is_folder_output(tmp_path / "run.pq")
    (tmp_path / "run.pq").mkdir()
    assert is_folder_output(tmp_path / "run.pq")


def test_columns_of_folders_names_are_not_repeated(tmp_path):
    for year in (2023, 2024):
        path = tmp_path / "in" / f"year={year}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pyarrow.parquet.write_table(pa.table({"x": [float(year)]}), path)
    folder = Folder.open(tmp_path / "in")
    double(folder, Mirror(tmp_path / "out", folder, MADE))
    double(folder, open_output(tmp_path / "out.parquet", folder, MADE, None))
    stored = pyarrow.parquet.ParquetFile(tmp_path / "out" / "year=2024" / "part.parquet")
    assert stored.schema_arrow.names == ["x", "twice"]
    assert Folder.open(tmp_path / "out").schema.names == ["x", "twice", "year"]
    assert read_table(tmp_path / "out.parquet")["year"].to_pylist() == [2023, 2024]
