"""The errors and warnings that plr raises on purpose.

Each derives from the Python or scikit-learn type a caller would already catch, so ``except ValueError`` keeps working.
The message says what is wrong, where it is and what to do about it; the attributes of :class:`PlrError` say the same to
programs.
"""

from __future__ import annotations

import difflib
import importlib
import pickle
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plr._sklearn_errors import ConvergenceWarning, NotFittedError

__all__ = [
    "AmbiguousDataWarning",
    "CandidateError",
    "ClusterError",
    "ConvergenceWarning",
    "DataError",
    "DataNotFoundError",
    "DependencyError",
    "DependentLabelsWarning",
    "DivergenceError",
    "EmptySetError",
    "FeatureError",
    "FeatureTypeError",
    "FewRowsWarning",
    "IdentifierWarning",
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

# As many names are listed where one is unknown.
_NAMED = 30


class PlrError(Exception):
    """Base of every error plr raises on purpose.

    Parameters
    ----------
    message : str
        What is wrong and what to do. ``{parameter}`` stands for the name of the parameter, so that the command line can
        put the option in its place.
    parameter : str, optional
        The parameter that is wrong, or that would help.
    row, column : optional
        Where the problem is: the first such row, by position or id, and the column.
    value : optional
        The value that was refused.
    source : optional
        The file, folder or table that was being read.
    problem : str, optional
        What is wrong with the row, without naming it, for callers that know a better name for it, such as a line.

    Attributes
    ----------
    parameter, row, column, value, source, problem
        As given; None where unknown.

    Examples
    --------
    >>> error = ParameterError("{parameter} must be at least 1, got 0.", parameter="epochs", value=0)
    >>> print(error)
    epochs must be at least 1, got 0.
    >>> error.parameter, error.value
    ('epochs', 0)
    """

    def __init__(
        self,
        message: str = "",
        *,
        parameter: str | None = None,
        row: Any = None,
        column: Any = None,
        value: Any = None,
        source: Any = None,
        problem: str | None = None,
    ) -> None:
        self._message = str(message)
        self.parameter = parameter
        super().__init__(str(self))
        self.row = row
        self.column = column
        self.value = value
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return self._message if self.parameter is None else self._message.replace("{parameter}", self.parameter)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes; a value may be code, which cannot.
        fields = dict(self.__dict__)
        try:
            pickle.dumps(self.value)
        except Exception:
            fields["value"] = repr(self.value)
        return type(self), self.args, fields


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
    """A parameter out of its range, or an unknown name."""


class TargetScaleError(PlrError, ValueError):
    """Labels whose scale does not fit the arithmetic of the learner."""


class InfeasibleError(PlrError, MemoryError):
    """Something asked for that would need an absurd amount of memory."""


class DivergenceError(PlrError, FloatingPointError):
    """Training diverged: the loss became NaN or infinity.

    ``fitted`` has the model from before, where the learner keeps it.
    """

    fitted: Any = None


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


class DependentLabelsWarning(AmbiguousDataWarning):
    """False labels depend on the features, and neither checked rows nor a prior say which labels are true."""


class FewRowsWarning(PlrWarning):
    """There are so few rows with several candidates that what is learned from them may be far off."""


class IdentifierWarning(PlrWarning):
    """A feature looks like an identifier, which says nothing of new rows."""


def __getattr__(name: str) -> Any:
    # These two derive from types of scikit-learn, whose import takes longer than it takes to find most mistakes.
    if name in ("ConvergenceWarning", "NotFittedError"):
        return getattr(importlib.import_module("plr._sklearn_errors"), name)
    raise AttributeError(f"module 'plr.errors' has no attribute {name!r}")


def unknown_name(
    kind: str, name: object, known: Iterable[str], *, parameter: str | None = None, problem: str | None = None
) -> ParameterError:
    """Make the error for an unknown name, with the nearest known spelling.

    Parameters
    ----------
    kind : str
        What the name is to name.
    name : object
    known : iterable of str
    parameter : str, optional
    problem : str, optional
        What to say before the name in place of ``Unknown`` and the kind.

    Examples
    --------
    >>> print(unknown_name("weighting", "averge", ["average", "identification"]))
    Unknown weighting 'averge'; did you mean 'average'? Known: average, identification.
    """
    names = sorted(known)
    folded = {known_name.lower(): known_name for known_name in names}
    near = [folded[match] for match in difflib.get_close_matches(str(name).lower(), folded, n=1, cutoff=0.6)]
    hint = f"; did you mean {near[0]!r}?" if near else "."
    shown = ", ".join(names[:_NAMED]) + (f", ... ({len(names):,} in all)" if len(names) > _NAMED else "")
    begin = f"Unknown {kind}" if problem is None else problem
    return ParameterError(f"{begin} {name!r}{hint} Known: {shown}.", parameter=parameter, value=name)
