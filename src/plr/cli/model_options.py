"""The parts of a model by what was typed: names, and options of each."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from plr._parameters import check_choice
from plr.errors import ParameterError, unknown_name
from plr.learners import LEARNERS, Module
from plr.learners.starts import STARTS
from plr.losses import LOSSES
from plr.priors import PRIORS
from plr.regressor import PartialLabelRegressor
from plr.weighting import WEIGHTINGS

__all__ = ["NAMES", "make_regressor"]

_CLASSES: dict[str, Mapping[str, Any]] = {
    "learner": {"auto": None, **LEARNERS, "module": Module},
    # What auto stands for, whatever the data.
    "weighting": {"auto": WEIGHTINGS["posterior"], **WEIGHTINGS},
    "loss": LOSSES,
    "start": {"auto": None, "none": None, **STARTS},
    "prior_model": {"auto": None, "given": None, "learned": None, **PRIORS},
}
NAMES = {part: sorted(classes) for part, classes in _CLASSES.items()}
"""What each part of a model may be, by the name of its option."""

# Parameters that no text can give: code, and estimators.
_CODE = ("module", "loss", "score", "process")


def make_regressor(
    parts: Mapping[str, str],
    options: Mapping[str, Any],
    *,
    module: Any = None,
    seed: int = 0,
    jobs: int | None = None,
) -> PartialLabelRegressor:
    """Return a regressor that is not fitted, from names and options as they are typed.

    Parameters
    ----------
    parts : mapping of str to str
        Any of ``learner``, ``weighting``, ``loss``, ``start``, ``prior_model`` and ``effort``, by name.
    options : mapping of str to object
        Parameters of the learner, and with a prefix those of the others, such as ``weighting.beta2``.
    module : torch.nn.Module or callable, optional
        What the learner ``module`` trains.
    seed, jobs : int
    """
    given = {"learner": "auto", "weighting": "auto", "loss": "squared", "start": "auto", "prior_model": "auto", **parts}
    effort = given.pop("effort", None)
    classes = {part: _CLASSES[part][check_choice(part, name, NAMES[part])] for part, name in given.items()}
    if given["learner"] == "module" and module is None:
        raise ParameterError(
            "--learner module trains a torch module of yours; say where it is: --module FILE.py:NAME, for a module, or "
            "a function or class that makes one."
        )
    if given["learner"] != "module" and module is not None:
        raise ParameterError(
            f"--module is for --learner module, and the learner is {given['learner']}; add it, or leave --module out."
        )
    own: dict[str, dict[str, Any]] = {part: {} for part in classes}
    for name, value in options.items():
        prefix, dot, rest = name.partition(".")
        if dot and prefix not in own:
            raise unknown_name(f"part in --option {name}:", prefix, own)
        own[prefix if dot else "learner"][rest if dot else name] = value
    for part, named in own.items():
        name = "posterior" if part == "weighting" and given[part] == "auto" else given[part]
        _check_options(part, name, named, classes)
    if given["learner"] == "module":
        own["learner"] = {"scale_features": True, **own["learner"], "module": module}
    elif effort is not None and own["learner"] and "effort" in _known(classes["learner"]):
        if "effort" in own["learner"]:
            raise ParameterError("--effort and --option effort are the same; give one of them.")
        own["learner"], effort = {"effort": effort, **own["learner"]}, None
    # Without options a part goes by its name, which the regressor knows more about than its class.
    made: dict[str, Any] = {**given, "start": None if given["start"] == "none" else given["start"]}
    for part, named in own.items():
        if named or (part == "prior_model" and classes[part] is not None):
            values = {name: tuple(value) if isinstance(value, list) else value for name, value in named.items()}
            made[part] = classes[part](**values)
    prior = made.pop("prior_model")
    return PartialLabelRegressor(**made, prior=prior, effort=effort, random_state=seed, n_jobs=jobs)


def _known(made_by: Any) -> list[str]:
    return [] if made_by is None else [name for name in made_by._get_param_names() if name not in _CODE]


def _check_options(part: str, name: str, options: Mapping[str, Any], classes: Mapping[str, Any]) -> None:
    """Refuse options that a part has not, with the nearest that it has, and texts where it is yes or no."""
    if options and classes[part] is None:
        such = {"learner": "mlp", "prior_model": "boosted_logit"}.get(part, "density")
        goes = "goes by the data and takes" if name == "auto" else "takes"
        typed, option = f"--{part.replace('_', '-')}", next(iter(options))
        raise ParameterError(
            f"{typed} {name} {goes} no options; name the {part.replace('_', ' ')} that --option {option} is for, such "
            f"as {typed} {such}."
        )
    known = _known(classes[part])
    for option in options:
        typed = option if part == "learner" else f"{part}.{option}"
        if option in known:
            default = inspect.signature(classes[part]).parameters[option].default
            if isinstance(default, bool) and not isinstance(options[option], bool) and option != "compile":
                # A text such as False would count as true.
                raise ParameterError(f"--option {typed} is true or false, got {options[option]!r}.")
            continue
        elsewhere = [other for other, made_by in classes.items() if other != part and option in _known(made_by)]
        if elsewhere:
            right = option if elsewhere[0] == "learner" else f"{elsewhere[0]}.{option}"
            raise ParameterError(f"--option {typed}: the {part} has no such option; did you mean {right}?")
        if not known:
            raise ParameterError(f"--option {typed}: the {part} {name} has no options.")
        raise ParameterError(f"--option {typed}: {unknown_name(f'option of the {part} {name}', option, known)}")
