"""``plr fit --option``: parameters of the learner and of the other parts, as they are typed."""

import re
from typing import get_type_hints

import pytest

from plr.cli.fit import fit_command
from plr.cli.model_options import make_regressor
from plr.cli.options import parse_options
from plr.errors import ParameterError
from plr.learners import LEARNERS, MLP, Committee, Module
from plr.learners.starts import STARTS, DensityStart
from plr.losses import LOSSES, Huber
from plr.weighting import WEIGHTINGS, Posterior, Progressive


def test_values_are_json_or_texts():
    given = ["epochs=50", "hidden=[128, 128]", "activation=silu", "scale_target=false", 'a="12"', "b=null", "c=x=y"]
    assert parse_options(given, "epochs=50") == {
        "epochs": 50,
        "hidden": [128, 128],
        "activation": "silu",
        "scale_target": False,
        "a": "12",
        "b": None,
        "c": "x=y",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["epochs"], "--option epochs: write NAME=VALUE, such as epochs=50"),
        (["=5"], "write NAME=VALUE"),
        (["a=1", "a=2"], "a is given twice"),
        (["a=1e999"], "too large"),
        (["a=[1, 1e999]"], "too large"),
    ],
)
def test_what_is_no_option(given, message):
    with pytest.raises(ParameterError, match=message):
        parse_options(given, "epochs=50")


def test_numbers_alone_where_texts_have_no_meaning():
    with pytest.raises(ParameterError, match="--option spread=wide: 'wide' is not a number"):
        parse_options(["spread=wide"], "spread=0.2", texts=False)
    assert parse_options(["x=NaN"], "") == {"x": "NaN"}


def test_options_reach_the_part_they_are_for():
    made = make_regressor(
        {"learner": "mlp", "weighting": "progressive", "loss": "huber", "start": "density"},
        {"hidden": [8, 8], "learner.epochs": 5, "weighting.beta2": 3, "loss.delta": 0.5, "start.models": "neighbours"},
        seed=4,
        jobs=2,
    )
    parts = (made.learner, made.weighting, made.loss, made.start)
    assert tuple(map(type, parts)) == (MLP, Progressive, Huber, DensityStart)
    assert (made.learner.hidden, made.learner.epochs, made.weighting.beta2, made.loss.delta) == ((8, 8), 5, 3, 0.5)
    assert (made.start.models, made.effort, made.random_state, made.n_jobs) == ("neighbours", None, 4, 2)


def test_without_options_parts_go_by_their_names():
    made = make_regressor({"start": "none"}, {})
    assert (made.learner, made.weighting, made.loss, made.start) == ("auto", "auto", "squared", None)
    for name in LEARNERS:
        assert make_regressor({"learner": name}, {}).learner == name


def test_effort_and_scaling_keep_their_meaning():
    made = make_regressor({"learner": "committee", "effort": "low"}, {"cv": 3})
    assert isinstance(made.learner, Committee)
    assert (made.learner.effort, made.learner.cv, made.effort) == ("low", 3, None)
    assert make_regressor({"learner": "committee"}, {"effort": "high"}).learner.effort == "high"
    with pytest.raises(ParameterError, match="--effort and --option effort are the same"):
        make_regressor({"learner": "committee", "effort": "low"}, {"effort": "high"})
    assert isinstance(make_regressor({"learner": "linear"}, {"weighting.noise": "laplace"}).weighting, Posterior)
    made = make_regressor({"learner": "module"}, {"epochs": 3}, module=dict)
    assert isinstance(made.learner, Module)
    assert (made.learner.module, made.learner.epochs, made.learner.scale_features) == (dict, 3, True)
    assert not make_regressor({"learner": "module"}, {"scale_features": False}, module=dict).learner.scale_features


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ({}, {"epochs": 5}, "--learner auto goes by the data and takes no options; name the learner"),
        (
            {"learner": "mlp"},
            {"epoch": 5},
            "--option epoch: Unknown.* 'epoch'; did you mean 'epochs'. Known: activation,",
        ),
        ({"learner": "mlpp"}, {}, "Unknown learner 'mlpp'; did you mean 'mlp'"),
        ({"learner": "mlp", "weighting": "progressive"}, {"beta2": 3}, "did you mean weighting.beta2"),
        ({"learner": "mlp"}, {"weighting.beta2": 3}, "Unknown option of the weighting posterior 'beta2'"),
        ({"learner": "mlp"}, {"wieghting.beta2": 3}, "'wieghting'; did you mean 'weighting'"),
        ({"learner": "mlp"}, {"loss.delta": 3}, "the loss squared has no options"),
        ({"start": "none"}, {"start.models": "trees"}, "--start none takes no options; name the start"),
        ({"start": "densty"}, {}, "Unknown start 'densty'; did you mean 'density'"),
        ({"weighting": "avrage"}, {}, "Unknown weighting 'avrage'; did you mean 'average'"),
        ({"loss": "hubr"}, {}, "Unknown loss 'hubr'; did you mean 'huber'"),
        ({"learner": "linear"}, {"scale_target": "False"}, "--option scale_target is true or false, got 'False'"),
        ({"learner": "module"}, {}, "--learner module trains a torch module of yours"),
    ],
)
def test_what_no_part_knows_is_refused_with_the_nearest(parts, options, message):
    with pytest.raises(ParameterError, match=message):
        make_regressor(parts, options)


@pytest.mark.parametrize("option", ["module", "loss", "score"])
def test_code_is_no_option(option):
    with pytest.raises(ParameterError, match="Unknown option of the learner module"):
        make_regressor({"learner": "module"}, {option: "os.system"}, module=dict)


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("learner", {"auto", *LEARNERS, "module"}),
        ("weighting", {"auto", *WEIGHTINGS}),
        ("loss", {*LOSSES}),
        ("start", {"auto", "none", *STARTS}),
    ],
)
def test_help_and_completion_know_what_is_registered(option, names):
    (told,) = get_type_hints(fit_command, include_extras=True)[option].__metadata__
    assert set(told.autocompletion()) == names
    assert {word.strip(" .") for word in re.split(r",| or ", told.help.rpartition(": ")[2])} <= names
