"""A Gaussian process on candidate sets, by drawing which candidates are true."""

from plr.learners.gaussian_process.learner import FittedGaussianProcess, Functions, GaussianProcess, without_rows

__all__ = ["FittedGaussianProcess", "Functions", "GaussianProcess", "without_rows"]
