"""The committee: members of several kinds, chosen and mixed by evidence."""

from plr.learners.committee.learner import Committee, FittedCommittee
from plr.learners.committee.search import EFFORTS, boosted_trees

__all__ = ["EFFORTS", "Committee", "FittedCommittee", "boosted_trees"]
