"""The errors and warnings plr raises on purpose.

Each derives from the Python or scikit-learn type a caller would already catch, so ``except ValueError`` keeps working,
and each message says what is wrong, where it is (row or column) and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from sklearn.exceptions import ConvergenceWarning as _ConvergenceWarning
from sklearn.exceptions import NotFittedError as _NotFittedError

__all__ = [
    "AmbiguousDataWarning",
    "CandidateError",
    "ClusterError",
    "ConvergenceWarning",
    "DataError",
    "DataNotFoundError",
    "DependencyError",
    "DivergenceError",
    "EmptySetError",
    "FeatureError",
    "FeatureTypeError",
    "FewRowsWarning",
    "InfeasibleError",
    "LengthError",
    "ModelFileError",
    "NotFittedError",
    "ParameterError",
    "PlrError",
    "PlrWarning",
    "PriorError",
    "StoreError",
    "TargetScaleError",
    "unknown_name",
]


class PlrError(Exception):
    """Base of every error plr raises on purpose."""


class CandidateError(PlrError, ValueError):
    """Candidate values that cannot be used: infinite, not numbers, nested too deep."""


class EmptySetError(CandidateError):
    """Rows without any candidate."""


class PriorError(PlrError, ValueError):
    """Prior probabilities that are negative, not finite, or zero for a whole row."""


class LengthError(PlrError, ValueError):
    """Two inputs that should have one entry per row differ in length."""


class FeatureError(PlrError, ValueError):
    """Features that the chosen learner cannot take."""


class FeatureTypeError(FeatureError, TypeError):
    """Features of a kind that cannot become numbers: sparse matrices, dictionaries."""


class ParameterError(PlrError, ValueError):
    """A parameter out of its range, or a name nobody knows."""


class TargetScaleError(PlrError, ValueError):
    """Labels whose scale does not fit the arithmetic of the learner."""


class InfeasibleError(PlrError, MemoryError):
    """Something asked for that would need an absurd amount of memory."""


class DivergenceError(PlrError, FloatingPointError):
    """Training left the numbers: the loss became infinite or not a number.

    ``fitted`` has the model from before, where the learner keeps it.
    """

    fitted: Any = None


class NotFittedError(PlrError, _NotFittedError):
    """Something was asked of a model that has not been fitted."""


class DependencyError(PlrError, ImportError):
    """An optional package is missing; the message names the extra that brings it."""


class DataError(PlrError, ValueError):
    """A file or table that is not what it should be: unreadable, tampered with, or without the column asked for."""


class ModelFileError(DataError):
    """A model file that cannot be read or written: missing, damaged, foreign, too new; or a model with code in it."""


class DataNotFoundError(PlrError, FileNotFoundError):
    """A data set or file that is not where it was looked for."""


class StoreError(PlrError, RuntimeError):
    """A results folder that cannot be used as asked."""


class ClusterError(PlrError, RuntimeError):
    """A Ray cluster that cannot be reached or started, was lost, or cannot do what it is asked."""


class PlrWarning(UserWarning):
    """Base of every warning plr gives."""


class AmbiguousDataWarning(PlrWarning):
    """A model was fitted to data that cannot tell which candidates are true."""


class ConvergenceWarning(PlrWarning, _ConvergenceWarning):
    """A fit stopped at its limit before it settled."""


class FewRowsWarning(PlrWarning):
    """There are so few rows with several candidates that what is learned from them may be far off."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> ParameterError:
    """Make the error for a name nobody knows, with the nearest known spelling.

    >>> print(unknown_name("weighting", "averge", ["average", "identification"]))
    Unknown weighting 'averge'; did you mean 'average'? Known: average, identification.
    """
    names = sorted(known)
    folded = {known_name.lower(): known_name for known_name in names}
    near = [folded[match] for match in difflib.get_close_matches(str(name).lower(), folded, n=1, cutoff=0.6)]
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return ParameterError(f"Unknown {kind} {name!r}{hint} Known: {', '.join(names)}.")
