"""Weightings: what share each candidate of a row gets.

Every one is a softmax of (log prior + score); they differ in the score alone. `weigh` applies one to predictions.
"""

from __future__ import annotations

from plr._parameters import resolve
from plr.errors import ParameterError
from plr.weighting.average import Average
from plr.weighting.base import WEIGHTINGS, Weighting, WeightingCode
from plr.weighting.custom import Custom
from plr.weighting.identification import Identify
from plr.weighting.posterior import Posterior
from plr.weighting.progressive import Progressive
from plr.weighting.rule import Evaluation, Rule, weigh

__all__ = [
    "WEIGHTINGS",
    "Average",
    "Custom",
    "Evaluation",
    "Identify",
    "Posterior",
    "Progressive",
    "Rule",
    "Weighting",
    "WeightingCode",
    "get_weighting",
    "weigh",
]


def get_weighting(weighting: object) -> Weighting:
    """Turn a name, a function or an instance into a weighting.

    >>> get_weighting("progressive")
    Progressive()
    """
    return resolve("weighting", weighting, WEIGHTINGS, Weighting, _wrap)


def _wrap(given: object) -> Weighting:
    if callable(given):
        return Custom(given)
    raise ParameterError(
        f"weighting must be a name ({', '.join(sorted(WEIGHTINGS))}), a function score(prediction, value, loss) or a "
        f"plr.weighting.Weighting, got {given!r}."
    )
