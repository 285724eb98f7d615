"""Damaged Feather, Arrow and Parquet files are refused in one line that names the file; nothing crashes."""

import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from plr import CandidateSets, PartialLabelRegressor, errors
from plr.cli import main
from plr.sources.folder import Folder
from plr.sources.source import in_arrow
from support.tables import read_table

ROWS = 30


def table():
    rows = range(ROWS)
    return pa.table(
        {
            "x": np.arange(ROWS) * 1.5,
            "colour": [["red", "blü", None][row % 3] for row in rows],
            "kind": pa.array([["u", "v"][row % 2] for row in rows]).dictionary_encode(),
            "flag": [row % 2 == 0 for row in rows],
            "y": [[float(row), row * 2.0][: 1 + row % 2] for row in rows],
            "nested": [{"a": row} for row in rows],
        }
    )


def write(path, kind):
    if kind == "arrow":
        with pa.ipc.new_file(str(path), table().schema) as writer:
            writer.write_table(table(), max_chunksize=9)
    elif kind.startswith("feather"):
        pyarrow.feather.write_feather(table(), path, compression="lz4" if kind.endswith("lz4") else "uncompressed")
    else:
        plain = {"use_dictionary": False, "compression": "none"} if kind.endswith("plain") else {}
        pyarrow.parquet.write_table(table(), path, **plain)


# Run by a process of its own, since what is wrong might crash it.
ATTACK = """
import random, struct, sys
from pathlib import Path
import pyarrow as pa
from plr.sources.files import read_file
from plr.errors import PlrError
from plr.sources.folder import Folder
from plr.sources.source import in_arrow
from plr.columns.features import learn_features
from plr.columns.candidates import read_candidates

def attack(path, changes):
    whole = path.read_bytes()
    readers = [lambda path: read_file(path).table]
    if path.suffix == ".parquet":
        readers.append(lambda path: pa.concat_tables(batch.table for batch in Folder.open(path).batches()))
    ends = {"read": 0, "refused": 0}
    for seed in range(changes):
        draw, data = random.Random(seed), bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(8, len(data) - 8)
            how = draw.randrange(3)
            if how == 0:
                data[place] ^= 1 << draw.randrange(8)
            elif how == 1:
                data[place : place + 4] = struct.pack("<i", draw.choice([2**31 - 1, -1, -(2**31), 10_000]))
            else:
                data[place : place + 4] = draw.randbytes(4)
        path.write_bytes(data)
        for read in readers:
            print(path.name, "change", seed, file=sys.stderr, flush=True)
            try:
                found = read(path)
                learn_features(found, ["y"], path).apply(found, path)
                if "y" in found.column_names:
                    read_candidates(found, ["y"], empty="drop")
                found.to_pylist()
                ends["read"] += 1
            except PlrError as error:
                assert "\\n" not in str(error), error
                ends["refused"] += 1
    print(*ends.values())

for path in sys.argv[2:]:
    attack(Path(path), int(sys.argv[1]))
"""
KINDS = ("arrow", "feather", "feather-lz4", "parquet", "parquet-plain")


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        pytest.param(50, KINDS, id="50"),
        *(pytest.param(1000, [kind], id=f"1000-{kind}", marks=pytest.mark.slow) for kind in KINDS),
    ],
)
def test_changed_bytes_are_read_or_refused(tmp_path, changes, kinds):
    paths = [tmp_path / f"{kind}.{kind.partition('-')[0]}" for kind in kinds]
    for path, kind in zip(paths, kinds, strict=True):
        write(path, kind)
    done = subprocess.run(
        [sys.executable, "-c", ATTACK, str(changes), *paths], capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for kind, line in zip(kinds, done.stdout.splitlines(), strict=True):
        read, refused = map(int, line.split())
        assert read > changes / 20, kind
        assert refused > changes / 2, kind


def with_offset_outside(path):
    """Write a file in which one text ends a million bytes after the last."""
    pyarrow.feather.write_feather(pa.table({"k": ["ab", "cd", "ef"], "y": [[1.0], [2.0], [3.0]]}), path, "uncompressed")
    data = path.read_bytes()
    offsets = struct.pack("<4i", 0, 2, 4, 6)
    assert data.count(offsets) == 1
    path.write_bytes(data.replace(offsets, struct.pack("<4i", 0, 2, 1_000_000, 6)))


@pytest.mark.parametrize("ending", ["feather", "arrow"])
def test_offsets_that_point_outside(tmp_path, monkeypatch, capfd, ending):
    path = tmp_path / f"t.{ending}"
    with_offset_outside(path)
    with pytest.raises(errors.DataError, match=rf"t\.{ending} is cut short or damaged: "):
        read_table(path)
    monkeypatch.setattr(sys, "argv", ["plr", "check", str(path), "--target", "y"])
    with pytest.raises(SystemExit) as left:
        main()
    err = capfd.readouterr().err
    assert left.value.code == 2
    assert err.count("\n") == 1
    assert str(path) in err


def test_texts_that_are_none_in_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(
        pa.table({"k": ["abcdef"], "name": ["ghi"]}),
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
    )
    data = path.read_bytes()
    path.write_bytes(data.replace(b"abcdef", b"abc\xff\xfef"))
    for read in (read_table, lambda path: list(Folder.open(path).batches())):
        with pytest.raises(errors.DataError, match=r"t\.parquet is damaged.*(?i:utf8)"):
            read(path)
    # The schema as Arrow wrote it has the name in base64, and counts less than Parquet's own.
    path.write_bytes(data.replace(b"name", b"na\xffe"))
    for read in (read_table, lambda path: list(Folder.open(path).batches())):
        with pytest.raises(errors.DataError, match=r"t\.parquet is damaged"):
            read(path)


def test_recipe_that_is_none(tmp_path, monkeypatch, capfd):
    path = tmp_path / "t.parquet"
    whole = table().drop_columns(["nested"]).replace_schema_metadata({b"plr": b'{"truth_column'})
    pyarrow.parquet.write_table(whole, path)
    monkeypatch.setattr(sys, "argv", ["plr", "check", str(path), "--target", "y"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "t.parquet is damaged: what it says about how its table was made" in capfd.readouterr().err


def test_arrow_columns_and_tables_in_python():
    values = pa.array([1.0, 2.0, 3.0])
    lists = pa.Array.from_buffers(
        pa.list_(pa.float64()), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 1_000_000, 3))], children=[values]
    )
    for column in (lists, pa.chunked_array([lists])):
        with pytest.raises(errors.CandidateError, match="The column is damaged"):
            CandidateSets.from_arrow(column)
        with pytest.raises(errors.CandidateError, match="damaged"):
            PartialLabelRegressor("linear").fit([[0.0], [1.0]], column)
    with pytest.raises(errors.CandidateError, match="damaged"):
        PartialLabelRegressor("linear").fit([[0.0], [1.0]], pa.table({"y": lists}))
    texts = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 1_000_000, 3)), pa.py_buffer(b"abc")]
    )
    with pytest.raises(errors.FeatureError, match="X is damaged"):
        PartialLabelRegressor("linear").fit(pa.table({"k": texts}), [[1.0], [2.0]])


def test_nothing_that_arrow_reads_is_pythons():
    # Arrow's threads may let go of it when the interpreter is gone.
    data = b"x" * 100
    held = sys.getrefcount(data)
    reader = in_arrow(data)
    assert sys.getrefcount(data) == held
    assert reader.read() == data
