"""What stands for code that a model file does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plr.errors import ParameterError

if TYPE_CHECKING:
    from plr.learners.module.learner import Module

__all__ = ["MissingCode", "check_complete"]


@dataclass(frozen=True)
class MissingCode:
    """A parameter that was code when the model was saved, such as a function or a class.

    Attributes
    ----------
    what : str
        What it was called.
    """

    what: str


def check_complete(learner: Module) -> None:
    """Refuse to train with parameters that are missing since the learner comes from a model file."""
    missing = {name: value for name, value in learner.get_params(deep=False).items() if isinstance(value, MissingCode)}
    if missing:
        listed = ", ".join(f"{name} ({value.what})" for name, value in missing.items())
        again = ", ".join(f"learner__{name}=..." for name in missing)
        raise ParameterError(
            f"The model was loaded from a file, which holds no code, so this is missing: {listed}. Give it again "
            f"before fitting: model.set_params({again})."
        )
