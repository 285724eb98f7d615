"""Any scikit-learn regressor."""

from __future__ import annotations

from plr.learners.base import Learner

__all__ = ["Refit"]


class Refit(Learner):
    """Any scikit-learn regressor."""

    def __init__(self, regressor: object) -> None:
        self.regressor = regressor
