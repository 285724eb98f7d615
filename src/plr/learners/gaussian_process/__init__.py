"""A Gaussian process on candidate sets, by drawing which candidates are true."""

from plr.learners.gaussian_process.learner import FittedGaussianProcess, GaussianProcess

__all__ = ["FittedGaussianProcess", "GaussianProcess"]
