"""Any torch module as a learner. PyTorch is imported when a fit begins, never before."""

from plr.learners.module.fitted import FittedModule
from plr.learners.module.learner import Module

__all__ = ["FittedModule", "Module"]
