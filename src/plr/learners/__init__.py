"""Learners: what model is fitted to weighted candidates, and how."""

from __future__ import annotations

from collections.abc import Callable

from plr._parameters import resolve
from plr.learners.base import Fitted, Learner, Report, Task
from plr.learners.linear import Linear
from plr.learners.mlp import MLP

__all__ = ["LEARNERS", "MLP", "Fitted", "Learner", "Linear", "Report", "Task", "get_learner"]

LEARNERS: dict[str, Callable[[], Learner]] = {"linear": Linear, "mlp": MLP}


def get_learner(learner: object) -> Learner:
    """Turn a name or an instance into a learner.

    >>> get_learner("linear")
    Linear()
    """
    return resolve("learner", learner, LEARNERS, Learner, None)
