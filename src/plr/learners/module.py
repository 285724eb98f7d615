"""Any torch module."""

from __future__ import annotations

from plr.learners.base import Learner

__all__ = ["Module"]


class Module(Learner):
    """Any torch module."""

    def __init__(self, module: object) -> None:
        self.module = module
