"""The parts of a model by what was typed: names, and options of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plr.regressor import PartialLabelRegressor

__all__ = ["STARTS_TO_NAME", "check_module", "make_regressor"]

STARTS_TO_NAME = ("auto", "none", "density", "sampled")
"""What ``--start`` may be."""

# Parameters that no text can give: code, and estimators.
_CODE = ("module", "loss", "score", "process")
_WITH_PREFIX = ("weighting", "loss", "start")


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
        Any of ``learner``, ``weighting``, ``loss``, ``start`` and ``effort``, by name.
    options : mapping of str to object
        Parameters of the learner, and with a prefix those of the others, such as ``weighting.beta2``.
    module : torch.nn.Module or callable, optional
        What the learner ``module`` trains.
    seed, jobs : int
    """
    from plr import PartialLabelRegressor
    from plr.errors import ParameterError
    from plr.learners.starts import STARTS
    from plr.losses import LOSSES
    from plr.weighting import WEIGHTINGS

    given = {"learner": "auto", "weighting": "auto", "loss": "squared", "start": "auto", **parts}
    effort = given.pop("effort", None)
    own = _by_part(options)
    # What the weighting auto stands for, whatever the data.
    names = {**given, "weighting": {"auto": "posterior"}.get(given["weighting"], given["weighting"])}
    classes = {
        "learner": _learner_class(given["learner"], module, own["learner"]),
        "weighting": _class_of("weighting", names["weighting"], WEIGHTINGS),
        "loss": _class_of("loss", given["loss"], LOSSES),
        "start": _start_class(given["start"], STARTS, own["start"]),
    }
    for part, named in own.items():
        _check_options(part, names[part], named, classes)
    if given["learner"] == "module":
        own["learner"] = {"scale_features": True, **own["learner"], "module": module}
    elif effort is not None and own["learner"] and "effort" in _known(classes["learner"]):
        if "effort" in own["learner"]:
            raise ParameterError("--effort and --option effort are the same; give one of them.")
        own["learner"], effort = {"effort": effort, **own["learner"]}, None
    # Without options a part goes by its name, which the regressor knows more about than its class.
    made: dict[str, Any] = {part: _made(classes[part], named) if named else given[part] for part, named in own.items()}
    if given["start"] == "none":
        made["start"] = None
    return PartialLabelRegressor(**made, effort=effort, random_state=seed, n_jobs=jobs)


def check_module(learner: str, named: bool) -> None:
    """Refuse the learner ``module`` without a torch module, and a torch module without it."""
    from plr.errors import ParameterError

    if learner == "module" and not named:
        raise ParameterError(
            "--learner module trains a torch module of yours; say where it is: --module FILE.py:NAME, for a module, or "
            "a function or class that makes one."
        )
    if learner != "module" and named:
        raise ParameterError(
            f"--module is for --learner module, and the learner is {learner}; add it, or leave --module out."
        )


def _by_part(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each part, without prefix."""
    from plr.errors import unknown_name

    found: dict[str, dict[str, Any]] = {part: {} for part in ("learner", *_WITH_PREFIX)}
    for name, value in options.items():
        prefix, dot, rest = name.partition(".")
        if dot and prefix not in found:
            raise unknown_name(f"part in --option {name}:", prefix, found)
        found[prefix if dot else "learner"][rest if dot else name] = value
    return found


def _learner_class(name: str, module: Any, options: Mapping[str, Any]) -> Any:
    from plr.errors import ParameterError
    from plr.learners import LEARNERS, Module

    check_module(name, module is not None)
    if name == "auto":
        if options:
            raise ParameterError(
                f"--learner auto goes by the data and takes no options; name the learner that --option "
                f"{next(iter(options))} is for, such as --learner mlp."
            )
        return None
    return Module if name == "module" else _class_of("learner", name, {**LEARNERS, "module": Module})


def _start_class(name: str, registry: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    from plr._parameters import check_choice
    from plr.errors import ParameterError

    check_choice("--start", name, STARTS_TO_NAME)
    if name not in registry and options:
        raise ParameterError(f"--start {name} takes no options; name the start, such as --start density.")
    return registry.get(name)


def _class_of(part: str, name: str, registry: Mapping[str, Callable[..., Any]]) -> Any:
    from plr.errors import unknown_name

    if name not in registry:
        raise unknown_name(part, name, [*registry, *(["auto"] if part != "loss" else [])])
    return registry[name]


def _known(made_by: Any) -> list[str]:
    return [] if made_by is None else [name for name in made_by._get_param_names() if name not in _CODE]


def _check_options(part: str, name: str, options: Mapping[str, Any], classes: Mapping[str, Any]) -> None:
    """Refuse options that a part has not, with the nearest that it has, and texts where it is yes or no."""
    from plr.errors import ParameterError, unknown_name

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


def _made(made_by: Any, options: Mapping[str, Any]) -> Any:
    return made_by(**{name: tuple(value) if isinstance(value, list) else value for name, value in options.items()})
