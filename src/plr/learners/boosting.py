"""Boosted trees."""

from __future__ import annotations

from plr.learners.base import Learner

__all__ = ["Boosting"]


class Boosting(Learner):
    """Boosted trees."""
