"""``plr report``: writes the files, prints their paths, and says in one line what is wrong."""

import dataclasses
import json

import pytest
import typer
from typer.testing import CliRunner

from plr.cli.report import report_command
from plr.errors import DataNotFoundError, DependencyError, ParameterError, StoreError
from plr.paper import Store, expand, get_preset
from plr.paper.execution import Fit, dump
from plr.paper.selection import EPOCH_RULES

app = typer.Typer()
app.command()(report_command)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    protocol = dataclasses.replace(
        get_preset("quick"), datasets=("concrete",), methods=("IDent", "PIDent"), sizes=(4,), trials=2
    )
    with Store.create(folder, protocol) as opened:
        opened.begin("plr benchmark")
        for cell in expand(protocol):
            opened.claim(cell.key(protocol))
            (setting,) = cell.settings(protocol)
            fits = [Fit(dump(setting), rule, 3, 1.0, 1.0, 1.0, 45.0 + cell.trial) for rule in EPOCH_RULES]
            opened.finish((cell.key(protocol), fits, 1.0))
    return folder


def test_writes_and_prints_paths(store, tmp_path):
    result = run(store, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    paths = result.stdout.splitlines()
    assert paths[-1].endswith("index.html")
    assert sorted(paths) == sorted(str(path) for path in (tmp_path / "out").iterdir())
    assert "2 of 2 measured means agree with the published ones: within two published" in result.stderr
    assert "the last epoch" in result.stderr
    assert "Not finished" not in result.stderr


def test_an_unfinished_store_says_what_is_missing(tmp_path):
    protocol = dataclasses.replace(
        get_preset("quick"), datasets=("concrete",), methods=("IDent",), sizes=(4,), trials=3
    )
    with Store.create(tmp_path / "store", protocol) as opened:
        opened.begin("plr benchmark")
        first, second, _ = expand(protocol)
        for cell in (first, second):
            opened.claim(cell.key(protocol))
        (setting,) = first.settings(protocol)
        fits = [Fit(dump(setting), rule, 3, 1.0, 1.0, 1.0, 45.0) for rule in EPOCH_RULES]
        opened.finish((first.key(protocol), fits, 1.0))
        opened.fail(second.key(protocol), "no luck")
    result = run(tmp_path / "store", "-o", tmp_path / "out")
    assert "Not finished: 2 of 3 cells are missing, 1 of which failed" in result.stderr


def test_report_into_a_file_or_of_one(store, tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,y\n1,2\n")
    into = run(store, "-o", file)
    assert "is a file, or lies below one" in str(into.exception)
    of = run(file, "-o", tmp_path / "out")
    assert "t.csv is neither a model file nor a folder of benchmark results; for a table: plr report" in str(
        of.exception
    )
    assert not (tmp_path / "out").exists()
    nothing = run(tmp_path, "-o", tmp_path / "out")
    assert "has no results.sqlite; name a folder" in str(nothing.exception)


def test_json_counts_every_rule(store, tmp_path):
    result = run(store, "-o", tmp_path / "out", "--selection", "truth", "--json")
    answer = json.loads(result.stdout)
    assert answer["selection"] == "truth"
    assert {item["per"] for item in answer["agreement"]} == {"trial", "cell"}
    assert answer["agreement"][0]["counted"] == 2
    # Two trials say nothing about them.
    assert answer["observations"] == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--selection", "lsat"], ParameterError),
        (["--per", "row"], ParameterError),
    ],
)
def test_bad_options_write_nothing(store, tmp_path, arguments, error):
    result = run(store, "-o", tmp_path / "out", *arguments)
    assert isinstance(result.exception, error)
    assert not (tmp_path / "out").exists()


def test_notes_are_shown_when_given(store, tmp_path):
    file = tmp_path / "notes.csv"
    file.write_text("dataset,model,method,false_labels,note\nconcrete,mlp,IDent,4,seen into\n")
    assert run(store, "-o", tmp_path / "out", "--notes", file).exit_code == 0
    missing = run(store, "-o", tmp_path / "none", "--notes", tmp_path / "nowhere.csv")
    assert isinstance(missing.exception, DataNotFoundError)
    assert not (tmp_path / "none").exists()


def test_a_folder_without_results(tmp_path):
    result = run(tmp_path, "-o", tmp_path / "out")
    assert isinstance(result.exception, StoreError)


def test_missing_matplotlib_names_the_extra(store, tmp_path, monkeypatch):
    import plr.paper.figures

    def missing():
        raise DependencyError('Figures need matplotlib: pip install "plr[report]".')

    monkeypatch.setattr(plr.paper.figures, "require_matplotlib", missing)
    result = run(store, "-o", tmp_path / "out")
    assert isinstance(result.exception, DependencyError)
    assert not (tmp_path / "out").exists()
