"""How the tests of the command line run it: in a folder of theirs, as if it had been typed."""

import sys

import pytest

from plr.cli import main


@pytest.fixture
def run(monkeypatch, capfd, folder):
    """Return what runs ``plr`` in the test file's folder, checks the exit code and returns stdout and stderr."""
    monkeypatch.chdir(folder)

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["plr", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        assert (left.value.code or 0) == code, err
        return out, err

    return run
