"""The verbs that ``plr --help`` lists."""

import pytest
from typer.testing import CliRunner

from plr.cli import VERBS, app


@pytest.mark.parametrize("verb", VERBS)
def test_help_lists_every_verb_by_the_first_line_of_its_docstring(verb):
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "400"}).stdout
    assert VERBS[verb].__doc__.splitlines()[0] in shown


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_an_example(verb):
    shown = " ".join(CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "400"}).stdout.split())
    assert f"Example: plr {verb} " in shown
