"""Starts: where true labels pile up, before any model exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plr._parameters import resolve
from plr.contracts import Learner
from plr.errors import ParameterError
from plr.learners.starts.base import Start, first_weights
from plr.learners.starts.density import DensityStart
from plr.learners.starts.sampled import SampledStart
from plr.weighting.average import Average
from plr.weighting.base import Weighting

__all__ = [
    "STARTS",
    "DensityStart",
    "SampledStart",
    "Start",
    "choose_start",
    "first_weights",
    "get_start",
]

STARTS: dict[str, Callable[[], Start]] = {"density": DensityStart, "sampled": SampledStart}
"""Starts that go by a name."""


def get_start(start: object) -> Start | None:
    """Turn a name, an instance or None into a start.

    >>> get_start("density")
    DensityStart()
    """
    return None if start is None else resolve("start", start, STARTS, Start, _wrap)


def choose_start(start: object, weighting: Weighting, learner: Learner, rows: int) -> Start | None:
    """Return the start that a regressor's parameter stands for; None where weights never move from the priors.

    ``"auto"`` is the density for the committee and the Gaussian process under a posterior weighting, and none
    elsewhere.
    """
    if isinstance(start, str) and start == "auto":
        return DensityStart.for_draws(rows) if learner.draws and weighting.learns_scale else None
    chosen = get_start(start)
    return None if isinstance(weighting, Average) else chosen


def _wrap(given: Any) -> Any:
    if callable(getattr(given, "weights", None)):
        return given
    raise ParameterError(
        f"start must be 'auto', None, a name ({', '.join(sorted(STARTS))}) or something with weights(task, cv), such "
        f"as a plr.learners.starts.DensityStart instance; got {given!r}."
    )
