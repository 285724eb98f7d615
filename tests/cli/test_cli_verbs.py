"""The verbs that ``plr --help`` lists."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from plr.cli import VERBS, app, main


@pytest.mark.parametrize("verb", VERBS)
def test_help_lists_every_verb_by_the_first_line_of_its_docstring(verb):
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "400"}).stdout
    assert VERBS[verb].__doc__.splitlines()[0] in shown


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_an_example(verb):
    shown = " ".join(CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "400"}).stdout.split())
    assert f"Example: plr {verb} " in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "plr: No such command 'chek'. Did you mean 'check'? See plr --help."),
        (["fit", "nothing.csv", "-o", "m.plr"], "plr: Missing option '--target'"),
        (["check"], "plr: Missing argument 'data'. See plr check --help."),
        (["predict", "m.plr", "t.csv", "--interval", "wide"], "plr: Invalid value for '--interval': "),
    ],
)
def test_what_was_typed_wrong_is_said_in_one_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["plr", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(message)
    assert told.count("\n") == 1


def test_full_disk_on_stdout_is_said_in_one_line(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "plr", "datasets", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "plr: Results cannot be written: No space left on device."
