"""Starts: where true labels pile up, before any model exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plr._parameters import resolve
from plr.errors import ParameterError
from plr.learners import Committee, GaussianProcess, Learner
from plr.start.base import Start, first_weights
from plr.start.density import Density
from plr.start.sampled import Sampled
from plr.weighting.average import Average
from plr.weighting.base import Weighting

__all__ = [
    "STARTS",
    "Density",
    "Sampled",
    "Start",
    "choose_start",
    "first_weights",
    "get_start",
]

STARTS: dict[str, Callable[[], Start]] = {"density": Density, "sampled": Sampled}
"""Starts that go by a name."""


def get_start(start: object) -> Start | None:
    """Turn a name, an instance or None into a start.

    >>> get_start("density")
    Density()
    """
    return None if start is None else resolve("start", start, STARTS, Start, _wrap)


def choose_start(start: object, weighting: Weighting, learner: Learner, rows: int) -> Start | None:
    """Return the start that a regressor's parameter stands for; None where weights never move from the priors.

    ``"auto"`` is the density for the committee and the Gaussian process under a posterior weighting, and none
    elsewhere.
    """
    if isinstance(start, str) and start == "auto":
        if not (isinstance(learner, Committee | GaussianProcess) and weighting.learns_scale):
            return None
        return Density.for_draws(rows)
    chosen = get_start(start)
    return None if isinstance(weighting, Average) else chosen


def _wrap(given: Any) -> Any:
    if callable(getattr(given, "weights", None)):
        return given
    raise ParameterError(
        f"start must be 'auto', None, a name ({', '.join(sorted(STARTS))}) or something with weights(task, cv), such "
        f"as a plr.start.Density instance; got {given!r}."
    )
