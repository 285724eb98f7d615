"""Errors of the library name the option that sets the parameter."""

import pytest
import typer

from plr.cli import app
from plr.cli.common import spell_parameter
from plr.errors import ParameterError


@pytest.mark.parametrize(
    ("verb", "parameter", "spelled"),
    [
        ("fit", "weighting", "--weighting"),
        ("fit", "random_state", "--seed"),
        ("fit", "sample_weight", "--weights"),
        ("fit", "drop_empty", "--drop-empty"),
        ("fit", "batch_size", "--option batch_size"),
        ("generate", "false_labels", "--false-labels"),
        ("fit", "false_labels", "--option false_labels"),
        ("predict", "coverage", "--interval"),
        ("predict", "trusted", "--trust"),
        ("predict", "batch_size", "batch_size"),
        ("predict", "data", "data"),
        ("fit", None, None),
    ],
)
def test_parameters_as_options(verb, parameter, spelled):
    error = ParameterError("wrong", parameter=parameter)
    spell_parameter(error, typer.main.get_command(app).commands[verb].params)
    assert error.parameter == spelled
