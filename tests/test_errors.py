"""Errors say to programs what their messages say to people, and speak of parameters, not of options."""

import ast
import pickle
import re
from pathlib import Path

import pytest

import plr
from plr import errors
from plr._parameters import check_choice, check_integer, check_number
from support.refusals import refused

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PlrError)]
FIELDS = ("parameter", "row", "column", "value", "source")


@pytest.mark.parametrize("kind", KINDS)
def test_fields_survive_a_pickle(kind):
    made = kind("{parameter} is {wrong}", parameter="depth", row=3, column="a", value=-1, source="t.csv")
    for error in (made, pickle.loads(pickle.dumps(made))):
        assert type(error) is kind
        assert str(error) == error.args[0] == "depth is {wrong}"
        assert [getattr(error, name) for name in FIELDS] == ["depth", 3, "a", -1, "t.csv"]
    assert all(getattr(kind("wrong"), name) is None for name in FIELDS)


def test_values_that_cannot_be_pickled_travel_as_text():
    error = errors.ParameterError("wrong", value=lambda: 1)
    assert "lambda" in pickle.loads(pickle.dumps(error)).value


def test_a_front_end_may_call_the_parameter_otherwise():
    error = errors.ParameterError("{parameter} must be above 0; lower {parameter}.", parameter="depth")
    error.parameter = "--depth"
    assert str(error) == "--depth must be above 0; lower --depth."


def test_checks_name_the_parameter_and_the_value():
    for value in (0, True, 1.5, "2", 2**70):
        with refused(errors.ParameterError, {"parameter": "epochs", "value": value}):
            check_integer("epochs", value, low=1)
    for value in (0.0, 1.0, float("inf"), "a", None):
        with refused(errors.ParameterError, {"parameter": "share", "value": value}):
            check_number("share", value, low=0.0, below=1.0, open_low=True)
    with refused(errors.ParameterError, "A size in hidden must be at least 1, got 0"):
        check_integer("hidden", 0, low=1, what="A size in {parameter}")
    with refused(errors.ParameterError, {"parameter": "noise", "value": "gauss"}):
        check_choice("noise", "gauss", ["gaussian", "cauchy"])


def test_library_errors_do_not_name_command_line_options():
    root = Path(plr.__file__).parent
    # Model files are loaded from Python and from the shell, and their messages say how in both.
    apart = [root / name for name in ("cli", "paper", "persistence")]
    for path in root.rglob("*.py"):
        if any(folder in path.parents for folder in apart):
            continue
        raised = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise)]
        for text in (part for node in raised for part in ast.walk(node) if isinstance(part, ast.Constant)):
            assert not re.search(r"(?<!ray start )--[a-z]", str(text.value)), f"{path}:{text.lineno}"
