"""Mistakes are named before anything is imported that fits models."""

import subprocess
import sys

import pyarrow as pa
import pytest

from plr.cli.model_options import NAMES
from plr.cli.options import PARTS
from plr.learners.committee import EFFORTS
from plr.sources.files import column_names
from plr.tables import write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    table = pa.table({"a b": [1.0, 2.0], "y": ["1|2", "3"]})
    for ending in ("csv", "parquet", "feather", "jsonl"):
        write_table(table, folder / f"t.{ending}")
    return folder


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("fitt", "No such command 'fitt'. Did you mean 'fit'?"),
        ("fit none.csv --target y -o m.plr", "There is no file none.csv."),
        ("fit t.csv --target y -o m.plr --learner liner", "Unknown --learner 'liner'; did you mean 'linear'?"),
        ("fit t.csv --target y -o m.plr --effort lots", "Unknown --effort 'lots'"),
        ("fit t.parquet --target z -o m.plr", "--target: t.parquet has no column 'z'"),
        ("fit t.feather --target y --truth z -o m.plr", "--truth: t.feather has no column 'z'"),
        ("fit t.csv --target y --known z -o m.plr", "--known z: t.csv has no such column, and there is no such file"),
        ("fit t.jsonl --target z -o m.plr", "--target: t.jsonl has no column 'z'"),
        ("fit t.csv --target y --text z -o m.plr", "--text: t.csv has no column 'z'"),
        ("check t.csv --target z", "--target: t.csv has no column 'z'"),
        ("compare t.csv --target y --learners linear,mpl", "Unknown --learners 'mpl'; did you mean 'mlp'?"),
        ("generate t.csv --target z -o o.csv", "--target: t.csv has no column 'z'"),
        ("predict t.csv t.parquet --interval 2", "--interval must be above 0 and below 1, got 2.0."),
        ("predict m.plr t.csv", "m.plr does not exist; give the path of a model file."),
    ],
)
def test_nothing_that_fits_models_is_imported_first(folder, typed, message):
    code = """
        import sys
        from plr.cli import main
        sys.argv = ["plr", *sys.argv[1:]]
        try:
            main()
        finally:
            print(sorted({"sklearn", "scipy", "numba", "lightgbm"} & set(sys.modules)))
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", code, *typed.split()], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == "[]\n"


def test_names_that_are_known_at_once_are_those_of_the_registries():
    assert {part: sorted(names) for part, names in PARTS.items()} == {**NAMES, "effort": sorted(EFFORTS)}


def test_columns_are_known_without_reading_rows(folder):
    for ending in ("csv", "parquet", "feather", "jsonl"):
        assert column_names(folder / f"t.{ending}") == ["a b", "y"]
    (folder / "semi.csv").write_text('"a;\nb";c\n1;2\n')
    assert column_names(folder / "semi.csv") == ["a;\nb", "c"]
    for name, text in (("cut.parquet", "PAR1"), ("bad.csv", "a\0b\n1\n"), ("empty.feather", ""), ("t.xyz", "a")):
        (folder / name).write_text(text)
        assert column_names(folder / name) is None
    with (folder / "long.jsonl").open("w") as file:
        file.writelines('{"a": 1}\n' for _ in range(40_000))
    assert column_names(folder / "long.jsonl") is None
    assert column_names(folder) is None
