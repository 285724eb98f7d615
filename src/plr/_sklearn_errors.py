"""The errors and warnings of `plr.errors` that derive from scikit-learn's."""

from __future__ import annotations

from sklearn import exceptions

from plr.errors import PlrError, PlrWarning

__all__ = ["ConvergenceWarning", "NotFittedError"]


class NotFittedError(PlrError, exceptions.NotFittedError):
    """Something was asked of a model that has not been fitted."""

    __module__ = "plr.errors"


class ConvergenceWarning(PlrWarning, exceptions.ConvergenceWarning):
    """A fit stopped at its limit before it settled."""

    __module__ = "plr.errors"
