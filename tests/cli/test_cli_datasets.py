"""``plr datasets`` lists what is there, and exports what can be read back."""

import json

import pytest
import typer
from typer.testing import CliRunner

from plr.cli.datasets import datasets_command
from plr.errors import DataNotFoundError
from plr.paper.datasets import REGISTRY

app = typer.Typer()
app.command()(datasets_command)


@pytest.fixture(autouse=True)
def no_data_home(monkeypatch):
    monkeypatch.delenv("PLR_DATA_HOME", raising=False)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_listing_names_every_data_set():
    result = run()
    assert result.exit_code == 0
    for name, info in REGISTRY.items():
        (line,) = [line for line in result.stdout.splitlines() if line.startswith(name)]
        assert line.split()[1:4] == [str(info.rows), str(len(info.features)), "ok"]


def test_export_is_used_as_data_dir(tmp_path):
    folder = tmp_path / "new" / "data"
    assert run("--export", folder).exit_code == 0
    assert sorted(path.stem for path in folder.iterdir()) == sorted(REGISTRY)
    rows = json.loads(run("--data-dir", folder, "--json").stdout)["datasets"]
    assert [row["name"] for row in rows] == list(REGISTRY)
    assert {row["checksum"] for row in rows} == {"ok"}
    assert all(row["source"].startswith(str(folder)) for row in rows)


def test_problem_goes_to_stderr(tmp_path):
    (tmp_path / "airfoil.csv").write_text("junk\n1\n")
    result = run("--data-dir", tmp_path)
    assert "wrong" in result.stdout
    assert "airfoil.csv" in result.stderr


def test_folder_that_does_not_exist(tmp_path):
    assert isinstance(run("--data-dir", tmp_path / "nowhere").exception, DataNotFoundError)
